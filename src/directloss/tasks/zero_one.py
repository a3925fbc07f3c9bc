"""Binary classification, item by item.

Outputs: a sign y_i = ±1 for each of the n items of a list. F = 1/n Σ_i y_i s_i, so the prediction is the sign of the
score. L = the share of wrong signs. Everything decomposes, so each oracle is a comparison: with t_i = ±1 the true sign,
argmax F + weight·L is right at i where t_i s_i > weight/2 and wrong where it is less. At equality, as for a score of 0
in the prediction, it is neither: no feature and half a mistake.
"""

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from ..autograd import valid_lists
from ..checks import check_lists, check_weight
from ..task import Output, Task
from ..update import TRUTH

__all__ = ["ZeroOne"]


@dataclass(frozen=True)
class ZeroOne(Task):
    """The share of items with the wrong sign. Every oracle is exact, O(n)."""

    def infer(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        return self._decide(scores, target, 0.0, mask)

    def infer_augmented(self, scores: Tensor, target: Tensor, weight: float, mask: Tensor | None = None) -> Output:
        return self._decide(scores, target, check_weight(weight), mask)

    def truth(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        return self._decide(scores, target, TRUTH, mask)

    def outputs(self, target: Tensor) -> Output:
        """All 2^n signs."""
        signs = torch.tensor(list(product((-1.0, 1.0), repeat=len(target))), dtype=torch.float64)
        wrong = signs != target.double() * 2 - 1
        return Output(signs / len(target), wrong.double().mean(-1))

    @staticmethod
    def _decide(scores: Tensor, target: Tensor, weight: float, mask: Tensor | None) -> Output:
        check_lists(scores, target, mask)
        dtype = torch.promote_types(scores.dtype, torch.float32)
        scores, positive, valid = valid_lists(scores.detach(), target, mask)
        sign = positive.double() * 2 - 1
        right = torch.sign(sign * scores - weight / 2)  # 1, 0 or −1
        count = valid.sum(-1).clamp(min=1)
        loss = (valid * (1 - right) / 2).sum(-1) / count
        return Output((valid * sign * right / count.unsqueeze(-1)).to(dtype), loss.to(dtype))
