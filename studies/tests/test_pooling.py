"""Pooling from one map: against a plain loop over pixels."""

import numpy as np
import pytest
import torch
from directloss_studies.vision import kernels
from directloss_studies.vision.pooling import pool


def plain(maps, box, grid):
    """Cell row, cell column, channel; each the mean of the pixels weighted by how much of them is in the cell."""
    channels, height, width = maps.shape
    left, right = (min(max(edge, 0.0), width) for edge in box[::2])
    top, bottom = (min(max(edge, 0.0), height) for edge in box[1::2])
    out = torch.zeros(grid, grid, channels, dtype=torch.float64)
    for i in range(grid):
        for j in range(grid):
            x0, x1 = (left + (right - left) * k / grid for k in (j, j + 1))
            y0, y1 = (top + (bottom - top) * k / grid for k in (i, i + 1))
            total, area = torch.zeros(channels, dtype=torch.float64), 0.0
            for y in range(height):
                for x in range(width):
                    w = max(0.0, min(x1, x + 1) - max(x0, x)) * max(0.0, min(y1, y + 1) - max(y0, y))
                    total += w * maps[:, y, x].double()
                    area += w
            out[i, j] = total / area
    return out.flatten()


def random_boxes(random, count, outside=0.0):
    low = random.uniform(-outside, [6.5, 4.5], (count, 2))
    high = random.uniform(np.maximum(low, 0) + 0.1, [7 + outside, 5 + outside])
    return np.concatenate([low, high], axis=1)


@pytest.mark.parametrize("outside", [0.0, 4.0])
@pytest.mark.parametrize("grid", [1, 2, 3])
def test_cells_are_means_over_their_pixels(grid, outside):
    maps = torch.randn((3, 5, 7), generator=torch.Generator().manual_seed(grid))
    boxes = random_boxes(np.random.default_rng(grid), 30, outside)
    assert ((boxes < 0).any() and (boxes > [7, 5, 7, 5]).any()) == bool(outside)
    found = pool(maps, boxes, grid)
    assert found.shape == (30, grid * grid * 3)
    expected = torch.stack([plain(maps, box, grid) for box in boxes.tolist()])
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def test_row_of_cells_then_column_then_channel():
    maps = torch.arange(8.0).view(2, 2, 2)  # one channel 0 1 / 2 3, the other 4 5 / 6 7
    assert pool(maps, np.array([[0.0, 0.0, 2.0, 2.0]]), 2).tolist() == [[0, 4, 1, 5, 2, 6, 3, 7]]
    assert pool(maps, np.array([[0.0, 0.0, 2.0, 1.0]]), 2).tolist() == [[0, 4, 1, 5, 0, 4, 1, 5]]
    assert pool(maps, np.array([[1.0, 0.0, 2.0, 2.0]]), 1).tolist() == [[2, 6]]


@pytest.mark.parametrize(
    "box",
    [
        (2, 1, 2, 2),
        (1, 2, 2, 2),
        (3, 0, 1, 2),
        (0, 2, 2, 1),
        (4, 0, 6, 3),
        (0, 3, 4, 5),
        (-3, 0, 0, 3),
        (0, -3, 4, 0),
        (9, 9, 12, 12),
        (0, 0, float("nan"), 2),
    ],
)
def test_a_box_that_is_empty_or_outside_is_refused(box):
    boxes = np.array([(0, 0, 4, 3), box, (1, 1, 2, 2)], dtype=float)
    with pytest.raises(ValueError, match=r"A box is empty or outside of a map of 4 × 3 pixels\."):
        pool(torch.zeros(2, 3, 4), boxes, 1)


def test_nothing_beyond_the_map_is_read_at_its_edges():
    maps = torch.arange(12.0).view(1, 3, 4)
    integral = np.pad(maps[0].double().numpy().cumsum(0).cumsum(1), (1, 0))[:, :, None]
    boxes = np.array([[0, 0, 4, 3], [2, 1, 4, 2], [1, 2, 3, 3]], dtype=float)
    found = kernels._pool(integral, boxes, 2)  # not compiled, so an index that is too large is an error
    np.testing.assert_array_equal(found.reshape(3, -1), pool(maps, boxes, 2).numpy())


def test_far_from_the_corner_of_a_large_map_nothing_is_lost():
    maps = torch.full((1, 300, 400), 0.1)
    maps[0, -1, -1] = 0.7
    boxes = np.array([[398, 299, 399, 300], [399, 299, 400, 300], [398, 299, 400, 300]], dtype=float)
    assert pool(maps, boxes, 1).flatten().tolist() == pytest.approx([0.1, 0.7, 0.4], abs=1e-6)
