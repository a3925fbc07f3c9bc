"""What runs on VOC2012 detection say: the paper's Table 2 beside ours, class by class, curves and pictures."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from statistics import fmean
from typing import Any

from ..data.voc import CLASSES
from ..harness.experiment import Claim, Figure, Record, Summary, Table
from ..report.figures import Series, bars, lines, series
from ..report.summary import (
    USUAL,
    USUAL_NOTE,
    Outcomes,
    cell,
    choices_table,
    claim,
    compare,
    compare_whole,
    means_over,
    noise_table,
    of_class,
    records,
    records_by_class,
    told_apart,
)
from ..sweep import Choice
from .config import Run, Source
from .pictures import gallery

__all__ = ["PAPER", "RULES", "summarise"]

PAPER: dict[str, dict[float, float]] = {
    "x-ent": {0.0: 0.456},
    "hinge-AP": {0.0: 0.476, 0.2: 0.0},
    "pos-AP": {0.0: 0.485, 0.2: 0.403},
}
"""Mean AP of twenty classes in the paper's Table 2, by method and share of flipped training labels."""

RULES = ("settings by class", "one setting for all classes")
RULES_NOTE = (
    "Settings are chosen by AP on clean images held out from the training list: for every class by itself, or one for "
    "all classes by the mean of their AP."
)


def _source(run: Run) -> Source:
    if run.config.source is None:
        raise ValueError("A run without a source: there is no such run on disk.")
    return run.config.source


def _set_ups(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs by what was asked for, and, where that is not all, by data and weights."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        source = _source(run)
        images = f"{source.images} images" if source.images else "all images"
        name = f"{source.backbone}, {source.features}, {images}, {source.boxes} boxes"
        name += f", batches of {source.batch}"
        if (source.positive, source.negative) != (0.5, 0.3):
            name += f", overlaps {source.positive:g} and {source.negative:g}"
        digest = hashlib.sha256("".join(source.keys).encode()).hexdigest()[:6]
        found.setdefault((name, digest), []).append(run)
    return told_apart(found)


def summarise(runs: Sequence[Run]) -> Summary:
    """Every set-up."""
    parts = [_SetUp(name, some, number) for number, (name, some) in enumerate(_set_ups(runs).items())]
    tables = [_table_2(parts), *(table for part in parts for table in part.tables())]
    return Summary(
        [record for part in parts for record in part.records()],
        [one for part in parts for one in part.claims()],
        tables,
        lambda: [figure for part in parts for figure in part.figures()],
    )


def _table_2(parts: Sequence["_SetUp"]) -> Table:
    levels = sorted(PAPER["pos-AP"])
    rows = [
        [f"{method}, the paper", *(f"{row[noise]:.3f}" if noise in row else "–" for noise in levels)]
        for method, row in PAPER.items()
    ]
    for part in parts:
        for rule in RULES:
            variant = f"{part.name}: {rule}"
            for method in part.methods:
                cells = [cell(part.means.get((variant, noise, method), {}).values()) for noise in levels]
                rows.append([f"{method}, {variant}", *cells])
    header = ["mean AP of the classes", *(f"{noise:.0%}" for noise in levels)]
    classes = sorted({len(part.categories) for part in parts})
    note = (
        f"Share of flipped training labels; mean ± standard deviation over seeds of the mean over "
        f"{' or '.join(map(str, classes)) or 'no'} classes. {RULES_NOTE}"
    )
    return Table("Table 2 of the paper, and ours", header, rows, note)


def _tried(run: Run) -> Iterator[tuple[str, list[int]]]:
    """The settings of a run's method; those of x-ent once more with only scale 1, as people use it."""
    settings = run.config.settings
    yield run.config.method, list(range(len(settings)))
    if run.config.method == "x-ent" and (usual := [k for k, setting in enumerate(settings) if setting.strength == 1.0]):
        yield USUAL, usual


def _best(held_out: Sequence[float]) -> tuple[int, ...]:
    """The settings that do best on the images held out; where several tie, their mean counts."""
    highest = max(held_out)
    return tuple(k for k, value in enumerate(held_out) if value == highest)


def _test_ap(run: Run, places: Sequence[int]) -> float:
    """Of the settings in these places, chosen by AP on the images held out."""
    best = _best([run.result.held_out[k] for k in places])
    return fmean(run.result.test[places[k]] for k in best)


class _SetUp:
    """All runs on one source."""

    def __init__(self, name: str, runs: Sequence[Run], number: int) -> None:
        self.name = name
        self.runs = runs
        source = _source(runs[0])
        self.stem = f"detection-{number}-{source.backbone}-{source.features}"
        """Of the names of figures."""
        self.categories = [of for of in CLASSES if any(run.config.category == of for run in runs)]
        self.levels = sorted({run.config.noise for run in runs})
        there = {method for run in runs for method, _ in _tried(run)}
        self.methods = [method for method in ("x-ent", USUAL, "hinge-AP", "pos-AP") if method in there]
        self.pairs: Outcomes = {}
        """Test AP by rule, noise and method, of every class and seed."""
        by_seed: dict[tuple[float, str, int], list[tuple[str, list[float], list[float]]]] = {}
        for run in runs:
            for method, places in _tried(run):
                noise, category, seed = (run.config.noise, run.config.category, run.config.seed)
                by_class = self.pairs.setdefault((f"{name}: {RULES[0]}", noise, method), {})
                by_class[category, seed] = _test_ap(run, places)
                held_out, test = ([values[k] for k in places] for values in (run.result.held_out, run.result.test))
                by_seed.setdefault((noise, method, seed), []).append((category, held_out, test))
        for (noise, method, seed), rows in by_seed.items():
            if len(rows) == len(self.categories):
                means = [fmean(values) for values in zip(*(held_out for _, held_out, _ in rows), strict=True)]
                for_all = self.pairs.setdefault((f"{name}: {RULES[1]}", noise, method), {})
                for_all |= {(category, seed): fmean(test[k] for k in _best(means)) for category, _, test in rows}
        self.means = means_over(self.categories, self.pairs)
        self.by_strength = means_over(self.categories, self._restricted())

    def _restricted(self) -> Outcomes:
        """Test AP of every class and seed when the strength is given and only the rest is chosen, class by class."""
        found: Outcomes = {}
        for run in self.runs:
            for strength in sorted({setting.strength for setting in run.config.settings}):
                places = [k for k, setting in enumerate(run.config.settings) if setting.strength == strength]
                key = f"{self.name}: strength {strength:g}", run.config.noise, run.config.method
                at = run.config.category, run.config.seed
                found.setdefault(key, {})[at] = _test_ap(run, places)
        return found

    def records(self) -> list[Record]:
        """The mean over classes, every class, and differences of pos-AP to every other method."""
        found = records("detection", "test_ap", self.means | self.by_strength)
        return found + records_by_class("detection", {of: of for of in self.categories}, self.pairs)

    def claims(self) -> list[Claim]:
        """What the paper's Table 2 says, by rule of choosing."""
        found = []
        for rule in RULES:
            variant = f"{self.name}: {rule}"
            for says, pairs in (
                ("On clean labels pos-AP is ahead of hinge-AP, and both of x-ent", CLEAN),
                ("With 20 % flipped labels pos-AP is ahead of hinge-AP", (("pos-AP", "hinge-AP", 0.2),)),
                ("(ours) With 20 % flipped labels pos-AP is ahead of x-ent", (("pos-AP", "x-ent", 0.2),)),
            ):
                compared = [
                    one
                    for ahead, behind, noise in pairs
                    for one in compare_whole(self.categories, self.pairs, variant, noise, ahead, behind)
                ]
                found.append(claim(f"{says} ({variant}).", compared, len(pairs)))
            collapse = self.means.get((variant, 0.2, "hinge-AP"), {})
            both = {
                (variant, 0.2, "a tenth of its AP on clean labels"): {
                    seed: value / 10 for seed, value in self.means.get((variant, 0.0, "hinge-AP"), {}).items()
                },
                (variant, 0.2, "hinge-AP"): collapse,
            }
            compared = compare(
                both, variant, 0.2, "a tenth of its AP on clean labels", "hinge-AP", "a tenth − hinge-AP"
            )
            says = "With 20 % flipped labels hinge-AP collapses: less than a tenth of its AP on clean ones is left"
            found.append(claim(f"{says} ({variant}).", compared, 1))
        return found

    def tables(self) -> list[Table]:
        """Means by rule; classes by noise level; the data; what was chosen."""
        note = f"Mean over classes of AP on the test images, ± standard deviation over seeds. {RULES_NOTE} {USUAL_NOTE}"
        found = [
            noise_table(
                f"Share of flipped training labels: {self.name}: {rule}", self.means, variant, self.methods, note
            )
            for rule in RULES
            if any(key[0] == (variant := f"{self.name}: {rule}") for key in self.means)
        ]
        for noise in self.levels:
            variant = f"{self.name}: {RULES[0]}"
            rows = [
                [
                    category,
                    *(cell(of_class(category, self.pairs).get((variant, noise, m), {}).values()) for m in self.methods),
                ]
                for category in self.categories
            ]
            rows.append(["mean", *(cell(self.means.get((variant, noise, m), {}).values()) for m in self.methods)])
            found.append(Table(f"Class by class, {noise:.0%} flipped: {variant}", ["class", *self.methods], rows))
        found += [self._strength_table(), self._data_table()]
        chosen = choices_table(
            f"Settings chosen: {self.name}", self.runs, lambda run: Choice(0, _best(run.result.held_out))
        )
        return [*found, chosen]

    def _strength_table(self) -> Table:
        tried = sorted({setting.strength for run in self.runs for setting in run.config.settings})
        columns = [(method, noise) for noise in self.levels for method in PAPER if method in self.methods]
        rows = []
        for strength in tried:
            variant = f"{self.name}: strength {strength:g}"
            cells = [cell(self.by_strength.get((variant, noise, method), {}).values()) for method, noise in columns]
            rows.append([f"{strength:g}", *cells])
        header = ["strength", *(f"{method}, {noise:.0%}" for method, noise in columns)]
        note = (
            "Mean AP of the classes where the strength (ε, the margin, the scale of the scores) is given, and only "
            "step size and weight decay are chosen, class by class."
        )
        return Table(f"By strength: {self.name}", header, rows, note)

    def _data_table(self) -> Table:
        rows = []
        for category in self.categories:
            result = next(run.result for run in self.runs if run.config.category == category)
            objects, boxes = vars(result.objects).values(), vars(result.training).values()
            rows.append([category, *map(str, (*objects, *boxes)), f"{result.recall:.3f}"])
        header = ["class", "objects: train", "held out", "test", "boxes: positive", "negative", "recall of proposals"]
        note = (
            "Objects that are not difficult, by images; boxes that train, before labels are flipped; share of the "
            "test images' objects that some proposal overlaps by half or more."
        )
        return Table(f"The data: {self.name}", header, rows, note)

    def figures(self) -> list[Figure]:
        """Precision against recall, AP by class, and detections of the best, the middle and the worst class."""
        found = []
        for noise in self.levels:
            title = f"{noise:.0%} flipped: precision against recall, mean of the classes, {self.name}"
            found.append(self._precision(f"{self.stem}-mean-{100 * noise:.0f}", title, noise, self.categories))
        variant = f"{self.name}: {RULES[0]}"
        for noise in self.levels:
            groups = {
                method: {
                    of: fmean(values.values()) for of in self.categories if (values := self._values(of, noise, method))
                }
                for method in PAPER
                if method in self.methods
            }
            title = f"{noise:.0%} flipped: AP by class, {variant}"
            found.append(bars(f"{self.stem}-classes-{100 * noise:.0f}", title, groups, "AP on the test images"))
        return [*found, *self._galleries(), *self._by_class()]

    def _galleries(self) -> Iterator[Figure]:
        for category in self._looked_at():
            for run in self.runs:
                asked = run.config.category, run.config.method, run.config.noise
                if asked == (category, "pos-AP", 0.0) and run.result.pictures:
                    title = (
                        f"{category}, pos-AP on clean labels, {self.name}: the best detections (highest scores that "
                        "are right, blue) and the worst (highest that are wrong, red); dashed: objects of the class"
                    )
                    yield gallery(f"{self.stem}-{category}-pictures", title, run.result.pictures)

    def _by_class(self) -> Iterator[Figure]:
        for category, noise in product(self._looked_at(), self.levels):
            title = f"{category}, {noise:.0%} flipped: precision against recall, {self.name}"
            yield self._precision(f"{self.stem}-{category}-{100 * noise:.0f}", title, noise, [category])

    def _values(self, category: str, noise: float, method: str) -> dict[Any, float]:
        return of_class(category, self.pairs).get((f"{self.name}: {RULES[0]}", noise, method), {})

    def _looked_at(self) -> list[str]:
        """The classes with the highest, the median and the lowest AP of pos-AP on clean labels."""
        ranked = sorted(
            (of for of in self.categories if self._values(of, 0.0, "pos-AP")),
            key=lambda of: -fmean(self._values(of, 0.0, "pos-AP").values()),
        )
        return list(dict.fromkeys([ranked[0], ranked[len(ranked) // 2], ranked[-1]])) if ranked else []

    def _precision(self, name: str, title: str, noise: float, categories: Sequence[str]) -> Figure:
        """Mean precision of classes at each recall, with its spread over seeds."""
        curves: dict[str, Series] = {}
        for method in self.methods:
            by_seed: dict[int, list[Sequence[float]]] = {}
            for run in self.runs:
                if (run.config.method, run.config.noise) == (method, noise) and run.config.category in categories:
                    by_seed.setdefault(run.config.seed, []).append(run.result.precision)
            whole = [rows for rows in by_seed.values() if len(rows) == len(categories)]
            if whole:
                points = {k / 100: [fmean(row[k] for row in rows) for rows in whole] for k in range(101)}
                curves[method] = series(points)
        return lines(name, title, curves, "recall", "precision")


CLEAN = (("pos-AP", "hinge-AP", 0.0), ("pos-AP", "x-ent", 0.0), ("hinge-AP", "x-ent", 0.0))
