"""Label noise (the paper's Figure 3b): clean test AP after training on flipped labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

import torch

from ..data.label_noise import flip_labels
from ..data.synthetic import two_shells
from ..networks import Networks
from .experiment import Experiment, Figure, Run, Summary
from .figures import lines, series
from .summary import Outcomes, choices_table, claim, collect, compare, noise_table, records
from .sweep import Setting, choose, grid, sweep

__all__ = ["EXPERIMENT", "Config", "configs", "noise_figure", "run", "summarise"]

STRENGTHS: dict[str, tuple[float, ...]] = {
    "pos-AP": (1.0, 10.0, 100.0),
    "hinge-AP": (1.0, 10.0, 100.0),
    "x-ent": (1.0, 0.1, 0.01),
    "neg-AP": (0.1, 1.0, 10.0),
    "central-AP": (1.0, 10.0, 100.0),
    "Smooth-AP": (0.01, 0.1, 1.0),
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


def configs(preset: str, seeds: int | None) -> list[Config]:
    """The paper preset takes about half an hour on two cores, the quick one about one minute."""
    if preset == "paper":
        levels, kinds, rates = (0.0, 0.1, 0.2, 0.3, 0.4), ("raw", "standardised"), (0.001, 0.003, 0.01, 0.03)
    else:
        levels, kinds, rates = (0.0, 0.2, 0.3), ("standardised",), (0.01,)
    return [
        Config(method, seed, noise, inputs, 1000, 300, grid(method, STRENGTHS[method], rates, (0.0, 1.0)))
        for seed in range(seeds or (10 if preset == "paper" else 3))
        for inputs in kinds
        for noise in levels
        for method in STRENGTHS
    ]


def run(config: Config, after: Callable[[float], object] = lambda share: None) -> dict[str, Any]:
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
    return sweep(config.method, config.settings, networks, sets, iterations=config.iterations, after=after)


RULES = {  # which set chooses, and whether also when to stop
    "to the end, chosen on noisy validation": ("validation", False),
    "stopped early, both on noisy validation": ("validation", True),
    "to the end, chosen on training AP": ("train", False),
    "stopped early, both on training AP": ("train", True),
}


def _value(run: Run, measure: str, by: str, stop: bool) -> float:
    choice = choose(run.result, by, stop)
    return run.result[measure][choice.checkpoint][choice.setting]


def noise_figure(name: str, title: str, outcomes: Outcomes, variant: str, xlabel: str) -> Figure:
    """AP against the share of damaged samples."""
    points: dict[str, dict[float, list[float]]] = {}
    for (of, noise, method), values in outcomes.items():
        if of == variant:
            points.setdefault(method, {})[100 * noise] = list(values.values())
    curves = {method: series(values) for method, values in points.items()}
    return lines(name, title, curves, xlabel, "AP on clean test data")


def summarise(runs: Sequence[Run]) -> Summary:
    """Every rule of choosing, with raw and with standardised inputs."""
    kinds = [kind for kind in ("raw", "standardised") if any(run.config["inputs"] == kind for run in runs)]
    test: Outcomes = {}
    found = []
    for rule, (by, stop) in RULES.items():
        key = partial(_key, rule)
        test |= collect(runs, key, partial(_value, measure="test", by=by, stop=stop))
        found += records("label-noise", f"{by}_ap", collect(runs, key, partial(_value, measure=by, by=by, stop=stop)))
    found = [*records("label-noise", "test_ap", test), *found]
    found += records(
        "label-noise", "dead_gradients", collect(runs, partial(_key, "all settings"), lambda r: mean(r.result["dead"]))
    )
    noisy = sorted({run.config["noise"] for run in runs if run.config["noise"] > 0})
    variants = [f"{kind} inputs, {rule}" for kind in kinds for rule in RULES]
    claims = []
    for other in ("x-ent", "hinge-AP"):
        for variant in variants:
            comparisons = [
                comparison
                for noise in noisy
                for comparison in compare(test, variant, noise, "pos-AP", other, f"pos-AP − {other} at {noise:.0%}")
            ]
            claims.append(claim(f"pos-AP withstands label noise better than {other} ({variant}).", comparisons))
    note = "AP on clean test data, mean ± standard deviation over seeds."
    tables = [
        noise_table(f"Share of flipped training labels: {variant}", test, variant, STRENGTHS, note)
        for variant in variants
    ]
    for rule, (by, stop) in list(RULES.items())[:1]:
        tables.append(
            choices_table(
                runs, lambda run, by=by, stop=stop: choose(run.result, by, stop).setting, f"Counted for: {rule}."
            )
        )

    def figures() -> list[Figure]:
        return [
            noise_figure(f"label-noise-{k + 1}", f"Label noise: {variant}", test, variant, "flipped training labels, %")
            for k, variant in enumerate(variants)
        ]

    return Summary(found, claims, tables, figures)


def _key(rule: str, config: dict[str, Any]) -> tuple[str, float]:
    return f"{config['inputs']} inputs, {rule}", config["noise"]


EXPERIMENT = Experiment(
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
    configs=configs,
    run=run,
    summarise=summarise,
)
