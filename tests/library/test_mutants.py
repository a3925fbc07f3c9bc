"""Laws for faults that `tests.mutation` planted and that all other tests let pass."""

from dataclasses import replace
from inspect import signature
from itertools import cycle, permutations, product
from math import factorial, hypot, log2

import numpy as np
import pytest
import torch
from members import average_precision_loss
from sklearn.metrics import fbeta_score, jaccard_score, precision_score

from directloss import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    AveragePrecisionAtK,
    AveragePrecisionLoss,
    BalancedError,
    BinaryDCG,
    FMeasure,
    Hinge,
    HitAtK,
    IoU,
    MulticlassZeroOne,
    NegativeDirect,
    PartialAUC,
    PositiveDirect,
    PrecisionAtK,
    PrecisionAtKLoss,
    PrecisionAtRecall,
    RankBiasedPrecision,
    RecallAtFPR,
    RecallAtK,
    ReciprocalRank,
    ScoreMemory,
    StructuredLoss,
    Task,
    TopK,
    Tversky,
    ZeroOne,
    structured_loss,
)
from directloss.checks import LARGEST_SCORE, check_finite, check_length, check_list_task
from directloss.families import TRUTH, UpdateSpec, arrays, counts, explain, packed
from directloss.families.counts import CountTask
from directloss.families.discounted_gain import DiscountedGainTask
from directloss.families.linear_loss import LinearLossTask
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
    row = PositiveDirect(1.0).spec
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
        assert not task.contrast(SCORES, labels, PositiveDirect(1.0).spec).counted
    assert task.contrast(SCORES, TARGET, PositiveDirect(1.0).spec).counted


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_weights_below_zero_contrast_two_outputs(task, dtype):
    scores = SCORES.to(dtype)
    away, toward = (task.output(scores, TARGET, weight) for weight in (-0.5, -2.0))
    found = task.contrast(scores, TARGET, UpdateSpec(-0.5, -2.0, 3.0))
    torch.testing.assert_close(found.gradient, 3.0 * (away.features - toward.features).to(dtype))


@each
def test_a_weight_and_a_scale_that_are_not_finite_are_told_apart(task):
    nan = torch.tensor(float("nan"))
    with pytest.raises(ValueError, match="the scale of the update"):
        task.contrast(SCORES, TARGET, UpdateSpec(1.0, 0.0, nan))
    with pytest.raises(ValueError, match=r"^weight"):
        task.contrast(SCORES, TARGET, UpdateSpec(nan, 0.0, 1.0))


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
        gradient = task.contrast(scores, target, update.spec).gradient
        order = torch.randperm(items, generator=generator)
        again = task.contrast(scores[order], target[order], update.spec).gradient
        torch.testing.assert_close(again, gradient[order], rtol=0, atol=0)
        torch.testing.assert_close(gradient.sum(), torch.zeros((), dtype=dtype), atol=1e-6, rtol=0)
        for positive in (True, False):
            for score in scores.unique():
                assert len(gradient[(target == positive) & (scores == score)].unique()) <= 1


def test_a_tied_pair_shares_what_its_two_orders_give():
    """Both negatives are tied; the positive update moves one of them, and each gets half of that."""
    scores, target = torch.tensor([0.0, 0.5, 0.5]), torch.tensor([True, False, False])
    task, row = ROCAUC(), PositiveDirect(1.0).spec
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


@pytest.mark.parametrize("task", [MulticlassZeroOne(), MulticlassZeroOne([[0]])], ids=repr)
def test_an_item_without_a_valid_class_may_have_one_class_only(task):
    loss = StructuredLoss(task, PositiveDirect(1.0))
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
    assert RecallAtFPR(0.0).infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([1, 0, 1])).loss == 0.5
    for wrong in (0.0, 1.5, -0.5):
        with pytest.raises(ValueError, match="persistence"):
            RankBiasedPrecision(wrong)


def test_a_recall_of_next_to_nothing_asks_for_the_first_positive():
    for target in ([1, 0, 1], [0, 1, 1], [0, 0, 1]):
        one, other = (
            task.infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor(target)).loss
            for task in (PrecisionAtRecall(1e-12), ReciprocalRank())
        )
        torch.testing.assert_close(one, other)


def test_a_share_of_positives_that_is_whole_but_for_rounding_is_whole():
    target = torch.arange(52) != 7  # seven positives, a negative, the other positives, a negative
    target[-1] = False
    assert PrecisionAtRecall(0.14).infer(-torch.arange(52.0), target).loss == 0  # 0.14·50 is 7.000000000000001


def test_an_error_names_what_is_wrong_and_not_a_limit_before_it():
    with pytest.raises(ValueError, match="got 501 at index 2"):
        NDCG().infer(torch.zeros(3), torch.tensor([500, 0, 501]))
    with pytest.raises(ValueError, match=r"got 2\.0"):
        MulticlassZeroOne([[0, 1], [2, 0]])


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


# --- every output of small lists, by definitions of this file's own --------------------------------------------------


class Distance(CountTask):
    """How far recall and specificity are from 1, by the table of all counts; it has no faster way."""

    def loss(self, true_positives, false_positives, positives, negatives):
        missed, wrong = 1 - true_positives / positives, false_positives / np.maximum(negatives, 1)
        return np.hypot(missed, wrong) / 2**0.5


COUNTED = [  # with the loss of tp true and fp false positives of P positives and M negatives
    (FMeasure(2.0), lambda tp, fp, P, M: 1 - 5 * tp / (tp + fp + 4 * P)),
    (IoU(), lambda tp, fp, P, M: 1 - tp / (P + fp)),
    (IoU(count_empty=True), lambda tp, fp, P, M: 1 - tp / (P + fp) if P else float(fp > 0)),
    (Tversky(1.0, 0.0), lambda tp, fp, P, M: 1 - tp / (tp + fp) if tp else 1.0),
    (Tversky(0.5, 3.0), lambda tp, fp, P, M: 1 - tp / (tp + fp / 2 + 3 * (P - tp)) if tp else 1.0),
    (Distance(), lambda tp, fp, P, M: hypot(1 - tp / P, fp / max(M, 1)) / 2**0.5),
]
each_of_counts = pytest.mark.parametrize(("task", "loss"), COUNTED, ids=[repr(task) for task, _ in COUNTED])
WEIGHTS = [0.0, TRUTH, 0.3, -0.3, 1.1, -1.1, 8.0, -8.0]


def awkward(seed, lists=40, items=5):
    """Scores with many ties and zeros of both signs, classes, a mask; some lists have one class, one item, or none."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-4, 5, (lists, items), generator=generator).double() / 4
    scores[scores == 0] *= torch.randn(int((scores == 0).sum()), generator=generator).double()
    scores[::3] += torch.randn(scores[::3].shape, generator=generator, dtype=torch.float64) / 2
    target = torch.rand(scores.shape, generator=generator) < torch.rand(lists, 1, generator=generator)
    mask = torch.rand(scores.shape, generator=generator) < 0.8
    target[0], target[1], mask[2], mask[3:7], mask[7] = False, True, False, True, torch.arange(items) == 1
    return scores, target, mask


def numbers_of(lists, seed):
    """A number above 0 for every list."""
    return 3 * torch.rand(lists, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sums(scores):
    """The sum of the largest so many scores, for every number of them."""
    return torch.cat((torch.zeros(1, dtype=scores.dtype), scores.sort(descending=True).values.cumsum(0))).tolist()


@each_of_counts
@pytest.mark.parametrize("weight", WEIGHTS, ids=repr)
def test_no_counts_are_better_than_those_selected(task, loss, weight):
    scores, target, mask = awkward(0)
    found = task.output(scores, target, weight, mask)
    for s, t, m, features, cost in zip(scores, target, mask, *found, strict=True):
        of_classes = t & m, ~t & m
        P, M = (int(one.sum()) for one in of_classes)
        if not (P or (M and getattr(task, "count_empty", False))):
            assert not features.any()
            assert cost == 0
            continue
        scale = 2 / max(P, 1)
        tp, fp = (features[one].sum().item() / scale for one in of_classes)
        assert cost.item() == pytest.approx(loss(round(tp), round(fp), P, M), abs=1e-12)
        assert (tp, fp) == pytest.approx((round(tp), round(fp)), abs=1e-12)
        assert not features[~m].any()
        if weight in (0.0, TRUTH):
            chosen = of_classes[0] if weight is TRUTH else m & (s > 0)
            assert features.tolist() == (scale * chosen.double()).tolist()
            continue
        above = [sums(s[one]) for one in of_classes]
        values = [
            scale * (above[0][i] + above[1][j]) + weight * loss(i, j, P, M)
            for i, j in product(range(P + 1), range(M + 1))
        ]
        assert (features @ s + weight * cost).item() == pytest.approx(max(values), abs=1e-12)


def test_an_index_in_which_a_missed_positive_weighs_more_than_one_is_solved_by_the_table():
    """T is not concave in tp then: a walk would stop at the first true positive, which costs more than it gains."""
    scores, target = torch.tensor([-0.5, -1.3, -0.5], dtype=torch.float64), torch.tensor([1, 0, 1])
    task, weight = Tversky(0.5, 1.5), -1.1
    found, listed = task.output(scores, target, weight), task.outputs(scores, target)
    best = (listed.features @ scores + weight * listed.loss).max()
    torch.testing.assert_close(found.features @ scores + weight * found.loss, best)


@pytest.mark.parametrize("cells", [1, 4, 9, 13, 36])
def test_a_table_in_blocks_of_any_size_gives_the_whole_table(cells, monkeypatch):
    scores, target, mask = awkward(1)
    weight = numbers_of(len(scores), 1) * torch.tensor([1, -1]).repeat(20)
    want = Distance().output(scores, target, weight, mask)
    monkeypatch.setattr(counts, "CELLS", cells)
    found = Distance().output(scores, target, weight, mask)
    torch.testing.assert_close(tuple(found), tuple(want), rtol=0, atol=0)


def test_items_that_are_masked_change_nothing_however_many_they_are():
    scores, target, mask = awkward(2, lists=8, items=12)
    more = torch.zeros(8, 5000)
    for weight in (1.3, -1.3):
        want = IoU().output(scores, target, weight, mask)
        found = IoU().output(
            torch.cat((more.double(), scores), -1),
            torch.cat((more.bool(), target), -1),
            weight,
            torch.cat((more.bool(), mask), -1),
        )
        torch.testing.assert_close((found.features[:, 5000:], found.loss), tuple(want), rtol=0, atol=0)


@each_of_counts
def test_all_subsets_are_listed_with_their_losses(task, loss):
    task = replace(task, event_dims=2)
    for labels in ([1, 0, 1, 0, 0, 0], [1] * 6, [0] * 6):
        listed = task.outputs(torch.zeros(2, 3, dtype=torch.float64), torch.tensor(labels).reshape(2, 3))
        P, M = sum(labels), 6 - sum(labels)
        if not (P or getattr(task, "count_empty", False)):
            assert (listed.features.shape, listed.loss.shape) == ((1, 2, 3), (1,))
            assert not torch.cat([part.flatten() for part in listed]).any()
            continue
        want = {}
        for chosen in product((0, 1), repeat=6):
            tp = sum(one * label for one, label in zip(chosen, labels, strict=True))
            want[chosen] = loss(tp, sum(chosen) - tp, P, M)
        y = listed.features * max(P, 1) / 2
        assert y.unique().tolist() == pytest.approx([0, 1])
        found = map(tuple, y.round().int().flatten(1).tolist())
        assert dict(zip(found, listed.loss.tolist(), strict=True)) == pytest.approx(want)


@pytest.mark.parametrize(
    "task", [FMeasure(), FMeasure(2.0), IoU(event_dims=2), Tversky(0.3, 0.7, count_empty=True)], ids=repr
)
def test_a_task_of_counts_is_what_it_says_it_is(task):
    assert eval(repr(task)) == task
    assert repr(IoU(event_dims=1, count_empty=False)) == "IoU()"


def test_options_that_are_left_out_are_those_of_the_documentation():
    kinds = FMeasure, Tversky, TopK, PrecisionAtK, RecallAtK, AveragePrecisionAtK, HitAtK
    assert [repr(kind()) for kind in kinds] == [
        "FMeasure(beta=1.0)", "Tversky(alpha=0.5, beta=0.5)", "TopK(k=5)", "PrecisionAtK(k=10)", "RecallAtK(k=10)",
        "AveragePrecisionAtK(k=10)", "HitAtK(k=10)",
    ]  # fmt: skip
    assert [repr(kind()) for kind in (PartialAUC, RecallAtFPR, PrecisionAtRecall, RankBiasedPrecision)] == [
        "PartialAUC(max_fpr=0.1)", "RecallAtFPR(fpr=0.1)", "PrecisionAtRecall(recall=0.5)",
        "RankBiasedPrecision(persistence=0.8)",
    ]  # fmt: skip
    assert (IoU().event_dims, IoU().count_empty) == (1, False)


def grades(task, target, seed=0):
    """A target for a task, from one of 0 and 1: grades, or the first of the classes that are 1."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(task, NDCG):
        return target * torch.tensor([0.125, 1.0, 2.0, 2.5])[torch.randint(4, target.shape, generator=generator)]
    return target.int().argmax(-1) if isinstance(task, TopK | MulticlassZeroOne) else target


class ShareOfAll(NDCG):
    """The discounted gain as a share of all gains."""

    def whole(self, best, total):
        return total


COSTS = [[0, 0.25, 1, 0.5, 1], [0.5, 0, 0.5, 1, 1], [1, 0.25, 0, 0, 0.5], [1, 1, 1, 0, 1], [0.5, 1, 0, 0.25, 0]]
RANKED = [  # with the discounts of its ranks
    (NDCG(), [1 / log2(rank + 1) for rank in range(1, 6)]),
    (NDCG(2), [1, 1 / log2(3), 0, 0, 0]),
    (NDCG(4), [1, 1 / log2(3), 1 / 2, 1 / log2(5), 0]),
    (ShareOfAll(2), [1, 1 / log2(3), 0, 0, 0]),
    (NDCG(1), [1, 0, 0, 0, 0]),
    (PrecisionAtK(2), [1, 1, 0, 0, 0]),
    (PrecisionAtK(9), [1, 1, 1, 1, 1]),
    (RecallAtK(3), [1, 1, 1, 0, 0]),
    (TopK(2), [1, 1, 0, 0, 0]),
    (MulticlassZeroOne(), [1, 0, 0, 0, 0]),
    (MulticlassZeroOne(COSTS), [1, 0, 0, 0, 0]),
]
each_that_ranks = pytest.mark.parametrize(("task", "discounts"), RANKED, ids=[repr(task)[:30] for task, _ in RANKED])


def gains_of(task, target):
    """The gains of the items of one list."""
    if isinstance(task, MulticlassZeroOne) and task.costs is not None:
        return [1 - cost for cost in COSTS[int(target)]]
    if isinstance(task, TopK | MulticlassZeroOne):
        return [float(k == target) for k in range(5)]
    return [2.0 ** float(grade) - 1 for grade in target]


def of_one_list(task, discounts, target, valid):
    """All orders of the valid items, as discounts of all items; their gains; Z, N and u. None if it does not count."""
    gains = torch.tensor(gains_of(task, target), dtype=torch.float64) * valid
    some = gains[valid].tolist()
    if not some or (min(some) == max(some) and not isinstance(task, TopK | MulticlassZeroOne)):
        return None
    orders = torch.zeros(factorial(len(some)), len(valid), dtype=torch.float64)
    orders[:, valid] = torch.tensor(list(permutations(discounts[: len(some)])), dtype=torch.float64)
    best = (orders @ gains).max()
    unit = (orders[(orders @ gains).argmax()] * gains**2).sum() / best
    whole = torch.tensor(float(task.k)) if isinstance(task, PrecisionAtK) else best
    return orders, gains, best, gains.sum() if isinstance(task, RecallAtK | ShareOfAll) else whole, unit


def valid_classes(task, target, mask):
    """A mask in which the true class is valid, if any is."""
    if not isinstance(task, TopK | MulticlassZeroOne):
        return mask
    return mask | (mask.any(-1, keepdim=True) & (torch.arange(mask.shape[-1]) == target.unsqueeze(-1)))


@each_that_ranks
@pytest.mark.parametrize("way", [DiscountedGainTask.output, Task.output], ids=["kernels", "decoder"])
def test_no_order_is_better_than_the_one_found_and_ties_are_shared(task, discounts, way):
    scores, target, mask = awkward(3, lists=24)
    target = grades(task, target)
    mask = valid_classes(task, target, mask)
    lists = [of_one_list(task, discounts, t, m) for t, m in zip(target, mask, strict=True)]
    for weight in (*WEIGHTS[:6], numbers_of(24, 3), -numbers_of(24, 4)):
        found = way(task, scores, target, weight, mask)
        weights = weight.tolist() if isinstance(weight, torch.Tensor) else [weight] * 24
        for s, one, w, features, loss in zip(scores, lists, weights, *found, strict=True):
            if one is None:
                assert not features.any()
                assert loss == 0
                continue
            orders, gains, best, whole, unit = one
            y = features * whole / (2 * unit)
            torch.testing.assert_close(loss, (best - gains @ y) / whole)
            values = orders @ gains if w is TRUTH else 2 * unit * orders @ s - w * orders @ gains
            value = gains @ y if w is TRUTH else 2 * unit * y @ s - w * gains @ y
            torch.testing.assert_close(value, values.max())
            if w in (0.0, TRUTH):
                torch.testing.assert_close(y, orders[values > values.max() - 1e-9].mean(0))


@each_that_ranks
def test_all_orders_are_listed_with_their_losses(task, discounts):
    task = replace(task)  # made anew
    valid = torch.ones(5, dtype=torch.bool)
    for labels in ([0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]):
        target = grades(task, torch.tensor([labels]), 1)[0]
        if labels == [1] * 5 and isinstance(task, NDCG):
            target = torch.full((5,), 2)
        listed = task.outputs(torch.zeros(5, dtype=torch.float64), target)
        one = of_one_list(task, discounts, target, valid)
        if one is None:
            assert (listed.features.shape, listed.loss.shape) == ((1, 5), (1,))
            assert not torch.cat([part.flatten() for part in listed]).any()
            continue
        orders, gains, best, whole, unit = one
        want = torch.cat((2 * unit / whole * orders, ((best - orders @ gains) / whole).unsqueeze(-1)), -1)
        found = torch.cat((listed.features, listed.loss.unsqueeze(-1)), -1)
        assert {tuple(row) for row in found.mul(1e9).round().tolist()} == {
            tuple(row) for row in want.mul(1e9).round().tolist()
        }


@each_that_ranks
def test_scale_and_cost_are_numbers_in_lists_without_a_gain_too(task, discounts):
    gains, mask = torch.zeros(2, 5, dtype=torch.float64), torch.tensor([True, False]).reshape(2, 1).expand(2, 5)
    assert (task.scale(gains, mask) > 0).all()
    for part in (task.scale(gains, mask), *task.cost(gains, mask)):
        assert part.isfinite().all()


ARRAYS = [*(task for task, _ in COUNTED), *(task for task, _ in RANKED)]


@pytest.mark.parametrize("task", ARRAYS, ids=lambda one: repr(one)[:30])
def test_what_a_solver_gets_of_an_item_that_is_masked_is_zero(task, monkeypatch):
    scores, target, mask = awkward(7, lists=16)
    target = grades(task, target)
    mask = valid_classes(task, target, mask)
    given, solve = [], type(task).solve
    monkeypatch.setattr(
        type(task), "solve", lambda self, lists, *rest: (given.append(lists), solve(self, lists, *rest))[1]
    )
    task.infer(scores.masked_fill(~mask, torch.nan), target, mask)
    for lists in given:
        assert not lists.scores[~mask.numpy()].any()
        assert not lists.target[~mask.numpy()].any()
    assert len(given) == 1


def rows(lists):
    """Two outputs of all kinds, and a scale: numbers, one for every list, and the truth."""
    one, other, scale = numbers_of(lists, 5), -numbers_of(lists, 6), 1 + numbers_of(lists, 7)
    return [
        UpdateSpec(0.7, -0.6, 0.5),
        UpdateSpec(TRUTH, -1.3, 2.0),
        UpdateSpec(0.0, TRUTH, 1.0),
        UpdateSpec(one, other, scale),
        UpdateSpec(other, 0.4, 3.0),
        UpdateSpec(other, -0.5, 2.0),
    ]


@pytest.mark.parametrize("task", [*ARRAYS, ROCAUC(), AveragePrecision()], ids=lambda one: repr(one)[:30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_contrast_is_what_its_two_outputs_say(task, dtype):
    scores, target, mask = awkward(4, lists=16)
    scores, target = scores.to(dtype), grades(task, target)
    mask = valid_classes(task, target, mask)
    for row, valid in product(rows(16), (mask, None)):
        away, toward = (task.output(scores, target, weight, valid) for weight in row[:2])
        found = task.contrast(scores, target, row, valid)
        features = away.features - toward.features
        scale = torch.as_tensor(row.scale, dtype=torch.float64).expand(16)
        assert {part.dtype for part in (*found[:2], *away, *toward)} == {dtype}
        torch.testing.assert_close(found.gradient, (scale.unsqueeze(-1) * features).to(dtype))
        value = row.value((scores.double() * features.double()).sum(-1), away.loss.double(), toward.loss.double())
        torch.testing.assert_close(found.value, value.to(dtype), rtol=1e-5, atol=1e-5)
        every = torch.ones_like(mask) if valid is None else valid
        assert torch.equal(found.counted, task.counts(task.check_target(scores, target, every), every))


@pytest.mark.parametrize("task", ARRAYS, ids=lambda one: repr(one)[:30])
def test_lists_in_chunks_are_solved_as_each_alone(task, monkeypatch):
    scores, target, mask = awkward(5, lists=12)
    target = grades(task, target)
    mask = valid_classes(task, target, mask)
    before = scores.clone()
    row = rows(12)[3]
    each = [task.contrast(scores[k], target[k], UpdateSpec(*(one[k] for one in row)), mask[k]) for k in range(12)]
    want = [torch.stack(parts) for parts in zip(*each, strict=True)]
    for chunk in (1, 5, 12, 25, 1000):
        monkeypatch.setattr(arrays, "CHUNK", chunk)
        for found, part in zip(
            task.contrast(scores.masked_fill(~mask, torch.nan), target, row, mask), want, strict=True
        ):
            torch.testing.assert_close(found, part, rtol=1e-12, atol=1e-12)
    assert torch.equal(scores, before)
    shaped = scores.reshape(3, 4, 5), target.reshape(3, 4, *target.shape[1:])
    spec = UpdateSpec._make(number.reshape(3, 4) for number in row)
    for way in (type(task).contrast, Task.contrast):
        for found, part in zip(way(task, *shaped, row, mask.reshape(3, 4, 5)), want, strict=True):
            torch.testing.assert_close(found, part.reshape(3, 4, *part.shape[1:]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("task", ARRAYS, ids=lambda one: repr(one)[:30])
def test_there_may_be_no_lists_and_lists_without_items(task):
    classes = isinstance(task, TopK | MulticlassZeroOne)
    for shape in ((0, 5), (3, 0), (0,), (2, 0, 5)):
        if classes and shape[-1] == 0:
            continue
        found = task.contrast(
            torch.zeros(shape), torch.zeros(shape[:-1] if classes else shape).long(), UpdateSpec(1.0, 0.0, 1.0)
        )
        assert found.gradient.shape == shape
        assert found.value.shape == found.counted.shape == shape[:-1]
        assert not found.counted.any()


@pytest.mark.parametrize("task", [IoU(), NDCG()], ids=repr)
def test_scores_of_any_allowed_size_and_no_others(task, monkeypatch):
    monkeypatch.setattr(arrays, "CHUNK", 4)
    target = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 0]])
    for row, size in product(range(4), (LARGEST_SCORE, -LARGEST_SCORE)):
        scores = torch.zeros(4, 2, dtype=torch.float64)
        scores[row, 1] = size
        assert task.infer(scores, target).features.isfinite().all()
        scores[row, 1] = 1.0001 * size
        with pytest.raises(ValueError, match="scores must be finite"):
            task.infer(scores, target)
        scores[row, 1] = torch.nan
        with pytest.raises(ValueError, match="scores must be finite"):
            task.infer(scores, target)
    with pytest.raises(ValueError, match="the scale of the update"):
        task.contrast(torch.zeros(4, 2), target, UpdateSpec(1.0, 0.0, torch.tensor(torch.nan)))


class Offset(LinearLossTask):
    """Signs of items whose loss is off by a number."""

    def __init__(self, offset, factor=1.0):
        self.offset, self.factor = offset, factor

    def decode(self, scores, mask):
        return 1.0 * ((scores > 0) & mask)

    def cost(self, target, mask):
        items = mask.sum(-1, keepdim=True).double()
        return (target / items).sum(-1) + self.offset, (1.0 - 2.0 * target) * mask / items

    def scale(self, target, mask):
        return self.factor * super().scale(target, mask)


@pytest.mark.parametrize("offset", [0.0, 1e-12, -1e-12, 0.5, -0.5, 1e-6, -1e-6])
def test_a_loss_out_of_range_by_rounding_is_put_back_and_a_wrong_one_is_shown(offset):
    task, target = Offset(offset), torch.tensor([1, 0, 1])
    right = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    for scores, loss in ((right, offset), (-right, 1 + offset)):
        found = task.infer(scores, target).loss.item()
        assert found == pytest.approx(loss, abs=1e-11)
        assert (0 <= found <= 1) == (-1e-9 < loss < 1 + 1e-9)


def test_a_linear_loss_shifts_scores_by_its_cost_over_the_scale():
    scores, target = torch.tensor([0.1, -0.1, 0.3], dtype=torch.float64), torch.tensor([1, 0, 1])
    for factor, weight, want in (
        (1.0, 0.4, [0, 1, 1]),
        (2.0, 0.4, [1, 0, 1]),
        (0.0, 0.4, [0, 1, 1]),
        (1.0, -0.4, [1, 0, 1]),
    ):
        task = Offset(0.0, factor)
        assert task.infer_augmented(scores, target, weight).features.tolist() == [(factor or 1.0) * y for y in want]
    assert Offset(0.0).truth(-scores, target).features.tolist() == [1, 0, 1]


@pytest.mark.parametrize("task", [BalancedError(), ZeroOne()], ids=repr)
@pytest.mark.parametrize("weight", WEIGHTS, ids=repr)
def test_signs_are_right_where_the_margin_is_more_than_half_the_weight(task, weight):
    scores, target, mask = awkward(6)
    found = task.output(scores, target, weight, mask)
    for s, t, m, features, loss in zip(scores, target, mask, *found, strict=True):
        classes = [one for one in (t & m, ~t & m) if one.any()]
        want, mistakes = torch.zeros(5, dtype=torch.float64), 0.0
        for k in m.nonzero().flatten().tolist():
            sign = 1 if t[k] else -1
            margin = 1.0 if weight is TRUTH else sign * s[k].item() - weight / 2
            right = (margin > 0) - (margin < 0)
            alike = int((m & (t == t[k])).sum()) * len(classes) if task == BalancedError() else int(m.sum())
            want[k] = sign * right / alike
            mistakes += (1 - right) / 2 / alike
        torch.testing.assert_close(features, want)
        assert loss.item() == pytest.approx(mistakes)


LENGTHS = [5, 1, 9, 5, 12, 2, 1, 7, 3]
CHUNKS, WORKERS = (1, 20, 1 << 20), (1, 3)


def laid_out(form):
    """Flat lists: items of a list apart, lists one behind the other, the shortest first, nearly all alike, or all."""
    lengths = {"sorted": sorted(LENGTHS), "steps": [1, 2, *[3] * 7], "alike": [6] * 9}.get(form, LENGTHS)
    ids = torch.repeat_interleave(torch.arange(9), torch.tensor(lengths))
    generator = torch.Generator().manual_seed(8)
    ids = ids[torch.randperm(len(ids), generator=generator)] if form == "apart" else ids
    scores = torch.randint(-9, 10, ids.shape, generator=generator).double() / 3
    target, mask = (torch.rand(ids.shape, generator=generator) < share for share in (0.5, 0.9))
    return scores, target, mask, ids


def in_turn(workers, parts):
    """Give every worker a part, then every worker another one."""
    for worker, part in zip(cycle(workers), parts, strict=False):
        worker(part)


def poisoned(shape, dtype=np.float64, empty=np.empty):
    """Memory that holds nothing of use."""
    found = empty(shape, dtype)
    found.fill(np.nan if np.issubdtype(found.dtype, np.floating) else -7)
    return found


def to_the_last(workers, parts):
    """Give all parts to the last worker, as if the others were late."""
    for part in parts:
        workers[-1](part)


@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC()], ids=repr)
@pytest.mark.parametrize("form", ["apart", "behind", "sorted", "steps", "alike"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hand_out", [in_turn, to_the_last])
def test_parts_of_lists_are_each_list_alone_however_they_are_handed_out(task, form, dtype, hand_out, monkeypatch):
    scores, target, mask, ids = laid_out(form)
    scores = scores.to(dtype)
    row, groups = UpdateSpec(numbers_of(9, 8), -numbers_of(9, 9), 1 + numbers_of(9, 10)), group(ids)
    for valid in (mask, None):
        each = [
            task.contrast(
                scores[ids == k],
                target[ids == k],
                UpdateSpec(*(one[k] for one in row)),
                None if valid is None else valid[ids == k],
            )
            for k in range(9)
        ]
        want = torch.zeros_like(scores)
        for k, one in enumerate(each):
            want[ids == k] = one.gradient
        for chunk, workers in product(CHUNKS, WORKERS):
            for name, number in (("CHUNK", chunk), ("THREADED", 1), ("AWAKE", 1)):
                monkeypatch.setattr(packed, name, number)
            monkeypatch.setattr(torch, "get_num_threads", lambda workers=workers: workers)
            monkeypatch.setattr(packed, "in_threads", hand_out)
            monkeypatch.setattr(np, "empty", poisoned)
            found = [task.contrast_flat(scores, target, row, valid, groups)]
            if form == "alike":
                shaped = [None if one is None else one.reshape(9, 6) for one in (scores, target, valid)]
                found.append(task.contrast(shaped[0], shaped[1], row, shaped[2]))
            for one in found:
                assert torch.equal(one.gradient.flatten(), want)
                torch.testing.assert_close(one.value, torch.stack([part.value for part in each]), rtol=1e-6, atol=1e-6)
                assert torch.equal(one.counted, torch.stack([part.counted for part in each]))


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("form", ["apart", "sorted", "alike"])
def test_a_score_that_is_none_is_found_in_every_part(chunk, form, monkeypatch):
    monkeypatch.setattr(packed, "CHUNK", chunk)
    scores, target, mask, ids = laid_out(form)
    groups, row = group(ids), UpdateSpec(1.0, 0.0, 1.0)
    for k in range(len(ids)):
        broken = scores.clone()
        broken[k] = torch.nan
        with pytest.raises(ValueError, match=rf"scores must be finite where valid.* at index {k}\."):
            ROCAUC().contrast_flat(broken, target, row, None, groups)
        if not mask[k]:
            assert ROCAUC().contrast_flat(broken, target, row, mask, groups).value.isfinite().all()
