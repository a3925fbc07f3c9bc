"""check_task finds what is wrong with a task and says it in words."""

import pytest
import torch

from directloss import Output, Task, ZeroOne
from directloss.families import TRUTH
from directloss.testing import TaskError, check_task

GOOD = ZeroOne()


class Wrapped(Task):
    """A good task, to be broken in one place."""

    def oracle(self, scores, target, weight, mask):
        return GOOD.oracle(scores, target, weight, mask)


class Enumerated(Wrapped):
    def outputs(self, scores, target):
        return GOOD.outputs(scores, target)


def prediction(weight):
    return weight is not TRUTH and not weight.any()


class WrongSign(Wrapped):
    def oracle(self, scores, target, weight, mask):
        return GOOD.oracle(scores, target, weight if weight is TRUTH else weight.abs(), mask)


class NeverAugmented(Enumerated):
    def oracle(self, scores, target, weight, mask):
        return GOOD.oracle(scores, target, weight if weight is TRUTH else 0 * weight, mask)


class FirstWeight(Wrapped):
    """Takes the weight of the first problem of a batch for all."""

    def oracle(self, scores, target, weight, mask):
        return GOOD.oracle(scores, target, weight if weight is TRUTH else weight.flatten()[:1].expand_as(weight), mask)


class LossOfCount(Enumerated):
    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        return Output(features, loss * scores.shape[-1] if prediction(weight) else loss)


class LossOfAnother(Enumerated):
    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        return Output(features, 0.5 * loss if prediction(weight) else loss)


class TooGood(Enumerated):
    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        more = 0 if weight is TRUTH or prediction(weight) else mask * scores.sign() / 10
        return Output(features + more, loss)


class GuiltyTruth(Wrapped):
    def oracle(self, scores, target, weight, mask):
        weight = torch.zeros_like(scores[..., :1]) if weight is TRUTH else weight
        return GOOD.oracle(scores, target, weight, mask)


class OneLoss(Wrapped):
    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        return Output(features, loss.unsqueeze(-1))


class BlindToMask(Wrapped):
    def oracle(self, scores, target, weight, mask):
        return GOOD.oracle(scores, target, weight, torch.ones_like(mask))


class FeaturesUnderMask(Wrapped):
    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        return Output(torch.where(mask, features, 1.0) if weight is TRUTH else features, loss)


class MixesTheBatch(Wrapped):
    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        return Output(features + (scores.dim() > 1) if weight is TRUTH else features, loss)


class DependsOnOrder(Wrapped):
    """Gives the first valid item, if its score is 0, a feature: as good an argmax, but not the same when items move."""

    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        if prediction(weight):
            first = mask & (mask.cumsum(-1) == 1)
            features = features + first * (scores == 0) / 10
        return Output(features, loss)


class WrongTruth(Enumerated):
    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        return Output(-features if weight is TRUTH else features, loss)


class NotANumber(Wrapped):
    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        return Output(features * torch.nan if weight is TRUTH else features, loss)


class Single(Enumerated):
    """Answers in float32: not the best, but not wrong."""

    def oracle(self, scores, target, weight, mask):
        features, loss, _ = GOOD.oracle(scores, target, weight, mask)
        return Output(features.float(), loss.float())


BROKEN = {
    WrongSign: "infer_augmented is not optimal",
    NeverAugmented: "infer_augmented is not optimal",
    FirstWeight: "infer_augmented gives .* for a problem in a batch",
    LossOfCount: r"infer must give a loss in \[0, 1\]",
    LossOfAnother: "infer gives loss .*, but its output has loss",
    TooGood: "infer_augmented claims",
    GuiltyTruth: "truth must have loss 0",
    OneLoss: "infer must give features of shape",
    BlindToMask: "(?s)infer gives .* masked",
    FeaturesUnderMask: "truth gives masked items the features",
    MixesTheBatch: "truth gives .* for a problem in a batch",
    DependsOnOrder: "infer depends on the order of the items",
    WrongTruth: "truth has features .* but no output with loss 0",
    NotANumber: "truth must give finite features",
}


@pytest.mark.parametrize("task", BROKEN)
def test_broken_task_is_found_and_the_problem_shown(task):
    with pytest.raises(TaskError, match=BROKEN[task]) as caught:
        check_task(task())
    assert task.__name__ in str(caught.value)
    for word in ("scores = [", "target = [", "weight = "):
        assert word in str(caught.value)


@pytest.mark.parametrize("task", [Wrapped, Enumerated, Single])
@pytest.mark.slow
def test_good_task_passes_with_and_without_enumeration(task):
    check_task(task(), problems=60)


def test_same_seed_finds_the_same_problem():
    messages = []
    for _ in range(2):
        with pytest.raises(TaskError) as caught:
            check_task(WrongSign(), seed=3)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.slow
def test_tasks_whose_items_have_an_order_need_not_be_exchangeable():
    class Ordered(DependsOnOrder):
        exchangeable = False

    check_task(Ordered())


def test_check_works_where_the_default_device_has_no_data():
    with torch.device("meta"):
        check_task(GOOD, problems=4)
