"""What runs on segmentation say: test IoU by damage and rule of choosing, and which loss wins."""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean
from typing import NamedTuple

from ..harness.experiment import Claim, Figure, Summary, Table
from ..methods import PLAIN
from ..report.figures import noise_lines, slug
from ..report.outcomes import Outcomes, Unit, difference_records, records
from ..report.summary import choices_table, noise_table, with_plain
from ..report.takeaway import headline
from ..report.words import percent
from ..sweep import Choice, Curve, choose
from .config import DAMAGES, DATA, Config, Result, Run
from .losses import LOSSES
from .pictures import gallery

__all__ = ["METHODS", "RULES", "summarise"]

METHODS = (*LOSSES, PLAIN)
OURS = ("pos-IoU", "central-IoU")
NOTE = (
    "Mean over clean test images of IoU, mean ± standard deviation over seeds. plain x-ent is cross-entropy whose "
    "foreground counts as much as the background: the same runs as x-ent, with only the step size to tune."
)


class Rule(NamedTuple):
    """How a setting is chosen: on which masks, and whether these also say when to stop."""

    name: str
    chosen_on: str
    early_stopping: bool = False

    def choose(self, run: Run) -> Choice:
        """The setting, and the checkpoint."""
        return choose(run.result.curves()[self.chosen_on], self.early_stopping)


RULES = (
    Rule("noisy validation", "noisy_validation"),
    Rule("noisy validation, stopped early", "noisy_validation", True),
    Rule("clean validation", "validation"),
)


class Variant(NamedTuple):
    """What is segmented, and what is wrong with masks."""

    data: str
    damage: str

    @property
    def words(self) -> str:
        """In titles."""
        return f"{DATA[self.data]}, {DAMAGES[self.damage]}"

    def name(self, rule: Rule) -> str:
        """In tables and published records."""
        return f"{self.words}: {rule.name}"


def _outcomes(runs: Iterable[Run], rule: Rule, curve: Callable[[Result], Curve]) -> Outcomes:
    """A value of every run; right masks belong to all kinds of damage, their runs are under the first."""
    found = Outcomes()
    for run in runs:
        of: Config = run.config
        for damage in DAMAGES if of.noise == 0 else (of.damage,):
            variant = Variant(of.data, damage).name(rule)
            found.put(variant, of.noise, of.method, Unit(of.seed), rule.choose(run).value(curve(run.result)))
    return found


def summarise(runs: Sequence[Run]) -> Summary:
    """Every kind of data and damage, by every rule."""
    all_runs = with_plain(runs)
    damaged = {(run.config.data, run.config.damage) for run in runs if run.config.noise > 0}
    variants = [Variant(data, damage) for data in DATA for damage in DAMAGES if (data, damage) in damaged]
    names = {variant.name(rule) for variant in variants for rule in RULES}
    test, pooled, dead = Outcomes(), Outcomes(), Outcomes()
    for rule in RULES:
        test.update(_outcomes(all_runs, rule, lambda result: result.test))
        pooled.update(_outcomes(all_runs, rule, lambda result: result.pooled))
    for run in runs:
        of = run.config
        dead.put(Variant(of.data, of.damage).words, of.noise, of.method, Unit(of.seed), mean(run.result.dead))
    found = [
        *records("segmentation", "test_iou", test),
        *records("segmentation", "test_iou_all_pixels", pooled),
        *(record for ours in OURS for record in difference_records("segmentation", test, ours=ours)),
    ]
    found = [record for record in found if record.variant in names] + records("segmentation", "dead_gradients", dead)

    def table(variant: Variant, rule: Rule, outcomes: Outcomes = test, what: str = "Test IoU") -> Table:
        title = f"{what} by share of damage to training masks: {variant.name(rule)}"
        return noise_table(title, outcomes, variant.name(rule), METHODS, NOTE)

    main = [table(variant, RULES[0]) for variant in variants]
    tables = [
        *main,
        *(table(variant, RULES[0], pooled, "IoU over all test pixels") for variant in variants),
        *(table(variant, rule) for rule in RULES[1:] for variant in variants),
    ]
    strengths = {method: of.strength for method, of in LOSSES.items()}
    for data in dict.fromkeys(variant.data for variant in variants):
        mine = [run for run in runs if run.config.data == data]
        title = f"What was tried and chosen: {DATA[data]}, {RULES[0].name}"
        tables.append(choices_table(title, mine, RULES[0].choose, strengths))
    return Summary(
        found, _claims(test, variants), tables, lambda: _figures(runs, test, variants), _headline(test, variants), main
    )


def _claims(test: Outcomes, variants: Sequence[Variant]) -> list[Claim]:
    """Of every kind of data: with right masks, and with every kind of damage."""
    found = []
    for ours in OURS:
        for other in ("x-ent", PLAIN, "Dice", "Lovász hinge", "hinge-IoU"):
            for data in dict.fromkeys(variant.data for variant in variants):
                compared = []
                for variant in variants:
                    for noise in test.levels(variant.name(RULES[0])) if variant.data == data else ():
                        masks = f"{percent(noise)} {DAMAGES[variant.damage]}" if noise else "right masks"
                        name = f"{ours} − {other}, {masks}"
                        if all(each.name != name for each in compared):  # right masks stand in several variants
                            compared.append(test.compare(variant.name(RULES[0]), noise, ours, other, name))
                found.append(Claim(f"{ours} reaches a higher test IoU than {other}", DATA[data], compared, "ours"))
    return found


def _figures(runs: Sequence[Run], test: Outcomes, variants: Sequence[Variant]) -> list[Figure]:
    words = "damage to training masks, %", "mean IoU of clean test images"
    found = []
    for variant in variants:
        name = variant.name(RULES[0])
        title = f"Segmentation: {name}"
        found.append(noise_lines(slug("segmentation", variant.words), title, test, name, *words))
        pictures = {
            method: run.result.shown
            for method in LOSSES
            for run in runs
            if run.config.noise > 0
            and (run.config.method, run.config.data, run.config.damage) == (method, *variant)
            and run.result.shown
        }
        if pictures:
            title = f"Masks found after training with 20 % {DAMAGES[variant.damage]}: {DATA[variant.data]}"
            found.append(gallery(slug("segmentation", variant.words, "masks"), title, pictures))
    return found


def _headline(test: Outcomes, variants: Sequence[Variant]) -> str:
    """Of the first variant, at the highest noise."""
    if not variants:
        return ""
    name = variants[0].name(RULES[0])
    noise = test.levels(name)[-1]
    where = f"With {percent(noise)} {DAMAGES[variants[0].damage]} ({DATA[variants[0].data]})"
    return headline(test, name, noise, METHODS, where, ours="pos-IoU", metric="IoU")
