"""Evaluation of detections against ground truth, exactly as in PASCAL VOC2012."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import kernels
from .boxes import Floats, Integers

__all__ = ["Curve", "Detections", "Objects", "evaluate"]


OVERLAP = 0.5


@dataclass(frozen=True)
class Objects:
    """Ground truth of one class."""

    images: Integers
    """For each object the number of its image."""
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
    """Precision and recall after each detection, from the best on, and the area under the interpolated curve."""

    order: Integers
    """The detections, best first."""
    objects: Integers
    """For each detection in this order: the object that it overlaps most, if enough; −1: none."""
    right: NDArray[np.bool_]
    counts: NDArray[np.bool_]
    """False for a detection of a difficult object, which is neither right nor wrong."""
    recall: Floats
    precision: Floats
    average_precision: float
    """NaN if there are no objects to detect."""


def evaluate(objects: Objects, detections: Detections) -> Curve:
    """Match detections to objects greedily, best score first, and measure.

    A detection is matched to the object of its image that it overlaps most. It is right if the overlap is at least
    one half and no better detection was matched to that object. It does not count if the object is difficult. Else it
    is wrong. Difficult objects do not count as missed. Of equal scores the detection that comes first is better.
    """
    wanted = int((~objects.difficult).sum())
    order = np.argsort(-detections.scores, kind="stable")
    images, boxes = detections.images[order], np.asarray(detections.boxes, dtype=np.float64)[order]
    listed = np.argsort(objects.images, kind="stable")
    first, last = (np.searchsorted(objects.images[listed], images, side) for side in ("left", "right"))
    place = kernels.nearest(boxes, np.asarray(objects.boxes, dtype=np.float64)[listed], first, last, OVERLAP)
    nearest = np.append(listed, -1)[place]
    best = np.zeros(len(order), dtype=bool)  # whether a detection is the best of its object
    best[np.unique(nearest, return_index=True)[1]] = True
    matched = nearest >= 0
    counts = ~matched | ~np.append(objects.difficult, False)[nearest]
    right = matched & best & counts
    true, false = right.cumsum(), (counts & ~right).cumsum()
    precision = true / np.maximum(true + false, 1)
    recall = true / max(wanted, 1)
    area = _area(recall, precision) if wanted else float("nan")
    return Curve(order, nearest, right, counts, recall, precision, area)


def _area(recall: Floats, precision: Floats) -> float:
    """The area under the curve whose precision at a recall is the highest precision at that recall or a higher one."""
    highest = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0.0) * highest).sum())
