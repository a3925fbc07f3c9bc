"""Label noise (the paper's Figure 3b, in small): clean test AP after training on flipped labels.

A small network learns to tell points of large norm from points of small norm, ten dimensions, 1000 samples, of which a
share has the wrong label. Each method's step size and ε (or margin, or loss scale) are chosen among as many settings by
AP on a noisy validation set; each network is trained to the end. The full study, with its grids, follows the paper more
closely; this one fits into two minutes and shows whether the idea works here.

Inputs are divided by their standard deviation, for all methods alike: on the raw ones cross-entropy memorises within a
few steps and falls behind even on clean labels.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
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


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Draw test AP against noise, with the spread over seeds."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "directloss", "font.size": 10})
    figure, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    styles = {"pos-AP": ("o-", "#0072B2"), "hinge-AP": ("s--", "#D55E00"), "x-ent": ("^:", "#009E73")}
    for method, (style, colour) in styles.items():
        points = [record for record in records if record["method"] == method]
        axes.errorbar(
            [100 * point["noise"] for point in points], [point["mean"] for point in points],
            yerr=[point["sd"] for point in points], fmt=style, color=colour, capsize=3, label=method,
        )  # fmt: skip
    axes.set(xlabel="flipped training labels, %", ylabel="AP on clean test data")
    axes.grid(True, alpha=0.3)
    axes.legend(frameon=False)
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    _write(path, buffer.getvalue())


def main(arguments: list[str] | None = None) -> int:
    """Run the experiment with a progress bar and print the table."""
    parser = argparse.ArgumentParser(prog="./dev run", description="Train on flipped labels; print AP on clean ones.")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.2, 0.3], help="shares of flipped labels")
    parser.add_argument("--seeds", type=int, default=3, help="how many data sets and networks (default 3)")
    parser.add_argument("--iterations", type=int, default=300, help="of each training (default 300)")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--figure", type=Path, help="also draw them into this SVG file")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.iterations < 1:
        parser.error("--seeds and --iterations must be at least 1")
    if not all(0 <= noise <= 1 for noise in options.noise):
        parser.error("--noise takes shares from 0 to 1, e.g. 0.2 for 20 %")
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Table
    except ModuleNotFoundError as error:
        print(f"{error.name} is missing; install it with: pip install 'directloss[experiments]'", file=sys.stderr)
        return 1

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # networks this small only wait for a second one
    console = Console()
    cases = [(method, noise) for method in METHODS for noise in options.noise]
    settings = len(LEARNING_RATES) * max(len(strengths) for strengths in METHODS.values())
    total = len(cases) * options.seeds * settings * options.iterations
    columns = (TextColumn("{task.description:<22}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    records: list[dict[str, Any]] = []
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("starting", total=total)
        for method, noise in cases:
            progress.update(bar, description=f"{method}, {noise:.0%} flipped")
            chosen: list[tuple[Config, Result]] = []
            for seed in range(options.seeds):
                runs = [
                    (config, run(config, after=lambda _: progress.advance(bar)))
                    for config in _grid(method, noise, seed, iterations=options.iterations)
                ]
                chosen.append(max(runs, key=lambda pair: pair[1].validation))
            tests = [result.test for _, result in chosen]
            records.append(
                {
                    "method": method,
                    "noise": noise,
                    "mean": mean(tests),
                    "n": len(tests),
                    "sd": stdev(tests) if len(tests) > 1 else 0.0,
                    "test": tests,
                    "chosen": [{"strength": c.strength, "learning_rate": c.learning_rate} for c, _ in chosen],
                }
            )
    torch.set_num_threads(threads)
    table = Table(title="AP on clean test data, by share of flipped training labels")
    table.add_column("method")
    for noise in options.noise:
        table.add_column(f"{noise:.0%}", justify="right")
    for method in METHODS:
        cells = [f"{r['mean']:.3f} ± {r['sd']:.3f}" for r in records if r["method"] == method]
        table.add_row(method, *cells)
    console.print(table)
    console.print(
        f"Mean ± standard deviation of {options.seeds} seeds; {settings} settings for every method, chosen by AP on "
        "validation data with flipped labels; trained to the end."
    )
    command = f"./dev run --seeds {options.seeds} --noise {' '.join(f'{noise:g}' for noise in options.noise)}"
    if options.iterations != parser.get_default("iterations"):
        command += f" --iterations {options.iterations}"
    if options.json:
        _write(options.json, json.dumps({"command": command, "records": records}, indent=1) + "\n")
    if options.figure:
        draw(records, options.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
