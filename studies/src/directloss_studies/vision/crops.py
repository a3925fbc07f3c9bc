"""Crops as in R-CNN: a box and a margin of context around it, warped to a square.

The margin is 16 pixels wide in the square, so in the image it is wider around a large box than around a small one.
Parts outside of the image are filled with the mean colour, which the backbone's normalisation turns into zero.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["CONTEXT", "MEAN", "SIZE", "STD", "Window", "crop", "normalised", "window"]

SIZE = 227
CONTEXT = 16
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's colours, as torchvision's weights expect them."""
_MEAN, _STD = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)


class Window(NamedTuple):
    """A part of the image and the part of the square that it goes to; pixel edges, from 0."""

    source: tuple[float, float, float, float]
    target: tuple[int, int, int, int]


def window(box: Sequence[float], width: int, height: int, size: int = SIZE, context: int = CONTEXT) -> Window:
    """The window of a box in an image of this size. Boxes count pixels from 1, both ends inside."""
    grow = size / (size - 2 * context)
    sides = []
    for low, high, limit in ((box[0], box[2], width), (box[1], box[3], height)):
        centre, half = (low - 1 + high) / 2, (high - low + 1) / 2 * grow
        start, end = centre - half, centre + half
        inside = min(max(start, 0.0), limit), min(max(end, 0.0), limit)
        if inside[0] >= inside[1]:
            raise ValueError(f"The box {tuple(box)} lies outside of an image of {width} × {height} pixels.")
        pixel = size / (end - start)
        first = min(round((inside[0] - start) * pixel), size - 1)
        sides.append((*inside, first, max(round((inside[1] - start) * pixel), first + 1)))
    (left, right, first, last), (top, bottom, upper, lower) = sides
    return Window((left, top, right, bottom), (first, upper, last, lower))


def crop(image: Any, box: Sequence[float], size: int = SIZE, context: int = CONTEXT) -> Tensor:
    """The crop of a box of a Pillow image: (3, size, size), uint8. Where it shrinks, pixels are averaged."""
    from PIL import Image

    source, target = window(box, image.width, image.height, size, context)
    square = Image.new("RGB", (size, size), tuple(round(255 * value) for value in MEAN))
    shape = target[2] - target[0], target[3] - target[1]
    square.paste(image.resize(shape, Image.Resampling.BILINEAR, box=source), target[:2])
    return torch.from_numpy(np.asarray(square).copy()).permute(2, 0, 1).contiguous()


def normalised(crops: Tensor) -> Tensor:
    """Crops (…, 3, size, size) of bytes as inputs of a backbone: the mean colour is zero, up to half a grey level."""
    return (crops.float() / 255 - _MEAN) / _STD
