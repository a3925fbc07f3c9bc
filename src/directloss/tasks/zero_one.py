"""Binary classification, item by item.

Outputs: a sign y_i = ±1 for each of the n items of a list. F = 1/n Σ_i y_i s_i, so the prediction is the sign of the
score. L = the share of wrong signs. Everything decomposes, so the oracle is a comparison: with t_i = ±1 the true sign,
argmax F + weight·L is right at i where t_i s_i > weight/2 and wrong where it is less. At equality, as for a score of 0
in the prediction, it is neither: no feature and half a mistake.
"""

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from ..task import Output, Task
from ..update import TRUTH, Truth

__all__ = ["ZeroOne", "choose_signs", "every_sign"]


@dataclass(frozen=True)
class ZeroOne(Task):
    """The share of items with the wrong sign. Every oracle is exact, O(n).

    >>> ZeroOne().infer(torch.tensor([0.3, -0.2, -0.8, 0.1]), torch.tensor([1, 1, 0, 0])).loss
    tensor(0.5000)
    """

    lists_of_one = True

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        return choose_signs(scores, target, weight, mask / mask.sum(-1, keepdim=True).clamp(min=1).double())

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """All 2^n signs."""
        return every_sign(target != 0, torch.full(target.shape, 1 / len(target), dtype=torch.float64))


def choose_signs(scores: Tensor, target: Tensor, weight: Tensor | Truth, shares: Tensor) -> Output:
    """The oracle for signs of items that have one share in F and in L, the same for a class; masked items have none."""
    sign = target.double() * 2 - 1
    right = torch.ones_like(scores) if weight is TRUTH else torch.sign(sign * scores - weight / 2)  # 1, 0 or −1
    wrong = (1 - right) / 2 * (shares > 0)
    losses = [(wrong * one).sum(-1) * (shares * one).amax(-1) for one in (target, ~target)]  # integers, then shares
    return Output(shares * sign * right, losses[0] + losses[1])


def every_sign(target: Tensor, shares: Tensor) -> Output:
    """All 2^n signs of the items of one list."""
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=len(target))), dtype=torch.float64)
    return Output(shares * signs, (shares * (signs != target.double() * 2 - 1)).sum(-1))
