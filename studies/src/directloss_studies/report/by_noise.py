"""The summary of a study that trains methods at several shares of damage: tables, records, claims, figures.

A run belongs to one or more variants of the study. A rule chooses its setting. What is shown stands under the name of
both. Where a study has classes, what is shown is the mean over them, and pairs for comparisons are those of classes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from statistics import mean
from typing import Any

from ..harness.study import Claim, Figure, Record, Run, Table
from ..methods import PLAIN, PLAIN_NOTE
from ..sweep import Curve, Rule
from .figures import noise_lines, slug
from .outcomes import Outcomes, Unit, difference_records, records
from .summary import choices_table, noise_table, with_plain
from .takeaway import headline
from .words import percent

__all__ = ["ByNoise"]


class ByNoise:
    """Test values of all runs by variant and rule, noise, method, seed and class."""

    def __init__(
        self,
        study: str,
        runs: Sequence[Run[Any, Any]],
        methods: Sequence[str],
        rules: Sequence[Rule],
        variants: Callable[[Any], Sequence[str]],
        *,
        join: str = ", ",
        metric: str = "AP",
        damage: str = "flipped training labels",
        measured: str = "AP on clean test data",
        note: str = f"AP on clean test data, mean ± standard deviation over seeds. {PLAIN_NOTE}",
        class_of: Callable[[Any], str | None] = lambda config: None,
        classes: Collection[str] = (),
    ) -> None:
        self.study, self.runs, self.methods, self.rules, self.join = study, runs, methods, rules, join
        self.metric, self.damage, self.measured, self.note = metric, damage, measured, note
        self.of, self.class_of, self.classes = variants, class_of, classes
        self.variants = list(dict.fromkeys(name for run in runs for name in variants(run.config)))
        self.pairs = self.outcomes(lambda result: result.test)
        """Of every class and seed."""
        self.test = self.pairs.means_over(classes) if classes else self.pairs
        """Of every seed."""

    def name(self, variant: str, rule: Rule) -> str:
        """Of a variant with a rule, in tables and published records."""
        return self.join.join(filter(None, (variant, rule.name)))

    def outcomes(self, curve: Callable[[Any], Curve], chosen: bool = False) -> Outcomes:
        """A number of every run by every rule; with `chosen` on the curve that chooses."""
        outcomes = Outcomes()
        for rule in self.rules:
            for run in self.runs if chosen or PLAIN not in self.methods else with_plain(self.runs):
                of = run.config
                value = rule.choose(run).value(getattr(run.result, rule.chosen_on) if chosen else curve(run.result))
                for variant in self.of(of):
                    unit = Unit(of.seed, self.class_of(of))
                    outcomes.put(self.name(variant, rule), of.noise, of.method, unit, value)
        return outcomes

    def records(self, outcomes: Outcomes | None = None, metric: str | None = None) -> list[Record]:
        """The mean of every variant, noise and method."""
        return records(self.study, metric or f"test_{self.metric.lower()}", outcomes or self.test)

    def differences(self, *ours: str, clean: bool = True) -> list[Record]:
        """Of our methods to all others; without those on clean labels, if they say nothing."""
        differences = [record for one in ours for record in difference_records(self.study, self.pairs, ours=one)]
        return [record for record in differences if clean or record.noise > 0]

    def dead_gradients(self, suffix: str = "") -> list[Record]:
        """The share of iterations without a gradient, by the first variant of a run."""
        shares = Outcomes()
        for run in self.runs:
            of = run.config
            shares.put(self.of(of)[0] + suffix, of.noise, of.method, Unit(of.seed), mean(run.result.dead))
        return records(self.study, "dead_gradients", shares)

    def table(self, variant: str, rule: Rule, outcomes: Outcomes | None = None, what: str = "") -> Table:
        """Methods down, noise across."""
        name = self.name(variant, rule)
        title = f"{what or f'Test {self.metric}'} by share of {self.damage}: {name}"
        return noise_table(title, outcomes or self.test, name, self.methods, self.note)

    def tables(self) -> list[Table]:
        """A table for every variant and rule."""
        return [self.table(variant, rule) for variant in self.variants for rule in self.rules]

    def choices(
        self, rule: Rule, variant: str, join: str | None = None, strengths: Mapping[str, str | None] | None = None
    ) -> Table:
        """What was tried and what the rule chose, for all variants whose names begin so."""
        mine = [run for run in self.runs if self.of(run.config)[0].startswith(variant)]
        name = (join or self.join).join((variant, rule.name))
        return choices_table(f"What was tried and chosen: {name}", mine, rule, strengths)

    def claims(self, says: str, ours: str, other: str, source: str = "the paper", least: float = 1e-9) -> list[Claim]:
        """For every variant and rule that ours is ahead of another method, from a share of damage on."""
        claims = []
        for name in (self.name(variant, rule) for variant in self.variants for rule in self.rules):
            compared = [
                self.pairs.compare(name, noise, ours, other, f"{ours} − {other} at {percent(noise)}", self.classes)
                for noise in self.test.levels(name)
                if noise >= least
            ]
            claims.append(Claim(says, name, compared, source))
        return claims

    def figures(self, title: str) -> list[Figure]:
        """A figure for every variant and rule."""
        return [self.figure(variant, rule, title) for variant in self.variants for rule in self.rules]

    def figure(self, variant: str, rule: Rule, title: str, outcomes: Outcomes | None = None) -> Figure:
        """One curve a method against the share of damage."""
        name = self.name(variant, rule)
        words = f"{self.damage}, %", self.measured
        return noise_lines(
            slug(self.study, variant, rule.figure), f"{title}: {name}", outcomes or self.test, name, *words
        )

    def headline(self, where: str, noise: float | None = None, ours: str = "pos-AP") -> str:
        """Of the first variant and rule, at this noise, or else at 20 % if that was tried, or else at the highest."""
        if not self.variants:
            return ""
        name = self.name(self.variants[0], self.rules[0])
        levels = self.test.levels(name)
        at = noise if noise is not None else 0.2 if 0.2 in levels else levels[-1]
        where = where.format(noise=percent(at), name=name)
        pairs = self.pairs if self.classes else None
        return headline(self.test, name, at, self.methods, where, pairs=pairs, ours=ours, metric=self.metric)
