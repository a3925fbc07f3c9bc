"""Features of many boxes from one map of the image: the mean over each cell of a grid in the box (RoI pooling).

A map is constant on each of its pixels, so the mean over a cell with any edges is exact: it takes four values of the
integral image. The cost does not depend on the size of a box.
"""

import numpy as np
import torch
from torch import Tensor

from . import kernels
from .boxes import Floats

__all__ = ["pool"]


def pool(maps: Tensor, boxes: Floats, grid: int) -> Tensor:
    """The means (n, grid · grid · channels) over the cells of boxes, cell by cell.

    Maps are (channels, height, width). Boxes are (n, 4): left, top, right, bottom edges in pixels of the map, from 0.
    The part of a box outside of the map is cut off.
    """
    channels, height, width = maps.shape
    limits = np.array([width, height, width, height], dtype=np.float64)
    inside = np.clip(np.asarray(boxes, dtype=np.float64), 0.0, limits)
    if not (inside[:, :2] < inside[:, 2:]).all():
        raise ValueError(f"A box is empty or outside of a map of {width} × {height} pixels.")
    integral = np.zeros((height + 1, width + 1, channels))
    integral[1:, 1:] = maps.double().cumsum(1).cumsum(2).permute(1, 2, 0).cpu().numpy()
    return torch.from_numpy(kernels.pool(integral, inside, grid)).flatten(1)
