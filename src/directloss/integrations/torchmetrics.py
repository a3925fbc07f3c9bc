"""A metric for torchmetrics, and so for Lightning's `self.log`: `TaskMetric`. It needs torchmetrics."""

from typing import Any

import torch
from torch import Tensor

from ..checks import check_binary, check_finite, check_is_task, check_tensors
from ..layout import arrange
from ..metric import metric
from ..task import Task

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "directloss.integrations.torchmetrics needs torchmetrics; install it with: pip install torchmetrics",
        name=error.name,
    ) from error

__all__ = ["TaskMetric"]

ALONE = torch.iinfo(torch.int64).min  # the id of a flat list that has none


class TaskMetric(Metric):
    """`metric` of all that was seen, in all processes.

    Flat scores (items,) of a task on lists are parts of one list: `compute` ranks all of them together. With `indexes`,
    items with the same integer are one list, whichever batch and process they came with. With `dim`, as for scores
    (samples, classes) and dim=0, the batches are parts of one list for each class. Otherwise the lists in a batch are
    whole: for scores (queries, items) `compute` is the mean over all queries that count.

    Args:
        task: which metric, e.g. `AveragePrecision()`.
        dim: which dimension of scores is the list.
        ignore_index: a value of the target whose items are left out.
        options: those of every metric of torchmetrics, e.g. `process_group`.

    It is NaN if no list counts. Scores are stored, so `compute` is exact; they take memory.

    >>> from directloss import AveragePrecision
    >>> ap = TaskMetric(AveragePrecision())
    >>> ap.update(torch.tensor([0.9, 0.8]), torch.tensor([0, 1]))
    >>> ap.update(torch.tensor([0.1, 0.0]), torch.tensor([0, 1]))
    >>> ap.compute()  # of one list of four items
    tensor(0.5000)
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(self, task: Task, *, dim: int = -1, ignore_index: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        check_is_task(task)
        self.task, self.dim, self.ignore_index = task, dim, ignore_index
        for name in ("scores", "target", "indexes", "values"):
            self.add_state(name, default=[], dist_reduce_fx="cat")
        # By its name alone: a MetricCollection lets metrics share states whose names and first values are the same.
        self.add_state(f"of {task!r}, dim {dim}, ignore_index {ignore_index}", torch.tensor(0), dist_reduce_fx="max")

    def update(self, scores: Tensor, target: Tensor, mask: Tensor | None = None, indexes: Tensor | None = None) -> None:
        """Take note of a batch."""
        check_tensors(scores, target, mask)
        scores = scores.detach().to(torch.promote_types(scores.dtype, torch.float32))
        of_lists = self.task.event_dims == 1 and self.task.exchangeable and target.shape == scores.shape
        if indexes is None and not (of_lists and (scores.dim() == 1 or self.dim not in (-1, scores.dim() - 1))):
            values = metric(self.task, scores, target, mask, "none", dim=self.dim, ignore_index=self.ignore_index)
            none = scores.new_empty(0)
            return self._append(none, none, none.long(), values.reshape(-1))
        dim = -1 if scores.dim() == 1 else self.dim
        lists = arrange(self.task, scores, target, mask, dim, indexes, self.ignore_index)
        scores, target, mask = lists[:3]
        check_finite(scores, mask)
        if self.task.binary:
            check_binary(scores, target, mask)
        if indexes is not None:
            ids = indexes.reshape(-1).to(scores.device, torch.int64)
        elif scores.dim() == 1:
            ids = torch.full_like(scores, ALONE, dtype=torch.int64)
        else:
            shape = scores.shape[:-1]
            ids = torch.arange(shape.numel(), device=scores.device).reshape(*shape, 1).expand_as(scores)
        which = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
        self._append(scores[which], target[which], ids[which], scores.new_empty(0))

    def compute(self) -> Tensor:
        """The mean over all lists that count."""
        scores, target, indexes, values = (dim_zero_cat(part) for part in self._parts())
        if scores.numel():
            found = metric(self.task, scores, target, reduction="none", indexes=indexes)
            values = torch.cat([values, found.to(values.device)])
        return values.nanmean()

    def _parts(self) -> tuple[Any, ...]:
        return self.scores, self.target, self.indexes, self.values

    def _append(self, *parts: Tensor) -> None:
        """Every state grows in every batch: processes then exchange tensors of one kind."""
        for name, part in zip(self._parts(), parts, strict=True):
            name.append(part)
