"""What runs on segmentation say: test IoU by damage and rule of choosing, and which loss wins."""

from collections.abc import Sequence
from itertools import product

from ..harness.study import Claim, Comparison, Figure, Summary
from ..methods import PLAIN
from ..report.by_noise import ByNoise
from ..report.figures import slug
from ..report.outcomes import Outcomes
from ..report.words import percent
from ..sweep import Rule
from .config import DAMAGES, DATA, Config, Run
from .losses import LOSSES
from .pictures import gallery

__all__ = ["METHODS", "RULES", "summarise"]

METHODS = (*LOSSES, PLAIN)
OURS = ("pos-IoU", "central-IoU", "x-ent + central-IoU")
NOTE = (
    "Mean over clean test images of IoU, mean ± standard deviation over seeds. plain x-ent is cross-entropy whose "
    "foreground counts as much as the background: the same runs as x-ent, with only the step size to tune."
)


RULES = (
    Rule("noisy validation", "noisy_validation"),
    Rule("noisy validation, stopped early", "noisy_validation", True),
    Rule("clean validation", "validation"),
)


def _words(data: str, damage: str) -> str:
    """A variant in words: what is segmented, and what is wrong with masks."""
    return f"{DATA[data]}, {DAMAGES[damage]}"


def summarise(runs: Sequence[Run]) -> Summary:
    """Every kind of data and damage, by every rule."""
    damaged = {(run.config.data, run.config.damage) for run in runs if run.config.noise > 0}
    pairs = [pair for pair in product(DATA, DAMAGES) if pair in damaged]

    def variants(config: Config) -> list[str]:
        """Right masks belong to all kinds of damage; their runs are under the first."""
        if config.noise > 0:
            return [_words(config.data, config.damage)]
        return [_words(*pair) for pair in pairs if pair[0] == config.data] or [_words(config.data, config.damage)]

    by_noise = ByNoise(
        "segmentation", runs, METHODS, RULES, variants, join=": ", metric="IoU", damage="damage to training masks",
        measured="mean IoU of clean test images", note=NOTE,
    )  # fmt: skip
    by_noise.variants = [_words(*pair) for pair in pairs]
    pooled = by_noise.outcomes(lambda result: result.pooled)
    tables = {rule: [by_noise.table(variant, rule) for variant in by_noise.variants] for rule in RULES}
    over_pixels = [by_noise.table(of, RULES[0], pooled, "IoU over all test pixels") for of in by_noise.variants]
    strengths = {method: of.strength for method, of in LOSSES.items()}
    choices = [
        by_noise.choices(RULES[0], DATA[data], ", ", strengths) for data in dict.fromkeys(data for data, _ in pairs)
    ]
    names = {by_noise.name(variant, rule) for variant in by_noise.variants for rule in RULES}
    flat = [*by_noise.records(), *by_noise.records(pooled, "test_iou_all_pixels"), *by_noise.differences(*OURS)]
    return Summary(
        [*(record for record in flat if record.variant in names), *by_noise.dead_gradients()],
        _claims(by_noise.test, pairs),
        [*tables[RULES[0]], *over_pixels, *tables[RULES[1]], *tables[RULES[2]], *choices],
        lambda: _figures(by_noise, runs, pairs),
        _headline(by_noise, pairs),
        tables[RULES[0]],
    )


def _claims(test: Outcomes, pairs: Sequence[tuple[str, str]]) -> list[Claim]:
    """Of every kind of data: with right masks, and with every kind of damage."""
    claims = []
    for ours in OURS:
        for other in ("x-ent", PLAIN, "Dice", "Dice + x-ent", "Lovász hinge", "hinge-IoU"):
            for data in dict.fromkeys(data for data, _ in pairs):
                compared: dict[str, Comparison] = {}
                for _, damage in (pair for pair in pairs if pair[0] == data):
                    variant = f"{_words(data, damage)}: {RULES[0].name}"
                    for noise in test.levels(variant):
                        masks = f"{percent(noise)} {DAMAGES[damage]}" if noise else "right masks"
                        name = f"{ours} − {other}, {masks}"  # right masks stand in several variants
                        compared.setdefault(name, test.compare(variant, noise, ours, other, name))
                says = f"{ours} reaches a higher test IoU than {other}"
                claims.append(Claim(says, DATA[data], list(compared.values()), "ours"))
    return claims


def _figures(by_noise: ByNoise, runs: Sequence[Run], pairs: Sequence[tuple[str, str]]) -> list[Figure]:
    drawn = []
    for pair, variant in zip(pairs, by_noise.variants, strict=True):
        drawn.append(by_noise.figure(variant, RULES[0], "Segmentation"))
        pictures = {
            method: run.result.shown
            for method in LOSSES
            for run in runs
            if run.config.noise > 0
            and (run.config.method, run.config.data, run.config.damage) == (method, *pair)
            and run.result.shown
        }
        if pictures:
            title = f"Masks found after training with 20 % {DAMAGES[pair[1]]}: {DATA[pair[0]]}"
            drawn.append(gallery(slug("segmentation", variant, "masks"), title, pictures))
    return drawn


def _headline(by_noise: ByNoise, pairs: Sequence[tuple[str, str]]) -> str:
    """Of the first variant, at the highest noise."""
    if not pairs:
        return ""
    data, damage = pairs[0]
    highest = by_noise.test.levels(by_noise.name(by_noise.variants[0], RULES[0]))[-1]
    return by_noise.headline(f"With {{noise}} {DAMAGES[damage]} ({DATA[data]})", highest, "pos-IoU")
