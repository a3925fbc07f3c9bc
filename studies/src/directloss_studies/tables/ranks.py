"""Ranks of methods over tables, and what can be said of them: Friedman, Nemenyi, and Wilcoxon with Holm.

Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 2006.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Ranks", "cliques", "holm", "rank"]


class Ranks(NamedTuple):
    """The mean rank of every method, 1 is best; and what the test says."""

    means: dict[str, float]
    tables: int
    friedman: float
    """The probability of ranks that differ as much, if all methods were alike."""
    critical: float
    """Nemenyi's critical difference at 5 %: mean ranks that differ by less may be alike."""


def rank(values: Mapping[str, Sequence[float]]) -> Ranks:
    """Rank methods on every table by their values, of which higher is better; equal values share their ranks."""
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    methods = list(values)
    table = np.array([values[method] for method in methods]).T
    tables, count = table.shape
    means = rankdata(-table.round(6), axis=1).mean(0)
    chance = 1.0
    if count > 2 and tables > 1 and (table != table[:, :1]).any():
        chance = float(friedmanchisquare(*table.T.round(6)).pvalue)
    q = float(studentized_range.ppf(0.95, count, np.inf)) / 2**0.5
    critical = q * (count * (count + 1) / (6 * tables)) ** 0.5
    found = dict(zip(methods, map(float, means), strict=True))
    return Ranks(dict(sorted(found.items(), key=lambda item: item[1])), tables, chance, critical)


def holm(differences: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Wilcoxon's signed-rank test of every method's differences, corrected for their number after Holm."""
    from scipy.stats import wilcoxon

    chances = dict.fromkeys(differences, 1.0)
    for name, some in differences.items():
        if any(some) and len(some) > 4:
            tested: Any = wilcoxon(some, method="approx")
            chances[name] = float(tested.pvalue)
    found, highest = {}, 0.0
    for place, name in enumerate(sorted(chances, key=lambda name: chances[name])):
        highest = max(highest, min(1.0, (len(chances) - place) * chances[name]))
        found[name] = highest
    return {name: found[name] for name in differences}


def cliques(ranks: Ranks) -> list[tuple[float, float]]:
    """From and to which mean rank bars of a diagram go: the longest ones that are shorter than the difference."""
    means = list(ranks.means.values())
    bars = [(low, max(value for value in means if value - low <= ranks.critical)) for low in means]
    return [
        (low, high)
        for place, (low, high) in enumerate(bars)
        if high > low and not any(other[1] >= high for other in bars[:place])
    ]
