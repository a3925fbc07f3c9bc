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
from math import prod
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
    check_problems,
    check_strength,
)
from ..groups import Groups
from ..task import Contrast, Output, Task
from ..update import TRUTH, Row, Truth, Weight
from .packed import SHORT, Lists, keep_memory, solve_parts, take_memory
from .plans import ByNegatives, ByRank, describe, plan

__all__ = ["ByNegatives", "ByRank", "RankingTask"]

LONG = 1 << 15  # items from which on a list may take seconds
_COUNTED = torch.tensor(True)


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
        """The gain in a list with these numbers of positives and negatives, at least one of each."""

    def scale(self, positives: int, negatives: int) -> float:
        """The factor of F, so that ε has the unit of score margins; 1 suits metrics that depend on all pairs."""
        return 1.0

    def explain(self, positives: int, negatives: int) -> str:
        """How inference is done for each sign of the weight, and what it costs after sorting."""
        found = plan(self, positives, negatives)
        lines = [f"{self!r}, {positives:,} positives, {negatives:,} negatives"]
        for sign, way in zip((">", "<"), found.ways, strict=True):
            lines.append(f"weight {sign} 0: {describe(way, found)}")
        return "\n".join(lines)

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        return self.output(scores, target, weight if weight is TRUTH else weight.squeeze(-1), mask)

    def counts(self, target: Tensor, mask: Tensor) -> Tensor:
        return (target & mask).any(-1) & (~target & mask).any(-1)

    def contrast(self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None = None) -> Contrast:
        """Both outputs from one sort."""
        if (
            scores.dim() == 1
            and mask is None
            and scores.dtype is torch.float32
            and target.dtype is torch.bool
            and scores.is_cpu
            and target.is_cpu
            and scores.numel() <= SHORT
            and _is_constant(row)
        ):
            given, positive = scores.contiguous().numpy(), target.contiguous().numpy()
            if given.shape == positive.shape:
                return self._contrast_one(given, positive, row)
        return self._contrast(scores, target, row, mask, None)

    def contrast_flat(self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None, groups: Groups) -> Contrast:
        """Both outputs from one sort, without a copy of each list."""
        return self._contrast(scores, target, row, mask, groups)

    def output(self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None) -> Output:
        features, counted, numbers = self._solve_all(scores, target, mask, weight, None, 1.0, None)
        loss = numbers[:, 4].astype(features.dtype).reshape(counted.shape)
        return Output._make(_tensors(scores, features, loss))

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

    def _contrast(
        self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None, groups: Groups | None
    ) -> Contrast:
        gradient, counted, numbers = self._solve_all(scores, target, mask, *row, groups)
        value = np.empty(counted.shape, gradient.dtype)
        _kernels().values(numbers, value.reshape(-1))
        return Contrast._make(_tensors(scores, gradient, value, counted))

    def contrast_sorted(
        self,
        keys: NDArray[np.int64],
        classes: tuple[int, int],
        row: Row,
        places: NDArray[np.int64],
        scratch: tuple[NDArray[np.float64], NDArray[np.int32]],
    ) -> tuple[float, NDArray[np.float32]]:
        """The value of one list by its sorted keys, and the gradient at some of them, in ascending order."""
        constants, kinds, down = _constants(*row)
        numbers, starts, counted = constants.copy(), np.array([0, keys.size]), np.zeros(1, np.bool_)
        nothing, gradient = np.empty(0, np.float32), np.zeros(places.size, np.float32)
        lists = Lists(nothing, counted, None, None, None, starts, numbers, nothing, counted)
        self._solve_lists(kinds, down, keys, starts.reshape(1, 2), lists, *scratch)
        if counted[0]:
            factor = numbers[0, 2] * self.scale(*classes) / prod(classes)
            import_module("directloss.kernels.memory").gather(keys, places, factor, *scratch, gradient)
        return row.value(*numbers[0, 3:].tolist()), gradient

    def _contrast_one(self, scores: NDArray[np.float32], positive: NDArray[np.bool_], row: Row) -> Contrast:
        """`_contrast` for the list that most training loops have, with less Python: 12 µs of a list of 512."""
        constants, kinds, down = _constants(*row)
        memory = take_memory(scores.size)
        keys, bounds, numbers, counts, floats, integers = memory
        gradient = np.zeros(scores.size, np.float32)
        numbers[:], counts[0] = constants, False
        if not _kernels().pack(scores, positive, None, keys):
            check_finite(torch.from_numpy(scores), None)
        keys.sort()
        lists = Lists(scores, positive, None, None, None, bounds[0], numbers, gradient, counts)
        self._solve_lists(kinds, down, keys, bounds, lists, floats, integers)
        keep_memory(memory)
        _, _, _, score, away_loss, toward_loss = numbers[0].tolist()
        value = np.asarray(row.value(score, away_loss, toward_loss), np.float32)
        counted = _COUNTED if counts[0] else ~_COUNTED
        return Contrast(torch.from_numpy(gradient), torch.from_numpy(value), counted)

    def _solve_all(
        self,
        scores: Tensor,
        target: Tensor,
        mask: Tensor | None,
        away: Weight,
        toward: Weight | None,
        scale: float | Tensor,
        groups: Groups | None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.float64]]:
        """Solve all lists, without toward for one output alone.

        Returns the gradient of all items, which lists count, and [lists, 6]: the numbers of the row, F(away) −
        F(toward) and both losses.
        """
        check_problems(scores, target, mask, 1, None)
        check_binary(scores, target, mask)
        shape = scores.shape
        items, batch = shape[-1], shape[:-1] if groups is None else (groups.starts.size - 1,)
        lists = prod(batch)
        check_length(items, _kernels().LONGEST_LIST)
        if not _is_constant((away, toward, scale)):
            numbers, kinds, down = _numbers(away, toward, scale, torch.Size(batch))
        else:
            constants, kinds, down = _constants(away, toward, scale)
            numbers = np.empty((lists, 6))
            numbers[:] = constants
        if not scores.is_cpu:
            scores, target, mask = scores.cpu(), target.cpu(), None if mask is None else mask.cpu()
        host, dtype = scores.contiguous(), scores.dtype
        make = np.empty if mask is None else np.zeros  # kernels leave out what is masked
        exact = host.numpy().reshape(-1) if dtype is torch.float64 else None
        whole = Lists(
            (host if dtype is torch.float32 else host.to(torch.float32)).numpy().reshape(-1),
            (target if target.dtype is torch.bool else target != 0).contiguous().numpy().reshape(-1),
            None if mask is None else mask.contiguous().numpy().reshape(-1),
            None if groups is None or groups.ids is None else groups,
            exact,
            np.arange(lists + 1) * items if groups is None else groups.starts,
            numbers,
            make(shape.numel(), np.float32 if exact is None else np.float64),
            np.zeros(lists, np.bool_),
        )
        solve_parts(whole, partial(self._solve_lists, kinds, down), partial(check_finite, scores, mask))
        return whole.gradient.reshape(shape), whole.counted.reshape(batch), numbers

    def _solve_lists(
        self,
        kinds: tuple[int, int],
        down: bool | None,
        keys: NDArray[np.int64],
        bounds: NDArray[np.int64],
        lists: Lists,
        floats: NDArray[np.float64],
        integers: NDArray[np.int32],
    ) -> None:
        """Solve lists by their sorted keys, those with equal numbers of positives and negatives together."""
        solve = import_module("directloss.kernels.ranking").ranking_contrast
        if floats.shape[1] >= LONG:
            solve = partial(import_module("directloss.kernels").interruptible, solve)
        groups: dict[tuple[int, int], list[int]] = {}
        for number, (positives, negatives) in enumerate(_kernels().count_all(keys, bounds, lists.gradient).tolist()):
            if positives and negatives:
                lists.counted[number] = True
                groups.setdefault((positives, negatives), []).append(number)
        for (positives, negatives), alike in groups.items():
            solve(
                keys, bounds, np.array(alike), lists.exact, *plan(self, positives, negatives), *kinds,
                lists.numbers, lists.gradient, floats, integers,
            )  # fmt: skip


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.lists")  # on first use: importing numba takes half a second


def _numbers(
    away: Weight, toward: Weight | None, scale: float | Tensor, batch: torch.Size
) -> tuple[NDArray[np.float64], tuple[int, int], bool | None]:
    """A row as the kernel takes it: numbers, 0 for what is no weight; which outputs; whether a weight is below 0."""
    kernels = _kernels()
    numbers = np.zeros((batch.numel(), 6))
    kinds = []
    for k, value in enumerate((away, toward, scale)):
        if value is None or value is TRUTH:
            kinds.append(kernels.NOTHING if value is None else kernels.TRUTH)
            continue
        kinds.append(kernels.AUGMENTED)
        check_strength("the scale of the update" if k == 2 else "weight", value, batch)
        numbers[:, k] = value.cpu().double().reshape(-1).numpy() if isinstance(value, Tensor) else value
    return numbers, (kinds[0], kinds[1]), True if (numbers[:, :2] < 0).any() else None


@lru_cache(maxsize=64)
def _constants(away: Weight, toward: Weight | None, scale: float) -> tuple[NDArray[np.float64], tuple[int, int], Any]:
    """`_numbers` of a row without tensors, for any batch; 4 µs of a list of 512."""
    return _numbers(away, toward, scale, torch.Size([1]))


def _is_constant(row: tuple[Any, Any, Any]) -> bool:
    away, toward, scale = row
    return not (isinstance(scale, Tensor) or isinstance(away, Tensor) or isinstance(toward, Tensor))


def _tensors(scores: Tensor, *arrays: NDArray[Any]) -> list[Tensor]:
    """What was found, as tensors beside the scores."""
    found = [torch.from_numpy(array) for array in arrays]
    return found if scores.is_cpu else [tensor.to(scores.device) for tensor in found]
