"""Losses: a task and an update become one number to minimise.

`autograd.py` gives one differentiable value a list. Here they are reduced to one number, and become modules.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import Parameter, Signature, signature
from typing import Any

import torch
from torch import Tensor

from .autograd import differentiable_values
from .checks import (
    check_alike,
    check_layout,
    check_list_task,
    check_list_weight,
    check_parts,
    check_reduction,
    check_scored,
    check_tensors,
)
from .group_module import GroupModule
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
    "is_autocast",
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
    dim: int,
    indexes: Tensor | None,
    weight: Tensor | None,
    ignore_index: int | None,
    process_group: Any,
) -> Tensor:
    check_reduction(reduction)
    check_tensors(scores, target, mask)
    if is_autocast(scores):
        with torch.autocast(scores.device.type, enabled=False):  # at least float32 throughout, as torch's own losses
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            return _structured_loss(
                task, update, scores, target, mask, reduction, dim, indexes, weight, ignore_index, process_group
            )
    check_layout(task, scores, target, mask, dim, indexes)
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


def is_autocast(tensor: Tensor) -> bool:
    """Whether autocast would change the type of operations on a tensor."""
    device = "cpu" if tensor.is_cpu else tensor.device.type
    return (device == "cpu" or torch.amp.is_autocast_available(device)) and torch.is_autocast_enabled(device)


class StructuredLoss(GroupModule):
    """A loss that trains a network on the metric of a task.

    Args:
        task: what is predicted and what it costs, e.g. `AveragePrecision()`.
        update: which two outputs are contrasted, e.g. `PositiveDirect(epsilon=1.0)`.
        reduction: "mean" over the lists that count, "sum", or "none" for one value for each list.
        ignore_index: a value of the target whose items are left out, as in torch's cross-entropy.
        process_group: processes that hold parts of the same lists, e.g. torch.distributed.group.WORLD. Scores are then
            ranked together, and gradients are those of one process after the mean that DistributedDataParallel takes.

    Call it with:

    - scores (..., items): raw outputs of the network, of any floating-point type. The last dimension is one list, the
      leading dimensions are a batch of lists.
    - target (..., items): 0 or 1 for each item, as bool, int or float. Some tasks take another target and say so.
    - mask (..., items), optional: True where an item is valid.
    - dim: which dimension is the list. For scores (samples, classes), dim=0 makes each class one list.
    - indexes (items,): for flat scores. Items with the same integer are one list; they may come in any order.
    - weight (...): how much each list counts in the mean. With indexes there is one for each id, in ascending order;
      with process_group, for the lists of all processes.

    It returns one number, or with reduction="none" one number for each list. The value of the positive update is at
    least the task loss of the prediction, and that of the negative update at most, if no positive is tied.

    >>> loss = StructuredLoss(AveragePrecision(), PositiveDirect(epsilon=1.0))
    >>> scores = torch.tensor([2.0, 1.0, 0.0], requires_grad=True)
    >>> value = loss(scores, torch.tensor([0, 1, 1]))
    >>> value
    tensor(0.4167, grad_fn=<...>)

    ε may be a tensor with one number for each list. So a grid of ε is one call:

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
        """The loss of these scores."""
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
    """`StructuredLoss` on one task, such as `AveragePrecisionLoss`. Options of the task are passed by name."""

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
        task = _task_of(self.task_class, options)
        super().__init__(task, update, reduction, ignore_index=ignore_index, process_group=process_group)


def _task_of(make: Callable[..., Task], options: dict[str, Any]) -> Task:
    """A task with its options, to which the strength of an update does not belong."""
    for name, update in (("epsilon", "PositiveDirect"), ("margin", "Hinge")):
        if name in options:
            raise TypeError(f"{name} belongs to the update, not to the task. Pass update={update}({options[name]!r}).")
    return make(**options)


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
        task = _task_of(make, options) if options else default
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
    """The loss of an update for a score that is not a linear function of one score tensor.

    You run both inferences yourself and score the two outputs with the network. For each output pass a pair (score,
    task loss), both of shape (examples,). Only the scores get a gradient: this is the paper's theorem for any
    F(x, y, w).
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
