"""Synthetic data, label noise, separable data."""

from .numbers import PLAIN, as_table, block, gain_cell, in_percent, mean_cell, records_of
from .verdicts import NOISE

__all__ = ["STARTS", "TO_THE_END"]

STARTS = ("N(0,1), full batch", "He, full batch", "N(0,1), batches of 512", "He, batches of 512")
TO_THE_END = "{} inputs, to the end, chosen on {}"


@block
def synthetic_gains() -> str:
    """pos-AP against every other method, by start and batch."""
    others = ("x-ent", PLAIN, "hinge-AP", "neg-AP", "hinge-01", "pos-01", "per-AP")
    rows = [[other, *(gain_cell("synthetic", start, other) for start in STARTS)] for other in others]
    return as_table(["pos-AP minus", *STARTS], rows)


@block
def synthetic_dead() -> str:
    """The share of iterations without a gradient, from the least variant to the most."""

    def shares(method: str) -> str:
        found = [
            record["mean"] for key, record in records_of("synthetic").items() if key[1::3] == (method, "dead_gradients")
        ]
        low, high = (f"{100 * share:.0f}" for share in (min(found), max(found)))
        return f"{low} to {high} %" if low != high else f"{low} %"

    positive, negative, hinge = (shares(f"{update}-01") for update in ("pos", "neg", "hinge"))
    return f"{positive} of the iterations (by variant), against {negative} for neg-01 and {hinge} for hinge-01"


@block
def label_noise_gains() -> str:
    """pos-AP against other methods, by inputs and rule of choosing."""
    raw, standardised = (TO_THE_END.format(inputs, "noisy validation") for inputs in ("raw", "standardised"))
    training = TO_THE_END.format("raw", "training AP")
    lines = [
        *((other, raw, "raw inputs") for other in ("x-ent", PLAIN, "hinge-AP")),
        *((other, standardised, "standardised") for other in ("x-ent", PLAIN, "hinge-AP")),
        ("x-ent", training, "raw inputs, chosen on training AP"),
    ]
    rows = [
        [f"{other}, {shown}", *(gain_cell("label-noise", variant, other, noise) for noise in NOISE[1:])]
        for other, variant, shown in lines
    ]
    return as_table(["pos-AP minus, 5 seeds", *in_percent(NOISE[1:])], rows)


@block
def separable_updates() -> str:
    """The negative and the positive update on separable data, clean and with flipped labels."""
    rows = [
        [f"{method}, {model}", *(mean_cell("separable", f"{model}, flipped", method, noise) for noise in (0.0, 0.2))]
        for model in ("linear", "network")
        for method in ("neg-AP", "pos-AP")
    ]
    return as_table(["test AP; training labels flipped", *in_percent((0.0, 0.2))], rows)
