"""Losses: a task and an update become one number to minimise.

`autograd.py` gives one differentiable value a list. Here they are reduced to one number, and become modules.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .advice import Advice
from .autograd import differentiable, remember_description
from .checks import (
    check_list_weight,
    check_one_shape,
    check_parts,
    check_reduction,
    check_scored,
    check_tensors,
    needs_dispatch,
)
from .group_module import GroupModule
from .layout import arrange
from .task import Task
from .tasks import NDCG, ROCAUC, AveragePrecision, IoU
from .tasks.ndcg import Gains
from .update import PositiveDirect, Update

__all__ = [
    "AveragePrecisionLoss",
    "IoULoss",
    "NDCGLoss",
    "ROCAUCLoss",
    "StructuredLoss",
    "direct_loss",
    "is_autocast",
    "reduce",
    "structured_loss",
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
    return _evaluate(
        None, task, update, scores, target, mask, reduction, dim, indexes, weight, ignore_index, process_group
    )


def _evaluate(
    advice: Advice | None,
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
    """Check, arrange, contrast and reduce; a module adds its advice."""
    check_parts(task, update)
    check_reduction(reduction)
    check_tensors(scores, target, mask)
    if indexes is not None and torch.compiler.is_compiling():
        from .uncompiled import run_uncompiled

        return run_uncompiled(
            _evaluate, advice, task, update, scores, target, mask, reduction, dim, indexes, weight, ignore_index,
            process_group,
        )  # fmt: skip
    if is_autocast(scores):  # at least float32, as in torch's own losses
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    lists = arrange(task, scores, target, mask, dim, indexes, ignore_index, process_group)
    values, gradient, counted = differentiable(task, update.spec, lists.scores, lists.target, lists.mask, lists.groups)
    if advice is not None and values.requires_grad and not needs_dispatch(scores):
        advice.watch(task, lists, values, gradient, counted)
    value = reduce(values, counted, weight, reduction)
    dtype = lists.scores.dtype  # of all processes
    return value if value.dtype is dtype else value.to(dtype)


def reduce(values: Tensor, counted: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """The values of all lists, or their sum, or their mean over the lists that count; a list that does not has 0."""
    if weight is not None:
        counted = check_list_weight(weight, values) * counted
        values = values * counted
    elif values.dim() == 0:
        return values
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    total = counted.sum()
    return values.sum() / (total.clamp(min=1) if weight is None else total.where(total > 0, 1.0))


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
        dim: which dimension of scores is the list. For scores (samples, classes), dim=0 makes each class one list.
        ignore_index: a value of the target whose items are left out, as in torch's cross-entropy.
        process_group: processes that hold parts of the same lists, e.g. torch.distributed.group.WORLD. Scores are then
            ranked together, and gradients are those of one process after the mean that DistributedDataParallel takes.

    Call it with:

    - scores (..., items): raw outputs of the network, of any floating-point type. The last dimension is one list, the
      leading dimensions are a batch of lists.
    - target (..., items): 0 or 1 for each item, as bool, int or float. Some tasks take another target and say so.
    - mask (..., items), optional: True where an item is valid.
    - dim: in place of the one that the loss was made with.
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
        dim: int = -1,
        ignore_index: int | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        check_parts(task, update)
        remember_description(task)
        self.task = task
        self.update = update
        self.reduction = check_reduction(reduction)
        self.dim = dim
        self.ignore_index = ignore_index
        self.process_group = process_group
        self._advice = Advice()

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        *,
        dim: int | None = None,
        indexes: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """The loss of these scores."""
        return _evaluate(
            self._advice, self.task, self.update, scores, target, mask, self.reduction,
            self.dim if dim is None else dim, indexes, weight, self.ignore_index, self.process_group,
        )  # fmt: skip

    if TYPE_CHECKING:  # torch's own says nothing of the arguments

        def __call__(
            self,
            scores: Tensor,
            target: Tensor,
            mask: Tensor | None = None,
            *,
            dim: int | None = None,
            indexes: Tensor | None = None,
            weight: Tensor | None = None,
        ) -> Tensor:
            """`forward`, with the hooks of a module."""
            ...

    def extra_repr(self) -> str:
        shown = [f"task={self.task}", f"update={self.update}", f"reduction={self.reduction!r}"]
        shown += [f"dim={self.dim}"] if self.dim != -1 else []
        shown += [] if self.ignore_index is None else [f"ignore_index={self.ignore_index}"]
        return ", ".join(shown)


class AveragePrecisionLoss(StructuredLoss):
    """`StructuredLoss` on `AveragePrecision`.

    >>> scores, target = torch.tensor([2.0, 1.0, 0.0], requires_grad=True), torch.tensor([0, 1, 1])
    >>> AveragePrecisionLoss()(scores, target)
    tensor(0.4167, grad_fn=<...>)
    """

    def __init__(
        self,
        update: Update = PositiveDirect(1.0),
        reduction: str = "mean",
        *,
        dim: int = -1,
        ignore_index: int | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            AveragePrecision(), update, reduction, dim=dim, ignore_index=ignore_index, process_group=process_group
        )


class ROCAUCLoss(StructuredLoss):
    """`StructuredLoss` on `ROCAUC`, the area under the ROC curve.

    >>> scores, target = torch.tensor([2.0, 1.0, 0.0], requires_grad=True), torch.tensor([0, 1, 1])
    >>> ROCAUCLoss()(scores, target)
    tensor(1., grad_fn=<...>)
    """

    def __init__(
        self,
        update: Update = PositiveDirect(1.0),
        reduction: str = "mean",
        *,
        dim: int = -1,
        ignore_index: int | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(ROCAUC(), update, reduction, dim=dim, ignore_index=ignore_index, process_group=process_group)


class NDCGLoss(StructuredLoss):
    """`StructuredLoss` on `NDCG`, of the first k ranks or all; the target holds grades, worth 2^grade − 1 or your own.

    >>> scores, grades = torch.tensor([2.0, 1.0, 0.0], requires_grad=True), torch.tensor([0, 3, 1])
    >>> NDCGLoss(k=2)(scores, grades)
    tensor(0.4212, grad_fn=<...>)
    """

    def __init__(
        self,
        update: Update = PositiveDirect(1.0),
        reduction: str = "mean",
        *,
        k: int | None = None,
        gains: Gains = "exponential",
        dim: int = -1,
        ignore_index: int | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            NDCG(k, gains), update, reduction, dim=dim, ignore_index=ignore_index, process_group=process_group
        )


class IoULoss(StructuredLoss):
    """`StructuredLoss` on `IoU`; with event_dims=2 each image (H, W) is one problem.

    >>> scores = torch.tensor([[[0.9, 0.4], [-0.2, -0.1]]], requires_grad=True)  # one image of 2 × 2 pixels
    >>> IoULoss(event_dims=2)(scores, torch.tensor([[[1, 0], [0, 1]]]))
    tensor(0.6667, grad_fn=<...>)
    """

    def __init__(
        self,
        update: Update = PositiveDirect(1.0),
        reduction: str = "mean",
        *,
        event_dims: int = 1,
        count_empty: bool = False,
        dim: int = -1,
        ignore_index: int | None = None,
        process_group: Any = None,
    ) -> None:
        task = IoU(event_dims=event_dims, count_empty=count_empty)
        super().__init__(task, update, reduction, dim=dim, ignore_index=ignore_index, process_group=process_group)


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
    check_one_shape(away_score, toward_score)
    values = update.spec.value(away_score - toward_score, away_loss, toward_loss)
    if reduction == "none":
        return values
    return values.sum() if reduction == "sum" else values.sum() / max(values.numel(), 1)
