"""Nearly separable data: where does the negative update do well? Not in the paper, which expects an answer.

The paper says that neg-AP should do well where data is nearly linearly separable and labels are clean, and badly
elsewhere; Hazan et al. (2010) found the negative update better with linear models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

import torch

from .data.label_noise import flip_labels
from .data.synthetic import DIMENSIONS, separable
from .harness import experiment as harness
from .harness.experiment import Comparison, Experiment, Figure, Summary
from .harness.options import Options
from .harness.progress import Progress, no_progress
from .networks import Networks
from .report.figures import noise_lines
from .report.summary import Outcomes, choices_table, claim, collect, compare, noise_table, records
from .sweep import Choice, Curve, Curves, Setting, choose, grid, sweep

__all__ = ["EXPERIMENT", "Config", "Result", "configs", "run", "summarise"]

STRENGTHS: dict[str, tuple[float, ...]] = {
    "pos-AP": (0.01, 0.1, 1.0, 10.0, 100.0),
    "neg-AP": (0.001, 0.01, 0.1, 1.0, 10.0),
    "central-AP": (0.01, 0.1, 1.0, 10.0, 100.0),
    "hinge-AP": (0.01, 0.1, 1.0, 10.0, 100.0),
    "per-AP": (1.0, 1.0, 1.0, 1.0, 1.0),
    "x-ent": (0.01, 0.1, 1.0, 10.0, 100.0),
}
MODELS = {"linear": (DIMENSIONS, 1), "network": (DIMENSIONS, 32, 1)}
DAMAGES = ("flipped", "overlapping")


@dataclass(frozen=True)
class Config:
    """One method and model, from one seed, at one share of damaged samples, with all its settings."""

    method: str
    seed: int
    model: str
    damage: str
    noise: float
    samples: int
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.method}, {self.model}, {self.noise:.0%} {self.damage}, seed {self.seed}"


@dataclass(frozen=True)
class Result(Curves):
    """AP on the training, validation and test set."""

    validation: Curve


Run = harness.Run[Config, Result]


def configs(options: Options, source: None = None) -> list[Config]:
    """The paper preset takes about five minutes on two cores, the quick one less than one."""
    paper = options.preset == "paper"
    if paper:
        levels, rates, decays = (0.0, 0.05, 0.1, 0.2, 0.3), (0.003, 0.01, 0.03), (0.0, 1.0)
    else:
        levels, rates, decays = (0.0, 0.2), (0.01,), (0.0, 1.0)
    return [
        Config(method, seed, model, damage, noise, 200, 300, grid(method, STRENGTHS[method], rates, decays))
        for seed in range(options.seeds or (5 if paper else 3))
        for model in MODELS
        for damage in DAMAGES
        for noise in levels
        if noise > 0 or damage == DAMAGES[0]  # without damage both are one
        for method in STRENGTHS
    ]


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Flipped labels strike training and validation only; overlap is how the data is, test set included."""
    data, student = (torch.Generator().manual_seed(2 * config.seed + k) for k in range(2))
    direction = torch.nn.functional.normalize(torch.randn(DIMENSIONS, generator=data), dim=0)
    overlapping = config.noise if config.damage == "overlapping" else 0.0
    sets = {
        name: separable(samples, direction, data, overlapping)
        for name, samples in (("train", config.samples), ("validation", config.samples), ("test", 5000))
    }
    if config.damage == "flipped":
        for name in ("train", "validation"):
            inputs, target = sets[name]
            sets[name] = inputs, flip_labels(target, config.noise, data)
    networks = Networks(len(config.settings), MODELS[config.model], "he", student)
    return sweep(
        Result, config.method, config.settings, networks, sets, iterations=config.iterations, progress=progress
    )


def _chosen(run: Run) -> Choice:
    return choose(run.result.validation)


def _key(config: Config) -> tuple[str, float]:
    return f"{config.model}, {config.damage}", config.noise


def _test(run: Run) -> float:
    return _chosen(run).value(run.result.test)


def _with_clean(outcomes: Outcomes) -> Outcomes:
    """Undamaged data belongs to both kinds of damage."""
    clean = {
        (f"{model}, {damage}", 0.0, method): values
        for (variant, noise, method), values in outcomes.items()
        if noise == 0
        for model in [variant.split(",")[0]]
        for damage in DAMAGES
    }
    return outcomes | clean


def summarise(runs: Sequence[Run]) -> Summary:
    """Chosen on validation data with the same damage, trained to the end."""
    own = collect(runs, _key, _test)
    test = _with_clean(own)
    dead = collect(runs, _key, lambda run: mean(run.result.dead))
    variants = [f"{model}, {damage}" for model in MODELS for damage in DAMAGES]
    variants = [variant for variant in variants if any(key[0] == variant for key in test)]
    levels = sorted({noise for _, noise, _ in own if noise > 0})

    def differences(variant: str, method: str, other: str, levels: Sequence[float]) -> list[Comparison]:
        return [
            comparison
            for noise in levels
            for comparison in compare(test, variant, noise, method, other, f"{method} − {other} at {noise:.0%}")
        ]

    clean = f"{{}}, {DAMAGES[0]}"
    says = "On clean, separable data the negative update beats the positive one, linear model (Hazan et al., 2010)."
    claims = [claim(says, differences(clean.format("linear"), "neg-AP", "pos-AP", [0.0]), 1)]
    says = "On clean, separable data the negative update does well: less than 0.01 below the positive one, network."
    shifted = [
        comparison._replace(name=f"{comparison.name}, plus 0.01", mean=comparison.mean + 0.01)
        for comparison in differences(clean.format("network"), "neg-AP", "pos-AP", [0.0])
    ]
    claims.append(claim(says, shifted, 1))
    heavy = [noise for noise in levels if noise >= 0.1]
    for model in MODELS:
        for damage in DAMAGES:
            says = (
                f"With a tenth or more {damage}, the negative update does worse than the positive one, {model} model."
            )
            found = differences(f"{model}, {damage}", "pos-AP", "neg-AP", heavy)
            claims.append(claim(says, found, max(len(heavy), 1)))
    note = "Test AP, mean ± standard deviation over seeds."
    tables = [
        noise_table(f"Share of damaged samples: {variant}", test, variant, STRENGTHS, note) for variant in variants
    ]
    title = "What was tried and chosen, on validation data with the same damage, at the end of training"
    tables.append(choices_table(title, runs, _chosen))
    found = [*records("separable", "test_ap", own), *records("separable", "dead_gradients", dead)]

    def figures() -> list[Figure]:
        words = "damaged samples, %", "AP on test data"
        return [
            noise_lines(f"separable-{k + 1}", f"Nearly separable data: {variant}", test, variant, *words)
            for k, variant in enumerate(variants)
        ]

    return Summary(found, claims, tables, figures)


EXPERIMENT = Experiment[Options, None, Config, Result](
    name="separable",
    title="Nearly separable data: the negative update's case",
    about=(
        "200 points of N(0, I) in ten dimensions that a linear score separates with a margin, about a fifth of them "
        "positive. A growing share is damaged: training and validation labels flipped, or the points nearest to the "
        "boundary labelled by the toss of a coin, in the test set too. A linear model and a network with 32 hidden "
        "units, 300 full-batch iterations."
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
