"""Binary classification in which both classes weigh the same.

Outputs: a sign y_i = ±1 for each item of a list. F = the mean over classes of the class's mean of y_i s_i, L = the mean
over classes of the class's share of wrong signs: 1 − L is the balanced accuracy. A class without items is left out of
both means. Every item weighs the same in F and in L, so as in `ZeroOne` the oracle is a comparison: argmax F + weight·L
is right at i where t_i s_i > weight/2, with the true sign t_i = ±1. For rare classes, where always saying no is right
most of the time.
"""

from dataclasses import dataclass

from torch import Tensor

from ..task import Output, Task
from ..update import Truth
from .zero_one import choose_signs, every_sign

__all__ = ["BalancedError"]


@dataclass(frozen=True)
class BalancedError(Task):
    """1 − balanced accuracy. Every oracle is exact, O(n).

    >>> scores, target = torch.tensor([0.3, -0.2, -0.8, 0.1, -0.5]), torch.tensor([1, 1, 0, 0, 0])
    >>> BalancedError().infer(scores, target).loss  # the mean of 1/2 and 1/3
    tensor(0.4167)
    """

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        return choose_signs(scores, target, weight, _shares(target, mask))

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """All 2^n signs."""
        target = target != 0
        return every_sign(target, _shares(target, target | True))


def _shares(target: Tensor, mask: Tensor) -> Tensor:
    """What each item weighs: one over the number of items in its class, and over the number of classes."""
    sizes = [(mask & of_class).sum(-1, keepdim=True) for of_class in (target, ~target)]
    classes = sum((size > 0).double() for size in sizes)
    return mask / (classes * sizes[0].where(target, sizes[1])).clamp(min=1)
