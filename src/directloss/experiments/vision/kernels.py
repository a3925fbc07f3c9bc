"""Compiled loops over boxes: non-maximum suppression, and means of a map over the cells of each box."""

import numpy as np

from ...kernels import compiled

__all__ = ["pool", "suppress"]


def _suppress(boxes, images, overlap):
    """Mask of the boxes that stay. Boxes are sorted by image, the best of an image first; both ends are inside."""
    count = len(boxes)
    stays = np.zeros(count, dtype=np.bool_)
    areas = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
    staying = np.empty(count, dtype=np.int64)
    found = 0
    for k in range(count):
        if k == 0 or images[k] != images[k - 1]:
            found = 0
        good = True
        for place in range(found):
            other = staying[place]
            width = min(boxes[k, 2], boxes[other, 2]) - max(boxes[k, 0], boxes[other, 0]) + 1
            height = min(boxes[k, 3], boxes[other, 3]) - max(boxes[k, 1], boxes[other, 1]) + 1
            if width > 0 and height > 0:
                shared = width * height
                if shared / (areas[k] + areas[other] - shared) > overlap:
                    good = False
                    break
        if good:
            stays[k] = True
            staying[found] = k
            found += 1
    return stays


suppress = compiled(_suppress)


def _pool(integral, boxes, grid):
    """Means (boxes, grid, grid, channels) over cells of boxes, edges inside the map, from its integral (rows first).

    The integral is bilinear between pixels' corners, so cells may have any edges.
    """
    rows, columns, channels = integral.shape
    out = np.empty((len(boxes), grid, grid, channels), dtype=np.float32)
    corners = np.empty((grid + 1, grid + 1, channels))
    for k in range(len(boxes)):
        left, top, right, bottom = boxes[k]
        for i in range(grid + 1):
            y = top + (bottom - top) * i / grid
            row = min(int(y), rows - 2)
            down = y - row
            for j in range(grid + 1):
                x = left + (right - left) * j / grid
                column = min(int(x), columns - 2)
                across = x - column
                a, b = (1 - down) * (1 - across), (1 - down) * across
                c, d = down * (1 - across), down * across
                for channel in range(channels):
                    corners[i, j, channel] = (
                        a * integral[row, column, channel]
                        + b * integral[row, column + 1, channel]
                        + c * integral[row + 1, column, channel]
                        + d * integral[row + 1, column + 1, channel]
                    )
        area = (right - left) * (bottom - top) / (grid * grid)
        for i in range(grid):
            for j in range(grid):
                for channel in range(channels):
                    total = corners[i + 1, j + 1, channel] - corners[i, j + 1, channel]
                    out[k, i, j, channel] = (total - corners[i + 1, j, channel] + corners[i, j, channel]) / area
    return out


pool = compiled(_pool)
