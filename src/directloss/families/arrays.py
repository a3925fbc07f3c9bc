"""Tensors as the arrays that kernels take, and back."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import check_strength
from ..update import TRUTH, Weight

__all__ = ["as_rows", "as_tensors", "per_list"]


def as_rows(tensor: Tensor, lists: int) -> NDArray[Any]:
    """The problems of a batch as rows, on the host, in one piece of memory; shared with the tensor where it can be."""
    if tensor.dtype == torch.bfloat16:  # NumPy has none
        tensor = tensor.float()
    return tensor.detach().cpu().contiguous().numpy().reshape(lists, tensor.numel() // max(lists, 1))


def per_list(name: str, value: Weight, batch: torch.Size) -> NDArray[np.float64] | None:
    """One number for every list, None for the truth."""
    if value is TRUTH:
        return None
    check_strength(name, value, batch)
    numbers = value.detach().cpu().double().reshape(-1).numpy() if isinstance(value, Tensor) else value
    return np.broadcast_to(np.asarray(numbers, np.float64), (batch.numel(),))


def as_tensors(scores: Tensor, *found: NDArray[Any]) -> list[Tensor]:
    """Arrays as tensors on the device of the scores."""
    return [torch.from_numpy(array).to(scores.device) for array in found]
