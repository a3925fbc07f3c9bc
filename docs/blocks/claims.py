"""The README's table of claims."""

from collections.abc import Sequence

from directloss_studies.linear_models import LINEAR_MODELS

from .actions import LINEAR, RULES, TODAY
from .detection import ALL, ALL_IMAGES, CHOICES
from .numbers import PLAIN, as_table, block, mean_cell
from .synthetic import STARTS, TO_THE_END
from .verdicts import WITHSTANDS, verdict_of

COLLAPSES = "With 20 % flipped labels hinge-AP collapses: less than a tenth of its AP on clean labels is left"


def _several(name: str, variant: str, methods: Sequence[str], noise: float = 0.0) -> str:
    return ", ".join(f"{method} {mean_cell(name, variant, method, noise)}" for method in methods)


@block
def claims() -> str:
    """What the paper claims, an example of our numbers, and the verdict."""
    noise = TO_THE_END.format("standardised", "noisy validation")
    actions, detection = f"{LINEAR}: {RULES[0]}", f"{ALL_IMAGES}: {CHOICES[0]}"
    all_actions = ("actions", TODAY)
    heads = ("pos-AP", "hinge-AP", "x-ent", LINEAR_MODELS[0])
    damaged = "With a tenth or more of the samples damaged, the negative update does worse than the positive one"
    rows = [
        [
            "Synthetic data: pos-AP is the best of nine methods (Figure 3a)",
            _several("synthetic", STARTS[0], ("pos-AP", "x-ent", "hinge-AP", "hinge-01")),
            verdict_of("report", "pos-AP reaches a higher test AP than all other methods"),
        ],
        [
            "Flipped labels: pos-AP is better than x-ent (Figure 3b)",
            f"20 % flipped: {_several('label-noise', noise, ('pos-AP', 'x-ent'), 0.2)}",
            verdict_of("report", WITHSTANDS.format("x-ent")),
        ],
        [
            "… than plain x-ent (our claim)",
            f"20 % flipped: {_several('label-noise', noise, ('pos-AP', PLAIN), 0.2)}",
            verdict_of("report", WITHSTANDS.format(PLAIN)),
        ],
        [
            "… than hinge-AP",
            f"20 % flipped: {_several('label-noise', noise, ('pos-AP', 'hinge-AP'), 0.2)}",
            verdict_of("report", WITHSTANDS.format("hinge-AP")),
        ],
        [
            "VOC2012 actions, flipped labels: pos-AP is better than x-ent (Table 1)",
            f"30 % flipped: {_several(TODAY, actions, ('pos-AP', 'x-ent'), 0.3)}",
            verdict_of(all_actions, WITHSTANDS.format("x-ent")),
        ],
        [
            "… than hinge-AP",
            f"30 % flipped: {_several(TODAY, actions, ('pos-AP', 'hinge-AP'), 0.3)}",
            verdict_of(all_actions, WITHSTANDS.format("hinge-AP")),
        ],
        [
            "VOC2012 detection: pos-AP beats hinge-AP, and both beat x-ent (Table 2)",
            _several(ALL, detection, heads),
            verdict_of(ALL, "On clean labels pos-AP is ahead of hinge-AP, and both of x-ent"),
        ],
        [
            "… with flipped labels, pos-AP beats hinge-AP",
            f"20 % flipped: {_several(ALL, detection, heads, 0.2)}",
            verdict_of(ALL, "With 20 % flipped labels pos-AP is ahead of hinge-AP"),
        ],
        [
            "… with flipped labels, hinge-AP collapses",
            f"hinge-AP, clean {mean_cell(ALL, detection, 'hinge-AP')}, "
            f"20 % flipped {mean_cell(ALL, detection, 'hinge-AP', 0.2)}",
            verdict_of(ALL, COLLAPSES),
        ],
        [
            "Nearly separable data: neg-AP beats pos-AP on clean labels (Hazan et al., 2010)",
            _several("separable", "linear, flipped", ("neg-AP", "pos-AP")),
            verdict_of("report", "On clean, separable data the negative update beats the positive one"),
        ],
        [
            "… and does worse where a tenth or more is damaged",
            f"20 % flipped: {_several('separable', 'linear, flipped', ('neg-AP', 'pos-AP'), 0.2)}",
            verdict_of("report", damaged),
        ],
    ]
    return as_table(["claim", "test AP, an example", "verdict (comparisons)"], rows)
