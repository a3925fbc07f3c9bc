"""Losses of counts: F-measure, intersection over union, Tversky index, and a user's own."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from members import UPDATES, epsilons, lists
from sklearn.metrics import fbeta_score, jaccard_score
from test_linear_losses import SIZES, eps_half, gradient, spread

from directloss import CentralDirect, PositiveDirect, StructuredLoss, metric
from directloss.families import counts
from directloss.families.counts import CountTask, TverskyTask
from directloss.tasks.counts import FMeasure, IoU, Tversky
from directloss.testing import check_task

TASKS = [
    FMeasure(),
    FMeasure(2.0),
    FMeasure(0.3),
    FMeasure(0.0),
    IoU(),
    IoU(count_empty=True),
    Tversky(0.3, 0.7),
    Tversky(1.0, 0.0),
    Tversky(2.0, 3.0),
    FMeasure(count_empty=True),
]
pytestmark = pytest.mark.filterwarnings("ignore:.*scale is unusual")  # it has tests of its own below
NOTHING_SELECTED: Any = {"zero_division": 0.0}


class GMean(CountTask):
    """A user's own: 1 − √(recall·specificity)."""

    def loss(self, true_positives, false_positives, positives, negatives):
        specificity = 1 - false_positives / np.maximum(negatives, 1)
        return 1 - np.sqrt(true_positives / positives * specificity)


@dataclass(frozen=True)
class Table(CountTask):
    """The loss of a Tversky task by the table of all pairs of counts."""

    task: TverskyTask

    def loss(self, true_positives, false_positives, positives, negatives):
        return self.task.loss(true_positives, false_positives, positives, negatives)

    def is_scored(self, target, mask):
        return self.task.is_scored(target, mask)


@pytest.mark.parametrize("task", [*TASKS, GMean(), Table(FMeasure()), Table(IoU(count_empty=True))], ids=str)
def test_oracles_are_exact_and_keep_the_laws(task):
    check_task(task, problems=30)


@given(st.sampled_from(TASKS), lists(longest=60), epsilons(), st.integers(0, 2**32))
@settings(max_examples=300)
def test_walk_is_as_good_as_the_table(task, problem, epsilon, seed):
    scores, target = problem
    scores = scores - 2 * torch.rand((), generator=torch.Generator().manual_seed(seed)).double() * scores.std(
        correction=0
    )
    for weight in (epsilon, -epsilon):
        walk, table = (one.infer_augmented(scores, target, weight) for one in (task, Table(task)))
        better = ((walk.features - table.features) * scores).sum() + weight * (walk.loss - table.loss)
        assert abs(better) < 1e-9 * (1 + epsilon + scores.abs().max())
    for update in (type(one) for one in UPDATES[:3]):
        values = [StructuredLoss(one, update(epsilon))(scores, target) for one in (task, Table(task))]
        torch.testing.assert_close(*values, rtol=1e-9, atol=1e-9 * (1 + scores.abs().max().item() / epsilon))


def test_long_lists_and_blocks_of_the_table_change_nothing(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6000, generator=generator, dtype=torch.float64).mul(100).round() / 100
    target = torch.rand(6000, generator=generator) < 0.05
    found = [gradient(StructuredLoss(IoU(), CentralDirect(3.0)), scores, target)]
    found.append(gradient(StructuredLoss(Table(IoU()), CentralDirect(3.0)), scores, target))
    monkeypatch.setattr(counts, "CELLS", 10_000)
    found.append(gradient(StructuredLoss(Table(IoU()), CentralDirect(3.0)), scores, target))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-9, atol=1e-12)


@given(lists(longest=10), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
@settings(max_examples=100)
def test_indices_of_the_prediction_are_those_of_scikit_learn(problem, beta):
    scores, target = problem
    if not target.any():
        return
    selected = scores > 0
    for task, index in (
        (FMeasure(beta), fbeta_score(target, selected, beta=beta, **NOTHING_SELECTED)),
        (IoU(), jaccard_score(target, selected)),
    ):
        assert 1 - task.infer(scores, target).loss.item() == pytest.approx(index, abs=1e-12)


@pytest.mark.parametrize("task", [FMeasure(), IoU(), GMean()], ids=str)
def test_ties_of_a_class_share_and_the_truth_selects_the_positives(task):
    scores, target = torch.tensor([0.5, 0.5, 0.5, -0.5, -0.5, -0.5]), torch.tensor([1, 1, 0, 1, 0, 0])
    for weight in (-0.5, 0.3, 0.5, 2.0):
        features = task.infer_augmented(scores, target, weight).features
        assert features[0] == features[1]
        assert features[4] == features[5]
    assert task.truth(scores, target).features.tolist() == pytest.approx([2 / 3, 2 / 3, 0, 2 / 3, 0, 0])


def test_value_is_exact_however_large_the_scores_far_away_are():
    scores, target = torch.tensor([1e12, 0.1, -0.1, -1e12], dtype=torch.float64), torch.tensor([1, 1, 0, 0])
    near = StructuredLoss(FMeasure(), PositiveDirect(1.0))
    assert near(scores, target).item() == pytest.approx(near(scores.clamp(-9, 9), target).item(), abs=1e-15)


def test_lists_without_positives_count_only_if_asked():
    scores, target = torch.tensor([[0.4, -0.1, 0.2], [-0.4, -0.1, -0.2]]), torch.zeros(2, 3)
    row = CentralDirect(2.0).spec
    plain = IoU().contrast(scores, target, row)
    assert not plain.counted.any()
    assert not plain.gradient.any()
    assert not plain.value.any()
    counting = IoU(count_empty=True)
    assert counting.contrast(scores, target, row).counted.all()
    assert counting.infer(scores, target).loss.tolist() == [1.0, 0.0]
    assert not counting.infer_augmented(scores, target, -2.0).features.any()  # 2·(0.4 + 0.2) is less than 2
    assert counting.infer_augmented(scores, target, 2.0).loss.tolist() == [1.0, 1.0]


def test_images_and_classes_are_problems_of_two_dimensions():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((2, 3, 4, 5), generator=generator)
    target = torch.rand((2, 3, 4, 5), generator=generator) < 0.4
    mask = torch.rand((2, 3, 4, 5), generator=generator) < 0.9
    for update in UPDATES:
        flat = gradient(
            StructuredLoss(IoU(), update, reduction="none"), scores.flatten(2), target.flatten(2), mask.flatten(2)
        )
        image = gradient(StructuredLoss(IoU(event_dims=2), update, reduction="none"), scores, target, mask)
        torch.testing.assert_close((image[0], image[1].flatten(2)), flat)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        IoU(event_dims=2).infer(torch.zeros(3), torch.zeros(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types_of_scores_decide_alike(dtype):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((4, 30), generator=generator).to(dtype)
    target = torch.rand((4, 30), generator=generator) < 0.3
    for update in UPDATES:
        for task in (FMeasure(), GMean()):
            value, grad = gradient(StructuredLoss(task, update), scores, target)
            exact_value, exact_grad = gradient(StructuredLoss(task, update), scores.double(), target)
            assert value.dtype == grad.dtype == dtype
            torch.testing.assert_close((value, grad), (exact_value.to(dtype), exact_grad.to(dtype)))


@pytest.mark.parametrize("task", [FMeasure(), IoU(event_dims=2), GMean()], ids=str)
def test_compile_vmap_and_gradcheck(task):
    torch.compiler.reset()
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((2, 3, 4, 2), generator=generator, dtype=torch.float64)
    target = torch.rand((2, 3, 4, 2), generator=generator) < 0.4
    loss = StructuredLoss(task, CentralDirect(0.7), reduction="none")
    want = gradient(loss, scores, target)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(gradient(compiled, scores, target), want)
    torch.testing.assert_close(torch.func.vmap(loss)(scores, target), want[0])
    assert torch.autograd.gradcheck(lambda s: loss(s, target), scores.requires_grad_())


@pytest.mark.parametrize("size", SIZES)
def test_epsilon_is_in_units_of_scores_where_as_many_are_selected_as_there_are_positives(size):
    scores, target = spread(*size)
    scores = scores - scores.sort(-1, descending=True).values[:, size[0] - 1 : size[0]] + 1e-9
    found = {task: eps_half(task, scores, target) for task in (FMeasure(), FMeasure(2.0), IoU(), Tversky(0.3, 0.7))}
    assert all(0.5 <= epsilon <= 4 for epsilon in found.values()), found


def test_tasks_say_which_way_they_take():
    walk = "one pass through positives and negatives, O(P + M): at most 110 steps"
    assert IoU().explain(10, 100).splitlines()[1:] == [f"weight > 0: {walk}", f"weight < 0: {walk}"]
    table = "all pairs of true and false positives that can be best, at most 1,111 of them"
    assert GMean().explain(10, 100).splitlines()[1:] == [f"weight > 0: {table}", f"weight < 0: {table}"]
    steep = Tversky(0.5, 2.0).explain(10, 100).splitlines()
    assert steep[1:] == [f"weight > 0: {walk}", f"weight < 0: β > 1: {table}"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FMeasure(-1.0), "beta must be finite and 0 or more; got -1.0"),
        (lambda: FMeasure(float("inf")), "beta must be finite and 0 or more; got inf"),
        (lambda: FMeasure(cast(Any, "2")), "beta must be a number, 0 or more; got '2' of type str"),
        (lambda: Tversky(float("nan")), "alpha must be finite and 0 or more; got nan"),
        (lambda: Tversky(0.5, -0.5), "beta must be finite and 0 or more; got -0.5"),
        (lambda: IoU(event_dims=0), "event_dims must be at least 1; got 0"),
    ],
)
def test_parameters_that_are_none_are_refused_in_words(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


class Undefined(CountTask):
    def loss(self, true_positives, false_positives, positives, negatives):
        selected = true_positives + false_positives
        with np.errstate(invalid="ignore"):
            return 1 - true_positives / selected


class Cost(CountTask):
    def loss(self, true_positives, false_positives, positives, negatives):
        return 10 * (positives - true_positives) + false_positives


def test_a_raw_cost_is_refused_in_words():
    with pytest.raises(
        ValueError, match=r"got 1[01] for 0 true and . false positives.*Divide a cost by the largest one"
    ):
        metric(Cost(), torch.tensor([-0.1, 0.2, -0.3]), torch.tensor([1, 0, 0]))


def test_loss_that_is_not_a_number_is_refused_in_words():
    with pytest.raises(ValueError, match="got nan for 0 true and 0 false positives of 1 positives and 2 negatives"):
        Undefined().infer_augmented(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 0, 0]), 10.0)
