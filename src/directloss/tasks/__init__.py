"""The tasks, one file each. `TASKS` is the one list of them: command line, tests and docs read it."""

from ..task import Task
from .average_precision import AveragePrecision
from .zero_one import ZeroOne

__all__ = ["TASKS", "AveragePrecision", "ZeroOne"]

TASKS: dict[str, type[Task]] = {"average_precision": AveragePrecision, "zero_one": ZeroOne}
