"""Precision and recall of the k items on top.

Outputs: sets of k items of a list (all of them where there are fewer). Of them, h are positive. `PrecisionAtK` has
L = (min(k, P) − h)/k, `RecallAtK` L = (min(k, P) − h)/P, for P positives: how far precision h/k or recall h/P stays
behind the best that any set reaches, and so 1 − precision where k ≤ P, 1 − recall where k ≥ P. F = 2/k or 2/P times the
sum of the selected scores, so the prediction selects the k largest. For shortlists, retrieval, alarms with a budget:
wherever only so many items are looked at.

Within one list the two differ by a factor. In a batch they weigh lists as the mean precision or the mean recall does.

Tied items at the edge share what is left, so loss and features are means over all orders of the ties. A list without
positives or without negatives does not count.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_count
from ..families.discounted_gain import DiscountedGainTask

__all__ = ["PrecisionAtK", "RecallAtK"]


@dataclass(frozen=True)
class _Selection(DiscountedGainTask):
    """k items of equal gain."""

    k: int = 10

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def discounts(self, items: int) -> NDArray[np.float64]:
        return np.ones(min(self.k, items))


@dataclass(frozen=True)
class PrecisionAtK(_Selection):
    """The best precision among k items, minus that of the selected ones. Every oracle is exact, O(n) and a sort of k.

    So `metric` gives 1 − what is missing to the best precision, not precision itself.

    >>> scores, target = torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([0, 1, 1, 0])
    >>> PrecisionAtK(k=2).infer(scores, target).loss
    tensor(0.5000)
    """

    def normalizer(self, best: Any, total: Any) -> Any:
        return best * 0.0 + self.k


@dataclass(frozen=True)
class RecallAtK(_Selection):
    """The best recall among k items, minus that of the selected ones. Every oracle is exact, O(n) and a sort of k.

    So `metric` gives 1 − what is missing to the best recall, not recall itself.

    >>> scores, target = torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([0, 1, 1, 0])
    >>> RecallAtK(k=3).infer(scores, target).loss
    tensor(0.)
    """

    def normalizer(self, best: Any, total: Any) -> Any:
        return total
