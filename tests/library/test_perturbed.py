"""Noisy copies of the scores: means, the two identities, and none of it in validation."""

import pytest
import torch

from directloss import (
    ROCAUC,
    AveragePrecision,
    AveragePrecisionLoss,
    DAGPath,
    GridPath,
    Hinge,
    MulticlassZeroOne,
    Perceptron,
    Perturbed,
    PositiveDirect,
    ScoreMemory,
    StructuredLoss,
    WarmUp,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def problem():
    scores = torch.randn(3, 8, dtype=torch.float64, generator=generator(1), requires_grad=True)
    return scores, torch.rand(3, 8, generator=generator(2)) < 0.4


@pytest.mark.parametrize("kind", ["normal", "logistic", "gumbel"])
@pytest.mark.parametrize("relative", [True, False])
def test_it_is_the_mean_of_the_loss_over_noisy_copies(kind, relative):
    scores, target = problem()
    mask = torch.rand(3, 8, generator=generator(3)) < 0.9
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(0.5))
    perturbed = Perturbed(loss, 0.7, 5, kind=kind, relative=relative, generator=generator())
    noise = perturbed._draw(scores)
    perturbed.generator = generator()
    factor = scores.detach()[mask].std(correction=0) if relative else 1.0
    each = [loss(scores + 0.7 * factor * one, target, mask) for one in noise]
    value = perturbed(scores, target, mask)
    torch.testing.assert_close(value, torch.stack(each).mean())
    want = torch.autograd.grad(torch.stack(each).mean(), scores)[0]
    torch.testing.assert_close(torch.autograd.grad(value, scores)[0], want)


def test_kinds_of_noise_have_their_mean_and_their_spread():
    wanted = {"normal": (0.0, 1.0), "logistic": (0.0, 1.8138), "gumbel": (0.5772, 1.2825)}
    for kind, (mean, spread) in wanted.items():
        drawn = Perturbed(AveragePrecisionLoss(), kind=kind, generator=generator())._draw(torch.zeros(200_000))
        assert drawn.mean().item() == pytest.approx(mean, abs=0.02)
        assert drawn.std().item() == pytest.approx(spread, abs=0.02)


def test_with_the_perceptron_it_is_the_perturbed_fenchel_young_loss():
    """Its gradient is E[y(scores + noise)] − y_truth; with Gumbel noise on classes it is that of cross-entropy."""
    scores, target = problem()
    for task in (AveragePrecision(), ROCAUC()):
        loss = Perturbed(StructuredLoss(task, Perceptron(), "sum"), 0.5, 50, relative=False, generator=generator())
        noisy = scores.detach() + 0.5 * torch.randn(50, 3, 8, dtype=torch.float64, generator=generator())
        every = target.expand(50, 3, 8)
        want = (task.infer(noisy, every).features - task.truth(noisy, every).features).mean(0)
        torch.testing.assert_close(torch.autograd.grad(loss(scores, target), scores)[0], want)
    scores, classes = torch.tensor([[1.0, 0.5, -1.0]], requires_grad=True), torch.tensor([1])
    task = MulticlassZeroOne()
    loss = Perturbed(StructuredLoss(task, Perceptron()), 1.0, 100_000, kind="gumbel", relative=False,
                     generator=generator())  # fmt: skip
    (gradient,) = torch.autograd.grad(loss(scores, classes), scores)
    (want,) = torch.autograd.grad(torch.nn.functional.cross_entropy(scores, classes), scores)
    torch.testing.assert_close(gradient / gradient.abs().max(), want / want.abs().max(), atol=0.02, rtol=0)


def test_with_the_hinge_on_regret_it_is_a_smoothed_spo_plus():
    """SPO+ at costs ĉ is max over paths of (c − 2ĉ)·y + 2ĉ·y* − c·y*; a margin of 1/2 on scores −ĉ gives half of it."""
    edges = ((0, 1), (1, 3), (0, 2), (2, 3))
    task = DAGPath(edges, loss="regret")
    costs = torch.tensor([1.0, 1.0, 3.0, 2.0], dtype=torch.float64)
    predicted = torch.tensor([2.0, 1.5, 1.0, 1.2], dtype=torch.float64, requires_grad=True)
    paths = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.float64)
    best = paths[(paths @ costs).argmin()]
    spread = (paths @ costs).max() - (paths @ costs).min()

    def spo_plus(predicted):
        return (paths @ (costs - 2 * predicted)).max() + (2 * predicted) @ best - costs @ best

    noise = 0.4 * torch.randn(20, 4, dtype=torch.float64, generator=generator())
    want = torch.autograd.grad(torch.stack([spo_plus(predicted - one) for one in noise]).mean(), predicted)[0]
    loss = StructuredLoss(task, Hinge(float(spread / 2)))
    loss = Perturbed(loss, 0.4, 20, relative=False, generator=generator())
    torch.testing.assert_close(torch.autograd.grad(loss(-predicted, costs), predicted)[0] * 2, want)


def test_there_is_no_noise_in_validation_and_bad_settings_are_refused():
    scores, target = problem()
    loss = Perturbed(AveragePrecisionLoss(), 3.0)
    assert loss.eval()(scores, target) == AveragePrecisionLoss()(scores, target)
    assert Perturbed(AveragePrecisionLoss(), 0.0)(scores, target) == AveragePrecisionLoss()(scores, target)
    assert repr(loss).startswith("Perturbed(\n  noise=3.0, copies=1, kind='normal', relative=True")
    for options, words in (({"noise": -1.0}, "noise must be"), ({"copies": 0}, "copies must be at least 1"),
                           ({"kind": "uniform"}, "kind must be one of 'normal'")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            Perturbed(AveragePrecisionLoss(), **options)
    with pytest.raises(TypeError, match=r"Pass AveragePrecisionLoss\(\)"):
        Perturbed(AveragePrecisionLoss)


def test_it_has_the_shapes_and_the_options_of_the_loss():
    scores, target = problem()
    made = {
        "dim": (AveragePrecisionLoss(dim=0), {}),
        "dim of the call": (AveragePrecisionLoss(), {"dim": 0}),
        "sum": (AveragePrecisionLoss(reduction="sum"), {}),
        "none": (AveragePrecisionLoss(reduction="none"), {"weight": torch.tensor([1.0, 2.0, 0.5])}),
        "an ε for each list": (AveragePrecisionLoss(PositiveDirect(torch.tensor([0.1, 1.0, 10.0]))), {}),
    }
    for name, (loss, options) in made.items():
        perturbed = Perturbed(loss, 0.5, 4, relative=False, generator=generator())
        noise = 0.5 * torch.randn(4, 3, 8, dtype=torch.float64, generator=generator())
        want = torch.stack([loss(scores + one, target, **options) for one in noise]).mean(0)
        torch.testing.assert_close(perturbed(scores, target, **options), want, msg=name)
    flat = Perturbed(AveragePrecisionLoss(), 0.5, 4)(scores.flatten(), target.flatten(), indexes=torch.arange(24) // 8)
    assert torch.autograd.grad(flat, scores)[0].any()


def test_ignored_items_have_no_say_in_the_noise_nor_in_a_memory():
    scores, target = problem()
    labels = target.long().masked_fill(torch.arange(8) > 5, -100)
    values = []
    for far in (0.0, 1e6, torch.nan):
        given = scores.detach().masked_fill(labels == -100, far)
        values.append(Perturbed(AveragePrecisionLoss(ignore_index=-100), 0.5, generator=generator())(given, labels))
    assert values[0] == values[1] == values[2]
    wrapped = WarmUp(Perturbed(AveragePrecisionLoss(ignore_index=-100)), 1)
    assert wrapped(scores, labels).isfinite()
    gradients = []
    for loss in (
        AveragePrecisionLoss(Hinge(), ignore_index=-100),
        Perturbed(AveragePrecisionLoss(Hinge(), ignore_index=-100), 0.0),
    ):
        batch = torch.tensor([0.5, 0.2, 0.1], requires_grad=True)
        memory = ScoreMemory(loss, torch.tensor([1, 0, 0, -100, -100, -100]))
        gradients.append(torch.autograd.grad(memory(batch, torch.tensor([0, 1, 3])), batch)[0])
    torch.testing.assert_close(*gradients)


def test_grids_are_perturbed_too():
    scores = torch.randn(4, 4, generator=generator(), requires_grad=True)
    loss = Perturbed(StructuredLoss(GridPath(loss="regret"), PositiveDirect(1.0)), 0.3, 3, generator=generator())
    assert torch.autograd.grad(loss(scores, torch.rand(4, 4, generator=generator())), scores)[0].shape == (4, 4)
