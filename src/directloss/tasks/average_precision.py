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

from ..families.arrays import PackedLists
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

    def scale(self, positives: int, negatives: int) -> float:
        return 1.0  # as in the paper

    def explain(self, positives: int, negatives: int) -> str:
        return (
            f"{self!r}, {positives:,} positives, {negatives:,} negatives\n"
            "weight > 0: the best place of each positive; where these are out of order, of each negative; "
            "O(P log M + M)\n"
            "weight < 0: bounds on the place of each positive, then dynamic programming between them; "
            "usually O(P log M + M), at worst O(PM)"
        )

    def solve_keys(
        self,
        keys: NDArray[np.int64],
        which: NDArray[np.int64],
        problems: PackedLists,
        floats: NDArray[np.float64],
        integers: NDArray[np.int32],
    ) -> None:
        """Solve lists by their sorted keys, with the kernel that the update and the type of scores need."""
        kernels, longest = _kernels(), keys.shape[1]
        if problems.exact is None and not problems.down:
            kernels.average_precision_up(
                keys, which, problems.starts, problems.outputs, problems.numbers, problems.gradient, problems.counted,
                floats, integers,
            )  # fmt: skip
            return
        solve, down = kernels.average_precision_contrast, None
        if problems.down:
            down = np.empty((2, longest)), np.empty((2, longest), np.int32)
            if longest >= LONG:
                solve = partial(import_module("directloss.kernels").interruptible, solve)
        solve(
            keys, which, problems.starts, problems.exact, problems.outputs, problems.numbers, down, problems.gradient,
            problems.counted, floats, integers,
        )  # fmt: skip


@cache
def _kernels() -> Any:
    return import_module("directloss.kernels.average_precision")  # on first use
