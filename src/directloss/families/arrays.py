"""How tasks of a family whose kernels take arrays serve losses: all checks, then chunks of lists as rows of arrays."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import check_finite, check_problems, check_strength
from ..task import Contrast, Output
from ..update import TRUTH, Row, Truth, Weight

__all__ = ["Lists", "Weights", "contrast_arrays", "output_arrays"]

CHUNK = 1 << 16  # items of short lists that are solved together


class Lists(NamedTuple):
    """Some lists of a batch."""

    scores: NDArray[np.float64]  # [b, N], 0 where masked
    target: NDArray[Any]  # [b, N] what `check_target` made of it
    valid: NDArray[np.bool_] | None  # [b, N], or None where all are
    counted: NDArray[np.bool_]  # [b]


Weights = NDArray[np.float64] | Truth | None
"""Which output of every list: argmax F + weight·L, [b], the truth, or none."""


class _Solver(Protocol):
    event_dims: int

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor: ...

    def counts(self, target: Tensor, mask: Tensor) -> Tensor: ...

    def solve(
        self, lists: Lists, away: Weights, toward: Weights, factor: NDArray[np.float64], gradient: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Write factor·(features(away) − features(toward)); return F(away) − F(toward) and both losses, [3, b].

        Without toward, one output alone. Lists that do not count get 0.
        """
        ...


def contrast_arrays(task: _Solver, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None) -> Contrast:
    """`Task.contrast` by the task's `solve`."""
    gradient, numbers, counted, row = _solve(task, scores, target, mask, *row)
    value = row.value(*numbers).astype(gradient.dtype).reshape(counted.shape)
    gradient, value = (torch.from_numpy(array).to(scores.device) for array in (gradient, value))
    return Contrast(gradient, value, counted)


def output_arrays(task: _Solver, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None) -> Output:
    """`Task.output` by the task's `solve`."""
    features, (_, loss, _), counted, _ = _solve(task, scores, target, mask, weight, None, 1.0)
    loss = loss.astype(features.dtype).reshape(counted.shape)
    return Output(*(torch.from_numpy(array).to(scores.device) for array in (features, loss)))


def _solve(
    task: _Solver,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None,
    away: Weight,
    toward: Weight | None,
    scale: float | Tensor,
) -> tuple[NDArray[Any], NDArray[np.float64], Tensor, Row]:
    """The gradient, numbers [3, lists], which lists count, and the row with one number a list."""
    shape = check_problems(scores, target, mask, task.event_dims, None)
    check_finite(scores, mask)
    some = torch.ones(shape, dtype=torch.bool, device=scores.device) if mask is None else mask
    target = task.check_target(scores, target, some)
    counted = task.counts(target, some)
    batch = scores.shape[: scores.dim() - task.event_dims]
    lists = batch.numel()
    items = scores.numel() // max(lists, 1)
    row = [_per_list(weight, batch) for weight in (away, toward)]
    factor = _per_list(scale, batch, "the scale of the update")
    rows = [None if one is None else _as_rows(one, lists, items) for one in (scores, target, mask)]
    counted_rows = _as_rows(counted, lists, 1)[:, 0]
    gradient = np.zeros((lists, items), np.float64 if scores.dtype == torch.float64 else np.float32)
    numbers = np.zeros((3, lists))
    step = max(1, CHUNK // max(items, 1))
    for first in range(0, lists, step) if items else ():
        part = slice(first, first + step)
        some_scores, some_target, valid = (None if one is None else one[part] for one in rows)
        some_scores = some_scores.astype(np.float64)
        if valid is not None:
            some_scores[~valid] = 0.0
        weights = (one if one is None or one is TRUTH else one[part] for one in row)
        chunk = Lists(some_scores, some_target, valid, counted_rows[part])
        numbers[:, part] = task.solve(chunk, *weights, factor[part], gradient[part])
    return gradient.reshape(scores.shape), numbers, counted, Row(*row, factor)


def _as_rows(tensor: Tensor, lists: int, items: int) -> NDArray[Any]:
    """The problems of a batch as rows on the host, in one piece of memory."""
    if tensor.dtype == torch.bfloat16:  # NumPy has none
        tensor = tensor.float()
    return tensor.cpu().contiguous().numpy().reshape(lists, items)


def _per_list(value: Weight | None, batch: torch.Size, name: str = "weight") -> Any:
    """One number for every list; the truth, or nothing, as it is."""
    if value is None or value is TRUTH:
        return value
    check_strength(name, value, batch)
    numbers = value.cpu().double().reshape(-1).numpy() if isinstance(value, Tensor) else value
    return np.broadcast_to(np.asarray(numbers, np.float64), (batch.numel(),))
