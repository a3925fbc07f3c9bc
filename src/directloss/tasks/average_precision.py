"""Average precision of a ranked list.

Outputs: all rankings of the P positives and M negatives of a list; y_ij = 1 where positive i stands above negative j,
else −1. F = 1/(PM) Σ_ij y_ij (s_i − s_j), so the prediction sorts by score. L = 1 − AP, AP = 1/P Σ_i (precision at the
rank of positive i). For retrieval, detection, fraud, medical tests: wherever positives should come first.

A tied pair counts as neither above nor below in the prediction, whose loss is 1 − scikit-learn's
`average_precision_score`, ties included; and items of one class and one score get one feature in every output. So the
order of the input never matters. A list without positives or without negatives has only one ranking: zero everywhere.
"""

from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import permutations
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import (
    check_binary,
    check_finite,
    check_length,
    check_lists_of_one,
    check_problems,
    check_strength,
)
from ..task import Contrast, Output, Task
from ..update import TRUTH, Row, Truth, Weight

__all__ = ["AveragePrecision"]

LONG = 1 << 15  # items from which on a weight below 0 may take seconds
CHUNK = 1 << 15  # items that are packed, sorted and solved while the cache holds them


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.average_precision")  # on first use: importing numba takes half a second


@dataclass(frozen=True)
class AveragePrecision(Task):
    """1 − average precision. Every oracle is exact; after sorting, O(P log M + M) for a weight above 0."""

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        return self.output(scores, target, weight if weight is TRUTH else weight.squeeze(-1), mask)

    def counts(self, target: Tensor, mask: Tensor) -> Tensor:
        return (target & mask).any(-1) & (~target & mask).any(-1)

    def contrast(self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None = None) -> Contrast:
        """Both outputs from one sort."""
        if scores.dim() > 1:
            check_lists_of_one(scores.shape, mask)
        gradient, counted, numbers = _solve(scores, target, mask, *row)
        if counted.size == 1:  # Python's numbers are faster than arrays of one: 4 µs of a list of 512
            numbers = numbers[:, 0].tolist()
        _, _, _, score, away_loss, toward_loss = numbers
        value = _row(row, numbers).value(score, away_loss, toward_loss)
        return Contrast._make(_tensors(scores, gradient, value, counted))

    def output(self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None) -> Output:
        features, _, numbers = _solve(scores, target, mask, weight, None, 1.0)
        return Output(*_tensors(scores, features, numbers[4]))

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """Every order of the items, each with its pairs and precisions counted one by one."""
        truth = [bool(value) for value in target]
        positives, negatives = sum(truth), len(truth) - sum(truth)
        features, losses = [], []
        for order in permutations(range(len(truth))):
            feature, precision, found = [0] * len(truth), 0.0, 0
            for rank, item in enumerate(order):
                found += truth[item]
                precision += truth[item] * found / (rank + 1)
                for below in order[rank + 1 :]:
                    if truth[item] != truth[below]:
                        feature[item] += 1
                        feature[below] -= 1
            features.append(feature)
            losses.append(1 - precision / positives if positives and negatives else 0.0)
        pairs = max(positives * negatives, 1)
        return Output(torch.tensor(features, dtype=torch.float64) / pairs, torch.tensor(losses, dtype=torch.float64))


def _solve(
    scores: Tensor, target: Tensor, mask: Tensor | None, away: Weight, toward: Weight | None, scale: float | Tensor
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.float64]]:
    """Call the kernel, without toward for one output alone.

    Returns the gradient of all lists, which lists count, and [6, lists]: the numbers of the row, F(away) − F(toward)
    and both losses.
    """
    kernels = _kernels()
    check_problems(scores, target, mask, 1, None)
    check_binary(scores, target, mask)
    batch, items = scores.shape[:-1], scores.shape[-1]
    check_length(items, kernels.LONGEST_LIST)
    lists = batch.numel()
    shape = (lists, items)
    if isinstance(scale, Tensor) or isinstance(away, Tensor) or isinstance(toward, Tensor):
        numbers, kinds, down = _numbers(away, toward, scale, batch)
    else:
        numbers, kinds, down = _constants(away, toward, scale)
        numbers = np.repeat(numbers, lists, axis=1) if lists != 1 else numbers.copy()
    if not scores.is_cpu:
        scores, target, mask = scores.cpu(), target.cpu(), None if mask is None else mask.cpu()
    host = scores.contiguous()
    single = (host if host.dtype == torch.float32 else host.to(torch.float32)).numpy().reshape(shape)
    positive = (target if target.dtype == torch.bool else target != 0).contiguous().numpy().reshape(shape)
    valid = mask.contiguous().numpy().reshape(shape) if mask is not None else None
    double = host.dtype == torch.float64
    exact = host.numpy().reshape(shape) if double else None
    full = tuple(scores.shape)
    gradient, counted = np.zeros(full, np.float64 if double else np.float32), np.zeros(full[:-1], np.bool_)
    written = gradient.reshape(shape), counted.reshape(lists)
    scratch = np.empty((3, items)), np.empty((4, items + 1), np.int32)  # NumPy's memory comes in huge pages
    solve = kernels.average_precision_contrast
    if down and items >= LONG:
        solve = partial(import_module("directloss.kernels").interruptible, solve)
    rows = max(1, CHUNK // max(items, 1))
    keys = np.empty((min(rows, lists), items), np.int64)
    for first in range(0, lists, rows):
        part = keys[: min(rows, lists - first)]
        if not kernels.average_precision_pack(single, positive, valid, first, part):
            check_finite(scores, mask)
        part.sort(axis=-1)
        solve(part, first, exact, *kinds, numbers, down, *written, *scratch)
    return gradient, counted, numbers


def _numbers(
    away: Weight, toward: Weight | None, scale: float | Tensor, batch: torch.Size
) -> tuple[NDArray[np.float64], tuple[int, int], bool | None]:
    """A row as the kernel takes it: numbers, 0 for what is no weight; which outputs; whether a weight is below 0."""
    kernels = _kernels()
    numbers = np.zeros((6, batch.numel()))
    kinds = []
    for k, value in enumerate((away, toward, scale)):
        if value is None or value is TRUTH:
            kinds.append(kernels.NOTHING if value is None else kernels.TRUTH)
            continue
        kinds.append(kernels.AUGMENTED)
        check_strength("the scale of the update" if k == 2 else "weight", value, batch)
        numbers[k] = value.cpu().double().reshape(-1).numpy() if isinstance(value, Tensor) else value
    return numbers, (kinds[0], kinds[1]), True if (numbers[:2] < 0).any() else None


@lru_cache(maxsize=64)
def _constants(away: Weight, toward: Weight | None, scale: float) -> tuple[NDArray[np.float64], tuple[int, int], Any]:
    """`_numbers` of a row without tensors, for any batch; 4 µs of a list of 512."""
    return _numbers(away, toward, scale, torch.Size([1]))


def _row(row: Row, numbers: Any) -> Row:
    """The row with numbers in the place of tensors."""
    away, toward, scale = row
    if isinstance(scale, Tensor) or isinstance(away, Tensor) or isinstance(toward, Tensor):
        return Row(TRUTH if away is TRUTH else numbers[0], TRUTH if toward is TRUTH else numbers[1], numbers[2])
    return row


def _tensors(scores: Tensor, gradient: NDArray[Any], value: Any, *others: NDArray[Any]) -> list[Tensor]:
    """What was found as tensors beside the scores."""
    value = np.asarray(value, gradient.dtype)
    if value.ndim != scores.dim() - 1:
        value = value.reshape(gradient.shape[:-1])
    found = list(map(torch.from_numpy, (gradient, value, *others)))
    return found if scores.is_cpu else [tensor.to(scores.device) for tensor in found]
