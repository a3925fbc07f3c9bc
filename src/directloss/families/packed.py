"""Lists on their way through a ranking kernel: packed into keys, sorted and solved, in parts and by several threads."""

import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
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
BLOCK = 1 << 8  # keys of items in any order that are made at once, before they are moved
SHORT = 1 << 14  # items up to which memory is kept
FEW = 8  # threads at most for items in any order: each goes through all of them
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
    """By item; a kernel writes it, as the next one. Zeros where an item is not valid."""
    counted: NDArray[np.bool_]
    """(lists,) which lists count."""

    def part(self, first: int, last: int, begin: int, end: int) -> "Lists":
        """The lists from the first to before the last one, and their items, which stand from begin to end."""
        items = slice(begin, end) if self.groups is None else slice(None)  # in any order: all of them
        return Lists(
            self.scores[items],
            self.positive[items],
            None if self.valid is None else self.valid[items],
            self.groups,
            None if self.exact is None else self.exact[items],
            self.starts[first : last + 1] - begin,
            self.numbers[first:last],
            self.gradient[items],
            self.counted[first:last],
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
        keys = np.empty(total, np.int64)
        _pack(lists, refuse, keys)
        keys.sort()
        solve(keys, lists, *scratch(total))
        return
    if not total:
        return
    threads = torch.get_num_threads() if total >= (THREADED if team() is None else AWAKE) else 1
    if lists.groups is not None:
        threads = min(threads, FEW)
    pieces = threads  # or a multiple, so that all have as much to do
    if lists.groups is None:
        pieces *= ceil(total / CHUNK / threads)
    inner = lists.starts.searchsorted([total * piece // pieces for piece in range(1, pieces)]).tolist()
    edges = sorted({0, *inner, count})
    begins = lists.starts[edges].tolist()
    shortest, longest = int(lists.starts[1]), total - int(lists.starts[-2])
    whole, places = lists, None
    if lists.groups is not None and len(edges) > 2:
        whole, places = _by_place(lists, lists.groups), np.empty(total, np.int32)
    # made here, as threads would wait for each other's Python
    parts = [(whole.part(*some), *some[2:]) for some in zip(edges, edges[1:], begins, begins[1:], strict=False)]
    largest = max(end - begin for _, begin, end in parts)

    def worker() -> Callable[[tuple[Lists, int, int]], None]:
        mine, buffer = scratch(longest), np.empty(largest + 1, np.int64)

        def work(some: tuple[Lists, int, int]) -> None:
            part, begin, end = some
            keys = buffer[: end - begin]
            if lists.groups is None:
                _pack(part, refuse, keys)
            else:
                _pack_groups(lists, lists.groups, refuse, begin, places, buffer[: end - begin + 1])
            of_one_length = [(0, part.counted.size)] if longest == shortest else runs(part.starts)
            for first, last in of_one_length:
                keys[part.starts[first] : part.starts[last]].reshape(last - first, -1).sort()
            solve(keys, part, *mine)

        return work

    in_threads([worker() for _ in parts[:threads]], parts)
    if places is not None:
        import_module("directloss.kernels.groups").gather(whole.gradient, places, lists.gradient)


def _by_place(lists: Lists, groups: Groups) -> Lists:
    """Lists whose gradient and exact scores stand list by list.

    Threads that wrote the gradient of items in any order would wait for each other's cache lines: the items of a line
    belong to different lists. So each writes to lines of its own, and the gradient is gathered from there.
    """
    make = np.empty_like if lists.valid is None else np.zeros_like
    exact = None if lists.exact is None else lists.exact[groups.order()]
    return lists._replace(gradient=make(lists.gradient), exact=exact)


def _pack_groups(
    lists: Lists,
    groups: Groups,
    refuse: Callable[[], None],
    begin: int,
    places: NDArray[np.int32] | None,
    keys: NDArray[np.int64],
) -> None:
    """Write the keys of some lists whose items stand in any order; with the first part, the place of every item too.

    Each thread goes through all items and writes the keys of its own lists to memory of its own. Memory that another
    core has read takes many times as long to write, so that sharing the items takes longer than one thread alone.
    """
    some = None if places is None else places[: None if begin == 0 else 0]
    of = lists.scores, lists.positive, lists.valid, groups.ids, groups.low, groups.by_id.copy()
    if not _kernels().pack_groups(*of, begin, some, keys, np.empty(BLOCK, np.int64)):
        refuse()


def _pack(lists: Lists, refuse: Callable[[], None], keys: NDArray[np.int64]) -> None:
    """Write the keys of lists."""
    if not _kernels().pack(lists.scores, lists.positive, lists.valid, keys):
        refuse()


def scratch(longest: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """What a kernel needs for lists up to a length."""
    return np.empty((3, longest)), np.empty((6, longest + 257), np.int32)  # NumPy's memory comes in huge pages


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.lists")  # on first use: importing numba takes half a second
