"""Lists of different lengths in one flat tensor, where an id for each item says which list it belongs to."""

from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Groups", "group", "parts"]


class Groups(NamedTuple):
    """Which items form a list. Lists have numbers, in the order of their ids."""

    order: NDArray[np.int64] | None
    """(items,) the items list by list, or None where they stand so."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts once items stand list by list."""
    numbers: NDArray[np.int64]
    """(items,) the number of the list of each item."""

    def by_length(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        """Lists of one length at a time: their numbers, and their items (lists, length)."""
        lengths = np.diff(self.starts)
        for length in np.unique(lengths):
            lists = np.flatnonzero(lengths == length)
            items = self.starts[lists, None] + np.arange(length)
            items = items if self.order is None else self.order[items]
            yield torch.from_numpy(lists).to(device), torch.from_numpy(items).to(device)


def group(indexes: Tensor) -> Groups:
    """Group items by their ids."""
    ids = indexes.detach().cpu().reshape(-1).numpy()
    ids = ids if ids.dtype == np.uint64 else ids.astype(np.int64, copy=False)  # differences of int8 would overflow
    steps = ids[1:] != ids[:-1]
    if not (ids[1:] < ids[:-1]).any():
        starts = np.append(0, np.flatnonzero(np.append(steps, ids.size > 0)) + 1)
        return Groups(None, starts, np.repeat(np.arange(starts.size - 1), np.diff(starts)))
    low, high = int(ids.min()), int(ids.max())
    if high - low > 4 * ids.size + 1024:
        ids, low, high = np.unique(ids, return_inverse=True)[1].reshape(-1), 0, ids.size - 1
    ids = (ids - ids.dtype.type(low)).astype(np.int64, copy=False)
    order, numbers = np.empty((2, ids.size), np.int64)
    starts = import_module("directloss.kernels.lists").sort_by_id(ids, high - low + 1, order, numbers)
    return Groups(order, starts, numbers)


def parts(lengths: NDArray[np.int64], most: int) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Lists of about one length at a time, with at most `most` items if there are several: their numbers, the longest.

    Lengths in a part differ by at most an eighth, so lists can be padded to the longest. Empty lists are left out.
    """
    order = lengths.argsort(kind="stable")
    ascending = lengths[order]
    first = int(ascending.searchsorted(0, "right"))
    while first < order.size:
        shortest = int(ascending[first])
        end = int(ascending.searchsorted(shortest + shortest // 8, "right"))
        last = min(end, first + max(1, most // int(ascending[end - 1])))
        yield order[first:last], int(ascending[last - 1])
        first = last
