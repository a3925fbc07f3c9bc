"""Families of tasks: what tasks have in common becomes a base class, and a metric becomes a few lines in one."""
