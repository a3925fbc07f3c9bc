"""Networks side by side train exactly as they would alone."""

import pytest
import torch
from torch import nn

from directloss import AveragePrecisionLoss
from directloss.networks import Networks
from directloss.training import train

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


def test_initialisations_have_the_scale_that_they_promise():
    generator = torch.Generator().manual_seed(0)
    weights = Networks(1, (400, 300, 1), "normal", generator).weights
    assert abs(weights.std() - 1) < 0.01
    weights = Networks(1, (400, 300, 1), "he", generator).weights[0, : 400 * 300]
    assert abs(weights.std() - (2 / 400) ** 0.5) < 0.001
    with pytest.raises(ValueError, match="initialisation must be one of 'normal', 'he', 'small'; got 'xavier'"):
        Networks(1, (4, 1), "xavier", generator)


@pytest.mark.parametrize("batch", [None, 32])
def test_networks_side_by_side_equal_torch_with_adamw(batch):
    inputs, target = data()
    rates, decays = torch.tensor([0.01, 0.03, 0.03]), torch.tensor([0.0, 0.0, 0.5])
    networks = Networks(3, WIDTHS, "he", torch.Generator().manual_seed(0))
    twins = [alone(networks, k) for k in range(3)]
    for twin in twins:
        torch.testing.assert_close(networks(inputs)[0], twin(inputs).squeeze(-1))
    settings = {"learning_rates": rates, "weight_decays": decays, "iterations": 20, "batch": batch}
    train(networks, losses, inputs, target, **settings, generator=torch.Generator().manual_seed(5))
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
