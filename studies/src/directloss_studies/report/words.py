"""Numbers and counts in words, the same in the page, in Markdown and in a terminal."""

from collections.abc import Collection, Mapping
from statistics import mean, stdev

from ..harness.study import Comparison
from .verdicts import Verdict, interval

__all__ = ["cell", "counts_in_words", "difference", "interval_in_words", "percent", "signed"]


def percent(share: float) -> str:
    """A share as a percentage: 20 %."""
    return f"{100 * share:.3g} %"


def signed(value: float) -> str:
    """A difference with its sign, and a true minus."""
    return f"{value:+.3f}".replace("-", "−")


def cell(values: Collection[float]) -> str:
    """Mean ± standard deviation, or a dash if there is nothing."""
    if not values:
        return "–"
    return f"{mean(values):.3f} ± {stdev(values):.3f}" if len(values) > 1 else f"{mean(values):.3f}"


def difference(comparison: Comparison) -> str:
    """The mean difference, or a dash if there is none."""
    return signed(comparison.mean) if comparison.differences else "–"


def interval_in_words(comparison: Comparison) -> str:
    """Both ends of the interval, or a dash if there is none."""
    found = interval(comparison)
    return f"{signed(found.low)} to {signed(found.high)}" if found else "–"


def counts_in_words(counts: Mapping[Verdict, int]) -> str:
    """The number of comparisons by verdict: 3 hold, 1 undecided."""
    return ", ".join(f"{count} {_of(verdict, count)}" for verdict, count in counts.items())


def _of(verdict: Verdict, count: int) -> str:
    if verdict is Verdict.HOLDS:
        return "holds" if count == 1 else "hold"
    return "with too few runs" if verdict is Verdict.TOO_FEW else str(verdict)
