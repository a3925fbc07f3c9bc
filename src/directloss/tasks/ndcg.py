"""Normalised discounted cumulative gain (NDCG) of a ranked list with graded targets.

Outputs: orders of the list. An item of grade r has the gain 2^r − 1, or what you say. Rank i has the discount d_i =
1/log2(i + 1), and 0 behind rank k if there is a k. L = 1 − DCG/Z, DCG = Σ gain·d_rank, and Z is the DCG of the best
order, so 1 − L is the textbook's NDCG@k. F = 2u/Z·Σ score·d_rank has the same discounts, so the prediction sorts by
score. u is the mean gain in the best order (see `families/discounted_gain.py`). For search, recommendation, learning to
rank: wherever some items are more relevant than others.

Tied items share the mean of their discounts, as in scikit-learn's `ndcg_score`. A list whose grades are all the same
has nothing to rank: it does not count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import SWAPPED, check_count, check_gains, check_shape, raise_at_first
from ..families.arrays import as_array
from ..families.discounted_gain import DiscountedGainTask
from ..task import Problem

__all__ = ["NDCG", "Gains"]

LARGEST = 1e100  # gain, whose square is a float64
HIGHEST = {"exponential": 500, "linear": LARGEST}  # grade

Gains = str | Sequence[float] | Callable[[NDArray[np.float64]], Any]


@dataclass(frozen=True, repr=False)
class NDCG(DiscountedGainTask):
    """1 − NDCG. Every oracle is exact, O(n log n).

    The target holds grades, 0 or more, integers or not. The gain of an item is 2^grade − 1, or its grade if gains are
    "linear". scikit-learn's `ndcg_score` takes gains in the place of grades: `ndcg_score(2**grades - 1, scores)`.

    Gains of your own are numbers from 0 on, one for each grade 0, 1, 2, …, or a function of grades. It gets a NumPy
    array (items,) of all valid grades, in float64, and returns the gain of each. Inference is exact for all gains.

    >>> task = NDCG()
    >>> scores, grades = torch.tensor([0.5, 0.4, 0.3, 0.1]), torch.tensor([0, 1, 3, 0])
    >>> task.infer(scores, grades).loss
    tensor(0.4587)
    >>> NDCG(k=2).infer(scores, grades).loss
    tensor(0.9173)
    >>> NDCG(gains=(0, 1, 2, 10)).infer(scores, grades).loss  # what grades 0, 1, 2 and 3 are worth
    tensor(0.4703)
    >>> NDCG(gains=lambda grades: grades**2).infer(scores, grades).loss
    tensor(0.4672)
    """

    k: int | None = None
    """Ranks that count; None: all of them."""
    gains: Gains = "exponential"
    """What grades are worth: "exponential", "linear", a number for each grade, or a function of grades."""

    def __post_init__(self) -> None:
        if self.k is not None:
            check_count("k", self.k)
        if not callable(self.gains):
            object.__setattr__(self, "gains", check_gains(self.gains, tuple(HIGHEST), LARGEST))

    def __repr__(self) -> str:
        gains = "" if self.gains == "exponential" else f", gains={self.gains!r}"
        return f"NDCG(k={self.k}{gains})"

    def discounts(self, items: int) -> NDArray[np.float64]:
        return _discounts(items if self.k is None else min(self.k, items))

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        check_shape(scores, target)
        if not isinstance(self.gains, str):
            return self._own_gains(target, mask)
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

    def _own_gains(self, target: Tensor, mask: Tensor) -> Tensor:
        """The gains of the user's function or numbers, 0 where masked."""
        valid = as_array(mask)
        grades = as_array(target).astype(np.float64)[valid]
        if callable(self.gains):
            found = np.asarray(self.gains(grades.copy()), np.float64)
            if found.shape != grades.shape:
                raise ValueError(
                    f"the function of gains must return one number for each grade; it got {grades.shape} and returned "
                    f"{found.shape}. Write it for NumPy arrays."
                )
            wrong, expected = ~((found >= 0) & (found <= LARGEST)), f"gains must be from 0 to {LARGEST:g}"
        else:
            known = np.array(self.gains)
            wrong = ~((grades >= 0) & (grades < len(known)) & (grades == np.floor(grades)))
            expected = f"target must hold grades 0 to {len(known) - 1}, for which there are gains, where valid"
            found = known[np.where(wrong, 0, grades).astype(np.int64)]
        if wrong.any():
            places = np.zeros(valid.shape, np.bool_)
            places[valid] = wrong
            raise_at_first(torch.from_numpy(places), target, expected, "Pass gains for all grades.")
        gains = np.zeros(valid.shape)
        gains[valid] = found
        return torch.from_numpy(gains).to(target.device)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        scores, _, _ = super().random_problem(longest, generator)
        grades = len(self.gains) if isinstance(self.gains, tuple) else 4
        return Problem(scores, torch.randint(grades, scores.shape, generator=generator))


@lru_cache(maxsize=4)
def _discounts(ranks: int) -> NDArray[np.float64]:
    return 1 / np.log2(np.arange(2.0, ranks + 2))  # 5 ms for 10⁶ ranks
