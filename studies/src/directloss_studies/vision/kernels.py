"""Compiled loops over boxes: non-maximum suppression, matching to objects, means of a map over the cells of a box."""

import numpy as np

from .compiled import compiled

__all__ = ["nearest", "pool", "suppress"]


def _iou_of(box, area, other, other_area):
    """Intersection over union of two boxes; both ends are inside."""
    width = min(box[2], other[2]) - max(box[0], other[0]) + 1
    height = min(box[3], other[3]) - max(box[1], other[1]) + 1
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (area + other_area - shared)


_iou = compiled(_iou_of)


def _area_of(box):
    return (box[2] - box[0] + 1) * (box[3] - box[1] + 1)


_area = compiled(_area_of)


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
            if _iou(boxes[k], areas[k], boxes[other], areas[other]) > overlap:
                good = False
                break
        if good:
            stays[k] = True
            staying[found] = k
            found += 1
    return stays


suppress = compiled(_suppress)


def _nearest(boxes, objects, first, last, overlap):
    """For each box the object from `first` to before `last` that it overlaps most, if by `overlap` or more; else −1."""
    found = np.full(len(boxes), -1, dtype=np.int64)
    for k in range(len(boxes)):
        area, most = _area(boxes[k]), 0.0
        for place in range(first[k], last[k]):
            iou = _iou(boxes[k], area, objects[place], _area(objects[place]))
            if iou > most:
                most = iou
                found[k] = place if iou >= overlap else -1
    return found


nearest = compiled(_nearest)


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
