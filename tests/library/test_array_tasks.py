"""Counts, discounted gain and linear losses against all outputs of small lists, by definitions of this file's own."""

from dataclasses import replace
from itertools import permutations, product
from math import factorial, hypot, log2
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import fbeta_score, jaccard_score, precision_score

from directloss import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    AveragePrecisionAtK,
    AveragePrecisionLoss,
    BalancedError,
    ClassesSampler,
    FMeasure,
    HitAtK,
    IoU,
    MulticlassZeroOne,
    PartialAUC,
    PositiveDirect,
    PositivesSampler,
    PrecisionAtK,
    PrecisionAtRecall,
    RankBiasedPrecision,
    RecallAtFPR,
    RecallAtK,
    RetrievalLoss,
    ScoreMemory,
    StructuredLoss,
    Task,
    TopK,
    Tversky,
    WarmUp,
    ZeroOne,
    diagnose,
    metric,
)
from directloss.checks import LARGEST_SCORE
from directloss.families import TRUTH, CountTask, LinearLossTask, UpdateSpec, counts
from directloss.families.discounted_gain import DiscountedGainTask


class Distance(CountTask):
    """How far recall and specificity are from 1, by the table of all counts; it has no faster algorithm."""

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
    for s, t, m, features, cost in zip(scores, target, mask, *found[:2], strict=True):
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
    torch.testing.assert_close(found[:2], want[:2], rtol=0, atol=0)


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
        torch.testing.assert_close((found.features[:, 5000:], found.loss), tuple(want[:2]), rtol=0, atol=0)


@each_of_counts
def test_all_subsets_are_listed_with_their_losses(task, loss):
    task = replace(task, event_dims=2)
    for labels in ([1, 0, 1, 0, 0, 0], [1] * 6, [0] * 6):
        listed = task.outputs(torch.zeros(2, 3, dtype=torch.float64), torch.tensor(labels).reshape(2, 3))
        P, M = sum(labels), 6 - sum(labels)
        if not (P or getattr(task, "count_empty", False)):
            assert (listed.features.shape, listed.loss.shape) == ((1, 2, 3), (1,))
            assert not torch.cat([part.flatten() for part in listed[:2]]).any()
            continue
        want = {}
        for chosen in product((0, 1), repeat=6):
            tp = sum(one * label for one, label in zip(chosen, labels, strict=True))
            want[chosen] = loss(tp, sum(chosen) - tp, P, M)
        y = listed.features * max(P, 1) / 2
        assert y.unique().tolist() == pytest.approx([0, 1])
        found = map(tuple, y.round().int().flatten(1).tolist())
        assert dict(zip(found, listed.loss.tolist(), strict=True)) == pytest.approx(want)


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
    "task", [FMeasure(), FMeasure(2.0), IoU(event_dims=2), Tversky(0.3, 0.7, count_empty=True)], ids=repr
)
def test_the_repr_of_a_task_of_counts_makes_it_anew(task):
    assert eval(repr(task)) == task
    assert repr(IoU(event_dims=1, count_empty=False)) == "IoU()"


def grades(task, target, seed=0):
    """A target for a task, from one of 0 and 1: grades, or the first of the classes that are 1."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(task, NDCG):
        return target * torch.tensor([0.125, 1.0, 2.0, 2.5])[torch.randint(4, target.shape, generator=generator)]
    return target.int().argmax(-1) if isinstance(task, TopK | MulticlassZeroOne) else target


class ShareOfAll(NDCG):
    """The discounted gain as a share of all gains."""

    def normalizer(self, best, total):
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
    normalizer = torch.tensor(float(task.k)) if isinstance(task, PrecisionAtK) else best
    return orders, gains, best, gains.sum() if isinstance(task, RecallAtK | ShareOfAll) else normalizer, unit


def valid_classes(task, target, mask):
    """A mask in which the true class is valid, if any is."""
    if not isinstance(task, TopK | MulticlassZeroOne):
        return mask
    return mask | (mask.any(-1, keepdim=True) & (torch.arange(mask.shape[-1]) == target.unsqueeze(-1)))


@each_that_ranks
@pytest.mark.parametrize("solver", [DiscountedGainTask.output, Task.output], ids=["kernels", "decoder"])
def test_no_order_is_better_than_the_one_found_and_ties_are_shared(task, discounts, solver):
    scores, target, mask = awkward(3, lists=24)
    target = grades(task, target)
    mask = valid_classes(task, target, mask)
    lists = [of_one_list(task, discounts, t, m) for t, m in zip(target, mask, strict=True)]
    for weight in (*WEIGHTS[:6], numbers_of(24, 3), -numbers_of(24, 4)):
        found = solver(task, scores, target, weight, mask)
        weights = weight.tolist() if isinstance(weight, torch.Tensor) else [weight] * 24
        for s, one, w, features, loss in zip(scores, lists, weights, *found[:2], strict=True):
            if one is None:
                assert not features.any()
                assert loss == 0
                continue
            orders, gains, best, normalizer, unit = one
            y = features * normalizer / (2 * unit)
            torch.testing.assert_close(loss, (best - gains @ y) / normalizer)
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
            assert not torch.cat([part.flatten() for part in listed[:2]]).any()
            continue
        orders, gains, best, normalizer, unit = one
        want = torch.cat((2 * unit / normalizer * orders, ((best - orders @ gains) / normalizer).unsqueeze(-1)), -1)
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


def test_a_class_that_is_masked_costs_nothing_and_the_problem_counts():
    scores, mask = torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[False, True, True]])
    task = MulticlassZeroOne([[0, 1, 0.5], [0.25, 0, 0.5], [1, 1, 0]])
    loss = StructuredLoss(task, PositiveDirect(1.0), reduction="none")
    assert task.is_scored(torch.tensor([1]), mask).tolist() == [True]
    assert task.infer(scores, torch.tensor([1]), mask).loss.tolist() == [0.5]
    assert task.infer(scores, torch.tensor([1])).loss.tolist() == [0.25]
    assert loss(scores, torch.tensor([1]), mask).shape == (1,)


@pytest.mark.parametrize("task", [MulticlassZeroOne(), MulticlassZeroOne([[0]])], ids=repr)
def test_an_item_without_a_valid_class_may_have_one_class_only(task):
    loss = StructuredLoss(task, PositiveDirect(1.0))
    assert loss(torch.zeros(2, 1), torch.zeros(2, dtype=torch.long), torch.zeros(2, 1, dtype=torch.bool)) == 0


def test_the_limits_of_costs_and_grades_are_allowed():
    assert MulticlassZeroOne([[0, 1], [1, 0]]).costs == ((0.0, 1.0), (1.0, 0.0))
    highest = torch.tensor([500, 1, 0])
    assert NDCG().infer(torch.tensor([2.0, 1.0, 0.0]), highest).loss.item() == pytest.approx(0.0, abs=1e-6)


def test_an_error_names_what_is_wrong_and_not_a_limit_before_it():
    with pytest.raises(ValueError, match="got 501 at index 2"):
        NDCG().infer(torch.zeros(3), torch.tensor([500, 0, 501]))
    with pytest.raises(ValueError, match=r"got 2\.0"):
        MulticlassZeroOne([[0, 1], [2, 0]])


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


def specs(lists):
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
    for spec, valid in product(specs(16), (mask, None)):
        away, toward = (task.output(scores, target, weight, valid) for weight in spec[:2])
        found = task.contrast(scores, target, spec, valid)
        features = away.features - toward.features
        scale = torch.as_tensor(spec.scale, dtype=torch.float64).expand(16)
        assert {part.dtype for part in (*found[:2], *away[:2], *toward[:2])} == {dtype}
        torch.testing.assert_close(found.gradient, (scale.unsqueeze(-1) * features).to(dtype))
        value = spec.value((scores.double() * features.double()).sum(-1), away.loss.double(), toward.loss.double())
        torch.testing.assert_close(found.value, value.to(dtype), rtol=1e-5, atol=1e-5)
        every = torch.ones_like(mask) if valid is None else valid
        assert torch.equal(found.counted, task.is_scored(task.check_target(scores, target, every), every))


@pytest.mark.parametrize("task", ARRAYS, ids=lambda one: repr(one)[:30])
def test_a_batch_of_any_shape_is_solved_as_each_list_alone_and_leaves_scores_as_they_are(task):
    scores, target, mask = awkward(5, lists=12)
    target = grades(task, target)
    mask = valid_classes(task, target, mask)
    before = scores.clone()
    spec: Any = specs(12)[3]
    each = [task.contrast(scores[k], target[k], UpdateSpec(*(one[k] for one in spec)), mask[k]) for k in range(12)]
    want = [torch.stack(parts) for parts in zip(*each, strict=True)]
    together = task.contrast(scores.masked_fill(~mask, torch.nan), target, spec, mask)
    torch.testing.assert_close(list(together), want, rtol=1e-12, atol=1e-12)
    assert torch.equal(scores, before)
    shaped = scores.reshape(3, 4, 5), target.reshape(3, 4, *target.shape[1:])
    spec = UpdateSpec._make(number.reshape(3, 4) for number in spec)
    for contrast in (type(task).contrast, Task.contrast):
        for found, part in zip(contrast(task, *shaped, spec, mask.reshape(3, 4, 5)), want, strict=True):
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
def test_scores_of_any_allowed_size_and_no_others(task):
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


@pytest.mark.parametrize("task", [*ARRAYS, ROCAUC(), AveragePrecision()], ids=lambda one: repr(one)[:30])
def test_a_default_device_elsewhere_leaves_tensors_of_the_host_alone(task):
    scores, target, _ = awkward(9, lists=8)
    target = grades(task, target)
    want = task.contrast(scores, target, UpdateSpec(1.0, -0.5, 1.0))
    with torch.device("meta"):
        found = task.contrast(scores, target, UpdateSpec(1.0, -0.5, 1.0))
    torch.testing.assert_close(tuple(found), tuple(want), rtol=0, atol=0)


def test_a_default_device_elsewhere_leaves_modules_and_samplers_alone():
    scores, target, items = torch.randn(4, requires_grad=True), torch.tensor([1, 0, 0, 1]), torch.arange(4)
    vectors = torch.randn(4, 2)
    with torch.device("meta"):
        values = [
            ScoreMemory(AveragePrecisionLoss(), target)(scores, items),
            WarmUp(AveragePrecisionLoss(), 1)(scores, target),
            RetrievalLoss()(vectors, target),
            metric(AveragePrecision(), scores, target, indexes=target),
        ]
        batches = [*PositivesSampler(target, 2), *ClassesSampler(target, 2, 2)]
        assert str(diagnose(AveragePrecision(), scores, target))
    assert all(value.device.type == "cpu" for value in values)
    assert len(batches) == 4


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
    for s, t, m, features, loss in zip(scores, target, mask, *found[:2], strict=True):
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


def test_defaults_are_those_of_the_documentation():
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


@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC(), NDCG(), TopK(1), MulticlassZeroOne()], ids=repr)
def test_random_problems_have_every_length_up_to_the_longest(task):
    generator = torch.Generator().manual_seed(0)
    problems = [task.random_problem(3, generator) for _ in range(60)]
    assert {len(problem.scores) for problem in problems} == {1, 2, 3}
    grades = set(torch.cat([problem.target.reshape(-1) for problem in problems]).tolist())
    assert grades == ({0, 1, 2, 3} if task == NDCG() else {0, 1} if problems[0].target.dim() else {0, 1, 2})
