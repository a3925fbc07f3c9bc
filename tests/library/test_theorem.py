"""The paper's theorem: the direct gradients converge to the gradient of the expected task loss as ε → 0.

A list of two positives and two negatives depends on one latent z ~ N(0, 1), so the expected loss is a sum of normal
probabilities of the intervals between the z at which two scores cross: smooth in the parameters, and known to machine
precision. The expectation of the direct gradient is a fine sum over z. Scores are linear in the parameters, or come
from a small network: the case that the paper adds to the linear one.

The parameters are chosen, not drawn: the first of some twenty random ones whose scores cross well inside the density,
steeply, and far enough apart for ε = 0.2 to be small already. Where scores nearly touch, or never cross, the limits
need a much smaller ε than the sum over z resolves; most random parameters are of that kind.
"""

import math

import pytest
import torch
from members import average_precision_loss
from torch import Tensor

from directloss import (
    AveragePrecision,
    CentralDirect,
    NegativeDirect,
    PositiveDirect,
    Task,
    ZeroOne,
    direct_loss,
    structured_loss,
)

OFFSET = torch.tensor([[0.3, 0.9], [-0.4, 0.1], [0.2, -0.8], [-0.1, -0.3]], dtype=torch.float64)
SLOPE = torch.tensor([[1.2, 0.0], [-0.9, 0.0], [-0.5, 0.0], [0.6, 0.0]], dtype=torch.float64)
TARGET = torch.tensor([True, True, False, False])


def inputs(z: Tensor) -> Tensor:
    """Four items with two features each, of which the first moves with z."""
    return OFFSET + SLOPE * z[..., None, None]


def linear(w: Tensor, x: Tensor) -> Tensor:
    return w[0] * x[..., 0] + w[1] * x[..., 1] + w[2] * x[..., 0] * x[..., 1]


def network(w: Tensor, x: Tensor) -> Tensor:
    hidden = torch.tanh(x @ w[:6].view(2, 3) + w[6:9])
    return torch.tanh(hidden @ w[9:12]) + hidden @ w[12:15]


def parameters(count: int, seed: int) -> Tensor:
    return 1.5 * torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MODELS = {"linear": (linear, parameters(3, seed=2)), "network": (network, parameters(15, seed=19))}
TASKS = [AveragePrecision(), ZeroOne()]


def crossings(model, w: Tensor, task: Task) -> Tensor:
    """All z in [−9, 9] at which the prediction changes, by bisection from a fine grid."""

    def differences(z: Tensor) -> Tensor:
        scores = model(w, inputs(z))
        return scores if isinstance(task, ZeroOne) else (scores[:, :2, None] - scores[:, None, 2:]).flatten(1)

    grid = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    signs = differences(grid) > 0
    where, which = (signs[1:] != signs[:-1]).nonzero(as_tuple=True)
    low, high = grid[where], grid[where + 1]
    for _ in range(60):
        middle = (low + high) / 2
        same = (differences(middle).gather(1, which[:, None])[:, 0] > 0) == signs[where, which]
        low, high = torch.where(same, middle, low), torch.where(same, high, middle)
    return low.sort().values


def expected_loss(model, w: Tensor, task: Task) -> float:
    edges = torch.cat([torch.tensor([-9.0]), crossings(model, w, task), torch.tensor([9.0])])
    middles = (edges[1:] + edges[:-1]) / 2
    losses = task.infer(model(w, inputs(middles)), TARGET.expand(len(middles), 4)).loss
    cumulative = (1 + torch.erf(edges / math.sqrt(2))) / 2
    return (losses * cumulative.diff()).sum().item()


def true_gradient(model, w: Tensor, task: Task) -> Tensor:
    step = 1e-4
    return torch.tensor(
        [(expected_loss(model, w + d, task) - expected_loss(model, w - d, task)) / (2 * step)
         for d in step * torch.eye(len(w), dtype=torch.float64)],
        dtype=torch.float64,
    )  # fmt: skip


def direct_gradient(model, w: Tensor, task: Task, update) -> Tensor:
    z = torch.linspace(-9, 9, 400_001, dtype=torch.float64)
    density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    w = w.clone().requires_grad_()
    values = structured_loss(task, update, model(w, inputs(z)), TARGET.expand(len(z), 4), reduction="none")
    (grad,) = torch.autograd.grad((values * density).sum(), w)
    return grad


@pytest.mark.parametrize("task", TASKS, ids=str)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.slow
def test_direct_gradients_converge_to_the_gradient_of_the_expected_loss(model, task):
    score, w = MODELS[model]
    truth = true_gradient(score, w, task)
    assert truth.norm() > 0.05

    def errors(update):
        return [(direct_gradient(score, w, task, update(e)) - truth).norm().item() for e in (0.2, 0.1, 0.05)]

    for update in (PositiveDirect, NegativeDirect):
        error = errors(update)
        assert error[2] < 0.2 * truth.norm()
        assert error[1] < 0.65 * error[0]  # first order: halving ε halves the error
        assert error[2] < 0.65 * error[1]
    central = errors(CentralDirect)
    assert central[2] < 0.35 * errors(PositiveDirect)[2]
    assert central[1] < 0.35 * central[0]  # second order: halving ε quarters it
    assert central[2] < 0.1 * truth.norm()


@pytest.mark.parametrize("update", [PositiveDirect(0.1), NegativeDirect(0.1), CentralDirect(0.1)])
def test_general_entry_point_is_the_loss_for_a_linear_score(update):
    """F given as a function of outputs and parameters, as for scores that no single tensor holds."""
    score, w = MODELS["network"]
    task = AveragePrecision()
    scores = score(w.clone().requires_grad_(), inputs(torch.tensor([0.3, -1.0], dtype=torch.float64))).detach()
    scores.requires_grad_()
    target = TARGET.expand(2, 4)

    def scored(weight):
        output = task.infer_augmented(scores, target, weight) if weight else task.infer(scores, target)
        return (output.features * scores).sum(-1), output.loss

    general = direct_loss(scored(update.spec.away), scored(update.spec.toward), update)
    special = average_precision_loss(scores, target, update=update)
    torch.testing.assert_close(general, special)
    torch.testing.assert_close(torch.autograd.grad(general, scores), torch.autograd.grad(special, scores))


def test_general_entry_point_of_no_examples_is_zero():
    none = torch.zeros(0, requires_grad=True)
    assert direct_loss((none, none), (none, none), PositiveDirect(1.0)) == 0


def test_general_entry_point_trains_a_score_that_no_score_tensor_holds():
    """F(x, y, w) = a network of input and output together; three outputs, L = 1 for the wrong ones."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    x = torch.randn(120, 2)
    truth = (x[:, 0] > 0).long() + (x[:, 1] > 0.3).long()
    candidates = torch.eye(3)

    def score_all() -> Tensor:
        pairs = torch.cat([x[:, None].expand(-1, 3, -1), candidates.expand(len(x), -1, -1)], -1)
        return network(pairs).squeeze(-1)

    losses = (torch.arange(3) != truth[:, None]).float()
    update = CentralDirect(1.0)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)

    def errors() -> float:
        return losses.gather(1, score_all().argmax(1, keepdim=True)).mean().item()

    before = errors()
    for _ in range(150):
        scores = score_all()
        outputs = [(scores.detach() + weight * losses).argmax(1, keepdim=True) for weight in (1.0, -1.0)]
        away, toward = ((scores.gather(1, y)[:, 0], losses.gather(1, y)[:, 0]) for y in outputs)
        optimizer.zero_grad()
        direct_loss(away, toward, update).backward()
        optimizer.step()
    assert errors() < 0.5 * before


def test_reductions_of_a_loss_of_pairs():
    away, toward = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 4.0])
    each = direct_loss((away, 0.5), (toward, 0.0), PositiveDirect(1.0), reduction="none")
    assert each.tolist() == [1.0, -1.5]
    assert direct_loss((away, 0.5), (toward, 0.0), PositiveDirect(1.0), reduction="sum") == -0.5
    assert direct_loss((away, 0.5), (toward, 0.0), PositiveDirect(1.0)) == -0.25
    assert direct_loss((away[:1], 0.5), (toward[:1], 0.0), PositiveDirect(1.0)) == 1.0
    assert direct_loss((away[:0], 0.5), (toward[:0], 0.0), PositiveDirect(1.0)) == 0.0
