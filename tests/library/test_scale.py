"""ε means the same for every task: it is in units of score margins, whatever the length of the list."""

import warnings

import pytest
import torch

from directloss import (
    ROCAUC,
    AveragePrecision,
    AveragePrecisionAtK,
    BinaryDCG,
    HitAtK,
    Output,
    PartialAUC,
    PositiveDirect,
    RankBiasedPrecision,
    RecallAtFPR,
    StructuredLoss,
    Task,
)
from directloss.testing import check_task, typical_epsilon

SIZES = [(50, 450), (500, 4500), (20, 4980)]
SCALED = [
    AveragePrecision(), ROCAUC(), PartialAUC(0.1), PartialAUC(0.5), RecallAtFPR(0.1), BinaryDCG(), BinaryDCG(10),
    AveragePrecisionAtK(10), RankBiasedPrecision(0.95),
]  # fmt: skip


def lists(P, M, count=15):
    target = (torch.arange(P + M) < P).expand(count, P + M)
    return torch.randn(count, P + M, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + target, target


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("task", SCALED, ids=repr)
def test_half_of_the_loss_is_reached_at_an_epsilon_of_the_order_of_one(task, size):
    epsilons = typical_epsilon(task, *lists(*size))
    assert 0.4 < epsilons[~epsilons.isnan()].log().mean().exp() < 4


def test_typical_epsilon_is_where_half_of_the_loss_is_reached():
    scores, target = lists(30, 70, count=4)
    task = BinaryDCG()
    epsilon = typical_epsilon(task, scores, target)
    start, top = task.infer(scores, target).loss, task.infer_augmented(scores, target, 1e12).loss
    for factor, reached in ((0.99, False), (1.01, True)):
        loss = task.infer_augmented(scores, target, factor * epsilon).loss
        assert ((loss >= (start + top) / 2 - 1e-9) == reached).all()


def test_typical_epsilon_follows_the_scores_and_is_nothing_where_there_is_nothing_to_lose():
    scores, target = lists(30, 70, count=1)
    assert typical_epsilon(ROCAUC(), 3 * scores, target) == pytest.approx(3 * typical_epsilon(ROCAUC(), scores, target))
    assert typical_epsilon(ROCAUC(), torch.tensor([0.0, 1.0]), torch.tensor([1, 0])).isnan()  # the worst order already
    assert typical_epsilon(ROCAUC(), torch.tensor([0.0, 1.0]), torch.tensor([1, 1])).isnan()


class Unscaled(Task):
    """Precision at 10 as one writes it first: F = the sum of the selected scores, L = the share of negatives."""

    factor = 1.0

    def oracle(self, scores, target, weight, mask):
        k = min(10, scores.shape[-1])
        cost = (~target).double() / k
        values = -cost if not isinstance(weight, torch.Tensor) else self.factor * scores + weight * cost
        values = values.masked_fill(~mask, -torch.inf)
        chosen = torch.zeros_like(scores).scatter(-1, values.topk(k).indices, 1.0) * mask
        return Output(self.factor * chosen, (chosen * cost).sum(-1))

    def is_scored(self, target, mask):
        return (target.sum(-1) >= 10) & (mask.sum(-1) >= 10)

    exchangeable = False  # ties are not shared


def test_a_metric_that_would_not_train_at_one_is_told_so():
    scores, target = torch.randn(120, 300, generator=torch.Generator().manual_seed(0)), torch.arange(300) < 60
    target = target.expand(120, 300)
    loss = StructuredLoss(Unscaled(), PositiveDirect(1.0), reduction="none")
    (grad,) = torch.autograd.grad(loss(leaf := scores.requires_grad_(), target).sum(), leaf)
    assert (grad == 0).all(-1).float().mean() > 0.5  # no gradient in most iterations
    with pytest.warns(UserWarning, match=r"Unscaled\(\) keeps all laws, but its scale.*ε = 1 changes nothing"):
        check_task(Unscaled(), problems=8, longest=12)


def test_scale_cures_it():
    class Scaled(Unscaled):
        factor = 0.2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_task(Scaled(), problems=8, longest=12)


def test_metrics_of_few_pairs_say_so_and_others_do_not():
    with pytest.warns(UserWarning, match="its scale is unusual.*ε = 1 goes to the worst output"):
        check_task(HitAtK(1), problems=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for task in SCALED[:4]:
            check_task(task, problems=4)
