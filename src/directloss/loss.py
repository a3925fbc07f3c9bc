"""Losses: a task and an update become one number to minimise.

`autograd.py` gives one differentiable value a list. Here they are reduced to one number, and become modules.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import Parameter, Signature, signature
from typing import Any

import torch
from torch import Tensor, nn

from .autograd import differentiable_values
from .checks import (
    check_alike,
    check_list_task,
    check_list_weight,
    check_parts,
    check_reduction,
    check_scored,
    check_scores,
)
from .shapes import to_lists
from .task import Task
from .tasks import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    FMeasure,
    IoU,
    PartialAUC,
    PrecisionAtK,
    ReciprocalRank,
    Tversky,
)
from .update import PositiveDirect, Update

__all__ = [
    "AveragePrecisionLoss",
    "FMeasureLoss",
    "IoULoss",
    "NDCGLoss",
    "PartialAUCLoss",
    "PrecisionAtKLoss",
    "ROCAUCLoss",
    "ReciprocalRankLoss",
    "StructuredLoss",
    "TaskLoss",
    "TverskyLoss",
    "average_precision_loss",
    "direct_loss",
    "f_measure_loss",
    "iou_loss",
    "ndcg_loss",
    "partial_auc_loss",
    "precision_at_k_loss",
    "reciprocal_rank_loss",
    "roc_auc_loss",
    "structured_loss",
    "tversky_loss",
]


def structured_loss(
    task: Task,
    update: Update,
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
    """The loss of an update on a task; see `StructuredLoss`."""
    check_parts(task, update)
    return _structured_loss(
        task, update, scores, target, mask, reduction, dim, indexes, weight, ignore_index, process_group
    )


def _structured_loss(
    task: Task,
    update: Update,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None,
    reduction: str,
    dim: int = -1,
    indexes: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int | None = None,
    process_group: Any = None,
) -> Tensor:
    check_reduction(reduction)
    if not isinstance(scores, Tensor):
        check_scores(scores, task.event_dims)
    device = "cpu" if scores.is_cpu else scores.device.type
    if (device == "cpu" or torch.amp.is_autocast_available(device)) and torch.is_autocast_enabled(device):
        with torch.autocast(device, enabled=False):  # at least float32 throughout, as torch's own losses
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            return _structured_loss(
                task, update, scores, target, mask, reduction, dim, indexes, weight, ignore_index, process_group
            )
    if dim != -1 or ignore_index is not None:
        scores, target, mask = to_lists(task, scores, target, mask, dim, ignore_index)
    if process_group is not None:
        from .distributed import gather

        check_list_task("process_group", task, scores, target)
        scores, target, mask, indexes = gather(process_group, scores, target, mask, indexes)
    summed = weight is None and reduction != "none"
    if indexes is None:
        values, counted = differentiable_values(task, update.row, scores, target, mask, summed)
    else:
        from .flat import flat_values

        values, counted = flat_values(task, update.row, scores, target, mask, indexes, summed)
    if weight is not None:
        counted = check_list_weight(weight, values) * counted
        values = values * counted
    if reduction == "sum":
        values = values.sum() if values.dim() else values
    elif reduction == "mean" and (counted.dim() > 0 or weight is not None):
        whole = counted.sum()
        values = values.sum() if values.dim() else values
        values = values / (whole.clamp(min=1) if weight is None else whole.where(whole > 0, 1.0))
    return values if values.dtype == scores.dtype else values.to(scores.dtype)


class StructuredLoss(nn.Module):
    """Train on the task loss itself.

    Args:
        task: what is predicted and what it costs, e.g. `AveragePrecision()`.
        update: which two outputs are contrasted, e.g. `PositiveDirect(epsilon=1.0)`.
        reduction: "mean" over the lists that count, "sum", or "none" for one value per list.
        ignore_index: a value of the target whose items are left out, as in torch's cross-entropy.
        process_group: processes that hold parts of the same lists, e.g. torch.distributed.group.WORLD. Scores are then
            ranked together, and gradients are those of one process after the mean that DistributedDataParallel takes.

    Call it with scores (..., items), raw, of any floating-point type; target, what the task asks for, as a rule bool,
    int or float in {0, 1}; and optionally mask, True where an item is valid. Leading dimensions are a batch of lists.
    Other shapes come by name: `dim` is the dimension of the list, so dim=0 for scores (samples, classes) is one list a
    class; `indexes`, an integer for every item, ranks within equal integers, whatever their order; `weight`, one number
    a list, weighs lists in the mean.
    The value is the function whose gradient this is; for the direct updates the ramp loss. Where no positive is tied,
    it brackets the metric: negative ≤ task loss of the prediction ≤ positive.

    >>> loss = StructuredLoss(AveragePrecision(), PositiveDirect(epsilon=1.0))
    >>> scores = torch.tensor([2.0, 1.0, 0.0], requires_grad=True)
    >>> value = loss(scores, torch.tensor([0, 1, 1]))
    >>> value
    tensor(0.4167, grad_fn=<...>)

    ε may be a tensor with one number a list, so that a grid of them is one call:

    >>> grid = StructuredLoss(AveragePrecision(), PositiveDirect(torch.tensor([0.1, 1.0, 10.0])), reduction="none")
    >>> grid(scores.expand(3, 3), torch.tensor([0, 1, 1]).expand(3, 3))
    tensor([0.4167, 0.4167, 0.4167], grad_fn=<...>)
    """

    def __init__(
        self,
        task: Task,
        update: Update,
        reduction: str = "mean",
        *,
        ignore_index: int | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        check_parts(task, update)
        self.task = task
        self.update = update
        self.reduction = check_reduction(reduction)
        self.ignore_index = ignore_index
        self.process_group = process_group

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        *,
        dim: int = -1,
        indexes: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        return _structured_loss(
            self.task,
            self.update,
            scores,
            target,
            mask,
            self.reduction,
            dim,
            indexes,
            weight,
            self.ignore_index,
            self.process_group,
        )

    def extra_repr(self) -> str:
        ignored = "" if self.ignore_index is None else f", ignore_index={self.ignore_index}"
        return f"task={self.task}, update={self.update}, reduction={self.reduction!r}{ignored}"


class TaskLoss(StructuredLoss):
    """`StructuredLoss` on one task, whose options come by name: the front doors, such as `AveragePrecisionLoss`."""

    task_class: type[Task]

    def __init__(
        self,
        update: Update = PositiveDirect(1.0),
        reduction: str = "mean",
        *,
        ignore_index: int | None = None,
        process_group: Any = None,
        **options: Any,
    ) -> None:
        task = self.task_class(**options)
        super().__init__(task, update, reduction, ignore_index=ignore_index, process_group=process_group)


def _front_door(task_class: type[Task], functional: str) -> tuple[type[TaskLoss], Callable[..., Tensor]]:
    """The module and the function of a task."""
    name = task_class.__name__
    options = [
        one.replace(kind=Parameter.KEYWORD_ONLY)
        for one in signature(task_class).parameters.values()
        if one.kind is Parameter.POSITIONAL_OR_KEYWORD
    ]
    listed = "".join(f", {one.name}={one.default!r}" for one in options)
    update = Parameter("update", Parameter.POSITIONAL_OR_KEYWORD, default=PositiveDirect(1.0), annotation=Update)
    reduction = Parameter("reduction", Parameter.POSITIONAL_OR_KEYWORD, default="mean", annotation=str)
    others = [Parameter(one, Parameter.KEYWORD_ONLY, default=None) for one in ("ignore_index", "process_group")]
    module = type(f"{name}Loss", (TaskLoss,), {
        "__doc__": f"`StructuredLoss` on `{name}`: {name}Loss(update=PositiveDirect(1.0), reduction='mean'{listed}).",
        "__module__": __name__,
        "__signature__": Signature([update, reduction, *others, *options]),
        "task_class": task_class,
    })  # fmt: skip
    default, make = task_class(), lru_cache(maxsize=64)(task_class)

    def function(
        scores: Tensor,
        target: Tensor,
        *,
        update: Update = PositiveDirect(1.0),
        mask: Tensor | None = None,
        reduction: str = "mean",
        dim: int = -1,
        indexes: Tensor | None = None,
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        process_group: Any = None,
        **options: Any,
    ) -> Tensor:
        task = make(**options) if options else default
        return structured_loss(
            task,
            update,
            scores,
            target,
            mask,
            reduction,
            dim=dim,
            indexes=indexes,
            weight=weight,
            ignore_index=ignore_index,
            process_group=process_group,
        )

    function.__name__ = function.__qualname__ = functional
    function.__doc__ = f"The functional form of `{name}Loss`."
    return module, function


AveragePrecisionLoss, average_precision_loss = _front_door(AveragePrecision, "average_precision_loss")
FMeasureLoss, f_measure_loss = _front_door(FMeasure, "f_measure_loss")
IoULoss, iou_loss = _front_door(IoU, "iou_loss")
NDCGLoss, ndcg_loss = _front_door(NDCG, "ndcg_loss")
PartialAUCLoss, partial_auc_loss = _front_door(PartialAUC, "partial_auc_loss")
PrecisionAtKLoss, precision_at_k_loss = _front_door(PrecisionAtK, "precision_at_k_loss")
ReciprocalRankLoss, reciprocal_rank_loss = _front_door(ReciprocalRank, "reciprocal_rank_loss")
ROCAUCLoss, roc_auc_loss = _front_door(ROCAUC, "roc_auc_loss")
TverskyLoss, tversky_loss = _front_door(Tversky, "tversky_loss")


def direct_loss(away: Sequence[Any], toward: Sequence[Any], update: Update, reduction: str = "mean") -> Tensor:
    """The loss of an update for a score that is no linear function of one score tensor.

    You run both inferences yourself, score the two outputs with the network, and pass for each a pair (score, task
    loss), one value per example. Only the scores are differentiated: this is the paper's theorem for any F(x, y, w).
    For `PositiveDirect(epsilon)`, away is y_direct = argmax F + εL and toward is y_w = argmax F.

    >>> F_direct = torch.tensor([1.5], requires_grad=True)
    >>> F_predicted = torch.tensor([1.7], requires_grad=True)
    >>> direct_loss((F_direct, 1.0), (F_predicted, 0.0), PositiveDirect(epsilon=0.5)).backward()
    >>> F_direct.grad, F_predicted.grad
    (tensor([2.]), tensor([-2.]))
    """
    check_reduction(reduction)
    away_score, away_loss = check_scored("away", away)
    toward_score, toward_loss = check_scored("toward", toward)
    check_alike(away_score, toward_score)
    values = update.row.value(away_score - toward_score, away_loss, toward_loss)
    if reduction == "none":
        return values
    return values.sum() if reduction == "sum" else values.sum() / max(values.numel(), 1)
