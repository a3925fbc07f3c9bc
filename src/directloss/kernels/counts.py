"""How many positives and negatives to select, where the loss depends on these two counts.

Of each class the items with the largest scores are selected, so an output is two cuts: of a class those above a
threshold are selected, of those on it a share. The prediction selects the scores above 0. Sums of selected scores are
taken relative to it and grow outwards from there. They are at most 0, and exact where it matters, however large the
scores far away are.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled

__all__ = ["SHORT", "best_cell", "collect", "count", "cut", "relative", "tversky_cuts", "write"]

SHORT = 1 << 12  # items up to which kernels sort a list themselves


@compiled
def count(
    scores: NDArray[np.float64],  # [b, N]
    positive: NDArray[np.bool_],  # [b, N]
    valid: NDArray[np.bool_] | None,  # [b, N], or None where all are
    sizes: NDArray[np.int64],  # [b, 4] written: positives, negatives, true and false positives of the prediction
    truth: NDArray[np.float64],  # [b] written: the sum of selected scores of the truth, relative to the prediction
) -> None:
    """Count the items of every list and those that the prediction selects."""
    for row in range(scores.shape[0]):
        P = n = tp = selected = 0
        relative = 0.0
        for k in range(scores.shape[1]):
            here = valid is None or valid[row, k]
            s, t = scores[row, k], positive[row, k] and here
            above = here and s > 0.0
            P += t
            n += here
            selected += above
            tp += t and above
            relative += s * (t != above) * (1.0 if t else -1.0) if here else 0.0
        sizes[row, 0], sizes[row, 1], sizes[row, 2], sizes[row, 3] = P, n - P, tp, selected - tp
        truth[row] = relative


@compiled
def collect(
    scores: NDArray[np.float64],  # [b, N]
    positive: NDArray[np.bool_],  # [b, N]
    valid: NDArray[np.bool_] | None,  # [b, N]
    weights: NDArray[np.float64],  # [b]
    near: NDArray[
        np.float64
    ],  # [b, N + 2] written: outer items at the front, inner ones at the end; short lists sorted
    outer: NDArray[np.int64],  # [b] written: how many of the first kind
    inner: NDArray[np.int64],  # [b] written: how many of the second kind
) -> None:
    """Write the magnitudes of the scores of all items that an output may treat otherwise than the prediction does.

    Outer items are selected and may be dropped: for a weight above 0 positives, below 0 negatives. Inner ones, of the
    other class, are not selected and may be.
    """
    N = scores.shape[1]
    for row in range(scores.shape[0]):
        up = weights[row] > 0.0
        i, j = 0, N + 1
        for k in range(N):
            s = scores[row, k]
            here = (valid is None or valid[row, k]) and weights[row] != 0.0
            first = positive[row, k] == up
            near[row, i] = s  # overwritten where the item is of neither kind
            i += here and first and s > 0.0
            near[row, j] = -s
            j -= here and not first and s <= 0.0
        outer[row], inner[row] = i, N + 1 - j
        if N <= SHORT:
            near[row, :i].sort()
            near[row, j + 1 :].sort()


@compiled
def _gains(s: float, tp: float, fp: float, P: float, alpha: float, beta: float, weight: float) -> bool:
    """Whether one more inner item, of score −s, raises the sum of scores − weight·T.

    T = tp/D, D = tp + α·fp + β·(P − tp), falls by α·tp/(D·(D + α)) with one more false positive, and rises by
    (α·fp + β·P)/(D·(D + 1 − β)) with one more true one. Without positives T is 1 if nothing is selected, else 0.
    """
    D = tp + alpha * fp + beta * (P - tp)
    if weight > 0.0:
        if P == 0.0:
            return fp == 0.0 and weight > s
        return weight * alpha * tp > s * (D * (D + alpha))
    if D == 0.0:
        return -weight > s
    return -weight * (alpha * fp + beta * P) > s * (D * (D + 1.0 - beta))


@compiled
def _tversky(tp: float, fp: float, P: float, alpha: float, beta: float) -> float:
    if P == 0.0:
        return 1.0 if fp == 0.0 else 0.0
    return tp / (tp + alpha * fp + beta * (P - tp)) if tp > 0.0 else 0.0


@compiled
def cut(magnitudes: NDArray[np.float64], passed: int, sign: float) -> tuple[float, float]:
    """The cut behind the first `passed` of ascending magnitudes, as a threshold and the share selected on it.

    For a sign above 0 these are scores that are dropped; below 0, negated scores that are selected.
    """
    if passed == 0:
        return 0.0, 0.0
    edge = magnitudes[passed - 1]
    start = np.searchsorted(magnitudes, edge, side="left")
    stop = np.searchsorted(magnitudes, edge, side="right")
    share = (passed - start) / (stop - start)
    return sign * edge, 1.0 - share if sign > 0.0 else share


@compiled
def tversky_cuts(
    near: NDArray[np.float64],  # [b, N + 2]
    outer: NDArray[np.int64],  # [b]
    inner: NDArray[np.int64],  # [b]
    sizes: NDArray[np.int64],  # [b, 4]
    weights: NDArray[np.float64],  # [b] of the loss, beside the plain sum of scores; a list with 0 is left as it is
    alpha: float,
    beta: float,
    cuts: NDArray[np.float64],  # [b, 2, 2] written: threshold and share of positives, of negatives
    relative: NDArray[np.float64],  # [b] written: the sum of selected scores, relative to the prediction
    counts: NDArray[np.int64],  # [b, 2] written: true and false positives
) -> None:
    """Solves argmax Σ selected scores − weight·T for every list in linear time.

    Some optimum drops outer items and selects inner ones only: anything else costs score and moves T the wrong way. T
    is convex in fp, and concave in tp for β ≤ 1. So for each number of outer items the objective is concave in the
    number of inner ones, and that walks to where one more gains nothing. The gain of one more is quasi-concave in the
    number of outer items, so the walk goes up once and down once, if at all.
    """
    for row in range(near.shape[0]):
        P, tp, fp = float(sizes[row, 0]), float(sizes[row, 2]), float(sizes[row, 3])
        weight = weights[row]
        if weight == 0.0:
            continue
        up = weight > 0.0
        i, j = outer[row], inner[row]
        dropped, added = near[row, :i], near[row, near.shape[1] - j :]
        best, best_value, best_inner = 0, -np.inf, 0
        c, gained, lost = 0, 0.0, 0.0
        for o in range(i + 1):  # outer items dropped
            if o > 0:
                lost += dropped[o - 1]
                if up:
                    tp -= 1.0
                else:
                    fp -= 1.0
            if lost > abs(weight):  # all of the loss is worth less
                break
            while c < j and _gains(added[c], tp, fp, P, alpha, beta, weight):
                gained += added[c]
                c += 1
                if up:
                    fp += 1.0
                else:
                    tp += 1.0
            while c > 0:
                t, f = (tp, fp - 1.0) if up else (tp - 1.0, fp)
                if _gains(added[c - 1], t, f, P, alpha, beta, weight):
                    break
                c -= 1
                gained -= added[c]
                tp, fp = t, f
            value = -weight * _tversky(tp, fp, P, alpha, beta) - lost - gained
            if value > best_value:
                best, best_value, best_inner = o, value, c
                relative[row] = -lost - gained
                counts[row, 0], counts[row, 1] = tp, fp
        of_outer, of_inner = (0, 1) if up else (1, 0)
        cuts[row, of_outer] = cut(dropped, best, 1.0)
        cuts[row, of_inner] = cut(added, best_inner, -1.0)


@compiled
def write(
    scores: NDArray[np.float64],  # [b, N]
    positive: NDArray[np.bool_],  # [b, N]
    valid: NDArray[np.bool_] | None,  # [b, N]
    away: NDArray[np.float64],  # [b, 2, 2]
    toward: NDArray[np.float64] | None,  # [b, 2, 2]
    factors: NDArray[np.float64],  # [b]
    gradient: NDArray[np.floating],  # [b, N] written
) -> None:
    """Write factor·(y_away − y_toward)."""
    for row in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            kind = 0 if positive[row, k] else 1
            s = scores[row, k]
            threshold, share = away[row, kind, 0], away[row, kind, 1]
            y = 1.0 if s > threshold else share if s == threshold else 0.0
            if toward is not None:
                threshold, share = toward[row, kind, 0], toward[row, kind, 1]
                y -= 1.0 if s > threshold else share if s == threshold else 0.0
            gradient[row, k] = factors[row] * y if valid is None or valid[row, k] else 0.0


@compiled
def relative(ascending: NDArray[np.float64], sums: NDArray[np.float64]) -> int:  # [n], [n + 1] written
    """Write the sum of the c largest scores for every c, relative to the prediction; return how many that selects."""
    n = ascending.size
    above = int(n - np.searchsorted(ascending, 0.0, side="right"))
    sums[above] = 0.0
    for c in range(above, n):
        sums[c + 1] = sums[c] + ascending[n - 1 - c]
    for c in range(above, 0, -1):
        sums[c - 1] = sums[c] - ascending[n - c]
    return above


@compiled
def best_cell(
    A: NDArray[np.float64],  # [p] relative sums of positives
    B: NDArray[np.float64],  # [m] relative sums of negatives
    losses: NDArray[np.float64],  # [p, m]
    weight: float,
) -> tuple[float, int, int]:
    """The largest A[i] + B[j] + weight·loss[i, j], and where it is first; NaN if a loss is."""
    best, at_i, at_j = -np.inf, 0, 0
    for i in range(A.size):
        largest = -np.inf
        for j in range(B.size):
            value = B[j] + weight * losses[i, j]
            if np.isnan(value):
                return np.nan, i, j
            largest = max(largest, value)
        if A[i] + largest > best:
            best, at_i = A[i] + largest, i
    for j in range(B.size - 1, -1, -1):
        if A[at_i] + (B[j] + weight * losses[at_i, j]) == best:
            at_j = j
    return best, at_i, at_j
