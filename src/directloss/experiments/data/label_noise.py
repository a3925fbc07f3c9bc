"""Label noise: flipped labels."""

import torch
from torch import Tensor

__all__ = ["flip_labels"]


def flip_labels(target: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Flip each label of a bool target independently with probability rate."""
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be a probability; got {rate!r}. Pass a number from 0 to 1, e.g. 0.2 for 20 %.")
    return target ^ (torch.rand(target.shape, generator=generator) < rate)
