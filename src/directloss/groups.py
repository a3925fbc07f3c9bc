"""Lists of different lengths in one flat tensor, where an id for each item says which list it belongs to."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Groups", "group"]


class Groups(NamedTuple):
    """Which items form a list. Lists have numbers, in the order of their ids."""

    ids: NDArray[np.int64] | None
    """(items,) or None where the items stand list by list already."""
    low: int
    """The least id."""
    numbers: NDArray[np.int64]
    """(ids,) by id − low: the number of the list."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts once items stand list by list."""

    def by_length(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        """Lists of one length at a time, the shortest first: their numbers, and their items (lists, length)."""
        order, lengths = self.order(), np.diff(self.starts)
        each, counts = np.unique(lengths, return_counts=True)
        alike = np.split(np.argsort(lengths, kind="stable"), np.cumsum(counts)[:-1])
        for length, lists in zip(each, alike, strict=False):  # without items: one part, no length
            items = order[self.starts[lists, None] + np.arange(length)]
            yield torch.from_numpy(lists).to(device), torch.from_numpy(items).to(device)

    def of(self) -> NDArray[np.int64]:
        """(items,) the number of the list of each item."""
        if self.ids is not None:
            return self.numbers[self.ids - self.low]
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))

    def order(self) -> NDArray[np.int64]:
        """(items,) the items list by list."""
        order = np.arange(self.starts[-1])
        if self.ids is not None:
            _kernels().arrange(self.ids, self.low, self.starts[self.numbers], order)
        return order


def group(indexes: Tensor) -> Groups:
    """Group items by their ids."""
    ids = np.ascontiguousarray(indexes.detach().cpu().reshape(-1).long().numpy())
    if not ids.size:
        return Groups(None, 0, ids, np.zeros(1, np.int64))
    low, numbers, starts = _kernels().find_lists(ids)
    if not starts.size:
        ids = np.unique(ids, return_inverse=True)[1].reshape(-1)
        low, numbers, starts = _kernels().find_lists(ids)
    return Groups(ids if numbers.size else None, low, numbers, starts)


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.groups")  # on first use: importing numba takes half a second
