"""Metrics of a ranked list that are a sum of gains over its positives.

Outputs: all rankings of the P positives and M negatives of a list; y_ij = 1 where positive i stands above negative j,
else −1. F = scale/(PM) Σ_ij y_ij (s_i − s_j), so the prediction sorts by score. L = 1 − Σ_i g(i, c_i)/Z, where g(i, c)
is the gain of the i-th positive from the top with c negatives above it, and Z the sum for the perfect ranking.

A metric is its gain, as two vectors. The family looks at them and takes the fastest way that is exact for them; see
`explain`. docs/mathematics.md has the proofs.

A tied pair counts as neither above nor below in the prediction. Its loss is then the mean over the orders of tied items
if all positives weigh the same, else the mean of the best and the worst order. Items of one class and one score get one
feature in every output. So the order of the input never matters. A list without positives or without negatives has
only one ranking: zero everywhere.
"""

from abc import abstractmethod
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import permutations
from math import ceil, log2, prod
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..autograd import registered
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

__all__ = ["ByNegatives", "ByRank", "RankingTask"]

LONG = 1 << 15  # items from which on a list may take seconds
CHUNK = 1 << 15  # items that are packed, sorted and solved while the cache holds them
SMALL = 1 << 12  # cells up to which a table is solved whole
PLANNED = 1 << 11  # items up to which plans of many lists are kept
CUT_CELLS = 1 << 26  # of the triangle above a cut that is solved whole


class ByRank(NamedTuple):
    """The gain of the i-th positive at a rank: weights[i]·discounts[rank]."""

    weights: ArrayLike
    """(positives,), at least 0."""
    discounts: ArrayLike
    """(positives + negatives,), never rising; discounts[0] is rank 1."""


class ByNegatives(NamedTuple):
    """The gain of the i-th positive with c negatives above it: weights[i]·discounts[c]."""

    weights: ArrayLike
    """(positives,), at least 0."""
    discounts: ArrayLike
    """(negatives + 1,), never rising; discounts[0] is for no negative above."""


class RankingTask(Task):
    """A metric of a ranked list. A subclass writes its gain.

    >>> class DiscoveryRate(RankingTask):  # every positive counts e^(−rank/10)
    ...     def gain(self, positives, negatives):
    ...         return ByRank(np.ones(positives), np.exp(-np.arange(positives + negatives) / 10))
    >>> DiscoveryRate().infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(0.0952)
    """

    @abstractmethod
    def gain(self, positives: int, negatives: int) -> ByRank | ByNegatives:
        """The gain in a list with so many positives and negatives, at least one of each."""

    def scale(self, positives: int, negatives: int) -> float:
        """The factor of F, so that ε is in units of score margins; 1 suits metrics that look at all pairs."""
        return 1.0

    def explain(self, positives: int, negatives: int) -> str:
        """Which way the oracle takes for each sign of the weight, and what it costs after sorting."""
        plan = _plan(self, positives, negatives)
        lines = [f"{self!r}, {positives:,} positives, {negatives:,} negatives"]
        for sign, way in zip((">", "<"), plan.ways, strict=True):
            lines.append(f"weight {sign} 0: {_describe(way, plan)}")
        return "\n".join(lines)

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        return self.output(scores, target, weight if weight is TRUTH else weight.squeeze(-1), mask)

    def counts(self, target: Tensor, mask: Tensor) -> Tensor:
        return (target & mask).any(-1) & (~target & mask).any(-1)

    def contrast(self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None = None) -> Contrast:
        """Both outputs from one sort."""
        if scores.dim() > 1:
            check_lists_of_one(scores.shape, mask)
        gradient, counted, numbers = self._solve_all(scores, target, mask, *row)
        if counted.size == 1:  # Python's numbers are faster than arrays of one: 4 µs of a list of 512
            numbers = numbers[:, 0].tolist()
        _, _, _, score, away_loss, toward_loss = numbers
        value = _row(row, numbers).value(score, away_loss, toward_loss)
        return Contrast._make(_tensors(scores, gradient, value, counted))

    def output(self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None) -> Output:
        features, _, numbers = self._solve_all(scores, target, mask, weight, None, 1.0)
        return Output(*_tensors(scores, features, numbers[4]))

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """Every order of the items, each with its pairs counted and its gains summed one by one."""
        truth = [bool(value) for value in target]
        positives, negatives = sum(truth), len(truth) - sum(truth)
        features, losses = [], []
        for order in permutations(range(len(truth))):
            feature, above = [0] * len(truth), []
            for rank, item in enumerate(order):
                if truth[item]:
                    above.append(rank - len(above))
                for below in order[rank + 1 :]:
                    if truth[item] != truth[below]:
                        feature[item] += 1
                        feature[below] -= 1
            features.append(feature)
            losses.append(1 - self._quality(above, negatives) if positives and negatives else 0.0)
        share = self.scale(positives, negatives) / (positives * negatives) if positives and negatives else 0.0
        return Output(torch.tensor(features, dtype=torch.float64) * share, torch.tensor(losses, dtype=torch.float64))

    def _quality(self, above: list[int], negatives: int) -> float:
        """The metric of a ranking with so many negatives above each positive."""
        gain = self.gain(len(above), negatives)
        weights, discounts = np.asarray(gain.weights), np.asarray(gain.discounts)
        by_rank = isinstance(gain, ByRank)
        gains = [weights[i] * discounts[c + i * by_rank] for i, c in enumerate(above)]
        best = [weights[i] * discounts[i * by_rank] for i in range(len(above))]
        return float(sum(gains) / sum(best))

    def _solve_all(
        self,
        scores: Tensor,
        target: Tensor,
        mask: Tensor | None,
        away: Weight,
        toward: Weight | None,
        scale: float | Tensor,
    ) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.float64]]:
        """Solve all lists, without toward for one output alone.

        Returns the gradient of all lists, which lists count, and [6, lists]: the numbers of the row, F(away) −
        F(toward) and both losses.
        """
        kernels = _kernels()
        check_problems(scores, target, mask, 1, None)
        check_binary(scores, target, mask)
        full = tuple(scores.shape)
        items = full[-1]
        check_length(items, kernels.LONGEST_LIST)
        lists = prod(full[:-1])
        shape = lists, items
        if isinstance(scale, Tensor) or isinstance(away, Tensor) or isinstance(toward, Tensor):
            numbers, kinds, down = _numbers(away, toward, scale, scores.shape[:-1])
        else:
            numbers, kinds, down = _constants(away, toward, scale)
            numbers = np.repeat(numbers, lists, axis=1) if lists != 1 else numbers.copy()
        if not scores.is_cpu:
            scores, target, mask = scores.cpu(), target.cpu(), None if mask is None else mask.cpu()
        host, dtype = scores.contiguous(), scores.dtype
        single = (host if dtype is torch.float32 else host.to(torch.float32)).numpy().reshape(shape)
        positive = (target if target.dtype is torch.bool else target != 0).contiguous().numpy().reshape(shape)
        valid = mask.contiguous().numpy().reshape(shape) if mask is not None else None
        exact = host.numpy().reshape(shape) if dtype is torch.float64 else None
        gradient, counted = np.zeros(shape, np.float32 if exact is None else np.float64), np.zeros(lists, np.bool_)
        scratch = np.empty((3, items)), np.empty((4, items + 1), np.int32)  # NumPy's memory comes in huge pages
        rows = max(1, CHUNK // max(items, 1))
        keys = np.empty((min(rows, lists), items), np.int64)
        for first in range(0, lists, rows):
            part = keys[: lists - first]
            if not kernels.pack(single, positive, valid, first, part):
                check_finite(scores, mask)
            part.sort()
            self._solve_lists(part, first, exact, kinds, numbers, down, gradient, counted, *scratch)
        return gradient.reshape(full), counted.reshape(full[:-1]), numbers

    def _solve_lists(
        self,
        keys: NDArray[np.int64],
        first: int,
        exact: NDArray[np.float64] | None,
        kinds: tuple[int, int],
        numbers: NDArray[np.float64],
        down: bool | None,
        gradient: NDArray[Any],
        counted: NDArray[np.bool_],
        floats: NDArray[np.float64],
        integers: NDArray[np.int32],
    ) -> None:
        """Solve the lists of sorted keys, those with equal numbers of positives and negatives together."""
        solve = import_module("directloss.kernels.ranking").ranking_contrast
        if keys.shape[1] >= LONG:
            solve = partial(import_module("directloss.kernels").interruptible, solve)
        groups: dict[tuple[int, int], list[int]] = {}
        for number, (positives, negatives) in enumerate(_kernels().count_all(keys).tolist()):
            if positives and negatives:
                counted[first + number] = True
                groups.setdefault((positives, negatives), []).append(number)
        for (positives, negatives), lists in groups.items():
            plan = _plan(self, positives, negatives)
            solve(keys, np.array(lists), first, exact, *plan, *kinds, numbers, gradient, floats, integers)


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.lists")  # on first use: importing numba takes half a second


class _Plan(NamedTuple):
    """What the kernel needs to know about a metric, for one number of positives and negatives."""

    weights: NDArray[np.float64]
    discounts: NDArray[np.float64]
    by_rank: int
    best: float
    share: float
    alike: bool
    ways: tuple[int, int]
    cut: int


def _plan(task: RankingTask, positives: int, negatives: int) -> _Plan:
    remembered = _plans if positives + negatives <= PLANNED else _long_plans
    return remembered(task.handle, positives, negatives)


def _make_plan(handle: int, positives: int, negatives: int) -> _Plan:
    task = registered(handle)
    gain, scale = task.gain(positives, negatives), task.scale(positives, negatives)
    weights, discounts, by_rank = _checked(task, gain, positives, negatives)
    best = float(weights @ (discounts[:positives] if by_rank else np.full(positives, discounts[0])))
    if not 0 < best < np.inf:
        raise ValueError(
            f"{type(task).__name__}.gain({positives}, {negatives}) must be above 0 for the perfect ranking; got {best}."
        )
    if not (isinstance(scale, int | float) and 0 < scale < np.inf):
        raise ValueError(
            f"{type(task).__name__}.scale({positives}, {negatives}) must be a number above 0; got {scale!r}."
        )
    ways, cut = _choose(weights, discounts, by_rank, negatives)
    alike = bool(weights.min() == weights.max())
    return _Plan(weights, discounts, by_rank, best, scale / (positives * negatives), alike, ways, cut)


_plans = lru_cache(maxsize=512)(_make_plan)
_long_plans = lru_cache(maxsize=4)(_make_plan)


def _checked(task: RankingTask, gain: Any, positives: int, negatives: int) -> tuple[NDArray[Any], NDArray[Any], int]:
    """The vectors of a gain, refused in words where they are none."""
    place = f"{type(task).__name__}.gain({positives}, {negatives})"
    if not isinstance(gain, ByRank | ByNegatives):
        raise TypeError(
            f"{place} must return ByRank(weights, discounts) or ByNegatives(weights, discounts); got {gain!r}."
        )
    by_rank = isinstance(gain, ByRank)
    lengths = positives, positives + negatives if by_rank else negatives + 1
    vectors = []
    for name, values, length in zip(("weights", "discounts"), gain, lengths, strict=True):
        vector = np.ascontiguousarray(values, np.float64)
        if vector.shape != (length,):
            raise ValueError(
                f"{place} must have {length} {name}, one {_EACH[name, by_rank]}; got shape {vector.shape}."
            )
        if not np.isfinite(vector).all():
            raise ValueError(f"{place} must have finite {name}; got {vector[~np.isfinite(vector)][0]}.")
        vectors.append(vector)
    weights, discounts = vectors
    if (weights < 0).any():
        raise ValueError(f"{place} must have weights of at least 0; got {weights.min()}.")
    rises = np.flatnonzero(np.diff(discounts) > 0)
    if rises.size:
        k = rises[0]
        raise ValueError(
            f"{place} must have discounts that never rise; got {discounts[k]} and then {discounts[k + 1]} at index "
            f"{k + 1}. A positive further down cannot gain more."
        )
    return weights, discounts, int(by_rank)


_EACH = {
    ("weights", True): "a positive",
    ("weights", False): "a positive",
    ("discounts", True): "a rank",
    ("discounts", False): "for no negative above and each number of them",
}


def _choose(
    weights: NDArray[np.float64], discounts: NDArray[np.float64], by_rank: int, negatives: int
) -> tuple[tuple[int, int], int]:
    """The fastest exact way for each sign, and the rank behind which discounts are constant.

    D rises in i where its loss part, ±weights·drops, does; it falls in c where ±discounts are convex.
    """
    kernels = import_module("directloss.kernels.ranking")
    positives = weights.size
    drops = -np.diff(discounts)
    slack = 1e-14 * abs(discounts[0])
    steps = np.diff(drops)
    convex, concave = bool((steps <= slack).all()), bool((steps >= -slack).all())
    rising, falling = bool((np.diff(weights) >= 0).all()), bool((np.diff(weights) <= 0).all())
    changes = np.flatnonzero(drops)
    cut = int(changes[-1]) + 1 if changes.size else 0
    triangle = min(min(positives, cut) * (min(negatives, cut) + 1), cut * (cut + 3) // 2)
    ways = []
    for rows, columns in (
        (rising and (not by_rank or concave), convex),
        (falling and (not by_rank or convex), concave),
    ):
        if np.count_nonzero(weights) == 1:
            way = kernels.ONE_ROW
        elif rows:
            way = kernels.WALK if columns else kernels.ROWS
        elif columns:
            way = kernels.COLUMNS
        elif by_rank and cut and (discounts[0] == discounts[cut - 1] or triangle <= CUT_CELLS):
            way = kernels.CUT
        else:
            way = kernels.TABLE if positives * negatives <= SMALL else kernels.BAND
        ways.append(way)
    return (ways[0], ways[1]), cut


def _describe(way: int, plan: _Plan) -> str:
    kernels = import_module("directloss.kernels.ranking")
    P = plan.weights.size
    M = plan.discounts.size - P if plan.by_rank else plan.discounts.size - 1
    k = plan.cut
    triangle = min(P * (M + 1), k * (k + 3) // 2)
    flat = way == kernels.CUT and plan.discounts[0] == plan.discounts[k - 1]
    words, steps = {
        kernels.WALK: ("all rows in one walk, O(P + M)", P + M),
        kernels.ROWS: ("rows alone, by divide and conquer, O(M log P + P)", M * ceil(log2(P + 1)) + P),
        kernels.COLUMNS: ("columns alone, by divide and conquer, O(P log M + M)", P * ceil(log2(M + 1)) + M),
        kernels.ONE_ROW: ("one row counts, O(P + M)", P + M),
        kernels.CUT: (
            (f"cut at rank {k:,}, nothing to choose before it, O(P + M)", P + M)
            if flat
            else (f"cut at rank k = {k:,}, a table before it, O(k² + P + M)", triangle + P + M)
        ),
        kernels.BAND: ("rows narrow a band, a table solves it, O(PM) at worst", P * M),
        kernels.TABLE: ("a table, O(PM)", P * M),
    }[way]
    return f"{words}: at most {steps:,} steps"


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
