"""Keys that stay sorted while some of them change, and the gradient of these alone."""

import numpy as np
from numpy.typing import NDArray

from . import compiled
from .lists import INDEX_BITS, alike

__all__ = ["exchange", "gather"]


@compiled
def exchange(
    keys: NDArray[np.int64],  # [n] sorted
    gone: NDArray[np.int64],  # [g] sorted, all of them among the keys
    new: NDArray[np.int64],  # [k] sorted
    kept: NDArray[np.int64],  # [n − g + k] written: the keys without those that are gone, with the new ones
) -> None:
    """Replace some keys; what lies between two changes is copied as a whole."""
    m = place = k = 0
    for g in range(gone.size + 1):
        end = np.searchsorted(keys, gone[g]) if g < gone.size else keys.size
        while k < new.size and (end == keys.size or new[k] < keys[end]):
            before = m + np.searchsorted(keys[m:end], new[k])
            kept[place : place + before - m] = keys[m:before]
            place += before - m
            kept[place] = new[k]
            place, m, k = place + 1, before, k + 1
        kept[place : place + end - m] = keys[m:end]
        place, m = place + end - m, end + 1


@compiled
def gather(
    ranked: NDArray[np.int64],  # [n] sorted keys
    places: NDArray[np.int64],  # [k] of some of them, ascending
    factor: float,
    floats: NDArray[np.float64],  # [3, N] as `close_list` leaves them: the sorted scores
    integers: NDArray[np.int32],  # [4, N + 1 or more] and what positives and negatives count for
    gradient: NDArray[np.float32],  # [k] written
) -> None:
    """Write factor·counts at some places; items of one class and one score get their mean."""
    scores, counts, steps = floats[0, : ranked.size], integers[2], integers[3]
    positives = first = last = 0  # alike are those from first to before last; of all before, so many are positives
    mean = 0.0
    for k in range(places.size):
        if places[k] >= last:
            counted, first = last, places[k]
            while first > counted and alike(ranked, scores, first - 1):
                first -= 1
            for m in range(counted, first):
                positives += 1 - ((ranked[m] >> INDEX_BITS) & 1)
            last = first + 1
            while last < ranked.size and alike(ranked, scores, last - 1):
                last += 1
            if (ranked[first] >> INDEX_BITS) & 1:
                mean = steps[first - positives : last - positives].mean()
            else:
                mean = counts[positives : positives + last - first].mean()
                positives += last - first
        gradient[k] = factor * mean
