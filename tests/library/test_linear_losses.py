"""Linear losses: NDCG, precision and recall at k, classes, balanced error, and a user's own."""

from itertools import permutations
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from members import UPDATES, lists
from sklearn.metrics import balanced_accuracy_score, ndcg_score, top_k_accuracy_score, zero_one_loss

from directloss import Hinge, NDCGLoss, PositiveDirect, StructuredLoss, Task, ZeroOne
from directloss.families.discounted_gain import DiscountedGainTask
from directloss.families.linear_loss import LinearLossTask
from directloss.tasks.balanced_error import BalancedError
from directloss.tasks.multiclass import MulticlassZeroOne, TopK
from directloss.tasks.ndcg import NDCG
from directloss.tasks.selection import PrecisionAtK, RecallAtK
from directloss.testing import Problem, TaskError, check_task

pytestmark = pytest.mark.filterwarnings("ignore:.*scale is unusual")  # it has tests of its own below
COSTS = ((0.0, 0.2, 1.0), (0.5, 0.0, 0.5), (1.0, 0.2, 0.0))
RANKED = [NDCG(), NDCG(2), PrecisionAtK(), PrecisionAtK(2), RecallAtK(1), RecallAtK(3)]
CLASSES = [MulticlassZeroOne(), MulticlassZeroOne(COSTS), TopK(), TopK(2), TopK(1)]


def gradient(loss, scores, *rest):
    scores = scores.detach().requires_grad_()
    value = loss(scores, *rest)
    (grad,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), grad


def batch(task, *shape):
    """Scores and target of a batch of problems of a task."""
    generator = torch.Generator().manual_seed(0)
    shape = (*shape, 3) if isinstance(task, MulticlassZeroOne) else (*shape, 7)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64)
    if isinstance(task, MulticlassZeroOne | TopK):
        return scores, torch.randint(shape[-1], shape[:-1], generator=generator)
    highest = 4 if isinstance(task, NDCG) else 2
    return scores, torch.randint(highest, shape, generator=generator)


@pytest.mark.filterwarnings("ignore:.*its scale is unusual")  # of metrics that look at few items
@pytest.mark.parametrize("task", [*RANKED, *CLASSES, BalancedError(), ZeroOne()], ids=str)
def test_oracles_are_exact_and_keep_the_laws(task):
    check_task(task, problems=30)


def shared(task, scores, target, row, mask=None):
    """A contrast by plain PyTorch: the decoder and the cost, without the kernels."""
    check = Task.contrast(task, scores, target, row, mask)
    fast = task.contrast(scores, target, row, mask)
    size = 1e-9 * (1 + scores.nan_to_num().abs().max().item())
    torch.testing.assert_close(fast.gradient, check.gradient, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(fast.value, check.value, rtol=1e-6, atol=size)
    torch.testing.assert_close(fast.counted, check.counted)


@given(st.sampled_from(RANKED), st.sampled_from(UPDATES), lists(), st.integers(0, 2**32))
@settings(max_examples=300)
def test_kernels_give_what_decoder_and_cost_give(task, update, problem, seed):
    scores, target = problem
    generator = torch.Generator().manual_seed(seed)
    if isinstance(task, NDCG):
        target = target * torch.randint(4, target.shape, generator=generator)
    mask = torch.rand(target.shape, generator=generator) < 0.8 if seed % 2 else None
    shared(task, scores, target, update.spec, mask)


@pytest.mark.parametrize("task", [*RANKED, *CLASSES], ids=str)
@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_batches_types_and_masks_give_what_decoder_and_cost_give(task, update):
    scores, target = batch(task, 2, 3)
    shared(task, scores, target, update.spec)
    shared(task, scores.round(), target, update.spec)
    shared(task, scores.float(), target, update.spec)
    mask = torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)) < 0.7
    if isinstance(task, MulticlassZeroOne | TopK):
        mask.scatter_(-1, target.unsqueeze(-1), True)
        mask[0, 0] = False
    shared(task, scores.masked_fill(~mask, torch.nan), target, update.spec, mask)


@pytest.mark.parametrize("task", [NDCG(), NDCG(1000), PrecisionAtK(30_000)], ids=str)
def test_long_lists_whose_scores_differ_in_the_last_bits(task):
    generator = torch.Generator().manual_seed(0)
    scores = 1 + 1e-13 * torch.randn(100_000, generator=generator, dtype=torch.float64)
    assert 1000 < len(scores.unique()) < len(scores)  # many are close, some tie
    target = torch.randint(3 if isinstance(task, NDCG) else 2, scores.shape, generator=generator)
    prepared = task._prepare(scores, target, None)
    want, got = task._solve(0.0, *prepared), task.infer(scores, target)
    torch.testing.assert_close(got[:2], want[:2], rtol=1e-9, atol=1e-9)
    for weight in (1e-13, -1.0):  # shifts are rounded, so outputs may differ, but are equally good
        want, got = task._solve(weight, *prepared), task.infer_augmented(scores, target, weight)
        better = ((got.features - want.features) * scores).sum() + weight * (got.loss - want.loss)
        assert abs(better) < 1e-12


@pytest.mark.parametrize("task", [NDCG(), NDCG(3), PrecisionAtK(3), RecallAtK(2)], ids=str)
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("weight", [1e-12, 1.0, -1.0, 1e12, -1e12])
def test_order_does_not_matter_where_one_side_drowns_the_other(task, size, weight):
    generator = torch.Generator().manual_seed(0)
    scores = size * torch.randn(40, generator=generator, dtype=torch.float64)
    target = torch.randint(2, scores.shape, generator=generator)
    order = torch.randperm(40, generator=generator)
    straight = task.infer_augmented(scores, target, weight)
    permuted = task.infer_augmented(scores[order], target[order], weight)
    torch.testing.assert_close(permuted.features, straight.features[order], rtol=0, atol=0)
    torch.testing.assert_close(permuted.loss, straight.loss, rtol=0, atol=1e-12)


def test_prediction_keeps_the_ties_of_the_scores_and_no_others():
    scores = torch.tensor([1.0, 1 + 2**-52, 1.0, 1 - 2**-53], dtype=torch.float64)
    features = NDCG().infer(scores, torch.tensor([0, 1, 2, 3])).features
    assert features[0] == features[2]
    assert features[1] > features[0] > features[3]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("task", [*RANKED, *CLASSES, BalancedError()], ids=str)
def test_every_type_decides_like_float64(task, dtype):
    scores, target = batch(task, 4)
    scores = scores.to(dtype)
    for update in UPDATES:
        value, grad = gradient(StructuredLoss(task, update), scores, target)
        exact_value, exact_grad = gradient(StructuredLoss(task, update), scores.double(), target)
        assert value.dtype == grad.dtype == dtype
        torch.testing.assert_close((value, grad), (exact_value.to(dtype), exact_grad.to(dtype)))


@pytest.mark.parametrize(
    "task", [NDCG(3), PrecisionAtK(2), MulticlassZeroOne(COSTS), TopK(2), BalancedError()], ids=str
)
def test_compile_vmap_and_gradcheck(task):
    torch.compiler.reset()
    scores, target = batch(task, 2, 3)
    loss = StructuredLoss(task, UPDATES[2], reduction="none")
    want = gradient(loss, scores, target)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(gradient(compiled, scores, target), want)
    torch.testing.assert_close(torch.func.vmap(loss)(scores, target), want[0])
    assert torch.autograd.gradcheck(lambda s: loss(s, target), scores.requires_grad_())


def test_infinite_grades_of_masked_items_and_lists_that_do_not_count():
    scores = torch.randn(4, 3)
    target = torch.tensor([[1.0, 0.0, torch.inf], [2.0, 2.0, -1.0], [0.0, 0.0, 5.0], [0.0, 3.0, torch.nan]])
    mask = torch.tensor([True, True, False]).expand(4, 3)
    found = NDCG().contrast(scores, target, Hinge().spec, mask)
    assert found.counted.tolist() == [True, False, False, True]
    assert not found.gradient[1:3].any()
    assert not found.gradient[:, 2].any()


@given(st.integers(0, 2**32), st.sampled_from([None, 1, 3, 8, 20]))
@settings(max_examples=100)
def test_ndcg_is_that_of_scikit_learn_with_ties(seed, k):
    rng = np.random.default_rng(seed)
    scores, grades = rng.integers(-3, 4, (1, 8)).astype(float), rng.integers(0, 4, (1, 8))
    if grades.min() == grades.max():
        return
    loss = NDCG(k).infer(torch.tensor(scores), torch.tensor(grades)).loss
    assert 1 - loss.item() == pytest.approx(ndcg_score(2.0**grades - 1, scores, k=k), abs=1e-12)
    gains = torch.tensor(grades, dtype=torch.float64)
    loss = NDCG(k).infer(torch.tensor(scores), torch.log2(1 + gains)).loss  # gains of one's own
    assert 1 - loss.item() == pytest.approx(ndcg_score(grades, scores, k=k), abs=1e-12)


@given(lists(longest=6), st.integers(1, 4))
@settings(max_examples=60)
def test_precision_and_recall_at_k_are_means_over_the_orders_of_ties(problem, k):
    scores, target = problem
    positives = int(target.sum())
    if not 0 < positives < len(target):
        return
    orders = [order for order in permutations(range(len(scores))) if (scores[list(order)].diff() <= 0).all()]
    hits = np.mean([target[list(order[:k])].sum().item() for order in orders])
    best = min(k, positives)
    assert PrecisionAtK(k).infer(scores, target).loss.item() == pytest.approx(best / k - hits / k)
    assert RecallAtK(k).infer(scores, target).loss.item() == pytest.approx(best / positives - hits / positives)


def test_errors_of_classes_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((50, 6), generator=generator, dtype=torch.float64)
    target = torch.randint(6, (50,), generator=generator)
    predicted = scores.argmax(-1)
    assert MulticlassZeroOne().infer(scores, target).loss.mean().item() == pytest.approx(
        zero_one_loss(target, predicted)
    )
    for k in (1, 3, 5):
        accuracy = top_k_accuracy_score(target, scores, k=k, labels=range(6))
        assert 1 - TopK(k).infer(scores, target).loss.mean().item() == pytest.approx(accuracy)
    assert not TopK(6).infer(scores, target).loss.any()
    costs = torch.rand((6, 6), generator=generator).fill_diagonal_(0)
    loss = MulticlassZeroOne(costs).infer(scores, target).loss
    torch.testing.assert_close(loss, costs[target, predicted].double())
    one, other = MulticlassZeroOne(), TopK(1)
    torch.testing.assert_close(one.infer_augmented(scores, target, 1.0), other.infer_augmented(scores, target, 1.0))


def test_balanced_error_is_that_of_scikit_learn_and_that_of_one_class_its_error():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((20, 9), generator=generator, dtype=torch.float64)
    target = torch.rand((20, 9), generator=generator) < 0.3
    mask = torch.rand((20, 9), generator=generator) < 0.9
    target[0] = False
    for s, t, m, loss in zip(scores, target, mask, BalancedError().infer(scores, target, mask).loss, strict=True):
        classes = t[m].unique()
        errors = [(s[m & (t == label)] > 0).ne(label).double().mean() for label in classes]
        assert loss.item() == pytest.approx(torch.stack(errors).mean().item())
        if len(classes) == 2:
            assert 1 - loss.item() == pytest.approx(balanced_accuracy_score(t[m], s[m] > 0))


def test_balanced_error_of_classes_of_one_size_is_the_plain_error():
    scores, target = torch.randn(10), torch.arange(10) < 5
    for update in UPDATES:
        torch.testing.assert_close(
            gradient(StructuredLoss(BalancedError(), update), scores, target),
            gradient(StructuredLoss(ZeroOne(), update), scores, target),
        )


def eps_half(task, scores, target):
    """The ε at which the loss of argmax F + εL has gone half the way from the prediction's to the largest."""

    def loss(weight):
        return task.infer_augmented(scores, target, weight).loss.mean().item()

    goal = (loss(0.0) + loss(1e12)) / 2
    low, high = -3.0, 3.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if loss(10**middle) >= goal - 1e-12 else (middle, high)
    return 10**high


SIZES = [(50, 450), (500, 4500), (20, 4980)]


def spread(positives, negatives):
    """Eight lists: positives N(1, 1), negatives N(0, 1)."""
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(8, positives + negatives)))
    target = (torch.arange(positives + negatives) < positives).expand_as(scores)
    return scores + target.double(), target


@pytest.mark.parametrize("size", SIZES)
def test_epsilon_is_in_units_of_scores(size):
    scores, target = spread(*size)
    grades = target * (1 + torch.arange(target.shape[-1]) % 4)
    tasks = [NDCG(), NDCG(10), PrecisionAtK(10), PrecisionAtK(size[0]), RecallAtK(10), RecallAtK(100)]
    found = {task: eps_half(task, scores, target) for task in tasks}
    found |= {"graded": eps_half(NDCG(), scores, grades)}
    found |= {task: eps_half(task, scores - 0.5, target) for task in (ZeroOne(), BalancedError())}
    assert all(0.5 <= epsilon <= 4 for epsilon in found.values()), found


@pytest.mark.parametrize("classes", [3, 10, 100])
def test_epsilon_is_in_units_of_scores_for_classes(classes):
    rng = np.random.default_rng(0)
    scores, target = rng.normal(size=(500, classes)), rng.integers(classes, size=500)
    scores[np.arange(500), target] += 1
    for task in (MulticlassZeroOne(), TopK(2)):
        assert 0.5 <= eps_half(task, torch.tensor(scores), torch.tensor(target)) <= 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NDCG(0), "k must be at least 1; got 0"),
        (lambda: PrecisionAtK(-3), "k must be at least 1; got -3"),
        (lambda: RecallAtK(cast(Any, 2.5)), "k must be an integer, 1 or more; got 2.5 of type float"),
        (lambda: TopK(True), "k must be an integer"),
        (lambda: MulticlassZeroOne([[0, 1]]), r"costs must be a square matrix.*got shape \(1, 2\)"),
        (lambda: MulticlassZeroOne([[0, 1], [1]]), r"costs must be a square matrix.*got \[\[0, 1\], \[1\]\]"),
        (lambda: MulticlassZeroOne([[0, 2], [1, 0]]), r"costs must be from 0 to 1; got 2.0. Divide"),
        (lambda: MulticlassZeroOne([[0, float("nan")], [1, 0]]), r"costs must be from 0 to 1; got nan"),
        (lambda: MulticlassZeroOne([[0.5, 1], [1, 0]]), r"costs must be 0 for the true class; got the diagonal"),
    ],
)
def test_parameters_out_of_range_are_refused_in_words(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("task", "scores", "target", "message"),
    [
        (NDCG(), torch.zeros(3), torch.tensor([0, -1, 2]), "grades from 0 to 500 where valid; got -1 at index 1"),
        (NDCG(), torch.zeros(2), torch.tensor([0, torch.nan]), "grades from 0 to 500 where valid; got nan at index 1"),
        (NDCG(), torch.zeros(2), torch.tensor([0, torch.inf]), "grades from 0 to 500 where valid; got inf at index 1"),
        (NDCG(), torch.zeros(3), torch.zeros(2), r"scores has shape \(3,\) but target has shape \(2,\)"),
        (PrecisionAtK(), torch.zeros(2), torch.tensor([0, 2]), "only 0 and 1"),
        (PrecisionAtK(), torch.zeros(3, 1), torch.ones(3, 1), "3 lists of one item each"),
        (PrecisionAtK(), torch.tensor([0.0, torch.nan]), torch.tensor([0, 1]), "scores must be finite"),
        (TopK(), torch.zeros(2, 3), torch.tensor([0, 3]), "classes from 0 to 2; got 3 at index 1. Mask"),
        (TopK(), torch.zeros(2, 3), torch.tensor([-1, 0]), "classes from 0 to 2; got -1 at index 0"),
        (TopK(), torch.zeros(2, 3), torch.tensor([0.0, 1.0]), "index of a class; got torch.float32"),
        (MulticlassZeroOne(), torch.zeros(2, 3), torch.zeros(2, 3).long(), r"target must have shape \(2,\)"),
        (MulticlassZeroOne(COSTS), torch.zeros(2, 4), torch.zeros(2).long(), "matrix for 3 classes but scores has"),
        (BalancedError(), torch.zeros(2), torch.tensor([0, 2]), "only 0 and 1"),
    ],
)
def test_wrong_targets_are_refused_in_words(task, scores, target, message):
    with pytest.raises((ValueError, TypeError), match=message):
        StructuredLoss(task, PositiveDirect(1.0))(scores, target)


def test_true_class_that_is_masked_is_refused_and_an_item_without_classes_does_not_count():
    scores, target = torch.randn(2, 3), torch.tensor([0, -100])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    found = TopK(1).contrast(scores, target, PositiveDirect(1.0).spec, mask)
    assert found.counted.tolist() == [True, False]
    with pytest.raises(ValueError, match="class that the mask leaves valid; got 2 at index 0"):
        TopK(1).infer(scores, torch.tensor([2, -100]), mask)


class OrdinalDistance(LinearLossTask):
    """A user's own: one of K ordered classes. L = |y − t|/(K − 1)."""

    def check_target(self, scores, target, mask):
        return target

    def decode(self, scores, mask):
        best = scores == scores.amax(-1, keepdim=True)
        return best / best.sum(-1, keepdim=True)

    def cost(self, target, mask):
        distance = (torch.arange(mask.shape[-1]) - target.unsqueeze(-1)).abs()
        return torch.zeros(target.shape), distance / (mask.shape[-1] - 1)

    def scale(self, target, mask):
        return torch.full(target.shape, 2.0)

    def random_problem(self, longest, generator):
        classes = 2 + int(torch.randint(longest, (), generator=generator))
        return Problem(torch.randn(classes, generator=generator), torch.randint(classes, (), generator=generator))


def test_a_linear_loss_of_your_own_is_a_decoder_and_a_cost():
    check_task(OrdinalDistance())
    scores, target = torch.tensor([[0.1, 0.2, 0.3, 0.0]]), torch.tensor([0])
    assert OrdinalDistance().infer(scores, target).loss.item() == pytest.approx(2 / 3)
    value, grad = gradient(StructuredLoss(OrdinalDistance(), PositiveDirect(2.0)), scores, target)
    assert value.item() == pytest.approx((2 * (0.0 - 0.3) + 2) / 2)
    assert grad.tolist() == [[0, 0, -1, 1]]


class WrongCost(OrdinalDistance):
    def cost(self, target, mask):
        l0, cost = super().cost(target, mask)
        return l0 + 0.5, cost


def test_a_wrong_cost_is_found():
    with pytest.raises(TaskError, match=r"must have loss 0|must give a loss in \[0, 1\]"):
        check_task(WrongCost())


class ReciprocalDiscount(DiscountedGainTask):
    """A user's own: rank i is worth 1/i."""

    def discounts(self, items):
        return 1 / np.arange(1.0, items + 1)


def test_discounts_of_your_own():
    check_task(ReciprocalDiscount())


def test_gains_are_exponential_or_linear():
    scores, grades = torch.tensor([0.5, 0.4, 0.3, 0.1]), torch.tensor([0, 1, 3, 0])
    for gains, worth in (("exponential", 2**grades - 1), ("linear", grades)):
        for k in (None, 2):
            quality = 1 - NDCG(k, gains).infer(scores, grades).loss.item()
            assert quality == pytest.approx(ndcg_score([worth.tolist()], [scores.tolist()], k=k))
    assert NDCGLoss(k=2, gains="linear")(scores, grades) == StructuredLoss(NDCG(2, "linear"), PositiveDirect(1.0))(
        scores, grades
    )
    assert repr(NDCG(3)) == "NDCG(k=3)"
    assert repr(NDCG(3, "linear")) == "NDCG(k=3, gains='linear')"
    check_task(NDCG(gains="linear"), problems=20)
    for wrong in ("log", "12", (1,), (0, -1), (0, float("nan")), (0, float("inf")), 3, None):
        with pytest.raises(ValueError, match="gains must be 'exponential' or 'linear', a number from 0 on for each"):
            NDCG(gains=wrong)


@pytest.mark.parametrize("gains", [(0.0, 5.0, 1.0, 1.5), torch.tensor([0.0, 5.0, 1.0, 1.5]), None], ids=str)
def test_gains_of_your_own_are_exact(gains):
    """Also such as do not grow with the grade."""
    worth = np.array([0.0, 5.0, 1.0, 1.5])
    gains = (lambda grades: worth[grades.astype(int)]) if gains is None else gains
    scores, grades = torch.randn(2, 9), torch.arange(18).reshape(2, 9) % 4
    for k in (None, 2):
        found = NDCG(k, gains).infer(scores, grades).loss.numpy()
        want = [1 - ndcg_score(worth[None, row], one[None], k=k) for row, one in zip(grades, scores, strict=True)]
        np.testing.assert_allclose(found, want, rtol=1e-5)
        check_task(NDCG(k, gains), problems=30)
    mask = torch.arange(9) < 7
    padded = NDCG(None, gains).infer(scores, grades.masked_fill(~mask, -100), mask.expand(2, 9)).loss
    torch.testing.assert_close(padded, NDCG(None, gains).infer(scores[:, :7], grades[:, :7]).loss)
    torch.testing.assert_close(
        NDCG(None, gains).infer(scores, grades == 1).loss, NDCG().infer(scores, grades == 1).loss
    )
    loss = NDCGLoss(gains=gains)
    assert torch.compile(loss, backend="eager")(scores, grades) == loss(scores, grades)


def test_gains_of_your_own_refuse_other_grades_and_gains():
    scores = torch.tensor([0.5, 0.4, 0.3])
    for target in (torch.tensor([0, 1, 3]), torch.tensor([0, -1, 1]), torch.tensor([0, 0.5, 1])):
        with pytest.raises(ValueError, match="target must hold grades 0 to 2, for which there are gains"):
            NDCG(gains=(0, 1, 3)).infer(scores, target)
    with pytest.raises(ValueError, match="gains must be from 0 to 1e\\+100"):
        NDCG(gains=lambda grades: grades - 1).infer(scores, torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="must return one number for each grade"):
        NDCG(gains=lambda grades: grades.sum()).infer(scores, torch.tensor([0, 1, 2]))
