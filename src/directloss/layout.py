"""Every layout that people have becomes lists in the last dimension, or flat lists with their groups.

Scores may come as (samples, classes), with items to ignore, spread over processes, or flat, with an id for each item
that says which list it belongs to. Lists of different lengths need no padding then.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .checks import (
    check_binary,
    check_finite,
    check_ignore_index,
    check_indexes,
    check_layout,
    check_list_task,
    check_problems,
    check_tensors,
    needs_dispatch,
)
from .groups import Groups, group
from .task import Task

__all__ = ["Arranged", "arrange", "is_ignored"]


class Arranged(NamedTuple):
    """What a task takes."""

    scores: Tensor
    target: Tensor
    mask: Tensor | None
    groups: Groups | None
    """Which items form a list, if scores are flat."""


def arrange(
    task: Task,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None,
    dim: int = -1,
    indexes: Tensor | None = None,
    ignore_index: int | None = None,
    process_group: Any = None,
) -> Arranged:
    """Scores, target and mask with the list in the last dimension, items to ignore masked out."""
    check_tensors(scores, target, mask)
    check_layout(task, scores, target, mask, dim, indexes)
    if ignore_index is not None:
        target, mask = _ignore(task, scores, target, mask, ignore_index)
    if dim != -1:
        check_list_task("dim", task, scores, target)
        _check_values(task, scores, target, mask)
        scores, target = scores.movedim(dim, -1), target.movedim(dim, -1)
        mask = None if mask is None else mask.movedim(dim, -1)
    if process_group is not None:
        from .distributed import gather

        check_list_task("process_group", task, scores, target)
        scores, target, mask, indexes = gather(process_group, scores, target, mask, indexes)
    if indexes is None:
        return Arranged(scores, target, mask, None)
    check_list_task("indexes", task, scores, target)
    check_indexes(scores, indexes)
    check_problems(scores, target, mask, task.event_dims, task.mask_dims)
    if needs_dispatch(scores):
        raise TypeError(
            "indexes= says which lists there are by its numbers, so it cannot be traced or mapped. Pad them."
        )
    if scores.dim() > 1:
        _check_values(task, scores, target, mask)
    flat = None if mask is None else mask.reshape(-1)
    return Arranged(scores.reshape(-1), target.reshape(-1), flat, group(indexes))


def _ignore(
    task: Task, scores: Tensor, target: Tensor, mask: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The target and a mask that leaves out the items whose target is ignore_index."""
    check_ignore_index(ignore_index)
    ignored = is_ignored(target, ignore_index)
    if target.shape == scores.shape:
        valid = ~ignored
    elif target.shape == scores.shape[: scores.dim() - task.event_dims]:
        valid = (~ignored).reshape(*target.shape, *[1] * task.event_dims).expand_as(scores)
    else:
        raise ValueError(
            f"ignore_index is for a target of one value an item or a problem; scores have shape "
            f"{tuple(scores.shape)}, target has {tuple(target.shape)}. Pass a mask."
        )
    return target.masked_fill(ignored, 0), valid if mask is None else mask & valid


def is_ignored(target: Tensor, ignore_index: float) -> Tensor:
    """Which items of a target have the value that is left out; NaN is one, and uint8 has no −100."""
    if ignore_index != ignore_index:
        return target.isnan()
    if not target.dtype.is_floating_point and target.dtype != torch.bool:
        limits = torch.iinfo(target.dtype)
        if not limits.min <= ignore_index <= limits.max:  # the comparison would wrap it
            return torch.zeros_like(target, dtype=torch.bool)
    return target == ignore_index


def _check_values(task: Task, scores: Tensor, target: Tensor, mask: Tensor | None) -> None:
    """Refuse wrong values while they are where the user has them: after a move an error would name another place."""
    if not needs_dispatch(scores) and (mask is None or mask.shape == scores.shape):
        check_finite(scores, mask)
        if task.binary:
            check_binary(scores, target, mask)
