"""The scale of F at which ε = 1 goes half the way to the largest loss, for scores from N(0, 1).

F grows with all pairs, a metric may look at few of them. So the ε that changes anything depends on the metric and on
the length of the list. It is measured here, on a coarse picture of some random lists: positives and negatives are taken
together in cells, small ones at both ends of the ranking. A dynamic programme over cells finds max F + ε·L for many ε
at once. The slope of this maximum is the loss of its output.
"""

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["natural_scale"]

Array = NDArray[np.float64]

LISTS = 24  # that are drawn
CELLS = 24  # at each end
EPSILONS = 10.0 ** np.arange(-18, 6.1, 0.4)
TYPICAL = 2.0  # the ε that goes half the way, in the middle of what is usual
LEAST = 1e-2  # of the loss that can still be lost, in a list that tells something


def natural_scale(weights: Array, discounts: Array, by_rank: bool, negatives: int) -> float:
    """The scale for a gain `weights[i]·discounts[...]`, see `ByRank` and `ByNegatives`; 1 if nothing can be lost.

    >>> natural_scale(np.ones(10), np.linspace(1, 0, 91), by_rank=False, negatives=90) > 0  # the area under ROC
    True
    """
    if not (weights.max() > 0 and discounts[0] > 0):  # the plan refuses it
        return 1.0
    positives, weights = weights.size, weights / weights.max()
    rows, columns = _edges(positives), _edges(negatives)
    starts = rows[:-1]
    weight = np.add.reduceat(weights, starts)
    centre = np.add.reduceat(weights * np.arange(positives), starts) / np.where(weight > 0, weight, 1.0)
    heaviest = np.where(weight > 0, np.rint(centre), starts).astype(np.int64)
    best = float(weights @ (discounts[:positives] if by_rank else np.full(positives, discounts[0])))
    gains = weight[:, None] * discounts[(heaviest * by_rank)[:, None] + columns] / best
    generator = np.random.default_rng(0)
    normal = generator.standard_normal((2, LISTS, 4 * CELLS))  # the same for all sizes, so that the scale is smooth
    of_positives, of_negatives = _drawn(rows, normal[0]), _drawn(columns, normal[1])
    epsilons = _halfway(of_positives, of_negatives, rows, columns, gains)
    if not epsilons.size:  # random lists have lost all already: take the perfect ranking
        places = (rows[:-1] + rows[1:]) / 2, positives + (columns[:-1] + columns[1:]) / 2
        of_positives, of_negatives = (_normal(1 - place[None] / (positives + negatives)) for place in places)
        epsilons = _halfway(of_positives, of_negatives, rows, columns, gains)
    return TYPICAL / float(np.exp(np.median(np.log(epsilons)))) if epsilons.size else 1.0


def _edges(items: int) -> NDArray[np.int64]:
    """Where cells begin and end: each item by itself in short lists, larger cells in the middle of long ones."""
    if items <= 2 * CELLS:
        return np.arange(items + 1)
    half = np.unique(np.rint(np.geomspace(1, items / 2, CELLS)).astype(np.int64))
    return np.unique(np.concatenate([[0], half, items - half, [items]]))


def _normal(share: Array) -> Array:
    """The quantiles of N(0, 1)."""
    return torch.special.ndtri(torch.from_numpy(share)).numpy()


def _drawn(edges: NDArray[np.int64], normal: Array) -> Array:
    """A score for each cell of sorted scores from N(0, 1), the largest first, [lists, cells].

    The places of sorted uniform numbers are sums of exponential ones over the sum of all. A sum of n exponential
    numbers is about the cube of a normal one (Wilson and Hilferty).
    """
    items = np.diff(edges).astype(np.float64)
    steps = items * np.maximum(1 - 1 / (9 * items) + normal[:, : items.size] / (3 * np.sqrt(items)), 0.05) ** 3
    share = (steps.cumsum(1) - steps / 2) / (steps.sum(1, keepdims=True) + 1)
    return -_normal(share)


def _halfway(a: Array, b: Array, rows: NDArray[np.int64], columns: NDArray[np.int64], gains: Array) -> Array:
    """The ε of each list that goes half the way from its loss to the largest; lists with nothing to lose are left out.

    F = 1/(PM) Σ ± (a_i − b_j). With the first c negatives above a cell of positives, F is 2/(PM)·(b_1 + … + b_c − c·a)
    for each of them, up to a constant.
    """
    sums = np.concatenate([np.zeros((len(b), 1)), (b * np.diff(columns)).cumsum(1)], 1)
    most = np.zeros((len(b), EPSILONS.size, columns.size))
    for row, items in enumerate(np.diff(rows)):
        score = 2.0 * items / (rows[-1] * columns[-1]) * (sums - a[:, row, None] * columns)
        np.maximum.accumulate(most, axis=2, out=most)
        most += (score - score.max(1, keepdims=True))[:, None]  # 0 for the prediction, so that small losses are seen
        most -= EPSILONS[:, None] * gains[row]
    loss = np.diff(most.max(2) + EPSILONS, axis=1) / np.diff(EPSILONS)
    start, top = loss[:, :1], loss[:, -1:]
    half = (start + top) / 2
    reached = np.maximum((loss >= half).argmax(1), 1)
    lists, middle = np.arange(len(loss)), np.log(EPSILONS[:-1] * EPSILONS[1:]) / 2
    below, above = loss[lists, reached - 1], loss[lists, reached]
    share = np.where(above > below, (half[:, 0] - below) / np.where(above > below, above - below, 1.0), 1.0).clip(0, 1)
    crossing = np.exp(middle[reached - 1] + share * (middle[reached] - middle[reached - 1]))
    return crossing[(top - start)[:, 0] > LEAST]
