"""The start-up trap: pos-AP from starts that rank more pairs right than wrong, and from their opposites.

A start and the same network with the sign of its last layer changed have AUCs that add up to 1, so one of the two is
below one half. From both, networks train by cross-entropy and by pos-AP with several ε: at once; with cross-entropy for
the first tenth of the steps; and so with a new optimizer after these steps. All of them see the same batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from directloss import ROCAUC, AveragePrecision, PositiveDirect, StructuredLoss

from .data.label_noise import flip_labels
from .data.whole_tables import FILES, Rows, WholeTable, find_tables, split
from .harness import study as harness
from .harness.options import DataOptions
from .harness.progress import Progress, Steps, no_progress, no_steps
from .harness.study import Record, Study, Summary, Table
from .report.outcomes import Outcomes, Unit, records
from .report.summary import methods_table, of_group
from .report.words import percent

__all__ = ["METHODS", "STARTS", "STUDY", "Config", "Result", "configs", "prepare", "run", "summarise"]

EPSILONS = (0.1, 1.0, 10.0, 100.0)
KINDS = {"x-ent": "", "cold": "", "warm": ", warm-up", "warm, new optimizer": ", warm-up, new optimizer"}
"""How a training begins: its name in configurations, and what it adds to the name of a method."""
NOISES = (0.0, 0.2, 0.4)
STARTS = ("below ½", "above ½")
"""AUC of the start."""
STEPS, BATCH, HIDDEN, ROWS, SEEDS = 600, 512, 64, 20_000, 4


def _method(kind: str, epsilon: float) -> str:
    return kind if kind == "x-ent" else f"ε = {epsilon:g}{KINDS[kind]}"


METHODS = ("x-ent", *(_method(kind, epsilon) for epsilon in EPSILONS for kind in KINDS if kind != "x-ent"))
"""As tables and published records name them."""


@dataclass(frozen=True)
class Config:
    """One way to begin, on one table at one noise rate and step size, from one seed; with every ε."""

    method: str
    """One of `KINDS`."""
    seed: int
    noise: float
    learning_rate: float
    source: tuple[WholeTable, ...]
    """One table."""
    iterations: int

    @property
    def table(self) -> str:
        """Its name."""
        return self.source[0].name

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        where = f"{self.table}, {percent(self.noise)} flipped, step size {self.learning_rate:g}"
        return f"{self.method}, {where}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """Of both starts, the one below one half first: its AUC on clean training labels; test AP and AUC by ε."""

    start_auc: tuple[float, float]
    ap: tuple[tuple[float, ...], tuple[float, ...]]
    auc: tuple[tuple[float, ...], tuple[float, ...]]

    def check(self, config: Config) -> None:
        """Raise a ValueError unless there is a number from 0 to 1 for every ε."""
        count = 1 if config.method == "x-ent" else len(EPSILONS)
        if any(len(row) != count or not all(0 <= value <= 1 for value in row) for row in (*self.ap, *self.auc)):
            raise ValueError(f"ap and auc must have {count} numbers from 0 to 1")


Run = harness.Run[Config, Result]


def prepare(options: DataOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[tuple[WholeTable, ...], list[str]]:
    """Read the tables into the cache."""
    return find_tables(options, tuple(FILES)), []


def configs(options: DataOptions, source: tuple[WholeTable, ...] | None = None) -> list[Config]:
    """The larger step size has half as many seeds. The paper preset takes about an hour on one core."""
    paper = options.preset == "paper"
    seeds = options.seeds or (SEEDS if paper else 2)
    tables = source or (tuple(WholeTable(name, "") for name in FILES) if paper else (WholeTable("made", ""),))
    return [
        Config(kind, seed, noise, rate, (table,), STEPS if paper else STEPS // 6)
        for rate, count in ((0.001, seeds), (0.01, (seeds + 1) // 2))
        for seed in range(count)
        for table in tables
        for noise in (NOISES if paper else NOISES[::2])
        for kind in KINDS
    ]


def starts(columns: int, networks: int, generator: torch.Generator) -> list[Tensor]:
    """Weights and biases of networks that start alike, as torch.nn.Linear draws, and of as many opposite ones."""
    weights = []
    for inputs, outputs in ((columns, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)):
        for shape in ((inputs, outputs), (1, outputs)):
            drawn = (2 * torch.rand(shape, generator=generator) - 1) / inputs**0.5
            signs = (1, -1) if outputs == 1 else (1, 1)
            weights.append(torch.stack([sign * drawn for sign in signs for _ in range(networks)]).requires_grad_())
    return weights


def score(weights: list[Tensor], inputs: Tensor) -> Tensor:
    """(networks, rows) scores of rows (rows, columns)."""
    out = inputs.expand(len(weights[0]), *inputs.shape)
    for k in range(0, 6, 2):
        out = torch.baddbmm(weights[k + 1], out if k == 0 else out.relu(), weights[k])
    return out.squeeze(-1)


def measure(task: ROCAUC | AveragePrecision, weights: list[Tensor], rows: Rows) -> Tensor:
    """The metric of every network."""
    with torch.no_grad():
        scores = torch.cat([score(weights, inputs) for inputs in rows.inputs.split(2048)], -1)
        return 1 - task.infer(scores, rows.target.expand_as(scores)).loss


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train both starts with every ε."""
    generator = torch.Generator().manual_seed(config.seed)
    training, _, test = split(config.source[0], ROWS, (0.5, 0.0), generator)
    target = flip_labels(training.target, config.noise, generator)
    networks = 1 if config.method == "x-ent" else len(EPSILONS)
    weights = starts(training.inputs.shape[1], networks, generator)
    start_auc = measure(ROCAUC(), weights, training)[::networks]
    optimizer = torch.optim.Adam(weights, config.learning_rate)
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(torch.tensor(EPSILONS).repeat(2)), "none")
    tenth = config.iterations // 10
    warm = {"x-ent": config.iterations, "cold": 0}.get(config.method, tenth)
    order = torch.empty(0, dtype=torch.int64)
    for step in range(config.iterations):
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(target), generator=generator)])
        items, order = order[:BATCH], order[BATCH:]
        if step == tenth and config.method == "warm, new optimizer":
            optimizer = torch.optim.Adam(weights, config.learning_rate)
        scores = score(weights, training.inputs[items])
        labels = target[items].expand_as(scores)
        if step < warm:
            values = binary_cross_entropy_with_logits(scores, labels.float(), reduction="none").mean(-1)
        else:
            values = loss(scores, labels)
        optimizer.zero_grad()
        values.sum().backward()
        optimizer.step()
        progress((step + 1) / config.iterations)
    by_start = start_auc.argsort()  # the one below one half first

    def rounded(values: Tensor) -> tuple[float, ...]:
        return tuple(values.double().round(decimals=4).tolist())

    ap, auc = (measure(task, weights, test).reshape(2, networks)[by_start] for task in (AveragePrecision(), ROCAUC()))
    return Result(rounded(start_auc[by_start]), tuple(map(rounded, ap)), tuple(map(rounded, auc)))  # pyright: ignore


def _ends(runs: Sequence[Run]) -> dict[str, dict[str, Outcomes]]:
    """By class of trainings and metric, of starts whose trainings are all there; the class "" has all trainings.

    Classes are tables and step sizes. A training fails if its test AUC is below one half (the wrong way), or its test
    AP below half of that of cross-entropy from the same start (poor).
    """
    by_start: dict[tuple[str, float, float, int], dict[str, Result]] = {}
    for run in runs:
        config = run.config
        key = config.table, config.learning_rate, config.noise, config.seed
        by_start.setdefault(key, {})[config.method] = run.result
    ends: dict[str, dict[str, Outcomes]] = {}
    for (table, rate, noise, seed), results in by_start.items():
        if results.keys() < KINDS.keys():
            continue
        for (kind, result), (place, start) in product(results.items(), enumerate(STARTS)):
            plain = results["x-ent"].ap[place][0]
            for k, (ap, auc) in enumerate(zip(result.ap[place], result.auc[place], strict=True)):
                values = {"test_ap": ap, "wrong_way": auc < 0.5, "poor": ap < plain / 2}
                values["failed"] = values["wrong_way"] or values["poor"]
                if kind.startswith("warm"):
                    values["minus_cold"] = ap - results["cold"].ap[place][k]
                unit = Unit(seed, f"{table}, {rate:g}")
                for of, (metric, value) in product(("", table, f"learning rate {rate:g}"), values.items()):
                    outcomes = ends.setdefault(of, {}).setdefault(metric, Outcomes())
                    outcomes.put(start, noise, _method(kind, EPSILONS[k]), unit, float(value))
    return ends


def _records(ends: Mapping[str, Mapping[str, Outcomes]]) -> list[Record]:
    return [
        record._replace(class_=of or None)
        for of, metrics in sorted(ends.items())
        for metric, outcomes in metrics.items()
        if not of or metric in ("wrong_way", "failed")
        for record in records("warm-up", metric, outcomes)
    ]


def summarise(runs: Sequence[Run]) -> Summary:
    """How trainings end, by share of flipped labels and by the AUC of their start."""
    ends = _ends(runs)
    tables = []
    for metric, title in (
        ("test_ap", "Mean test AP"),
        ("failed", "Share of trainings that failed: test AUC below one half, or half of the AP of cross-entropy lost"),
        ("minus_cold", "Mean test AP minus that without a warm-up"),
    ):
        if "" in ends:
            tables.append(_table(f"{title}, by share of flipped labels and AUC of the start", ends[""][metric]))
    return Summary(_records(ends), tables=tables)


def _table(title: str, outcomes: Outcomes) -> Table:
    columns = {
        f"{percent(noise)}, {start}": of_group(outcomes, start, noise)
        for noise in outcomes.levels(STARTS[0])
        for start in STARTS
    }
    return methods_table(title, columns, METHODS, shown=lambda values: f"{fmean(values):.3f}")


STUDY = Study[DataOptions, tuple[WholeTable, ...], Config, Result](
    name="warm-up",
    title="Warm-up: pos-AP from starts that rank most pairs wrong",
    about=(
        "Six tables of at most 20,000 rows, half for training and half for tests; a share of the training labels is "
        "flipped. A network with two hidden layers of 64 makes 600 steps of Adam with batches of 512. Every seed gives "
        "two starts whose AUCs add up to 1. The warm-up is cross-entropy for a tenth of the steps."
    ),
    version=1,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
)
