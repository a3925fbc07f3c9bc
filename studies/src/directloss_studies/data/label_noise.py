"""Label noise: flipped labels, positives that were missed, and mistakes near the boundary."""

import torch
from torch import Tensor

__all__ = ["flip_labels", "flip_near_boundary", "miss_positives"]


def flip_labels(target: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Flip each label of a bool target independently with probability rate."""
    _check(rate)
    return target ^ (torch.rand(target.shape, generator=generator) < rate)


def miss_positives(target: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Label each positive as negative, independently with probability rate."""
    _check(rate)
    return target & (torch.rand(target.shape, generator=generator) >= rate)


def flip_near_boundary(target: Tensor, distances: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Flip labels, most of them where the distance from the boundary is small; a share of about `rate` in all.

    The probability falls linearly with the rank of the distance: from twice the rate at the boundary to zero at the
    row that is farthest from it.
    """
    if not 0 <= rate <= 0.5:
        raise ValueError(f"rate must be from 0 to 0.5; got {rate!r}. At the boundary twice as many are flipped.")
    ranks = distances.argsort(stable=True).argsort() / max(len(distances) - 1, 1)
    return target ^ (torch.rand(target.shape, generator=generator) < 2 * rate * (1 - ranks))


def _check(rate: float) -> None:
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be a probability; got {rate!r}. Pass a number from 0 to 1, e.g. 0.2 for 20 %.")
