"""Where a metric answers: the ε that goes half the way to the largest loss, by the length of the list.

    python -m benchmarks.scale                 # measure, print the table, write results/scale.json

Scores are from N(0, 1) and do not know the target. Of every size some lists are drawn, and the median of their typical
ε is taken. The metrics are the ranking tasks of the library and twenty random gains: power laws, exponentials and
ramps, by rank and by the number of negatives above, with equal, rising or falling weights of positives.
"""

import sys
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.speed import RESULTS as SPEED
from benchmarks.speed import machine, write
from directloss.families import ByNegatives, ByRank, RankingTask
from directloss.tasks import TASKS
from directloss.testing import typical_epsilon

RESULTS = SPEED.parent / "scale.json"
SIZES = {10: 400, 100: 200, 1000: 100, 10**4: 40, 10**5: 12}
"""Items in a list, and how many lists are drawn."""
SHARES = 0.1, 0.5
LEFT = 0.01  # of the loss: lists in which less can be lost tell nothing
USUAL = 0.5, 4.0


@dataclass(frozen=True)
class RandomGain(RankingTask):
    """A gain that nobody chose."""

    seed: int

    def gain(self, positives: int, negatives: int) -> ByRank | ByNegatives:
        """Drawn anew from the seed."""
        generator = np.random.default_rng(self.seed)
        kind = ByRank if self.seed % 2 else ByNegatives
        places = np.arange(1.0, (positives + negatives if kind is ByRank else negatives + 1) + 1)
        reach = places.size * generator.uniform(0.05, 1)
        discounts = (
            places ** -generator.uniform(0.2, 1.2), np.exp(-places / reach), np.maximum(1 - places / (1 + reach), 0)
        )[self.seed % 3]  # fmt: skip
        power = generator.uniform(0, 1)
        weights = np.arange(1.0, positives + 1) ** (0.0, power, -power)[int(generator.integers(3))]
        return kind(weights, discounts)


class RPrecision(RankingTask):
    """The share of positives in the first P ranks: what a user writes in three lines."""

    def gain(self, positives: int, negatives: int) -> ByRank:
        """1 in the first P ranks."""
        return ByRank(np.ones(positives), np.arange(positives + negatives) < positives)


def measured(task: RankingTask) -> dict[str, float | None]:
    """The median typical ε by size and share; None where lists from N(0, 1) have lost nearly everything already."""
    medians: dict[str, float | None] = {}
    for items, lists in SIZES.items():
        for share in SHARES:
            positives = round(share * items)
            generator = torch.Generator().manual_seed(items)
            target = (torch.arange(items) < positives).expand(lists, items)
            scores = torch.randn((lists, items), generator=generator, dtype=torch.float64)
            left = task.infer_augmented(scores, target, 1e12).loss - task.infer(scores, target).loss
            epsilons = typical_epsilon(task, scores, target)[left > LEFT]
            medians[f"{items}, {share:g}"] = epsilons.nanmedian().item() if epsilons.numel() else None
    return medians


def main() -> int:
    """Measure all, print and write it."""
    tasks: list[RankingTask] = [kind() for kind in TASKS.values() if issubclass(kind, RankingTask)]
    medians = {repr(task): measured(task) for task in [*tasks, RPrecision(), *map(RandomGain, range(20))]}
    for name, of_task in medians.items():
        cells = " ".join(f"{epsilon:7.2f}" if epsilon else "      –" for epsilon in of_task.values())
        print(f"{name:<37} {cells}")
    every = [epsilon for of_task in medians.values() for epsilon in of_task.values() if epsilon]
    inside = sum(USUAL[0] <= epsilon <= USUAL[1] for epsilon in every)
    print(f"{inside} of {len(every)} between {USUAL[0]} and {USUAL[1]}")
    write({"command": "python -m benchmarks.scale", **machine(), "medians": medians, "inside": inside}, RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
