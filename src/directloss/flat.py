"""The lists of one flat tensor, solved outside of compiled graphs: ids say by their numbers which lists there are.

It is imported on first use: what keeps a function out of graphs takes two seconds to import.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from .autograd import attached
from .checks import check_indexes, check_list_task, needs_dispatch
from .groups import group
from .task import Task
from .update import Row

__all__ = ["flat_values"]


def _flat_values(
    task: Task, row: Row, scores: Tensor, target: Tensor, mask: Tensor | None, indexes: Tensor, summed: bool
) -> tuple[Tensor, Tensor]:
    """The value of every list of a flat tensor, or their sum, with its gradient on scores, and which lists count."""
    check_list_task("indexes", task, scores, target)
    check_indexes(scores, indexes)
    if needs_dispatch(scores):
        raise TypeError(
            "indexes= says which lists there are by its numbers, so it cannot be traced or mapped. Pad them."
        )
    flat, labels = scores.reshape(-1), target.reshape(-1)
    valid = None if mask is None else mask.reshape(-1)
    groups = group(indexes)
    gradient, value, counted = task.contrast_flat(flat.detach(), labels, row, valid, groups)
    if summed:
        return attached(flat, gradient, value.sum()), counted
    flat = flat if flat.dtype == gradient.dtype else flat.to(gradient.dtype)
    of = torch.from_numpy(groups.of()).to(flat.device)
    values = flat.new_zeros(len(value)).index_add(0, of, flat * gradient)  # for the graph
    values.data = value  # for the value: exact, and not NaN where a masked item is
    return values, counted


flat_values = cast(Callable[..., tuple[Tensor, Tensor]], torch.compiler.disable(_flat_values))
