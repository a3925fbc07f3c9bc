"""Shortest paths from predicted costs: direct loss minimization of regret, which the paper leaves to future work.

The recipe is that of Elmachtoub and Grigas (2022) as PyEPO has it: a 5 × 5 grid, edge costs that are a polynomial of a
linear function of five features, and a linear model, so that at degrees above 1 no model is right. Two of the known
methods are members of our table of updates, since regret is linear in the path: SPO+ is the hinge with margin 1/2, and
blackbox differentiation (Vlastelica et al., 2020) with strength λ is the negative update with ε = λ. Two more are such
members at noisy scores: the perturbed Fenchel–Young loss (Berthet et al., 2020), and a smoothed SPO+.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import mean, stdev
from typing import Any, NamedTuple

import torch
from torch import Tensor

from directloss import (
    CentralDirect,
    DAGPath,
    Hinge,
    NegativeDirect,
    Perceptron,
    PositiveDirect,
    Update,
    WindowDirect,
    direct_loss,
)
from directloss.families import TRUTH

from .harness import study as harness
from .harness.options import Options
from .harness.progress import Progress, no_progress
from .harness.study import Claim, Record, Study, Summary, Table
from .networks import Networks
from .report.outcomes import Outcomes, records
from .report.summary import choices_table, collect, methods_table, of_group
from .report.words import difference, interval_in_words
from .sweep import Choice, Curve, Setting, check_curves, checkpoints, choose, fair_grid
from .trainers import passes, train

__all__ = ["STUDY", "Config", "Result", "configs", "instances", "run", "summarise"]

SIDE, FEATURES = 5, 5
EDGES = tuple(
    (SIDE * row + column, SIDE * row + column + 1) for row in range(SIDE) for column in range(SIDE - 1)
) + tuple((SIDE * row + column, SIDE * (row + 1) + column) for row in range(SIDE - 1) for column in range(SIDE))
TASK = DAGPath(EDGES, loss="regret")
VALIDATION, TEST, BATCH = 1000, 1000, 50
FIRST_SEED = 10
"""Version 1 of the study had the seeds from 0 to 9."""


class Method(NamedTuple):
    """An update with a strength for every setting, and what the strength is."""

    update: Callable[[Tensor], Update]
    strength: str | None
    noisy: bool = False
    """The strength is the standard deviation of noise on the scores, and the loss a mean over copies."""


UPDATES = {
    "pos-regret": Method(PositiveDirect, "ε"),
    "neg-regret": Method(NegativeDirect, "ε, or λ"),
    "central-regret": Method(CentralDirect, "ε"),
    "window-regret": Method(lambda epsilon: WindowDirect(epsilon, 10 * epsilon), "ε"),
    "hinge-regret": Method(Hinge, "margin"),
    "SPO+": Method(lambda _: Hinge(0.5), None),
    "smoothed SPO+": Method(lambda _: Hinge(0.5), "noise", noisy=True),
    "PFYL": Method(lambda _: Perceptron(), "noise", noisy=True),
}
WARM, AFTER = "MSE, then pos-regret", "pos-regret"
BY_RANGE = " by range"
"""Ends the name of a method that sees costs divided by the range of the instance: the worst path minus the best."""
SOLVED = "least squares"
METHODS = (
    *UPDATES,
    *(f"{name}{BY_RANGE}" for name in ("window-regret", "SPO+", "smoothed SPO+")),
    WARM, "MSE", SOLVED, f"{SOLVED}{BY_RANGE}",
)  # fmt: skip
WORDS = {"neg-regret": "neg-regret = blackbox", "MSE": "two-stage MSE, trained", SOLVED: "least squares, solved"}
BASELINES = (SOLVED, "SPO+")
WARM_SHARE = 0.25  # of the iterations
NOISES, COPIES = (0.03, 0.1, 0.3, 1.0, 3.0), 4


@dataclass(frozen=True)
class Config:
    """One method on the instances of one seed, with all its settings."""

    method: str
    seed: int
    degree: int
    noise: float
    samples: int
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.method}, degree {self.degree}, noise {self.noise:g}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """Normalised regret: that of all instances, divided by the cost of their best paths."""

    iterations: tuple[int, ...]
    """Of the checkpoints."""
    validation: Curve
    test: Curve
    dead: tuple[float, ...]
    """By setting: the share of iterations whose gradient was zero at every score."""

    def check(self, config: Config) -> None:
        """Raise a ValueError unless both curves have all checkpoints and settings, and no regret is below 0."""
        curves = {"validation": self.validation, "test": self.test}
        check_curves(curves, len(self.iterations), len(config.settings), "regret", inf)


Run = harness.Run[Config, Result]


def configs(options: Options, source: None = None) -> list[Config]:
    """The paper preset takes about a quarter of an hour on one core, the quick one less than a minute."""
    paper = options.preset == "paper"
    degrees, noises = ((1, 4, 8), (0.0, 0.5)) if paper else ((1, 8), (0.5,))
    seeds = range(FIRST_SEED, FIRST_SEED + (options.seeds or (10 if paper else 3)))
    return [
        Config(method, seed, degree, noise, 1000, 400 if paper else 200, _settings(method, paper))
        for seed in seeds
        for degree in degrees
        for noise in noises
        for method in METHODS
    ]


def _settings(method: str, paper: bool) -> tuple[Setting, ...]:
    """As many for every method: strengths times step sizes, or more step sizes, or ridges."""
    rates = (0.01, 0.05, 0.2, 1.0) if paper else (0.03, 0.2)
    strengths = (0.3, 1.0, 3.0, 10.0, 30.0) if paper else (1.0, 10.0)
    if _base(method) == SOLVED:
        count = len(rates) * len(strengths) - 1
        ridges = [0.0, *(float(f"{10 ** (-4 + 6 * k / (count - 1)):.3g}") for k in range(count))]
        return tuple(Setting(1.0, 0.0, ridge) for ridge in ridges)
    if _base(method) in UPDATES and UPDATES[_base(method)].noisy:
        strengths = NOISES if paper else (0.1, 1.0)
    return fair_grid(_strength(method) is not None, strengths, rates)


def _base(method: str) -> str:
    """The method without its units."""
    return method.removesuffix(BY_RANGE)


def _strength(method: str) -> str | None:
    """What the strength of a method is."""
    base = AFTER if method == WARM else _base(method)
    return UPDATES[base].strength if base in UPDATES else None


def instances(
    count: int, degree: int, noise: float, mixing: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Features (count, p) and costs (count, edges): ((Bx/√p + 3)^degree + 1)/3.5^degree, times U(1 − noise, 1 + noise).

    B is `mixing` (edges, p), of 0 and 1; x is N(0, I).
    """
    features = torch.randn((count, mixing.shape[1]), generator=generator)
    costs = ((features @ mixing.T / mixing.shape[1] ** 0.5 + 3) ** degree + 1) / 3.5**degree
    return features, costs * (1 - noise + 2 * noise * torch.rand(costs.shape, generator=generator))


class Predictors(Networks):
    """Linear models side by side: from features (items, p) to scores (copies, items · edges), minus predicted costs."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Score the edges of all instances."""
        return super().forward(inputs).transpose(1, 2).flatten(1)


def losses(
    method: str, settings: Sequence[Setting], generator: torch.Generator | None = None
) -> Callable[[Tensor, Tensor], Tensor]:
    """The method's loss of scores (settings, items · edges) and target (items, edges, 2): one value a setting.

    The target holds costs and best paths. F is the sum of the scores on a path, and L its regret, in the units of
    these costs. The generator draws the noise of the methods that have some, as `Perturbed` does, but with a strength
    for each setting.
    """
    strengths = torch.tensor([setting.strength for setting in settings]).unsqueeze(1)

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        scores, (costs, best) = scores.unflatten(1, (len(target), -1)), target.unbind(-1)
        if method == "MSE":
            return (scores + costs).square().mean((1, 2))
        of = UPDATES[method]
        update = of.update(strengths)
        if of.noisy:
            noise = torch.randn((COPIES, *scores.shape), generator=generator)
            scores = scores + strengths.unsqueeze(-1) * noise

        def scored(weight: Any) -> tuple[Tensor, Tensor]:
            path = best.expand_as(scores) if weight is TRUTH else find(scores.detach() + _last(weight) * costs)
            return (path * scores).sum(-1), ((path - best) * costs).sum(-1)

        values = direct_loss(scored(update.spec.away), scored(update.spec.toward), update, reduction="none")
        return values.mean((0, 2) if of.noisy else 1)

    return loss


def ridges(features: Tensor, costs: Tensor, settings: Sequence[Setting]) -> Tensor:
    """Least squares with a ridge, solved: (settings, 1 + features, edges). The first row, a constant, has no ridge."""
    design = torch.cat([torch.ones(len(features), 1), features], 1).double()
    gram, moments = design.T @ design / len(design), design.T @ costs.double() / len(design)
    penalised = torch.eye(design.shape[1], dtype=torch.float64)
    penalised[0, 0] = 0.0
    return torch.stack([torch.linalg.solve(gram + setting.weight_decay * penalised, moments) for setting in settings])


def find(scores: Tensor) -> Tensor:
    """The best paths."""
    return TASK.find(scores.double(), torch.ones_like(scores, dtype=torch.bool))[0].to(scores.dtype)


def _last(weight: float | Tensor) -> float | Tensor:
    return weight.unsqueeze(-1) if isinstance(weight, Tensor) else weight


def regrets(scores: Tensor, costs: Tensor, best: Tensor) -> list[float]:
    """Normalised regret of every setting."""
    least = (costs * best).sum()
    total = (costs * find(scores.unflatten(1, costs.shape))).sum((1, 2))
    return [round(max(value, 0.0), 6) for value in ((total - least) / least).tolist()]


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train one linear model a setting, in batches; take regret on validation and test instances on the way."""
    data, student, order = (torch.Generator().manual_seed(3 * config.seed + k) for k in range(3))
    noise = torch.Generator().manual_seed(1_000_000 + config.seed)
    mixing = (torch.rand((len(EDGES), FEATURES), generator=data) < 0.5).float()
    sets = {}
    for name, count in (("train", config.samples), ("validation", VALIDATION), ("test", TEST)):
        features, costs = instances(count, config.degree, config.noise, mixing, data)
        sets[name] = features, costs, find(-costs)
    features, costs, best = sets["train"]
    method = _base(config.method)
    if method != config.method:
        costs = costs / ((find(costs) - best) * costs).sum(-1, keepdim=True)
    if method == SOLVED:
        return _solved(config, features, costs, sets, progress)
    networks = Predictors(len(config.settings), (FEATURES, len(EDGES)), "he", student)
    moments = checkpoints(config.iterations)[::4]
    curves: dict[str, list[tuple[float, ...]]] = {"validation": [], "test": []}

    def checkpoint(iteration: int) -> None:
        if iteration in moments:
            for name, curve in curves.items():
                features, costs, best = sets[name]
                with torch.no_grad():
                    curve.append(tuple(regrets(networks(features), costs, best)))
        progress(iteration / config.iterations)

    checkpoint(0)
    warm = round(WARM_SHARE * config.iterations) if method == WARM else 0
    after = AFTER if warm else method
    dead = torch.zeros(len(config.settings))
    batches = passes(config.samples, BATCH, order)
    for part, before, iterations in (("MSE", 0, warm), (after, warm, config.iterations - warm)):
        dead += iterations / config.iterations * train(
            networks, losses(part, config.settings, noise), features, torch.stack([costs, best], -1),
            learning_rates=torch.tensor([setting.learning_rate for setting in config.settings]),
            weight_decays=torch.zeros(len(config.settings)),
            iterations=iterations, callback=lambda done, before=before: checkpoint(before + done), batches=batches,
        )  # fmt: skip
    rounded = {name: tuple(curve) for name, curve in curves.items()}
    return Result(iterations=tuple(moments), dead=tuple(round(share, 6) for share in dead.tolist()), **rounded)


def _solved(
    config: Config, features: Tensor, costs: Tensor, sets: dict[str, tuple[Tensor, Tensor, Tensor]], progress: Progress
) -> Result:
    """Nothing is trained, so there is one checkpoint."""
    weights = ridges(features, costs, config.settings)

    def measured(name: str) -> Curve:
        features, costs, best = sets[name]
        predicted = weights[:, :1] + features.double() @ weights[:, 1:]
        return (tuple(regrets(-predicted.flatten(1), costs, best)),)

    result = Result((0,), measured("validation"), measured("test"), (0.0,) * len(config.settings))
    progress(1.0)
    return result


def _chosen(run: Run) -> Choice:
    """The checkpoint and the setting of the least regret on validation instances."""
    return choose(tuple(tuple(-value for value in row) for row in run.result.validation), early_stopping=True)


def _variant(degree: int) -> str:
    return f"degree {degree}"


def summarise(runs: Sequence[Run]) -> Summary:
    """Setting and checkpoint chosen on validation instances; regret on test instances."""
    test = collect(runs, lambda config: (_variant(config.degree), config.noise), _regret)
    dead = collect(runs, lambda config: (_variant(config.degree), config.noise), lambda run: mean(run.result.dead))
    degrees, noises = (sorted({getattr(run.config, name) for run in runs}) for name in ("degree", "noise"))
    tables = [_table(test, degrees, noise) for noise in noises]
    paired = [_differences(test, degrees, noise) for noise in noises]
    title = "What was tried and chosen, on validation instances"
    chosen = choices_table(title, runs, _chosen, {method: _strength(method) for method in METHODS})
    return Summary(
        [*records("paths", "test_regret", test), *_pairs(test), *records("paths", "dead_gradients", dead)],
        _claims(test, degrees, noises),
        [*tables, *paired, chosen],
        headline=_headline(test, degrees, noises),
        overview=tables,
    )


def _regret(run: Run) -> float:
    return _chosen(run).value(run.result.test)


def _table(test: Outcomes, degrees: Sequence[int], noise: float) -> Table:
    columns = {_variant(degree): of_group(test, _variant(degree), noise) for degree in degrees}
    note = "Normalised regret on test instances, mean ± standard deviation over seeds; lower is better."
    title = f"Regret by degree, noise {noise:g}"
    return methods_table(title, columns, METHODS, note, low_is_good=True, words=WORDS)


def _differences(test: Outcomes, degrees: Sequence[int], noise: float) -> Table:
    rows = []
    for method in METHODS:
        for other in BASELINES:
            if method != other:
                compared = [test.compare(_variant(degree), noise, method, other, "") for degree in degrees]
                rows.append([f"{method} − {other}", *(f"{difference(x)} ({interval_in_words(x)})" for x in compared)])
    note = "Mean over seeds, with its 95 % interval; below 0 the first method has less regret."
    return Table(f"Paired differences of regret, noise {noise:g}", ["methods", *map(_variant, degrees)], rows, note)


def _pairs(test: Outcomes) -> list[Record]:
    """The paired differences of every method to the two known baselines."""
    flat = []
    for variant, noise, method in test.groups():
        for other in BASELINES:
            pairs = test.compare(variant, noise, method, other, "").differences
            if method != other and len(pairs) >= 3:
                numbers = round(mean(pairs), 6), round(stdev(pairs), 6), len(pairs)
                flat.append(Record("paths", method, noise, variant, None, f"this_minus_{other}", *numbers))
    return flat


def _headline(test: Outcomes, degrees: Sequence[int], noises: Sequence[float]) -> str:
    means = {
        method: mean(values) for method in METHODS if (values := test.values(_variant(degrees[-1]), noises[-1], method))
    }
    if len(means) < len(METHODS):
        return ""
    best = min(means, key=lambda method: means[method])
    shown = ", ".join(f"{name} {means[name]:.3f}" for name in ("pos-regret", "window-regret", "SPO+", SOLVED))
    return (
        f"At degree {degrees[-1]} and noise {noises[-1]:g}, {best} has the least regret on test instances "
        f"({means[best]:.3f}); {shown}."
    )


def _claims(test: Outcomes, degrees: Sequence[int], noises: Sequence[float]) -> list[Claim]:
    known = "Elmachtoub and Grigas, 2022"
    asked = [
        ("SPO+ has less regret than least squares where no linear model is right", "SPO+", SOLVED, True, known),
        ("Least squares has less regret than SPO+ where a linear model is right", SOLVED, "SPO+", False, known),
        *(
            (f"{_the(ours)} has less regret than {other} where no linear model is right", ours, other, True, "ours")
            for ours, other in (
                ("pos-regret", SOLVED), ("pos-regret", "SPO+"), ("pos-regret", "neg-regret"), ("window-regret", SOLVED),
                ("window-regret", "SPO+"), ("window-regret", "PFYL"), ("window-regret", "smoothed SPO+"),
                ("smoothed SPO+", "SPO+"),
            )
        ),
    ]  # fmt: skip
    claims = []
    for says, less, more, wrong, source in asked:
        for degree in degrees:
            if (degree > 1) == wrong:
                shown = [
                    test.compare(_variant(degree), noise, more, less, f"{more} − {less}, noise {noise:g}")
                    for noise in noises
                ]
                claims.append(Claim(says, _variant(degree), shown, source))
    return claims


def _the(method: str) -> str:
    return {"pos-regret": "The positive update", "window-regret": "The window"}.get(method, method)


STUDY = Study[Options, None, Config, Result](
    name="paths",
    title="Shortest paths: regret of predicted costs",
    about=(
        "1000 training instances of a shortest path through a 5 × 5 grid that moves right and down. The costs of the "
        "40 edges depend on five features, through a polynomial of degree 1 to 8, times uniform noise. A linear model "
        "learns to predict them, in batches of 50 with AdamW. Two-stage MSE fits the costs, and so does least squares, "
        "solved with a ridge. The others look at the path: regret is its true cost above that of the best path, over "
        "all instances divided by the cost of their best paths. Setting and checkpoint are chosen on 1000 validation "
        "instances; every method has as many settings. By range: the costs of a training instance are divided by the "
        "worst path's cost minus the best's. One method trains on MSE for the first quarter of its iterations."
    ),
    version=2,
    first_seed=FIRST_SEED,
    configs=configs,
    run=run,
    summarise=summarise,
)
