"""Boxes: left, top, right, bottom in pixels from 1, both ends inside, as PASCAL VOC counts them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import kernels

__all__ = ["Floats", "Integers", "labelled", "overlaps", "suppress"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def overlaps(boxes: NDArray[Any], others: NDArray[Any]) -> Floats:
    """Intersection over union of every box (n, 4) with every other (m, 4)."""
    boxes, others = np.asarray(boxes, dtype=np.float64), np.asarray(others, dtype=np.float64)
    sides = []
    for low, high in ((0, 2), (1, 3)):
        start = np.maximum(boxes[:, None, low], others[None, :, low])
        end = np.minimum(boxes[:, None, high], others[None, :, high])
        sides.append(np.maximum(end - start + 1, 0))
    shared = sides[0] * sides[1]
    return shared / (_areas(boxes)[:, None] + _areas(others)[None, :] - shared)


def _areas(boxes: Floats) -> Floats:
    return (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)


def labelled(
    boxes: Floats, objects: Floats, difficult: NDArray[np.bool_], positive: float, negative: float
) -> NDArray[np.int8]:
    """Labels of boxes for one class: 1 positive, −1 negative, 0 not to be used.

    A box is positive if it overlaps an object that is not difficult by `positive` or more. It is negative if it
    overlaps every object by less than `negative`.
    """
    hard, easy = (overlaps(boxes, objects[which]).max(axis=1, initial=0.0) for which in (difficult, ~difficult))
    return np.where(easy >= positive, 1, np.where(np.maximum(easy, hard) < negative, -1, 0)).astype(np.int8)


def suppress(images: Integers, boxes: Floats, scores: Floats, overlap: float) -> Integers:
    """Non-maximum suppression in each image: the places of the boxes that stay, best first.

    A box is dropped if it overlaps a better box that stays by more than `overlap`. Of equal scores the first is better.
    """
    order = np.lexsort((-scores, images))
    stays = order[kernels.suppress(np.asarray(boxes, dtype=np.float64)[order], images[order], overlap)]
    return stays[np.lexsort((stays, -scores[stays]))]
