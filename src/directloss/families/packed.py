"""Lists on their way through a ranking kernel: packed into keys, sorted and solved, in parts and by several threads."""

import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from math import ceil
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..groups import Groups
from ..threads import in_threads, team

__all__ = ["SHORT", "Lists", "Memory", "Solve", "keep_memory", "scratch", "solve_parts", "take_memory"]

CHUNK = 1 << 16  # items that are packed, sorted and solved while the cache holds them
BLOCK = 1 << 8  # keys of items in any order that are made at once, before they are moved
SHORT = 1 << 14  # items up to which the memory of one list is kept
KEPT = 1 << 18  # int64 up to which the memory of each worker is kept
FEW = 8  # threads at most for items in any order: each goes through all of them
THREADED, AWAKE = 1 << 19, 1 << 16  # items from which on new threads help, and those of torch, which are awake


class Lists(NamedTuple):
    """Lists, and what is found."""

    scores: NDArray[np.float32]
    positive: NDArray[np.bool_]
    valid: NDArray[np.bool_] | None
    """Or None where all items are."""
    groups: Groups | None
    """Which items form a list, or None where they stand list by list."""
    exact: NDArray[np.float64] | None
    """The scores by item, or None where float32 holds them."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts once items stand list by list."""
    numbers: NDArray[np.float64]
    """(lists, 6) the weights of both outputs, the scale, F(away) − F(toward), both losses; a kernel writes the last."""
    gradient: NDArray[Any]
    """By item; a kernel writes it, as the next one. Zeros where an item is not valid."""
    counted: NDArray[np.bool_]
    """(lists,) which lists count."""

    def part(self, first: int, last: int) -> "Lists":
        """The lists from the first to before the last one, and their items."""
        starts = self.starts[first : last + 1]
        items = slice(starts[0], starts[-1]) if self.groups is None else slice(None)  # in any order: all of them
        return Lists(
            self.scores[items],
            self.positive[items],
            None if self.valid is None else self.valid[items],
            self.groups,
            None if self.exact is None else self.exact[items],
            starts - starts[0],
            self.numbers[first:last],
            self.gradient[items],
            self.counted[first:last],
        )


Solve = Callable[[NDArray[np.int64], NDArray[np.int64], Lists, NDArray[np.float64], NDArray[np.int32]], None]
"""A kernel: called with sorted keys, where each list stands among them (lists, 2), the lists, and scratch memory
(3, longest) and (6, longest + 257)."""


class Memory(NamedTuple):
    """What one list is solved in."""

    keys: NDArray[np.int64]
    bounds: NDArray[np.int64]
    numbers: NDArray[np.float64]
    counted: NDArray[np.bool_]
    floats: NDArray[np.float64]
    integers: NDArray[np.int32]


class _Kept(threading.local):
    memory: Memory | None = None
    buffers: Sequence[NDArray[np.int64]] = ()


_kept = _Kept()


def take_memory(items: int) -> Memory:
    """Memory for one list: what this thread kept, if it fits; allocating it takes 3 µs."""
    memory, _kept.memory = _kept.memory, None  # a metric that calls another loss gets its own
    if memory is not None and memory.keys.size == items:
        return memory
    return Memory(
        np.empty(items, np.int64), np.array([[0, items]]), np.empty((1, 6)), np.zeros(1, np.bool_), *scratch(items)
    )


def keep_memory(memory: Memory) -> None:
    """Keep memory for the next list of this thread."""
    _kept.memory = memory


class _Part(NamedTuple):
    """Some lists, and where their keys stand; see `stand`."""

    lists: Lists
    bounds: NDArray[np.int64]
    """(lists, 2) the room of each list, counted from the first key of this part, as in the next one."""
    blocks: list[list[int]]
    begin: int
    """Where the keys of this part start among those of all parts."""
    end: int


_Integers = NDArray[np.int64]
_Work = Callable[[_Part], None]  # made once: in each call it would take 4 µs


def solve_parts(lists: Lists, solve: Solve, refuse: Callable[[], None]) -> None:
    """Solve all lists; call `refuse` where a score is not finite in float32."""
    count, total = lists.counted.size, int(lists.starts[-1])
    if count == 1:
        keys = np.empty(total, np.int64)
        _pack(lists, refuse, keys)
        keys.sort()
        solve(keys, np.array([[0, total]]), lists, *scratch(total))
        return
    if not total:
        return
    threads = torch.get_num_threads() if total >= (THREADED if team() is None else AWAKE) else 1
    if lists.groups is not None:
        fits = total < _kernels().LONGEST_LIST // 9 * 8  # rooms are up to an eighth larger, and a key holds a place
        threads = min(threads, FEW) if fits else 1
    pieces = threads  # or a multiple, so that all have as much to do
    if lists.groups is None:
        pieces *= ceil(total / CHUNK / threads)
    inner = lists.starts.searchsorted([total * piece // pieces for piece in range(1, pieces)]).tolist()
    stands, end = [], 0
    for first, last in pairwise(sorted({0, *inner, count})):
        bounds, found = _group_kernels().stand(lists.starts[first : last + 1])
        blocks, begin = found.tolist(), end
        start, many, room = blocks[-1]
        end = begin + start + many * room
        stands.append((first, last, bounds, blocks, begin, end))
    whole, groups, free, places = lists, lists.groups, None, None
    if groups is not None:
        free = np.concatenate([begin + bounds[:, 0] for _, _, bounds, _, begin, _ in stands])[groups.numbers]
        if len(stands) > 1:
            whole, places = _by_place(lists, groups, free, end), np.empty(total, np.int32)
    # made here, as threads would wait for each other's Python
    parts = [_Part(whole.part(first, last), *rest) for first, last, *rest in stands]
    largest = max(part.end - part.begin for part in parts)
    longest = max(part.blocks[-1][2] for part in parts)  # the last block has the longest lists

    def worker(buffer: _Integers) -> _Work:
        mine = scratch(longest, buffer[largest + 1 :])

        def work(part: _Part) -> None:
            keys = buffer[: part.end - part.begin]
            if groups is not None and free is not None:
                _pack_groups(lists, groups, refuse, free, places, part, buffer[: keys.size + 1])
            else:
                _pack_lists(part, refuse, keys)
            for start, many, room in part.blocks:
                keys[start : start + many * room].reshape(many, room).sort()
            solve(keys, part.bounds, part.lists, *mine)

        return work

    workers, size = min(threads, len(parts)), largest + 1 + _scratch_size(longest)
    buffers = _take_buffers(workers, size)
    in_threads([worker(buffer) for buffer in buffers[:workers]], parts)
    if size <= KEPT:
        _kept.buffers = buffers
    if places is not None:
        _group_kernels().gather(whole.gradient, parts[0].end, places, lists.gradient)


def _by_place(lists: Lists, groups: Groups, free: NDArray[np.int64], room: int) -> Lists:
    """Lists whose gradient and exact scores stand where the keys do, each list in its room.

    Threads that wrote the gradient of items in any order would wait for each other's cache lines: the items of a line
    belong to different lists. So each writes to lines of its own, and the gradient is gathered from there.
    """
    exact = lists.exact
    if exact is not None:
        order = np.zeros(room, np.int64)
        _group_kernels().arrange(groups.ids, groups.low, free.copy(), order)
        exact = exact[order]
    make = np.empty if lists.valid is None else np.zeros
    return lists._replace(gradient=make(room, lists.gradient.dtype), exact=exact)


def _pack_groups(
    lists: Lists,
    groups: Groups,
    refuse: Callable[[], None],
    free: NDArray[np.int64],
    places: NDArray[np.int32] | None,
    part: _Part,
    keys: NDArray[np.int64],
) -> None:
    """Write the keys of some lists whose items stand in any order; with the first part, the place of every item too.

    Each thread goes through all items and writes the keys of its own lists to memory of its own. Memory that another
    core has read takes many times as long to write, so that sharing the items takes longer than one thread alone.
    """
    some = None if places is None else places[: None if part.begin == 0 else 0]
    of = lists.scores, lists.positive, lists.valid, groups.ids, groups.low, free.copy()
    if not _kernels().pack_groups(*of, part.begin, some, keys, np.empty(BLOCK, np.int64)):
        refuse()
    if part.end - part.begin > part.lists.starts[-1]:
        _kernels().fill(part.lists.starts, part.bounds, keys)


def _pack_lists(part: _Part, refuse: Callable[[], None], keys: NDArray[np.int64]) -> None:
    """Write the keys of some lists that stand one behind the other."""
    lists = part.lists
    if len(part.blocks) == 1 and keys.size == lists.scores.size:  # all have one length
        _pack(lists, refuse, keys)
    elif not _kernels().pack_lists(lists.scores, lists.positive, lists.valid, lists.starts, part.bounds, keys):
        refuse()


def _pack(lists: Lists, refuse: Callable[[], None], keys: NDArray[np.int64]) -> None:
    """Write the keys of items as they stand."""
    if not _kernels().pack(lists.scores, lists.positive, lists.valid, keys):
        refuse()


def _take_buffers(workers: int, size: int) -> Sequence[NDArray[np.int64]]:
    """Memory for each worker: what this thread kept, if it fits. New memory is slower to write."""
    buffers, _kept.buffers = _kept.buffers, ()  # a metric that calls another loss gets its own
    if len(buffers) >= workers and buffers[0].size >= size:
        return buffers
    return [np.empty(size, np.int64) for _ in range(workers)]


def _scratch_size(longest: int) -> int:
    """How many int64 `scratch` needs."""
    return 3 * longest + 3 * (longest + 257)


def scratch(longest: int, memory: NDArray[np.int64] | None = None) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """What a kernel needs for lists up to a length, in given memory or in new."""
    size = _scratch_size(longest)
    memory = np.empty(size, np.int64) if memory is None else memory  # NumPy's comes in huge pages
    floats, integers = memory[: 3 * longest], memory[3 * longest : size]
    return floats.view(np.float64).reshape(3, longest), integers.view(np.int32).reshape(6, -1)


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.lists")  # on first use: importing numba takes half a second


@cache
def _group_kernels() -> ModuleType:
    return import_module("directloss.kernels.groups")
