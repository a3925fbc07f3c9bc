"""What runs on VOC2012 actions say: the paper's Table 1 beside ours, by rule of choosing, class by class."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from math import comb
from statistics import fmean
from typing import Any

from ..data.voc import ACTIONS
from ..harness.experiment import Claim, Comparison, Figure, Record, Summary, Table
from ..methods import METHODS
from ..report.figures import Series, bars, lines, noise_lines, series
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
    restricted,
    told_apart,
    with_usual,
)
from ..sweep import Choice, Curve, choose
from .config import Result, Run, Source

__all__ = ["COSTLY", "PAPER", "RULES", "expected_best", "summarise"]

COSTLY = "Smooth-AP"
"""Quadratic in the number of boxes, so it gets fewer settings, every other noise level, and the linear head only."""

PAPER: dict[str, dict[float, float]] = {
    "x-ent": {0.0: 0.680, 0.1: 0.597, 0.2: 0.473, 0.3: 0.317, 0.4: 0.182},
    "hinge-AP": {0.0: 0.699, 0.1: 0.601, 0.2: 0.457, 0.3: 0.300, 0.4: 0.168},
    "pos-AP": {0.0: 0.695, 0.1: 0.625, 0.2: 0.578, 0.3: 0.459, 0.4: 0.296},
}
"""Mean AP of ten classes in the paper's Table 1, by method and share of flipped training labels."""

RULES: dict[str, tuple[str, bool, float]] = {  # the set that chooses, whether it also stops, the largest weight decay
    "the paper's protocol": ("validation", False, 0.1),
    "stopped early, clean validation": ("validation", True, 1.0),
    "stopped early, noisy validation": ("noisy validation", True, 1.0),
    "to the end, noisy validation": ("noisy validation", False, 1.0),
}
RULES_NOTE = (
    "The paper's protocol: 300 iterations, settings chosen on clean validation at the end, weight decay at most 0.1. "
    "The others: all settings; stopped early means that validation also says after how many iterations; noisy "
    "validation has as many flipped labels as training."
)


def _source(run: Run) -> Source:
    if run.config.source is None:
        raise ValueError("A run without a source: there is no such run on disk.")
    return run.config.source


def _curve(result: Result, name: str) -> Curve:
    return result.validation if name == "validation" else result.noisy_validation


def _set_ups(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs by backbone, what trains, head, and, where there are several, data and weights."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        source = _source(run)
        what = f"{run.config.head} head" if source.train == "head" else f"fine-tuned: {source.train}"
        made_from = hashlib.sha256((source.features + source.labels + source.weights).encode())
        found.setdefault((f"{source.backbone}, {what}", made_from.hexdigest()[:6]), []).append(run)
    return told_apart(found)


def _chosen(run: Run, rule: str) -> tuple[Run, Choice]:
    """The run with the settings that a rule allows, and what it chooses among them."""
    by, stop, decay = RULES[rule]
    allowed = restricted(run, lambda setting: setting.weight_decay <= decay)
    return allowed, choose(_curve(allowed.result, by), stop)


def _outcomes(runs: Iterable[Run], variant: str, rule: str) -> Outcomes:
    """Test AP by class and seed."""
    found: Outcomes = {}
    for run in runs:
        allowed, choice = _chosen(run, rule)
        key = variant, run.config.noise, run.config.method
        found.setdefault(key, {})[run.config.action, run.config.seed] = choice.value(allowed.result.test)
    return found


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


Curves = dict[tuple[str, float, str], dict[Any, float]]
"""Outcomes with something else in the place of noise."""


def _against_budget(runs: Iterable[Run], rule: str) -> Curves:
    """Test AP by number of settings tried."""
    by, stop, _ = RULES[rule]
    found: Curves = {}
    for run in runs:
        result = _chosen(run, rule)[0].result
        validation, test = _curve(result, by), result.test
        moments = range(len(test)) if stop else (len(test) - 1,)
        best = [max(moments, key=lambda k, s=setting: validation[k][s]) for setting in range(len(test[0]))]
        chosen_by = [validation[k][setting] for setting, k in enumerate(best)]
        values = [test[k][setting] for setting, k in enumerate(best)]
        for tries in sorted({1, 2, 4, 8, 16, 32, len(values)}):
            if tries <= len(values):
                key = rule, float(tries), run.config.method
                pair = run.config.action, run.config.seed
                found.setdefault(key, {})[pair] = expected_best(chosen_by, values, tries)
    return found


def _against_iterations(runs: Iterable[Run], rule: str) -> Curves:
    """Test AP of the setting that a rule chooses, by iteration."""
    found: Curves = {}
    for run in runs:
        allowed, choice = _chosen(run, rule)
        for place, iteration in enumerate(run.result.iterations):
            key = rule, float(iteration), run.config.method
            value = Choice(place, choice.settings).value(allowed.result.test)
            found.setdefault(key, {})[run.config.action, run.config.seed] = value
    return found


def summarise(runs: Sequence[Run]) -> Summary:
    """Every set-up and every rule of choosing."""
    heads = [run for run in runs if _source(run).train == "head"]
    tuned = _set_ups(run for run in runs if _source(run).train != "head")
    parts = [_SetUp(name, some) for name, some in _set_ups(heads).items()]
    tables = [
        *([_table_1(parts)] if parts or not tuned else []),
        *(_fine_tuned_table(name, some) for name, some in tuned.items()),
        *(table for part in parts for table in part.tables()),
    ]
    found = [record for part in parts for record in part.records()]
    found += [record for name, some in tuned.items() for record in _fine_tuned_records(name, some)]
    claims = [one for part in parts for one in part.claims()]
    return Summary(found, claims, tables, lambda: [figure for part in parts for figure in part.figures()])


def _table_1(parts: Sequence["_SetUp"]) -> Table:
    levels = sorted(PAPER["pos-AP"])
    rows = [[f"{method}, the paper", *(f"{row[noise]:.3f}" for noise in levels)] for method, row in PAPER.items()]
    for part in parts:
        for rule in RULES:
            variant = f"{part.name}: {rule}"
            for method in part.methods:
                cells = [cell(part.means.get((variant, noise, method), {}).values()) for noise in levels]
                if method in PAPER:
                    rows.append([f"{method}, {variant}", *cells])
    header = ["mean AP of the classes", *(f"{noise:.0%}" for noise in levels)]
    classes = sorted({len(part.actions) for part in parts})
    note = (
        f"Share of flipped training labels; mean ± standard deviation over seeds of the mean over "
        f"{' or '.join(map(str, classes)) or 'no'} classes. {RULES_NOTE}"
    )
    return Table("Table 1 of the paper, and ours", header, rows, note)


class _SetUp:
    """All runs of one backbone with one kind of head."""

    def __init__(self, name: str, runs: Sequence[Run]) -> None:
        self.name = name
        self.runs = with_usual(runs)
        self.actions = [action for action in ACTIONS if any(run.config.action == action for run in runs)]
        self.levels = sorted({run.config.noise for run in runs})
        there = {run.config.method for run in self.runs}
        self.methods = [method for method in dict.fromkeys((*PAPER, USUAL, *METHODS)) if method in there]
        self.pairs: Outcomes = {}
        for rule in RULES:
            self.pairs |= _outcomes(self.runs, f"{name}: {rule}", rule)
        self.means = means_over(self.actions, self.pairs)

    def records(self) -> list[Record]:
        """The mean over classes, every class, and differences of pos-AP to every other method."""
        in_words = {action: ACTIONS[action] for action in self.actions}
        return records("actions", "test_ap", self.means) + records_by_class("actions", in_words, self.pairs)

    def claims(self) -> list[Claim]:
        """Robustness against x-ent and hinge-AP; the goal: the paper's row, and first of all from 20 % on."""
        found = []
        noisy = [noise for noise in self.levels if noise > 0]
        for rule in RULES:
            variant = f"{self.name}: {rule}"
            for other in ("x-ent", "hinge-AP"):
                compared = self._differences(variant, other, noisy)
                says = f"pos-AP withstands label noise better than {other} ({variant})."
                found.append(claim(says, compared, max(len(noisy), 1)))
            heavy = [noise for noise in self.levels if noise >= 0.2]
            compared, expected = [], 0
            for other in self.methods:
                if other not in ("pos-AP", USUAL):
                    tried = [noise for noise in heavy if other != COSTLY or noise in self.levels[::2]]
                    compared += self._differences(variant, other, tried)
                    expected += len(tried)
            says = f"(ours) pos-AP is ahead of every other method from 20 % on ({variant})."
            found.append(claim(says, compared, max(expected, 1)))
            says = f"(ours) pos-AP reaches the paper's own pos-AP at every noise level ({variant})."
            compared = []
            if len(self.actions) == len(ACTIONS):
                for noise, level in PAPER["pos-AP"].items():
                    ours = self.means.get((variant, noise, "pos-AP"), {})
                    both = {(variant, noise, "pos-AP"): ours, (variant, noise, "paper"): dict.fromkeys(ours, level)}
                    name = f"ours − the paper's at {noise:.0%}"
                    compared += compare(both, variant, noise, "pos-AP", "paper", name)
            found.append(claim(says, compared, len(PAPER["pos-AP"])))
        return found

    def _differences(self, variant: str, other: str, levels: Sequence[float]) -> list[Comparison]:
        """Over classes and seeds, where they are complete."""
        return [
            one for noise in levels for one in compare_whole(self.actions, self.pairs, variant, noise, "pos-AP", other)
        ]

    def tables(self) -> list[Table]:
        """Means by rule; classes by noise level in the paper's protocol; what was chosen."""
        note = f"Mean over classes of AP on clean test boxes, ± standard deviation over seeds. {USUAL_NOTE}"
        found = [
            noise_table(
                f"Share of flipped training labels: {self.name}: {rule}", self.means, variant, self.methods, note
            )
            for rule in RULES
            for variant in [f"{self.name}: {rule}"]
        ]
        rule = next(iter(RULES))
        variant = f"{self.name}: {rule}"
        for noise in self.levels:
            rows = []
            for method in self.methods:
                values = self.pairs.get((variant, noise, method), {})
                cells = [cell([v for (of, _), v in values.items() if of == action]) for action in self.actions]
                rows.append([method, *cells, cell(self.means.get((variant, noise, method), {}).values())])
            header = ["method", *(ACTIONS[action] for action in self.actions), "mean"]
            title = f"Class by class, {noise:.0%} flipped: {variant}"
            found.append(Table(title, header, rows, "Test AP, mean ± standard deviation over seeds."))
        for other in ("x-ent", "hinge-AP"):
            rows = []
            for action in self.actions:
                of_this = of_class(action, self.pairs)
                cells = []
                for noise in self.levels:
                    (one,) = compare(of_this, variant, noise, "pos-AP", other, "") or (None,)
                    cells.append(f"{one.mean:+.3f} ± {one.error:.3f}".replace("-", "−") if one else "–")
                rows.append([ACTIONS[action], *cells])
            header = ["class", *(f"{noise:.0%}" for noise in self.levels)]
            title = f"pos-AP − {other}, class by class: {variant}"
            found.append(Table(title, header, rows, "Paired over seeds, mean ± standard error."))
        for rule in RULES:
            title = f"What was tried and chosen: {self.name}: {rule}"
            own = [run for run in self.runs if run.config.method != USUAL]
            chosen = [_chosen(run, rule) for run in own]
            by_run = {id(allowed): choice for allowed, choice in chosen}
            found.append(choices_table(title, [allowed for allowed, _ in chosen], lambda run, of=by_run: of[id(run)]))
        return found

    def figures(self) -> list[Figure]:
        """AP against noise by rule; against iterations and against the tuning budget under noise; classes."""
        stem = "actions-" + self.name.replace(",", "").replace(" ", "-")
        short = {"the paper's protocol": "paper", "stopped early, clean validation": "clean"}
        short |= {"stopped early, noisy validation": "noisy", "to the end, noisy validation": "end"}
        words = "flipped training labels, %", "mean AP of the classes, clean test boxes"
        found = []
        for rule, name in short.items():
            variant = f"{self.name}: {rule}"
            outcomes = {key: value for key, value in self.means.items() if key[0] == variant}
            if rule == "the paper's protocol" and len(self.actions) == len(ACTIONS):
                outcomes |= {
                    (variant, noise, f"{method}, the paper"): {0: value}
                    for method, row in PAPER.items()
                    for noise, value in row.items()
                    if noise in self.levels
                }
            found.append(noise_lines(f"{stem}-{name}", f"VOC2012 actions: {variant}", outcomes, variant, *words))
        for noise in (0.2, 0.4):
            some = [run for run in self.runs if run.config.noise == noise and run.config.method != USUAL]
            if not some:
                continue
            rule = "stopped early, clean validation"
            curves = self._series(_against_iterations(some, rule))
            title = f"{noise:.0%} flipped: AP as training goes on, {self.name}, settings of: {rule}"
            found.append(lines(f"{stem}-iterations-{noise:.0%}".rstrip("%"), title, curves, "iteration", words[1]))
            for rule in ("the paper's protocol", "stopped early, noisy validation"):
                curves = self._series(_against_budget(some, rule))
                title = f"{noise:.0%} flipped: expected AP by number of settings tried, {self.name}: {rule}"
                name = f"{stem}-budget-{short[rule]}-{noise:.0%}".rstrip("%")
                found.append(lines(name, title, curves, "settings tried", words[1], doubling=True))
        if 0.2 in self.levels:
            variant = f"{self.name}: the paper's protocol"
            groups: dict[str, dict[str, float]] = {}
            for other in ("x-ent", "hinge-AP"):
                group = groups[f"pos-AP − {other}"] = {}
                for action in self.actions:
                    for one in compare(of_class(action, self.pairs), variant, 0.2, "pos-AP", other, ""):
                        group[ACTIONS[action]] = one.mean
            title = f"What pos-AP gains at 20 % flipped labels, class by class, {variant}"
            found.append(bars(f"{stem}-classes", title, groups, "difference in AP"))
        return found

    def _series(self, curves: Curves) -> dict[str, Series]:
        """By method the curve of the mean over classes, with its spread over seeds."""
        points: dict[str, dict[float, list[float]]] = {}
        for (_, x, method), by_seed in means_over(self.actions, curves).items():
            points.setdefault(method, {})[x] = list(by_seed.values())
        return {method: series(points[method]) for method in self.methods if method in points}


def _ends(run: Run) -> Callable[[Curve], tuple[float, float]]:
    """AP of a set before training, and at the end with the setting that clean validation chooses."""
    choice = choose(run.result.validation)
    return lambda curve: (curve[0][choice.settings[0]], choice.value(curve))


def _fine_tuned_table(name: str, runs: Sequence[Run]) -> Table:
    rows = []
    for run in runs:
        ends = _ends(run)
        curves = run.result.train, run.result.validation, run.result.test
        cells = [f"{before:.3f} → {after:.3f}" for before, after in map(ends, curves)]
        what = f"{run.config.method}, {ACTIONS[run.config.action]}, {run.config.noise:.0%} flipped"
        rows.append([f"{what}, seed {run.config.seed}", *cells])
    items = sorted({run.config.items or 0 for run in runs})
    size = "all boxes" if items == [0] else f"at most {items[-1]} boxes a third, half of them positive"
    note = f"AP before training and after it, {size}; with two settings, the one that clean validation chooses."
    return Table(f"Through the network: {name}", ["run", "training", "validation", "test"], rows, note)


def _fine_tuned_records(name: str, runs: Sequence[Run]) -> list[Record]:
    found = []
    for run in runs:
        for metric, value in zip(("test_ap_before", "test_ap"), _ends(run)(run.result.test), strict=True):
            config = run.config
            variant = f"{name}: seed {config.seed}, {config.items or 'all'} boxes a third"
            action = ACTIONS[config.action]
            found.append(Record("actions", config.method, config.noise, variant, action, metric, value, None, 1))
    return found
