"""From runs to numbers: means with their spread, paired differences, verdicts, tables."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean, mean, stdev
from typing import Any, Protocol, TypeVar

from ..harness.experiment import Claim, Comparison, Config, ConfigT, Record, ResultT, Run, Table
from ..methods import METHODS
from ..sweep import Choice, CurvesT, Setting

__all__ = [
    "RULE",
    "TOO_FEW",
    "USUAL",
    "USUAL_NOTE",
    "Outcomes",
    "cell",
    "choices_table",
    "claim",
    "collect",
    "compare",
    "compare_whole",
    "means_over",
    "noise_table",
    "of_class",
    "records",
    "records_by_class",
    "restricted",
    "told_apart",
    "with_usual",
]

RULE = (
    "A comparison is a paired difference over seeds (of actions and detection: over classes and seeds); it is clear if "
    "its 95 % confidence interval (Student's t) is above zero. A claim holds if every comparison is clear, holds in "
    "part if at least half are, and else does not hold, which may also mean that the difference is too small for so "
    "few seeds. With fewer than three seeds, or while runs are missing, nothing is concluded."
)
TOO_FEW = "too few runs to say"
T_QUANTILES = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14)  # 97.5 %, from 1 on

USUAL = "x-ent, scale 1"
USUAL_NOTE = (
    f"{USUAL}: cross-entropy as people use it, with only step size and weight decay to tune, from the same runs."
)

Outcomes = dict[tuple[str, float, str], dict[Any, float]]
"""Value by seed, or by class and seed, for every variant, noise and method."""


class Swept(Config, Protocol):
    """A configuration that has several settings to choose from."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All that were tried."""
        ...


SweptT = TypeVar("SweptT", bound=Swept)


def collect(
    runs: Iterable[Run[ConfigT, ResultT]],
    key: Callable[[ConfigT], tuple[str, float]],
    value: Callable[[Run[ConfigT, ResultT]], float],
) -> Outcomes:
    """The values of runs, under variant and noise as `key` says."""
    found: Outcomes = {}
    for run in runs:
        found.setdefault((*key(run.config), run.config.method), {})[run.config.seed] = value(run)
    return found


def restricted(run: Run[SweptT, CurvesT], allowed: Callable[[Setting], bool]) -> Run[SweptT, CurvesT]:
    """The run with only some of its settings."""
    settings = run.config.settings
    places = [k for k, setting in enumerate(settings) if allowed(setting)]
    if len(places) == len(settings):
        return run
    config = replace(run.config, settings=tuple(settings[k] for k in places))  # pyright: ignore[reportArgumentType]
    return Run(config, run.result.only(places), run.made)


def with_usual(runs: Sequence[Run[SweptT, CurvesT]]) -> list[Run[SweptT, CurvesT]]:
    """The runs, and those of x-ent once more with only the settings of scale 1: cross-entropy as people use it."""
    usual = [restricted(run, lambda setting: setting.strength == 1.0) for run in runs if run.config.method == "x-ent"]
    return [*runs, *(replace(run, config=replace(run.config, method=USUAL)) for run in usual)]  # pyright: ignore


def records(experiment: str, metric: str, outcomes: Outcomes) -> list[Record]:
    """Mean, standard deviation and number of seeds of every outcome."""
    found = []
    for (variant, noise, method), by_seed in outcomes.items():
        values = list(by_seed.values())
        sd = round(stdev(values), 6) if len(values) > 1 else None
        found.append(Record(experiment, method, noise, variant, None, metric, round(mean(values), 6), sd, len(values)))
    return found


def compare(outcomes: Outcomes, variant: str, noise: float, method: str, other: str, name: str) -> list[Comparison]:
    """The difference method − other over the seeds that both have; none if fewer than three do."""
    ours, theirs = outcomes.get((variant, noise, method), {}), outcomes.get((variant, noise, other), {})
    differences = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    if len(differences) < 3:
        return []
    return [Comparison(name, mean(differences), stdev(differences) / sqrt(len(differences)), len(differences))]


def claim(paper: str, comparisons: Sequence[Comparison], expected: int) -> Claim:
    """A claim that makes so many comparisons, with its verdict by RULE."""
    if len(comparisons) < expected:
        return Claim(paper, comparisons, TOO_FEW)
    clear = sum(mean > T_QUANTILES[min(n - 1, len(T_QUANTILES)) - 1] * error for _, mean, error, n in comparisons)
    if clear == expected:
        return Claim(paper, comparisons, "holds")
    return Claim(paper, comparisons, "holds in part" if 2 * clear >= expected else "does not hold")


def cell(values: Collection[float]) -> str:
    """Mean ± standard deviation."""
    if not values:
        return "–"
    return f"{mean(values):.3f} ± {stdev(values):.3f}" if len(values) > 1 else f"{mean(values):.3f}"


def noise_table(title: str, outcomes: Outcomes, variant: str, methods: Iterable[str], note: str = "") -> Table:
    """Methods down, noise across."""
    levels = sorted({noise for name, noise, _ in outcomes if name == variant})
    rows = [
        [method, *(cell(outcomes.get((variant, noise, method), {}).values()) for noise in levels)] for method in methods
    ]
    return Table(title, ["method", *(f"{noise:.0%}" for noise in levels)], rows, note)


def choices_table(
    title: str, runs: Sequence[Run[SweptT, ResultT]], chosen: Callable[[Run[SweptT, ResultT]], Choice]
) -> Table:
    """What every method tried, how often each value was chosen, and how often one at the edge of its grid.

    Settings that tie share a run among them.
    """
    rows = []
    for method in dict.fromkeys(run.config.method for run in runs):
        mine = [run for run in runs if run.config.method == method]
        cells = [method, METHODS[method].strength or "–", str(max(len(run.config.settings) for run in mine))]
        edges = []
        for column in range(3):
            tried = sorted({setting[column] for run in mine for setting in run.config.settings})
            counts: Counter[float] = Counter()
            for run in mine:
                settings = chosen(run).settings
                for setting in settings:
                    counts[run.config.settings[setting][column]] += 1 / len(settings)  # pyright: ignore
            cells.append(", ".join(f"{value:g}: {round(counts[value], 1):g}" for value in tried))
            at_edge = counts[tried[0]] + counts[tried[-1]]
            edges.append(f"{at_edge / len(mine):.0%}" if len(tried) > 2 else "–")
        rows.append([*cells, " / ".join(edges[:2])])
    header = [
        "method",
        "strength is",
        "settings",
        "strength: runs",
        "step size: runs",
        "weight decay: runs",
        "at an edge",
    ]
    note = "At an edge: share of runs whose strength / step size is the smallest or largest that was tried."
    return Table(title, header, rows, note)


def told_apart(found: Mapping[tuple[str, str], list[Run[ConfigT, ResultT]]]) -> dict[str, list[Run[ConfigT, ResultT]]]:
    """Runs by name and digest of their data, under the name alone where that says enough."""
    names = [name for name, _ in found]
    return {
        name if names.count(name) == 1 else f"{name} (data and weights {digest})": some
        for (name, digest), some in found.items()
    }


def means_over(classes: Sequence[str], pairs: Outcomes) -> Outcomes:
    """From outcomes by class and seed the mean over classes by seed, of seeds that have all of them."""
    found: Outcomes = {}
    for key, values in pairs.items():
        for seed in sorted({seed for _, seed in values}):
            if all((name, seed) in values for name in classes):
                found.setdefault(key, {})[seed] = fmean(values[name, seed] for name in classes)
    return found


def of_class(wanted: str, pairs: Outcomes) -> Outcomes:
    """From outcomes by class and seed those of one class, by seed."""
    found: Outcomes = {}
    for key, values in pairs.items():
        for (name, seed), value in values.items():
            if name == wanted:
                found.setdefault(key, {})[seed] = value
    return found


def records_by_class(experiment: str, classes: Mapping[str, str], pairs: Outcomes) -> list[Record]:
    """Of every class, under its name in words, and the differences of pos-AP to every other method."""
    found = []
    for name, words in classes.items():
        of_this = records(experiment, "test_ap", of_class(name, pairs))
        found += [record._replace(class_=words) for record in of_this]
    for variant, noise, other in pairs:
        for one in compare(pairs, variant, noise, "pos-AP", other, other) if other != "pos-AP" else []:
            numbers = round(one.mean, 6), round(one.error * one.n**0.5, 6), one.n
            found.append(Record(experiment, other, noise, variant, None, "pos-AP_minus_this", *numbers))
    return found


def compare_whole(
    classes: Sequence[str], pairs: Outcomes, variant: str, noise: float, method: str, other: str
) -> list[Comparison]:
    """`compare` over classes and seeds; none where a class is missing or there are fewer than three seeds."""
    both = [pairs.get((variant, noise, of), {}).keys() for of in (method, other)]
    seeds = {seed for _, seed in both[0]}
    if len(seeds) < 3 or both[0] != both[1] or len(both[0]) != len(seeds) * len(classes):
        return []
    return compare(pairs, variant, noise, method, other, f"{method} − {other} at {noise:.0%}")
