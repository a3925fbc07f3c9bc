"""Which recipe on average precision should be the default? Some are tried on ten tables, the best on the other tables.

A recipe is a loss, a warm-up by cross-entropy before it, weight decay, and averaged weights. All recipes of a table see
the same rows, wrong labels, first weights and batches, and are trained as one stack with AdamW. The tables, splits and
wrong labels are those of the study `tables`, with other seeds.

    python -m studies.benchmarks.recipes search --data DIR     # ten tables, all recipes; writes results/recipes.json
    python -m studies.benchmarks.recipes confirm --data DIR    # the other tables, few recipes; into the same file

A run that is stopped goes on where it was.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from directloss_studies.networks import Heads
from directloss_studies.sweep import average_precisions
from directloss_studies.tables.config import Noise, Part
from directloss_studies.tables.sets import Boundary, find, noisy, split
from directloss_studies.trainers import passes
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from directloss import ROCAUC, AveragePrecision, PositiveDirect, structured_loss
from directloss.families import ByRank, RankingTask
from studies.benchmarks.tables import Runs

RESULTS = Path(__file__).parent.parent / "results" / "recipes.json"
SEARCHED = (
    "annthyroid", "Cardiotocography", "cover", "magic.gamma", "satellite", "breastw", "celeba", "letter", "mammography",
    "SpamBase",
)  # fmt: skip
SEEDS = {"search": (100,), "confirm": (200, 201, 202)}
NOISES = (0.4, 0.0, 0.2)
MOMENTS = (100, 200, 400, 800)
RATE, BATCH, WARM = 0.005, 512, 10
AVERAGES = {"last": 0.0, "mean of 50": 0.98, "mean of 100": 0.99}
"""How much each step's mean weights keep of the last one's."""
SETTINGS = {"steps": MOMENTS, "rate": RATE, "batch": BATCH, "averages": AVERAGES}


class Offset(RankingTask):
    """Between AP and ROC AUC: precision at i becomes i/(rank + offset)."""

    def __init__(self, of_positives: float, of_all: float) -> None:
        self.of_positives, self.of_all = of_positives, of_all

    def gain(self, positives: int, negatives: int) -> ByRank:
        """AP has no offset; with a large one all ranks count alike."""
        every = positives + negatives
        offset = self.of_positives * positives + self.of_all * every
        return ByRank(np.arange(1, positives + 1), 1 / (offset + np.arange(1, every + 1)))


class Recipe(NamedTuple):
    """How a network is trained."""

    loss: str | RankingTask
    """x-ent, weighted x-ent, x-ent + AP, or a task for the positive update."""
    epsilon: float = 1.0
    """Below 0: that many times the share of positive labels in the batch."""
    steps: int = 0
    """Of warm-up."""
    weighted: bool = True
    """Whether the warm-up gives both classes the same weight."""
    anew: bool = True
    """Whether the optimizer forgets the warm-up."""
    decay: float = 0.0


AP, AUC, OF_POSITIVES, OF_ALL = AveragePrecision(), ROCAUC(), Offset(1.0, 0.0), Offset(0.0, 0.25)
RECIPES = {
    "x-ent": Recipe("x-ent"),
    "x-ent, decay 1": Recipe("x-ent", decay=1.0),
    "weighted x-ent": Recipe("weighted x-ent"),
    **{f"AP {epsilon:g}": Recipe(AP, epsilon) for epsilon in (0.1, 0.3, 1.0, 3.0)},
    "x-ent → AP 0.1, same optimizer": Recipe(AP, 0.1, WARM, False, False),
    "x-ent → AP 1, same optimizer": Recipe(AP, 1.0, WARM, False, False),
    "3 × x-ent → AP 1, same optimizer": Recipe(AP, 1.0, 3 * WARM, False, False),
    "x-ent → AP 1": Recipe(AP, 1.0, WARM, False),
    "weighted → AP 1, same optimizer": Recipe(AP, 1.0, WARM, anew=False),
    "weighted → AP 1": Recipe(AP, 1.0, WARM),
    "weighted → AP 0.3": Recipe(AP, 0.3, WARM),
    "weighted → AP, 4 × share": Recipe(AP, -4.0, WARM),
    "weighted → AP 1, decay 1": Recipe(AP, 1.0, WARM, decay=1.0),
    "weighted → AP 1, decay 0.3": Recipe(AP, 1.0, WARM, decay=0.3),
    "weighted → AP 3, decay 1": Recipe(AP, 3.0, WARM, decay=1.0),
    "offset P 1": Recipe(OF_POSITIVES),
    "weighted → offset P 1": Recipe(OF_POSITIVES, 1.0, WARM),
    "offset n/4 1": Recipe(OF_ALL),
    "weighted → offset n/4 1": Recipe(OF_ALL, 1.0, WARM),
    "weighted → AUC 1": Recipe(AUC, 1.0, WARM),
    "x-ent + AP 1": Recipe("x-ent + AP"),
}
CONFIRMED = ("x-ent", "x-ent, decay 1", "AP 1", "AP 3", "weighted → AP 1, decay 1", "weighted → AP 3, decay 1")


def objective(recipe: Recipe, step: int, scores: Tensor, target: Tensor, ratio: float) -> Tensor:
    """The loss of a batch; ratio is that of negative to positive labels in training."""
    entropy = binary_cross_entropy_with_logits(scores, target.float(), reduction="none")
    if recipe.loss == "weighted x-ent" or (step < recipe.steps and recipe.weighted):
        return (entropy * torch.where(target, ratio, 1.0)).mean()
    if recipe.loss == "x-ent" or step < recipe.steps:
        return entropy.mean()
    epsilon = recipe.epsilon if recipe.epsilon > 0 else -recipe.epsilon * float(target.double().mean())
    task = AP if isinstance(recipe.loss, str) else recipe.loss
    value = structured_loss(task, PositiveDirect(epsilon), scores, target)
    return value + entropy.mean() if recipe.loss == "x-ent + AP" else value


def run(part: Part, noise: float, seed: int, recipes: dict[str, Recipe]) -> dict[str, Any]:
    """Test AP of every recipe, with each average of weights, after each number of steps."""
    parts = split(part, seed)
    training, _, facts = noisy(part, parts, Noise("symmetric", noise), seed, Boundary(MOMENTS[0], BATCH, RATE))
    batches = passes(len(training.target), BATCH, torch.Generator().manual_seed(seed))
    widths = training.inputs.shape[1], 64, 64, 1
    network = Heads(len(recipes), widths, "he", torch.Generator().manual_seed(seed))
    weights = network.weights
    decay = torch.tensor([[recipe.decay] for recipe in recipes.values()])
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    age = torch.zeros(len(recipes), 1)
    means = {name: torch.zeros_like(weights) for name, kept in AVERAGES.items() if kept}
    found: dict[str, dict[str, list[float]]] = {name: {average: [] for average in AVERAGES} for name in recipes}
    for step in range(MOMENTS[-1]):
        items = next(batches)
        inputs, target = (rows if items is None else rows[items] for rows in (training.inputs, training.target))
        scores = network(inputs)
        seen = scores.detach().requires_grad_()
        slopes = torch.zeros_like(seen)
        if target.any() and not target.all():
            ratio = (1 - facts.share) / facts.share
            losses = [
                objective(recipe, step, row, target, ratio)
                for recipe, row in zip(recipes.values(), seen.unbind(), strict=True)
            ]
            (slopes,) = torch.autograd.grad(torch.stack(losses).sum(), seen)
        (gradient,) = torch.autograd.grad(scores, weights, slopes)
        with torch.no_grad():
            for k, recipe in enumerate(recipes.values()):
                if recipe.anew and step == recipe.steps:
                    first[k], second[k], age[k] = 0, 0, 0
            age += 1
            first.lerp_(gradient, 0.1)
            second.lerp_(gradient.square(), 0.001)
            steepest = (first / (1 - 0.9**age)) / ((second / (1 - 0.999**age)).sqrt() + 1e-8)
            weights -= RATE * (steepest + decay * weights)
            for name, mean in means.items():
                mean.lerp_(weights, 1 - AVERAGES[name])
        if step + 1 in MOMENTS:
            kept = weights.detach().clone()
            for average, share in AVERAGES.items():
                weights.data = means[average] / (1 - share ** (step + 1)) if share else kept
                with torch.no_grad():
                    every = torch.cat([network(some) for some in parts.test.inputs.split(4096)], 1)
                for name, value in zip(recipes, average_precisions(every, parts.test.target), strict=True):
                    found[name][average].append(round(float(value), 5))
            weights.data = kept.clone()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="recipes", description="Look for the default recipe, and confirm it.")
    parser.add_argument("part", choices=SEEDS, help="search: ten tables, all recipes; confirm: the others, a few")
    parser.add_argument("--data", type=Path, required=True, help="folder with the tables of the study `tables`")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results/recipes.json")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    recipes = RECIPES if options.part == "search" else {name: RECIPES[name] for name in CONFIRMED}
    tables, _ = find(options.data)
    runs = Runs(options.out, SETTINGS)
    for seed in SEEDS[options.part]:
        for noise in NOISES:
            for table in tables:
                name = {"part": options.part, "table": table.name, "noise": noise, "seed": seed}
                if (table.name in SEARCHED) != (options.part == "search") or runs.has(**name):
                    continue
                if split(table, seed).test.lists is not None:  # several lists: the study itself has them
                    continue
                begin = time.perf_counter()
                runs.add({**name, "test_ap": run(table, noise, seed, recipes)})
                said = f"{table.name}, {noise:.0%} flipped, seed {seed}: {time.perf_counter() - begin:.1f} s"
                print(said, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
