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

__all__ = ["ZeroOne"]


@dataclass(frozen=True)
class ZeroOne(Task):
    """The share of items with the wrong sign. Every oracle is exact, O(n)."""

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        sign = target.double() * 2 - 1
        right = mask.double() if weight is TRUTH else torch.sign(sign * scores - weight / 2)  # 1, 0 or −1
        count = mask.sum(-1).clamp(min=1)
        loss = (mask * (1 - right) / 2).sum(-1) / count
        return Output(mask * sign * right / count.unsqueeze(-1), loss)

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """All 2^n signs."""
        signs = torch.tensor(list(product((-1.0, 1.0), repeat=len(target))), dtype=torch.float64)
        wrong = signs != target.double() * 2 - 1
        return Output(signs / len(target), wrong.double().mean(-1))
