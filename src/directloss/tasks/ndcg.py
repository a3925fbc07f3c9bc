"""Normalised discounted cumulative gain (NDCG) of a ranked list with graded targets.

Outputs: orders of the list. An item of grade r has the gain 2^r − 1; rank i has the discount d_i = 1/log2(i + 1), and 0
behind rank k if there is a k. L = 1 − DCG/Z, DCG = Σ gain·d_rank, and Z is the DCG of the best order, so 1 − L is the
textbook's NDCG@k. F = 2u/Z·Σ score·d_rank has the same discounts, so the prediction sorts by score. u is the mean gain
in the best order (see `families/discounted_gain.py`). For search, recommendation, learning to rank: wherever some items
are more relevant than others.

Tied items share the mean of their discounts, as in scikit-learn's `ndcg_score`. A list whose grades are all the same
has nothing to rank: it does not count.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import SWAPPED, check_count, check_shape, raise_at_first
from ..families.arrays import as_array
from ..families.discounted_gain import DiscountedGainTask
from ..task import Problem

__all__ = ["NDCG"]

HIGHEST = 500  # the square of its gain is a float64


@dataclass(frozen=True)
class NDCG(DiscountedGainTask):
    """1 − NDCG. Every oracle is exact, O(n log n).

    The target holds grades, 0 or more, whole or not. For gains of your own pass log2(1 + gain).

    >>> task = NDCG()
    >>> scores, grades = torch.tensor([0.5, 0.4, 0.3, 0.1]), torch.tensor([0, 1, 3, 0])
    >>> task.infer(scores, grades).loss
    tensor(0.4587)
    >>> NDCG(k=2).infer(scores, grades).loss
    tensor(0.9173)
    """

    k: int | None = None
    """Ranks that count; None: all of them."""

    def __post_init__(self) -> None:
        if self.k is not None:
            check_count("k", self.k)

    def discounts(self, items: int) -> NDArray[np.float64]:
        return _discounts(items if self.k is None else min(self.k, items))

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        check_shape(scores, target)
        if target.dtype == torch.bool:
            return target & mask
        gains = as_array(target).astype(np.float64)
        valid = as_array(mask)
        if not valid.all():
            gains[~valid] = 0.0
        if gains.size and not (gains.min() >= 0 and gains.max() <= HIGHEST):  # nor for NaN
            wrong = torch.from_numpy(~((gains >= 0) & (gains <= HIGHEST)))
            expected = f"target must hold grades from 0 to {HIGHEST} where valid"
            swapped = bool((scores == scores.round()).all())
            raise_at_first(wrong, target, expected, SWAPPED if swapped else "Shift or scale them.")
        np.exp2(gains, out=gains)
        gains -= 1
        return torch.from_numpy(gains).to(target.device)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        scores, _, _ = super().random_problem(longest, generator)
        return Problem(scores, torch.randint(4, scores.shape, generator=generator))


@lru_cache(maxsize=4)
def _discounts(ranks: int) -> NDArray[np.float64]:
    return 1 / np.log2(np.arange(2.0, ranks + 2))  # 5 ms for 10⁶ ranks
