"""Nearly separable data: where does the negative update do well? Not in the paper, which expects an answer.

The paper says that neg-AP should do well where data is nearly linearly separable and labels are clean, and badly
elsewhere; Hazan et al. (2010) found the negative update better with linear models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from .data.label_noise import flip_labels
from .data.synthetic import DIMENSIONS, separable
from .harness import study as harness
from .harness.options import Options
from .harness.progress import Progress, no_progress
from .harness.study import Claim, Study, Summary
from .networks import Networks
from .report.by_noise import ByNoise
from .report.summary import choices_table
from .report.words import percent
from .sweep import Curve, Curves, Rule, Setting, grid, sweep

__all__ = ["STUDY", "Config", "Result", "configs", "run", "summarise"]

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
        return f"{self.method}, {self.model}, {percent(self.noise)} {self.damage}, seed {self.seed}"


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


RULE = Rule("", "validation")


def _variants(config: Config) -> list[str]:
    """Undamaged data belongs to both kinds of damage; its runs are under the first."""
    return [f"{config.model}, {damage}" for damage in (DAMAGES if config.noise == 0 else (config.damage,))]


def summarise(runs: Sequence[Run]) -> Summary:
    """Chosen on validation data with the same damage, trained to the end."""
    by_noise = ByNoise(
        "separable", runs, tuple(STRENGTHS), (RULE,), _variants, damage="damaged samples", measured="AP on test data",
        note="Test AP, mean ± standard deviation over seeds.",
    )  # fmt: skip
    own = [record for record in by_noise.records() if record.noise > 0 or record.variant.endswith(DAMAGES[0])]
    tables = by_noise.tables()
    title = "What was tried and chosen, on validation data with the same damage, at the end of training"
    return Summary(
        [*own, *by_noise.dead_gradients()],
        _claims(by_noise),
        [*tables, choices_table(title, runs, RULE)],
        lambda: by_noise.figures("Nearly separable data"),
        by_noise.headline("On clean data (linear model)", 0.0),
        tables[:1],
    )


def _claims(by_noise: ByNoise) -> list[Claim]:
    linear, network = (f"{model}, {DAMAGES[0]}" for model in MODELS)
    says = "On clean, separable data the negative update beats the positive one"
    compared = by_noise.test.compare(linear, 0.0, "neg-AP", "pos-AP", "neg-AP − pos-AP")
    claims = [Claim(says, "linear model", [compared], "Hazan et al., 2010")]
    says = "On clean, separable data the negative update does well: it is less than 0.01 behind the positive one"
    compared = by_noise.test.compare(network, 0.0, "neg-AP", "pos-AP", "neg-AP − pos-AP + 0.01")
    compared = replace(compared, differences=tuple(each + 0.01 for each in compared.differences))
    claims.append(Claim(says, "network", [compared]))
    says = "With a tenth or more of the samples damaged, the negative update does worse than the positive one"
    return claims + by_noise.claims(says, "pos-AP", "neg-AP", least=0.1)


STUDY = Study[Options, None, Config, Result](
    name="separable",
    title="Nearly separable data: the negative update's case",
    about=(
        "200 points of N(0, I) in ten dimensions. A linear score separates positives from negatives with a margin; "
        "about a fifth are positive. A growing share of the points is damaged, in one of two ways. Flipped: training "
        "and validation labels are flipped. Overlapping: the points nearest to the boundary are labelled by the toss "
        "of a coin, in the test set too. A linear model and a network with 32 hidden units train for 300 full-batch "
        "iterations."
    ),
    version=1,
    configs=configs,
    run=run,
    summarise=summarise,
)
