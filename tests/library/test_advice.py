"""A loss warns once where its first hundred steps were legal but surely wrong."""

import warnings

import pytest
import torch

from directloss import (
    AveragePrecision,
    AveragePrecisionLoss,
    HitAtK,
    NDCGLoss,
    PositiveDirect,
    StructuredLoss,
    TrainingWarning,
    WarmUp,
)
from directloss.families import ByRank, RankingTask

RARE = (torch.arange(3200) % 64 == 0).reshape(100, 32)[
    :, torch.randperm(32, generator=torch.Generator().manual_seed(0))
]


def train(loss, scores, target, **options):
    """A hundred steps, and some more."""
    for step in range(130):
        given, labels = scores(step), target(step)
        loss(given.requires_grad_(), labels, **options)


def normal(step):
    return torch.randn(32, generator=torch.Generator().manual_seed(step))


def labels(step):
    return torch.arange(32) % 4 == step % 4


def short(step):
    return torch.randn(8, 5, generator=torch.Generator().manual_seed(step))


class Own(RankingTask):
    """A metric whose parameter is called k, and is no number."""

    def __init__(self, k):
        self.k = k

    def gain(self, positives, negatives):
        return ByRank([1.0] * positives, [1 / rank for rank in range(1, positives + negatives + 1)])


CASES = {
    "probabilities": (AveragePrecisionLoss, lambda step: normal(step).sigmoid(), labels, "pass the logits"),
    "no positives": (AveragePrecisionLoss, normal, lambda step: RARE[step % 100], "PositivesSampler"),
    "few items": (
        lambda: StructuredLoss(HitAtK(10), PositiveDirect(1.0)),
        short, lambda step: torch.arange(5).expand(8, 5) == 1, "first 10 ranks.* at most 5 items, so that all",
    ),
    "no gradient": (
        lambda: AveragePrecisionLoss(PositiveDirect(1e-6)), normal, labels, "gradient was zero.*directloss.diagnose",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_surely_wrong_is_said_once_with_the_cure(case):
    make, scores, target, words = CASES[case]
    loss = make()
    with pytest.warns(TrainingWarning, match=words) as said:
        train(loss, scores, target)
    assert len(said) == 1
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(loss, scores, target)
        warnings.simplefilter("ignore", TrainingWarning)
        train(make(), scores, target)


def test_padding_has_no_say_in_what_scores_are_like():
    mask = torch.arange(32) < 28

    def padded(step):
        return normal(step).sigmoid().masked_fill(~mask, -1e9)

    with pytest.warns(TrainingWarning, match="pass the logits"):
        train(AveragePrecisionLoss(), padded, labels, mask=mask)


def test_flat_lists_and_a_warm_up_are_watched_too():
    ids = torch.arange(32) // 4
    with pytest.warns(TrainingWarning, match="at most 4 items, so that all rankings"):
        train(StructuredLoss(HitAtK(5), PositiveDirect(1.0)), normal, labels, indexes=ids)
    loss = WarmUp(AveragePrecisionLoss(), steps=20)
    with pytest.warns(TrainingWarning, match="pass the logits"):
        train(loss, lambda step: normal(step).sigmoid(), labels)


def test_usual_training_validation_and_perfect_rankings_are_left_in_peace():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(AveragePrecisionLoss(), normal, labels)
        train(AveragePrecisionLoss(), lambda step: torch.zeros(32), labels)
        train(NDCGLoss(k=10), short, lambda step: torch.arange(5).expand(8, 5) % 3)
        train(StructuredLoss(Own(k=(1, 5)), PositiveDirect(1.0)), normal, labels)
        train(AveragePrecisionLoss(PositiveDirect(1e-3)), lambda step: 2.0 * labels(step) - 1, labels)
        train(AveragePrecisionLoss(reduction="none"), short, lambda step: torch.arange(5).expand(8, 5) == step % 5)
        loss = AveragePrecisionLoss()
        for step in range(130):
            loss(normal(step).sigmoid(), labels(step))
        assert not AveragePrecision().infer(labels(0).float(), labels(0)).loss
