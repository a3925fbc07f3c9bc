"""Lists of different lengths in one flat tensor, where an id for each item says which list it belongs to."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Groups", "group", "runs"]


class Groups(NamedTuple):
    """Which items form a list. Lists have numbers, in the order of their ids, and stand by their lengths."""

    ids: NDArray[np.int64] | None
    """(items,) or None where the items stand list by list already, the shortest list first."""
    low: int
    """The least id."""
    by_id: NDArray[np.int64]
    """(ids,) by id − low: where the list starts once items stand list by list."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts then."""
    lists: NDArray[np.int64]
    """(lists,) the numbers of the lists as they stand."""

    def by_length(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        """Lists of one length at a time: their numbers, and their items (lists, length)."""
        order = self.order()
        for first, last in runs(self.starts):
            items = order[self.starts[first] : self.starts[last]].reshape(last - first, -1)
            yield torch.from_numpy(self.lists[first:last]).to(device), torch.from_numpy(items).to(device)

    def of(self) -> NDArray[np.int64]:
        """(items,) the number of the list of each item."""
        found = np.repeat(self.lists, np.diff(self.starts))
        if self.ids is not None:
            found[self.order()] = found.copy()
        return found

    def order(self) -> NDArray[np.int64]:
        """(items,) the items list by list."""
        order = np.arange(self.starts[-1])
        if self.ids is not None:
            _kernels().arrange(self.ids, self.low, self.by_id.copy(), order)
        return order


def runs(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Neighbouring lists of one length, by where all lists start: the first list and the one behind the last."""
    lengths = np.diff(starts)
    edges = [0, *(1 + np.flatnonzero(np.diff(lengths))).tolist(), lengths.size]
    return list(pairwise(edges)) if lengths.size else []


def group(indexes: Tensor) -> Groups:
    """Group items by their ids."""
    ids = np.ascontiguousarray(indexes.detach().cpu().reshape(-1).long().numpy())
    nothing = np.empty(0, np.int64)
    if not ids.size:
        return Groups(None, 0, nothing, np.zeros(1, np.int64), nothing)
    kernels = _kernels()
    starts = kernels.find_runs(ids)
    if starts.size:
        counts = np.diff(starts)
        if (counts[1:] >= counts[:-1]).all():
            return Groups(None, 0, nothing, starts, np.arange(counts.size))
        ids = np.repeat(np.arange(counts.size), counts)
        low, high = 0, counts.size - 1
    else:
        low, high = kernels.span(ids)
        if high - low > 4 * ids.size + 1024:  # too many for a table
            ids = np.unique(ids, return_inverse=True)[1].reshape(-1)
            low, high = 0, int(ids.max())
    counts = np.zeros(high - low + 1, np.int64)
    kernels.count(ids, low, counts)
    lists, starts, by_id = kernels.by_length(counts)
    return Groups(ids, low, by_id, starts, lists)


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.groups")  # on first use: importing numba takes half a second
