"""What is predicted and what it costs: structured outputs, their features and their task loss.

Scores `s` come from a network. A structured output `y` has a score linear in them, F(s, y) = <s, features(y)>, and a
task loss L(y) in [0, 1] against the target. A task knows three outputs: the prediction argmax F, the loss-augmented
prediction argmax F + weight·L, and the ground truth.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor

from .autograd import valid_lists
from .update import TRUTH, Row

__all__ = ["Contrast", "Output", "Task"]


class Output(NamedTuple):
    """A structured output for every list of a batch."""

    features: Tensor
    """dF/dscores: the shape of scores, zero where masked."""
    loss: Tensor
    """The task loss against the target: the shape of the batch dimensions."""


class Contrast(NamedTuple):
    """What an update makes of two outputs."""

    gradient: Tensor
    """scale·(features(away) − features(toward)): the shape of scores."""
    value: Tensor
    """What it is the gradient of: the shape of the batch dimensions."""
    counted: Tensor
    """Which lists enter a mean: the shape of the batch dimensions, bool."""


class Task(ABC):
    """A space of outputs with its oracles.

    Everywhere, the last dimension is one list and the leading ones are a batch of lists; `target` is bool, int or float
    in {0, 1}; `mask` is True where an item is valid. A subclass writes three methods, and `check_task` tries them. A
    loss hands them float64 scores, a bool target and a bool mask, already checked, zero and False where masked.
    """

    exchangeable: bool = True
    """Whether permuting the items of a list permutes the features; not so for sequences or paths."""

    @abstractmethod
    def infer(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        """The prediction y_w = argmax F, with its loss against the target."""

    @abstractmethod
    def infer_augmented(self, scores: Tensor, target: Tensor, weight: float, mask: Tensor | None = None) -> Output:
        """argmax F + weight·L, for a weight of either sign."""

    @abstractmethod
    def truth(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        """The ground truth."""

    def outputs(self, target: Tensor) -> Output | None:
        """Every output for one short list, stacked as features (K, items) and loss (K,): what `check_task` enumerates.

        Optional. Without it `check_task` compares with the outputs that the oracles themselves give for other scores.
        """
        return None

    def contrast(self, scores: Tensor, target: Tensor, row: Row, mask: Tensor | None = None) -> Contrast:
        """Contrast the two outputs of an update; lists with a valid item count.

        A task whose outputs share work, as sorting, or that counts fewer lists, says so here.
        """
        scores, target, mask = valid_lists(scores.detach(), target, mask)
        away = self._output(row.away, scores, target, mask)
        toward = self._output(row.toward, scores, target, mask)
        features = away.features - toward.features
        score = (scores * features).sum(-1)
        return Contrast(row.scale * features, row.value(score, away.loss, toward.loss), mask.any(-1))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _output(self, weight: float, scores: Tensor, target: Tensor, mask: Tensor) -> Output:
        if weight == 0:
            return self.infer(scores, target, mask)
        if weight == TRUTH:
            return self.truth(scores, target, mask)
        return self.infer_augmented(scores, target, weight, mask)
