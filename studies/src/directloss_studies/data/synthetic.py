"""Synthetic data: the paper's two sets and a linearly separable one. Inputs (samples, 10), bool target (samples,)."""

import torch
from torch import Tensor

from ..networks import Networks

__all__ = ["ranked_by_teacher", "separable", "two_shells"]

DIMENSIONS = 10


def ranked_by_teacher(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Data of the paper's first study: N(0, I) inputs; the top fifth of a random network's scores is positive.

    The teacher has four layers, ReLU, width ten, and N(0, 1) weights.
    """
    teacher = Networks(1, (DIMENSIONS, 10, 10, 10, 1), "normal", generator)
    inputs = torch.randn((samples, DIMENSIONS), generator=generator)
    with torch.no_grad():
        scores = teacher(inputs)[0]
    target = torch.zeros(samples, dtype=torch.bool)
    target[scores.topk(round(0.2 * samples)).indices] = True
    return inputs, target


def two_shells(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Data of the paper's label-noise study.

    Points of N(0, 10² I) in ten dimensions: positive if ‖x‖² > 1200, negative if ‖x‖² < 1000, others drawn again.
    """
    parts: list[Tensor] = []
    missing = samples
    while missing > 0:
        points = 10 * torch.randn((2 * missing, DIMENSIONS), generator=generator)
        norms = points.square().sum(-1)
        points = points[(norms < 1000) | (norms > 1200)][:missing]
        parts.append(points)
        missing -= len(points)
    inputs = torch.cat(parts) if parts else torch.empty((0, DIMENSIONS))
    return inputs, inputs.square().sum(-1) > 1200


def separable(
    samples: int, direction: Tensor, generator: torch.Generator, overlapping: float = 0.0
) -> tuple[Tensor, Tensor]:
    """N(0, I) inputs; those whose projection on the unit direction is above 0.84, about a fifth, are positive.

    Points closer than 0.1 to the boundary are drawn again, so a linear score separates the classes. Then the share
    `overlapping` of the points, those nearest to the boundary, gets random labels.
    """
    parts: list[Tensor] = []
    missing = samples
    while missing > 0:
        points = torch.randn((2 * missing, len(direction)), generator=generator)
        points = points[(points @ direction - 0.84).abs() > 0.1][:missing]
        parts.append(points)
        missing -= len(points)
    inputs = torch.cat(parts) if parts else torch.empty((0, len(direction)))
    height = inputs @ direction - 0.84
    target = height > 0
    nearest = height.abs().topk(round(overlapping * samples), largest=False).indices
    target[nearest] = torch.rand(len(nearest), generator=generator) < 0.5
    return inputs, target
