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

HIGHEST = {"exponential": 500, "linear": 1e100}  # grade, whose gain has a square that is a float64


@dataclass(frozen=True, repr=False)
class NDCG(DiscountedGainTask):
    """1 − NDCG. Every oracle is exact, O(n log n).

    The target holds grades, 0 or more, integers or not. The gain of an item is 2^grade − 1, or its grade if gains are
    "linear". scikit-learn's `ndcg_score` takes gains in the place of grades: `ndcg_score(2**grades - 1, scores)`.

    >>> task = NDCG()
    >>> scores, grades = torch.tensor([0.5, 0.4, 0.3, 0.1]), torch.tensor([0, 1, 3, 0])
    >>> task.infer(scores, grades).loss
    tensor(0.4587)
    >>> NDCG(k=2).infer(scores, grades).loss
    tensor(0.9173)
    """

    k: int | None = None
    """Ranks that count; None: all of them."""
    gains: str = "exponential"
    """What grades are worth, "exponential" or "linear"."""

    def __post_init__(self) -> None:
        if self.k is not None:
            check_count("k", self.k)
        if self.gains not in HIGHEST:
            raise ValueError(f"gains must be 'exponential' or 'linear'; got {self.gains!r}.")

    def __repr__(self) -> str:
        gains = "" if self.gains == "exponential" else f", gains={self.gains!r}"
        return f"NDCG(k={self.k}{gains})"

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
        highest = HIGHEST[self.gains]
        if gains.size and not (gains.min() >= 0 and gains.max() <= highest):  # nor for NaN
            wrong = torch.from_numpy(~((gains >= 0) & (gains <= highest)))
            expected = f"target must hold grades from 0 to {highest:g} where valid"
            swapped = target.is_floating_point() and not target.isnan().any() and bool((scores == scores.round()).all())
            raise_at_first(wrong, target, expected, SWAPPED if swapped else "Shift or scale them.")
        if self.gains == "exponential":
            np.exp2(gains, out=gains)
            gains -= 1
        return torch.from_numpy(gains).to(target.device)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        scores, _, _ = super().random_problem(longest, generator)
        return Problem(scores, torch.randint(4, scores.shape, generator=generator))


@lru_cache(maxsize=4)
def _discounts(ranks: int) -> NDArray[np.float64]:
    return 1 / np.log2(np.arange(2.0, ranks + 2))  # 5 ms for 10⁶ ranks
