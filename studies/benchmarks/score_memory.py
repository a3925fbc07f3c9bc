"""What a ranking of more than a mini-batch gains: plain batches, two-pass accumulation and `ScoreMemory`.

Two large tables, clean and with 40 % of the labels of training and validation flipped. Every method makes the same
number of epochs, of which the first tenth of the steps is cross-entropy. The learning rate is the one with the highest
AP on the validation labels. What counts is AP on clean test labels, and the CPU time of a training on one thread.
Then one epoch of batches of 32 on clean labels, many of which have no positive.

    python -m studies.benchmarks.score_memory --data DIR    # or goes on
"""

import argparse
import time
from pathlib import Path

import torch
from directloss_studies.data.label_noise import flip_labels
from torch import Tensor, nn

from directloss import AveragePrecision, AveragePrecisionLoss, PositiveDirect, ScoreMemory, WarmUp, accumulate, metric
from studies.benchmarks.tables import Part, Runs, load, split

RESULTS = Path(__file__).parent.parent / "results" / "score_memory.json"
NAMES = ("cover", "celeba")
NOISES = (0.0, 0.4)
METHODS = ("x-ent", "batch", "two passes", "memory")
RATES = (0.001, 0.003, 0.01, 0.03)
EPOCHS, BATCH, CHUNKS, HIDDEN, EPSILON, SHARES, SEEDS = 5, 512, 8, 64, 1.0, (0.5, 0.2), 3
SMALL = {"batch": 32, "epochs": 1, "rates": (0.001, 0.003)}
SMALL_METHODS = {"x-ent of 32": "x-ent", "batch of 32": "batch", "memory of 32": "memory"}
SETTINGS = {
    "epochs": EPOCHS,
    "batch": BATCH,
    "chunks": CHUNKS,
    "hidden": HIDDEN,
    "epsilon": EPSILON,
    "rates": RATES,
    "shares": SHARES,
    "small": SMALL,
}


def mlp(columns: int) -> nn.Sequential:
    """Two hidden layers, and one score a row."""
    first, second, last = nn.Linear(columns, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last, nn.Flatten(0))


def train(method: str, training: Part, rate: float, seed: int, batch: int, epochs: int) -> nn.Module:
    """A network trained by a method."""
    torch.manual_seed(seed)
    x, target = training
    network = mlp(x.shape[1])
    optimizer = torch.optim.Adam(network.parameters(), rate)
    rows = batch * CHUNKS if method == "two passes" else batch
    steps = epochs * (len(x) // rows)
    loss = WarmUp(AveragePrecisionLoss(PositiveDirect(EPSILON)), steps if method == "x-ent" else steps // 10)
    memory = ScoreMemory(loss, target)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for items in order[: len(x) // rows * rows].split(rows):
            optimizer.zero_grad()
            if method == "two passes":
                _pass_twice(network, loss, x[items].split(batch), target[items])
            elif method == "memory":
                memory(network(x[items]), items).backward()
            else:
                loss(network(x[items]), target[items]).backward()
            optimizer.step()
    return network


def _pass_twice(network: nn.Module, loss: nn.Module, chunks: tuple[Tensor, ...], target: Tensor) -> None:
    accumulate(network, lambda: chunks, lambda scores: loss(scores, target))


@torch.no_grad()
def measured(network: nn.Module, part: Part) -> float:
    """Average precision."""
    return round(metric(AveragePrecision(), network(part.x), part.target).item(), 4)


def main() -> None:
    """Make the runs that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="splits and starts of every table and noise")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = Runs(RESULTS, SETTINGS)
    keys = [
        {"table": table, "noise": noise, "seed": seed, "method": method, "rate": rate}
        for seed in range(arguments.seeds)
        for noise in NOISES
        for table in NAMES
        for method in METHODS
        for rate in RATES
    ]
    keys += [
        {"table": table, "noise": 0.0, "seed": seed, "method": method, "rate": rate}
        for seed in range(arguments.seeds)
        for table in NAMES
        for method in SMALL_METHODS
        for rate in SMALL["rates"]
    ]
    tables = {table: load(arguments.data, table) for table in NAMES}
    for done, key in enumerate(keys):
        if runs.has(**key):
            continue
        generator = torch.Generator().manual_seed(key["seed"])
        training, validation, test = split(tables[key["table"]], None, SHARES, generator)
        training, validation = (
            Part(part.x, flip_labels(part.target, key["noise"], generator)) for part in (training, validation)
        )
        method, size = SMALL_METHODS.get(key["method"]), (BATCH, EPOCHS)
        if method:
            size = SMALL["batch"], SMALL["epochs"]
        start = time.process_time()
        network = train(method or key["method"], training, key["rate"], key["seed"], *size)
        seconds = round(time.process_time() - start, 2)
        found = {"validation": measured(network, validation), "test": measured(network, test), "seconds": seconds}
        runs.add({**key, **found})
        print(f"{done + 1} of {len(keys)}", key, found, flush=True)


if __name__ == "__main__":
    main()
