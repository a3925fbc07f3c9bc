"""check_task finds what is wrong with a task and says it in words."""

import pytest
import torch

from directloss import Output, Task, ZeroOne, check_task
from directloss.verification import TaskError

GOOD = ZeroOne()


class Wrapped(Task):
    """A good task, to be broken in one place."""

    def infer(self, scores, target, mask=None):
        return GOOD.infer(scores, target, mask)

    def infer_augmented(self, scores, target, weight, mask=None):
        return GOOD.infer_augmented(scores, target, weight, mask)

    def truth(self, scores, target, mask=None):
        return GOOD.truth(scores, target, mask)


class Enumerated(Wrapped):
    def outputs(self, target):
        return GOOD.outputs(target)


class WrongSign(Wrapped):
    def infer_augmented(self, scores, target, weight, mask=None):
        return GOOD.infer_augmented(scores, target, abs(weight), mask)


class NeverAugmented(Enumerated):
    def infer_augmented(self, scores, target, weight, mask=None):
        return GOOD.infer(scores, target, mask)


class LossOfCount(Enumerated):
    def infer(self, scores, target, mask=None):
        features, loss = GOOD.infer(scores, target, mask)
        return Output(features, loss * scores.shape[-1])


class LossOfAnother(Enumerated):
    def infer(self, scores, target, mask=None):
        features, loss = GOOD.infer(scores, target, mask)
        return Output(features, 0.5 * loss)


class TooGood(Enumerated):
    def infer_augmented(self, scores, target, weight, mask=None):
        features, loss = GOOD.infer_augmented(scores, target, weight, mask)
        return Output(2 * features, loss)


class GuiltyTruth(Wrapped):
    def truth(self, scores, target, mask=None):
        return GOOD.infer(scores, target, mask)


class OneLoss(Wrapped):
    def infer(self, scores, target, mask=None):
        features, loss = GOOD.infer(scores, target, mask)
        return Output(features, loss.unsqueeze(-1))


class BlindToMask(Wrapped):
    def infer(self, scores, target, mask=None):
        return GOOD.infer(scores, target)


class FeaturesUnderMask(Wrapped):
    def truth(self, scores, target, mask=None):
        features, loss = GOOD.truth(scores, target, mask)
        return Output(features if mask is None else torch.where(mask, features, 1.0), loss)


class MixesTheBatch(Wrapped):
    def truth(self, scores, target, mask=None):
        features, loss = GOOD.truth(scores, target, mask)
        return Output(features + scores.sum() * 0 + (scores.dim() > 1), loss)


class DependsOnOrder(Wrapped):
    """Gives the first item, if its score is 0, a feature: as good an argmax, but not the same when items move."""

    def infer(self, scores, target, mask=None):
        features, loss = GOOD.infer(scores, target, mask)
        features = features.clone()
        features[..., 0] += (scores[..., 0] == 0) * (True if mask is None else mask[..., 0]) / 10
        return Output(features, loss)


class WrongTruth(Enumerated):
    def truth(self, scores, target, mask=None):
        features, loss = GOOD.truth(scores, target, mask)
        return Output(-features, loss)


class NotANumber(Wrapped):
    def truth(self, scores, target, mask=None):
        features, loss = GOOD.truth(scores, target, mask)
        return Output(features * torch.nan, loss)


class Single(Enumerated):
    """Answers in float32: not the best, but not wrong."""

    def infer(self, scores, target, mask=None):
        features, loss = GOOD.infer(scores, target, mask)
        return Output(features.float(), loss.float())


BROKEN = {
    WrongSign: "infer_augmented is not optimal",
    NeverAugmented: "infer_augmented is not optimal",
    LossOfCount: r"infer must give a loss in \[0, 1\]",
    LossOfAnother: "infer gives loss .*, but its output has loss",
    TooGood: "infer_augmented claims",
    GuiltyTruth: "truth must have loss 0",
    OneLoss: "infer must give features of shape",
    BlindToMask: "infer gives .* masked",
    FeaturesUnderMask: "truth gives masked items the features",
    MixesTheBatch: "truth gives .* for a list in a batch",
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
def test_good_task_passes_with_and_without_enumeration(task):
    check_task(task())


def test_same_seed_finds_the_same_problem():
    messages = []
    for _ in range(2):
        with pytest.raises(TaskError) as caught:
            check_task(WrongSign(), seed=3)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_tasks_whose_items_have_an_order_need_not_be_exchangeable():
    class Ordered(DependsOnOrder):
        exchangeable = False

    check_task(Ordered())
