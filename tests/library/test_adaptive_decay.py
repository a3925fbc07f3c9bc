"""Weight decay follows overfitting: up where training runs ahead, else down, and never out of its range."""

from copy import deepcopy

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from directloss import ROCAUC, AdaptiveDecay, AveragePrecisionLoss, FMeasure, TrainingWarning

GOOD, BAD = torch.tensor([3.0, 2.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 2.0, 3.0])
TARGET = torch.tensor([1, 1, 0, 0])


def optimizer(decay=1.0, rate=0.01):
    return torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=rate, weight_decay=decay)


def decays(train, held_out, steps=400, **options):
    """What a training whose batches score so, and held-out rows so, gets in each step."""
    decay = AdaptiveDecay(optimizer(), lambda: held_out, **options)
    return [decay.step(*train) for _ in range(steps)]


def test_decay_grows_to_its_end_where_training_is_ahead_and_shrinks_to_its_end_where_it_is_not():
    up = decays((GOOD, TARGET), (BAD, TARGET))
    down = decays((GOOD, TARGET), (GOOD, TARGET))
    assert up == sorted(up)
    assert down == sorted(down, reverse=True)
    assert up[0] == down[0] == pytest.approx((0.3 * 10.0) ** 0.5)
    assert (up[-1], down[-1]) == (pytest.approx(10.0), pytest.approx(0.3))


def test_training_may_be_ahead_by_the_gap():
    ahead = 1 - 5 / 12  # of AP: 1 and (1/3 + 2/4)/2
    assert decays((GOOD, TARGET), (BAD, TARGET), gap=ahead + 0.01)[-1] == pytest.approx(0.3)
    assert decays((GOOD, TARGET), (BAD, TARGET), gap=ahead - 0.01)[-1] == pytest.approx(10.0)


@pytest.mark.parametrize("loss", [AveragePrecisionLoss(), lambda s, y: binary_cross_entropy_with_logits(s, y.float())])
def test_a_network_that_memorises_gets_more_decay_than_one_that_learns(loss):
    def trained(noise):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(120, 40, generator=generator)
        y = torch.rand(120, generator=generator) < 0.3 if noise else x[:, 0] > 0.5
        x = x if noise else x[:, :2]
        network = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 1), torch.nn.Flatten(0))
        torch.nn.init.zeros_(network[0].weight)
        some = torch.optim.AdamW(network.parameters(), lr=0.03, weight_decay=1.0)
        decay = AdaptiveDecay(some, lambda: (network(x[60:]), y[60:]), every=5)
        for _ in range(200):
            some.zero_grad()
            scores = network(x[:60])
            loss(scores, y[:60]).backward()
            decay.step(scores, y[:60])
            some.step()
        return decay.decay

    assert trained(noise=True) > 4 * trained(noise=False)


def test_groups_without_decay_stay_without():
    weight, bias = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    some = torch.optim.AdamW([{"params": [weight]}, {"params": [bias], "weight_decay": 0.0}], weight_decay=1.0)
    decay = AdaptiveDecay(some, lambda: (BAD, TARGET))
    assert decay.step(GOOD, TARGET) == some.param_groups[0]["weight_decay"]
    assert some.param_groups[1]["weight_decay"] == 0.0


def test_batches_and_held_out_rows_that_say_nothing_move_nothing_and_are_told_once():
    nothing = torch.zeros(4, dtype=torch.long)
    for train, held_out in (((GOOD, nothing), (BAD, TARGET)), ((GOOD, TARGET), (BAD, nothing))):
        with pytest.warns(TrainingWarning, match="decay cannot follow overfitting") as caught:
            assert len(set(decays(train, held_out))) == 1
        assert len(caught) == 1


def test_lists_of_any_layout_and_any_task():
    batch, mask = BAD.repeat(2, 1), torch.tensor([[True] * 4, [False] * 4])
    up = decays((GOOD.repeat(3, 1), TARGET.expand(3, 4)), (batch, TARGET.expand(2, 4), mask), task=ROCAUC())
    assert up[-1] == pytest.approx(10.0)
    masks = torch.tensor([2.0, 2.0, -1.0, -1.0]), torch.tensor([-1.0, 1.0, 1.0, 1.0])
    assert decays((masks[0], TARGET), (masks[1], TARGET), task=FMeasure())[-1] == pytest.approx(10.0)


def test_lists_are_compared_at_one_length():
    generator = torch.Generator().manual_seed(0)
    scores, target = torch.randn(4000, generator=generator), torch.arange(4000) % 200 == 0
    scores = scores + 3.0 * target
    places = torch.randperm(4000, generator=generator)
    short = places[:100][target[places[:100]].argsort(descending=True)]
    short[0] = 0  # a positive at least; AP of such a list is far above that of the long one
    assert decays((scores[short], target[short]), (scores, target), gap=0.3, steps=100)[-1] < 1.0


def test_a_run_goes_on_where_it_was():
    def after(steps, breaks):
        some = optimizer()
        decay = AdaptiveDecay(some, lambda: (BAD, TARGET))
        for number in range(steps):
            if number == breaks:
                state, other = deepcopy((decay.state_dict(), some.state_dict()))
                some = optimizer()
                some.load_state_dict(other)
                decay = AdaptiveDecay(some, lambda: (BAD, TARGET))
                decay.load_state_dict(state)
            decay.step(GOOD, TARGET)
        return decay.state_dict(), some.param_groups[0]["weight_decay"]

    assert after(100, breaks=None) == after(100, breaks=37)


def test_an_optimizer_that_loads_its_state_later_still_gets_the_decay():
    some = optimizer()
    decay = AdaptiveDecay(some, lambda: (BAD, TARGET))
    some.load_state_dict(deepcopy(optimizer().state_dict()))
    for _ in range(100):
        assert decay.step(GOOD, TARGET) == some.param_groups[0]["weight_decay"]
    assert decay.decay > 5


def test_the_dimension_of_the_list_and_indexes():
    columns = [torch.stack([one, one], 1) for one in (GOOD, TARGET, BAD, TARGET)]
    assert decays(columns[:2], columns[2:], dim=0)[-1] == pytest.approx(10.0)
    assert decays(columns[2:], columns[:2], dim=0)[-1] == pytest.approx(0.3)
    with pytest.raises(TypeError, match=r"dim must be an integer; got 'last'"):
        AdaptiveDecay(optimizer(), lambda: (GOOD, TARGET), dim="last")
    ids = torch.arange(12) % 3
    flat = [torch.repeat_interleave(one, 3) for one in (GOOD, TARGET, BAD)]
    decay = AdaptiveDecay(optimizer(), lambda: (flat[2], flat[1], None, ids))
    for _ in range(400):
        decay.step(flat[0], flat[1], indexes=ids)
    assert decay.decay == pytest.approx(10.0)


def test_wrong_arguments_say_the_cure():
    with pytest.raises(TypeError, match=r"optimizer must be one of torch\.optim"):
        AdaptiveDecay(torch.nn.Linear(1, 1), lambda: (GOOD, TARGET))
    with pytest.raises(ValueError, match=r"nothing to adapt.*weight_decay=1\.0"):
        AdaptiveDecay(optimizer(decay=0.0), lambda: (GOOD, TARGET))
    with pytest.raises(ValueError, match="low must be less than high; got 2 and 1"):
        AdaptiveDecay(optimizer(), lambda: (GOOD, TARGET), low=2, high=1)
    with pytest.raises(TypeError, match="held_out must return scores and target"):
        AdaptiveDecay(optimizer(), lambda: GOOD).step(GOOD, TARGET)
    with pytest.raises(TypeError, match="held_out must be a function"):
        AdaptiveDecay(optimizer(), (GOOD, TARGET))
    with pytest.raises(
        ValueError, match=r"may grow to `high`, 10\. With the learning rate of AdamW .* steps of 2 times"
    ):
        AdaptiveDecay(optimizer(rate=0.2), lambda: (GOOD, TARGET))
    weights = [torch.zeros(1, requires_grad=True)]
    with pytest.raises(ValueError, match=r"learning rate of SGD .* steps of 5 times.*low=0\.02, high=0\.67"):
        AdaptiveDecay(torch.optim.SGD(weights, 0.05, momentum=0.9, weight_decay=1.0), lambda: (GOOD, TARGET))
    for coupled in (torch.optim.Adam, torch.optim.RMSprop):
        with pytest.raises(ValueError, match=r"adds weight decay to the gradient.*Take torch\.optim\.AdamW"):
            AdaptiveDecay(coupled(weights, 0.005, weight_decay=1.0), lambda: (GOOD, TARGET))
    with pytest.raises(ValueError, match="state must be what state_dict gave"):
        AdaptiveDecay(optimizer(), lambda: (GOOD, TARGET)).load_state_dict({})
    with pytest.raises(ValueError, match="scores must be finite"):
        AdaptiveDecay(optimizer(), lambda: (GOOD, TARGET)).step(GOOD * torch.nan, TARGET)
