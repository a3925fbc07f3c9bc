"""What runs on VOC2012 actions say: the paper's Table 1 beside ours, by rule of choosing, class by class."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from statistics import fmean

from ..data.voc import ACTIONS
from ..harness.study import Claim, Comparison, Figure, Record, Summary, Table
from ..linear_models import LINEAR_MODELS
from ..methods import METHODS, PLAIN, WARM
from ..report.by_noise import ByNoise
from ..report.figures import Series, bars, curves_of, lines, slug
from ..report.outcomes import Outcomes, Unit
from ..report.summary import baselines_note, by_source, paper_table, records_by_class, source_of, with_plain
from ..report.words import cell, percent, signed
from ..sweep import Choice, Curve, Rule, choose
from .config import Run, Source

__all__ = ["COSTLY", "PAPER", "RULES", "expected_best", "summarise"]

COSTLY = "Smooth-AP"
"""Quadratic in the number of boxes, so it trains the linear head only, and it may lack noise levels."""

PAPER: dict[str, dict[float, float]] = {
    "x-ent": {0.0: 0.680, 0.1: 0.597, 0.2: 0.473, 0.3: 0.317, 0.4: 0.182},
    "hinge-AP": {0.0: 0.699, 0.1: 0.601, 0.2: 0.457, 0.3: 0.300, 0.4: 0.168},
    "pos-AP": {0.0: 0.695, 0.1: 0.625, 0.2: 0.578, 0.3: 0.459, 0.4: 0.296},
}
"""Mean AP of ten classes in the paper's Table 1, by method and share of flipped training labels."""


PROTOCOL = Rule("the paper's protocol", "validation", largest_decay=0.1, figure="paper protocol")
STOPPED_ON_CLEAN, STOPPED_ON_NOISY, TO_THE_END = (
    Rule(name, chosen_on, early_stopping, figure=name)
    for name, chosen_on, early_stopping in (
        ("stopped early, clean validation", "validation", True),
        ("stopped early, noisy validation", "noisy_validation", True),
        ("to the end, noisy validation", "noisy_validation", False),
    )
)
RULES = PROTOCOL, STOPPED_ON_CLEAN, STOPPED_ON_NOISY, TO_THE_END
RULES_NOTE = (
    "The paper's protocol: 300 iterations, settings chosen on clean validation at the end, weight decay at most 0.1. "
    "The other rules choose among all settings. Stopped early: validation also says after how many iterations. Noisy "
    "validation has the same share of flipped labels as training."
)


def _describe(run: Run) -> tuple[str, str]:
    """The backbone, what trains and the head; and the keys of data and weights."""
    source: Source = source_of(run)
    what = f"{run.config.head} head" if source.train == "head" else f"fine-tuned: {source.train}"
    return f"{source.backbone}, {what}", source.features + source.labels + source.weights


def _unit(run: Run) -> Unit:
    return Unit(run.config.seed, run.config.action)


def expected_best(chosen_by: Sequence[float], value: Sequence[float], tries: int) -> float:
    """The expected value of the setting that is chosen among so many, drawn at random from all; ties share."""
    total = 0.0
    better = 0
    for level in sorted(set(chosen_by), reverse=True):
        tied = [value[k] for k in range(len(value)) if chosen_by[k] == level]
        left = len(value) - better
        total += (comb(left, tries) - comb(left - len(tied), tries)) * fmean(tied)
        better += len(tied)
    return total / comb(len(value), tries)


def _against_budget(runs: Iterable[Run], rule: Rule) -> dict[int, Outcomes]:
    """Test AP by number of settings tried."""
    by_tries: dict[int, Outcomes] = {}
    for run in runs:
        validation, test = getattr(run.result, rule.chosen_on), run.result.test
        moments = range(len(test)) if rule.early_stopping else (len(test) - 1,)
        places = rule.places(run.config.settings)
        best = [max(moments, key=lambda k, s=setting: validation[k][s]) for setting in places]
        chosen_by = [validation[k][setting] for setting, k in zip(places, best, strict=True)]
        values = [test[k][setting] for setting, k in zip(places, best, strict=True)]
        for tries in sorted({1, 2, 4, 8, 16, 32, len(values)}):
            if tries <= len(values):
                at = by_tries.setdefault(tries, Outcomes())
                value = expected_best(chosen_by, values, tries)
                at.put(rule.name, run.config.noise, run.config.method, _unit(run), value)
    return by_tries


def _against_iterations(runs: Iterable[Run], rule: Rule) -> dict[int, Outcomes]:
    """Test AP of the setting that a rule chooses, by iteration."""
    by_iteration: dict[int, Outcomes] = {}
    for run in runs:
        settings = rule.choose(run).settings
        for place, iteration in enumerate(run.result.iterations):
            at = by_iteration.setdefault(iteration, Outcomes())
            value = Choice(place, settings).value(run.result.test)
            at.put(rule.name, run.config.noise, run.config.method, _unit(run), value)
    return by_iteration


def summarise(runs: Sequence[Run]) -> Summary:
    """Every set-up and every rule of choosing."""
    heads = [run for run in runs if source_of(run).train == "head"]
    whole = [run for run in runs if source_of(run).train != "head"]
    parts, tuned = (
        [_SetUp(name, some) for name, some in by_source(which, _describe).items()] for which in (heads, whole)
    )
    tables = [
        *(
            [paper_table("Table 1 of the paper, and ours", PAPER, parts, PAPER, RULES_NOTE)]
            if parts or not tuned
            else []
        ),
        *(table for part in tuned for table in part.fine_tuned_tables()),
        *(table for part in parts for table in part.tables()),
    ]
    flat = [record for part in (*parts, *tuned) for record in part.records()]
    claims = [one for part in parts for one in part.claims()]
    return Summary(
        flat,
        claims,
        tables,
        lambda: [figure for part in parts for figure in part.figures()],
        parts[0].headline() if parts else "",
        [part.noise_table(PROTOCOL) for part in parts],
    )


class _SetUp:
    """All runs of one backbone with one kind of head."""

    def __init__(self, name: str, runs: Sequence[Run]) -> None:
        self.name = name
        self.runs = runs
        self.classes = [action for action in ACTIONS if any(run.config.action == action for run in runs)]
        self.levels = sorted({run.config.noise for run in runs})
        there = {run.config.method for run in with_plain(runs)}
        self.methods = [
            method for method in dict.fromkeys((*LINEAR_MODELS, *PAPER, PLAIN, *METHODS)) if method in there
        ]
        note = "Mean over classes of AP on clean test boxes, ± standard deviation over seeds."
        note += baselines_note(there)
        self.by_noise = ByNoise(
            "actions", runs, self.methods, RULES, lambda _: [name], join=": ", note=note,
            measured="mean AP of the classes, clean test boxes", class_of=lambda config: config.action,
            classes=self.classes,
        )  # fmt: skip
        self.means, self.pairs = self.by_noise.test, self.by_noise.pairs
        self.variants = {rule: self.by_noise.name(name, rule) for rule in RULES}
        """Their names in tables and published records."""

    def records(self) -> list[Record]:
        """The mean over classes, every class, and differences of pos-AP to every other method."""
        in_words = {action: ACTIONS[action] for action in self.classes}
        return self.by_noise.records() + records_by_class("actions", in_words, self.pairs)

    def headline(self) -> str:
        """The paper's protocol at 20 %, if that was tried, else at the highest noise."""
        return self.by_noise.headline("With {noise} of the training labels flipped ({name})")

    def claims(self) -> list[Claim]:
        """Robustness against x-ent and hinge-AP, as the paper has it; and what we set as our goal."""
        robust = [
            self.by_noise.claims(f"pos-AP withstands label noise better than {other}", "pos-AP", other)
            for other in ("x-ent", "hinge-AP")
        ]
        claims = []
        for number, (rule, variant) in enumerate(self.variants.items()):
            claims += [some[number] for some in robust]
            compared = []
            for other in self.methods:
                if other not in ("pos-AP", PLAIN, WARM):
                    tried = [
                        noise for noise in self.levels
                        if noise >= 0.2 and (other != COSTLY or self.means.values(variant, noise, other))
                    ]  # fmt: skip
                    compared += self._differences(rule, other, tried)
            claims.append(Claim("pos-AP is ahead of every other method from 20 % on", variant, compared, "ours"))
            compared = [self._to_the_paper(variant, noise) for noise in PAPER["pos-AP"]]
            says = "pos-AP reaches the paper's own pos-AP at every noise level"
            claims.append(Claim(says, variant, compared, "ours"))
        return claims

    def _differences(self, rule: Rule, other: str, levels: Sequence[float]) -> list[Comparison]:
        """Over classes and seeds, where they are complete."""
        return [
            self.pairs.compare(
                self.variants[rule], noise, "pos-AP", other, f"pos-AP − {other} at {percent(noise)}", self.classes
            )
            for noise in levels
        ]

    def _to_the_paper(self, variant: str, noise: float) -> Comparison:
        """The mean over all ten classes beside the paper's, by seed."""
        both = Outcomes()
        if len(self.classes) == len(ACTIONS):
            for unit, value in self.means.units(variant, noise, "pos-AP").items():
                both.put(variant, noise, "ours", unit, value)
                both.put(variant, noise, "the paper's", unit, PAPER["pos-AP"][noise])
        return both.compare(variant, noise, "ours", "the paper's", f"ours − the paper's at {percent(noise)}")

    def noise_table(self, rule: Rule) -> Table:
        """Methods down, noise across."""
        return self.by_noise.table(self.name, rule, what="Mean test AP")

    def tables(self) -> list[Table]:
        """Means by rule; classes by noise level in the paper's protocol; what was chosen."""
        tables = [self.noise_table(rule) for rule in RULES]
        variant = self.variants[PROTOCOL]
        by_class = {action: self.pairs.of_class(action) for action in self.classes}
        for noise in self.levels:
            rows = []
            for method in self.methods:
                cells = [cell(by_class[action].values(variant, noise, method)) for action in self.classes]
                rows.append([method, *cells, cell(self.means.values(variant, noise, method))])
            header = ["method", *(ACTIONS[action] for action in self.classes), "mean"]
            title = f"Class by class, {percent(noise)} flipped: {variant}"
            tables.append(Table(title, header, rows, "Test AP, mean ± standard deviation over seeds."))
        for other in ("x-ent", "hinge-AP"):
            rows = []
            for action in self.classes:
                compared = [by_class[action].compare(variant, noise, "pos-AP", other, "") for noise in self.levels]
                cells = [f"{signed(one.mean)} ± {one.error:.3f}" if one.seeds >= 3 else "–" for one in compared]
                rows.append([ACTIONS[action], *cells])
            header = ["class", *map(percent, self.levels)]
            title = f"pos-AP − {other}, class by class: {variant}"
            tables.append(Table(title, header, rows, "Paired over seeds, mean ± standard error."))
        return [*tables, *(self.by_noise.choices(rule, self.name) for rule in RULES)]

    def fine_tuned_tables(self) -> list[Table]:
        """Means by rule, and every run."""
        rows = []
        for run in with_plain(self.runs):
            ends = _ends(run)
            curves = run.result.train, run.result.validation, run.result.test
            cells = [f"{before:.3f} → {after:.3f}" for before, after in map(ends, curves)]
            what = f"{run.config.method}, {ACTIONS[run.config.action]}, {percent(run.config.noise)} flipped"
            rows.append([f"{what}, seed {run.config.seed}", *cells])
        config = self.runs[0].config
        size = f"at most {config.items} boxes a third, half of them positive" if config.items else "all boxes"
        batch = f"batches of {config.batch}" if config.batch else "all of them one batch"
        note = (
            f"AP before training and after {config.iterations} iterations, {size}, {batch}. Clean validation chooses "
            f"one of {len(config.settings)} settings; the other tables call this the paper's protocol. Stopped early: "
            "validation also says when to stop. Noisy validation has the same share of flipped labels as training."
        )
        header = ["run", "training", "validation", "test"]
        return [
            *(self.noise_table(rule) for rule in RULES),
            Table(f"Through the network: {self.name}", header, rows, note),
        ]

    def figures(self) -> list[Figure]:
        """AP against noise by rule; against iterations and against the tuning budget under noise; classes."""
        figures = [
            self.by_noise.figure(
                self.name, rule, "VOC2012 actions", self._beside_the_paper() if rule == PROTOCOL else None
            )
            for rule in RULES
        ]
        words = self.by_noise.measured
        for noise in (0.2, 0.4):
            some = [run for run in self.runs if run.config.noise == noise]
            if not some:
                continue
            flipped = f"{percent(noise)} flipped"
            rule = STOPPED_ON_CLEAN
            curves = self._series(_against_iterations(some, rule), rule, noise)
            title = f"{flipped}: AP as training goes on, {self.name}, settings of: {rule.name}"
            figures.append(lines(slug("actions", self.name, "iterations", flipped), title, curves, "iteration", words))
            for rule in (PROTOCOL, STOPPED_ON_NOISY):
                curves = self._series(_against_budget(some, rule), rule, noise)
                title = f"{flipped}: expected AP by number of settings tried, {self.variants[rule]}"
                name = slug("actions", self.name, "tuning budget", rule.figure, flipped)
                figures.append(lines(name, title, curves, "settings tried", words, doubling=True))
        if 0.2 in self.levels:
            figures.append(self._gain_by_class())
        return figures

    def _beside_the_paper(self) -> Outcomes:
        """Means of the paper's protocol, and the paper's own if all of its classes are there."""
        outcomes = Outcomes()
        outcomes.update(self.means)
        if len(self.classes) == len(ACTIONS):
            for method, row in PAPER.items():
                for noise in self.levels:
                    if noise in row:
                        outcomes.put(self.variants[PROTOCOL], noise, f"{method}, the paper", Unit(0), row[noise])
        return outcomes

    def _gain_by_class(self) -> Figure:
        variant = self.variants[PROTOCOL]
        groups: dict[str, dict[str, float]] = {}
        for other in ("x-ent", "hinge-AP"):
            group = groups[f"pos-AP − {other}"] = {}
            for action in self.classes:
                one = self.pairs.of_class(action).compare(variant, 0.2, "pos-AP", other, "")
                if one.seeds >= 3:
                    group[ACTIONS[action]] = one.mean
        title = f"What pos-AP gains at 20 % flipped labels, class by class, {variant}"
        return bars(slug("actions", self.name, "gain by class 20 % flipped"), title, groups, "difference in AP")

    def _series(self, by_x: Mapping[int, Outcomes], rule: Rule, noise: float) -> dict[str, Series]:
        """By method the curve of the mean over classes, with its spread over seeds."""
        means = {float(x): outcomes.means_over(self.classes) for x, outcomes in by_x.items()}
        return curves_of(
            self.methods, lambda method: {x: at.values(rule.name, noise, method) for x, at in means.items()}
        )


def _ends(run: Run) -> Callable[[Curve], tuple[float, float]]:
    """AP of a set before training, and at the end with the setting that clean validation chooses."""
    choice = choose(run.result.validation)
    return lambda curve: (curve[0][choice.settings[0]], choice.value(curve))
