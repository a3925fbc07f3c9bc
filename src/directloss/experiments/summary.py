"""From runs to numbers: means with their spread, paired differences, verdicts, tables."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

from .experiment import Claim, Comparison, Record, Run, Table
from .methods import METHODS

__all__ = ["RULE", "Outcomes", "choices_table", "claim", "collect", "compare", "noise_table", "records"]

RULE = (
    "A comparison is a paired difference over seeds. A claim holds if every comparison is positive by more than two "
    "standard errors, holds in part if at least half are, and does not hold otherwise; from fewer than three seeds "
    "nothing is concluded."
)

Outcomes = dict[tuple[str, float, str], dict[int, float]]
"""Value by seed, for every variant, noise and method."""


def collect(
    runs: Iterable[Run], key: Callable[[dict[str, Any]], tuple[str, float]], value: Callable[[Run], float]
) -> Outcomes:
    """The values of runs, under variant and noise as `key` says."""
    found: Outcomes = {}
    for run in runs:
        found.setdefault((*key(run.config), run.config["method"]), {})[run.config["seed"]] = value(run)
    return found


def _spread(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def records(experiment: str, metric: str, outcomes: Outcomes) -> list[Record]:
    """Mean, standard deviation and number of seeds of every outcome."""
    return [
        Record(
            experiment, method, noise, variant, None, metric,
            round(mean(values.values()), 6), round(_spread(list(values.values())), 6), len(values),
        )
        for (variant, noise, method), values in outcomes.items()
    ]  # fmt: skip


def compare(outcomes: Outcomes, variant: str, noise: float, method: str, other: str, name: str) -> list[Comparison]:
    """The difference method − other over the seeds that both have; none if fewer than three do."""
    ours, theirs = outcomes.get((variant, noise, method), {}), outcomes.get((variant, noise, other), {})
    differences = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    if len(differences) < 3:
        return []
    error = stdev(differences) / sqrt(len(differences))
    return [Comparison(name, mean(differences), error, len(differences))]


def claim(paper: str, comparisons: Sequence[Comparison]) -> Claim:
    """A claim with its verdict by RULE."""
    if not comparisons:
        return Claim(paper, comparisons, "too few seeds to say")
    clear = sum(comparison.mean > 2 * comparison.error for comparison in comparisons)
    if clear == len(comparisons):
        return Claim(paper, comparisons, "holds")
    return Claim(paper, comparisons, "holds in part" if 2 * clear >= len(comparisons) else "does not hold")


def cell(values: dict[int, float]) -> str:
    """Mean ± standard deviation."""
    return f"{mean(values.values()):.3f} ± {_spread(list(values.values())):.3f}" if values else "–"


def noise_table(title: str, outcomes: Outcomes, variant: str, methods: Iterable[str], note: str = "") -> Table:
    """Methods down, noise across."""
    levels = sorted({noise for name, noise, _ in outcomes if name == variant})
    rows = [[method, *(cell(outcomes.get((variant, noise, method), {})) for noise in levels)] for method in methods]
    return Table(title, ["method", *(f"{noise:.0%}" for noise in levels)], rows, note)


def choices_table(runs: Sequence[Run], chosen: Callable[[Run], int], rule: str) -> Table:
    """What every method tried and how often each value was chosen."""
    rows = []
    for method in dict.fromkeys(run.config["method"] for run in runs):
        mine = [run for run in runs if run.config["method"] == method]
        tried = [tuple(setting) for run in mine for setting in run.config["settings"]]
        picked = [tuple(run.config["settings"][chosen(run)]) for run in mine]
        cells = [method, METHODS[method].strength or "–", str(max(len(run.config["settings"]) for run in mine))]
        for column in range(3):
            counts = Counter(setting[column] for setting in picked)
            cells.append(", ".join(f"{value:g}: {counts[value]}" for value in sorted({s[column] for s in tried})))
        rows.append(cells)
    header = ["method", "strength is", "settings", "strength: runs", "step size: runs", "weight decay: runs"]
    return Table("What was tried, and how often it was chosen", header, rows, rule)
