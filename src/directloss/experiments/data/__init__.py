"""Data: functions that return tensors."""
