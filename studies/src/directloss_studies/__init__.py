"""Studies with directloss: the paper's studies and others, their data and reports, and the command `directloss`."""

__version__ = "0.2.0"
