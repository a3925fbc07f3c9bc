"""VOC2012 actions."""

from directloss_studies.linear_models import LINEAR_MODELS
from directloss_studies.methods import WARM

from .numbers import PLAIN, as_table, block, in_percent, mean_cell, records_of
from .verdicts import FOUR, NOISE

__all__ = ["LINEAR", "RULES", "TODAY"]

RULES = (
    "the paper's protocol",
    "stopped early, clean validation",
    "stopped early, noisy validation",
    "to the end, noisy validation",
)


@block
def actions_table_1() -> str:
    """The paper's Table 1 and ours."""
    from directloss_studies.actions.summary import PAPER

    rows = [[f"{method}, the paper", *(f"{row[noise]:.3f}" for noise in NOISE)] for method, row in PAPER.items()]
    networks = {
        "SqueezeNet": (*FOUR, "neg-AP", "central-AP", "Smooth-AP"),
        "AlexNet": FOUR,
    }
    for network, methods in networks.items():
        variant = f"{network.lower()}, linear head: {RULES[0]}"
        for method in methods:
            cells = (mean_cell("actions", variant, method, noise) for noise in NOISE)
            rows.append([f"{method}, {network}", *cells])
    return as_table(["mean AP of ten actions; training labels flipped", *in_percent(NOISE)], rows)


TODAY = "actions-efficientnet"
"""The file of results on a backbone of today."""
LINEAR = "efficientnet-lite0, linear head"
TODAY_METHODS = (*LINEAR_MODELS, "x-ent", PLAIN, "GCE", "hinge-AP", "pos-AP", WARM, "central-AP", "neg-AP", "Smooth-AP")


@block
def actions_today() -> str:
    """Table 1 on EfficientNet-Lite0 by the paper's protocol, with the paper's pos-AP; the best of a level in bold."""
    from directloss_studies.actions.summary import PAPER

    variant, records = f"{LINEAR}: {RULES[0]}", records_of(TODAY)
    rows = [["pos-AP, the paper", *(f"{PAPER['pos-AP'][noise]:.3f}" for noise in NOISE)]]
    for method in TODAY_METHODS:
        cells = []
        for noise in NOISE:
            keys = {other: (variant, other, noise, None, "test_ap") for other in TODAY_METHODS}
            values = {other: records[key]["mean"] for other, key in keys.items() if key in records}
            shown = mean_cell(TODAY, variant, method, noise)
            cells.append(f"**{shown}**" if values.get(method) == max(values.values()) else shown)
        rows.append([method, *cells])
    return as_table([f"{RULES[0]}; training labels flipped", *in_percent(NOISE)], rows)


@block
def actions_today_runs() -> str:
    """How many seeds there are."""
    return f"{records_of(TODAY)[f'{LINEAR}: {RULES[0]}', 'pos-AP', 0.0, None, 'test_ap']['n']} seeds"
