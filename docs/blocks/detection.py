"""VOC2012 detection."""

from collections.abc import Sequence
from functools import cache
from statistics import mean
from typing import Any

import numpy as np
from directloss_studies.linear_models import LINEAR_MODELS

from docs import paper

from .actions import by_class
from .numbers import RESULTS, as_table, block, gain_cell, in_percent, mean_cell, records_of, study_of
from .verdicts import FOUR, THREE

__all__ = ["ALL", "ALL_IMAGES", "CHOICES", "classes_of_both"]

CHOICES = ("settings by class", "one setting for all classes")


ALL = "detection-all-images"
"""The file of results on the paper's own lists."""
ALL_IMAGES = "efficientnet-lite0, layers, all images, 1200 boxes, batches of 2048, 50 % of negatives hard"
FIVE = (*LINEAR_MODELS, *THREE)


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
        for method in FIVE
    ]
    for method, strength, given in (("hinge-AP", "1", "margin 1"), ("pos-AP", "0.1", "ε 0.1")):
        variant = f"{ALL_IMAGES}: strength {strength}"
        rows.append([f"{method}, {given}", *(mean_cell(ALL, variant, method, noise) for noise in levels)])
    return as_table(["mean AP of twenty classes; training labels flipped", *in_percent(levels)], rows)


@block
def detection_all_gains() -> str:
    """pos-AP against its rivals on the paper's own lists, paired by class and seed."""
    rows = [
        [f"{other}: {how}", *(gain_cell(ALL, f"{ALL_IMAGES}: {how}", other, k) for k in (0.0, 0.2))]
        for how in CHOICES
        for other in (*LINEAR_MODELS, "x-ent", "hinge-AP")
    ]
    return as_table(["pos-AP minus", *in_percent((0.0, 0.2))], rows)


@block
def detection_in_a_line() -> str:
    """pos-AP on the paper's own lists, and the paper's."""
    from directloss_studies.detection.summary import PAPER

    clean, noisy = (mean_cell(ALL, f"{ALL_IMAGES}: {CHOICES[0]}", "pos-AP", noise) for noise in (0.0, 0.2))
    theirs = PAPER["pos-AP"]
    for noise in (0.0, 0.2):
        of = {m: records_of(ALL)[f"{ALL_IMAGES}: {CHOICES[0]}", m, noise, None, "test_ap"]["mean"] for m in THREE}
        if max(of, key=lambda method: of[method]) != "pos-AP":
            raise ValueError("pos-AP is not first any more: write this sentence anew.")
    return (
        f"Detection on the paper's own lists: pos-AP is first of three methods, with {clean} on clean labels "
        f"and {noisy} with 20 % flipped; the paper has {theirs[0.0]:.3f} and {theirs[0.2]:.3f}."
    )


@block
def proposals_by_side() -> str:
    """What the search finds in images of each size, and in what time; OpenCV's beside it."""
    found = study_of("proposals")
    first, *_ = found["searches"]
    rows = [
        [f"{of['search']}, {of['side']} pixels", f"{of['most']:,}", f"{100 * of['recall']:.1f} %", f"{of['boxes']:.0f}",
         f"{of['seconds']:.2f} s", f"{of['seconds'] / first['seconds']:.2f}×"]
        for of in found["searches"]
    ]  # fmt: skip
    header = [f"longer side; {found['images']} images, {found['objects']} objects", "boxes at most", "objects found"]
    return as_table([*header, "boxes an image", "time an image", "beside the first"], rows)


@block
def detection_all_classes() -> str:
    """Class by class on the paper's own lists, settings by class, with the paper's number in brackets."""
    return by_class(ALL, f"{ALL_IMAGES}: {CHOICES[0]}", (0.0, 0.2), _paper_detection())


@cache
def _paper_detection() -> paper.Numbers:
    """The paper's Table 2."""
    return paper.read(RESULTS / "paper-detection.csv")


def _ap_of_both(choice: str, noise: float, method: str, classes: Sequence[str]) -> Any:
    """AP of classes: a row of the paper's, a row of ours."""
    theirs, records = _paper_detection(), records_of(ALL)
    keys = ((f"{ALL_IMAGES}: {choice}", method, noise, None if of == paper.MEAN else of, "test_ap") for of in classes)
    return np.array([[theirs[of, noise, method] for of in classes], [records[key]["mean"] for key in keys]])


def _detection_correlations(choice: str) -> dict[str, float]:
    """Rank correlations of classes and of methods between the paper and ours."""
    classes = sorted({of for of, *_ in _paper_detection()} - {paper.MEAN})
    x_ent, hinge, pos = (_ap_of_both(choice, 0.0, method, classes) for method in THREE)
    noisy = _ap_of_both(choice, 0.2, "pos-AP", classes)
    columns = [(0.0, "x-ent"), (0.0, "hinge-AP"), (0.0, "pos-AP"), (0.2, "hinge-AP"), (0.2, "pos-AP")]
    means = np.concatenate([_ap_of_both(choice, *column, [paper.MEAN]) for column in columns], 1)
    one_by_one = (paper.spearman(*rows.T) for rows in np.stack([x_ent, hinge, pos]).transpose(2, 0, 1))
    return {
        "20 classes: AP of x-ent, 0 %": paper.spearman(*x_ent),
        "20 classes: AP of hinge-AP, 0 %": paper.spearman(*hinge),
        "20 classes: AP of pos-AP, 0 %": paper.spearman(*pos),
        "20 classes: AP of pos-AP, 20 %": paper.spearman(*noisy),
        "20 classes: share of its AP that pos-AP keeps at 20 %": paper.spearman(*(noisy / pos)),
        "20 classes: pos-AP minus x-ent, 0 %": paper.spearman(*(pos - x_ent)),
        "20 classes: pos-AP minus hinge-AP, 0 %": paper.spearman(*(pos - hinge)),
        "3 methods: mean AP, 0 %": paper.spearman(*means[:, :3]),
        "3 methods: AP of a class, 0 %, mean over the classes": mean(one_by_one),
        "5 methods and noise levels of the paper: mean AP": paper.spearman(*means),
    }


@block
def detection_all_ranks() -> str:
    """Rank correlations between the paper and ours, for both rules of choosing."""
    found = [_detection_correlations(choice) for choice in CHOICES]
    rows = [[name, *(f"{each[name]:.2f}".replace("-", "−") for each in found)] for name in found[0]]
    return as_table(["rank correlation of the paper and ours", *CHOICES], rows)


def classes_of_both() -> str:
    """AP by class, the paper's and ours, on the paper's own lists."""
    theirs, records = _paper_detection(), records_of(ALL)
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


def _features(backbone: str, kinds: Sequence[str]) -> str:
    """AP with two kinds of features, on few images."""
    variants = [
        (f"{backbone}, {kind}, 100 images, 300 boxes, batches of 512: {CHOICES[0]}", noise)
        for noise in (0.0, 0.2)
        for kind in kinds
    ]
    rows = [
        [method, *(mean_cell("detection-features", variant, method, noise) for variant, noise in variants)]
        for method in FOUR
    ]
    header = [f"{kind}, {noise} %" for noise in (0, 20) for kind in kinds]
    return as_table(["mean AP of car, cat and person", *header], rows)


@block
def detection_features() -> str:
    """Warped crops against one map an image."""
    return _features("alexnet", ("warped", "pooled"))


@block
def detection_two_layers() -> str:
    """One layer, two, and two with hard negatives, on more images, all classes."""
    runs = study_of("layers")["runs"]
    variants = (("one layer", "pooled", 0.0), ("two layers", "layers", 0.0), ("two, hard negatives", "layers", 0.5))
    columns = [(words, kind, hard, noise) for noise in (0.0, 0.2) for words, kind, hard in variants]
    keys = ("method", "features", "hard", "noise")
    rows = []
    for method in dict.fromkeys(one["method"] for one in runs):
        means = [
            mean(one["test_ap"] for one in runs if tuple(one[key] for key in keys) == (method, *column[1:]))
            for column in columns
        ]
        rows.append([method, *(f"{value:.3f}" for value in means)])
    return as_table(
        ["mean AP of twenty classes", *(f"{words}, {100 * noise:.0f} %" for words, *_, noise in columns)], rows
    )


@block
def detection_layers() -> str:
    """Two layers against one."""
    return _features("efficientnet-lite0", ("layers", "pooled"))
