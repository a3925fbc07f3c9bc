"""Pooling from one map: against a plain loop over pixels."""

import pytest
import torch

from directloss.vision.pooling import pool


def plain(maps, box, grid):
    channels, height, width = maps.shape
    out = torch.zeros(channels, grid, grid, dtype=torch.float64)
    for i in range(grid):
        for j in range(grid):
            x0, x1 = (box[0] + (box[2] - box[0]) * k / grid for k in (j, j + 1))
            y0, y1 = (box[1] + (box[3] - box[1]) * k / grid for k in (i, i + 1))
            total, area = torch.zeros(channels, dtype=torch.float64), 0.0
            for y in range(height):
                for x in range(width):
                    w = max(0.0, min(x1, x + 1) - max(x0, x)) * max(0.0, min(y1, y + 1) - max(y0, y))
                    total += w * maps[:, y, x].double()
                    area += w
            out[:, i, j] = total / area
    return out.flatten()


@pytest.mark.parametrize("grid", [1, 2, 3])
def test_cells_are_means_over_their_pixels(grid):
    generator = torch.Generator().manual_seed(grid)
    maps = torch.randn((3, 5, 7), generator=generator)
    corner = torch.rand((20, 2), generator=generator, dtype=torch.float64) * torch.tensor([6.0, 4.0])
    size = 0.1 + torch.rand((20, 2), generator=generator, dtype=torch.float64) * (torch.tensor([7.0, 5.0]) - corner - 0.1)
    boxes = torch.cat([corner, corner + size], 1)
    found = pool(maps, boxes, grid)
    for k, box in enumerate(boxes.tolist()):
        torch.testing.assert_close(found[k].double(), plain(maps, box, grid), rtol=1e-4, atol=1e-5)


def test_edges_of_the_map():
    maps = torch.arange(12.0).view(1, 3, 4)
    boxes = torch.tensor([[0.0, 0.0, 4.0, 3.0], [-5.0, -5.0, 9.0, 9.0], [2.0, 1.0, 2.0, 1.0], [9.0, 9.0, 12.0, 12.0]])
    assert pool(maps, boxes, 1).flatten().tolist() == pytest.approx([5.5, 5.5, 6.0, 11.0])
    assert pool(maps, torch.zeros((0, 4)), 2).shape == (0, 4)
    assert pool(maps, torch.tensor([[0.0, 0.0, 4.0, 3.0]]).expand(600, 4), 2).shape == (600, 4)
