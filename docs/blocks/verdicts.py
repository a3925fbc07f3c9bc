"""Verdicts, as the reports under studies/results/ give them."""

import re
from functools import cache
from typing import NamedTuple

from directloss_studies.report.verdicts import Verdict
from directloss_studies.report.verdicts import _together as judge_verdicts

from .numbers import PLAIN, RESULTS, as_table

__all__ = ["FOUR", "NOISE", "RIVALS", "THREE", "WITHSTANDS", "claims_of", "verdict_of", "verdict_table"]

CLAIM = re.compile(r"\*\*(?P<says>.*) \((?P<source>[^()]*)\): [^:]*\*\*")
COMPARISON = re.compile(r"\| (?P<variant>.*?) \|.*\| (?P<verdict>holds|contradicted|undecided) \|")


class Judged(NamedTuple):
    """A claim of a report, and the verdicts on its comparisons."""

    study: str
    source: str
    verdicts: dict[str, list[Verdict]]
    """By variant."""


@cache
def claims_of(report: str) -> dict[str, Judged]:
    """The claims of a report, by what they say."""
    found: dict[str, Judged] = {}
    study = ""
    for line in (RESULTS / f"{report}.md").read_text().splitlines():
        if line.startswith("## "):
            study = line.removeprefix("## ").removesuffix(", paper preset")
        elif match := CLAIM.fullmatch(line):
            found[match["says"]] = Judged(study, match["source"], {})
        elif match := COMPARISON.fullmatch(line):
            last = [*found.values()][-1]
            last.verdicts.setdefault(match["variant"], []).append(Verdict(match["verdict"]))
    return found


def verdict_of(reports: str | tuple[str, ...], says: str, variant: str | None = None) -> str:
    """The verdict on a claim, of one variant or of all, and the number of comparisons of each kind."""
    several = (reports,) if isinstance(reports, str) else reports
    by_variant = {name: some for report in several for name, some in claims_of(report)[says].verdicts.items()}
    verdicts = by_variant[variant] if variant else [each for some in by_variant.values() for each in some]
    together = judge_verdicts(verdicts)
    words = {Verdict.HOLDS: ("holds", "hold")}
    counts = [(verdicts.count(kind), words.get(kind, (kind, kind))) for kind in Verdict if kind in verdicts]
    if len(counts) == 1:
        return f"{together} ({len(verdicts)} of {len(verdicts)})"
    return f"{together} ({', '.join(f'{count} {names[count > 1]}' for count, names in counts)})"


def verdict_table(corner: str, report: str, says: dict[str, str], variants: dict[str, str]) -> str:
    """One row a variant, one column a claim. Both dictionaries: from the words of studies/results/ to those to show."""
    rows = [[shown, *(verdict_of(report, claim, variant) for claim in says)] for variant, shown in variants.items()]
    return as_table([corner, *says.values()], rows)


NOISE = (0.0, 0.1, 0.2, 0.3, 0.4)
WITHSTANDS = "pos-AP withstands label noise better than {}"
RIVALS = ("x-ent", "hinge-AP")
THREE = ("x-ent", "hinge-AP", "pos-AP")
FOUR = ("x-ent", PLAIN, "hinge-AP", "pos-AP")
