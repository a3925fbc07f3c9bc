"""Ranks by descending key, and what their discounts give to the items.

A list is sorted as 64-bit integers that hold the upper bits of a key and the index of its item: sorting them needs no
indirection. Keys that agree in those bits are told apart afterwards.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled, summing

__all__ = ["dots", "pack", "place"]

_NOTHING = np.iinfo(np.int64).max
_SIGN = np.iinfo(np.int64).max  # all bits but the sign


@compiled
def pack(
    keys: NDArray[np.float64],  # [b, N], −inf where masked
    least: NDArray[np.float64],  # [b] keys below are left out
    bits: int,  # of an index
    packed: NDArray[np.int64],  # [b, N] written, from the first place of a row on; the rest is _NOTHING
    counts: NDArray[np.int64],  # [b] written: how many a row holds
) -> None:
    """Write integers whose ascending order is that of descending keys, up to the last bits of a key."""
    upper = ~((np.int64(1) << bits) - 1)
    for row in range(keys.shape[0]):
        count = 0
        of_row = keys[row]
        whole = of_row.view(np.int64)
        for n in range(of_row.size):
            u = whole[n]
            if u == np.iinfo(np.int64).min:  # −0.0 ties with 0.0
                u = np.int64(0)
            ascending = u ^ ((u >> 63) & _SIGN)
            packed[row, count] = (~ascending & upper) | n
            count += of_row[n] >= least[row] and of_row[n] > -np.inf
        packed[row, count:] = _NOTHING
        counts[row] = count


@compiled
def _sort_exactly(run: NDArray[np.int64], keys: NDArray[np.float64], index: int) -> None:
    """Sort packed items whose upper bits agree by their keys, descending."""
    exact = np.empty(run.size)
    for m in range(run.size):
        exact[m] = keys[run[m] & index]
    run[:] = run[np.argsort(-exact, kind="mergesort")]


@compiled
def place(
    packed: NDArray[np.int64],  # [b, n] sorted
    counts: NDArray[np.int64],  # [b]
    keys: NDArray[np.float64],  # [b, N]
    bits: int,
    discounts: NDArray[np.float64],  # [K] of the first ranks; those behind have 0
    sums: NDArray[np.float64],  # [K + 1] of the discounts up to each
    sign: float,
    shares: NDArray[np.float64],  # [b, N]
) -> None:
    """Add sign times the discount of its rank to each item's share; items with one key share the mean of theirs."""
    index = (np.int64(1) << bits) - 1
    K = discounts.size
    for row in range(packed.shape[0]):
        end = counts[row]
        items, exact, share = packed[row], keys[row], shares[row]
        start = sorted_to = 0
        while start < end and start < K:
            if start >= sorted_to:  # the next run of equal upper bits
                sorted_to = start + 1
                upper = items[start] >> bits
                while sorted_to < end and items[sorted_to] >> bits == upper:
                    sorted_to += 1
                if sorted_to - start > 1:
                    _sort_exactly(items[start:sorted_to], exact, index)
            stop = start + 1
            while stop < sorted_to and exact[items[stop] & index] == exact[items[start] & index]:
                stop += 1
            discount = discounts[start] if stop == start + 1 else (sums[min(stop, K)] - sums[start]) / (stop - start)
            for m in range(start, stop):
                share[items[m] & index] += sign * discount
            start = stop


@summing
def dots(
    one: NDArray[np.float64], other: NDArray[np.float64], sums: NDArray[np.float64]
) -> None:  # [b, N], [b, N], [b]
    """Write the dot product of every row."""
    for row in range(one.shape[0]):
        total = 0.0
        for n in range(one.shape[1]):
            total += one[row, n] * other[row, n]
        sums[row] = total
