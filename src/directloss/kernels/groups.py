"""Items of a flat tensor, put list by list."""

import numpy as np
from numpy.typing import NDArray

from . import compiled, lean

__all__ = ["arrange", "count", "find_lists", "find_runs", "gather", "number", "span", "stand"]

_KINDS = 256  # of lengths, up to 2^30 items


@compiled
def find_lists(ids: NDArray[np.int64]) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:  # [n], n ≥ 1
    """Which lists there are: the least id, by id − low the number of its list, where each starts and the last one ends.

    If ids do not fall anywhere there are no numbers. If a table of all ids would be too large there is nothing.
    """
    nothing, starts = np.empty(0, np.int64), find_runs(ids)
    if starts.size:
        return 0, nothing, starts
    low, high = span(ids)
    if np.uint64(high) - np.uint64(low) > np.uint64(4 * ids.size + 1024):  # also if the difference has 64 bits
        return 0, nothing, nothing
    counts = np.zeros(high - low + 1, np.int64)
    count(ids, low, counts)
    numbers, starts = number(counts)
    return low, numbers, starts


@compiled
def find_runs(ids: NDArray[np.int64]) -> NDArray[np.int64]:  # [n], n ≥ 1
    """Where each run of equal ids starts, and where the last one ends; nothing if ids fall somewhere."""
    starts = np.empty(ids.size + 1, np.int64)
    starts[0] = 0
    runs = 1
    for n in range(1, ids.size):
        if ids[n] != ids[n - 1]:
            if ids[n] < ids[n - 1]:
                return starts[:0]
            starts[runs] = n
            runs += 1
    starts[runs] = ids.size
    return starts[: runs + 1].copy()


@lean
def span(ids: NDArray[np.int64]) -> tuple[int, int]:  # [n], n ≥ 1
    """The least id and the greatest."""
    low = high = ids[0]
    for n in range(1, ids.size):
        low, high = min(low, ids[n]), max(high, ids[n])
    return low, high


@lean
def count(ids: NDArray[np.int64], low: int, counts: NDArray[np.int64]) -> None:  # [n], the least of them, [ids] zeros
    """Add up how often each id comes."""
    for n in range(ids.size):
        counts[np.uintp(ids[n] - low)] += 1  # a signed index would be looked at for its sign: more than twice the time


@compiled
def number(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # [ids]
    """Number the ids that come, from the least: by id its number; and where each list starts and the last ends."""
    numbers, starts = np.empty_like(counts), np.zeros(counts.size + 1, np.int64)
    lists = 0
    for k in range(counts.size):
        numbers[k] = lists
        if counts[k] > 0:
            starts[lists + 1] = starts[lists] + counts[k]
            lists += 1
    return numbers, starts[: lists + 1].copy()


@compiled
def stand(starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # [b + 1], b ≥ 1
    """Give lists room among keys, so that those of about one length stand together and are sorted in one call.

    Lengths of one kind differ by at most an eighth, and all lists of a kind get the room of its longest. Returns bounds
    [b, 2], where the room of each list starts and ends, and blocks [c, 3], one for each kind: where its lists start,
    how many they are, and how much room each has.
    """
    b = starts.size - 1
    kinds, bounds = np.empty(b, np.int64), np.empty((b, 2), np.int64)
    rooms, tallies, free = np.zeros(_KINDS, np.int64), np.zeros(_KINDS, np.int64), np.empty(_KINDS, np.int64)
    for k in range(b):
        n = starts[k + 1] - starts[k]
        step, kind = 1, 0
        while n >> 4 >= step:  # an octave is cut into eight steps
            step *= 2
            kind += 8
        kind += (n + step - 1) // step
        kinds[k] = kind
        rooms[kind] = max(rooms[kind], n)
        tallies[kind] += 1
    blocks = np.empty((np.count_nonzero(tallies), 3), np.int64)
    c = place = 0
    for kind in range(_KINDS):
        if tallies[kind] > 0:
            blocks[c, 0], blocks[c, 1], blocks[c, 2] = place, tallies[kind], rooms[kind]
            place += tallies[kind] * rooms[kind]
            free[kind] = blocks[c, 0]  # where the next list of this kind stands
            c += 1
    for k in range(b):
        kind = kinds[k]
        bounds[k, 0] = free[kind]
        free[kind] += rooms[kind]
        bounds[k, 1] = free[kind]
    return bounds, blocks


@lean
def arrange(
    ids: NDArray[np.int64],  # [n]
    low: int,  # the least of them
    free: NDArray[np.int64],  # by id − low: where the list starts; then where it ends
    order: NDArray[np.int64],  # [n or more] written at n places
) -> None:
    """Write the items list by list, those of a list in their order."""
    for n in range(ids.size):
        k = np.uintp(ids[n] - low)
        order[free[k]] = n
        free[k] += 1


@lean
def gather(values: NDArray[np.floating], own: int, places: NDArray[np.int32], found: NDArray[np.floating]) -> None:
    """Write the values at some places.

    Values from `own` on are in the cache of another core. One in each cache line is touched first, in order: that is
    several times as fast as in any order. The touch is a write, since the other core then gets the line back faster.
    """
    for m in range(own, values.size, 64 // values.itemsize):
        values[m] += 0.0
    for n in range(places.size):
        found[n] = values[np.uintp(places[n])]
