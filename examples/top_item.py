"""A task of your own: is the best-scored item a positive one?

Outputs: one item of the list is picked. F = the score of that item; L = 1 if it is a negative, else 0. The oracle for
argmax F + weight·L adds the weight to the score of every negative and takes the largest. That is all a task has to
know: with it, every update and every check of directloss works.
"""

import torch
from torch import Tensor

from directloss import Output, PositiveDirect, StructuredLoss, Task
from directloss.families import TRUTH
from directloss.testing import check_task


class TopItem(Task):
    def oracle(self, scores: Tensor, target: Tensor, weight, mask: Tensor) -> Output:
        values = target.double() if weight is TRUTH else scores + weight * ~target
        values = values.masked_fill(~mask, -torch.inf)
        best = (values == values.amax(-1, keepdim=True)) & mask
        features = best / best.sum(-1, keepdim=True).clamp(min=1)  # tied items share
        return Output(features, (features * ~target).sum(-1))

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        return target.any(-1)  # without a positive there is nothing to pick

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        loss = ~target if target.any() else torch.zeros_like(target)
        return Output(torch.eye(len(target), dtype=torch.float64) * target.any(), loss.double())


if __name__ == "__main__":
    check_task(TopItem())
    loss = StructuredLoss(TopItem(), PositiveDirect(epsilon=1.0))
    scores = torch.tensor([[1.2, 0.9, 0.5], [2.0, -1.0, 0.0]], requires_grad=True)
    target = torch.tensor([[1, 0, 0], [1, 0, 1]])
    loss(scores, target).backward()
    print(scores.grad)
