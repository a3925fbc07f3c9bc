"""Laws for faults that `benchmarks.mutation` planted and that all other tests let pass."""

from inspect import signature
from itertools import product

import pytest
import torch
from sklearn.metrics import fbeta_score, jaccard_score, precision_score

from directloss import (
    NDCG,
    ROCAUC,
    TRUTH,
    AveragePrecision,
    AveragePrecisionAtK,
    AveragePrecisionLoss,
    BalancedError,
    BinaryDCG,
    FMeasure,
    Hinge,
    IoU,
    MulticlassZeroOne,
    NegativeDirect,
    PartialAUC,
    PositiveDirect,
    PrecisionAtKLoss,
    RankBiasedPrecision,
    RecallAtFPR,
    Row,
    ScoreMemory,
    StructuredLoss,
    TopK,
    Tversky,
    ZeroOne,
    average_precision_loss,
    explain,
    structured_loss,
)
from directloss.checks import LARGEST_SCORE, check_finite, check_length, check_list_task
from directloss.groups import group

TASKS = [AveragePrecision(), ROCAUC(), AveragePrecisionAtK(2)]
SCORES = torch.tensor([0.5, 2.0, -1.0, 0.3])
TARGET = torch.tensor([True, False, True, False])
each = pytest.mark.parametrize("task", TASKS, ids=repr)


@each
@pytest.mark.parametrize("weight", [-0.7, 0.0, 0.7, TRUTH])
def test_the_oracle_is_the_output(task, weight):
    mask = torch.ones(4, dtype=torch.bool)
    given = weight if weight is TRUTH else torch.tensor(weight, dtype=torch.float64)
    found = task.oracle(SCORES, TARGET, given if given is TRUTH else given.unsqueeze(-1), mask)
    want = task.output(SCORES, TARGET, given)
    torch.testing.assert_close(found.features, want.features)
    torch.testing.assert_close(found.loss, want.loss)


@each
def test_a_list_counts_that_has_a_valid_item_of_both_classes(task):
    valid = torch.tensor([True, True])
    for labels in ([1, 1], [0, 0]):
        assert not task.counts(torch.tensor(labels).bool(), valid)
    mixed = torch.tensor([True, False])
    assert task.counts(mixed, valid)
    for hidden in ([True, False], [False, True]):
        assert not task.counts(mixed, torch.tensor(hidden))


@each
def test_an_item_that_is_masked_out_of_one_short_list_is_as_if_it_were_not_there(task):
    row = PositiveDirect(1.0).row
    mask = torch.tensor([True, True, True, False])
    found, want = task.contrast(SCORES, TARGET, row, mask), task.contrast(SCORES[:3], TARGET[:3], row)
    torch.testing.assert_close(found.value, want.value)
    torch.testing.assert_close(found.gradient[:3], want.gradient)


@each
def test_one_short_list_is_checked_as_others_are(task):
    loss = StructuredLoss(task, PositiveDirect(1.0))
    with pytest.raises(ValueError, match="scores has shape"):
        loss(SCORES, TARGET[:3])
    for odd in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="scores must be finite"):
            loss(torch.tensor([odd, 0.0, 1.0, 2.0]), TARGET)
    for labels in (TARGET | True, TARGET & False):
        assert not task.contrast(SCORES, labels, PositiveDirect(1.0).row).counted
    assert task.contrast(SCORES, TARGET, PositiveDirect(1.0).row).counted


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_weights_below_zero_contrast_two_outputs(task, dtype):
    scores = SCORES.to(dtype)
    away, toward = (task.output(scores, TARGET, weight) for weight in (-0.5, -2.0))
    found = task.contrast(scores, TARGET, Row(-0.5, -2.0, 3.0))
    torch.testing.assert_close(found.gradient, 3.0 * (away.features - toward.features).to(dtype))


@each
def test_a_weight_and_a_scale_that_are_not_finite_are_told_apart(task):
    nan = torch.tensor(float("nan"))
    with pytest.raises(ValueError, match="the scale of the update"):
        task.contrast(SCORES, TARGET, Row(1.0, 0.0, nan))
    with pytest.raises(ValueError, match=r"^weight"):
        task.contrast(SCORES, TARGET, Row(nan, 0.0, 1.0))


@each
def test_the_prediction_and_the_truth_are_among_all_outputs(task):
    scores = SCORES.double()
    listed = task.outputs(scores, TARGET)
    torch.testing.assert_close(listed.features.sum(-1), torch.zeros(24, dtype=torch.float64))
    for weight in (0.0, TRUTH):
        output = task.output(scores, TARGET, weight)
        (places,) = (listed.features - output.features).abs().amax(-1).lt(1e-12).nonzero(as_tuple=True)
        assert len(places) > 0
        torch.testing.assert_close(listed.loss[places[0]], output.loss)
    for labels in (TARGET | True, TARGET & False):
        assert not torch.cat([part.reshape(-1) for part in task.outputs(scores, labels)]).any()


@pytest.mark.parametrize("task", [*TASKS, ZeroOne(), BalancedError()], ids=repr)
@pytest.mark.parametrize("weight", [-1.5, -0.4, 0.4, 1.5])
def test_no_output_is_better_than_the_oracle(task, weight):
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        scores = torch.randn(5, generator=generator, dtype=torch.float64)
        target = torch.rand(5, generator=generator).argsort() < 2
        listed, found = task.outputs(scores, target), task.output(scores, target, torch.tensor(weight).double())
        best = (listed.features @ scores + weight * listed.loss).max()
        torch.testing.assert_close(found.features @ scores + weight * found.loss, best)


def test_average_precision_is_explained_for_both_signs():
    assert [line.split(":")[0] for line in explain(AveragePrecision(), 2, 3).splitlines()[1:]] == [
        "weight > 0",
        "weight < 0",
    ]


def test_front_doors_say_and_take_the_same_defaults():
    default = PositiveDirect(1.0)
    assert signature(AveragePrecisionLoss).parameters["update"].default == default
    assert AveragePrecisionLoss().update == default
    wanted = structured_loss(AveragePrecision(), default, SCORES, TARGET)
    assert average_precision_loss(SCORES, TARGET) == wanted
    assert structured_loss(AveragePrecision(), PositiveDirect(2.0), SCORES, TARGET) != wanted
    assert "k" in signature(PrecisionAtKLoss).parameters


@each
@pytest.mark.parametrize(
    "update", [PositiveDirect(0.7), PositiveDirect(5.0), NegativeDirect(3.0), Hinge(1.3)], ids=repr
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tied_items_of_a_class_share_their_gradient_whatever_their_order(task, update, dtype):
    generator = torch.Generator().manual_seed(0)
    for items, levels in product((3, 4, 6, 9, 12), (1, 2, 3)):
        scores = torch.randint(levels, (items,), generator=generator).to(dtype)
        target = torch.arange(items) % 3 == 0
        scores += target if items % 2 else 0  # so that positives are tied at the top
        gradient = task.contrast(scores, target, update.row).gradient
        order = torch.randperm(items, generator=generator)
        again = task.contrast(scores[order], target[order], update.row).gradient
        torch.testing.assert_close(again, gradient[order], rtol=0, atol=0)
        torch.testing.assert_close(gradient.sum(), torch.zeros((), dtype=dtype), atol=1e-6, rtol=0)
        for positive in (True, False):
            for score in scores.unique():
                assert len(gradient[(target == positive) & (scores == score)].unique()) <= 1


def test_a_tied_pair_shares_what_its_two_orders_give():
    """Both negatives are tied; the positive update moves one of them, and each gets half of that."""
    scores, target = torch.tensor([0.0, 0.5, 0.5]), torch.tensor([True, False, False])
    task, row = ROCAUC(), PositiveDirect(1.0).row
    apart = [task.contrast(scores + torch.tensor([0.0, up, -up]), target, row).gradient for up in (1e-6, -1e-6)]
    found = task.contrast(scores, target, row).gradient
    torch.testing.assert_close(found, (apart[0] + apart[1]) / 2)


def test_flat_lists_and_a_memory_are_checked_and_take_ties():
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(1.0))
    with pytest.raises(ValueError, match="scores must be finite"):
        loss(torch.tensor([0.0, float("nan"), 1.0, 2.0]), TARGET, indexes=torch.tensor([1, 0, 0, 1]))
    for task in TASKS:
        loss = StructuredLoss(task, PositiveDirect(1.0))
        scores = torch.tensor([1.0, 1.0, 1.0, 0.0], requires_grad=True)
        values = ScoreMemory(TARGET)(loss, scores, torch.arange(4)), loss(scores, TARGET)
        torch.testing.assert_close(*values)
        torch.testing.assert_close(*(torch.autograd.grad(value, scores)[0] for value in values))


def test_limits_are_part_of_what_is_allowed():
    check_length(5, 5)
    check_finite(torch.tensor([LARGEST_SCORE], dtype=torch.float64), None)
    with pytest.raises(ValueError, match="2 lists of one item"):
        StructuredLoss(AveragePrecision(), PositiveDirect(1.0))(torch.zeros(2, 1), torch.ones(2, 1))


def test_lists_of_another_shape_need_both_one_dimension_and_one_target_an_item():
    with pytest.raises(ValueError, match="dim is for tasks on lists"):
        check_list_task("dim", AveragePrecision(), torch.zeros(2, 3), torch.zeros(2))
    with pytest.raises(ValueError, match="dim is for tasks on lists"):
        check_list_task("dim", IoU(event_dims=2), torch.zeros(2, 3), torch.zeros(2, 3))


def test_a_mask_elsewhere_and_complex_labels_are_refused():
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(1.0))
    with pytest.raises(ValueError, match="scores is on cpu but mask on meta"):
        loss(SCORES, TARGET, torch.ones(4, dtype=torch.bool, device="meta"))
    with pytest.raises(TypeError, match=r"bool, int or float; got torch\.complex64"):
        StructuredLoss(NDCG(), PositiveDirect(1.0))(SCORES, TARGET.to(torch.complex64))


def test_an_item_without_a_valid_class_may_have_one_class_only():
    loss = StructuredLoss(MulticlassZeroOne(), PositiveDirect(1.0))
    assert loss(torch.zeros(2, 1), torch.zeros(2, dtype=torch.long), torch.zeros(2, 1, dtype=torch.bool)) == 0


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_measures_of_selected_items_are_those_of_scikit_learn(beta):
    scores, target = torch.tensor([0.9, 0.4, 0.2, -0.1, -0.3, 1.5]), torch.tensor([1, 0, 1, 1, 0, 0])
    selected = scores > 0
    assert FMeasure(beta).infer(scores, target).loss.item() == pytest.approx(
        1 - fbeta_score(target, selected, beta=beta)
    )
    assert IoU().infer(scores, target).loss.item() == pytest.approx(1 - jaccard_score(target, selected))
    assert Tversky(1.0, 0.0).infer(scores, target).loss.item() == pytest.approx(1 - precision_score(target, selected))


@pytest.mark.parametrize(
    ("task", "scale"),
    [
        (AveragePrecisionAtK(2), 2 * 5 * 7 / (2 * 2)),
        (AveragePrecisionAtK(100), 1.0),
        (BinaryDCG(), 1.0),
        (BinaryDCG(4), 2 * 5 * 7 / (4 * 4)),
        (PartialAUC(0.25), 4.0),
        (RecallAtFPR(0.5), 4.0),
        (RecallAtFPR(0.01), 14.0),
        (RankBiasedPrecision(0.5), 5 * 7 / 8),
        (RankBiasedPrecision(0.9), 1.0),
    ],
    ids=repr,
)
def test_scales_are_the_share_of_pairs_that_a_metric_looks_at(task, scale):
    assert task.scale(5, 7) == pytest.approx(scale)


@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC(), NDCG(), TopK(1), MulticlassZeroOne()], ids=repr)
def test_random_problems_have_every_length_up_to_the_longest(task):
    generator = torch.Generator().manual_seed(0)
    problems = [task.random_problem(3, generator) for _ in range(60)]
    assert {len(problem.scores) for problem in problems} == {1, 2, 3}
    grades = set(torch.cat([problem.target.reshape(-1) for problem in problems]).tolist())
    assert grades == ({0, 1, 2, 3} if task == NDCG() else {0, 1} if problems[0].target.dim() else {0, 1, 2})


def test_limits_themselves_are_allowed():
    assert MulticlassZeroOne([[0, 1], [1, 0]]).costs == ((0.0, 1.0), (1.0, 0.0))
    highest = torch.tensor([500, 1, 0])
    assert NDCG().infer(torch.tensor([2.0, 1.0, 0.0]), highest).loss.item() == pytest.approx(0.0, abs=1e-6)
    for wrong in (0.0, 1.5, -0.5):
        with pytest.raises(ValueError, match="persistence"):
            RankBiasedPrecision(wrong)


def test_a_class_that_is_masked_costs_nothing_and_the_problem_counts():
    scores, mask = torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[False, True, True]])
    task = MulticlassZeroOne([[0, 1, 0.5], [0.25, 0, 0.5], [1, 1, 0]])
    loss = StructuredLoss(task, PositiveDirect(1.0), reduction="none")
    assert task.counts(torch.tensor([1]), mask).tolist() == [True]
    assert task.infer(scores, torch.tensor([1]), mask).loss.tolist() == [0.5]
    assert task.infer(scores, torch.tensor([1])).loss.tolist() == [0.25]
    assert loss(scores, torch.tensor([1]), mask).shape == (1,)


@pytest.mark.parametrize(
    "ids",
    [[4], [3, 3, 5, 5, 5], [3, 5, 5, 9, 9, 9], [2, 2, 2, 9], [1, 2, 3], [9, 2, 2], [5, -1, 5, -1, 0], [0, 10**12, 0]],
)
def test_groups_are_those_of_a_dictionary(ids):
    want = {}
    for item, one in enumerate(ids):
        want.setdefault(one, []).append(item)
    found = group(torch.tensor(ids))
    lists = [pair for some in found.by_length(torch.device("cpu")) for pair in zip(*some, strict=True)]
    numbers = {one: number for number, one in enumerate(sorted(want))}
    assert {int(number): items.tolist() for number, items in lists} == {numbers[one]: want[one] for one in want}
    assert [len(items) for _, items in lists] == sorted(map(len, want.values()))
    assert found.of().tolist() == [numbers[one] for one in ids]
    assert found.starts[-1] == len(ids)
