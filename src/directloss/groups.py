"""Lists of different lengths in one flat tensor, where an id for each item says which list it belongs to."""

from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Groups", "group", "runs"]


class Groups(NamedTuple):
    """Which items form a list. Lists have numbers, in the order of their ids, and stand by their lengths."""

    order: NDArray[np.int32] | None
    """(items,) the items list by list, the shortest list first; None where they stand so."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts then."""
    lists: NDArray[np.int64]
    """(lists,) the numbers of the lists as they stand."""

    def by_length(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        """Lists of one length at a time: their numbers, and their items (lists, length)."""
        order = np.arange(self.starts[-1]) if self.order is None else self.order.astype(np.int64)
        for first, last in runs(self.starts):
            items = order[self.starts[first] : self.starts[last]].reshape(last - first, -1)
            yield torch.from_numpy(self.lists[first:last]).to(device), torch.from_numpy(items).to(device)

    def of(self) -> NDArray[np.int64]:
        """(items,) the number of the list of each item."""
        found = np.repeat(self.lists, np.diff(self.starts))
        if self.order is not None:
            found[self.order] = found.copy()
        return found


def runs(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Neighbouring lists of one length, by where all lists start: the first list and the one behind the last."""
    lengths = np.diff(starts)
    edges = [0, *(1 + np.flatnonzero(np.diff(lengths))).tolist(), lengths.size]
    return list(pairwise(edges)) if lengths.size else []


def group(indexes: Tensor) -> Groups:
    """Group items by their ids."""
    ids = np.ascontiguousarray(indexes.detach().cpu().reshape(-1).long().numpy())
    if not ids.size:
        return Groups(None, np.zeros(1, np.int64), np.empty(0, np.int64))
    kernels = import_module("directloss.kernels.groups")
    order = np.empty(ids.size, np.int32)
    begins = kernels.find_runs(ids)
    if begins.size:
        lengths = np.diff(begins)
        if (lengths[1:] >= lengths[:-1]).all():
            return Groups(None, begins, np.arange(lengths.size))
        lists, starts = _by_length(lengths)
        kernels.line_up(begins[lists], lengths[lists], order)
        return Groups(order, starts, lists)
    low, high = kernels.span(ids)
    if high - low > 4 * ids.size + 1024:  # too many for a table
        ids = np.unique(ids, return_inverse=True)[1].reshape(-1)
        low, high = 0, int(ids.max())
    counts = np.zeros(high - low + 1, np.int32)
    kernels.count(ids, low, counts)
    present = np.flatnonzero(counts)
    lists, starts = _by_length(counts[present])
    counts[present[lists]] = starts[:-1]
    kernels.arrange(ids, low, counts, order)
    return Groups(order, starts, lists)


def _by_length(lengths: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of lists, the shortest first, and where each starts."""
    lists = np.argsort(lengths, kind="stable")
    return lists, np.concatenate(([0], np.cumsum(lengths[lists], dtype=np.int64)))
