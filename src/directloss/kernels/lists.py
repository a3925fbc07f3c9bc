"""Lists on their way into a ranking kernel and out of it: packed keys, sorted classes, counts of pairs.

A list is packed into keys and sorted by its caller. `open_list` splits it into positives and negatives, a kernel finds
how many negatives stand above each positive in one or two outputs, and `close_list` makes features of these counts.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled, compiled_noalloc, compiled_reassoc

__all__ = [
    "AUGMENTED",
    "INDEX_BITS",
    "LONGEST_LIST",
    "NOTHING",
    "TRUTH",
    "close_list",
    "copy",
    "count_all",
    "count_classes",
    "count_output",
    "open_float32",
    "open_list",
    "pack",
    "sort_by_id",
    "write_values",
]

INDEX_BITS = 30
LONGEST_LIST = (1 << INDEX_BITS) - 1
AUGMENTED, TRUTH, NOTHING = 0, 1, 2  # which output: argmax F + weight·L, the ground truth, or none
SCORE_SHIFT = INDEX_BITS + 1
_MASKED = np.iinfo(np.int64).max
_INDEX = LONGEST_LIST
_PLAIN = 1e3  # the range of scores, in ε or margins, up to which a plain sum is right to 1e-12 of them; half the time


@compiled_noalloc
def _write_keys(
    scores: NDArray[np.float32],  # [n]
    positive: NDArray[np.bool_],  # [n]
    valid: NDArray[np.bool_] | None,  # [n], or None where all are
    keys: NDArray[np.int64],  # [n] written
) -> None:
    """Write the score to bits 31 to 62, the class to bit 30, the index to bits 0 to 29; without a branch."""
    bits = scores.view(np.int32)
    for n in range(keys.size):
        u = np.int64(bits[n])
        u = 0 if u == -(1 << 31) else u  # −0.0 ties with 0.0
        descending = (u ^ (0x7FFFFFFF & ~(u >> 63))) & 0xFFFFFFFF  # 0x7FFFFFFF − u, or u + 2^32 where u < 0
        key = (descending << SCORE_SHIFT) | ((1 - np.int64(positive[n])) << INDEX_BITS) | n
        if valid is not None:
            key = key if valid[n] else _MASKED
        keys[n] = key


@compiled_noalloc
def pack(
    scores: NDArray[np.float32],  # [n] of all lists, one behind the other
    positive: NDArray[np.bool_],  # [n]
    valid: NDArray[np.bool_] | None,  # [n], or None where all are
    starts: NDArray[np.int64],  # [b + 1] where each list starts
    which: NDArray[np.int64],  # [g] lists to pack
    keys: NDArray[np.int64],  # [g, N] written
) -> bool:
    """Write keys whose ascending order is that of descending scores, of equal ones positives first, then masked items.

    Sorting such keys needs no indirection, which is what makes it several times faster than an argsort. Returns whether
    all valid scores are finite in float32.
    """
    finite = True
    for row in range(which.size):
        first, end = starts[which[row]], starts[which[row] + 1]
        valid_here = None if valid is None else valid[first:end]
        _write_keys(scores[first:end], positive[first:end], valid_here, keys[row, : end - first])
        for n in range(end - first, keys.shape[1]):
            keys[row, n] = _MASKED
        finite &= _all_finite(scores[first:end], valid_here)
    return finite


@compiled_noalloc
def _all_finite(scores: NDArray[np.float32], valid: NDArray[np.bool_] | None) -> bool:  # [n], [n]
    """Whether all valid scores are; a loop of its own, so that it and `pack` run on vector instructions."""
    finite = True
    for n in range(scores.size):
        finite &= np.isfinite(scores[n]) or (valid is not None and not valid[n])
    return finite


@compiled_noalloc
def _unpack(keys: NDArray[np.int64], scores: NDArray[np.float64]) -> None:  # [n], [n]
    """Write the float32 scores of the keys."""
    for m in range(keys.size):
        descending = keys[m] >> SCORE_SHIFT
        bits = 0x7FFFFFFF - descending if descending <= 0x7FFFFFFF else descending - (1 << 32)
        scores[m] = np.int32(bits).view(np.float32)


@compiled
def _unpack_exactly(keys: NDArray[np.int64], exact: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
    """Write the float64 scores of the keys, and sort both where float32 could not tell scores apart."""
    for m in range(keys.size):
        scores[m] = exact[keys[m] & _INDEX]
    start = 0
    for m in range(1, keys.size + 1):
        if m < keys.size and (keys[m] >> SCORE_SHIFT) == (keys[start] >> SCORE_SHIFT):
            continue
        if m - start > 1:
            by_score = np.argsort(-scores[start:m], kind="mergesort")
            scores[start:m] = scores[start:m][by_score]
            keys[start:m] = keys[start:m][by_score]
        start = m


@compiled_noalloc
def _split(
    keys: NDArray[np.int64],  # [n]
    scores: NDArray[np.float64],  # [n]
    a: NDArray[np.float64],  # [n] scores of the positives are written to the first P
    b: NDArray[np.float64],  # [n] scores of the negatives to the first M
    low: NDArray[np.int32],  # [n] the number of negatives before each positive to the first P
) -> int:
    """Split sorted items by class; without a branch, as the processor cannot guess classes. Returns P."""
    i = j = 0
    for m in range(keys.size):
        negative = (keys[m] >> INDEX_BITS) & 1
        a[i] = scores[m]
        b[j] = scores[m]
        low[i] = j
        i += 1 - negative
        j += negative
    return i


@compiled_noalloc
def _any_tie(scores: NDArray[np.float64]) -> bool:  # [n] sorted
    """Whether two items have one score."""
    tied = False
    for m in range(1, scores.size):
        tied |= scores[m] == scores[m - 1]
    return tied


@compiled_reassoc
def _dot(values: NDArray[np.float64], shift: float, counts: NDArray[np.int32]) -> float:  # [n], [n]
    """Σ counts·(values − shift)."""
    score = 0.0
    for m in range(values.size):
        score += counts[m] * (values[m] - shift)
    return score


@compiled_noalloc
def _score(
    keys: NDArray[np.int64],  # [n]
    scores: NDArray[np.float64],  # [n] sorted
    counts: NDArray[np.int32],  # [n] of the positives, in the first P
    steps: NDArray[np.int32],  # [n] of the negatives, in the first M
    share: float,
) -> float:
    """share·Σ counts·scores, summed by parts: what all items so far count for, times the gap to the next one.

    Counts sum to zero, and so they do up to any gap that no swapped pair spans. An item that stays where it is then
    adds nothing, however large its score is; and against the prediction all terms have one sign.
    """
    score, weight = 0.0, np.int64(0)
    i = j = 0
    for m in range(keys.size - 1):
        negative = (keys[m] >> INDEX_BITS) & 1
        of_positive, of_negative = counts[i], steps[j]
        weight += of_negative if negative else of_positive
        score += share * weight * (scores[m] - scores[m + 1])
        i += 1 - negative
        j += negative
    return score


@compiled_noalloc
def copy(source: NDArray[np.generic], target: NDArray[np.generic]) -> None:
    """target[:] = source, which takes seconds to compile."""
    for k in range(source.size):
        target[k] = source[k]


@compiled_noalloc
def count_classes(keys: NDArray[np.int64]) -> tuple[int, int]:  # [N] sorted
    """How many positives and how many negatives a list has."""
    negatives = masked = 0
    for m in range(keys.size):
        negatives += (keys[m] >> INDEX_BITS) & 1  # of what is masked, too
        masked += keys[m] == _MASKED
    return keys.size - negatives, negatives - masked


@compiled
def sort_by_id(
    ids: NDArray[np.int64],  # [n] from 0 up to before `most`
    most: int,
    order: NDArray[np.int64],  # [n] written: the items by ascending id, those of one id in their order
    numbers: NDArray[np.int64],  # [n] written: which of the ids that occur an item has
) -> NDArray[np.int64]:
    """Sort items by counting; return where the items of each id that occurs start, and where the last ones end."""
    places, number_of, starts = np.zeros(most, np.int64), np.empty(most, np.int64), np.zeros(most + 1, np.int64)
    for n in range(ids.size):
        places[np.uintp(ids[n])] += 1  # a signed index would be looked at for its sign: more than twice the time
    lists = 0
    for k in range(most):
        count, number_of[k], places[k] = places[k], lists, starts[lists]
        if count > 0:
            starts[lists + 1] = starts[lists] + count
            lists += 1
    for n in range(ids.size):
        k = np.uintp(ids[n])
        order[places[k]] = n
        places[k] += 1
        numbers[n] = number_of[k]
    return starts[: lists + 1].copy()


@compiled
def count_all(keys: NDArray[np.int64]) -> NDArray[np.int64]:  # [g, N] each row sorted, masked items last
    """The numbers of positives and negatives of all lists, [g, 2]."""
    sizes = np.empty((keys.shape[0], 2), np.int64)
    for row in range(keys.shape[0]):
        sizes[row, 0], sizes[row, 1] = count_classes(keys[row])
    return sizes


@compiled_noalloc
def write_values(numbers: NDArray[np.float64], values: NDArray[np.floating]) -> None:  # [b, 6], [b] written
    """Write what `UpdateSpec.value` makes of the numbers of each list, see `average_precision_contrast`."""
    for k in range(values.size):
        row = numbers[k]
        values[k] = row[2] * (row[3] + row[0] * row[4] - row[1] * row[5])


@compiled
def open_list(
    ranked: NDArray[np.int64],  # [n] sorted keys of valid items
    exact: NDArray[np.float64] | None,  # [N] scores by index, or None where float32 holds them
    floats: NDArray[np.float64],  # [3, N] written: scores, those of the positives, those of the negatives
    integers: NDArray[np.int32],  # [4, N + 1 or more] written: negatives before each positive; zeros to count in
) -> bool:
    """Split a list by class; return whether two items have one score."""
    if exact is None:
        return open_float32(ranked, floats, integers)
    _unpack_exactly(ranked, exact, floats[0, : ranked.size])
    return _open(ranked, floats, integers)


@compiled_noalloc
def open_float32(ranked: NDArray[np.int64], floats: NDArray[np.float64], integers: NDArray[np.int32]) -> bool:
    """`open_list`, where float32 holds the scores."""
    _unpack(ranked, floats[0, : ranked.size])
    return _open(ranked, floats, integers)


@compiled_noalloc
def _open(ranked: NDArray[np.int64], floats: NDArray[np.float64], integers: NDArray[np.int32]) -> bool:
    scores = floats[0, : ranked.size]
    P = _split(ranked, scores, floats[1], floats[2], integers[0])
    for i in range(P):  # a slice that is set takes twice as long in short lists
        integers[2, i] = 0
    for j in range(ranked.size - P + 1):
        integers[3, j] = 0
    return _any_tie(scores)


@compiled_noalloc
def count_output(
    low: NDArray[np.int32],  # [P] how many negatives stand above each positive
    high: NDArray[np.int32],  # [P] the same, or with those that are tied with it
    sign: int,
    counts: NDArray[np.int32],  # [P]
    steps: NDArray[np.int32],  # [M + 1]
) -> None:
    """Add sign·PM·features of an output to the counts and, as steps, of the negatives.

    Positive i gets M − 2·c_i, negative j gets P − 2·#{i: c_i ≤ j}, which steps down by 2 at every c_i. A tied pair of
    the prediction is neither above nor below: c_i lies halfway, and one step of 1 comes before the tied negatives, one
    behind them. No count reaches 2^31, as no list is longer than 2^30.
    """
    P, M = counts.size, steps.size - 1
    for i in range(P):
        counts[i] += sign * (M - low[i] - high[i])
    steps[0] += sign * P
    for i in range(P):
        if low[i] == high[i]:
            steps[low[i]] -= 2 * sign
        else:
            steps[low[i]] -= sign
            steps[high[i]] -= sign


@compiled_noalloc
def close_list(
    ranked: NDArray[np.int64],  # [n] sorted keys
    P: int,
    tied: bool,
    contrasted: bool,
    unit: float,  # of the scores: the larger weight
    share: float,  # features are share·counts
    scale: float,
    floats: NDArray[np.float64],  # [3, N] as `open_list` left them
    integers: NDArray[np.int32],  # [4, N + 1 or more] in rows 2 and 3 the counts and steps of `count_output`
    gradient: NDArray[np.floating],  # by index; written: scale·features
) -> float:
    """Write the gradient of a list; return its F(away) − F(toward) where two outputs are contrasted, else 0."""
    n = ranked.size
    M = n - P
    scores, a, b = floats[0, :n], floats[1, :P], floats[2, :M]
    counts, steps = integers[2, :P], integers[3, : M + 1]
    count = np.int32(0)
    for j in range(M):
        count += steps[j]
        steps[j] = count
    score = 0.0
    if contrasted and scores[0] - scores[n - 1] < _PLAIN * unit:
        score = share * (_dot(a, scores[n // 2], counts) + _dot(b, scores[n // 2], steps))
    elif contrasted:
        score = _score(ranked, scores, integers[2], integers[3], share)
    factor = scale * share
    if tied:
        _write_tied(ranked, scores, integers[2], integers[3], factor, gradient)
    else:
        _write(ranked, integers[2], integers[3], factor, gradient)
    return score


@compiled_noalloc
def _write(
    ranked: NDArray[np.int64],  # [n] sorted keys
    counts: NDArray[np.int32],  # [n] what the positives count for, in the first P
    steps: NDArray[np.int32],  # [n] and the negatives, in the first M
    factor: float,
    gradient: NDArray[np.floating],  # by index; written
) -> None:
    """Write factor·counts of every item; without a branch, as the processor cannot guess classes."""
    i = j = 0
    for m in range(ranked.size):
        negative = (ranked[m] >> INDEX_BITS) & 1
        of_positive, of_negative = counts[i], steps[j]
        gradient[ranked[m] & _INDEX] = factor * (of_negative if negative else of_positive)
        i += 1 - negative
        j += negative


@compiled_noalloc
def _write_tied(
    ranked: NDArray[np.int64],  # [n] sorted keys
    scores: NDArray[np.float64],  # [n] sorted
    counts: NDArray[np.int32],  # [n] what the positives count for, in the first P
    steps: NDArray[np.int32],  # [n] and the negatives, in the first M
    factor: float,
    gradient: NDArray[np.floating],  # by index; written
) -> None:
    """`_write`, where items of one class and one score get their mean, so that the order of the input cannot matter."""
    n = ranked.size
    i = j = first = 0
    total = np.int64(0)
    for m in range(n):
        negative = (ranked[m] >> INDEX_BITS) & 1
        of_positive, of_negative = counts[i], steps[j]
        count = of_negative if negative else of_positive
        gradient[ranked[m] & _INDEX] = factor * count
        total += count
        i += 1 - negative
        j += negative
        if m + 1 == n or not _tied(ranked, scores, m):
            if first < m:
                mean = total / (m + 1 - first)
                for tied in range(first, m + 1):
                    gradient[ranked[tied] & _INDEX] = factor * mean
            first, total = m + 1, np.int64(0)


@compiled_noalloc
def _tied(ranked: NDArray[np.int64], scores: NDArray[np.float64], m: int) -> bool:
    """Whether an item and the next one have one score and one class."""
    return scores[m] == scores[m + 1] and (ranked[m] >> INDEX_BITS) & 1 == (ranked[m + 1] >> INDEX_BITS) & 1
