"""Items of a flat tensor, put list by list."""

import numpy as np
from numpy.typing import NDArray

from . import compiled, lean

__all__ = ["arrange", "by_length", "count", "find_runs", "gather", "span"]


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
def by_length(
    counts: NDArray[np.int64],  # [ids]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Put the ids that come one behind the other, the rarest first, equal ones in their order.

    Returns the number of each among those that come, where each starts and the last ends, and by id where it starts.
    """
    present = np.flatnonzero(counts)
    lengths = counts[present]
    rises = True
    for k in range(1, lengths.size):
        rises &= lengths[k - 1] <= lengths[k]
    lists = np.arange(present.size) if rises else np.argsort(lengths, kind="mergesort")
    starts, by_id = np.zeros(present.size + 1, np.int64), np.zeros(counts.size, np.int64)
    for k in range(lists.size):
        number = np.uintp(lists[k])
        by_id[np.uintp(present[number])] = starts[k]
        starts[k + 1] = starts[k] + lengths[number]
    return lists, starts, by_id


@lean
def arrange(
    ids: NDArray[np.int64],  # [n]
    low: int,  # the least of them
    free: NDArray[np.int64],  # by id − low: where the list starts; then where it ends
    order: NDArray[np.int64],  # [n] written
) -> None:
    """Write the items list by list, those of a list in their order."""
    for n in range(ids.size):
        k = np.uintp(ids[n] - low)
        order[free[k]] = n
        free[k] += 1


@lean
def gather(values: NDArray[np.floating], places: NDArray[np.int32], found: NDArray[np.floating]) -> None:
    """Write the values at some places."""
    for n in range(places.size):
        found[n] = values[np.uintp(places[n])]
