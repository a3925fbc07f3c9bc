"""Average precision of a ranked list.

Outputs: all rankings of the P positives and M negatives of a list; y_ij = 1 where positive i stands above negative j,
else −1. F = 1/(PM) Σ_ij y_ij (s_i − s_j), so the prediction sorts by score. L = 1 − AP, AP = 1/P Σ_i (precision at the
rank of positive i). For retrieval, detection, fraud, medical tests: wherever positives should come first.

A tied pair counts as neither above nor below in the prediction, whose loss is 1 − scikit-learn's
`average_precision_score`, ties included; and items of one class and one score get one feature in every output. So the
order of the input never matters. A list without positives or without negatives has only one ranking: zero everywhere.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import permutations
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import check_binary, check_finite, check_length, check_problems, check_strength
from ..task import Contrast, Output, Task
from ..update import TRUTH, Row, Truth, Weight

__all__ = ["AveragePrecision"]

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
        gradient, counted, found, numbers = _solve(scores, target, mask, *row)
        away, toward = (
            TRUTH if weight is TRUTH else number for weight, number in zip(row[:2], numbers[:2], strict=True)
        )
        value = Row(away, toward, numbers[2]).value(*found)
        return Contrast(*_tensors(scores, gradient, value.astype(gradient.dtype, copy=False), counted))

    def output(self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None) -> Output:
        features, _, (_, loss, _), _ = _solve(scores, target, mask, weight, None, 1.0)
        return Output(*_tensors(scores, features, loss.astype(features.dtype, copy=False)))

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
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Call the kernel, without toward for one output alone.

    Returns the gradient of all lists, which lists count, for every list F(away) − F(toward) and both losses, and the
    numbers of the row.
    """
    kernels = _kernels()
    check_problems(scores, target, mask, 1, None)
    check_binary(scores, target, mask)
    batch, items = scores.shape[:-1], scores.shape[-1]
    check_length(items, kernels.LONGEST_LIST)
    lists = batch.numel()
    shape = (lists, items)
    numbers = np.zeros((3, lists))
    for k, value in enumerate((away, toward, scale)):
        if isinstance(value, float | Tensor):
            check_strength("the scale of the update" if k == 2 else "weight", value, batch)
            numbers[k] = value if isinstance(value, float) else value.cpu().double().reshape(-1).numpy()
    kinds = (kernels.TRUTH if value is TRUTH else kernels.AUGMENTED for value in (away, toward))
    away_kind, toward_kind = kinds if toward is not None else (next(kinds), kernels.NOTHING)
    host = scores.cpu().contiguous()
    single = (host if host.dtype == torch.float32 else host.to(torch.float32)).numpy().reshape(shape)
    positive = (target if target.dtype == torch.bool else target != 0).cpu().contiguous().numpy().reshape(shape)
    valid = mask.cpu().contiguous().numpy().reshape(shape) if mask is not None else None
    double = host.dtype == torch.float64
    exact = host.numpy().reshape(shape) if double else None
    gradient = np.zeros(shape, np.float64 if double else np.float32)
    found, counted = np.zeros((3, lists)), np.zeros(lists, np.bool_)
    scratch = np.empty((3, items)), np.empty((4, items + 1), np.int32)  # NumPy's memory comes in huge pages
    down = True if (numbers[:2] < 0).any() else None
    rows = max(1, CHUNK // max(items, 1))
    keys = np.empty((min(rows, lists), items), np.int64)
    for first in range(0, lists, rows):
        part = keys[: min(rows, lists - first)]
        if not kernels.average_precision_pack(single, positive, valid, first, part):
            check_finite(scores, mask)
        part.sort(axis=-1)
        kernels.average_precision_contrast(
            part, first, exact, away_kind, toward_kind, numbers, down, gradient, found, counted, *scratch
        )
    return gradient, counted, found, numbers


def _tensors(scores: Tensor, gradient: NDArray[Any], *each: NDArray[Any]) -> list[Tensor]:
    """A gradient in the shape of scores and arrays with one number a list, as tensors beside the scores."""
    found = [torch.from_numpy(gradient).view(scores.shape)]
    found += [torch.from_numpy(values).view(scores.shape[:-1]) for values in each]
    return found if scores.is_cpu else [tensor.to(scores.device) for tensor in found]
