"""ε means the same for every task: it is in units of score margins, whatever the length of the list."""

import warnings

import numpy as np
import pytest
import torch

from benchmarks.scale import RandomGain, RPrecision
from directloss import (
    ROCAUC,
    AveragePrecision,
    AveragePrecisionAtK,
    BinaryDCG,
    HitAtK,
    Output,
    PartialAUC,
    PositiveDirect,
    ReciprocalRank,
    StructuredLoss,
    Task,
)
from directloss.families import ByRank, RankingTask
from directloss.families.scale import natural_scale
from directloss.tasks import TASKS
from directloss.testing import check_task, typical_epsilon

RANKING = [kind() for kind in TASKS.values() if issubclass(kind, RankingTask)]
GAINS = [RPrecision(), *map(RandomGain, range(20))]


def lists(P, M, count=15):
    target = (torch.arange(P + M) < P).expand(count, P + M)
    return torch.randn(count, P + M, generator=torch.Generator().manual_seed(0), dtype=torch.float64), target


@pytest.mark.parametrize("size", [(50, 50), (100, 900), (1000, 9000)], ids=str)
@pytest.mark.parametrize("task", RANKING + GAINS, ids=repr)
def test_half_of_the_loss_is_reached_at_an_epsilon_of_the_order_of_one(task, size):
    """`benchmarks/scale.py` has more sizes, and says which few metrics of the first rank are out of these bounds."""
    scores, target = lists(*size, count=40 if sum(size) > 1000 else 100)
    left = task.infer_augmented(scores, target, 1e12).loss - task.infer(scores, target).loss
    epsilons = typical_epsilon(task, scores, target)[left > 0.01]
    of_few_ranks = "ReciprocalRank()", "AveragePrecisionAtK(k=10)", "RandomGain(seed=15)", "RandomGain(seed=18)"
    low, high = (0.1, 100) if repr(task) in of_few_ranks else (0.35, 6)
    assert not epsilons.numel() or low < epsilons.nanmedian() < high


def test_the_scale_of_a_gain_of_one_size_and_of_none_that_can_be_lost():
    class OfOneSize(RankingTask):
        def gain(self, positives, negatives):
            return ByRank([1.0] * 20, [1.0] * 10 + [0.0] * (positives + negatives - 10))

    assert 0.35 < typical_epsilon(OfOneSize(), *lists(20, 80)).nanmedian() < 6
    assert natural_scale(np.ones(3), np.ones(8), True, 5) == 1.0


def test_average_precision_keeps_the_scale_of_the_paper():
    assert AveragePrecision().scale(7, 1000) == ROCAUC().scale(7, 1000) == 1.0


def test_ragged_lists_need_few_scales():
    task = BinaryDCG()
    for items in range(200, 1200):
        task.scale(items // 5, items)
    assert len(vars(task)["_scales"]) < 40


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


def test_a_scale_is_measured_at_the_size_of_the_lists_that_one_trains_with():
    class Shrinking(BinaryDCG):
        def scale(self, positives, negatives):
            return 10 / (positives + negatives)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for task in (ROCAUC(), HitAtK(3), RPrecision()):
            check_task(task, problems=4)
            check_task(task, problems=4, items=2000)
        check_task(Shrinking(), problems=4, items=20)
    with pytest.warns(UserWarning, match="2000 items .* ε = 1 goes to the worst output"):
        check_task(Shrinking(), problems=4, items=2000)


@pytest.mark.parametrize("task", [ReciprocalRank(), PartialAUC(0.1), AveragePrecisionAtK(10), BinaryDCG()], ids=repr)
def test_one_more_positive_changes_the_scale_by_little(task):
    for negatives in (37, 300):
        scales = np.array([task.scale(positives, negatives) for positives in range(2, 17)])
        assert np.abs(np.log(scales[1:] / scales[:-1])).max() < np.log(3)


def test_where_random_lists_have_lost_all_the_scale_is_that_of_the_perfect_ranking():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((20, 20_000), generator=generator, dtype=torch.float64).sort(descending=True).values
    target = (torch.arange(20_000) < 1).expand(scores.shape)
    typical = typical_epsilon(HitAtK(1), scores, target)
    assert 0.3 < typical.median() < 10
    assert HitAtK(1).scale(1, 19_999) != 1.0
