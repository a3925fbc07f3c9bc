"""Train one method with a whole grid of settings at once, and choose among them afterwards.

Every setting of a method sees the same data and starts from the same weights. AP is taken at checkpoints on every set,
so that choosing, with or without early stopping, needs no second training.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from directloss import AveragePrecision

from .harness.progress import Progress, no_progress
from .harness.study import Run
from .methods import METHODS
from .networks import Networks
from .trainers import passes, train

__all__ = [
    "Choice",
    "Curve",
    "Curves",
    "Rule",
    "Setting",
    "average_precisions",
    "check_curves",
    "checkpoints",
    "choose",
    "combinations",
    "fair_grid",
    "first_biases",
    "grid",
    "losses",
    "sweep",
]

CHECKPOINTS = 20

Curve = tuple[tuple[float, ...], ...]
"""AP on a set of data: by checkpoint, and there by setting."""


class Setting(NamedTuple):
    """What is tuned."""

    strength: float
    learning_rate: float
    weight_decay: float


@dataclass(frozen=True)
class Curves:
    """The result of a sweep. A study that has more sets of data adds a `Curve` for each."""

    iterations: tuple[int, ...]
    """Of the checkpoints."""
    train: Curve
    test: Curve
    dead: tuple[float, ...]
    """By setting: the share of iterations whose gradient was zero at every score."""

    metric: ClassVar[str] = "AP"
    others: ClassVar[tuple[str, ...]] = ("iterations", "dead")
    """The fields that are no curves."""

    def curves(self) -> dict[str, Curve]:
        """By the name of their set."""
        return {name: value for name, value in vars(self).items() if name not in self.others}

    def check(self, config: Any) -> None:
        """Raise a ValueError unless every curve has all checkpoints and settings, and its metric is from 0 to 1."""
        checkpoints, settings = len(self.iterations), len(config.settings)
        if not checkpoints or len(self.dead) != settings:
            raise ValueError(f"dead must have {settings} settings, and iterations a checkpoint")
        check_curves(self.curves(), checkpoints, settings, self.metric)

    def only(self, places: Sequence[int]) -> Self:
        """The same with the settings in these places only."""
        curves = {name: tuple(tuple(row[k] for k in places) for row in curve) for name, curve in self.curves().items()}
        return replace(self, dead=tuple(self.dead[k] for k in places), **curves)


CurvesT = TypeVar("CurvesT", bound=Curves)


def check_curves(
    curves: Mapping[str, Curve], checkpoints: int, settings: int, metric: str = "AP", highest: float = 1.0
) -> None:
    """Raise a ValueError unless every curve has all checkpoints and settings, and its metric is from 0 to a number."""
    for name, curve in curves.items():
        if len(curve) != checkpoints or any(len(row) != settings for row in curve):
            raise ValueError(f"{name} must have {checkpoints} checkpoints with {settings} settings each")
        if not all(0 <= value <= highest for row in curve for value in row):
            raise ValueError(f"{name} must be {metric}, {'from 0 to 1' if highest == 1 else '0 or more'}")


def grid(
    method: str, strengths: Sequence[float], learning_rates: Sequence[float], weight_decays: Sequence[float]
) -> tuple[Setting, ...]:
    """The settings of a method of `METHODS`, see `fair_grid`."""
    return fair_grid(METHODS[method].strength is not None, strengths, learning_rates, weight_decays)


def fair_grid(
    has_strength: bool,
    strengths: Sequence[float],
    learning_rates: Sequence[float],
    weight_decays: Sequence[float] = (0.0,),
) -> tuple[Setting, ...]:
    """All combinations. A method without a strength tries as many more step sizes between and around the given ones."""
    if not has_strength:
        low, high = min(learning_rates) / 3, max(learning_rates) * 3
        count = len(strengths) * len(learning_rates)
        learning_rates = [low * (high / low) ** (k / max(count - 1, 1)) for k in range(count)]
        strengths = (1.0,)
    return combinations(strengths, learning_rates, weight_decays)


def combinations(
    strengths: Sequence[float], learning_rates: Sequence[float], weight_decays: Sequence[float]
) -> tuple[Setting, ...]:
    """A setting for every strength, step size and weight decay."""
    return tuple(
        Setting(strength, float(f"{learning_rate:.3g}"), weight_decay)
        for strength in strengths
        for learning_rate in learning_rates
        for weight_decay in weight_decays
    )


def checkpoints(iterations: int, count: int = CHECKPOINTS) -> list[int]:
    """The iterations at which AP is taken: the start, about `count` more, the last among them."""
    step = max(1, iterations // count)
    return sorted({*range(0, iterations + 1, step), iterations})


def sweep(
    result: type[CurvesT],
    method: str,
    settings: Sequence[Setting],
    networks: Networks,
    sets: dict[str, tuple[Tensor, Tensor]],
    *,
    iterations: int,
    optimizer: str = "adamw",
    averaging: float = 0.0,
    batch: int | None = None,
    generator: torch.Generator | None = None,
    progress: Progress = no_progress,
) -> CurvesT:
    """Train on sets["train"], one network a setting; return AP of every set by checkpoint and setting.

    The names of the sets are those of the curves in `result`.

    With `averaging`, AP is that of the running mean of the weights, in which an iteration counts so much less than the
    next one; training itself goes on as without.
    """
    moments = checkpoints(iterations)
    curves: dict[str, list[tuple[float, ...]]] = {name: [] for name in sets}

    weights = networks.weights.detach()
    mean, count = torch.zeros_like(weights), 0.0

    def checkpoint(iteration: int) -> None:
        nonlocal count
        mean.mul_(averaging).add_(weights)
        count = averaging * count + 1
        if iteration in moments:
            now = weights.clone()
            weights.copy_(mean / count)
            scores: dict[int, Tensor] = {}  # sets may share inputs
            for name, (inputs, target) in sets.items():
                if id(inputs) not in scores:
                    with torch.no_grad():
                        scores[id(inputs)] = networks(inputs)
                curves[name].append(tuple(average_precisions(scores[id(inputs)], target)))
            weights.copy_(now)
        progress(iteration / iterations)

    checkpoint(0)
    batches = passes(len(sets["train"][1]), batch, generator)
    dead, begun = torch.zeros(len(settings)), 0
    for loss, steps in _stages(method, settings, iterations):
        dead += steps * train(
            networks, loss, *sets["train"],
            learning_rates=torch.tensor([setting.learning_rate for setting in settings]),
            weight_decays=torch.tensor([setting.weight_decay for setting in settings]),
            iterations=steps, optimizer=optimizer, batches=batches,
            callback=lambda iteration, before=begun: checkpoint(before + iteration),
        )  # fmt: skip
        begun += steps
    shares = (dead / max(iterations, 1)).tolist()
    found = {name: tuple(curve) for name, curve in curves.items()}
    return result(iterations=tuple(moments), dead=tuple(round(share, 6) for share in shares), **found)


def _stages(
    method: str, settings: Sequence[Setting], iterations: int
) -> list[tuple[Callable[[Tensor, Tensor], Tensor], int]]:
    """Losses and their numbers of iterations: a warm-up, if the method has one, and the method. Each starts anew."""
    first = METHODS[method].first
    if first is None:
        return [(losses(method, settings), iterations)]
    plain = [setting._replace(strength=1.0) for setting in settings]
    return [(losses(first, plain), iterations // 10), (losses(method, settings), iterations - iterations // 10)]


def losses(method: str, settings: Sequence[Setting]) -> Callable[[Tensor, Tensor], Tensor]:
    """The method's loss of scores (settings, items), each row with the strength of its setting."""
    strengths = torch.tensor([setting.strength for setting in settings], dtype=torch.float64)
    return lambda scores, target: METHODS[method].loss(scores, target, strengths)


def first_biases(method: str, settings: Sequence[Setting], share: float) -> Tensor:
    """Of a head for each setting: the log odds of a share of positives, so that training need not first find them.

    Cross-entropy multiplies scores by its strength, so its bias is divided by it.
    """
    odds = torch.logit(torch.tensor(share), eps=1e-6)
    scaled = method == "x-ent"
    return torch.stack([odds / setting.strength if scaled else odds for setting in settings])


def average_precisions(scores: Tensor, target: Tensor) -> list[float]:
    """AP of every network; 0 of one whose scores are no longer finite."""
    finite = scores.isfinite().all(dim=1, keepdim=True)
    loss = AveragePrecision().infer(scores.where(finite, 0.0), target.expand_as(scores)).loss
    return [round(value, 6) for value in (1 - loss.double()).where(finite.squeeze(1), 0.0).tolist()]


class Choice(NamedTuple):
    """What a rule chooses from a result: a checkpoint, and the settings that tie there."""

    checkpoint: int
    settings: tuple[int, ...]

    def value(self, curve: Curve) -> float:
        """The mean over the settings that tie: none of them has a claim to be the one."""
        return fmean(curve[self.checkpoint][setting] for setting in self.settings)


def choose(curve: Curve, early_stopping: bool = False, places: Collection[int] | None = None) -> Choice:
    """The highest AP on a set: at the end, or at the first checkpoint that reaches the highest of all.

    With `places` only the settings in these places can be chosen.
    """
    allowed = range(len(curve[-1])) if places is None else places
    checkpoints = range(len(curve)) if early_stopping else (len(curve) - 1,)
    checkpoint = max(checkpoints, key=lambda k: max(curve[k][place] for place in allowed))
    best = max(curve[checkpoint][place] for place in allowed)
    return Choice(checkpoint, tuple(place for place in allowed if curve[checkpoint][place] == best))


class Rule(NamedTuple):
    """How a setting is chosen: on which curve of a result, whether it also says when to stop, and among which."""

    name: str
    """In tables and published records."""
    chosen_on: str = "validation"
    """The name of the curve."""
    early_stopping: bool = False
    largest_decay: float = inf
    figure: str = ""
    """In the names of figures."""

    def places(self, settings: Sequence[Setting]) -> list[int]:
        """The settings that the rule allows: all of a model that is fitted to convergence, without steps."""
        return [
            place
            for place, setting in enumerate(settings)
            if setting.learning_rate == 0 or setting.weight_decay <= self.largest_decay
        ]

    def choose(self, run: Run[Any, Any]) -> Choice:
        """The checkpoint and the settings of a run."""
        curve = getattr(run.result, self.chosen_on)
        return choose(curve, self.early_stopping, self.places(run.config.settings))
