"""The contract of a task carries more than lists of 0 and 1; strengths may differ from list to list."""

import copy
import pickle
from typing import NamedTuple

import pytest
import torch
from members import MEMBERS
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._python_dispatch import TorchDispatchMode

from directloss import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    AveragePrecisionLoss,
    CentralDirect,
    FMeasure,
    Hinge,
    LinearChain,
    NegativeDirect,
    Output,
    Perceptron,
    PositiveDirect,
    PrecisionAtK,
    StructuredLoss,
    Task,
    ZeroOne,
)
from directloss.families import TRUTH, UpdateSpec
from directloss.tasks import TASKS
from directloss.testing import Problem

UPDATES = [PositiveDirect, NegativeDirect, CentralDirect, Hinge]


def lists(*shape: int, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return scores, torch.rand(shape, generator=generator) < 0.4


def graded(*shape: int, dtype=torch.float64):
    scores, _ = lists(*shape, dtype=dtype)
    return scores, torch.randint(4, shape, generator=torch.Generator().manual_seed(1))


def chains(*shape: int, dtype=torch.float64):
    *batch, steps = shape
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((*batch, steps - 1, 3, 3), generator=generator, dtype=torch.float64).to(dtype)
    return scores, torch.randint(3, shape, generator=generator)


PROBLEMS = {
    AveragePrecision(): lists, ZeroOne(): lists, ROCAUC(): lists, FMeasure(): lists, PrecisionAtK(2): lists,
    NDCG(): graded, LinearChain(): chains,
}  # fmt: skip
EVERY = pytest.mark.parametrize(("task", "problem"), PROBLEMS.items(), ids=lambda value: type(value).__name__)


def gradient(loss, scores, *rest):
    scores = scores.detach().requires_grad_()
    value = loss(scores, *rest)
    (grad,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), grad


@EVERY
@pytest.mark.parametrize("update", UPDATES)
def test_a_grid_of_strengths_in_one_call_gives_what_one_call_for_each_gives(task, problem, update):
    strengths = torch.logspace(-2, 2, 6, dtype=torch.float64).view(2, 3)
    scores, target = problem(2, 3, 7)
    together = gradient(StructuredLoss(task, update(strengths), reduction="none"), scores, target)
    for i in range(2):
        for j in range(3):
            alone = gradient(StructuredLoss(task, update(strengths[i, j].item())), scores[i, j], target[i, j])
            torch.testing.assert_close((together[0][i, j], together[1][i, j]), alone, rtol=0, atol=0)


@EVERY
@pytest.mark.parametrize("update", UPDATES)
def test_one_strength_for_all_may_be_a_tensor_of_any_type(task, problem, update):
    scores, target = problem(4, 7)
    want = gradient(StructuredLoss(task, update(0.5)), scores, target)
    for dtype in (torch.float64, torch.float32, torch.float16):
        strength = torch.tensor(0.5, dtype=dtype, requires_grad=True)
        got = gradient(StructuredLoss(task, update(strength)), scores, target)
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@EVERY
def test_weights_of_augmented_inference_may_differ_from_list_to_list(task, problem):
    scores, target = problem(5, 7)
    weights = torch.tensor([-3.0, -0.1, 0.0, 0.1, 3.0], dtype=torch.float64)
    together = task.infer_augmented(scores, target, weights)
    for k, weight in enumerate(weights.tolist()):
        alone = task.infer_augmented(scores[k], target[k], weight)
        torch.testing.assert_close(tuple(part[k] for part in together), tuple(alone), rtol=0, atol=0)
    prediction = task.infer(scores[2], target[2])
    torch.testing.assert_close(tuple(part[2] for part in together), tuple(prediction), rtol=0, atol=0)


@EVERY
def test_strengths_can_be_mapped(task, problem):
    scores, target = problem(2, 3, 7)
    strengths = torch.tensor([0.1, 0.3, 1.0, 3.0], dtype=torch.float64)

    def loss(strength, scores, target):
        return StructuredLoss(task, PositiveDirect(strength), reduction="none")(scores, target)

    want = torch.stack([loss(strength, scores, target) for strength in strengths])
    torch.testing.assert_close(torch.func.vmap(loss, in_dims=(0, None, None))(strengths, scores, target), want)
    each = strengths[:3].expand(2, 3)
    mapped = torch.func.vmap(loss)(each, scores, target)
    torch.testing.assert_close(mapped, loss(each, scores, target))
    shared = torch.func.vmap(loss, in_dims=(None, 0, 0))(strengths[:3], scores, target)
    torch.testing.assert_close(shared, loss(each, scores, target))


@EVERY
def test_every_task_compiles_is_mapped_and_keeps_types(task, problem):
    torch.compiler.reset()
    scores, target = problem(2, 3, 7)
    loss = StructuredLoss(task, CentralDirect(0.7), reduction="none")
    want = gradient(loss, scores, target)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(gradient(compiled, scores, target), want)
    torch.testing.assert_close(torch.func.vmap(loss)(scores, target), want[0])
    torch.testing.assert_close(torch.func.vmap(task.infer)(scores, target), task.infer(scores, target))
    summed = StructuredLoss(task, CentralDirect(0.7), reduction="sum")
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(summed))(scores, target), want[1])
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        value, grad = gradient(loss, scores.to(dtype), target)
        assert value.dtype == grad.dtype == dtype
    scores = scores.detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: loss(s, target), scores)


@pytest.mark.parametrize("number", [float, torch.tensor])
def test_strength_that_changes_from_step_to_step_is_an_input_of_compiled_code(number):
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    scores, target = lists(3, 9)
    task = AveragePrecision()

    def step(strength, scores):
        return StructuredLoss(task, PositiveDirect(strength))(scores, target)

    compiled = torch.compile(step, fullgraph=True, backend=counter)
    for k in range(12):
        strength = number(0.1 * (k + 1))
        torch.testing.assert_close(compiled(strength, scores), step(strength, scores))
    assert counter.frame_count <= 2  # a number is a constant until it changes for the first time


class Two(NamedTuple):
    """An update of one's own: away = argmax F + strength·L, toward = argmax F − L."""

    strength: float | torch.Tensor

    @property
    def spec(self):
        return UpdateSpec(self.strength, -1.0, 1 / (1 + self.strength))


@EVERY
def test_an_update_of_your_own_has_a_spec(task, problem):
    scores, target = problem(7)
    value, grad = gradient(StructuredLoss(task, Two(0.5)), scores, target)
    away, toward = task.infer_augmented(scores, target, 0.5), task.infer_augmented(scores, target, -1.0)
    features = away.features - toward.features
    torch.testing.assert_close(grad, features / 1.5)
    torch.testing.assert_close(value, ((scores * features).sum() + 0.5 * away.loss + toward.loss) / 1.5)


def test_value_of_a_spec_stands_where_the_truth_has_no_loss():
    assert UpdateSpec(2.0, TRUTH, 0.5).value(score=1.0, away_loss=0.25, toward_loss=0.0) == 0.75
    assert UpdateSpec(TRUTH, 2.0, 0.5).value(score=1.0, away_loss=0.0, toward_loss=0.25) == 0.25
    assert Perceptron().spec == UpdateSpec(0.0, TRUTH, 1.0)
    assert repr(Hinge().spec) == "UpdateSpec(away=1.0, toward=TRUTH, scale=1.0)"


class Careless(Task):
    """Gives nonsense where a list does not count."""

    def is_scored(self, target, mask):
        return target.any(-1)

    def oracle(self, scores, target, weight, mask):
        output = ZeroOne().oracle(scores, target, weight, mask)
        bad = ~target.any(-1)
        scores[:] = target[:] = mask[:] = 0  # what an oracle gets is its own
        return Output(output.features.masked_fill(bad.unsqueeze(-1), torch.nan), output.loss.masked_fill(bad, 7.0))


def test_problem_that_does_not_count_gives_exactly_zero_whatever_the_oracle_says():
    scores, target = torch.randn(3, 4), torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    before = scores.clone(), target.clone()
    value, grad = gradient(StructuredLoss(Careless(), CentralDirect(1.0), reduction="none"), scores, target)
    assert value[1] == 0
    assert not grad[1].any()
    assert grad.isfinite().all()
    for output in (Careless().infer(scores, target), Careless().truth(scores, target)):
        assert output.loss[1] == 0
        assert not output.features[1].any()
    torch.testing.assert_close((scores, target), before)
    mean = StructuredLoss(Careless(), CentralDirect(1.0))(scores, target)
    torch.testing.assert_close(mean, value[[0, 2]].mean())


@pytest.mark.parametrize("task", [task() for task in TASKS.values()], ids=str)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda task: pickle.loads(pickle.dumps(task))])
def test_copies_of_a_task_are_tasks_of_their_own(task, duplicate):
    twin = duplicate(task)
    generator = torch.Generator().manual_seed(0)
    drawn = (Problem(*task.random_problem(5, generator)) for _ in range(100))
    scores, target, _ = next(problem for problem in drawn if problem.scores.numel() > 3)
    scores, target = torch.stack([scores, -scores]), torch.stack([target, target])
    mapped = torch.func.vmap(StructuredLoss(twin, PositiveDirect(1.0)))(scores, target)
    torch.testing.assert_close(mapped, StructuredLoss(task, PositiveDirect(1.0), reduction="none")(scores, target))


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_a_mode_that_sees_operators_changes_nothing(member):
    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.add(str(function))
            return function(*args, **(kwargs or {}))

    seen = set()
    scores, target = lists(3, 7)
    loss = StructuredLoss(*member)
    want = gradient(loss, scores, target)
    with Watching():
        got = gradient(loss, scores, target)
    assert "directloss.contrast.default" in seen
    torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_masked_edges_of_a_chain_change_nothing():
    scores, target = chains(6)
    mask = torch.arange(5) < 3
    loss = StructuredLoss(LinearChain(), CentralDirect(0.7))
    want = gradient(loss, scores[:3], target[:4])
    padded = scores.clone()
    padded[3:] = torch.nan
    value, grad = gradient(loss, padded, torch.where(torch.arange(6) < 4, target, -100), mask)
    torch.testing.assert_close((value, grad[:3]), want)
    assert not grad[3:].any()
    assert not gradient(loss, padded, target, torch.zeros(5, dtype=torch.bool))[1].any()


@pytest.mark.parametrize(
    ("task", "scores", "target", "mask", "message"),
    [
        (NDCG(), torch.zeros(3), torch.tensor([0, -1, 2]), None, r"must hold grades.*got -1 at index 1"),
        (NDCG(), torch.zeros(3), torch.zeros(2), None, r"scores has shape \(3,\) but target has shape \(2,\)"),
        (LinearChain(), torch.zeros(3, 2), torch.zeros(3).long(), None, r"at least 3 dimensions.*\(3, 2\)"),
        (LinearChain(), torch.zeros(3, 2, 2), torch.zeros(3).long(), None, r"target of shape \(4,\)"),
        (LinearChain(), torch.zeros(3, 2, 2), torch.tensor([0, 1, 2, 0]), None, "labels from 0 to 1; got 2 at index 2"),
        (LinearChain(), torch.zeros(3, 2, 2), torch.zeros(4).long(), torch.ones(4) > 0, r"mask must have shape \(3,\)"),
        (LinearChain(), torch.zeros(2, 2, 2), torch.zeros(3).long(), torch.tensor([False, True]), "mask must have no"),
    ],
)
def test_what_the_task_does_not_take_is_refused_in_words(task, scores, target, mask, message):
    with pytest.raises(ValueError, match=message):
        StructuredLoss(task, PositiveDirect(1.0))(scores, target, mask)


def test_a_loss_takes_a_strength_for_every_list():
    scores, target = lists(4, 50)
    share = target.double().mean(-1)
    value = AveragePrecisionLoss(PositiveDirect(4 * share / (1 - share)))(scores, target)
    assert 0 < value < 2
