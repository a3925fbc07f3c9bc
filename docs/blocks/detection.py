"""VOC2012 detection."""

from directloss_studies.linear_models import LINEAR_MODELS

from docs import paper

from .numbers import RESULTS, as_table, block, gain_cell, in_percent, mean_cell, records_of
from .verdicts import THREE

__all__ = ["ALL", "ALL_IMAGES", "CHOICES", "classes_of_both"]

CHOICES = ("settings by class", "one setting for all classes")


ALL = "detection-all-images"
"""The file of results on the paper's own lists."""
ALL_IMAGES = "efficientnet-lite0, layers, all images, 1200 boxes, batches of 2048, 50 % of negatives hard"
METHODS = (LINEAR_MODELS[0], *THREE)


@block
def detection_all_images() -> str:
    """Table 2 on the paper's own lists; the rows with a given strength are the paper's settings."""
    from directloss_studies.detection.summary import PAPER

    levels = (0.0, 0.2)
    rows = [
        [f"{method}, the paper", *(f"{row[noise]:.3f}" if noise in row else "–" for noise in levels)]
        for method, row in PAPER.items()
    ]
    rows += [
        [f"{method}, {choice}", *(mean_cell(ALL, f"{ALL_IMAGES}: {choice}", method, noise) for noise in levels)]
        for choice in CHOICES
        for method in METHODS
    ]
    for method, strength, given in (("hinge-AP", "1", "margin 1"), ("pos-AP", "0.1", "ε 0.1")):
        variant = f"{ALL_IMAGES}: strength {strength}"
        rows.append([f"{method}, {given}", *(mean_cell(ALL, variant, method, noise) for noise in levels)])
    return as_table(["mean AP of twenty classes; training labels flipped", *in_percent(levels)], rows)


SMALL = "detection-500-images"
"""The file of results on 500 images of each list."""


@block
def detection_small() -> str:
    """Every method beside both of scikit-learn's, on 500 images of each list."""
    setup = ALL_IMAGES.replace("all images", "500 images")
    rows = [
        [f"{method}, {choice}", *(mean_cell(SMALL, f"{setup}: {choice}", method, noise) for noise in (0.0, 0.2))]
        for choice in CHOICES
        for method in (*LINEAR_MODELS, *THREE)
    ]
    return as_table(["mean AP of twenty classes; training labels flipped", *in_percent((0.0, 0.2))], rows)


@block
def detection_all_gains() -> str:
    """pos-AP against its rivals on the paper's own lists, paired by class and seed."""
    rows = [
        [f"{other}: {how}", *(gain_cell(ALL, f"{ALL_IMAGES}: {how}", other, k) for k in (0.0, 0.2))]
        for how in CHOICES
        for other in METHODS[:-1]
    ]
    return as_table(["pos-AP minus", *in_percent((0.0, 0.2))], rows)


def classes_of_both() -> str:
    """AP by class, the paper's and ours, on the paper's own lists."""
    theirs, records = paper.read(RESULTS / "paper-detection.csv"), records_of(ALL)
    classes = sorted({class_ for class_, *_ in theirs} - {paper.MEAN}, key=lambda of: (-theirs[of, 0.0, "pos-AP"], of))
    panels = []
    for noise, method in ((0.0, "x-ent"), (0.0, "hinge-AP"), (0.0, "pos-AP"), (0.2, "pos-AP")):
        ours = {}
        for of in classes:
            record = records[f"{ALL_IMAGES}: {CHOICES[0]}", method, noise, of, "test_ap"]
            ours[of] = record["mean"], record["sd"] or 0.0
        title = f"{method}, {in_percent([noise])[0]} flipped"
        panels.append(paper.Panel(title, method, {of: theirs[of, noise, method] for of in classes}, ours))
    return paper.draw(panels, classes)
