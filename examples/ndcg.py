"""A task with graded targets: normalised discounted cumulative gain (NDCG).

Outputs: rankings of the list. An item with grade r has the gain 2^r − 1; rank k has the discount d_k = 1/log2(k + 1).
L = 1 − DCG/Z, DCG = Σ gain·d_rank, and Z is the DCG of the best ranking. F = 2/Z·Σ score·d_rank, with gains up to 1, so
the prediction sorts by score. Then F + weight·L is, up to a constant, 1/Z·Σ (2·score − weight·gain)·d_rank: the oracle
sorts by 2·score − weight·gain. Tied items share the mean of their discounts.
"""

from itertools import permutations

import torch
from torch import Tensor

from directloss import TRUTH, Output, PositiveDirect, Problem, StructuredLoss, Task, check_task
from directloss.checks import refuse_first


class NDCG(Task):
    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        if target.shape != scores.shape:
            raise ValueError(f"target must have the shape of scores, {tuple(scores.shape)}; got {tuple(target.shape)}.")
        grades = target.double().where(mask, 0.0)
        refuse_first(~(grades >= 0), grades, "target must hold grades, 0 or more, where valid", "Shift them.")
        gain = 2**grades - 1
        return gain / gain.amax(-1, keepdim=True).clamp(min=1) if gain.numel() else gain

    def oracle(self, scores: Tensor, target: Tensor, weight, mask: Tensor) -> Output:
        keys = target if weight is TRUTH else 2 * scores - weight * target
        best = _mean_discounts(target.masked_fill(~mask, -torch.inf)) * mask
        share = _mean_discounts(keys.masked_fill(~mask, -torch.inf)) * mask
        total = (best * target).sum(-1, keepdim=True)
        return Output(2 * share / total, 1 - (share * target).sum(-1) / total.squeeze(-1))

    def counts(self, target: Tensor, mask: Tensor) -> Tensor:
        return (target > 0).any(-1)  # where nothing is relevant there is nothing to gain

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """Every order of the items."""
        gain = self.check_target(scores, target, torch.ones_like(scores, dtype=torch.bool))
        orders = torch.tensor(list(permutations(range(len(gain)))))
        discounts = _discounts(len(gain)).expand(len(orders), -1)
        place = torch.zeros(orders.shape, dtype=torch.float64).scatter(1, orders, discounts)  # of every item
        totals = place @ gain
        best = totals.max()
        if best == 0:
            return Output(torch.zeros_like(place[:1]), torch.zeros(1, dtype=torch.float64))
        return Output(2 * place / best, 1 - totals / best)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        scores, _, _ = super().random_problem(longest, generator)
        return Problem(scores, torch.randint(4, scores.shape, generator=generator))


def _discounts(items: int) -> Tensor:
    return 1 / torch.arange(2, items + 2, dtype=torch.float64).log2()


def _mean_discounts(keys: Tensor) -> Tensor:
    """Of every item the discount of its rank by descending key; tied items share the mean of theirs."""
    ascending = keys.sort(-1).values
    first = keys.shape[-1] - torch.searchsorted(ascending, keys, right=True)  # how many stand above
    last = keys.shape[-1] - torch.searchsorted(ascending, keys)
    sums = torch.nn.functional.pad(_discounts(keys.shape[-1]).to(keys.device).cumsum(0), (1, 0))
    return (sums[last] - sums[first]) / (last - first)


if __name__ == "__main__":
    check_task(NDCG())
    loss = StructuredLoss(NDCG(), PositiveDirect(epsilon=1.0))
    scores = torch.tensor([0.5, 0.4, 0.3, 0.1], requires_grad=True)
    grades = torch.tensor([0, 1, 3, 0])
    value = loss(scores, grades)
    value.backward()
    print(f"NDCG {1 - NDCG().infer(scores, grades).loss:.3f}, loss {value:.3f}, gradient {scores.grad}")
