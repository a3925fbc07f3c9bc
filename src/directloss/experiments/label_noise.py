"""Label noise (the paper's Figure 3b): clean test AP after training on flipped labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean

import torch

from .data.label_noise import flip_labels
from .data.synthetic import two_shells
from .harness import experiment as harness
from .harness.experiment import Claim, Comparison, Experiment, Figure, Record, Summary
from .harness.options import Options
from .harness.progress import Progress, no_progress
from .networks import Networks
from .report.figures import noise_lines
from .report.summary import (
    USUAL,
    USUAL_NOTE,
    Outcomes,
    choices_table,
    claim,
    collect,
    compare,
    noise_table,
    records,
    with_usual,
)
from .sweep import Curve, Curves, Setting, choose, grid, sweep

__all__ = ["EXPERIMENT", "Config", "Result", "configs", "run", "summarise"]

STRENGTHS: dict[str, tuple[float, ...]] = {
    "pos-AP": (0.1, 1.0, 10.0, 100.0, 1000.0),
    "hinge-AP": (0.1, 1.0, 10.0, 100.0, 1000.0),
    "x-ent": (0.01, 0.1, 1.0, 10.0, 100.0),
    "neg-AP": (0.001, 0.01, 0.1, 1.0, 10.0),
    "central-AP": (0.1, 1.0, 10.0, 100.0, 1000.0),
    "Smooth-AP": (0.001, 0.01, 0.1, 1.0, 10.0),
}
WIDTHS = (10, 32, 32, 1)


@dataclass(frozen=True)
class Config:
    """One method at one noise rate from one seed, with all its settings."""

    method: str
    seed: int
    noise: float
    inputs: str
    samples: int
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.method}, {self.noise:.0%} flipped, {self.inputs} inputs, seed {self.seed}"


@dataclass(frozen=True)
class Result(Curves):
    """AP on the training, validation and test set."""

    validation: Curve


Run = harness.Run[Config, Result]


def configs(options: Options, source: None = None) -> list[Config]:
    """The paper preset takes about 25 minutes on two cores, the quick one about one minute."""
    paper = options.preset == "paper"
    if paper:
        levels, kinds, rates = (0.0, 0.1, 0.2, 0.3, 0.4), ("raw", "standardised"), (0.001, 0.005, 0.03)
    else:
        levels, kinds, rates = (0.0, 0.2, 0.3), ("standardised",), (0.01,)
    return [
        Config(method, seed, noise, inputs, 1000, 300, grid(method, STRENGTHS[method], rates, (0.0, 1.0)))
        for seed in range(options.seeds or (5 if paper else 3))
        for inputs in kinds
        for noise in levels
        for method in STRENGTHS
    ]


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Noise strikes training and validation labels; the test set is clean, and neither of these."""
    data, student = (torch.Generator().manual_seed(2 * config.seed + k) for k in range(2))
    sets = {
        "train": two_shells(config.samples, data),
        "validation": two_shells(config.samples, data),
        "test": two_shells(5000, data),
    }
    if config.inputs == "standardised":
        sets = {name: (inputs / 10, target) for name, (inputs, target) in sets.items()}
    for name in ("train", "validation"):
        inputs, target = sets[name]
        sets[name] = inputs, flip_labels(target, config.noise, data)
    networks = Networks(len(config.settings), WIDTHS, "he", student)
    return sweep(
        Result, config.method, config.settings, networks, sets, iterations=config.iterations, progress=progress
    )


RULES = {  # which set chooses, and whether also when to stop
    "to the end, chosen on noisy validation": ("validation", False),
    "stopped early, both on noisy validation": ("validation", True),
    "to the end, chosen on training AP": ("train", False),
    "stopped early, both on training AP": ("train", True),
}


def _curve(run: Run, name: str) -> Curve:
    return run.result.validation if name == "validation" else run.result.train


def _key(rule: str, config: Config) -> tuple[str, float]:
    return f"{config.inputs} inputs, {rule}", config.noise


def summarise(runs: Sequence[Run]) -> Summary:
    """Every rule of choosing, with raw and with standardised inputs."""
    kinds = [kind for kind in ("raw", "standardised") if any(run.config.inputs == kind for run in runs)]
    everything = with_usual(runs)
    test: Outcomes = {}
    tuned: list[Record] = []
    for rule, (by, stop) in RULES.items():
        key = partial(_key, rule)
        test |= collect(
            everything, key, lambda run, by=by, stop=stop: choose(_curve(run, by), stop).value(run.result.test)
        )
        chosen = collect(runs, key, lambda run, by=by, stop=stop: choose(_curve(run, by), stop).value(_curve(run, by)))
        tuned += records("label-noise", f"{by}_ap", chosen)
    dead = collect(runs, partial(_key, "all settings"), lambda run: mean(run.result.dead))
    noisy = sorted({run.config.noise for run in runs if run.config.noise > 0})
    variants = [f"{kind} inputs, {rule}" for kind in kinds for rule in RULES]
    claims: list[Claim] = []
    differences: list[Record] = []
    methods = (*STRENGTHS, USUAL)
    for other in methods[1:]:
        for variant in variants:
            compared: list[Comparison] = []
            for noise in noisy:
                name = f"pos-AP − {other} at {noise:.0%}"
                for comparison in compare(test, variant, noise, "pos-AP", other, name):
                    compared.append(comparison)
                    numbers = round(comparison.mean, 6), round(comparison.error * comparison.n**0.5, 6), comparison.n
                    differences.append(
                        Record("label-noise", other, noise, variant, None, "pos-AP_minus_this", *numbers)
                    )
            if other in ("x-ent", USUAL, "hinge-AP"):
                says = f"pos-AP withstands label noise better than {other} ({variant})."
                claims.append(claim(says, compared, max(len(noisy), 1)))
    note = f"AP on clean test data, mean ± standard deviation over seeds. {USUAL_NOTE}"
    tables = [
        noise_table(f"Share of flipped training labels: {variant}", test, variant, methods, note)
        for variant in variants
    ]
    for kind in kinds:
        mine = [run for run in runs if run.config.inputs == kind]
        for rule, (by, stop) in RULES.items():
            if not stop:
                title = f"What was tried and chosen: {kind} inputs, {rule}"
                tables.append(choices_table(title, mine, lambda run, by=by: choose(_curve(run, by))))

    def figures() -> list[Figure]:
        words = "flipped training labels, %", "AP on clean test data"
        return [
            noise_lines(f"label-noise-{k + 1}", f"Label noise: {variant}", test, variant, *words)
            for k, variant in enumerate(variants)
        ]

    found = records("label-noise", "test_ap", test) + differences + tuned
    return Summary([*found, *records("label-noise", "dead_gradients", dead)], claims, tables, figures)


EXPERIMENT = Experiment[Options, None, Config, Result](
    name="label-noise",
    title="Label noise (Figure 3b)",
    about=(
        "1000 points of N(0, 10²) in ten dimensions, positive if ‖x‖² > 1200, negative if ‖x‖² < 1000, with a share "
        "of the training and validation labels flipped; a network with two hidden layers of 32, 300 full-batch "
        "iterations; AP on 5000 clean points. Raw inputs are the paper's; standardised ones are divided by 10. The "
        "paper tuned on training AP; the other rules show what that costs."
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
