"""Average precision of a ranked list.

Outputs: all rankings of the P positives and M negatives of a list; y_ij = 1 where positive i stands above negative j,
else −1. F = 1/(PM) Σ_ij y_ij (s_i − s_j), so the prediction sorts by score. L = 1 − AP, AP = 1/P Σ_i (precision at the
rank of positive i). For retrieval, detection, fraud, medical tests: wherever positives should come first.

A tied pair counts as neither above nor below in the prediction, whose loss is 1 − scikit-learn's
`average_precision_score`, ties included; and items of one class and one score get one feature in every output. So the
order of the input never matters. A list without positives or without negatives has only one ranking: zero everywhere.
"""

import math
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import permutations
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from ..autograd import operator
from ..checks import check_binary, check_finite, check_length, check_lists, check_weight
from ..task import Contrast, Output, Task
from ..update import TRUTH, Row

__all__ = ["AveragePrecision"]

NOTHING = math.inf  # the weight that stands for no output: the other one alone
CHUNK = 1 << 15  # items that are packed, sorted and solved while the cache holds them


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.average_precision")  # on first use: importing numba takes half a second


def _solve(
    scores: Tensor, target: Tensor, mask: Tensor | None, away: float, toward: float, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient and value of the update with this row, and which lists count.

    Without toward, features and loss of the away output.
    """
    kernels = _kernels()
    check_binary(target, mask)
    batch, items = scores.shape[:-1], scores.shape[-1]
    check_length(items, kernels.LONGEST_LIST)
    lists = batch.numel()
    shape = (lists, items)
    scores = scores.contiguous()
    single = (scores if scores.dtype == torch.float32 else scores.to(torch.float32)).numpy().reshape(shape)
    positive = (target if target.dtype == torch.bool else target != 0).contiguous().numpy().reshape(shape)
    valid = mask.contiguous().numpy().reshape(shape) if mask is not None else None
    double = scores.dtype == torch.float64
    exact = scores.numpy().reshape(shape) if double else None
    dtype = np.float64 if double else np.float32
    gradient, value, counted = np.zeros(scores.shape, dtype), np.zeros(batch, dtype), np.zeros(batch, np.bool_)
    outputs = gradient.reshape(shape), value.reshape(-1), counted.reshape(-1)
    scratch = np.empty((3, items)), np.empty((4, items + 1), np.int32)  # NumPy's memory comes in huge pages
    down = True if -math.inf < away < 0 or -math.inf < toward < 0 else None
    rows = max(1, CHUNK // max(items, 1))
    keys = np.empty((min(rows, lists), items), np.int64)
    for first in range(0, lists, rows):
        last = min(first + rows, lists)
        part = keys[: last - first]
        if not kernels.average_precision_pack(single, positive, valid, first, part):
            check_finite(scores, mask)
        part.sort(axis=-1)
        kernels.average_precision_contrast(part, first, exact, away, toward, down, scale, *outputs, *scratch)
    return torch.from_numpy(gradient), torch.from_numpy(value), torch.from_numpy(counted)


def _fake_solve(
    scores: Tensor, target: Tensor, mask: Tensor | None, away: float, toward: float, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = torch.float64 if scores.dtype == torch.float64 else torch.float32
    value = scores.new_empty(scores.shape[:-1], dtype=dtype)
    return scores.new_empty(scores.shape, dtype=dtype), value, torch.empty_like(value, dtype=torch.bool)


_average_precision = operator(
    "average_precision",
    "(Tensor scores, Tensor target, Tensor? mask, float away, float toward, float scale) -> (Tensor, Tensor, Tensor)",
    _solve,
    _fake_solve,
)


@dataclass(frozen=True)
class AveragePrecision(Task):
    """1 − average precision. Every oracle is exact; after sorting, O(P log M + M) for a weight above 0."""

    def infer(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        return self._solve_one(scores, target, 0.0, mask)

    def infer_augmented(self, scores: Tensor, target: Tensor, weight: float, mask: Tensor | None = None) -> Output:
        return self._solve_one(scores, target, check_weight(weight), mask)

    def truth(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        return self._solve_one(scores, target, TRUTH, mask)

    def contrast(self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None = None) -> Contrast:
        """Both outputs from one sort."""
        return Contrast(*_average_precision(scores.detach(), target, mask, *row))

    def outputs(self, target: Tensor) -> Output:
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

    @staticmethod
    def _solve_one(scores: Tensor, target: Tensor, weight: float, mask: Tensor | None) -> Output:
        check_lists(scores, target, mask)
        features, loss, _ = _average_precision(scores.detach(), target, mask, weight, NOTHING, 1.0)
        return Output(features, loss)
