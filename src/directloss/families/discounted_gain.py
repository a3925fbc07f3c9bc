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

from ..task import Output
from ..update import TRUTH
from .arrays import ArrayTask, DenseLists, Weights, as_array, binary
from .linear_loss import LinearLossTask

__all__ = ["DiscountedGainTask"]


class DiscountedGainTask(ArrayTask, LinearLossTask):
    """A task made of discounts for ranks and gains for items.

    A subclass writes `discounts`, and `check_target`, which returns the gains, unless they are a target of 0 and 1.
    """

    @abstractmethod
    def discounts(self, items: int) -> NDArray[np.float64]:
        """Of ranks 1, 2, … of a list: at least 0, never rising, at most `items` of them; ranks behind have 0."""

    def normalizer(self, best: Any, total: Any) -> Any:
        """N, by which the loss is divided, from the best discounted gain Z and the sum of all gains; here Z.

        Gets and returns one number per list, as an array or a tensor.
        """
        return best

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        """The gains, at least 0, bool or float64, 0 where masked; here a target of 0 and 1."""
        return torch.from_numpy(binary(scores, target, mask) & as_array(mask)).to(scores.device)

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        """Those whose gains differ: in others nothing is better than anything else."""
        gains, valid = as_array(target), as_array(mask)
        least = gains if valid.all() else np.where(valid, gains, np.inf)
        return torch.from_numpy(np.asarray(gains.max(-1, initial=0) > least.min(-1, initial=np.inf))).to(target.device)

    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        """The discount of each item's rank by descending score."""
        keys = scores.masked_fill(~mask, -torch.inf)
        items = keys.shape[-1]
        ascending = keys.sort(-1).values
        first = items - torch.searchsorted(ascending, keys, right=True)  # how many stand above
        last = items - torch.searchsorted(ascending, keys)
        tied = last - first
        discounts = _discounts(self, items)
        sums = torch.from_numpy(np.append(0.0, np.cumsum(discounts))).to(keys.device)
        first, last = first.clamp(max=discounts.size), last.clamp(max=discounts.size)
        return ((sums[last] - sums[first]) / tied).where(mask, 0.0)

    def cost(self, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Z/N and −gain/N."""
        gains = target.double()
        best, normalizer, _ = self._best(gains, mask)
        return best / normalizer, -gains / normalizer.unsqueeze(-1)

    def scale(self, target: Tensor, mask: Tensor) -> Tensor:
        """2u/N."""
        _, normalizer, unit = self._best(target.double(), mask)
        return 2 * unit / normalizer

    def _best(self, gains: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Z, N and u of every list; 1 where there is no gain."""
        rank = self.decode(gains, mask)
        best = (rank * gains).sum(-1)
        unit = (rank * gains**2).sum(-1) / best
        some = best > 0
        return best, self.normalizer(best, gains.sum(-1)).where(some, 1.0), unit.where(some, 1.0)

    def solve(
        self, lists: DenseLists, away: Weights, toward: Weights, factor: NDArray[np.float64], gradient: NDArray[Any]
    ) -> NDArray[np.float64]:
        """See `ArrayTask`."""
        kernels = _kernels()
        scores, gains, valid, counted = lists
        count, items = scores.shape
        discounts = _discounts(self, items)
        if gains.dtype == np.bool_:
            total = np.count_nonzero(gains, axis=-1)
            best = np.append(0.0, np.cumsum(discounts))[np.minimum(total, discounts.size)]
            unit = np.ones(count)
        else:
            total = gains.sum(-1)
            top = np.ascontiguousarray(np.sort(_largest(gains, discounts.size), axis=-1)[:, ::-1])
            best = (top * discounts).sum(-1)  # by rows: a product of matrices rounds a batch unlike a list
            unit = np.divide((top**2 * discounts).sum(-1), best, out=np.ones(count), where=best > 0)
        normalizer = np.where(best > 0, self.normalizer(best, total), 1.0)
        gains = gains.astype(np.float64, copy=False)
        shares, gained = np.zeros((count, items)), np.zeros((2, count))
        bits = (items - 1).bit_length()
        packed, kept = np.empty((count, items), np.int64), np.empty(count, np.int64)
        for output, weight in enumerate((away, toward)):
            if weight is None:
                continue
            keys = scores, gains, valid, *((0.0, -np.ones(count)) if weight is TRUTH else (1.0, weight / (2 * unit)))
            least = None
            if discounts.size < items:
                shifted = np.empty_like(scores)
                kernels.shift(*keys, shifted)
                least = _largest(shifted, discounts.size).min(-1)
            kernels.pack(*keys, least, bits, packed, kept)
            ranked = packed[:, : kept.max()]
            ranked.sort(axis=-1)
            kernels.place(ranked, kept, *keys[:2], *keys[3:], bits, discounts, -1.0 if output else 1.0, shares)
            kernels.dots(gains, shares, gained[output])
        gained[1] = gained[0] - gained[1]
        scale = counted * 2 * unit / normalizer
        np.multiply(shares, (factor * scale)[:, None], out=gradient, casting="same_kind")
        numbers = np.empty((3, count))
        kernels.dots(scores, shares, numbers[0])
        numbers[0] *= scale
        numbers[1:] = counted * ((best - gained) / normalizer).clip(0, 1)
        return numbers

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
        if not self.is_scored(self.check_target(scores, target, mask), mask):
            return Output(torch.zeros_like(y[:1]), torch.zeros(1, dtype=torch.float64))
        normalizer = self.normalizer(best, gains.sum())
        unit = (y[gained.argmax()] * gains**2).sum() / best
        return Output(2 * unit / normalizer * y, (best - gained) / normalizer)


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.discounted_gain")  # on first use: importing numba takes half a second


def _discounts(task: DiscountedGainTask, items: int) -> NDArray[np.float64]:
    return np.ascontiguousarray(task.discounts(items)[:items], np.float64)


def _largest(numbers: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The largest numbers of every row, in any order."""
    rest = numbers.shape[-1] - count
    return np.partition(numbers, rest, axis=-1)[:, rest:] if rest > 0 else numbers
