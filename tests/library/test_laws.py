"""One law, all members: what holds for every task and every update."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from members import LISTS, MEMBERS, lists

from directloss import NDCG, CentralDirect, NegativeDirect, PositiveDirect, PrecisionAtK, RecallAtK, StructuredLoss
from directloss.families import TRUTH, CountTask, RankingTask
from directloss.tasks import TASKS
from directloss.testing import check_task
from directloss.update import UPDATES

members = st.sampled_from(MEMBERS)
tasks = st.sampled_from(LISTS)


def gradient(loss, scores, target, mask=None):
    scores = scores.detach().requires_grad_()
    value = loss(scores, target, mask)
    (grad,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), grad


def expected(task, update, scores, target):
    """The table of updates, written out with the three oracles."""
    outputs = []
    for weight in (update.spec.away, update.spec.toward):
        if weight is TRUTH:
            output = task.truth(scores, target)
        elif weight == 0:
            output = task.infer(scores, target)
        else:
            output = task.infer_augmented(scores, target, weight)
        paid = 0 if weight is TRUTH else weight * output.loss
        outputs.append((output, (output.features * scores).sum() + paid))
    (away, away_value), (toward, toward_value) = outputs
    return update.spec.scale * (away_value - toward_value), update.spec.scale * (away.features - toward.features)


def test_every_update_there_is_is_tried():
    assert {type(update) for _, update in MEMBERS} == set(UPDATES.values())


@pytest.mark.filterwarnings("ignore:.*its scale is unusual")  # of metrics that look at few pairs, which say so
@pytest.mark.parametrize("task", TASKS.values())
def test_oracles_pass_the_check_for_tasks(task):
    check_task(task(), problems=30)


@pytest.mark.filterwarnings("ignore:.*its scale is unusual")
@pytest.mark.parametrize("task", LISTS, ids=repr)
def test_oracles_with_other_options_pass_the_check_for_tasks(task):
    check_task(task, problems=20)


@given(members, lists())
@settings(max_examples=300)
def test_loss_is_the_contrast_of_two_outputs(member, problem):
    task, update = member
    scores, target = problem
    value, grad = gradient(StructuredLoss(task, update), scores, target)
    want_value, want_grad = expected(task, update, scores, target)
    scale = 1e-9 * (1 + scores.abs().max().item())
    torch.testing.assert_close(value, want_value, rtol=0, atol=scale)
    torch.testing.assert_close(grad, want_grad, rtol=0, atol=1e-12)


@given(tasks, lists(ties=False), st.floats(-3, 3).map(lambda exponent: 10.0**exponent))
@settings(max_examples=300)
def test_direct_values_bracket_the_task_loss(task, problem, epsilon):
    scores, target = problem
    below, centre, above = (
        StructuredLoss(task, update(epsilon))(scores, target)
        for update in (NegativeDirect, CentralDirect, PositiveDirect)
    )
    slack = 1e-9 * (1 + scores.abs().max() / epsilon)
    assert below - slack <= task.infer(scores, target).loss <= above + slack
    torch.testing.assert_close(centre, (below + above) / 2, rtol=0, atol=slack.item())


@given(members, lists())
@settings(max_examples=200)
def test_value_is_never_negative(member, problem):
    task, update = member
    scores, target = problem
    assert StructuredLoss(task, update)(scores, target) >= -1e-9 * (1 + scores.abs().max())


@given(members, lists(), st.integers(0, 3), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_masked_items_change_nothing_whatever_they_hold(member, problem, extra, random):
    loss = StructuredLoss(*member)
    scores, target = problem
    padded_scores, padded_target, mask = scores.tolist(), target.tolist(), [True] * len(target)
    for _ in range(extra):
        place = random.randrange(len(mask) + 1)
        padded_scores.insert(place, random.choice([float("nan"), float("inf"), -1e300, 0.0]))
        padded_target.insert(place, random.choice([0, 1, -100, 7]))
        mask.insert(place, False)
    value, grad = gradient(loss, scores, target)
    keep = torch.tensor(mask)
    padded_value, padded_grad = gradient(
        loss, torch.tensor(padded_scores, dtype=torch.float64), torch.tensor(padded_target).int(), keep
    )
    torch.testing.assert_close(padded_value, value, rtol=0, atol=1e-9 * (1 + scores.abs().max().item()))
    torch.testing.assert_close(padded_grad[keep], grad)
    assert not padded_grad[~keep].any()


@given(members, lists(), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_permuting_the_items_permutes_the_gradient(member, problem, random):
    loss = StructuredLoss(*member)
    scores, target = problem
    order = list(range(len(scores)))
    random.shuffle(order)
    value, grad = gradient(loss, scores, target)
    permuted_value, permuted_grad = gradient(loss, scores[order], target[order])
    torch.testing.assert_close(permuted_grad, grad[order], rtol=0, atol=1e-12)
    torch.testing.assert_close(permuted_value, value, rtol=0, atol=1e-9 * (1 + scores.abs().max().item()))


@pytest.mark.parametrize("member", MEMBERS, ids=str)
@pytest.mark.parametrize("batch", [(), (1,), (1, 1), (3,), (2, 1, 3)])
def test_values_have_the_shape_of_the_batch(member, batch):
    scores = torch.randn((*batch, 5), generator=torch.Generator().manual_seed(0), requires_grad=True)
    target = torch.tensor([1, 0, 1, 0, 0]).expand_as(scores)
    values = StructuredLoss(*member, reduction="none")(scores, target)
    assert values.shape == batch
    values.sum().backward()
    for output in (member[0].infer(scores, target), member[0].truth(scores, target)):
        assert output.loss.shape == batch
        assert output.features.shape == scores.shape


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_batch_gives_what_its_lists_give(member):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((2, 3, 7), generator=generator, dtype=torch.float64)
    target = torch.rand((2, 3, 7), generator=generator) < 0.5
    values, grads = gradient(StructuredLoss(*member, reduction="none"), scores, target)
    assert values.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            value, grad = gradient(StructuredLoss(*member), scores[i, j], target[i, j])
            torch.testing.assert_close(values[i, j], value)
            torch.testing.assert_close(grads[i, j], grad)


@pytest.mark.parametrize("member", MEMBERS, ids=str)
@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded"])
def test_layout_in_memory_changes_nothing(member, layout):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((8, 8), generator=generator)
    target = torch.rand((8, 8), generator=generator) < 0.5
    view = {
        "transposed": lambda x: x.T,
        "strided": lambda x: x[:, ::2],
        "expanded": lambda x: x[:1].expand(8, 8),
    }[layout]
    loss = StructuredLoss(*member, reduction="none")
    plain = view(scores).clone(memory_format=torch.contiguous_format), view(target).clone()
    torch.testing.assert_close(gradient(loss, view(scores), view(target)), gradient(loss, *plain))


@pytest.mark.filterwarnings("ignore::directloss.TrainingWarning")
@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_gradient_is_that_of_the_value_away_from_ties(member):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((3, 8), generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.rand((3, 8), generator=generator) < 0.4
    for reduction in ("mean", "sum", "none"):
        loss = StructuredLoss(*member, reduction=reduction)
        assert torch.autograd.gradcheck(lambda s, loss=loss: loss(s, target), scores)
        assert torch.autograd.gradgradcheck(lambda s, loss=loss: loss(s, target), scores)


@pytest.mark.parametrize("member", MEMBERS, ids=str)
@pytest.mark.parametrize("convert", [lambda t: t, lambda t: t.long(), lambda t: t.int(), lambda t: t.float()])
def test_target_may_be_bool_int_or_float(member, convert):
    scores = torch.tensor([[0.3, -0.2, 1.0, 0.4]])
    target = torch.tensor([[True, False, False, True]])
    loss = StructuredLoss(*member)
    assert loss(scores, convert(target)) == loss(scores, target)


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_reductions_leave_out_lists_that_do_not_count(member):
    task, update = member
    scores = torch.randn((4, 5), generator=torch.Generator().manual_seed(0))
    target = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 1]])
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[3] = False
    each = StructuredLoss(task, update, reduction="none")(scores, target, mask)
    both = isinstance(task, RankingTask | NDCG | PrecisionAtK | RecallAtK)  # they need positives and negatives
    some = isinstance(task, CountTask)  # they need positives
    counted = task.contrast(scores, target, update.spec, mask).counted
    assert counted.tolist() == [True, not (both or some), not both, False]
    assert (each[~counted] == 0).all()
    torch.testing.assert_close(StructuredLoss(task, update, reduction="sum")(scores, target, mask), each.sum())
    torch.testing.assert_close(StructuredLoss(task, update)(scores, target, mask), each.sum() / counted.sum())


EMPTY = {
    "empty list": (torch.zeros(0), torch.zeros(0), None),
    "batch of empty lists": (torch.zeros(3, 0), torch.zeros(3, 0), None),
    "no lists": (torch.zeros(0, 5), torch.zeros(0, 5), None),
    "wholly masked": (torch.full((2, 3), torch.nan), torch.full((2, 3), 9), torch.zeros(2, 3, dtype=torch.bool)),
}


@pytest.mark.parametrize("member", MEMBERS, ids=str)
@pytest.mark.parametrize("case", EMPTY)
def test_nothing_to_rank_gives_exactly_zero(member, case):
    scores, target, mask = EMPTY[case]
    value, grad = gradient(StructuredLoss(*member), scores, target, mask)
    assert value == 0
    assert not grad.any()


@pytest.mark.parametrize("fill", [0, 1])
@pytest.mark.parametrize("update", [member[1] for member in MEMBERS[:5]], ids=str)
def test_list_of_one_class_gives_exactly_zero_in_ranking(update, fill):
    loss = StructuredLoss(TASKS["average_precision"](), update)
    value, grad = gradient(loss, torch.randn(2, 6), torch.full((2, 6), fill))
    assert value == 0
    assert not grad.any()


def test_score_of_zero_is_no_sign_and_half_a_mistake():
    output = TASKS["zero_one"]().infer(torch.tensor([0.0, 1.0, -1.0, 2.0]), torch.tensor([1, 1, 1, 1]))
    assert output.loss == (0.5 + 1) / 4
    assert output.features.tolist() == [0.0, 0.25, -0.25, 0.25]


def test_augmented_sign_is_right_where_the_score_is_worth_more_than_half_the_weight():
    output = TASKS["zero_one"]().infer_augmented(torch.tensor([1.9, 2.1, -1.9, -2.1]), torch.tensor([1, 1, 0, 0]), 4.0)
    assert output.features.tolist() == [-0.25, 0.25, 0.25, -0.25]
    assert output.loss == 0.5
