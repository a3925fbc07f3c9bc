"""What a ranking of more than a mini-batch gains: plain batches, two-pass accumulation and `ScoreMemory`.

Two large tables, clean and with 40 % of the labels of training and validation flipped. Every method makes the same
number of epochs, of which the first tenth of the steps is cross-entropy. The step size is the one with the highest AP
on the validation labels. What counts is AP on clean test labels, and the time of a training on one thread. Then one
epoch of batches of 32 on clean labels, many of which have no positive.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, median

import torch
from torch import Tensor, nn

from directloss import AveragePrecision, AveragePrecisionLoss, PositiveDirect, ScoreMemory, WarmUp, accumulate, metric

from .data.label_noise import flip_labels
from .data.whole_tables import Rows, WholeTable, find_tables, split
from .harness import study as harness
from .harness.options import DataOptions
from .harness.progress import Progress, Steps, no_progress, no_steps
from .harness.study import Record, Study, Summary
from .report.outcomes import Outcomes, Unit, records
from .report.summary import methods_table, of_group
from .report.words import percent
from .sweep import Setting

__all__ = ["METHODS", "PLAIN", "STUDY", "Config", "Result", "configs", "prepare", "run", "summarise"]

TABLES = ("cover", "celeba")
PLAIN = "batch"
METHODS = ("x-ent", PLAIN, "two passes", "memory")
RATES = (0.001, 0.003, 0.01, 0.03)
BATCH, SMALL, CHUNKS, HIDDEN, EPSILON, SHARES, SEEDS = 512, 32, 8, 64, 1.0, (0.5, 0.2), 3


@dataclass(frozen=True)
class Config:
    """One method with batches of one size, on one table at one noise rate, from one seed; with all step sizes."""

    method: str
    seed: int
    noise: float
    batch: int
    source: tuple[WholeTable, ...]
    """One table."""
    iterations: int
    """Epochs."""
    settings: tuple[Setting, ...]

    @property
    def variant(self) -> str:
        """Table and size of batches."""
        return f"{self.source[0].name}, batches of {self.batch}"

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.variant}, {self.method}, {percent(self.noise)} flipped, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """AP on noisy validation and on clean test data, and seconds of a training, by setting."""

    validation: tuple[float, ...]
    test: tuple[float, ...]
    seconds: tuple[float, ...]

    def check(self, config: Config) -> None:
        """Raise a ValueError unless all settings are there, and AP is from 0 to 1."""
        if {len(self.validation), len(self.test), len(self.seconds)} != {len(config.settings)}:
            raise ValueError(f"validation, test and seconds must have {len(config.settings)} settings")
        if not all(0 <= value <= 1 for value in (*self.validation, *self.test)):
            raise ValueError("validation and test must be AP, from 0 to 1")

    @property
    def chosen(self) -> float:
        """Test AP of the first setting that is best on validation data."""
        return self.test[self.validation.index(max(self.validation))]


Run = harness.Run[Config, Result]


def prepare(options: DataOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[tuple[WholeTable, ...], list[str]]:
    """Read the tables into the cache."""
    return find_tables(options, TABLES), []


def configs(options: DataOptions, source: tuple[WholeTable, ...] | None = None) -> list[Config]:
    """The paper preset takes about half an hour on one core, the quick one less than a minute."""
    paper = options.preset == "paper"
    tables = source or (tuple(WholeTable(name, "") for name in TABLES) if paper else (WholeTable("made", ""),))
    batch, epochs = (BATCH, 5) if paper else (64, 3)
    large, small = (tuple(Setting(EPSILON, rate, 0.0) for rate in rates) for rates in (RATES, RATES[:2]))
    return [
        Config(method, seed, noise, size, (table,), count, settings)
        for seed in range(options.seeds or (SEEDS if paper else 2))
        for size, noises, count, settings in ((batch, (0.0, 0.4), epochs, large), (SMALL, (0.0,), 1, small))
        for noise, table, method in product(noises, tables, METHODS)
        if size != SMALL or method != "two passes"
    ]


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train with every step size. Flipped labels strike training and validation."""
    measured: list[tuple[float, float, float]] = []
    for setting in config.settings:
        generator = torch.Generator().manual_seed(config.seed)
        parts = split(config.source[0], None, SHARES, generator)
        training, validation = (
            Rows(part.inputs, flip_labels(part.target, config.noise, generator)) for part in parts[:2]
        )
        start = time.process_time()
        network = train(config.method, training, setting.learning_rate, config.seed, config.batch, config.iterations)
        seconds = round(time.process_time() - start, 2)
        measured.append((average_precision(network, validation), average_precision(network, parts.test), seconds))
        progress(len(measured) / len(config.settings))
    return Result(*zip(*measured, strict=True))


def train(method: str, training: Rows, rate: float, seed: int, batch: int, epochs: int) -> nn.Module:
    """A network trained by a method."""
    inputs, target = training
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, second, last = nn.Linear(inputs.shape[1], HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)
        network = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last, nn.Flatten(0))
        optimizer = torch.optim.Adam(network.parameters(), rate)
        rows = batch * CHUNKS if method == "two passes" else batch
        steps = epochs * (len(inputs) // rows)
        loss = WarmUp(AveragePrecisionLoss(PositiveDirect(EPSILON)), steps if method == "x-ent" else steps // 10)
        memory = ScoreMemory(loss, target)
        for _ in range(epochs):
            order = torch.randperm(len(inputs))
            for items in order[: len(inputs) // rows * rows].split(rows):
                optimizer.zero_grad()
                if method == "two passes":
                    _pass_twice(network, loss, inputs[items].split(batch), target[items])
                elif method == "memory":
                    memory(network(inputs[items]), items).backward()
                else:
                    loss(network(inputs[items]), target[items]).backward()
                optimizer.step()
    return network


def _pass_twice(network: nn.Module, loss: nn.Module, chunks: tuple[Tensor, ...], target: Tensor) -> None:
    accumulate(network, lambda: chunks, lambda scores: loss(scores, target))


@torch.no_grad()
def average_precision(network: nn.Module, rows: Rows) -> float:
    """Of the network's scores."""
    return round(metric(AveragePrecision(), network(rows.inputs), rows.target).item(), 4)


def summarise(runs: Sequence[Run]) -> Summary:
    """Test AP of the step size chosen on validation data, the gain over plain batches, and the time of a training."""
    test, gains, seconds = Outcomes(), Outcomes(), {}
    for run in runs:
        config = run.config
        test.put(config.variant, config.noise, config.method, Unit(config.seed), run.result.chosen)
        seconds.setdefault((config.variant, config.noise, config.method), []).extend(run.result.seconds)
    for group in test.groups():
        if group.method != PLAIN:
            compared = test.compare(*group, PLAIN, "")
            for seed, value in enumerate(compared.differences):
                gains.put(*group, Unit(seed), value)
    times = [
        Record("score-memory", method, noise, variant, None, "median_seconds", median(values), None, len(values))
        for (variant, noise, method), values in seconds.items()
    ]
    columns = {(of.variant, of.noise): f"{of.variant}, {percent(of.noise)}" for of in test.groups()}
    tables = [
        methods_table(
            title, {name: of_group(outcomes, *of) for of, name in columns.items()}, METHODS,
            shown=lambda values: f"{fmean(values):.3f}",
        )
        for title, outcomes in (("Test AP, by share of flipped labels", test), ("Minus plain batches", gains))
    ]  # fmt: skip
    flat = [*records("score-memory", "test_ap", test), *records("score-memory", "minus_plain_batches", gains), *times]
    return Summary(flat, tables=tables)


STUDY = Study[DataOptions, tuple[WholeTable, ...], Config, Result](
    name="score-memory",
    title="Rankings of more than a mini-batch",
    about=(
        "Two large tables with few positives, half of the rows for training and a fifth for validation. Training and "
        "validation labels are clean, or 40 % of them are flipped. A network with two hidden layers of 64 makes five "
        "epochs of Adam with batches of 512, or one with batches of 32, the first tenth of the steps with "
        "cross-entropy. pos-AP has plain batches, eight batches ranked together in two passes, or a memory of the "
        "scores of all training rows. The step size is chosen on validation data."
    ),
    version=1,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
)
