"""The study of shortest paths: its data, the two known methods that are updates of ours, and what a run gives."""

import dataclasses

import pytest
import torch
from directloss_studies import paths
from directloss_studies.harness.options import Options
from directloss_studies.harness.study import Provenance, Run
from directloss_studies.sweep import Setting

from directloss import (
    CentralDirect,
    Hinge,
    NegativeDirect,
    Perceptron,
    Perturbed,
    PositiveDirect,
    StructuredLoss,
    WindowDirect,
    structured_loss,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def mixing():
    return (torch.rand((40, 5), generator=generator()) < 0.5).float()


def solve(costs):
    """The cheapest of all 70 paths, by enumeration."""
    every = paths.TASK.paths(torch.zeros(40)).to(costs.dtype)
    assert len(every) == 70
    return every[(costs.unsqueeze(-2) * every).sum(-1).argmin(-1)]


def test_costs_are_a_polynomial_of_features_with_noise_around_one():
    features, costs = paths.instances(500, 4, 0.0, mixing(), generator())
    torch.testing.assert_close(costs, ((features @ mixing().T / 5**0.5 + 3) ** 4 + 1) / 3.5**4)
    _, noisy = paths.instances(500, 4, 0.5, mixing(), generator())
    assert 0.5 <= (noisy / costs).min() < 0.51
    assert 1.49 < (noisy / costs).max() <= 1.5


def problem(count=6):
    _, costs = paths.instances(count, 4, 0.5, mixing(), generator())
    scores = -torch.rand((1, count * 40), generator=generator(1)).requires_grad_()
    return scores, costs, torch.stack([costs, solve(costs)], -1)


def gradient(method, strength):
    scores, costs, target = problem()
    loss = paths.losses(method, [Setting(strength, 0.1, 0.0)])(scores, target)
    (grad,) = torch.autograd.grad(loss.sum(), scores)
    return loss, grad.view(6, 40), -scores.detach().view(6, 40), costs


def test_spo_plus_is_the_hinge_with_margin_one_half():
    loss, grad, predicted, costs = gradient("SPO+", 1.0)
    best, away = solve(costs), solve(2 * predicted - costs)
    spo = ((costs - 2 * predicted) * away + (2 * predicted - costs) * best).sum(-1)
    torch.testing.assert_close(loss, spo.mean().unsqueeze(0) / 2)
    torch.testing.assert_close(-grad, 2 * (best - away) / 6 / 2)  # its subgradient in the predicted costs


@pytest.mark.parametrize("strength", [0.3, 3.0])
def test_blackbox_differentiation_is_the_negative_update(strength):
    _, grad, predicted, costs = gradient("neg-regret", strength)
    at_costs = -(solve(predicted) - solve(predicted + strength * costs)) / strength  # of the loss <costs, path>
    torch.testing.assert_close(-grad, at_costs / 6)


UPDATES = {"pos-regret": PositiveDirect, "neg-regret": NegativeDirect, "central-regret": CentralDirect,
           "hinge-regret": Hinge, "window-regret": lambda epsilon: WindowDirect(epsilon, 10 * epsilon)}  # fmt: skip


@pytest.mark.parametrize("method", UPDATES)
def test_losses_are_those_of_the_task_but_for_units(method):
    """The task divides regret by its range, and multiplies scores by 2/8."""
    loss, grad, predicted, costs = gradient(method, 0.7)
    spread = (costs * (solve(-costs) - solve(costs))).sum(-1)
    scores = -predicted.requires_grad_()
    values = structured_loss(paths.TASK, UPDATES[method](0.7 * spread * 2 / 8), scores, costs, reduction="none")
    values = values * (8 / 2 if method == "hinge-regret" else spread)
    torch.testing.assert_close(values.mean().unsqueeze(0), loss)
    torch.testing.assert_close(torch.autograd.grad(values.mean(), predicted)[0], -grad)


@pytest.mark.parametrize(("method", "update"), [("PFYL", Perceptron()), ("smoothed SPO+", None)])
def test_losses_with_noise_are_those_of_the_library_but_for_units(method, update):
    scores, costs, target = problem()
    found = paths.losses(method, [Setting(0.3, 0.1, 0.0)], generator(5))(scores, target)
    spread = (costs * (solve(-costs) - solve(costs))).sum(-1)
    loss = StructuredLoss(paths.TASK, update or Hinge(0.5 * spread * 2 / 8), reduction="none")
    noisy = Perturbed(loss, 0.3, paths.COPIES, relative=False, generator=generator(5))
    values = noisy(scores.view(6, 40), costs) * 8 / 2
    torch.testing.assert_close(values.mean().unsqueeze(0), found)
    gradients = (torch.autograd.grad(value.sum(), scores)[0] for value in (values.mean(), found))
    torch.testing.assert_close(*gradients)


def test_least_squares_is_solved_and_a_ridge_leaves_the_mean():
    features, costs = paths.instances(200, 4, 0.5, mixing(), generator())
    free, held = paths.ridges(features, costs, [Setting(1.0, 0.0, 0.0), Setting(1.0, 0.0, 1e9)])
    design = torch.cat([torch.ones(200, 1), features], 1).double()
    torch.testing.assert_close(free, torch.linalg.lstsq(design, costs.double()).solution)
    torch.testing.assert_close(held[1:], torch.zeros_like(held[1:]), atol=1e-6, rtol=0)
    torch.testing.assert_close(held[0], costs.double().mean(0), atol=1e-6, rtol=0)


def test_every_method_has_as_many_settings():
    for preset in ("quick", "paper"):
        some = paths.configs(Options(preset=preset, seeds=1))
        assert {config.method for config in some} == set(paths.METHODS)
        assert len({len(set(config.settings)) for config in some}) == 1


def test_value_of_the_direct_updates_brackets_regret():
    below, _, predicted, costs = gradient("neg-regret", 0.5)
    above, *_ = gradient("pos-regret", 0.5)
    middle, *_ = gradient("central-regret", 0.5)
    regret = (costs * (solve(predicted) - solve(costs))).sum(-1).mean()
    assert below < regret < above
    torch.testing.assert_close(middle, (below + above) / 2)


def test_regret_is_that_of_all_paths_over_the_cost_of_the_best():
    scores, costs, _ = problem()
    (found,) = paths.regrets(scores.detach(), costs, solve(costs))
    expected = (costs * solve(-scores.detach().view(6, 40))).sum() / (costs * solve(costs)).sum() - 1
    assert found == pytest.approx(expected.item(), abs=1e-5)


def test_methods_learn():
    reached = {}
    for config in paths.configs(Options(seeds=1)):
        if config.degree == 1:
            config = dataclasses.replace(config, iterations=60, samples=200)
            result = paths.run(config)
            chosen = paths._chosen(Run(config, result, Provenance(1.0)))
            reached[config.method] = chosen.value(result.test) / max(result.test[0])
    assert max(reached.values()) < 0.95, reached


def test_summary_names_the_method_with_the_least_regret():
    runs = []
    for config in paths.configs(Options(seeds=3)):
        level = 0.1 + 0.1 * paths.METHODS.index(config.method) + 0.001 * config.seed
        curve = tuple(tuple(level + 0.01 * k for k in range(len(config.settings))) for _ in range(3))
        runs.append(
            Run(config, paths.Result((0, 100, 200), curve, curve, (0.0,) * len(config.settings)), Provenance(1.0))
        )
    summary = paths.summarise(runs)
    assert "pos-regret has the least regret on test instances (0.111)" in summary.headline
    assert (0, 1) in summary.tables[0].best
    assert {record.metric for record in summary.records} == {
        "test_regret", "dead_gradients", "this_minus_least squares", "this_minus_SPO+"
    }  # fmt: skip
    assert paths.summarise(runs[:3]).headline == ""
    with pytest.raises(ValueError, match="test must be regret, 0 or more"):
        dataclasses.replace(runs[0].result, test=((-1.0,) * 4,) * 3).check(runs[0].config)
