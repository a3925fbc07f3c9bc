"""Which two outputs are contrasted: the paper's updates and one more, a small class each.

The gradient on the scores is scale·(features(away) − features(toward)). It belongs to the value
scale·((F + away·L)(y_away) − (F + toward·L)(y_toward)), where `away` and `toward` are the weights of L in the
inference: 0 for the prediction, TRUTH for the ground truth.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from .checks import check_positive

__all__ = [
    "TRUTH",
    "UPDATES",
    "CentralDirect",
    "Hinge",
    "NegativeDirect",
    "Perceptron",
    "PositiveDirect",
    "Row",
    "Update",
]

TRUTH = -math.inf
"""The weight that stands for the ground truth: argmax F − ∞·L."""


class Row(NamedTuple):
    """A row of the table of updates: two weights and a scale."""

    away: float
    toward: float
    scale: float

    def value(self, score: Tensor, away_loss: Tensor, toward_loss: Tensor) -> Tensor:
        """The value for score = F(away) − F(toward) and the task losses of the two outputs."""
        value = score + self.away * away_loss
        if self.toward != TRUTH:
            value = value - self.toward * toward_loss
        return self.scale * value


class Update(Protocol):
    """Anything with a row."""

    @property
    def row(self) -> Row: ...


@dataclass(frozen=True)
class PositiveDirect:
    """away = argmax F + εL, toward = argmax F, scale 1/ε."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))

    @property
    def row(self) -> Row:
        return Row(self.epsilon, 0.0, 1 / self.epsilon)


@dataclass(frozen=True)
class NegativeDirect:
    """away = argmax F, toward = argmax F − εL, scale 1/ε."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))

    @property
    def row(self) -> Row:
        return Row(0.0, -self.epsilon, 1 / self.epsilon)


@dataclass(frozen=True)
class CentralDirect:
    """away = argmax F + εL, toward = argmax F − εL, scale 1/(2ε). Not in the paper; its bias is second order in ε."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))

    @property
    def row(self) -> Row:
        return Row(self.epsilon, -self.epsilon, 0.5 / self.epsilon)


@dataclass(frozen=True)
class Hinge:
    """away = argmax F + margin·L, toward = truth, scale 1: the structured SVM."""

    margin: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "margin", check_positive("margin", self.margin))

    @property
    def row(self) -> Row:
        return Row(self.margin, TRUTH, 1.0)


@dataclass(frozen=True)
class Perceptron:
    """away = argmax F, toward = truth, scale 1: the structured perceptron."""

    @property
    def row(self) -> Row:
        return Row(0.0, TRUTH, 1.0)


UPDATES: dict[str, type[Update]] = {
    "positive_direct": PositiveDirect,
    "negative_direct": NegativeDirect,
    "central_direct": CentralDirect,
    "hinge": Hinge,
    "perceptron": Perceptron,
}
