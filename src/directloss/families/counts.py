"""Tasks whose loss depends only on how many positives and negatives are selected.

Outputs: subsets of the items of a list. F = scale·Σ selected scores, so the prediction selects the scores above 0. L is
a function of the true positives tp and the false positives fp. Then of each class the items with the largest scores are
selected, and argmax F + weight·L is a search over pairs (tp, fp).

- Any loss: all pairs that can be best, O(P·M) for P positives and M negatives.
- The Tversky index T = tp/(tp + α·fp + β·(P − tp)), L = 1 − T: linear time after a sort. The F-measure and the
  intersection over union are of this kind.

Items with one score and one class share the mean of their features, and the loss is that of the counts. So the order of
the input never matters. A list without positives does not count, unless a task says otherwise.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from itertools import product
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import check_count
from ..task import Output
from ..update import TRUTH, Truth
from .arrays import ArrayTask, DenseLists, Weights, any_item, as_array, binary

__all__ = ["CountTask", "TverskyTask"]

CELLS = 1 << 20  # pairs of counts whose losses are in memory at once
ROUNDING = 1e-9  # by which a loss may leave [0, 1]


class _Selected(NamedTuple):
    """An output of every list."""

    cuts: NDArray[np.float64]  # [b, 2, 2] of positives and of negatives: threshold, share selected on it
    relative: NDArray[np.float64]  # [b] the sum of selected scores, relative to the prediction
    counts: NDArray[np.int64]  # [b, 2] true and false positives


@dataclass(frozen=True, repr=False)
class CountTask(ArrayTask):
    """A task made of a function of counts.

    A subclass writes `loss`. For images pass `event_dims=2`: scores (B, H, W) are B problems, scores (B, C, H, W) one
    for each image and class, with a target of 0 and 1 for each class.

    >>> class Informedness(CountTask):  # L = 1 − (recall − false positive rate), moved into [0, 1]
    ...     def loss(self, true_positives, false_positives, positives, negatives):
    ...         return (1 - true_positives / positives + false_positives / np.maximum(negatives, 1)) / 2
    >>> Informedness().infer(torch.tensor([2.0, -1.0, 1.0]), torch.tensor([1, 1, 0])).loss
    tensor(0.7500)
    """

    event_dims: int = field(default=1, kw_only=True)
    """The dimensions of one problem: 1 for lists, 2 for images, 3 for volumes."""

    def __post_init__(self) -> None:
        check_count("event_dims", self.event_dims)

    def __repr__(self) -> str:
        shown = [one for one in fields(self) if not one.kw_only or getattr(self, one.name) != one.default]
        return f"{type(self).__name__}({', '.join(f'{one.name}={getattr(self, one.name)!r}' for one in shown)})"

    @abstractmethod
    def loss(self, true_positives: Any, false_positives: Any, positives: Any, negatives: Any) -> Any:
        """L in [0, 1], 0 where all positives and no negatives are selected: NumPy arrays that broadcast, in and out."""

    def scale(self, positives: Any, negatives: Any) -> Any:
        """The factor of F, above 0; here 2/P, so that ε is in units of scores where about P items are selected."""
        return 2 / np.maximum(positives, 1)

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        """A target of 0 and 1, as bool."""
        return torch.from_numpy(binary(scores, target, mask) & as_array(mask)).to(scores.device)

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        """Those with a positive."""
        return any_item(target, self.event_dims)

    def explain(self, positives: int, negatives: int) -> str:
        """How inference works on a list of this size, and what it costs."""
        pairs = (positives + 1) * (negatives + 1)
        table = f"all pairs of true and false positives that can be best, at most {pairs:,} of them"
        return self._explained(positives, negatives, table, table)

    def _explained(self, positives: int, negatives: int, up: str, down: str) -> str:
        size = f"{positives:,} positives, {negatives:,} negatives"
        return f"{self!r}, {size}\nweight > 0: {up}\nweight < 0: {down}"

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        """See `output`."""
        return self.output(
            scores, target, weight if weight is TRUTH else weight.flatten(-self.event_dims)[..., 0], mask
        )

    def solve(
        self, lists: DenseLists, away: Weights, toward: Weights, factor: NDArray[np.float64], gradient: NDArray[Any]
    ) -> NDArray[np.float64]:
        """See `ArrayTask`."""
        kernels = _kernels()
        count, counted = len(lists.scores), lists.counted
        sizes, truth = np.empty((count, 4), np.int64), np.empty(count)
        kernels.count(*lists[:3], sizes, truth)
        P, M = sizes[:, 0], sizes[:, 1]
        scale = np.broadcast_to(np.asarray(self.scale(P, M), np.float64), (count,))
        numbers, cuts = np.zeros((3, count)), []
        for output, weight in enumerate((away, toward)):
            if weight is None:
                cuts.append(None)
                continue
            if weight is TRUTH:
                chosen = _Selected(np.zeros((count, 2, 2)), truth, sizes[:, :2] * [1, 0])
                chosen.cuts[:, :, 0] = -np.inf, np.inf
            else:
                chosen = _Selected(np.zeros((count, 2, 2)), np.zeros(count), sizes[:, 2:].copy())  # the prediction
                weight = np.where(counted, weight / scale, 0.0)
                if weight.any():
                    self._select(lists, sizes, weight, chosen)
            numbers[0] += (scale * chosen.relative) * (-1 if output else 1) * counted
            tp, fp = chosen.counts[counted].T
            numbers[1 + output, counted] = losses = self.loss(tp, fp, P[counted], M[counted])
            self._check_losses(np.broadcast_to(losses, tp.shape), tp, fp, P[counted], M[counted])
            cuts.append(chosen.cuts)
        kernels.write(*lists[:3], *cuts, factor * scale * counted, gradient)
        return numbers

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """All 2^n subsets."""
        positive = target.flatten() != 0
        positives, negatives = int(positive.sum()), int((~positive).sum())
        chosen = torch.tensor(list(product((0.0, 1.0), repeat=scores.numel())), dtype=torch.float64)
        if not self.is_scored(target != 0, torch.ones_like(target, dtype=torch.bool)):
            return Output(torch.zeros((1, *scores.shape), dtype=torch.float64), torch.zeros(1, dtype=torch.float64))
        tp, fp = chosen @ positive.double(), chosen @ (~positive).double()
        losses = self.loss(tp.numpy(), fp.numpy(), np.array(positives), np.array(negatives))
        features = float(self.scale(positives, negatives)) * chosen.reshape(-1, *scores.shape)
        return Output(features, torch.as_tensor(np.broadcast_to(losses, len(chosen)).copy(), dtype=torch.float64))

    def _select(
        self, lists: DenseLists, sizes: NDArray[np.int64], weights: NDArray[np.float64], chosen: _Selected
    ) -> None:
        """Write argmax Σ selected scores + weight·L where the weight is not 0, from all pairs of counts."""
        kernels, tables = _kernels(), {}
        for row in np.flatnonzero(weights):
            positive, valid = lists.target[row], True if lists.valid is None else lists.valid[row]
            classes = [np.sort(lists.scores[row][of_class & valid]) for of_class in (positive, ~positive)]
            sums = [np.empty(scores.size + 1) for scores in classes]
            above = [kernels.relative(*pair) for pair in zip(classes, sums, strict=True)]
            # L is worth at most |weight|, so no output that gives up more than that is best
            ranges = [np.flatnonzero(of_class >= -abs(weights[row])) for of_class in sums]
            cell = self._best_cell(sums, ranges, weights[row], tables)
            for kind, (scores, selected) in enumerate(zip(classes, cell, strict=True)):
                steps = int(selected - above[kind])
                edge = scores.size - above[kind]
                outward = scores[edge:] if steps < 0 else np.ascontiguousarray(-scores[:edge][::-1])
                chosen.cuts[row, kind] = kernels.cut(outward, abs(steps), -1.0 if steps > 0 else 1.0)
            chosen.counts[row] = cell
            chosen.relative[row] = sums[0][cell[0]] + sums[1][cell[1]]

    def _best_cell(
        self,
        sums: list[NDArray[np.float64]],
        ranges: list[NDArray[np.int64]],
        weight: float,
        tables: dict[tuple[int, int], NDArray[np.float64]],
    ) -> tuple[int, int]:
        """True and false positives of an optimum, a block of the table after another."""
        positives, negatives = (of_class.size - 1 for of_class in sums)
        rows, columns = ranges
        small = (positives + 1) * (negatives + 1) <= CELLS
        if small and (positives, negatives) not in tables:
            tables[positives, negatives] = self._losses(np.arange(positives + 1), np.arange(negatives + 1), sums)
        best, place = -np.inf, (0, 0)
        step = max(1, CELLS // columns.size)
        for first in range(0, rows.size, step):
            tp = rows[first : first + step]
            if small:
                losses = tables[positives, negatives][tp[0] : tp[-1] + 1, columns[0] : columns[-1] + 1]
            else:
                losses = self._losses(tp, columns, sums)
            value, i, j = _kernels().best_cell(sums[0][tp], sums[1][columns], np.ascontiguousarray(losses), weight)
            if np.isnan(value):
                self._check_losses(*(np.array([one]) for one in (np.nan, tp[i], columns[j], positives, negatives)))
            if value > best:
                best, place = value, (int(tp[i]), int(columns[j]))
        return place

    def _check_losses(self, losses: NDArray[Any], *counts: NDArray[Any]) -> None:
        """Refuse a loss outside of [0, 1], up to rounding."""
        if not ((losses >= -ROUNDING) & (losses <= 1 + ROUNDING)).all():
            first = int(np.flatnonzero(~((losses >= -ROUNDING) & (losses <= 1 + ROUNDING)))[0])
            tp, fp, positives, negatives = (int(one[first]) for one in counts)
            raise ValueError(
                f"{type(self).__name__}.loss must be a number from 0 to 1; got {losses[first]:g} for {tp} true and "
                f"{fp} false positives of {positives} positives and {negatives} negatives. Divide a cost by the "
                "largest one that there can be; if it is NaN, look for a division by 0."
            )

    def _losses(self, tp: NDArray[Any], fp: NDArray[Any], sums: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        positives, negatives = (np.array(of_class.size - 1) for of_class in sums)
        losses = self.loss(tp[:, None], fp[None, :], positives, negatives)
        return np.broadcast_to(np.asarray(losses, np.float64), (tp.size, fp.size))


@dataclass(frozen=True, repr=False)
class TverskyTask(CountTask):
    """A task of L = 1 − T, T = tp/(tp + α·fp + β·(P − tp)), in O(n log n). A subclass writes `weights`."""

    count_empty: bool = field(default=False, kw_only=True)
    """Whether lists without positives count. If so, L = 1 where one of their items is selected, else 0."""

    @abstractmethod
    def weights(self) -> tuple[float, float]:
        """α of a false positive, β of a positive that is not selected, both at least 0."""

    def loss(self, true_positives: Any, false_positives: Any, positives: Any, negatives: Any) -> Any:
        """1 − T; without a true positive 1, unless there are no positives and nothing is selected."""
        alpha, beta = self.weights()
        tp, fp = np.asarray(true_positives, np.float64), np.asarray(false_positives, np.float64)
        union = tp + alpha * fp + beta * (positives - tp)
        index = np.divide(tp, union, out=np.zeros(np.broadcast_shapes(tp.shape, union.shape)), where=tp > 0)
        return np.where((positives == 0) & (fp == 0), 0.0, 1 - index)

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        """Those with a positive; with `count_empty` all that have an item."""
        return any_item(mask if self.count_empty else target, self.event_dims)

    def explain(self, positives: int, negatives: int) -> str:
        """How inference works on a list of this size, and what it costs."""
        table = super().explain(positives, negatives).rpartition(": ")[2]
        walk = f"one pass through positives and negatives, O(P + M): at most {positives + negatives:,} steps"
        return self._explained(positives, negatives, walk, walk if self.weights()[1] <= 1 else f"β > 1: {table}")

    def _select(
        self, lists: DenseLists, sizes: NDArray[np.int64], weights: NDArray[np.float64], chosen: _Selected
    ) -> None:
        kernels = _kernels()
        alpha, beta = self.weights()
        if beta > 1 and (weights < 0).any():
            super()._select(lists, sizes, np.minimum(weights, 0.0), chosen)
            weights = np.maximum(weights, 0.0)
        count, items = lists.scores.shape
        near = np.empty((count, items + 2))
        outer, inner = np.empty(count, np.int64), np.empty(count, np.int64)
        kernels.collect(*lists[:3], weights, near, outer, inner)
        if items > kernels.SHORT:
            for row in range(count):
                near[row, : outer[row]].sort()
                near[row, near.shape[1] - inner[row] :].sort()
        kernels.tversky_cuts(near, outer, inner, sizes, weights, alpha, beta, *chosen)


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.counts")  # on first use: importing numba takes half a second
