"""Label noise (the paper's Figure 3b, in small): clean test AP after training on flipped labels.

A small network learns to tell points of large norm from points of small norm, ten dimensions, 1000 samples, of which a
share has the wrong label. Each method's step size and ε (or margin, or loss scale) are chosen among as many settings by
AP on a noisy validation set; each network is trained to the end. The full study, with its grids, follows the paper more
closely; this one fits into a minute and shows whether the idea works here.

Inputs are divided by their standard deviation, for all methods alike. On the raw ones the AP losses do as well, but
cross-entropy memorises within a few steps and reaches a test AP of 0.88 on clean labels, where it reaches 0.98 so.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor, nn

from ..data.label_noise import flip_labels
from ..data.synthetic import two_shells
from ..loss import AveragePrecisionLoss
from ..tasks.average_precision import AveragePrecision
from ..training import train
from ..update import Hinge, PositiveDirect

__all__ = ["METHODS", "Config", "Result", "main", "run"]


def _cross_entropy(scale: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, target: nn.functional.binary_cross_entropy_with_logits(scale * scores, target.float())


METHODS: dict[str, dict[float, Callable[[Tensor, Tensor], Tensor]]] = {
    "pos-AP": {epsilon: AveragePrecisionLoss(PositiveDirect(epsilon)) for epsilon in (1.0, 10.0, 100.0)},
    "hinge-AP": {margin: AveragePrecisionLoss(Hinge(margin)) for margin in (1.0, 10.0, 100.0)},
    "x-ent": {scale: _cross_entropy(scale) for scale in (1.0, 0.1, 0.01)},
}
"""Each method's losses by strength: ε, margin, or scale of the scores."""

LEARNING_RATES = (0.01, 0.003, 0.001)


@dataclass(frozen=True)
class Config:
    """One run: a method at a noise rate from a seed, with one setting."""

    method: str
    noise: float
    seed: int
    strength: float
    learning_rate: float
    samples: int = 1000
    width: int = 32
    iterations: int = 300


@dataclass(frozen=True)
class Result:
    """AP of a run on the noisy validation set and on the clean test set."""

    validation: float
    test: float


def _standardised(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    inputs, target = two_shells(samples, generator)
    return inputs / 10, target


def _average_precision(network: nn.Module, inputs: Tensor, target: Tensor) -> float:
    with torch.no_grad():
        return 1 - AveragePrecision().infer(network(inputs).squeeze(-1), target).loss.item()


def run(config: Config, after: Callable[[int], object] = lambda iteration: None) -> Result:
    """Train one network to the end."""
    generator = torch.Generator().manual_seed(config.seed)
    inputs, target = _standardised(config.samples, generator)
    validation_inputs, validation_target = _standardised(config.samples, generator)
    test_inputs, test_target = _standardised(5000, generator)
    target = flip_labels(target, config.noise, generator)
    validation_target = flip_labels(validation_target, config.noise, generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = nn.Sequential(
            nn.Linear(10, config.width), nn.ReLU(), nn.Linear(config.width, config.width), nn.ReLU(),
            nn.Linear(config.width, 1),
        )  # fmt: skip
    train(
        network, METHODS[config.method][config.strength], inputs, target,
        learning_rate=config.learning_rate, iterations=config.iterations, after=after,
    )  # fmt: skip
    return Result(
        _average_precision(network, validation_inputs, validation_target),
        _average_precision(network, test_inputs, test_target),
    )


def _grid(method: str, noise: float, seed: int, **rest: Any) -> Iterator[Config]:
    for strength in METHODS[method]:
        for learning_rate in LEARNING_RATES:
            yield Config(method, noise, seed, strength, learning_rate, **rest)


def main(arguments: list[str] | None = None) -> int:
    """Run the experiment with a progress bar and print the table."""
    parser = argparse.ArgumentParser(prog="./dev run", description=run.__doc__)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.2, 0.3], help="shares of flipped labels")
    parser.add_argument("--seeds", type=int, default=3, help="how many data sets and networks (default 3)")
    parser.add_argument("--iterations", type=int, default=300, help="of each training (default 300)")
    options = parser.parse_args(arguments)
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Table
    except ModuleNotFoundError as error:
        print(f"{error.name} is missing; install it with: pip install 'directloss[experiments]'", file=sys.stderr)
        return 1

    console = Console()
    table = Table(title="Test AP (clean labels) after training on flipped labels, mean ± standard deviation over seeds")
    table.add_column("method")
    for noise in options.noise:
        table.add_column(f"{noise:.0%} flipped", justify="right")
    cases = {
        (method, noise): [
            list(_grid(method, noise, seed, iterations=options.iterations)) for seed in range(options.seeds)
        ]
        for method in METHODS
        for noise in options.noise
    }
    total = sum(len(grid) for grids in cases.values() for grid in grids) * options.iterations
    columns = (TextColumn("{task.description:<22}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    rows: dict[str, list[str]] = {method: [] for method in METHODS}
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("starting", total=total)
        for (method, noise), grids in cases.items():
            progress.update(bar, description=f"{method}, {noise:.0%} flipped")
            tests = []
            for grid in grids:
                results = [run(config, after=lambda _: progress.advance(bar)) for config in grid]
                tests.append(max(results, key=lambda result: result.validation).test)
            spread = f" ± {stdev(tests):.3f}" if len(tests) > 1 else ""
            rows[method].append(f"{mean(tests):.3f}{spread}")
    for method, cells in rows.items():
        table.add_row(method, *cells)
    console.print(table)
    console.print(
        f"{options.seeds} seeds; {len(LEARNING_RATES)} step sizes × 3 strengths for every method, chosen by AP on "
        "validation data with flipped labels; no early stopping."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
