"""Label noise (the paper's Figure 3b): clean test AP after training on flipped labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .data.label_noise import flip_labels
from .data.synthetic import two_shells
from .harness import study as harness
from .harness.options import Options
from .harness.progress import Progress, no_progress
from .harness.study import Study, Summary
from .methods import PLAIN
from .networks import Networks
from .report.by_noise import ByNoise
from .report.words import percent
from .sweep import Curve, Curves, Rule, Setting, grid, sweep

__all__ = ["STUDY", "Config", "Result", "configs", "run", "summarise"]

STRENGTHS: dict[str, tuple[float, ...]] = {
    "pos-AP": (0.1, 1.0, 10.0, 100.0, 1000.0),
    "hinge-AP": (0.1, 1.0, 10.0, 100.0, 1000.0),
    "x-ent": (0.01, 0.1, 1.0, 10.0, 100.0),
    "neg-AP": (0.001, 0.01, 0.1, 1.0, 10.0),
    "central-AP": (0.1, 1.0, 10.0, 100.0, 1000.0),
    "Smooth-AP": (0.001, 0.01, 0.1, 1.0, 10.0),
}
QUICK = ("pos-AP", "hinge-AP", "x-ent")
LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4)
KINDS = ("raw", "standardised")
RATES = (0.001, 0.005, 0.03, 0.1)
DECAYS = (0.0, 1.0, 10.0)
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
        return f"{self.method}, {percent(self.noise)} flipped, {self.inputs} inputs, seed {self.seed}"


@dataclass(frozen=True)
class Result(Curves):
    """AP on the training, validation and test set."""

    validation: Curve


Run = harness.Run[Config, Result]


def configs(options: Options, source: None = None) -> list[Config]:
    """The paper preset takes about 25 minutes on two cores, the quick one about one minute.

    The quick preset is the paper preset thinned alike for every method: three methods, the paper's inputs, every other
    noise level, every other strength and step size, two weight decays. It has more seeds, not fewer, so that
    differences can be told from chance.
    """
    if options.preset == "paper":
        methods, levels, kinds, every, decays, seeds = tuple(STRENGTHS), LEVELS, KINDS, 1, DECAYS, 5
    else:
        methods, levels, kinds, every, decays, seeds = QUICK, LEVELS[::2], KINDS[:1], 2, DECAYS[:2], 10
    return [
        Config(method, seed, noise, inputs, 1000, 300, grid(method, STRENGTHS[method][::every], RATES[::every], decays))
        for seed in range(options.seeds or seeds)
        for inputs in kinds
        for noise in levels
        for method in methods
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
    networks = Networks(len(config.settings), WIDTHS, "he", student).spare_biases()
    return sweep(
        Result, config.method, config.settings, networks, sets, iterations=config.iterations, progress=progress
    )


RULES = (
    Rule("to the end, chosen on noisy validation", "validation", figure="noisy validation"),
    Rule("stopped early, both on noisy validation", "validation", True, figure="noisy validation stopped early"),
    Rule("to the end, chosen on training AP", "train", figure="training AP"),
    Rule("stopped early, both on training AP", "train", True, figure="training AP stopped early"),
)


def summarise(runs: Sequence[Run]) -> Summary:
    """Every rule of choosing, with raw and with standardised inputs."""
    by_noise = ByNoise("label-noise", runs, (*STRENGTHS, PLAIN), RULES, lambda config: [f"{config.inputs} inputs"])
    chosen = by_noise.outcomes(lambda result: result.test, chosen=True)
    tables = by_noise.tables()
    return Summary(
        [
            *by_noise.records(),
            *by_noise.differences("pos-AP", clean=False),
            *(
                record
                for rule in RULES
                for record in by_noise.records(chosen, f"{rule.chosen_on}_ap")
                if record.variant.endswith(rule.name)
            ),
            *by_noise.dead_gradients(", all settings"),
        ],
        [
            claim
            for other, source in (("x-ent", "the paper"), (PLAIN, "ours"), ("hinge-AP", "the paper"))
            for claim in by_noise.claims(f"pos-AP withstands label noise better than {other}", "pos-AP", other, source)
        ],
        [
            *tables,
            *(by_noise.choices(rule, of) for of in by_noise.variants for rule in RULES if not rule.early_stopping),
        ],
        lambda: by_noise.figures("Label noise"),
        by_noise.headline("With {noise} of the training labels flipped ({name})"),
        tables[:1],
    )


STUDY = Study[Options, None, Config, Result](
    name="label-noise",
    title="Label noise (Figure 3b)",
    about=(
        "1000 points of N(0, 10²) in ten dimensions. A point is positive if ‖x‖² > 1200 and negative if ‖x‖² < 1000; "
        "there are none between. A share of the training and validation labels is flipped; the 5000 test points are "
        "clean. A network with two hidden layers of 32 trains for 300 full-batch iterations; its biases do not decay. "
        "Raw inputs are the "
        "paper's; standardised inputs are divided by 10. The paper chose settings by training AP. The other rules show "
        "what that costs."
    ),
    version=2,
    configs=configs,
    run=run,
    summarise=summarise,
)
