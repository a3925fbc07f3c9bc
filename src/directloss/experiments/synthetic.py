"""Synthetic data (the paper's Figure 3a): nine methods learn to rank like a random network."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

import torch

from .data.synthetic import ranked_by_teacher
from .harness import experiment as harness
from .harness.experiment import Claim, Comparison, Experiment, Figure, Record, Summary, Table
from .harness.options import Options
from .harness.progress import Progress, no_progress
from .networks import Networks
from .report.figures import bars, lines, series
from .report.summary import (
    USUAL,
    USUAL_NOTE,
    Outcomes,
    cell,
    choices_table,
    claim,
    collect,
    compare,
    records,
    with_usual,
)
from .sweep import Choice, Curves, Setting, choose, grid, sweep

__all__ = ["EXPERIMENT", "Config", "Result", "configs", "run", "summarise"]

METHODS = ("pos-AP", "neg-AP", "hinge-AP", "per-AP", "pos-01", "neg-01", "hinge-01", "per-01", "x-ent")
STRENGTHS: dict[str, tuple[float, ...]] = {
    "pos-AP": (0.1, 1.0, 10.0),
    "neg-AP": (0.001, 0.01, 0.1),
    "hinge-AP": (10.0, 100.0, 1000.0),
    "per-AP": (1.0, 1.0, 1.0),
    "pos-01": (0.1, 1.0, 10.0),
    "neg-01": (1.0, 10.0, 100.0),
    "hinge-01": (1.0, 10.0, 100.0),
    "per-01": (1.0, 1.0, 1.0),
    "x-ent": (1.0, 0.1, 0.01),
}
DEAD = "An iteration is dead where the gradient is zero at every score, so that nothing is learnt from it."
WIDTHS = (10, 10, 10, 10, 1)
BATCH = 512


def _variant(initialisation: str, batch: int | None) -> str:
    start = "N(0,1)" if initialisation == "normal" else "He"
    return f"{start}, {'full batch' if batch is None else f'batches of {batch}'}"


VARIANTS = tuple(_variant(initialisation, batch) for batch in (None, BATCH) for initialisation in ("normal", "he"))


@dataclass(frozen=True)
class Config:
    """One method on one teacher, with all its settings."""

    method: str
    seed: int
    initialisation: str
    batch: int | None
    samples: int
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.method}, {_variant(self.initialisation, self.batch)}, teacher {self.seed}"


@dataclass(frozen=True)
class Result(Curves):
    """AP on the training and the test set."""


Run = harness.Run[Config, Result]


def configs(options: Options, source: None = None) -> list[Config]:
    """The paper preset takes about 45 minutes on two cores, the quick one about one."""
    paper = options.preset == "paper"
    if paper:
        samples, full, mini, rates, decays = 20_000, 500, 2000, (0.01, 0.03, 0.1), (0.0, 0.1)
    else:
        samples, full, mini, rates, decays = 4000, 150, 300, (0.03,), (0.0, 0.1)
    return [
        Config(method, seed, initialisation, batch, samples, iterations, grid(method, STRENGTHS[method], rates, decays))
        for seed in range(options.seeds or (10 if paper else 3))
        for initialisation in ("normal", "he")
        for batch, iterations in ((None, full), (BATCH, mini))
        for method in METHODS
    ]


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Half of the data trains, half tests; teacher, student and batches have generators of their own."""
    teacher, student, batches = (torch.Generator().manual_seed(3 * config.seed + k) for k in range(3))
    inputs, target = ranked_by_teacher(config.samples, teacher)
    half = config.samples // 2
    return sweep(
        Result, config.method, config.settings,
        Networks(len(config.settings), WIDTHS, config.initialisation, student),
        {"train": (inputs[:half], target[:half]), "test": (inputs[half:], target[half:])},
        iterations=config.iterations, batch=config.batch, generator=batches, progress=progress,
    )  # fmt: skip


def _chosen(run: Run) -> Choice:
    return choose(run.result.train)


def _key(config: Config) -> tuple[str, float]:
    return _variant(config.initialisation, config.batch), 0.0


def _claims(test: Outcomes, variants: Sequence[str]) -> Iterator[Claim]:
    def beats(variant: str, pairs: Iterable[tuple[str, str]]) -> list[Comparison]:
        return [c for ours, other in pairs for c in compare(test, variant, 0.0, ours, other, f"{ours} − {other}")]

    for variant in variants:
        pairs = [("pos-AP", other) for other in METHODS if other != "pos-AP"]
        says = f"pos-AP reaches a higher test AP than all other methods ({variant})."
        yield claim(says, beats(variant, pairs), len(pairs))
    for variant in variants:
        pairs = [(f"{update}-AP", f"{update}-01") for update in ("pos", "neg", "hinge", "per")]
        says = f"Training on AP beats training on the 0-1 loss, update by update ({variant})."
        yield claim(says, beats(variant, pairs), len(pairs))
    for variant in variants:
        says = f"The positive update beats the negative one ({variant})."
        yield claim(says, beats(variant, [("pos-AP", "neg-AP")]), 1)
    for other in ("x-ent", USUAL):
        for batch in (None, BATCH):
            normal, he = _variant("normal", batch), _variant("he", batch)
            margin: Outcomes = {}
            for variant in (normal, he):
                ours, theirs = test.get((variant, 0.0, "pos-AP"), {}), test.get((variant, 0.0, other), {})
                margin["margin", 0.0, variant] = {seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs}
            way = "full batch" if batch is None else f"batches of {batch}"
            says = f"(ours) The margin of pos-AP over {other} is larger from the N(0,1) start than from He's ({way})."
            name = "margin from N(0,1) − margin from He"
            yield claim(says, compare(margin, "margin", 0.0, normal, he, name), 1)


def summarise(runs: Sequence[Run]) -> Summary:
    """The setting of highest training AP at the end, for every run; its test AP at the end and on the way."""
    everything = with_usual(runs)
    test = collect(everything, _key, lambda run: _chosen(run).value(run.result.test))
    train = collect(runs, _key, lambda run: _chosen(run).value(run.result.train))
    dead = collect(runs, _key, lambda run: mean(run.result.dead))
    steps = {_key(run.config)[0]: run.result.iterations for run in runs}
    variants = [variant for variant in VARIANTS if variant in steps]
    curves: dict[tuple[str, str], dict[float, list[float]]] = {}
    for run in runs:
        points = curves.setdefault((_key(run.config)[0], run.config.method), {})
        settings = _chosen(run).settings
        for checkpoint, step in enumerate(run.result.iterations):
            points.setdefault(step, []).append(Choice(checkpoint, settings).value(run.result.test))
    found = [
        *records("synthetic", "test_ap", test),
        *records("synthetic", "train_ap", train),
        *records("synthetic", "dead_gradients", dead),
    ]
    for variant in variants:
        for other in (*METHODS, USUAL):
            for _, difference, error, n in (
                compare(test, variant, 0.0, "pos-AP", other, "") if other != "pos-AP" else ()
            ):
                numbers = round(difference, 6), round(error * n**0.5, 6), n
                found.append(Record("synthetic", other, 0.0, variant, None, "pos-AP_minus_this", *numbers))
    for (variant, method), points in curves.items():
        for step, values in points.items():
            at = {(variant, 0.0, method): dict(enumerate(values))}
            found += records("synthetic", f"test_ap@{step}", at)

    def table(title: str, outcomes: Outcomes, methods: Sequence[str], note: str) -> Table:
        rows = [
            [method, *(cell(outcomes.get((variant, 0.0, method), {}).values()) for variant in variants)]
            for method in methods
        ]
        return Table(title, ["method", *variants], rows, note)

    tables = [
        table(
            "Test AP at the end of training",
            test,
            (*METHODS, USUAL),
            f"Mean ± standard deviation over teachers. {USUAL_NOTE}",
        ),
        table(
            "Share of dead iterations", dead, METHODS, f"{DEAD} Mean over settings, ± standard deviation over teachers."
        ),
        choices_table("What was tried and chosen, by AP on the training set at the end of training", runs, _chosen),
    ]

    def figures() -> list[Figure]:
        drawn = []
        for count, variant in enumerate(variants):
            shown = {method: series(curves[variant, method]) for method in METHODS if (variant, method) in curves}
            title = f"Test AP against iterations: {variant}"
            drawn.append(lines(f"synthetic-{count + 1}", title, shown, "iteration", "AP on test data"))
        groups = {
            variant: {m: mean(dead[variant, 0.0, m].values()) for m in METHODS if (variant, 0.0, m) in dead}
            for variant in variants
        }
        title = "Share of iterations without a gradient at any score, mean over settings and teachers"
        drawn.append(bars("synthetic-dead", title, groups, "share of dead iterations"))
        return drawn

    return Summary(found, list(_claims(test, variants)), tables, figures)


EXPERIMENT = Experiment[Options, None, Config, Result](
    name="synthetic",
    title="Synthetic data (Figure 3a)",
    about=(
        "A random four-layer ReLU network with N(0,1) weights scores 20,000 ten-dimensional Gaussian points (4,000 in "
        "the quick preset); the top 20 % are positive; half train, half test. The same architecture is trained from "
        "random weights with the paper's nine methods. Every method has the same number of settings to choose from."
    ),
    version=1,
    presets=("quick", "paper"),
    options=Options,
    config=Config,
    result=Result,
    configs=configs,
    run=run,
    summarise=summarise,
)
