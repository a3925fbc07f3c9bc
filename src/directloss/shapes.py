"""The shapes that people have, as the lists that tasks take.

Scores may come as (samples, classes), with items to ignore, or flat, with an id for each item that says which list it
belongs to. Lists of different lengths need no padding then.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from .checks import check_indexes, check_list_task, needs_dispatch
from .task import Task
from .update import Row

__all__ = ["flat_values", "metric", "to_lists"]


def to_lists(
    task: Task, scores: Tensor, target: Tensor, mask: Tensor | None, dim: int, ignore_index: int | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scores, target and mask with the list in the last dimension, and items to ignore masked out."""
    if ignore_index is not None:
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
        scores, target = scores.movedim(dim, -1), target.movedim(dim, -1)
        mask = None if mask is None else mask.movedim(dim, -1)
    return scores, target, mask


class Groups(NamedTuple):
    """Which items of a flat tensor form a list."""

    of: Tensor
    """(items,) the number of the list of each item; lists are numbered in the order of their ids."""
    order: Tensor
    """(items,) the items, list by list."""
    lengths: Tensor
    """(lists,) how many items each list has."""


def group(indexes: Tensor) -> Groups:
    """Group items by their ids."""
    ids = indexes.detach().cpu().reshape(-1).numpy()
    low, high = (int(ids.min()), int(ids.max())) if ids.size else (0, 0)
    if high - low <= 4 * ids.size + 1024:  # a table is faster than a sort
        counts = np.bincount(ids - low, minlength=1)
        numbers = np.cumsum(counts > 0) - 1
        of, lengths = numbers[ids - low], counts[counts > 0]
    else:
        _, of, lengths = np.unique(ids, return_inverse=True, return_counts=True)
        of = of.reshape(-1)
    if ids.size == 0:
        lengths = lengths[:0]
    order = np.argsort(of, kind="stable")
    return Groups(*(torch.from_numpy(part).to(indexes.device) for part in (of, order, lengths)))


def _flat_values(
    task: Task, row: Row, scores: Tensor, target: Tensor, mask: Tensor | None, indexes: Tensor
) -> tuple[Tensor, Tensor]:
    """The value of every list of a flat tensor, with its gradient on scores, and which lists count."""
    check_list_task("indexes", task, scores, target)
    check_indexes(scores, indexes)
    if needs_dispatch(scores):
        raise TypeError(
            "indexes= says which lists there are by its numbers, so it cannot be traced or mapped. Pad them."
        )
    flat, labels = scores.reshape(-1), target.reshape(-1)
    valid = None if mask is None else mask.reshape(-1)
    groups = group(indexes)
    gradient, value, counted = contrast_flat(task, flat.detach(), labels, row, valid, groups)
    flat = flat if flat.dtype == gradient.dtype else flat.to(gradient.dtype)
    values = flat.new_zeros(len(groups.lengths)).index_add(0, groups.of, flat * gradient)  # for the graph
    values.data = value  # for the value: exact, and not NaN where a masked item is
    return values, counted


flat_values = cast(Callable[..., tuple[Tensor, Tensor]], torch.compiler.disable(_flat_values))


def contrast_flat(
    task: Task, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None, groups: Groups
) -> tuple[Tensor, Tensor, Tensor]:
    """`Task.contrast` of lists of different lengths: those of one length together, so that nothing is padded."""
    gradient = torch.zeros_like(scores, dtype=torch.promote_types(scores.dtype, torch.float32))
    value = gradient.new_zeros(len(groups.lengths))
    counted = torch.zeros_like(value, dtype=torch.bool)
    for lists, items in by_length(groups):
        valid = torch.ones_like(items, dtype=torch.bool) if mask is None else mask[items]
        each = Row(_of(lists, row.away), _of(lists, row.toward), _of(lists, row.scale))
        gradient[items], value[lists], counted[lists] = task.contrast(scores[items], target[items], each, valid)
    return gradient, value, counted


def by_length(groups: Groups) -> Iterator[tuple[Tensor, Tensor]]:
    """Lists of one length at a time: their numbers, and their items (lists, length)."""
    starts = groups.lengths.cumsum(0) - groups.lengths
    for length in groups.lengths.unique().tolist():
        lists = (groups.lengths == length).nonzero().squeeze(1)
        yield lists, groups.order[starts[lists].unsqueeze(1) + torch.arange(length, device=lists.device)]


def _of(lists: Tensor, number: Any) -> Any:
    return number[lists] if isinstance(number, Tensor) and number.dim() > 0 else number


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
    """The metric itself, for validation: 1 − L of the prediction, its mean over the lists that count.

    0 if no list counts. Shapes are those of a loss.

    >>> from directloss import AveragePrecision
    >>> scores, target = torch.tensor([[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]]), torch.tensor([[0, 1], [1, 0], [0, 1]])
    >>> metric(AveragePrecision(), scores, target, dim=0)  # one list a class: 1/2 and 7/12
    tensor(0.5417)
    """
    scores, target, mask = to_lists(task, scores, target, mask, dim, ignore_index)
    if indexes is None:
        quality, counted = _quality(task, scores, target, mask)
    else:
        check_list_task("indexes", task, scores, target)
        check_indexes(scores, indexes)
        scores, target = scores.reshape(-1), target.reshape(-1)
        parts = []
        for _, items in by_length(group(indexes)):
            parts.append(
                _quality(task, scores[items], target[items], None if mask is None else mask.reshape(-1)[items])
            )
        quality, counted = (torch.cat(part) for part in zip(*parts, strict=True)) if parts else (scores, scores > 0)
    return (quality * counted).sum() / counted.sum().clamp(min=1)


def _quality(task: Task, scores: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    *_, counted = task._prepare(scores, target, mask)
    return 1 - task.infer(scores, target, mask).loss, counted
