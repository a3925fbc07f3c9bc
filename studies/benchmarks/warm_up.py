"""The start-up trap: pos-AP from starts that rank more pairs right than wrong and from their opposites.

A start and the same network with the sign of its last layer turned have AUCs that add up to 1, so one of the two is
below one half. From both, networks are trained by cross-entropy and by pos-AP with several ε: at once; with
cross-entropy for the first tenth of the steps; and so with a new optimizer after these steps. All of them see the same
batches. Those of one kind are trained as one stack.

    python -m studies.benchmarks.warm_up --data DIR     # goes on if it is there
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from directloss_studies.data.label_noise import flip_labels
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from directloss import ROCAUC, AveragePrecision, PositiveDirect, StructuredLoss
from studies.benchmarks.tables import TABLES, Part, Runs, load, split

RESULTS = Path(__file__).parent.parent / "results" / "warm_up.json"
EPSILONS = (0.1, 1.0, 10.0, 100.0)
KINDS = ("x-ent", "cold", "warm", "warm, new optimizer")
NOISES = (0.0, 0.2, 0.4)
SEEDS = {0.001: 4, 0.01: 2}
"""How many of each learning rate."""
STEPS, WARM, BATCH, HIDDEN, ROWS = 600, 60, 512, 64, 20_000
SETTINGS = {"epsilons": EPSILONS, "steps": STEPS, "warm": WARM, "batch": BATCH, "hidden": HIDDEN, "rows": ROWS}


def stack(columns: int, networks: int, generator: torch.Generator) -> list[Tensor]:
    """Weights and biases of networks that start alike, as torch.nn.Linear draws, and of as many opposite ones."""
    weights = []
    for inputs, outputs in ((columns, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)):
        for shape in ((inputs, outputs), (1, outputs)):
            drawn = (2 * torch.rand(shape, generator=generator) - 1) / inputs**0.5
            signs = (1, -1) if outputs == 1 else (1, 1)
            weights.append(torch.stack([sign * drawn for sign in signs for _ in range(networks)]).requires_grad_())
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


def run(table: Part, noise: float, rate: float, seed: int, kind: str) -> dict[str, Any]:
    """AP and AUC on clean test data from the start below one half and from the one above it, ε by ε."""
    generator = torch.Generator().manual_seed(seed)
    training, _, test = split(table, ROWS, (0.5, 0.0), generator)
    target = flip_labels(training.target, noise, generator)
    networks = 1 if kind == "x-ent" else len(EPSILONS)
    weights = stack(training.x.shape[1], networks, generator)
    starts = measured(ROCAUC(), weights, training)[::networks]
    optimizer = torch.optim.Adam(weights, rate)
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(torch.tensor(EPSILONS).repeat(2)), "none")
    warm = {"x-ent": STEPS, "cold": 0}.get(kind, WARM)
    order = torch.empty(0, dtype=torch.int64)
    for step in range(STEPS):
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(target), generator=generator)])
        items, order = order[:BATCH], order[BATCH:]
        if step == WARM and kind == "warm, new optimizer":
            optimizer = torch.optim.Adam(weights, rate)
        scores = scores_of(weights, training.x[items])
        labels = target[items].expand_as(scores)
        if step < warm:
            values = binary_cross_entropy_with_logits(scores, labels.float(), reduction="none").mean(-1)
        else:
            values = loss(scores, labels)
        optimizer.zero_grad()
        values.sum().backward()
        optimizer.step()
    by_start = starts.argsort()  # the one below one half first
    found = {"start_auc": starts[by_start]}
    for name, task in (("ap", AveragePrecision()), ("auc", ROCAUC())):
        found[name] = measured(task, weights, test).reshape(2, networks)[by_start]
    return {name: values.double().round(decimals=4).tolist() for name, values in found.items()}


def main() -> None:
    """Make the runs that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the tables")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = Runs(RESULTS, SETTINGS)
    keys = [
        {"table": table, "noise": noise, "rate": rate, "seed": seed, "kind": kind}
        for rate, seeds in SEEDS.items()
        for seed in range(seeds)
        for table in TABLES
        for noise in NOISES
        for kind in KINDS
    ]
    for done, key in enumerate(keys):
        if not runs.has(**key):
            start = time.perf_counter()
            found = run(load(arguments.data, key["table"]), *(key[k] for k in ("noise", "rate", "seed", "kind")))
            runs.add({**key, **found})
            print(f"{done + 1} of {len(keys)}", key, f"{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
