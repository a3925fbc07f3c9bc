"""Tasks that rank items: a rank has a discount, an item has a gain.

Outputs: orders of the items of a list; y_i is the discount of item i's rank. L = (Z − Σ gain·y)/N, where Z is the
largest Σ gain·y that an order has, and N is Z unless a task says otherwise. F = 2u/N·Σ score·y. So argmax F + weight·L
sorts by score − weight/(2u)·gain. Items that tie share the mean of their discounts, the mean over all their orders.

u = Σ gain²·y / Σ gain·y for the best order: the mean gain, weighted by what each item adds to Z; 1 where gains are 0
and 1. It makes weight/2 the mean shift of a score, so that ε means the same for all gains.

A discount of 1 for the first k ranks and of 0 behind them makes a selection of k items of the order.
"""

from abc import abstractmethod
from functools import cache
from importlib import import_module
from itertools import permutations
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import check_finite, check_problems
from ..task import Contrast, Output
from ..update import TRUTH, Row, Weight
from .arrays import as_rows, as_tensors, per_list
from .linear_loss import LinearLossTask

__all__ = ["DiscountedGainTask"]

CHUNK = 1 << 16  # items of short lists that are solved together


class DiscountedGainTask(LinearLossTask):
    """A task made of discounts for ranks and gains for items.

    A subclass writes `discounts`, and `check_target`, which returns the gains, unless they are a target of 0 and 1.
    """

    @abstractmethod
    def discounts(self, items: int) -> NDArray[np.float64]:
        """Of ranks 1, 2, … of a list: at least 0, never rising, at most `items` of them; ranks behind have 0."""

    def whole(self, best: Any, total: Any) -> Any:
        """N, by which the loss is divided, from the best discounted gain Z and the sum of all gains; here Z.

        Gets and returns one number a list, as an array or a tensor.
        """
        return best

    def counts(self, target: Tensor, mask: Tensor) -> Tensor:
        """Lists whose gains differ: in others nothing is better than anything else."""
        if target.shape[-1] == 0:
            return mask.any(-1)
        if target.dtype == torch.bool:
            return target.any(-1) & (mask & ~target).any(-1)
        return target.amax(-1) > target.masked_fill(~mask, torch.inf).amin(-1)

    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        """The discount of each item's rank by descending score."""
        keys = scores.masked_fill(~mask, -torch.inf)
        items = keys.shape[-1]
        ascending = keys.sort(-1).values
        first = items - torch.searchsorted(ascending, keys, right=True)  # how many stand above
        last = items - torch.searchsorted(ascending, keys)
        tied = last - first
        discounts, sums = _table(self, items)
        sums = torch.from_numpy(sums).to(keys.device)
        first, last = first.clamp(max=discounts.size), last.clamp(max=discounts.size)
        return ((sums[last] - sums[first]) / tied).where(mask, 0.0)

    def cost(self, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Z/N and −gain/N."""
        gains = target.double()
        best, whole, _ = self._best(gains, mask)
        return best / whole, -gains / whole.unsqueeze(-1)

    def scale(self, target: Tensor, mask: Tensor) -> Tensor:
        """2u/N."""
        _, whole, unit = self._best(target.double(), mask)
        return 2 * unit / whole

    def _best(self, gains: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Z, N and u of every list; 1 where there is no gain."""
        rank = self.decode(gains, mask)
        best = (rank * gains).sum(-1)
        unit = (rank * gains**2).sum(-1) / best
        some = best > 0
        return best, self.whole(best, gains.sum(-1)).where(some, 1.0), unit.where(some, 1.0)

    def contrast(self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None = None) -> Contrast:
        """Both outputs by the compiled kernel."""
        gradient, counted, score, losses = _solve(self, scores, target, mask, row.away, row.toward, row.scale)
        batch = counted.shape
        weights = [per_list("weight", weight, batch) for weight in (row.away, row.toward)]
        paid = [0.0 if weight is None else weight * loss for weight, loss in zip(weights, losses, strict=True)]
        scale = per_list("the scale of the update", row.scale, batch)
        value = (scale * (score + paid[0] - paid[1])).astype(gradient.dtype).reshape(batch)
        gradient, value = as_tensors(scores, gradient, value)
        return Contrast(gradient, value, counted)

    def output(self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None) -> Output:
        """One output by the compiled kernel."""
        features, counted, _, losses = _solve(self, scores, target, mask, weight, None, 1.0)
        return Output(*as_tensors(scores, features, losses[0].astype(features.dtype).reshape(counted.shape)))

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """Every order of the items."""
        mask = torch.ones_like(scores, dtype=torch.bool)
        gains = self.check_target(scores, target, mask).double()
        items = len(scores)
        discounts = self.discounts(items).tolist()
        discounts += [0.0] * (items - len(discounts))
        y = torch.tensor(sorted(set(permutations(discounts))), dtype=torch.float64)
        gained = y @ gains
        best = gained.max()
        if not self.counts(self.check_target(scores, target, mask), mask):
            return Output(torch.zeros_like(y[:1]), torch.zeros(1, dtype=torch.float64))
        whole = self.whole(best, gains.sum())
        unit = (y[gained.argmax()] * gains**2).sum() / best
        return Output(2 * unit / whole * y, (best - gained) / whole)


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.discounted_gain")  # on first use: importing numba takes half a second


def _table(task: DiscountedGainTask, items: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The discounts of a list that long, and their sums up to each rank."""
    discounts = np.ascontiguousarray(task.discounts(items)[:items], np.float64)
    return discounts, np.append(0.0, np.cumsum(discounts))


def _solve(
    task: DiscountedGainTask,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None,
    away: Weight,
    toward: Weight | None,
    scale: float | Tensor,
) -> tuple[NDArray[Any], Tensor, NDArray[np.float64], list[NDArray[np.float64]]]:
    """Solve all lists, without toward for one output alone.

    Returns the gradient scale·(features(away) − features(toward)), which lists count, and for every list
    F(away) − F(toward) and both losses.
    """
    shape = check_problems(scores, target, mask, 1, None)
    check_finite(scores, mask)
    valid = torch.ones(shape, dtype=torch.bool, device=scores.device) if mask is None else mask
    target = task.check_target(scores, target, valid)
    counted = task.counts(target, valid)
    batch, items = scores.shape[:-1], scores.shape[-1]
    lists = batch.numel()
    weights = [None if weight is None else per_list("weight", weight, batch) for weight in (away, toward)]
    kinds = [_NONE if weight is None else _TRUTH if weight is TRUTH else _AUGMENTED for weight in (away, toward)]
    factor = per_list("the scale of the update", scale, batch)
    gradient = np.zeros((lists, items), np.float64 if scores.dtype == torch.float64 else np.float32)
    numbers = np.zeros((3, lists))
    some, all_scores, all_gains = as_rows(counted, lists)[:, 0], as_rows(scores, lists), as_rows(target, lists)
    all_valid = None if mask is None else as_rows(mask, lists)
    rows = max(1, CHUNK // max(items, 1))
    for first in range(0, lists, rows) if items else ():
        part = slice(first, first + rows)
        numbers[:, part], shares, unit = _contrast(
            task,
            all_scores[part].astype(np.float64),
            all_gains[part],
            None if all_valid is None else all_valid[part],
            kinds,
            [weight if weight is None else weight[part] for weight in weights],
        )
        numbers[:, part] *= some[part]
        np.multiply(shares, (factor[part] * unit * some[part])[:, None], out=gradient[part], casting="same_kind")
    return gradient.reshape(scores.shape), counted, numbers[0], [numbers[1], numbers[2]]


_NONE, _TRUTH, _AUGMENTED = 0, 1, 2  # what stands in the place of an output


def _contrast(
    task: DiscountedGainTask,
    scores: NDArray[np.float64],  # [b, N]
    gains: NDArray[Any],  # [b, N]
    valid: NDArray[np.bool_] | None,  # [b, N], or None where all are
    kinds: list[int],
    weights: list[NDArray[np.float64] | None],  # [b]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """F(away) − F(toward) and both losses, [3, b]; y_away − y_toward, [b, N]; the factor of F, [b]."""
    kernels = _kernels()
    lists, items = scores.shape
    discounts, sums = _table(task, items)
    binary = gains.dtype == np.bool_
    if binary:
        total = np.count_nonzero(gains, axis=-1)
        best = sums[np.minimum(total, discounts.size)]
        unit = np.ones(lists)
    else:
        total = gains.sum(-1)
        top = np.sort(_largest(-gains, discounts.size), axis=-1)
        best = -(top @ discounts)
        unit = (top**2 @ discounts) / np.where(best > 0, best, 1.0)
        unit[best <= 0] = 1.0
    whole = np.where(best > 0, task.whole(best, total), 1.0)
    gains = gains.astype(np.float64)
    if valid is not None:
        scores[~valid] = 0.0
    shares, numbers = np.zeros((lists, items)), np.zeros((3, lists))
    bits = max(int(items - 1).bit_length(), 1)
    packed, counts, gained = np.empty((lists, items + 1), np.int64), np.empty(lists, np.int64), np.zeros((2, lists))
    for output, (kind, weight) in enumerate(zip(kinds, weights, strict=True)):
        if kind == _NONE:
            continue
        keys = gains if weight is None else scores - (weight / (2 * unit))[:, None] * gains if weight.any() else scores
        if valid is not None:
            keys = np.where(valid, keys, -np.inf)
        least = np.full(lists, -np.inf)
        if discounts.size < items:
            least = -np.partition(-keys, discounts.size - 1, axis=-1)[:, discounts.size - 1]
        kernels.pack(keys, least, bits, packed, counts)
        ranked = packed[:, : counts.max()]
        ranked.sort(axis=-1)
        kernels.place(ranked, counts, keys, bits, discounts, sums, -1.0 if output else 1.0, shares)
        kernels.dots(gains, shares, gained[output])
    gained[1] = gained[0] - gained[1]
    kernels.dots(scores, shares, numbers[0])
    numbers[0] *= 2 * unit / whole
    numbers[1:] = ((best - gained) / whole).clip(0, 1)
    return numbers, shares, 2 * unit / whole


def _largest(negated: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The count least numbers of every row, in any order."""
    return negated if count >= negated.shape[-1] else np.partition(negated, count - 1, axis=-1)[:, :count]
