"""A task of your own: is the best-scored item a positive one?

Outputs: one item of the list is picked. F = the score of that item; L = 1 if it is a negative, else 0. The oracle for
argmax F + weight·L adds the weight to the score of every negative and takes the largest. That is all a task has to
know: with it, every update and every check of directloss works.
"""

import torch
from torch import Tensor

from directloss import Output, PositiveDirect, StructuredLoss, Task, check_task


class TopItem(Task):
    def infer(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        return self.infer_augmented(scores, target, 0.0, mask)

    def infer_augmented(self, scores: Tensor, target: Tensor, weight: float, mask: Tensor | None = None) -> Output:
        return self._pick(scores + weight * ~target.bool(), target, mask)

    def truth(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        return self._pick(scores.masked_fill(~target.bool(), -torch.inf), target, mask)

    def outputs(self, target: Tensor) -> Output:
        loss = ~target.bool() if target.any() else torch.zeros_like(target)
        return Output(torch.eye(len(target), dtype=torch.float64) * target.any(), loss.double())

    @staticmethod
    def _pick(values: Tensor, target: Tensor, mask: Tensor | None) -> Output:
        mask = torch.ones_like(values, dtype=torch.bool) if mask is None else mask
        positive = target.bool() & mask
        values = values.masked_fill(~mask, -torch.inf)
        best = (values == values.amax(-1, keepdim=True)) & positive.any(-1, keepdim=True)  # no positive: no task
        features = best / best.sum(-1, keepdim=True).clamp(min=1)  # tied items share
        return Output(features.to(values.dtype), (features * ~positive).sum(-1).to(values.dtype))


if __name__ == "__main__":
    check_task(TopItem())
    loss = StructuredLoss(TopItem(), PositiveDirect(epsilon=1.0))
    scores = torch.tensor([[1.2, 0.9, 0.5], [2.0, -1.0, 0.0]], requires_grad=True)
    target = torch.tensor([[1, 0, 0], [1, 0, 1]])
    loss(scores, target).backward()
    print(scores.grad)
