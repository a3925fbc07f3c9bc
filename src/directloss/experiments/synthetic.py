"""Synthetic data (the paper's Figure 3a): nine methods learn to rank like a random network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import torch

from ..data.synthetic import ranked_by_teacher
from ..networks import Networks
from .experiment import Comparison, Experiment, Figure, Record, Run, Summary, Table
from .figures import bars, lines, series
from .summary import Outcomes, cell, choices_table, claim, collect, compare, records
from .sweep import Setting, choose, grid, sweep

__all__ = ["EXPERIMENT", "Config", "configs", "run", "summarise"]

METHODS = ("pos-AP", "neg-AP", "hinge-AP", "per-AP", "pos-01", "neg-01", "hinge-01", "per-01", "x-ent")
STRENGTHS: dict[str, tuple[float, ...]] = {
    "pos-AP": (0.1, 1.0, 10.0),
    "neg-AP": (0.01, 0.1, 1.0),
    "hinge-AP": (1.0, 10.0, 100.0),
    "per-AP": (1.0, 1.0, 1.0),
    "pos-01": (0.1, 1.0, 10.0),
    "neg-01": (1.0, 10.0, 100.0),
    "hinge-01": (1.0, 10.0, 100.0),
    "per-01": (1.0, 1.0, 1.0),
    "x-ent": (1.0, 0.1, 0.01),
}
USUAL = "x-ent, scale 1"
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


def configs(preset: str, seeds: int | None) -> list[Config]:
    """The paper preset takes about 45 minutes on two cores, the quick one about one."""
    if preset == "paper":
        samples, full, mini, rates, decays = 20_000, 500, 2000, (0.01, 0.03, 0.1), (0.0, 0.1)
    else:
        samples, full, mini, rates, decays = 4000, 150, 300, (0.03,), (0.0, 0.1)
    return [
        Config(method, seed, initialisation, batch, samples, iterations, grid(method, STRENGTHS[method], rates, decays))
        for seed in range(seeds or (10 if preset == "paper" else 3))
        for initialisation in ("normal", "he")
        for batch, iterations in ((None, full), (BATCH, mini))
        for method in METHODS
    ]


def run(config: Config, after: Callable[[float], object] = lambda share: None) -> dict[str, Any]:
    """Half of the data trains, half tests; teacher, student and batches have generators of their own."""
    teacher, student, batches = (torch.Generator().manual_seed(3 * config.seed + k) for k in range(3))
    inputs, target = ranked_by_teacher(config.samples, teacher)
    half = config.samples // 2
    return sweep(
        config.method, config.settings,
        Networks(len(config.settings), WIDTHS, config.initialisation, student),
        {"train": (inputs[:half], target[:half]), "test": (inputs[half:], target[half:])},
        iterations=config.iterations, batch=config.batch, generator=batches, after=after,
    )  # fmt: skip


def _chosen(run: Run) -> int:
    return choose(run.result, "train").setting


def _chosen_at_scale_one(run: Run) -> int:
    """What is chosen when cross-entropy has only step size and weight decay to tune, as people use it."""
    return max(
        (k for k, setting in enumerate(run.config["settings"]) if setting[0] == 1.0),
        key=lambda k: run.result["train"][-1][k],
    )


def _key(config: dict[str, Any]) -> tuple[str, float]:
    return _variant(config["initialisation"], config["batch"]), 0.0


def _differences(test: Outcomes, variant: str, others: Sequence[str], method: str = "pos-AP") -> list[Comparison]:
    return [c for other in others for c in compare(test, variant, 0.0, method, other, f"{method} − {other}")]


def summarise(runs: Sequence[Run]) -> Summary:
    """The setting of highest training AP at the end, for every run; its test AP at the end and on the way."""
    test = collect(runs, _key, lambda run: run.result["test"][-1][_chosen(run)])
    usual = [
        Run({**run.config, "method": USUAL}, run.result, run.made) for run in runs if run.config["method"] == "x-ent"
    ]
    test |= collect(usual, _key, lambda run: run.result["test"][-1][_chosen_at_scale_one(run)])
    train = collect(runs, _key, lambda run: run.result["train"][-1][_chosen(run)])
    dead = collect(runs, _key, lambda run: mean(run.result["dead"]))
    dead_chosen = collect(runs, _key, lambda run: run.result["dead"][_chosen(run)])
    curves = {
        number: collect(
            [run for run in runs if len(run.result["test"]) > number],
            lambda config: (_key(config)[0], 0.0),
            lambda run, number=number: run.result["test"][number][_chosen(run)],
        )
        for number in range(max((len(run.result["test"]) for run in runs), default=0))
    }
    steps = {_key(run.config)[0]: run.result["iterations"] for run in runs}
    variants = [variant for variant in VARIANTS if variant in steps]
    methods = [method for method in METHODS if any(key[2] == method for key in test)]
    found = [
        *records("synthetic", "test_ap", test),
        *records("synthetic", "train_ap", train),
        *records("synthetic", "dead_gradients", dead),
        *records("synthetic", "dead_gradients_of_chosen", dead_chosen),
    ]
    for variant in variants:
        for other in (*methods[1:], USUAL):
            for _, difference, error, n in _differences(test, variant, [other]):
                sd = error * n**0.5
                found.append(
                    Record(
                        "synthetic",
                        other,
                        0.0,
                        variant,
                        None,
                        "pos-AP_minus_this",
                        round(difference, 6),
                        round(sd, 6),
                        n,
                    )
                )
    for number, outcomes in curves.items():
        for variant in variants:
            if number < len(steps[variant]):
                at = {key: values for key, values in outcomes.items() if key[0] == variant}
                found += records("synthetic", f"test_ap@{steps[variant][number]}", at)
    others = [method for method in methods if method != "pos-AP"]
    claims = []
    for variant in variants:
        claims.append(
            claim(
                f"pos-AP reaches a higher test AP than all other methods ({variant}).",
                _differences(test, variant, others),
            )
        )
    for variant in variants:
        pairs = [
            comparison
            for name in ("pos", "neg", "hinge", "per")
            for comparison in _differences(test, variant, [f"{name}-01"], f"{name}-AP")
        ]
        claims.append(claim(f"Training on AP beats training on the 0-1 loss, update by update ({variant}).", pairs))
    for variant in variants:
        claims.append(
            claim(f"The positive update beats the negative one ({variant}).", _differences(test, variant, ["neg-AP"]))
        )
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
            claims.append(claim(says, compare(margin, "margin", 0.0, normal, he, name)))
    table = Table(
        "Test AP at the end of training",
        ["method", *variants],
        [
            [method, *(cell(test.get((variant, 0.0, method), {})) for variant in variants)]
            for method in (*methods, USUAL)
        ],
        f"Mean ± standard deviation over teachers. {USUAL}: cross-entropy whose scale of scores is not tuned.",
    )

    def figures() -> list[Figure]:
        drawn = []
        for count, variant in enumerate(variants):
            values = {
                method: {
                    step: list(curves[k].get((variant, 0.0, method), {}).values())
                    for k, step in enumerate(steps[variant])
                }
                for method in methods
            }
            shown = {method: series(points) for method, points in values.items() if all(points.values())}
            title = f"Test AP against iterations: {variant}"
            drawn.append(lines(f"synthetic-{count + 1}", title, shown, "iteration", "AP on test data"))
        groups = {
            variant: {m: mean(dead[variant, 0.0, m].values()) for m in methods if (variant, 0.0, m) in dead}
            for variant in variants
        }
        title = "Share of iterations without any gradient, mean over settings and teachers"
        drawn.append(bars("synthetic-dead", title, groups, "share of dead iterations"))
        return drawn

    choices = choices_table(runs, _chosen, "Chosen for every teacher by AP on the training set at the end of training.")
    return Summary(found, claims, [table, choices], figures)


EXPERIMENT = Experiment(
    name="synthetic",
    title="Synthetic data (Figure 3a)",
    about=(
        "A random four-layer ReLU network with N(0,1) weights scores 20,000 ten-dimensional Gaussian points (4,000 in "
        "the quick preset); the top 20 % are positive; half train, half test. The same architecture is trained from "
        "random weights with the paper's nine methods. Every method has the same number of settings to choose from."
    ),
    version=1,
    presets=("quick", "paper"),
    configs=configs,
    run=run,
    summarise=summarise,
)
