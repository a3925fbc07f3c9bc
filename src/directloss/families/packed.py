"""Lists on their way through a ranking kernel: packed into keys, sorted and solved, in parts and by several threads."""

import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import pairwise
from math import ceil
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..groups import Groups, runs
from ..threads import in_threads, team

__all__ = ["SHORT", "Lists", "Memory", "Solve", "keep_memory", "scratch", "solve_parts", "take_memory"]

CHUNK = 1 << 16  # items that are packed, sorted and solved while the cache holds them
SHORT = 1 << 14  # items up to which memory is kept
SHARED = 1 << 20  # items from which on threads write into one array in any case: they rarely meet
THREADED, AWAKE = 1 << 19, 1 << 16  # items from which on new threads help, and those of torch, which are awake


class Lists(NamedTuple):
    """Lists one behind the other, none shorter than the one before it, and what is found."""

    scores: NDArray[np.float32]
    positive: NDArray[np.bool_]
    valid: NDArray[np.bool_] | None
    """Or None where all items are."""
    groups: Groups | None
    """Which items form a list, or None where they stand list by list."""
    exact: NDArray[np.float64] | None
    """The scores by item, or None where float32 holds them."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts."""
    numbers: NDArray[np.float64]
    """(lists, 6) the weights of both outputs, the scale, F(away) − F(toward), both losses; a kernel writes the last."""
    gradient: NDArray[Any]
    """By item; a kernel writes it, as the next one. Zeros, or anything where there are several lists."""
    counted: NDArray[np.bool_]
    """(lists,) which lists count."""

    def part(self, first: int, last: int) -> "Lists":
        """The lists from the first to before the last one. Where items stand in any order, all items stay in it."""
        begin, end = int(self.starts[first]), int(self.starts[last])
        found = self._replace(
            starts=self.starts[first : last + 1] - begin,
            numbers=self.numbers[first:last],
            counted=self.counted[first:last],
        )
        if self.groups is not None:
            return found
        return found._replace(
            scores=self.scores[begin:end],
            positive=self.positive[begin:end],
            valid=None if self.valid is None else self.valid[begin:end],
            exact=None if self.exact is None else self.exact[begin:end],
            gradient=self.gradient[begin:end],
        )


Solve = Callable[[NDArray[np.int64], Lists, NDArray[np.float64], NDArray[np.int32]], None]
"""A kernel: called with sorted keys, their lists, and scratch memory (3, longest) and (6, longest + 257)."""


class Memory(NamedTuple):
    """What one list is solved in."""

    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    numbers: NDArray[np.float64]
    counted: NDArray[np.bool_]
    floats: NDArray[np.float64]
    integers: NDArray[np.int32]


class _Kept(threading.local):
    memory: Memory | None = None


_kept = _Kept()


def take_memory(items: int) -> Memory:
    """Memory for one list: what this thread kept, if it fits; allocating it takes 3 µs."""
    memory, _kept.memory = _kept.memory, None  # a metric that calls another loss gets its own
    if memory is not None and memory.keys.size == items:
        return memory
    return Memory(
        np.empty(items, np.int64), np.array([0, items]), np.empty((1, 6)), np.zeros(1, np.bool_), *scratch(items)
    )


def keep_memory(memory: Memory) -> None:
    """Keep memory for the next list of this thread."""
    _kept.memory = memory


def solve_parts(lists: Lists, solve: Solve, refuse: Callable[[], None]) -> None:
    """Solve all lists; call `refuse` where a score is not finite in float32."""
    count, total = lists.counted.size, int(lists.starts[-1])
    if count == 1:
        keys = _pack(lists, refuse, 0, np.empty(total + 1, np.int64))
        keys.sort()
        solve(keys, lists, *scratch(total))
        return
    if not total:
        return
    threads = torch.get_num_threads() if total >= (THREADED if team() is None else AWAKE) else 1
    pieces = ceil(total / CHUNK / threads) * threads  # so that all threads have as much to do
    if lists.groups is not None:
        pieces = threads  # each looks at all items
    inner = lists.starts.searchsorted([total * piece // pieces for piece in range(1, pieces)]).tolist()
    edges = sorted({0, *inner, count})
    parts = list(pairwise(edges))
    shortest, longest = int(lists.starts[1]), total - int(lists.starts[-2])
    largest = max(int(lists.starts[last] - lists.starts[first]) for first, last in parts)
    # where the items of a list stand apart, threads that write into one array wait for each other's cache lines
    apart = lists.groups is not None and total <= SHARED
    written: list[NDArray[Any]] = []
    if lists.groups is not None and not apart:
        lists.gradient.fill(0.0)

    def worker(gradient: NDArray[Any]) -> Callable[[tuple[int, int]], None]:
        mine, writes_to = scratch(longest), lists._replace(gradient=gradient)
        buffer, fresh = np.empty(largest + 1, np.int64), [gradient] if apart else []

        def work(edges: tuple[int, int]) -> None:
            part = writes_to.part(*edges)
            while fresh:  # here and not above: the thread that writes it has it in its cache then
                written.append(fresh.pop())
                gradient.fill(0.0)
            if lists.groups is None:
                part.gradient.fill(0.0)
            keys = _pack(part, refuse, int(lists.starts[edges[0]]), buffer[: part.starts[-1] + 1])
            of_one_length = [(0, part.counted.size)] if longest == shortest else runs(part.starts)
            for first, last in of_one_length:
                keys[part.starts[first] : part.starts[last]].reshape(last - first, -1).sort()
            solve(keys, part, *mine)

        return work

    others = (np.empty_like(lists.gradient) if apart else lists.gradient for _ in parts[1:threads])
    in_threads([worker(gradient) for gradient in (lists.gradient, *others)], parts)
    for gradient in written:
        if gradient is not written[0]:
            np.add(written[0], gradient, out=written[0])
    if apart and written[0] is not lists.gradient:
        lists.gradient[:] = written[0]


def _pack(lists: Lists, refuse: Callable[[], None], first: int, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys of lists that start with the first item; they need room for one more."""
    values, groups, packed = (lists.scores, lists.positive, lists.valid), lists.groups, keys[:-1]
    if groups is None:
        finite = _kernels().pack(*values, packed)
    else:
        finite = _kernels().pack_groups(*values, groups.ids, groups.low, groups.begins, groups.ranks, first, keys)
    if not finite:
        refuse()
    return packed


def scratch(longest: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """What a kernel needs for lists up to a length."""
    return np.empty((3, longest)), np.empty((6, longest + 257), np.int32)  # NumPy's memory comes in huge pages


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.lists")  # on first use: importing numba takes half a second
