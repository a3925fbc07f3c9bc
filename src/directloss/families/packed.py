"""Lists on their way through a ranking kernel: packed into keys, sorted and solved, in parts and by several threads."""

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from itertools import pairwise
from math import ceil
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..groups import runs

__all__ = ["Lists", "Solve", "solve_parts", "starts_of"]

CHUNK = 1 << 15  # items that are packed, sorted and solved while the cache holds them
THREADED = 1 << 19  # items from which on threads help; below, those of OpenMP still spin on the other cores


class Lists(NamedTuple):
    """Lists one behind the other, and what is found."""

    scores: NDArray[np.float32]
    """By index, as are the next three."""
    exact: NDArray[np.float64] | None
    """The scores, or None where float32 holds them."""
    positive: NDArray[np.bool_]
    valid: NDArray[np.bool_] | None
    """Or None where all items are."""
    places: NDArray[np.int64] | None
    """Where each item goes, so that they stand list by list, or None where they stand so."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts."""
    numbers: NDArray[np.float64]
    """(lists, 6) the weights of both outputs, the scale, F(away) − F(toward), both losses; a kernel writes the last."""
    gradient: NDArray[Any]
    """By index; a kernel writes it, as the next one."""
    counted: NDArray[np.bool_]
    """(lists,) which lists count."""

    def part(self, first: int, last: int) -> "Lists":
        """The lists from the first to before the last one."""
        begin, end = int(self.starts[first]), int(self.starts[last])
        found = self._replace(
            starts=self.starts[first : last + 1] - begin,
            numbers=self.numbers[first:last],
            counted=self.counted[first:last],
        )
        if self.places is not None:
            return found
        return found._replace(
            scores=self.scores[begin:end],
            exact=None if self.exact is None else self.exact[begin:end],
            positive=self.positive[begin:end],
            valid=None if self.valid is None else self.valid[begin:end],
            gradient=self.gradient[begin:end],
        )


Solve = Callable[[NDArray[np.int64], Lists, NDArray[np.float64], NDArray[np.int32]], None]
"""A kernel: called with sorted keys, their lists, and scratch memory (3, longest) and (4, longest + 1)."""


def solve_parts(lists: Lists, solve: Solve, refuse: Callable[[], None]) -> None:
    """Solve all lists; call `refuse` where a score is not finite in float32."""
    count, total = lists.counted.size, int(lists.starts[-1])
    if count == 1:
        keys = _pack(lists, refuse, np.empty(total, np.int64))
        keys.sort()
        solve(keys, lists, *_scratch(total))
        return
    if not total:
        return
    threads = torch.get_num_threads() if total >= THREADED else 1
    pieces = ceil(total / CHUNK / threads) * threads  # so that all threads have as much to do
    inner = lists.starts.searchsorted([total * piece // pieces for piece in range(1, pieces)]).tolist()
    edges = sorted({0, *inner, count})
    parts = list(pairwise(edges))
    sizes = np.diff(lists.starts[edges])
    longest = int(np.diff(lists.starts).max())
    packed = None if lists.places is None else _pack(lists, refuse, np.empty(total, np.int64))

    def worker() -> Callable[[tuple[int, int]], None]:
        scratch = _scratch(longest)
        buffer = np.empty(sizes.max() if packed is None else 0, np.int64)

        def work(edges: tuple[int, int]) -> None:
            part = lists.part(*edges)
            if packed is None:  # lists of one length
                keys = _pack(part, refuse, buffer[: part.scores.size])
                keys.reshape(part.counted.size, -1).sort()
            else:
                keys = packed[slice(*lists.starts[list(edges)])]
                for first, last in runs(part.starts):
                    keys[part.starts[first] : part.starts[last]].reshape(last - first, -1).sort()
            solve(keys, part, *scratch)

        return work

    workers = [worker() for _ in range(min(threads, len(parts)))]
    import_module("directloss.kernels").in_threads(workers, parts)


def _pack(lists: Lists, refuse: Callable[[], None], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    if not _kernels().pack(lists.scores, lists.positive, lists.valid, lists.places, keys):
        refuse()
    return keys


def _scratch(longest: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    return np.empty((3, longest)), np.empty((4, longest + 1), np.int32)  # NumPy's memory comes in huge pages


def starts_of(lists: int, items: int) -> NDArray[np.int64]:
    """Where lists of one length start."""
    return _one(items) if lists == 1 else np.arange(lists + 1) * items


@lru_cache(maxsize=64)
def _one(items: int) -> NDArray[np.int64]:
    return np.array([0, items])


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.lists")  # on first use: importing numba takes half a second
