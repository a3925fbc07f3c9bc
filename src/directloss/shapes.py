"""The shapes that people have, as the lists that tasks take.

Scores may come as (samples, classes), with items to ignore, or flat, with an id for each item that says which list it
belongs to. Lists of different lengths need no padding then.
"""

import torch
from torch import Tensor

from .checks import (
    check_binary,
    check_finite,
    check_ignore_index,
    check_indexes,
    check_is_task,
    check_layout,
    check_list_task,
    check_problems,
    check_tensors,
    needs_dispatch,
)
from .families import RankingTask
from .groups import group
from .task import Task

__all__ = ["metric", "to_lists"]


def to_lists(
    task: Task, scores: Tensor, target: Tensor, mask: Tensor | None, dim: int, ignore_index: int | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scores, target and mask with the list in the last dimension, and items to ignore masked out."""
    if ignore_index is not None:
        check_ignore_index(ignore_index)
        ignored = target == ignore_index
        if target.shape == scores.shape:
            valid = ~ignored
        elif target.shape == scores.shape[: scores.dim() - task.event_dims]:
            valid = (~ignored).reshape(*target.shape, *[1] * task.event_dims).expand_as(scores)
        else:
            raise ValueError(
                f"ignore_index is for a target of one value an item or a problem; scores have shape "
                f"{tuple(scores.shape)}, target has {tuple(target.shape)}. Pass a mask."
            )
        mask = valid if mask is None else mask & valid
        target = target.masked_fill(ignored, 0)
    if dim != -1:
        check_list_task("dim", task, scores, target)
        _check_values(task, scores, target, mask)
        scores, target = scores.movedim(dim, -1), target.movedim(dim, -1)
        mask = None if mask is None else mask.movedim(dim, -1)
    return scores, target, mask


def _check_values(task: Task, scores: Tensor, target: Tensor, mask: Tensor | None) -> None:
    """Refuse wrong values while they are where the user has them: after a move an error would name another place."""
    if not needs_dispatch(scores) and (mask is None or mask.shape == scores.shape):
        check_finite(scores, mask)
        if isinstance(task, RankingTask):
            check_binary(scores, target, mask)


@torch.no_grad()
def metric(
    task: Task,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    indexes: Tensor | None = None,
    dim: int = -1,
    ignore_index: int | None = None,
) -> Tensor:
    """The metric of a task, for validation: the mean of 1 − task loss over the lists that count.

    Args:
        task: which metric, e.g. `AveragePrecision()`, or a task of your own.
        scores: (..., items), raw outputs of the network.
        target: (..., items), what the task takes; for most tasks 0 or 1 for each item.
        mask: (..., items), True where an item is valid.
        indexes: (items,), for flat scores: items with the same integer are one list.
        dim: which dimension is the list.
        ignore_index: a value of the target whose items are left out.

    Returns one number, 0 if no list counts.

    >>> from directloss import AveragePrecision
    >>> metric(AveragePrecision(), torch.tensor([0.9, 0.8, 0.1]), torch.tensor([0, 1, 0]))
    tensor(0.5000)
    >>> scores, target = torch.tensor([[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]]), torch.tensor([[0, 1], [1, 0], [0, 1]])
    >>> metric(AveragePrecision(), scores, target, dim=0)  # each class is a list: the mean of 1/2 and 7/12
    tensor(0.5417)
    """
    check_is_task(task)
    check_tensors(scores, target, mask)
    check_layout(task, scores, target, mask, dim, indexes)
    scores, target, mask = to_lists(task, scores, target, mask, dim, ignore_index)
    if indexes is None:
        quality, counted = _quality(task, scores, target, mask)
    else:
        check_list_task("indexes", task, scores, target)
        check_indexes(scores, indexes)
        check_problems(scores, target, mask, task.event_dims, task.mask_dims)
        _check_values(task, scores, target, mask)
        mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
        flat = [part.reshape(-1) for part in (scores, target, mask)]
        lists = group(indexes).by_length(scores.device)
        parts = [_quality(task, *(part[items] for part in flat)) for _, items in lists]
        if not parts:
            return scores.new_zeros((), dtype=torch.promote_types(scores.dtype, torch.float32))
        quality, counted = (torch.cat(part) for part in zip(*parts, strict=True))
    return (quality * counted).sum() / counted.sum().clamp(min=1)


def _quality(task: Task, scores: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    *_, counted = task._prepare(scores, target, mask)
    return 1 - task.infer(scores, target, mask).loss, counted
