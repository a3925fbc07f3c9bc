"""Precision by score: of the detections with such a score, the share that is right."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .boxes import Floats

__all__ = ["Knots", "check_knots", "fit_precision", "precision_at"]

Knots = tuple[tuple[float, float], ...]
"""Rising scores, each with its precision, which never falls. Between two scores it is linear, and outside constant."""


def fit_precision(scores: Floats, right: NDArray[np.bool_]) -> Knots:
    """Isotonic regression: of all precisions that never fall as the score rises, the one with the least squared error.

    One wrong detection is added at the highest score. So k right ones at the top give k / (k + 1), and never certainty.
    Pool adjacent violators: scores whose precision is not above that of lower ones share one precision with them.
    """
    levels, numbers = np.unique(scores, return_inverse=True)
    found = np.bincount(numbers, right, len(levels))
    counts = np.bincount(numbers, minlength=len(levels))
    counts[-1:] += 1
    pools: list[tuple[float, float, float, int]] = []  # lowest and highest score, right detections, all detections
    for score, hits, count in zip(levels.tolist(), found.tolist(), counts.tolist(), strict=True):
        lowest = score
        while pools and pools[-1][2] * count >= hits * pools[-1][3]:
            lowest, _, more_hits, more = pools.pop()
            hits, count = hits + more_hits, count + more
        pools.append((lowest, score, hits, count))
    return tuple((score, hits / count) for *ends, hits, count in pools for score in dict.fromkeys(ends))


def precision_at(knots: Knots, score: float) -> float | None:
    """The precision at a score; None if it is not known."""
    if not knots:
        return None
    scores, precisions = zip(*knots, strict=True)
    return float(np.interp(score, scores, precisions))


def check_knots(knots: Knots) -> None:
    """Raise a ValueError unless scores rise, and precision is from 0 to 1 and never falls."""
    if any(low[0] >= high[0] or low[1] > high[1] for low, high in pairwise(knots)):
        raise ValueError("precision by score must have rising scores and a precision that never falls")
    if not all(0 <= precision <= 1 for _, precision in knots):
        raise ValueError("precision by score must be from 0 to 1")
