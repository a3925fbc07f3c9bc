"""The metric of a task, for validation."""

from typing import Any

import torch
from torch import Tensor

from .autograd import run_output
from .checks import check_is_task, check_reduction
from .layout import arrange
from .loss import reduce
from .task import Task

__all__ = ["metric"]


@torch.no_grad()
def metric(
    task: Task,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    reduction: str = "mean",
    *,
    dim: int = -1,
    indexes: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int | None = None,
    process_group: Any = None,
) -> Tensor:
    """The metric of a task, for validation: the mean of 1 − task loss over the lists that count.

    Args:
        task: which metric, e.g. `AveragePrecision()`, or a task of your own.
        scores: (..., items), raw outputs of the network.
        target: (..., items), what the task takes; for most tasks 0 or 1 for each item.
        mask: (..., items), True where an item is valid.
        reduction: "mean", "sum", or "none" for one value for each list, e.g. the average precision of each class.
        dim: which dimension is the list.
        indexes: (items,), for flat scores: items with the same integer are one list.
        weight: (...), how much each list counts in the mean.
        ignore_index: a value of the target whose items are left out.
        process_group: processes that hold parts of the same lists; see `StructuredLoss`.

    A list that does not count, as one without a positive, is NaN; so is the mean if no list counts.

    >>> from directloss import AveragePrecision
    >>> metric(AveragePrecision(), torch.tensor([0.9, 0.8, 0.1]), torch.tensor([0, 1, 0]))
    tensor(0.5000)
    >>> scores, target = torch.tensor([[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]]), torch.tensor([[0, 1], [1, 0], [0, 1]])
    >>> metric(AveragePrecision(), scores, target, dim=0, reduction="none")  # each class is a list
    tensor([0.5000, 0.5833])
    """
    check_is_task(task)
    check_reduction(reduction)
    scores, target, mask, groups = arrange(task, scores, target, mask, dim, indexes, ignore_index, process_group)
    _, loss, counted = run_output(task, scores, target, 0.0, mask, groups)
    value = reduce((1 - loss).where(counted, 0.0), counted, weight, reduction)
    if reduction == "none":
        return value.where(counted, torch.nan)
    some = counted if weight is None else counted & (weight > 0)
    return value if reduction == "sum" else value.where(some.any(), torch.nan)
