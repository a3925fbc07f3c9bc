"""What runs on VOC2012 detection say: the paper's Table 2 beside ours, class by class, curves and pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from ..data.voc import CLASSES
from ..harness.study import Claim, Comparison, Figure, Record, Summary, Table
from ..linear_models import LINEAR_MODELS
from ..methods import PLAIN
from ..report.figures import Series, bars, lines, series, slug
from ..report.outcomes import Outcomes, Unit, records
from ..report.summary import (
    baselines_note,
    by_source,
    choices_table,
    noise_table,
    paper_table,
    records_by_class,
    source_of,
)
from ..report.takeaway import headline
from ..report.words import cell, percent
from ..sweep import Choice
from ..vision.proposals import SIDE
from .config import Run, Source
from .pictures import gallery

__all__ = ["PAPER", "RULES", "summarise"]

PAPER: dict[str, dict[float, float]] = {
    "x-ent": {0.0: 0.456},
    "hinge-AP": {0.0: 0.476, 0.2: 0.0},
    "pos-AP": {0.0: 0.485, 0.2: 0.403},
}
"""Mean AP of twenty classes in the paper's Table 2, by method and share of flipped training labels."""

CROSS_ENTROPIES = "x-ent", LINEAR_MODELS[0]
"""In batches, and fitted to convergence: who is ahead of cross-entropy must be ahead of both."""
METHODS = (*LINEAR_MODELS, "x-ent", PLAIN, "hinge-AP", "pos-AP")
BY_CLASS, FOR_ALL = RULES = ("settings by class", "one setting for all classes")
RULES_NOTE = (
    "Settings are chosen by AP on clean images held out from the training list: for every class by itself, or one for "
    "all classes by the mean of their AP."
)


def _describe(run: Run) -> tuple[str, str]:
    """What was asked for; and the keys of data and weights."""
    source: Source = source_of(run)
    images = f"{source.images} images" if source.images else "all images"
    name = f"{source.backbone}, {source.features}, {images}, {source.boxes} boxes"
    if source.side != SIDE:
        name += f" searched at {source.side} pixels"
    name += f", batches of {source.batch}"
    if (source.positive, source.negative) != (0.5, 0.3):
        name += f", overlaps {source.positive:g} and {source.negative:g}"
    if source.hard:
        name += f", {percent(source.hard)} of negatives hard"
    return name, "".join(source.keys)


def summarise(runs: Sequence[Run]) -> Summary:
    """Every set-up."""
    sources = by_source(runs, _describe)
    kinds = [_kind(some) for some in sources.values()]
    parts = [  # the names of figures say as much as is needed to tell them apart
        _SetUp(name, some, slug("detection", kind if kinds.count(kind) == 1 else name))
        for (name, some), kind in zip(sources.items(), kinds, strict=True)
    ]
    return Summary(
        [record for part in parts for record in part.records()],
        [one for part in parts for one in part.claims()],
        [
            paper_table("Table 2 of the paper, and ours", PAPER, parts, METHODS, RULES_NOTE),
            *(table for part in parts for table in part.tables()),
        ],
        lambda: [figure for part in parts for figure in part.figures()],
        parts[0].headline() if parts else "",
        [part.noise_table(RULES[0]) for part in parts],
    )


def _kind(runs: Sequence[Run]) -> str:
    source = source_of(runs[0])
    return f"{source.backbone} {source.features}"


def _tried(run: Run) -> Iterator[tuple[str, list[int]]]:
    """The method of a run with the places of its settings; of x-ent also the plain one, with those of scale 1."""
    settings = run.config.settings
    yield run.config.method, list(range(len(settings)))
    plain = [k for k, setting in enumerate(settings) if setting.strength == 1.0]
    if run.config.method == "x-ent" and 0 < len(plain) < len(settings):
        yield PLAIN, plain


def _unit(run: Run) -> Unit:
    return Unit(run.config.seed, run.config.category)


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

    def __init__(self, name: str, runs: Sequence[Run], stem: str) -> None:
        self.name = name
        self.runs = runs
        self.stem = stem
        """How the names of figures begin."""
        self.classes = [of for of in CLASSES if any(run.config.category == of for run in runs)]
        self.levels = sorted({run.config.noise for run in runs})
        there = {method for run in runs for method, _ in _tried(run)}
        self.methods = [method for method in METHODS if method in there]
        self.variants = {rule: f"{name}: {rule}" for rule in RULES}
        """Their names in tables and published records."""
        self.pairs = self._own_settings()
        """Test AP of every class and seed."""
        self.pairs.update(self._for_all_classes())
        self.means = self.pairs.means_over(self.classes)
        """The mean over classes, of every seed."""
        self.by_strength = self._restricted().means_over(self.classes)

    def _own_settings(self) -> Outcomes:
        """Test AP of every class and seed where every class has its own setting."""
        outcomes = Outcomes()
        for run in self.runs:
            for method, places in _tried(run):
                outcomes.put(self.variants[BY_CLASS], run.config.noise, method, _unit(run), _test_ap(run, places))
        return outcomes

    def _for_all_classes(self) -> Outcomes:
        """Test AP of every class and seed where one setting serves all classes, of seeds that have all of them."""
        groups: dict[tuple[float, str, int], list[tuple[Run, list[int]]]] = {}
        for run in self.runs:
            for method, places in _tried(run):
                groups.setdefault((run.config.noise, method, run.config.seed), []).append((run, places))
        outcomes = Outcomes()
        for (noise, method, _), some in groups.items():
            if len(some) == len(self.classes):
                held_out = ([run.result.held_out[k] for k in places] for run, places in some)
                best = _best([fmean(values) for values in zip(*held_out, strict=True)])
                for run, places in some:
                    value = fmean(run.result.test[places[k]] for k in best)
                    outcomes.put(self.variants[FOR_ALL], noise, method, _unit(run), value)
        return outcomes

    def _restricted(self) -> Outcomes:
        """Test AP of every class and seed where the strength is given and only the rest is chosen, class by class."""
        outcomes = Outcomes()
        for run in self.runs:
            for strength in sorted({setting.strength for setting in run.config.settings}):
                places = [k for k, setting in enumerate(run.config.settings) if setting.strength == strength]
                variant = f"{self.name}: strength {strength:g}"
                outcomes.put(variant, run.config.noise, run.config.method, _unit(run), _test_ap(run, places))
        return outcomes

    def records(self) -> list[Record]:
        """The mean over classes, every class, and differences of pos-AP to every other method."""
        return [
            *records("detection", "test_ap", self.means),
            *records("detection", "test_ap", self.by_strength),
            *records_by_class("detection", {of: of for of in self.classes}, self.pairs),
        ]

    def headline(self) -> str:
        """With settings by class, at the highest noise."""
        noise, variant = self.levels[-1], self.variants[BY_CLASS]
        where = f"With {percent(noise)} of the training labels flipped ({variant})"
        return headline(self.means, variant, noise, self.methods, where, pairs=self.pairs)

    def claims(self) -> list[Claim]:
        """What the paper's Table 2 says, by rule of choosing."""
        claims = []
        for variant in self.variants.values():
            for says, source, pairs in (
                ("On clean labels pos-AP is ahead of hinge-AP, and both of x-ent", "the paper", CLEAN),
                ("With 20 % flipped labels pos-AP is ahead of hinge-AP", "the paper", (("pos-AP", "hinge-AP", 0.2),)),
                ("With 20 % flipped labels pos-AP is ahead of x-ent", "ours", (("pos-AP", "x-ent", 0.2),)),
            ):
                compared = [
                    self._ahead(variant, noise, ahead, behind)
                    for ahead, other, noise in pairs
                    for behind in (CROSS_ENTROPIES if other == "x-ent" else (other,))
                    if behind in self.methods or behind not in LINEAR_MODELS
                ]
                claims.append(Claim(says, variant, compared, source))
            says = "With 20 % flipped labels hinge-AP collapses: less than a tenth of its AP on clean labels is left"
            claims.append(Claim(says, variant, [self._collapse(variant)]))
        return claims

    def _ahead(self, variant: str, noise: float, ahead: str, behind: str) -> Comparison:
        """By class and seed. A model of scikit-learn has one seed, but boxes and flips of each class are drawn anew."""
        name = f"{ahead} − {behind} at {percent(noise)}"
        if behind not in LINEAR_MODELS:
            return self.pairs.compare(variant, noise, ahead, behind, name, self.classes)
        found = self.pairs.compare(variant, noise, ahead, behind, name)
        return replace(found, seeds=len(found.differences)) if len(found.differences) == len(self.classes) else found

    def _collapse(self, variant: str) -> Comparison:
        """A tenth of hinge-AP's mean on clean labels, minus what is left of it, by seed."""
        both = Outcomes()
        for unit, value in self.means.units(variant, 0.0, "hinge-AP").items():
            both.put(variant, 0.2, "a tenth", unit, value / 10)
        for unit, value in self.means.units(variant, 0.2, "hinge-AP").items():
            both.put(variant, 0.2, "hinge-AP", unit, value)
        return both.compare(variant, 0.2, "a tenth", "hinge-AP", "a tenth of the clean AP − hinge-AP at 20 %")

    def noise_table(self, rule: str) -> Table:
        """Methods down, noise across."""
        note = f"Mean over classes of AP on the test images, ± standard deviation over seeds. {RULES_NOTE}"
        note += baselines_note(self.methods)
        title = f"Mean test AP by share of flipped training labels: {self.variants[rule]}"
        return noise_table(title, self.means, self.variants[rule], self.methods, note)

    def tables(self) -> list[Table]:
        """Means by rule; classes by noise level; the data; what was chosen."""
        tables = [self.noise_table(rule) for rule in RULES if self.means.levels(self.variants[rule])]
        variant = self.variants[BY_CLASS]
        by_class = {category: self.pairs.of_class(category) for category in self.classes}
        for noise in self.levels:
            rows = [
                [of, *(cell(by_class[of].values(variant, noise, method)) for method in self.methods)]
                for of in self.classes
            ]
            rows.append(["mean", *(cell(self.means.values(variant, noise, method)) for method in self.methods)])
            title = f"Class by class, {percent(noise)} flipped: {variant}"
            tables.append(Table(title, ["class", *self.methods], rows))
        tables += [self._strength_table(), self._data_table()]
        chosen = choices_table(
            f"Settings chosen: {self.name}", self.runs, lambda run: Choice(0, _best(run.result.held_out))
        )
        return [*tables, chosen]

    def _strength_table(self) -> Table:
        tried = sorted({setting.strength for run in self.runs for setting in run.config.settings})
        columns = [(method, noise) for noise in self.levels for method in PAPER if method in self.methods]
        rows = []
        for strength in tried:
            variant = f"{self.name}: strength {strength:g}"
            cells = [cell(self.by_strength.values(variant, noise, method)) for method, noise in columns]
            rows.append([f"{strength:g}", *cells])
        header = ["strength", *(f"{method}, {percent(noise)}" for method, noise in columns)]
        note = (
            "Mean AP of the classes where the strength (ε, the margin, the scale of the scores) is given, and only "
            "step size and weight decay are chosen, class by class."
        )
        return Table(f"By strength: {self.name}", header, rows, note)

    def _data_table(self) -> Table:
        rows = []
        for category in self.classes:
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
        figures = []
        for noise in self.levels:
            title = f"{percent(noise)} flipped: precision against recall, mean of the classes, {self.name}"
            figures.append(self._precision("all classes", title, noise, self.classes))
        for noise in self.levels:
            groups = {
                method: {of: fmean(values) for of in self.classes if (values := self._values(of, noise, method))}
                for method in PAPER
                if method in self.methods
            }
            title = f"{percent(noise)} flipped: AP by class, {self.variants[BY_CLASS]}"
            name = slug(self.stem, f"AP by class {percent(noise)} flipped")
            figures.append(bars(name, title, groups, "AP on the test images"))
        return [*figures, *self._galleries(), *self._precision_by_class()]

    def _galleries(self) -> Iterator[Figure]:
        for category in self._looked_at():
            for run in self.runs:
                asked = run.config.category, run.config.method, run.config.noise
                if asked == (category, "pos-AP", 0.0) and run.result.pictures:
                    title = (
                        f"{category}, pos-AP on clean labels, {self.name}: the best detections (highest scores that "
                        "are right, blue) and the worst (highest that are wrong, red); dashed: objects of the class"
                    )
                    yield gallery(slug(self.stem, category, "detections"), title, run.result.pictures)

    def _precision_by_class(self) -> Iterator[Figure]:
        for category, noise in product(self._looked_at(), self.levels):
            title = f"{category}, {percent(noise)} flipped: precision against recall, {self.name}"
            yield self._precision(category, title, noise, [category])

    def _values(self, category: str, noise: float, method: str) -> list[float]:
        return self.pairs.of_class(category).values(self.variants[BY_CLASS], noise, method)

    def _looked_at(self) -> list[str]:
        """The classes with the highest, the median and the lowest AP of pos-AP on clean labels."""
        values = {of: self._values(of, 0.0, "pos-AP") for of in self.classes}
        ranked = sorted((of for of in values if values[of]), key=lambda of: -fmean(values[of]))
        return list(dict.fromkeys([ranked[0], ranked[len(ranked) // 2], ranked[-1]])) if ranked else []

    def _precision(self, of: str, title: str, noise: float, categories: Sequence[str]) -> Figure:
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
        name = slug(self.stem, "precision recall", of, f"{percent(noise)} flipped")
        return lines(name, title, curves, "recall", "precision")


CLEAN = (("pos-AP", "hinge-AP", 0.0), ("pos-AP", "x-ent", 0.0), ("hinge-AP", "x-ent", 0.0))
