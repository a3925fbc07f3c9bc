"""Which two outputs are contrasted: the paper's updates and one more, a small class each.

An update is a row of a table: the weight of the task loss in two inferences, and a scale. The gradient on the scores is
scale·(features(away) − features(toward)). `UpdateSpec.value` is the function that it is the gradient of.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from torch import Tensor

from .checks import check_positive, check_window

__all__ = [
    "TRUTH",
    "UPDATES",
    "CentralDirect",
    "Hinge",
    "NegativeDirect",
    "Perceptron",
    "PositiveDirect",
    "Truth",
    "Update",
    "UpdateSpec",
    "Weight",
    "WindowDirect",
]


class Truth(Enum):
    """The type of `TRUTH`."""

    TRUTH = "truth"

    def __repr__(self) -> str:
        return "TRUTH"


TRUTH: Final = Truth.TRUTH
"""Stands in the place of a weight for the ground truth, which is no argmax of F + weight·L."""

Weight = float | Tensor | Truth
"""Which output: argmax F + weight·L for a number, or a tensor with one number per list; 0 is the prediction; TRUTH."""


class UpdateSpec(NamedTuple):
    """A row of the table of updates: which output to move away from, which to move toward, and how far.

    >>> spec = PositiveDirect(epsilon=0.5).spec
    >>> spec
    UpdateSpec(away=0.5, toward=0.0, scale=2.0)
    >>> spec.value(score=-0.1, away_loss=1.0, toward_loss=0.0)
    0.8
    """

    away: Weight
    toward: Weight
    scale: float | Tensor

    def value(self, score: Any, away_loss: Any, toward_loss: Any) -> Any:
        """scale·((F + away·L)(y_away) − (F + toward·L)(y_toward)), where score is F(y_away) − F(y_toward).

        The truth has no loss, so it adds nothing but its score. Numbers, arrays and tensors will do.
        """
        return self.scale * (score + _times(self.away, away_loss) - _times(self.toward, toward_loss))


def _times(weight: Weight, loss: Any) -> Any:
    return 0.0 if weight is TRUTH else weight * loss


class Update(Protocol):
    """Anything with a `spec`.

    >>> class HalfHinge:
    ...     spec = UpdateSpec(away=2.0, toward=TRUTH, scale=0.5)
    >>> from directloss import AveragePrecisionLoss
    >>> AveragePrecisionLoss(HalfHinge())(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1]))
    tensor(1.9167)
    """

    @property
    def spec(self) -> UpdateSpec:
        """The two outputs that are contrasted, and the scale."""
        ...


@dataclass(frozen=True)
class PositiveDirect:
    """away = argmax F + εL, toward = argmax F, scale 1/ε.

    >>> from directloss import AveragePrecisionLoss
    >>> scores, target = torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])
    >>> AveragePrecisionLoss(PositiveDirect(epsilon=1.0))(scores, target)
    tensor(0.4000)
    """

    epsilon: float | Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))

    @property
    def spec(self) -> UpdateSpec:
        return UpdateSpec(self.epsilon, 0.0, 1 / self.epsilon)


@dataclass(frozen=True)
class NegativeDirect:
    """away = argmax F, toward = argmax F − εL, scale 1/ε.

    >>> from directloss import AveragePrecisionLoss
    >>> scores, target = torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])
    >>> AveragePrecisionLoss(NegativeDirect(epsilon=1.0))(scores, target)
    tensor(0.0500)
    """

    epsilon: float | Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))

    @property
    def spec(self) -> UpdateSpec:
        return UpdateSpec(0.0, -self.epsilon, 1 / self.epsilon)


@dataclass(frozen=True)
class CentralDirect:
    """away = argmax F + εL, toward = argmax F − εL, scale 1/(2ε). Not in the paper; its bias is second order in ε.

    >>> from directloss import AveragePrecisionLoss
    >>> scores, target = torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])
    >>> AveragePrecisionLoss(CentralDirect(epsilon=1.0))(scores, target)
    tensor(0.2250)
    """

    epsilon: float | Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))

    @property
    def spec(self) -> UpdateSpec:
        return UpdateSpec(self.epsilon, -self.epsilon, 0.5 / self.epsilon)


@dataclass(frozen=True)
class WindowDirect:
    """away = argmax F + above·L, toward = argmax F − below·L, scale 1/(above+below). Not in the paper.

    Its value is the mean task loss of argmax F + t·L for t from −below to above: of the outputs in a window around the
    prediction. `PositiveDirect(ε)` is the window from 0 to ε, `NegativeDirect(ε)` that from −ε to 0, `CentralDirect(ε)`
    that from −ε to ε. With a far larger `below` it comes near a hinge, which trusts the labels, over above + below.

    >>> from directloss import AveragePrecisionLoss
    >>> scores, target = torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])
    >>> AveragePrecisionLoss(WindowDirect(above=1.0, below=10.0))(scores, target)
    tensor(0.0409)
    """

    above: float | Tensor
    below: float | Tensor

    def __post_init__(self) -> None:
        for name in ("above", "below"):
            object.__setattr__(self, name, check_positive(name, getattr(self, name)))
        check_window(self.above, self.below)

    @property
    def spec(self) -> UpdateSpec:
        return UpdateSpec(self.above, -self.below, 1 / (self.above + self.below))


@dataclass(frozen=True)
class Hinge:
    """away = argmax F + margin·L, toward = truth, scale 1: the structured SVM.

    >>> from directloss import AveragePrecisionLoss
    >>> scores, target = torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])
    >>> AveragePrecisionLoss(Hinge(margin=1.0))(scores, target)
    tensor(0.4500)
    """

    margin: float | Tensor = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "margin", check_positive("margin", self.margin))

    @property
    def spec(self) -> UpdateSpec:
        return UpdateSpec(self.margin, TRUTH, 1.0)


@dataclass(frozen=True)
class Perceptron:
    """away = argmax F, toward = truth, scale 1: the structured perceptron.

    >>> from directloss import AveragePrecisionLoss
    >>> scores, target = torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])
    >>> AveragePrecisionLoss(Perceptron())(scores, target)
    tensor(0.0500)
    """

    @property
    def spec(self) -> UpdateSpec:
        return UpdateSpec(0.0, TRUTH, 1.0)


UPDATES: dict[str, type[Update]] = {
    "positive_direct": PositiveDirect,
    "negative_direct": NegativeDirect,
    "central_direct": CentralDirect,
    "window_direct": WindowDirect,
    "hinge": Hinge,
    "perceptron": Perceptron,
}
