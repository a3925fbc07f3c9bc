"""Networks side by side train exactly as they would alone, and two passes give the gradient of one."""

import itertools
from itertools import repeat

import pytest
import torch
from directloss_studies.linear_models import LINEAR_MODELS, SHARES, fit
from directloss_studies.networks import Classifiers, Heads, Networks, Scaling
from directloss_studies.sweep import combinations
from directloss_studies.trainers import fine_tune, passes, stratified, train
from torch import nn

from directloss import AveragePrecisionLoss

WIDTHS = (5, 7, 4, 1)


def alone(networks: Networks, index: int) -> nn.Sequential:
    """The same network in plain torch."""
    layers = []
    parts = networks.weights[index].detach().split(networks.sizes)
    for k, (outputs, inputs) in enumerate(networks.shapes):
        layer = nn.Linear(inputs, outputs)
        layer.weight.data = parts[2 * k].view(outputs, inputs).clone()
        layer.bias.data = parts[2 * k + 1].clone()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def data(items=200):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn((items, WIDTHS[0]), generator=generator)
    return inputs, inputs.sum(-1) > 1


def losses(scores, target):
    return AveragePrecisionLoss(reduction="none")(scores, target.expand_as(scores))


@pytest.mark.parametrize("batch", [None, 32])
def test_networks_side_by_side_equal_torch_with_adamw(batch):
    inputs, target = data()
    rates, decays = torch.tensor([0.01, 0.03, 0.03]), torch.tensor([0.0, 0.0, 0.5])
    networks = Networks(3, WIDTHS, "he", torch.Generator().manual_seed(0))
    twins = [alone(networks, k) for k in range(3)]
    for twin in twins:
        torch.testing.assert_close(networks(inputs)[0], twin(inputs).squeeze(-1))
    settings = {"learning_rates": rates, "weight_decays": decays, "iterations": 20}
    batches = passes(len(target), batch, torch.Generator().manual_seed(5))
    train(networks, losses, inputs, target, **settings, batches=batches)
    for k, twin in enumerate(twins):
        optimizer = torch.optim.AdamW(twin.parameters(), lr=float(rates[k]), weight_decay=float(decays[k]))
        generator = torch.Generator().manual_seed(5)
        order = torch.empty(0, dtype=torch.long)
        for _ in range(20):
            if batch and len(order) < batch:
                order = torch.randperm(len(target), generator=generator)
            items, order = (order[:batch], order[batch:]) if batch else (slice(None), order)
            optimizer.zero_grad()
            losses(twin(inputs[items]).squeeze(-1), target[items]).backward()
            optimizer.step()
        torch.testing.assert_close(networks(inputs)[k], twin(inputs).squeeze(-1), rtol=2e-3, atol=2e-4)


def three(batches):
    return torch.cat([next(batches) for _ in range(3)]).tolist()


def test_a_pass_shows_every_item_at_most_once_and_leaves_out_a_rest():
    batches = passes(10, 3, torch.Generator().manual_seed(0))
    orders = [three(batches) for _ in range(20)]
    assert all(len(set(order)) == 9 and set(order) < set(range(10)) for order in orders)
    assert len({frozenset(order) for order in orders}) > 3  # not always the same one is left out
    assert len({tuple(order) for order in orders}) == 20
    again = passes(10, 3, torch.Generator().manual_seed(0))
    assert three(again) == orders[0]


@pytest.mark.parametrize("batch", [None, 10, 11])
def test_a_batch_that_holds_all_items_is_the_whole_set(batch):
    batches = passes(10, batch, None)
    assert [next(batches) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize(("batch", "share", "wanted"), [(16, 0.25, 4), (2, 0.25, 1), (3, 0.99, 2), (7, 0.01, 1)])
@pytest.mark.parametrize("positives", [1, 5, 39])
def test_every_batch_has_its_share_of_positives(batch, share, wanted, positives):
    target = torch.arange(40) < positives
    target = target[torch.randperm(40, generator=torch.Generator().manual_seed(1))]
    batches = stratified(target, batch, share, torch.Generator().manual_seed(0))
    drawn = [next(batches) for _ in range(600)]
    assert {len(items) for items in drawn} == {batch}
    assert {int(target[items].sum()) for items in drawn} == {wanted}
    seen = torch.cat(drawn).unique()
    assert target[seen].sum() == positives  # none is never seen
    assert (~target[seen]).sum() == 40 - positives
    again = stratified(target, batch, share, torch.Generator().manual_seed(0))
    assert all(torch.equal(items, next(again)) for items in drawn)


@pytest.mark.parametrize(("value", "lacking"), [(True, "negatives"), (False, "positives")])
def test_a_target_of_one_kind_is_refused(value, lacking):
    with pytest.raises(ValueError, match=f"A batch needs positives and negatives; the target has no {lacking}"):
        stratified(torch.full((9,), value), 4, 0.25, None)


def test_training_sees_the_batches_that_it_is_given():
    inputs, target = data()
    networks = Networks(1, WIDTHS, "he", torch.Generator().manual_seed(0))
    given = [torch.tensor([3, 1, 2]), torch.tensor([0, 0, 5, 199]), None]
    seen = []

    def spy(scores, labels):
        seen.append((scores.detach(), labels))
        return scores.sum(-1)

    still, batches = torch.zeros(1), iter(given)
    train(networks, spy, inputs, target, learning_rates=still, weight_decays=still, iterations=3, batches=batches)
    for (scores, labels), items in zip(seen, [given[0], given[1], slice(None)], strict=True):
        assert torch.equal(labels, target[items])
        torch.testing.assert_close(scores[0], networks(inputs[items])[0])


def test_dead_gradients_are_counted_for_each_network():
    inputs, target = data()
    networks = Networks(2, WIDTHS, "he", torch.Generator().manual_seed(0))

    def half_dead(scores, labels):
        return (scores * torch.tensor([[0.0], [1.0]])).sum(-1)

    rates = torch.full((2,), 0.01)
    dead = train(networks, half_dead, inputs, target, learning_rates=rates, weight_decays=0 * rates, iterations=4)
    assert dead.tolist() == [1.0, 0.0]


def test_a_network_that_diverges_leaves_the_others_alone():
    inputs, target = data()
    settings = {"weight_decays": torch.zeros(2), "iterations": 30}
    both = Networks(2, WIDTHS, "he", torch.Generator().manual_seed(0))
    train(both, losses, inputs, target, learning_rates=torch.tensor([1e30, 0.01]), **settings)
    calm = Networks(2, WIDTHS, "he", torch.Generator().manual_seed(0))
    train(calm, losses, inputs, target, learning_rates=torch.tensor([0.01, 0.01]), **settings)
    assert not both(inputs)[0].isfinite().all()
    torch.testing.assert_close(both(inputs)[1], calm(inputs)[1])


def test_momentum_equals_torch_with_steps_in_lengths_of_the_first_gradient():
    inputs, target = data()
    rates, decays = torch.tensor([0.03, 0.3]), torch.tensor([0.0, 0.1])
    networks = Networks(2, WIDTHS, "he", torch.Generator().manual_seed(0))
    twins = [alone(networks, k) for k in range(2)]
    settings = {"learning_rates": rates, "weight_decays": decays, "iterations": 20, "optimizer": "momentum"}
    train(networks, losses, inputs, target, **settings)
    for k, twin in enumerate(twins):
        weights = list(twin.parameters())
        first = torch.autograd.grad(losses(twin(inputs).squeeze(-1), target), weights)
        length = float(torch.cat([part.flatten() for part in first]).norm())
        optimizer = torch.optim.SGD(
            weights, lr=float(rates[k]) / length, momentum=0.9, weight_decay=float(decays[k]) * length
        )
        for _ in range(20):
            optimizer.zero_grad()
            losses(twin(inputs).squeeze(-1), target).backward()
            optimizer.step()
        torch.testing.assert_close(networks(inputs)[k], twin(inputs).squeeze(-1), rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("widths", [(5, 1), WIDTHS])
def test_heads_are_networks(widths):
    inputs, _ = data()
    heads, networks = (kind(3, widths, "normal", torch.Generator().manual_seed(0)) for kind in (Heads, Networks))
    assert torch.equal(heads.weights, networks.weights)
    torch.testing.assert_close(heads(inputs), networks(inputs))


class Small(nn.Module):
    """A network with dropout and a head."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.dropout = nn.Dropout()
        self.head = nn.Linear(8, 1)

    def forward(self, inputs):
        return self.head(self.dropout(self.first(inputs).relu())).squeeze(-1)


def gradients(network):
    return [weight.grad.clone() for weight in network.parameters() if weight.grad is not None]


def small():
    torch.manual_seed(0)
    return Small().double()


def test_fine_tuning_is_sgd_with_ten_times_the_step_for_the_head():
    inputs, target = data()
    inputs = inputs.double()
    ours, theirs = small().eval(), small().eval()
    ours.dropout.p = theirs.dropout.p = 0.0
    batches = torch.randint(len(inputs), (5, 100), generator=torch.Generator().manual_seed(2))
    told = []
    dead = fine_tune(
        ours, ours.head, ((lambda some=some: inputs[some].split(32), target[some]) for some in batches), losses,
        learning_rate=0.01, weight_decay=0.1, iterations=5, callback=told.append,
    )  # fmt: skip
    groups = [{"params": theirs.first.parameters()}, {"params": theirs.head.parameters(), "lr": 0.1}]
    optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9, weight_decay=0.1)
    for some in batches:
        optimizer.zero_grad()
        losses(theirs(inputs[some]), target[some]).backward()
        optimizer.step()
    assert told == [1, 2, 3, 4, 5]
    assert dead == 0
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_fine_tuning_leaves_frozen_layers_alone_counts_dead_gradients_and_ends_where_scores_do():
    inputs, target = data()
    inputs = inputs.double()
    network = small()
    network.first.requires_grad_(False)
    frozen, head = network.first.weight.clone(), network.head.weight.detach().clone()
    settings = {"learning_rate": 0.01, "weight_decay": 0.0, "iterations": 4}

    batches = repeat((lambda: inputs.split(64), target))
    assert fine_tune(network, network.head, batches, lambda scores, target: 0 * scores.sum(), **settings) == 1
    assert torch.equal(network.head.weight, head)
    assert fine_tune(network, network.head, batches, losses, **settings) == 0
    assert torch.equal(network.first.weight, frozen)
    assert not torch.equal(network.head.weight, head)
    told = []
    settings["learning_rate"] = 1e200
    fine_tune(network, network.head, batches, lambda scores, _: scores.square().sum(), **settings, callback=told.append)
    assert len(told) < 4


def test_classifiers_start_at_their_biases_which_do_not_decay():
    """The last bias starts where it is told; with a loss that has no gradient, weights shrink and biases stay."""
    heads = Classifiers((3, 2, 1), torch.tensor([-1.5, 0.5]), torch.Generator().manual_seed(0))
    before = heads.weights.detach().clone()
    assert before[:, -1].tolist() == [-1.5, 0.5]
    train(
        heads, lambda scores, target: scores.sum(1) * 0, torch.randn(8, 3), torch.ones(8, dtype=torch.bool),
        learning_rates=torch.tensor([0.1, 0.1]), weight_decays=torch.tensor([1.0, 0.0]), iterations=1,
    )  # fmt: skip
    weights = torch.tensor([True] * 6 + [False] * 2 + [True] * 2 + [False])
    assert torch.equal(heads.decayed, weights)
    torch.testing.assert_close(heads.weights[0, weights], 0.9 * before[0, weights])
    assert torch.equal(heads.weights[0, ~weights], before[0, ~weights])
    assert torch.equal(heads.weights[1], before[1])


def test_scaled_inputs_are_centred_and_undone_weights_score_them_as_they_were():
    """The mean is zero, the mean square is one, and one number scales all; a constant input is no division by zero."""
    inputs = torch.randn(50, 4) * torch.tensor([1.0, 2.0, 3.0, 0.0]) + 10
    scaling = Scaling.of(inputs)
    torch.testing.assert_close(scaling(inputs).mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaling(inputs).square().mean(), torch.tensor(1.0))
    heads = Classifiers((4, 1), torch.tensor([0.3, -2.0]), torch.Generator().manual_seed(0))
    scores = heads(scaling(inputs)).detach()
    with torch.no_grad():
        heads.weights.copy_(scaling.undone(heads.weights))
    torch.testing.assert_close(heads(inputs), scores, atol=1e-4, rtol=1e-4)
    assert Scaling.of(torch.ones(3, 2))(torch.ones(3, 2)).tolist() == [[0.0, 0.0]] * 3


def test_falling_steps_end_at_zero():
    """Of a loss with a constant gradient, plain momentum aside: the steps shrink linearly."""
    heads = Heads(1, (1, 1), "small", torch.Generator().manual_seed(0))
    at = []
    train(
        heads, lambda scores, target: scores.sum(1), torch.ones(1, 1), torch.ones(1, dtype=torch.bool),
        learning_rates=torch.tensor([0.1]), weight_decays=torch.tensor([0.0]), iterations=4, falling=True,
        callback=lambda iteration: at.append(heads.weights[0, 0].item()),
    )  # fmt: skip
    steps = [before - after for before, after in itertools.pairwise(at)]
    torch.testing.assert_close(torch.tensor(steps), torch.tensor([0.075, 0.05, 0.025]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("method", LINEAR_MODELS)
def test_linear_models_are_scikit_learns_in_the_words_of_a_setting(method, share):
    """The gradient of the mean loss plus half the decay times the squared weights is zero; biases do not decay."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 3, generator=generator)
    target = inputs[:, 0] + torch.randn(200, generator=generator) > 1
    settings = combinations([share], [0.0], [0.01, 1.0])
    found = fit(method, settings, inputs, target).double()
    weight = torch.ones(200) if not share else torch.where(target, share / target.double().mean(), 1.0)
    if share:
        weight = weight.where(target, (1 - share) / (~target).double().mean())
    for setting, row in zip(settings, found, strict=True):
        row.requires_grad_()
        scores = inputs.double() @ row[:-1] + row[-1]
        signs = torch.where(target, 1.0, -1.0)
        values = (
            nn.functional.softplus(-signs * scores)
            if method == "LogisticRegression"
            else (1 - signs * scores).relu().square()
        )
        value = (weight * values).mean() + setting.weight_decay / 2 * row[:-1].square().sum()
        (gradient,) = torch.autograd.grad(value, row)
        torch.testing.assert_close(gradient, torch.zeros(4, dtype=torch.float64), atol=5e-3, rtol=0)


def test_a_linear_model_that_does_not_converge_is_an_error(monkeypatch):
    """Not a baseline that was stopped early."""
    monkeypatch.setattr("directloss_studies.linear_models.ITERATIONS", 1)
    with pytest.raises(RuntimeError, match=r"LogisticRegression with C = .* did not converge"):
        fit("LogisticRegression", combinations([0.0], [0.0], [1e-6]), torch.randn(50, 5), torch.rand(50) > 0.5)
