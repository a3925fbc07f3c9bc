"""Train a network on the metric itself: direct loss minimization with exact loss-augmented inference, for PyTorch."""

from . import interrupts as interrupts  # first: from here on Ctrl-C ends the command quietly, also while torch loads
from .loss import AveragePrecisionLoss, StructuredLoss, average_precision_loss, direct_loss, structured_loss
from .task import Output, Problem, Task
from .tasks import TASKS, AveragePrecision, ZeroOne
from .update import TRUTH, UPDATES, CentralDirect, Hinge, NegativeDirect, Perceptron, PositiveDirect, Row, Update
from .verification import TaskError, check_task

__all__ = [
    "TASKS",
    "TRUTH",
    "UPDATES",
    "AveragePrecision",
    "AveragePrecisionLoss",
    "CentralDirect",
    "Hinge",
    "NegativeDirect",
    "Output",
    "Perceptron",
    "PositiveDirect",
    "Problem",
    "Row",
    "StructuredLoss",
    "Task",
    "TaskError",
    "Update",
    "ZeroOne",
    "average_precision_loss",
    "check_task",
    "direct_loss",
    "structured_loss",
]

__version__ = "0.1.0"
