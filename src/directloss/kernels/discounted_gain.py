"""Ranks by descending key, and what their discounts give to the items.

The key of an item is own·score − factor·gain. A list is sorted as 64-bit integers that hold the upper bits of a key and
the index of its item: sorting them needs no indirection. Keys that agree in those bits are told apart afterwards.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled, compiled_reassoc

__all__ = ["dots", "pack", "place", "shift"]

_NOTHING = np.iinfo(np.int64).max
_SIGN = np.iinfo(np.int64).max  # all bits but the sign


@compiled
def shift(
    scores: NDArray[np.float64],  # [b, N]
    gains: NDArray[np.float64],  # [b, N]
    valid: NDArray[np.bool_] | None,  # [b, N], or None where all are
    own: float,
    factors: NDArray[np.float64],  # [b]
    keys: NDArray[np.float64],  # [b, N] written, −inf where masked
) -> None:
    """Write the keys."""
    for row in range(scores.shape[0]):
        for n in range(scores.shape[1]):
            keys[row, n] = own * scores[row, n] - factors[row] * gains[row, n]
        if valid is not None:
            for n in range(scores.shape[1]):
                keys[row, n] = keys[row, n] if valid[row, n] else -np.inf


@compiled
def pack(
    scores: NDArray[np.float64],  # [b, N]
    gains: NDArray[np.float64],  # [b, N]
    valid: NDArray[np.bool_] | None,  # [b, N], or None where all are
    own: float,
    factors: NDArray[np.float64],  # [b]
    least: NDArray[np.float64] | None,  # [b] items with a smaller key are left out
    bits: int,  # of an index
    packed: NDArray[np.int64],  # [b, N] written, from the first place of a row on; the rest is _NOTHING
    counts: NDArray[np.int64],  # [b] written: how many a row holds
) -> None:
    """Write integers whose ascending order is that of descending keys, up to the last bits of a key."""
    upper = ~((np.int64(1) << bits) - 1)
    for row in range(scores.shape[0]):
        N = scores.shape[1]
        codes = packed[row]
        keys = codes.view(np.float64)
        for n in range(N):
            keys[n] = own * scores[row, n] - factors[row] * gains[row, n] + 0.0  # −0.0 ties with 0.0
        count = 0
        if valid is None and least is None:
            for n in range(N):
                u = codes[n]
                codes[n] = (~(u ^ ((u >> 63) & _SIGN)) & upper) | n
            count = N
        else:
            for n in range(N):
                u = codes[n]
                kept = (valid is None or valid[row, n]) and (least is None or keys[n] >= least[row])
                codes[count] = (~(u ^ ((u >> 63) & _SIGN)) & upper) | n
                count += kept
        codes[count:] = _NOTHING
        counts[row] = count


@compiled
def _place_run(
    run: NDArray[np.int64],  # [n] packed, their upper bits equal
    index: int,
    scores: NDArray[np.float64],  # [N]
    gains: NDArray[np.float64],  # [N]
    own: float,
    factor: float,
    discounts: NDArray[np.float64],  # of these ranks and those behind
    sign: float,
    share: NDArray[np.float64],  # [N]
) -> None:
    """Do what `place` does for items that are not told apart yet."""
    keys = np.empty(run.size)
    tied = True
    for m in range(run.size):
        n = run[m] & index
        keys[m] = own * scores[n] - factor * gains[n]
        tied &= keys[m] == keys[0]
    if not tied:
        order = np.argsort(-keys, kind="mergesort")
        run[:] = run[order]
        keys = keys[order]
    first = 0
    while first < run.size:
        last = first
        total = 0.0
        while last < run.size and keys[last] == keys[first]:
            total += discounts[last] if last < discounts.size else 0.0
            last += 1
        mean = sign * (total / (last - first))
        for m in range(first, last):
            share[run[m] & index] += mean
        first = last


@compiled
def place(
    packed: NDArray[np.int64],  # [b, n] sorted
    counts: NDArray[np.int64],  # [b]
    scores: NDArray[np.float64],  # [b, N]
    gains: NDArray[np.float64],  # [b, N]
    own: float,
    factors: NDArray[np.float64],  # [b]
    bits: int,
    discounts: NDArray[np.float64],  # [K] of the first ranks; those behind have 0
    sign: float,
    shares: NDArray[np.float64],  # [b, N]
) -> None:
    """Add sign times the discount of its rank to each item's share; items with one key share the mean of theirs."""
    index = (np.int64(1) << bits) - 1
    K = discounts.size
    for row in range(packed.shape[0]):
        end = counts[row]
        items, share = packed[row], shares[row]
        start = 0
        while start < min(end, K):
            upper = items[start] >> bits
            stop = start + 1
            if stop == end or items[stop] >> bits != upper:
                share[items[start] & index] += sign * discounts[start]
                start = stop
                continue
            while stop < end and items[stop] >> bits == upper:
                stop += 1
            _place_run(
                items[start:stop], index, scores[row], gains[row], own, factors[row], discounts[start:], sign, share
            )
            start = stop


@compiled_reassoc
def dots(
    one: NDArray[np.float64],  # [b, N]
    other: NDArray[np.float64],  # [b, N]
    sums: NDArray[np.float64],  # [b] written
) -> None:
    """Write the dot product of every row."""
    for row in range(one.shape[0]):
        total = 0.0
        for n in range(one.shape[1]):
            total += one[row, n] * other[row, n]
        sums[row] = total
