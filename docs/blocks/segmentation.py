"""Segmentation."""

from collections.abc import Callable, Iterable
from functools import partial

from .numbers import BLOCKS, as_table, block, gain_cell, mean_cell
from .verdicts import claims_of, verdict_of

MASKS = {
    "right masks": ("shapes, wrong pixels", 0.0),
    "20 % wrong pixels": ("shapes, wrong pixels", 0.2),
}


def _segmentation(corner: str, rows: Iterable[str], rule: str, shown: Callable[[str, str, float], str]) -> str:
    """One column for every kind of data and of masks."""
    cells = [[row, *(shown(row, f"{variant}: {rule}", noise) for variant, noise in MASKS.values())] for row in rows]
    return as_table([corner, *MASKS], cells)


def _segmentation_means(rule: str) -> str:
    from directloss_studies.segmentation.summary import METHODS

    def shown(method: str, variant: str, noise: float) -> str:
        return mean_cell("segmentation", variant, method, noise, metric="test_iou")

    return _segmentation("loss", METHODS, rule, shown)


@block
def segmentation_gains() -> str:
    """The central update, alone and beside cross-entropy, against every other loss."""
    from directloss_studies.segmentation.summary import METHODS, OURS

    pairs = {
        f"{ours} − {other}": (ours, other)
        for number, ours in enumerate(OURS)
        if ours != "pos-IoU"
        for other in METHODS
        if other not in OURS[number:]
    }

    def shown(row: str, variant: str, noise: float) -> str:
        ours, other = pairs[row]
        return gain_cell("segmentation", variant, other, noise, ours)

    return _segmentation("difference in IoU", pairs, "noisy validation", shown)


@block
def segmentation_verdicts() -> str:
    """Every claim on segmentation, by data."""
    says = claims_of("segmentation")
    variants = list(dict.fromkeys(variant for judged in says.values() for variant in judged.verdicts))
    rows = [[claim, *(verdict_of("segmentation", claim, variant) for variant in variants)] for claim in says]
    return as_table(["claim (ours)", *variants], rows)


BLOCKS |= {
    "segmentation_iou": partial(_segmentation_means, "noisy validation"),
    "segmentation_clean_validation": partial(_segmentation_means, "clean validation"),
}
