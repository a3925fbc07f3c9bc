"""Tasks whose loss is linear in the output: L(y) = l0 + <l, y>.

Then F + weight·L is, up to a constant, the score of y for shifted scores. With F = scale·<scores, y>,

    argmax F + weight·L = argmax <scores + weight/scale·l, y>,

so the decoder that predicts also finds every loss-augmented output, for a weight of either sign. Many losses are linear
in an output that is coded by 0 and 1: a wrong label, a missed place, a cell off the path, the regret of a path.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from ..task import Output, Task
from ..update import TRUTH, Truth

__all__ = ["LinearLossTask"]

ROUNDING = 1e-9  # how far sums may take a loss out of [0, 1]; what is further out is a mistake in cost


class LinearLossTask(Task):
    """A task made of a decoder and a cost: L(y) = l0 + <l, y>, F = scale·<scores, y>.

    A subclass writes `decode` and `cost`, and `scale` so that ε is in units of scores: as a rule 2 over the largest
    number of parts of y that can be wrong, e.g. 2/n for n labels.

    >>> class Signs(LinearLossTask):  # which items are positive; L is the share of wrong ones
    ...     def decode(self, scores, mask):
    ...         return 1.0 * ((scores > 0) & mask)
    ...     def cost(self, target, mask):
    ...         items = mask.sum(-1, keepdim=True)
    ...         return (target / items).sum(-1), (1.0 - 2.0 * target) * mask / items
    >>> Signs().infer(torch.tensor([2.0, -1.0, 1.0]), torch.tensor([1, 1, 0])).loss
    tensor(0.6667)
    """

    @abstractmethod
    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        """y = argmax <scores, y> for every problem of a batch: the shape of scores, 0 where masked.

        Where several y are best, return their mean, so that the order of the input does not matter. Scores are float64
        and may be any finite numbers where valid.
        """

    @abstractmethod
    def cost(self, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(l0, l) with L(y) = l0 + <l, y>: l0 in the shape of the batch, l in the shape of scores, float64.

        Gets the target as `check_target` made it.
        """

    def scale(self, target: Tensor, mask: Tensor) -> Tensor:
        """The factor of F, above 0, in the shape of the batch; here 1."""
        return torch.ones((), dtype=torch.float64, device=mask.device)

    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        """The decoder's output for shifted scores; the truth is the one for the cost alone."""
        l0, cost = (number.to(scores.dtype) for number in self.cost(target, mask))
        scale = self._per_problem(self.scale(target, mask), scores)
        scale = scale.where(scale > 0, 1.0)  # a problem that does not count may have none
        shifted = -cost if weight is TRUTH else scores + weight / scale * cost  # for a weight of 0 scores themselves
        y = self.decode(shifted, mask).to(scores.dtype)
        loss = l0 + (cost * y).flatten(-self.event_dims).sum(-1)
        inside = (loss > -ROUNDING) & (loss < 1 + ROUNDING)
        return Output(scale * y, loss.clamp(0, 1).where(inside, loss))
