"""Data: functions that return tensors, and a registry of what can be checked and fetched by name."""

from collections.abc import Callable
from pathlib import Path

from ..harness.progress import Steps
from .tables import check_tables
from .voc import check_voc2012

__all__ = ["DATA"]

DATA: dict[str, Callable[[Path, Steps], str]] = {"voc2012": check_voc2012, "tables": check_tables}
"""By name: a function that fetches the data into a folder if it is not there, checks it, and says what is there."""
