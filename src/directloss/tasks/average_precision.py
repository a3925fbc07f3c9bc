"""Average precision of a ranked list.

L = 1 − AP, AP = 1/P Σ_i (precision at the rank of positive i). For retrieval, detection, fraud, medical tests: wherever
positives should come first. `families/ranking.py` says what the outputs and F are.

It is a ranking task with a kernel of its own, which is faster in long lists. In the prediction a tied group shares the
precision at its end: its loss is 1 − scikit-learn's `average_precision_score`.
"""

from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..families.packed import Lists
from ..families.ranking import LONG, ByRank, RankingTask

__all__ = ["AveragePrecision"]


@dataclass(frozen=True)
class AveragePrecision(RankingTask):
    """1 − average precision. Inference is exact; after sorting it takes O(P log M + M) for a weight above 0.

    >>> AveragePrecision().infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(0.4167)
    """

    def gain(self, positives: int, negatives: int) -> ByRank:
        return ByRank(np.arange(1, positives + 1), 1 / np.arange(1, positives + negatives + 1))

    def explain(self, positives: int, negatives: int) -> str:
        return (
            f"{self!r}, {positives:,} positives, {negatives:,} negatives\n"
            "weight > 0: the best place of each positive; where these are out of order, of each negative; "
            "O(P log M + M)\n"
            "weight < 0: bounds on the place of each positive, then dynamic programming between them; "
            "usually O(P log M + M), at worst O(PM)"
        )

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
        solve, longest = _kernel(), floats.shape[1]
        if down and longest >= LONG:
            solve = partial(import_module("directloss.kernels").interruptible, solve)
        room = (np.empty((2, longest)), np.empty((2, longest), np.int32)) if down else None
        _, _, _, _, exact, _, numbers, gradient, counted = lists
        solve(keys, bounds, exact, *kinds, numbers, room, gradient, counted, floats, integers)


@cache
def _kernel() -> Any:
    return import_module("directloss.kernels.average_precision").average_precision_contrast  # on first use
