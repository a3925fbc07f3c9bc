"""What the summaries of several studies share: outcomes of runs, plain cross-entropy, and their tables."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any, Protocol, TypeVar

from ..harness.study import Config, ConfigT, Record, ResultT, Run, Table
from ..linear_models import LINEAR_MODELS, LINEAR_NOTE, WEIGHT
from ..methods import METHODS, PLAIN, PLAIN_NOTE
from ..sweep import Choice, CurvesT, Rule, Setting
from .outcomes import Outcomes, Unit, difference_records, records
from .words import cell, percent

__all__ = [
    "baselines_note",
    "by_source",
    "choices_table",
    "collect",
    "methods_table",
    "noise_table",
    "of_group",
    "paper_table",
    "records_by_class",
    "restricted",
    "source_of",
    "with_plain",
]


class Swept(Config, Protocol):
    """A configuration that has several settings to choose from."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All that were tried."""
        ...


SweptT = TypeVar("SweptT", bound=Swept)


def collect(
    runs: Iterable[Run[ConfigT, ResultT]],
    place: Callable[[ConfigT], tuple[str, float]],
    value: Callable[[Run[ConfigT, ResultT]], float],
) -> Outcomes:
    """A value of every run. `place` gives the variant and the noise of a configuration."""
    outcomes = Outcomes()
    for run in runs:
        outcomes.put(*place(run.config), run.config.method, Unit(run.config.seed), value(run))
    return outcomes


def restricted(run: Run[SweptT, CurvesT], allowed: Callable[[Setting], bool]) -> Run[SweptT, CurvesT]:
    """The run with only some of its settings."""
    settings = run.config.settings
    places = [k for k, setting in enumerate(settings) if allowed(setting)]
    if len(places) == len(settings):
        return run
    config = replace(run.config, settings=tuple(settings[k] for k in places))  # pyright: ignore[reportArgumentType]
    return Run(config, run.result.only(places), run.provenance)


def with_plain(runs: Sequence[Run[SweptT, CurvesT]]) -> list[Run[SweptT, CurvesT]]:
    """The runs, and those of x-ent once more with only the settings of scale 1, where it has others too."""
    scaled = [run for run in runs if run.config.method == "x-ent" and any(s.strength != 1 for s in run.config.settings)]
    plain = [restricted(run, lambda setting: setting.strength == 1.0) for run in scaled]
    return [*runs, *(replace(run, config=replace(run.config, method=PLAIN)) for run in plain)]  # pyright: ignore


def methods_table(
    title: str,
    columns: Mapping[str, Callable[[str], Collection[float]]],
    methods: Iterable[str],
    note: str = "",
    *,
    corner: str = "method",
    shown: Callable[[Collection[float]], str] = cell,
    low_is_good: bool = False,
    words: Mapping[str, str] | None = None,
) -> Table:
    """Methods down; a column gives the values of a method. The best mean of a column is marked.

    A method without values has no row. `words` has names to show in place of methods'.
    """
    there = [method for method in methods if any(values(method) for values in columns.values())]
    names = words or {}
    rows = []
    for method in there:
        cells = [shown(some) if (some := values(method)) else "–" for values in columns.values()]
        rows.append([names.get(method, method), *cells])
    best = set()
    for number, values in enumerate(columns.values(), 1):
        means = {row: mean(some) for row, method in enumerate(there) if (some := values(method))}
        if len(means) > 1:
            extreme = (min if low_is_good else max)(means.values())
            best |= {(row, number) for row, value in means.items() if value == extreme}
    return Table(title, [corner, *columns], rows, note, best)


def of_group(outcomes: Outcomes, variant: str, noise: float = 0.0) -> Callable[[str], list[float]]:
    """A column for `methods_table`: the values of a method, of one variant and noise."""
    return lambda method: outcomes.values(variant, noise, method)


def noise_table(title: str, outcomes: Outcomes, variant: str, methods: Iterable[str], note: str = "") -> Table:
    """Methods down, noise across."""
    columns = {percent(noise): of_group(outcomes, variant, noise) for noise in outcomes.levels(variant)}
    return methods_table(title, columns, methods, note)


class Part(Protocol):
    """The runs on one source of data: their methods and classes, their variants by rule, and the mean over classes."""

    methods: list[str]
    classes: list[str]
    variants: Any
    means: Outcomes


def paper_table(
    title: str, paper: Mapping[str, Mapping[float, float]], parts: Sequence[Part], methods: Collection[str], note: str
) -> Table:
    """The paper's numbers by method and noise, and below them ours of these methods."""
    levels = sorted({noise for row in paper.values() for noise in row})
    rows = [
        [f"{method}, the paper", *(f"{row[noise]:.3f}" if noise in row else "–" for noise in levels)]
        for method, row in paper.items()
    ]
    rows += [
        [f"{method}, {variant}", *(cell(part.means.values(variant, noise, method)) for noise in levels)]
        for part in parts
        for variant in part.variants.values()
        for method in part.methods
        if method in methods
    ]
    classes = " or ".join(map(str, sorted({len(part.classes) for part in parts}))) or "no"
    spread = f"mean ± standard deviation over seeds of the mean over {classes} classes"
    note = f"Share of flipped training labels; {spread}. {note}"
    return Table(title, ["mean AP of the classes", *map(percent, levels)], rows, note)


def baselines_note(methods: Collection[str]) -> str:
    """What plain cross-entropy and scikit-learn's classifiers are, where they are among the methods."""
    notes = {PLAIN_NOTE: PLAIN in methods, LINEAR_NOTE: not set(LINEAR_MODELS).isdisjoint(methods)}
    return "".join(f" {note}" for note, there in notes.items() if there)


def choices_table(
    title: str,
    runs: Sequence[Run[SweptT, ResultT]],
    rule: Rule | Callable[[Run[SweptT, ResultT]], Choice],
    strengths: Mapping[str, str | None] | None = None,
) -> Table:
    """What every method tried, how often each value was chosen, and how often one at the edge of its grid.

    Settings that tie share a run among them. `strengths` says what the strength of a method is, if not `METHODS`.
    """
    strengths = strengths or {name: method.strength for name, method in METHODS.items()} | dict.fromkeys(
        LINEAR_MODELS, WEIGHT
    )
    choose, places = (rule.choose, rule.places) if isinstance(rule, Rule) else (rule, lambda of: list(range(len(of))))
    rows = []
    for method in dict.fromkeys(run.config.method for run in runs):
        mine = [run for run in runs if run.config.method == method]
        tried = [[run.config.settings[place] for place in places(run.config.settings)] for run in mine]
        chosen = [[run.config.settings[place] for place in choose(run).settings] for run in mine]
        cells = [method, strengths[method] or "–", str(max(map(len, tried)))]
        edges = []
        for column in range(3):
            values = sorted({setting[column] for settings in tried for setting in settings})
            counts: Counter[float] = Counter()
            for settings in chosen:
                for setting in settings:
                    counts[setting[column]] += 1 / len(settings)  # pyright: ignore
            cells.append(", ".join(f"{value:g}: {round(counts[value], 1):g}" for value in values))
            at_edge = counts[values[-1]] + (counts[values[0]] if values[0] else 0)
            edges.append(percent(round(at_edge / len(mine), 2)) if len(values) > 2 else "–")
        rows.append([*cells, " / ".join(edges)])
    header = [
        "method",
        "strength is",
        "settings",
        "strength: runs",
        "step size: runs",
        "weight decay: runs",
        "at an edge",
    ]
    note = (
        "At an edge: the share of runs whose strength / step size / weight decay is the smallest or the largest that "
        "was tried. No decay is no edge: there is nothing below it."
    )
    return Table(title, header, rows, note)


def source_of(run: Run[Any, Any]) -> Any:
    """The data and weights of a run."""
    if run.config.source is None:
        raise ValueError("A run without a source: there is no such run on disk.")
    return run.config.source


def by_source(
    runs: Iterable[Run[ConfigT, ResultT]], describe: Callable[[Run[ConfigT, ResultT]], tuple[str, str]]
) -> dict[str, list[Run[ConfigT, ResultT]]]:
    """The runs by the name that `describe` gives; where data or weights differ, the name has their digest.

    `describe` returns the name of a run, and the keys of its data and weights.
    """
    by_name: dict[tuple[str, str], list[Run[ConfigT, ResultT]]] = {}
    for run in runs:
        name, keys = describe(run)
        by_name.setdefault((name, hashlib.sha256(keys.encode()).hexdigest()[:6]), []).append(run)
    names = [name for name, _ in by_name]
    return {
        name if names.count(name) == 1 else f"{name} (data and weights {digest})": some
        for (name, digest), some in by_name.items()
    }


def records_by_class(study: str, classes: Mapping[str, str], pairs: Outcomes) -> list[Record]:
    """Of every class, under its name in words, and the differences of pos-AP to every other method."""
    flat = []
    for name, words in classes.items():
        of_this = records(study, "test_ap", pairs.of_class(name))
        flat += [record._replace(class_=words) for record in of_this]
    return flat + difference_records(study, pairs)
