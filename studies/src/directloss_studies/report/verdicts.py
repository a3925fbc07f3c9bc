"""Verdicts on comparisons and claims, by 95 % confidence intervals. `RULE` says how in words; the functions do it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ..harness.study import Claim, Comparison

__all__ = ["RULE", "Block", "Interval", "Verdict", "blocks", "counted", "interval", "judge", "verdict"]

CONFIDENCE = 0.95
FEWEST_SEEDS = 3

RULE = (
    "A comparison is a mean of paired differences in AP, or in the metric that it names. The two values of a pair come "
    "from the same data and seed; where there are classes, there is a pair for every class and seed. A comparison "
    "holds if its 95 % confidence interval (Student's t) is above zero. It is contradicted if the interval is below "
    "zero, and undecided if the interval contains zero. Undecided does not mean no: more seeds may decide it. "
    "A claim holds if all its comparisons hold. It holds in part if some hold and the others are undecided. It is "
    "mixed if some hold and some are contradicted. It is contradicted if some are contradicted and none holds. It is "
    "undecided if all are undecided. With fewer than three seeds, or while runs are missing, there are too few runs to "
    "say. Where there is no difference at all, about one comparison in twenty is still decided, by chance."
)


class Verdict(StrEnum):
    """A claim can have any of them; a comparison cannot hold in part or be mixed."""

    HOLDS = "holds"
    HOLDS_IN_PART = "holds in part"
    MIXED = "mixed"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    TOO_FEW = "too few runs to say"


class Interval(NamedTuple):
    """The ends of a confidence interval."""

    low: float
    high: float


def interval(comparison: Comparison) -> Interval | None:
    """The 95 % confidence interval of the mean difference, by Student's t; none with fewer than three seeds."""
    if comparison.seeds < FEWEST_SEEDS:
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(len(comparison.differences) - 1, (1 + CONFIDENCE) / 2)) * comparison.error
    return Interval(comparison.mean - reach, comparison.mean + reach)


def verdict(comparison: Comparison) -> Verdict:
    """The verdict on one comparison: where its interval lies."""
    ends = interval(comparison)
    if ends is None:
        return Verdict.TOO_FEW
    if ends.low > 0:
        return Verdict.HOLDS
    return Verdict.CONTRADICTED if ends.high < 0 else Verdict.UNDECIDED


def judge(claims: Claim | Sequence[Claim]) -> Verdict:
    """The verdict on a claim, or on several that say the same of different variants, from all their comparisons."""
    return _together(_verdicts(claims))


def _verdicts(claims: Claim | Sequence[Claim]) -> list[Verdict]:
    """On every comparison. A claim with missing runs, or with none, has too few."""
    if not isinstance(claims, Claim):
        return [each for claim in claims for each in _verdicts(claim)]
    if claims.complete and claims.comparisons:
        return [verdict(comparison) for comparison in claims.comparisons]
    return [Verdict.TOO_FEW] * max(len(claims.comparisons), 1)


def _together(verdicts: Iterable[Verdict]) -> Verdict:
    kinds = set(verdicts)
    if not kinds or Verdict.TOO_FEW in kinds:
        return Verdict.TOO_FEW
    if len(kinds) == 1:
        return kinds.pop()
    if Verdict.HOLDS not in kinds:
        return Verdict.CONTRADICTED
    return Verdict.MIXED if Verdict.CONTRADICTED in kinds else Verdict.HOLDS_IN_PART


def counted(claims: Claim | Sequence[Claim]) -> dict[Verdict, int]:
    """The number of comparisons by verdict, only those that there are, in the order of `Verdict`."""
    verdicts = _verdicts(claims)
    return {each: verdicts.count(each) for each in Verdict if each in verdicts}


@dataclass(frozen=True)
class Block:
    """All claims that say the same, each of another variant."""

    says: str
    source: str
    claims: Sequence[Claim]


def blocks(claims: Iterable[Claim]) -> list[Block]:
    """The claims by what they say, in the order in which they come."""
    by_claim: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        by_claim.setdefault((claim.says, claim.source), []).append(claim)
    return [Block(says, source, some) for (says, source), some in by_claim.items()]
