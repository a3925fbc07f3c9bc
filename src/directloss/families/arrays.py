"""How tasks whose kernels take arrays serve losses: all checks, then chunks of lists as rows of arrays.

Long lists are looked through with NumPy: an operation of torch on 10⁶ items waits for all its threads, which takes
longer than the operation where others use the cores too.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import LARGEST_SCORE, check_binary, check_finite, check_problems, check_strength
from ..task import Contrast, Output, Task
from ..update import TRUTH, Row, Truth, Weight

__all__ = ["ArrayTask", "Lists", "Weights", "any_item", "as_array", "positives"]

CHUNK = 1 << 16  # items of short lists that are solved together


class Lists(NamedTuple):
    """Some lists of a batch."""

    scores: NDArray[np.float64]  # [b, N], 0 where masked
    target: NDArray[Any]  # [b, N] what `check_target` made of it
    valid: NDArray[np.bool_] | None  # [b, N], or None where all are
    counted: NDArray[np.bool_]  # [b]


Weights = NDArray[np.float64] | Truth | None
"""Which output of every list: argmax F + weight·L, [b], the truth, or none."""


class ArrayTask(Task):
    """A task whose outputs are found by kernels on arrays. A subclass writes `solve`."""

    @abstractmethod
    def solve(
        self, lists: Lists, away: Weights, toward: Weights, factor: NDArray[np.float64], gradient: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Write factor·(features(away) − features(toward)); return F(away) − F(toward) and both losses, [3, b].

        Without toward, one output alone. Lists that do not count get 0.
        """

    def contrast(self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None = None) -> Contrast:
        """Both outputs at once."""
        gradient, numbers, counted, row = _solve(self, scores, target, mask, *row)
        value = row.value(*numbers).astype(gradient.dtype).reshape(counted.shape)
        gradient, value = (torch.from_numpy(array).to(scores.device) for array in (gradient, value))
        return Contrast(gradient, value, counted)

    def output(self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None) -> Output:
        """One output."""
        features, (_, loss, _), counted, _ = _solve(self, scores, target, mask, weight, None, 1.0)
        loss = loss.astype(features.dtype).reshape(counted.shape)
        return Output(*(torch.from_numpy(array).to(scores.device) for array in (features, loss)))


def _solve(
    task: ArrayTask,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None,
    away: Weight,
    toward: Weight | None,
    scale: float | Tensor,
) -> tuple[NDArray[Any], NDArray[np.float64], Tensor, Row]:
    """The gradient, numbers [3, lists], which lists count, and the row with one number a list."""
    shape = check_problems(scores, target, mask, task.event_dims, None)
    device, mask = scores.device, None if mask is None else mask.cpu()
    scores, target = scores.cpu(), target.cpu()
    some = torch.ones((), dtype=torch.bool).expand(shape) if mask is None else mask
    target = task.check_target(scores, target, some)
    counted = task.counts(target, some)
    batch = scores.shape[: scores.dim() - task.event_dims]
    lists = batch.numel()
    items = scores.numel() // max(lists, 1)
    of_away, of_toward = _per_list(away, batch), _per_list(toward, batch)
    factor = _per_list(scale, batch, "the scale of the update")
    all_scores, all_target = (as_array(one.contiguous()).reshape(lists, items) for one in (scores, target))
    all_valid = None if mask is None else as_array(mask.contiguous()).reshape(lists, items)
    all_counted = as_array(counted).reshape(lists)
    gradient = np.zeros((lists, items), np.float64 if scores.dtype == torch.float64 else np.float32)
    numbers = np.zeros((3, lists))
    step = max(1, CHUNK // max(items, 1))
    for first in range(0, lists, step) if items else ():
        part = slice(first, first + step)
        valid = None if all_valid is None else all_valid[part]
        chunk = Lists(all_scores[part].astype(np.float64), all_target[part], valid, all_counted[part])
        if valid is not None:
            chunk.scores[~valid] = 0.0
        if not (chunk.scores.max() <= LARGEST_SCORE and chunk.scores.min() >= -LARGEST_SCORE):  # nor for NaN
            check_finite(scores, mask)
        weights = [one[part] if isinstance(one, np.ndarray) else one for one in (of_away, of_toward)]
        numbers[:, part] = task.solve(chunk, weights[0], weights[1], factor[part], gradient[part])
    return gradient.reshape(scores.shape), numbers, counted.to(device), Row(of_away, of_toward, factor)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A tensor on the host, as an array that shares its memory where it can."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy()  # NumPy has no bfloat16


def any_item(which: Tensor, dims: int) -> Tensor:
    """For every problem, whether any item is True."""
    return torch.from_numpy(np.asarray(as_array(which).any(tuple(range(-dims, 0))))).to(which.device)


def positives(scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """`Task.check_target` for a target of 0 and 1, with NumPy."""
    check_binary(scores, target, mask)
    return torch.from_numpy((as_array(target) != 0) & as_array(mask)).to(scores.device)


def _per_list(value: Weight | None, batch: torch.Size, name: str = "weight") -> Any:
    """One number for every list; the truth, or nothing, as it is."""
    if value is None or value is TRUTH:
        return value
    check_strength(name, value, batch)
    numbers = value.cpu().double().reshape(-1).numpy() if isinstance(value, Tensor) else value
    return np.broadcast_to(np.asarray(numbers, np.float64), (batch.numel(),))
