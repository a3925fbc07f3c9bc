"""Metrics of a ranked list that are a sum of gains over its positives.

Outputs: all rankings of the P positives and M negatives of a list; y_ij = 1 where positive i stands above negative j,
else −1. F = scale/(PM) Σ_ij y_ij (s_i − s_j), so the prediction sorts by score. L = 1 − Σ_i g(i, c_i)/Z, where g(i, c)
is the gain of the i-th positive from the top with c negatives above it, and Z the sum for the perfect ranking.

A metric is its gain, as two vectors. The family looks at them and takes the fastest algorithm that is exact for them;
see `explain`. docs/mathematics.md has the proofs.

A tied pair counts as neither above nor below in the prediction. Its loss is then the mean over the orders of tied items
if all positives weigh the same, else the mean of the best and the worst order. Items of one class and one score get one
feature in every output. So the order of the input never matters. A list without positives or without negatives has
only one ranking: zero everywhere.
"""

from abc import abstractmethod
from functools import cache, partial
from importlib import import_module
from itertools import permutations
from math import log2
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..task import Output
from ..update import TRUTH, Truth
from .arrays import KernelTask, PackedLists, binary
from .plans import ByNegatives, ByRank, Plan, checked, describe, make_plan
from .scale import natural_scale

__all__ = ["ByNegatives", "ByRank", "RankingTask"]

LONG = 1 << 15  # items from which on a list may take seconds
PLANS = 1 << 20  # numbers in the plans that a task remembers


class RankingTask(KernelTask):
    """A metric of a ranked list. A subclass writes its gain.

    >>> class DiscoveryRate(RankingTask):  # every positive counts e^(−rank/10)
    ...     def gain(self, positives, negatives):
    ...         return ByRank(np.ones(positives), np.exp(-np.arange(positives + negatives) / 10))
    >>> DiscoveryRate().infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(0.0952)
    """

    binary = True

    @abstractmethod
    def gain(self, positives: int, negatives: int) -> ByRank | ByNegatives:
        """The gain in a list with these numbers of positives and negatives, at least one of each."""

    def scale(self, positives: int, negatives: int) -> float:
        """The factor of F, measured from the gain, so that ε = 1 goes about half the way to the largest loss.

        It holds for scores whose standard deviation is about 1. Long lists have that of a list of about their size.
        """
        scales: dict[tuple[int, int], float] = vars(self).setdefault("_scales", {})
        sizes = _rounded(positives), _rounded(negatives)
        if sizes not in scales:
            try:
                with np.errstate(all="ignore"):  # it may be a size that the user never has
                    weights, discounts, by_rank = checked(self, self.gain(*sizes), *sizes)
            except Exception:  # a gain of one size only; its own error, if it has one, comes again
                sizes = positives, negatives
                weights, discounts, by_rank = checked(self, self.gain(*sizes), *sizes)
            scales[sizes] = natural_scale(weights, discounts, bool(by_rank), negatives=sizes[1])
        return scales[sizes]

    def explain(self, positives: int, negatives: int) -> str:
        """How inference is done for each sign of the weight, and what it costs after sorting."""
        plan = self.plan(positives, negatives)
        lines = [f"{self!r}, {positives:,} positives, {negatives:,} negatives"]
        for sign, algorithm in zip((">", "<"), plan.algorithms, strict=True):
            lines.append(f"weight {sign} 0: {describe(algorithm, plan)}")
        return "\n".join(lines)

    def __setattr__(self, name: str, value: Any) -> None:
        for measured in ("_plans", "_scales"):  # of other parameters
            vars(self).pop(measured, None)
        super().__setattr__(name, value)

    def plan(self, positives: int, negatives: int) -> Plan:
        """What a kernel needs to know about the gain in such lists; the latest ones are remembered."""
        plans: dict[tuple[int, int], Plan] = vars(self).setdefault("_plans", {})
        plan = plans.get((positives, negatives))
        if plan is None:
            plan = make_plan(self, positives, negatives)
            if (len(plans) + 1) * (positives + negatives) > PLANS:
                plans.clear()
            plans[positives, negatives] = plan
        return plan

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        return self.output(scores, target, weight if weight is TRUTH else weight.squeeze(-1), mask)

    def labels(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> NDArray[np.bool_]:
        return binary(scores, target, mask)

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        return (target & mask).any(-1) & (~target & mask).any(-1)

    def solve_part(self, problems: PackedLists, which: NDArray[np.int64], longest: int) -> None:
        """Pack the lists into keys, sort them, and solve."""
        keys = np.empty((which.size, longest), np.int64)
        if not _kernels().pack(problems.scores, problems.target, problems.valid, problems.starts, which, keys):
            problems.check_finite()
        keys.sort()
        self.solve_keys(keys, which, problems, np.empty((3, longest)), np.empty((6, longest + 257), np.int32))

    def solve_keys(
        self,
        keys: NDArray[np.int64],
        which: NDArray[np.int64],
        problems: PackedLists,
        floats: NDArray[np.float64],
        integers: NDArray[np.int32],
    ) -> None:
        """Solve lists by their sorted keys, those with equal numbers of positives and negatives together."""
        kernels = import_module("directloss.kernels.ranking")
        solve = kernels.ranking_contrast
        if keys.shape[1] >= LONG:
            solve = partial(import_module("directloss.kernels").interruptible, solve)
        rows: dict[tuple[int, int], list[int]] = {}
        for row, (positives, negatives) in enumerate(_kernels().count_all(keys).tolist()):
            if positives and negatives:
                rows.setdefault((positives, negatives), []).append(row)
        for sizes, some in rows.items():
            problems.counted[which[some]] = True
            plan = self.plan(*sizes)
            walk = plan.algorithms[0] == kernels.WALK and not problems.down
            solve(
                keys, np.array(some), which, problems.starts, problems.exact, *plan[:-2],
                None if walk else plan.algorithms, plan.cut, problems.outputs,
                problems.numbers, problems.gradient, floats, integers,
            )  # fmt: skip

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
        share = self.plan(positives, negatives).share if positives and negatives else 0.0
        return Output(torch.tensor(features, dtype=torch.float64) * share, torch.tensor(losses, dtype=torch.float64))

    def _quality(self, above: list[int], negatives: int) -> float:
        """The metric of a ranking with so many negatives above each positive."""
        gain = self.gain(len(above), negatives)
        weights, discounts = np.asarray(gain.weights), np.asarray(gain.discounts)
        by_rank = isinstance(gain, ByRank)
        gains = [weights[i] * discounts[c + i * by_rank] for i, c in enumerate(above)]
        best = [weights[i] * discounts[i * by_rank] for i in range(len(above))]
        return float(sum(gains) / sum(best))


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.lists")  # on first use: importing numba takes half a second


def _rounded(items: int) -> int:
    """A number of items within a tenth, so that lists of many lengths need few scales."""
    return items if items <= 16 else round(2 ** (round(4 * log2(items)) / 4))
