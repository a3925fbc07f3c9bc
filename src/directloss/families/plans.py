"""How a metric of a ranked list is solved: what its two vectors allow, for one number of positives and negatives.

A kernel gets a plan. It says which algorithm is the fastest exact one for each sign of the weight.
"""

from importlib import import_module
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ByNegatives", "ByRank", "Plan", "checked", "describe", "make_plan"]

SMALL = 1 << 12  # cells up to which a table is solved whole
CUT_CELLS = 1 << 26  # of the triangle above a cut that is solved whole
ROUNDING = 1e-9  # how far sums may take a loss above 1
NEGLIGIBLE = 1e-150  # a discount below this share of the largest is 0: times a small ε it might be, at some scales only


class ByRank(NamedTuple):
    """The gain of the i-th positive at a rank: weights[i]·discounts[rank].

    Here all of three positives weigh the same, and the first two of five ranks count:

    >>> ByRank(weights=[1, 1, 1], discounts=[1, 1, 0, 0, 0]).discounts[2]
    0
    """

    weights: ArrayLike
    """(positives,), at least 0."""
    discounts: ArrayLike
    """(positives + negatives,), never rising; discounts[0] is rank 1."""


class ByNegatives(NamedTuple):
    """The gain of the i-th positive with c negatives above it: weights[i]·discounts[c].

    Here two positives gain less, the more of two negatives stand above them, as for the area under the ROC curve:

    >>> ByNegatives(weights=[1, 1], discounts=[1.0, 0.5, 0.0]).discounts[0]
    1.0
    """

    weights: ArrayLike
    """(positives,), at least 0."""
    discounts: ArrayLike
    """(negatives + 1,), never rising; discounts[0] is for no negative above."""


class Plan(NamedTuple):
    """What the kernel needs to know about a metric, for one number of positives and negatives."""

    weights: NDArray[np.float64]
    discounts: NDArray[np.float64]
    by_rank: int
    best: float
    share: float
    equal_weights: bool
    algorithms: tuple[int, int]
    cut: int


def make_plan(task: Any, positives: int, negatives: int) -> Plan:
    """The plan of a task for such lists."""
    gain, scale = task.gain(positives, negatives), task.scale(positives, negatives)
    weights, discounts, by_rank = checked(task, gain, positives, negatives)
    best = float(weights @ (discounts[:positives] if by_rank else np.full(positives, discounts[0])))
    if not 0 < best < np.inf:
        raise ValueError(
            f"{type(task).__name__}.gain({positives}, {negatives}) must be above 0 for the perfect ranking; got {best}."
        )
    worst = float(weights @ (discounts[negatives:] if by_rank else np.full(positives, discounts[negatives])))
    if worst < -ROUNDING * best:
        raise ValueError(
            f"{type(task).__name__}.gain({positives}, {negatives}) must be at least 0 for the worst ranking, so that "
            f"no loss is above 1; got {worst}."
        )
    if not (isinstance(scale, int | float) and 0 < scale < np.inf):
        raise ValueError(
            f"{type(task).__name__}.scale({positives}, {negatives}) must be a number above 0; got {scale!r}."
        )
    algorithms, cut = _choose(weights, discounts, by_rank, negatives)
    equal_weights = bool(weights.min() == weights.max())
    return Plan(weights, discounts, by_rank, best, scale / (positives * negatives), equal_weights, algorithms, cut)


def checked(task: Any, gain: Any, positives: int, negatives: int) -> tuple[NDArray[Any], NDArray[Any], int]:
    """The vectors of a gain; raises an error if they are not valid."""
    place = f"{type(task).__name__}.gain({positives}, {negatives})"
    if not isinstance(gain, ByRank | ByNegatives):
        raise TypeError(
            f"{place} must return ByRank(weights, discounts) or ByNegatives(weights, discounts); got {gain!r}."
        )
    by_rank = isinstance(gain, ByRank)
    lengths = positives, positives + negatives if by_rank else negatives + 1
    vectors = []
    for name, values, length in zip(("weights", "discounts"), gain, lengths, strict=True):
        vector = np.ascontiguousarray(values, np.float64)
        if vector.shape != (length,):
            raise ValueError(
                f"{place} must have {length} {name}, one {_EACH[name, by_rank]}; got shape {vector.shape}."
            )
        if not np.isfinite(vector).all():
            raise ValueError(f"{place} must have finite {name}; got {vector[~np.isfinite(vector)][0]}.")
        vectors.append(vector)
    weights, discounts = vectors
    if (weights < 0).any():
        raise ValueError(f"{place} must have weights of at least 0; got {weights.min()}.")
    rises = np.flatnonzero(np.diff(discounts) > 0)
    if rises.size:
        k = rises[0]
        raise ValueError(
            f"{place} must have discounts that never rise; got {discounts[k]} and then {discounts[k + 1]} at index "
            f"{k + 1}. A positive further down cannot gain more."
        )
    discounts = np.where(np.abs(discounts) < NEGLIGIBLE * np.abs(discounts).max(), 0.0, discounts)
    return weights, discounts, int(by_rank)


_EACH = {
    ("weights", True): "a positive",
    ("weights", False): "a positive",
    ("discounts", True): "a rank",
    ("discounts", False): "for no negative above and each number of them",
}


def _choose(
    weights: NDArray[np.float64], discounts: NDArray[np.float64], by_rank: int, negatives: int
) -> tuple[tuple[int, int], int]:
    """The fastest exact algorithm for each sign, and the rank behind which discounts are constant.

    D rises in i where its loss part, ±weights·drops, does; it falls in c where ±discounts are convex.
    """
    kernels = import_module("directloss.kernels.ranking")
    positives = weights.size
    drops = -np.diff(discounts)
    slack = 1e-14 * abs(discounts[0])
    steps = np.diff(drops)
    convex, concave = bool((steps <= slack).all()), bool((steps >= -slack).all())
    rising, falling = bool((np.diff(weights) >= 0).all()), bool((np.diff(weights) <= 0).all())
    changes = np.flatnonzero(drops)
    cut = int(changes[-1]) + 1 if changes.size else 0
    triangle = min(min(positives, cut) * (min(negatives, cut) + 1), cut * (cut + 3) // 2)
    algorithms = []
    for rows, columns in (
        (rising and (not by_rank or concave), convex),
        (falling and (not by_rank or convex), concave),
    ):
        if np.count_nonzero(weights) == 1:
            algorithm = kernels.ONE_ROW
        elif rows:
            algorithm = kernels.WALK if columns else kernels.ROWS
        elif columns:
            algorithm = kernels.COLUMNS
        elif by_rank and cut and (discounts[0] == discounts[cut - 1] or triangle <= CUT_CELLS):
            algorithm = kernels.CUT
        else:
            algorithm = kernels.TABLE if positives * negatives <= SMALL else kernels.BAND
        algorithms.append(algorithm)
    return (algorithms[0], algorithms[1]), cut


def describe(algorithm: int, plan: Plan) -> str:
    """What an algorithm does, and what it costs for P positives and M negatives."""
    kernels = import_module("directloss.kernels.ranking")
    P = plan.weights.size
    M = plan.discounts.size - P if plan.by_rank else plan.discounts.size - 1
    k = plan.cut
    triangle = min(P * (M + 1), k * (k + 3) // 2)
    flat = algorithm == kernels.CUT and plan.discounts[0] == plan.discounts[k - 1]
    words, steps = {
        kernels.WALK: ("the best place of each positive, all in one pass, O(P + M)", P + M),
        kernels.ROWS: (
            "the best place of each positive, by divide and conquer, O(M log P + P)",
            M * ceil(log2(P + 1)) + P,
        ),
        kernels.COLUMNS: (
            "the best place of each negative, by divide and conquer, O(P log M + M)",
            P * ceil(log2(M + 1)) + M,
        ),
        kernels.ONE_ROW: ("the best place of the only positive that counts, O(P + M)", P + M),
        kernels.CUT: (
            (f"the best number of positives in the first {k:,} ranks, O(P + M)", P + M)
            if flat
            else (f"dynamic programming over the first k = {k:,} ranks, O(k² + P + M)", triangle + P + M)
        ),
        kernels.BAND: (
            "bounds on the place of each positive, then dynamic programming between them, at worst O(PM)",
            P * M,
        ),
        kernels.TABLE: ("dynamic programming over all places, O(PM)", P * M),
    }[algorithm]
    return f"{words}: at most {steps:,} steps"
