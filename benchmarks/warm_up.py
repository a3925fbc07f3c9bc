"""The start-up trap: pos-AP from starts that rank more pairs right than wrong and from their opposites.

A start and the same network with the sign of its last layer turned have AUCs that add up to 1, so one of the two is
below one half. From both, networks are trained by pos-AP with several ε, with and without cross-entropy for the first
tenth of the steps, and by cross-entropy alone. All of them see the same batches and are trained at once, as one stack.

    python -m benchmarks.warm_up --data ../shared/data/tabular     # writes results/warm_up.json; goes on if it is there
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.tables import DATA, TABLES, Part, Runs, flip, load, split
from directloss import ROCAUC, AveragePrecision, PositiveDirect, StructuredLoss

RESULTS = Path(__file__).parent.parent / "results" / "warm_up.json"
EPSILONS = (0.1, 1.0, 10.0, 100.0)
METHODS = ("x-ent", *(f"ε = {epsilon:g}" for epsilon in EPSILONS), *(f"ε = {epsilon:g}, warm" for epsilon in EPSILONS))
NOISES = (0.0, 0.2, 0.4)
RATES = (0.001, 0.01)
SEEDS = 4
STEPS, WARM, BATCH, HIDDEN, ROWS = 600, 60, 512, 64, 20_000
SETTINGS = {
    "epsilons": EPSILONS,
    "steps": STEPS,
    "warm": WARM,
    "batch": BATCH,
    "hidden": HIDDEN,
    "rows": ROWS,
    "methods": METHODS,
    "starts": ("below", "above"),
}


def stack(columns: int, generator: torch.Generator) -> list[Tensor]:
    """Weights and biases of one network for every method from each of two opposite starts, as torch.nn.Linear draws."""
    weights = []
    for inputs, outputs in ((columns, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)):
        for shape in ((inputs, outputs), (1, outputs)):
            drawn = (2 * torch.rand(shape, generator=generator) - 1) / inputs**0.5
            signs = (1, -1) if outputs == 1 else (1, 1)
            weights.append(torch.stack([sign * drawn for sign in signs for _ in METHODS]).requires_grad_())
    return weights


def scores_of(weights: list[Tensor], x: Tensor) -> Tensor:
    """(networks, rows) scores of rows (rows, columns)."""
    out = x.expand(len(weights[0]), *x.shape)
    for k in range(0, 6, 2):
        out = torch.baddbmm(weights[k + 1], out if k == 0 else out.relu(), weights[k])
    return out.squeeze(-1)


def measured(task: ROCAUC | AveragePrecision, weights: list[Tensor], part: Part) -> Tensor:
    """The metric of every network."""
    with torch.no_grad():
        scores = torch.cat([scores_of(weights, x) for x in part.x.split(2048)], -1)
        return 1 - task.infer(scores, part.target.expand_as(scores)).loss


def run(table: Part, noise: float, rate: float, seed: int) -> dict[str, Any]:
    """AP and AUC on clean test data of all methods, from the start below one half and from the one above it."""
    generator = torch.Generator().manual_seed(seed)
    training, _, test = split(table, ROWS, (0.5, 0.0), generator)
    target = flip(training.target, noise, generator)
    weights = stack(training.x.shape[1], generator)
    starts = measured(ROCAUC(), weights, training)[:: len(METHODS)]
    optimizer = torch.optim.Adam(weights, rate)
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(torch.tensor(EPSILONS).repeat(4)), "none")
    networks = torch.arange(2 * len(METHODS)).reshape(2, len(METHODS))
    direct, warm = networks[:, 1:].reshape(-1), networks[:, 1 + len(EPSILONS) :].reshape(-1)
    cold, plain = networks[:, 1 : 1 + len(EPSILONS)].reshape(-1), networks[:, 0]
    cold_loss = StructuredLoss(AveragePrecision(), PositiveDirect(torch.tensor(EPSILONS).repeat(2)), "none")
    order = torch.empty(0, dtype=torch.int64)
    for step in range(STEPS):
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(target), generator=generator)])
        items, order = order[:BATCH], order[BATCH:]
        scores, labels = scores_of(weights, training.x[items]), target[items]
        smooth, ranked, ranking = (torch.cat([plain, warm]), cold, cold_loss) if step < WARM else (plain, direct, loss)
        entropies = binary_cross_entropy_with_logits(
            scores[smooth], labels.float().expand(len(smooth), BATCH), reduction="none"
        )
        total = entropies.mean(-1).sum() + ranking(scores[ranked], labels.expand(len(ranked), BATCH)).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    by_start = starts.argsort()  # the one below one half first
    found = {"start_auc": starts[by_start].tolist()}
    for name, task in (("ap", AveragePrecision()), ("auc", ROCAUC())):
        found[name] = measured(task, weights, test).reshape(2, len(METHODS))[by_start].tolist()
    return {name: torch.tensor(values).double().round(decimals=4).tolist() for name, values in found.items()}


def main() -> None:
    """Make the runs that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="starts of each kind for every table and noise")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = Runs(RESULTS, SETTINGS)
    keys = [
        {"table": table, "noise": noise, "rate": rate, "seed": seed}
        for seed in range(arguments.seeds)
        for rate in RATES
        for table in TABLES
        for noise in NOISES
    ]
    for done, key in enumerate(keys):
        if not runs.has(**key):
            start = time.perf_counter()
            found = run(load(arguments.data, key["table"]), key["noise"], key["rate"], key["seed"])
            runs.add({**key, **found})
            print(f"{done + 1} of {len(keys)}", key, f"{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
