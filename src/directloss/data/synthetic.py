"""The paper's synthetic data."""

import torch
from torch import Tensor

__all__ = ["two_shells"]


def two_shells(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Data of the paper's label-noise experiment: inputs (samples, 10) and a bool target (samples,).

    Points of N(0, 10² I) in ten dimensions are positive if ‖x‖² > 1200, negative if ‖x‖² < 1000, and else drawn again.
    """
    kept: list[Tensor] = []
    missing = samples
    while missing > 0:
        points = 10 * torch.randn((2 * missing, 10), generator=generator)
        norms = points.square().sum(-1)
        points = points[(norms < 1000) | (norms > 1200)][:missing]
        kept.append(points)
        missing -= len(points)
    inputs = torch.cat(kept) if kept else torch.empty((0, 10))
    return inputs, inputs.square().sum(-1) > 1200
