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

    places: NDArray[np.int64]
    """(items,) where each item goes, so that they stand list by list, the shortest list first."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts then."""
    lists: NDArray[np.int64]
    """(lists,) the numbers of the lists as they stand."""

    def by_length(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        """Lists of one length at a time: their numbers, and their items (lists, length)."""
        order = np.empty_like(self.places)
        order[self.places] = np.arange(order.size)
        for first, last in runs(self.starts):
            items = order[self.starts[first] : self.starts[last]].reshape(last - first, -1)
            yield torch.from_numpy(self.lists[first:last]).to(device), torch.from_numpy(items).to(device)

    def of(self) -> NDArray[np.int64]:
        """(items,) the number of the list of each item."""
        return np.repeat(self.lists, np.diff(self.starts))[self.places]


def runs(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Neighbouring lists of one length, by where all lists start: the first list and the one behind the last."""
    lengths = np.diff(starts)
    edges = [0, *(1 + np.flatnonzero(np.diff(lengths))).tolist(), lengths.size]
    return list(pairwise(edges)) if lengths.size else []


def group(indexes: Tensor) -> Groups:
    """Group items by their ids."""
    ids = np.ascontiguousarray(indexes.detach().cpu().reshape(-1).long().numpy())
    low, high = (int(ids.min()), int(ids.max())) if ids.size else (0, 0)
    if high - low > 4 * ids.size + 1024:  # too many for a table
        ids = np.unique(ids, return_inverse=True)[1].reshape(-1)
        low = 0
    counts = np.bincount(ids - low if low else ids)
    present = np.flatnonzero(counts)
    lengths = counts[present]
    lists = np.argsort(lengths, kind="stable")
    starts = np.concatenate(([0], np.cumsum(lengths[lists])))
    by_id, places = np.zeros_like(counts), np.empty_like(ids)
    by_id[present[lists]] = starts[:-1]
    import_module("directloss.kernels.groups").arrange(ids, low, by_id, places)
    return Groups(places, starts, lists)
