"""Detections against ground truth, exactly as PASCAL VOC2012 does it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .boxes import Floats, Integers, overlaps

__all__ = ["Curve", "Detections", "Objects", "evaluate"]


@dataclass(frozen=True)
class Objects:
    """Ground truth of one class."""

    images: Integers
    """Of every object the number of its image."""
    boxes: Floats
    difficult: NDArray[np.bool_]


@dataclass(frozen=True)
class Detections:
    """Detections of one class."""

    images: Integers
    boxes: Floats
    scores: Floats


@dataclass(frozen=True)
class Curve:
    """Precision against recall, detection by detection from the best on, and the area under the interpolated curve."""

    order: Integers
    """The detections, best first."""
    objects: Integers
    """The object that each of them, so ordered, overlaps enough and most; −1: none."""
    right: NDArray[np.bool_]
    counts: NDArray[np.bool_]
    """Whether it is right or wrong, and not on a difficult object."""
    recall: Floats
    precision: Floats
    average_precision: float
    """Not a number if there is nothing to find."""


def evaluate(objects: Objects, detections: Detections, overlap: float = 0.5) -> Curve:
    """Match detections to objects greedily, best score first, and measure.

    A detection goes to the object of its image that it overlaps most. It is right if that is at least `overlap` and
    nobody better went there; it does not count if that object is difficult; else it is wrong. Difficult objects need
    not be found. Of equal scores the detection that comes first is first.
    """
    wanted = int((~objects.difficult).sum())
    order = np.argsort(-detections.scores, kind="stable")
    images, boxes = detections.images[order], detections.boxes[order]
    nearest = np.full(len(order), -1)
    for image in np.unique(objects.images):
        there, truth = np.flatnonzero(images == image), np.flatnonzero(objects.images == image)
        shared = overlaps(boxes[there], objects.boxes[truth])
        nearest[there] = np.where(shared.max(axis=1, initial=0.0) >= overlap, truth[shared.argmax(axis=1)], -1)
    first = np.zeros(len(order), dtype=bool)
    first[np.unique(nearest, return_index=True)[1]] = True
    matched = nearest >= 0
    counts = ~matched | ~np.append(objects.difficult, False)[nearest]
    right = matched & first & counts
    true, false = right.cumsum(), (counts & ~right).cumsum()
    precision = true / np.maximum(true + false, 1)
    recall = true / max(wanted, 1)
    area = _area(recall, precision) if wanted else float("nan")
    return Curve(order, nearest, right, counts, recall, precision, area)


def _area(recall: Floats, precision: Floats) -> float:
    """The area under the curve whose precision at a recall is the highest at that recall or beyond."""
    highest = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0.0) * highest).sum())
