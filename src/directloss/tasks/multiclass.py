"""One class out of K for an item, or the k best of them.

Scores (..., K): the classes come last, so for images pass `scores.movedim(1, -1)`. Target (...): the index of the true
class. Each item is a problem of its own, and a mask (..., K) says which classes it may have.

`MulticlassZeroOne`. Outputs: a class. F = 2·its score, so the prediction is the class with the largest score. L = 1
for a wrong class, 0 for the right one; or costs[true class][predicted class], where some mistakes are worse than
others. `TopK`. Outputs: sets of k classes. F = 2·the sum of their scores. L = 1 where the true class is not among them.
For classification by error rate, by top-5 error, or by what a mistake costs.

Classes that tie share: loss and features are means over their orders. For the balanced error of K classes weigh each
item's value (reduction="none") by one over the number of items of its class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import check_classes, check_count
from ..families.discounted_gain import DiscountedGainTask
from ..task import Problem

__all__ = ["MulticlassZeroOne", "TopK"]


@dataclass(frozen=True)
class TopK(DiscountedGainTask):
    """Whether the true class is not among the k with the largest scores. Every oracle is exact, O(K) and a sort of k.

    >>> TopK(k=2).infer(torch.tensor([[0.1, 0.5, 0.3], [0.1, 0.5, 0.3]]), torch.tensor([2, 0])).loss
    tensor([0., 1.])
    """

    k: int = 5

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def discounts(self, items: int) -> NDArray[np.float64]:
        return np.ones(min(self.k, items))

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        check_classes(scores, target, mask)
        return (torch.arange(scores.shape[-1], device=scores.device) == target.unsqueeze(-1)) & mask

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        return mask.any(-1)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        return _random_problem(1 + int(torch.randint(longest, (), generator=generator)), generator)


Costs = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class MulticlassZeroOne(DiscountedGainTask):
    """Whether the class is wrong, or what it costs. Every oracle is exact, O(K).

    `costs` is a square matrix, as a nested sequence, an array or a tensor: costs[t][p] is the loss of predicting p
    where t is true, from 0 to 1, and 0 for t = p.

    >>> scores, target = torch.tensor([[0.1, 0.5, 0.3], [0.1, 0.5, 0.3]]), torch.tensor([1, 0])
    >>> MulticlassZeroOne().infer(scores, target).loss
    tensor([0., 1.])
    >>> MulticlassZeroOne(costs=[[0, 0.2, 1], [0.5, 0, 0.5], [1, 0.2, 0]]).infer(scores, target).loss
    tensor([0.0000, 0.2000])
    """

    costs: Costs | Sequence[Sequence[float]] | NDArray[Any] | Tensor | None = None
    _gains: ClassVar[Tensor]  # 1 − costs

    def __post_init__(self) -> None:
        if self.costs is not None:
            object.__setattr__(self, "costs", _checked(self.costs))
            object.__setattr__(self, "_gains", 1 - torch.tensor(self.costs, dtype=torch.float64, device="cpu"))

    def discounts(self, items: int) -> NDArray[np.float64]:
        return np.ones(min(1, items))

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        check_classes(scores, target, mask)
        classes = scores.shape[-1]
        if self.costs is None:
            return (torch.arange(classes, device=scores.device) == target.unsqueeze(-1)) & mask
        if len(self.costs) != classes:
            raise ValueError(
                f"costs is a matrix for {len(self.costs)} classes but scores has shape {tuple(scores.shape)}, with "
                f"{classes} classes in the last dimension. Pass a row and a column for every class."
            )
        some = mask.any(-1)
        return self._gains.to(scores.device)[target.long().where(some, 0)].where(mask, 0.0)

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        return mask.any(-1)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        classes = 1 + int(torch.randint(longest, (), generator=generator))
        return _random_problem(classes if self.costs is None else len(self.costs), generator)


def _random_problem(classes: int, generator: torch.Generator) -> Problem:
    scores = torch.randn(classes, generator=generator, dtype=torch.float64)
    return Problem(scores, torch.randint(classes, (), generator=generator))


def _checked(costs: Any) -> Costs:
    """The matrix as tuples, which compare and hash."""
    try:
        matrix = np.asarray(costs, np.float64)
    except (TypeError, ValueError):
        matrix = np.empty((0, 0))
    if matrix.ndim != 2 or len(matrix) != matrix.shape[-1] or matrix.size == 0:
        raise ValueError(
            f"costs must be a square matrix of numbers, a row for every true class; got "
            f"{f'shape {matrix.shape}' if matrix.size else repr(costs)}. Pass costs[true class][predicted class]."
        )
    if not ((matrix >= 0) & (matrix <= 1)).all():
        wrong = matrix[~((matrix >= 0) & (matrix <= 1))][0]
        raise ValueError(f"costs must be from 0 to 1; got {wrong}. Divide them by the largest.")
    if np.diagonal(matrix).any():
        raise ValueError(
            f"costs must be 0 for the true class; got the diagonal {np.diagonal(matrix).tolist()}. Subtract it from "
            "its row."
        )
    return tuple(tuple(map(float, row)) for row in matrix)
