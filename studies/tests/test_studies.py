"""The studies: data as the paper says, grids of one size, choices and verdicts as their rules say."""

import dataclasses

import pytest
import torch
from directloss_studies.data.label_noise import flip_labels
from directloss_studies.data.synthetic import ranked_by_teacher, separable, two_shells
from directloss_studies.methods import METHODS, WARM, smooth_ap
from directloss_studies.networks import Networks
from directloss_studies.registry import STUDIES
from directloss_studies.sweep import Curves, Setting, choose, grid, sweep


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_fifth_ranks_at_the_top_of_the_teacher():
    inputs, target = ranked_by_teacher(2000, generator())
    assert inputs.shape == (2000, 10)
    assert target.sum() == 400
    again = ranked_by_teacher(2000, generator())
    assert torch.equal(inputs, again[0])
    assert torch.equal(target, again[1])


def test_two_shells_are_apart():
    inputs, target = two_shells(1000, generator())
    norms = inputs.square().sum(-1)
    assert inputs.shape == (1000, 10)
    assert (norms[target] > 1200).all()
    assert (norms[~target] < 1000).all()
    assert 9 < inputs.std() < 11
    assert 0.25 < target.float().mean() < 0.45


def test_separable_data_is_separable_and_overlap_strikes_the_nearest():
    direction = torch.nn.functional.normalize(torch.ones(10), dim=0)
    inputs, target = separable(2000, direction, generator())
    height = inputs @ direction
    assert height[target].min() - height[~target].max() > 0.2
    assert 0.15 < target.float().mean() < 0.25
    inputs, target = separable(2000, direction, generator(), overlapping=0.3)
    height = inputs @ direction - 0.84
    wrong = target != (height > 0)
    assert abs(wrong.float().mean() - 0.15) < 0.03
    assert height[wrong].abs().max() <= height.abs().sort().values[599]


def test_labels_flip_at_the_given_rate():
    target = torch.zeros(20_000, dtype=torch.bool)
    assert not flip_labels(target, 0.0, generator()).any()
    assert flip_labels(target, 1.0, generator()).all()
    assert abs(flip_labels(target, 0.2, generator()).float().mean() - 0.2) < 0.01
    with pytest.raises(ValueError, match="rate must be a probability; got 20"):
        flip_labels(target, 20, generator())


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_each_network_its_own_value_and_gradient(name):
    scores = torch.randn((3, 40), generator=generator()).requires_grad_()
    target = torch.rand(40, generator=generator(1)) < 0.3
    values = METHODS[name].loss(scores, target, torch.full((len(scores),), 0.7))
    assert values.shape == (3,)
    values[1].backward()
    assert scores.grad is not None
    assert (scores.grad[[0, 2]] == 0).all()
    alone = METHODS[name].loss(scores[1:2].detach(), target, torch.tensor([0.7]))
    torch.testing.assert_close(values[1:2].detach(), alone)


def test_smooth_ap_counts_pairs_and_goes_to_average_precision():
    from sklearn.metrics import average_precision_score

    scores = torch.randn(50, generator=generator(), dtype=torch.float64)
    target = torch.rand(50, generator=generator(1)) < 0.3
    expected = 0.0
    for i in target.nonzero():
        above = torch.sigmoid((scores - scores[i]) / 0.3)
        above[i] = 0
        expected += (1 + above[target].sum()) / (1 + above.sum())
    torch.testing.assert_close(smooth_ap(scores, target, 0.3), 1 - expected / target.sum())
    assert abs(1 - smooth_ap(scores, target, 1e-6) - average_precision_score(target, scores)) < 1e-6


@pytest.mark.parametrize("positives", [1, 5, 130, 299, 300])
def test_smooth_ap_of_many_networks_is_that_of_each_with_its_gradient(positives):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 300, generator=generator, dtype=torch.float64).requires_grad_()
    target = torch.randperm(300, generator=generator) < positives
    temperatures = torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    plain = torch.stack([smooth_ap(*each) for each in zip(scores, 3 * [target], temperatures.tolist(), strict=True)])
    fast = METHODS["Smooth-AP"].loss(scores, target, temperatures)
    torch.testing.assert_close(fast, plain)
    weights = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    expected, found = (torch.autograd.grad(weights @ values, scores)[0] for values in (plain, fast))
    torch.testing.assert_close(found, expected)


OWN_DATA = [
    study for study in STUDIES.values() if study.prepare is None and study.name != "paths"
]  # of average precision


@pytest.mark.parametrize("study", OWN_DATA, ids=lambda study: study.name)
class TestStudy:
    def test_quick_preset_thins_settings_and_not_seeds(self, study):
        quick, paper = (study.configs(study.options(preset=of), None) for of in ("quick", "paper"))
        if study.name in ("synthetic", "label-noise"):  # what ./dev run shows
            assert len({config.seed for config in quick}) == 10
        tried = {config.method: set(config.settings) for config in paper}
        for config in quick:
            if study.name != "separable" and METHODS[config.method].strength:
                assert set(config.settings) < tried[config.method]

    def test_methods_learn_what_they_are_meant_to(self, study):
        configs = study.configs(study.options(seeds=1), None)
        (config,) = [c for c in configs if c.method == "pos-AP" and getattr(c, "batch", None) is None
                     and getattr(c, "noise", 0) == 0
                     and getattr(c, "model", "linear") == "linear"]  # fmt: skip
        result = study.run(dataclasses.replace(config, iterations=100), lambda share: None)
        reached = choose(result.train).value(result.test)
        assert reached > 0.75
        assert reached > max(result.test[0]) + 0.2


def test_grid_gives_a_method_without_strength_more_step_sizes():
    ours, theirs = (grid(method, (1.0, 10.0, 100.0), (0.01, 0.1), (0.0, 1.0)) for method in ("pos-AP", "per-AP"))
    assert len(ours) == len(theirs) == 12
    assert len({setting.learning_rate for setting in ours}) == 2
    assert {setting.learning_rate for setting in theirs} > {0.3, 0.00333}


def test_averaging_measures_the_mean_of_the_weights_and_leaves_training_alone():
    inputs, target = ranked_by_teacher(200, generator())
    settings = (Setting(1.0, 0.1, 0.0), Setting(1.0, 0.3, 0.1))
    seen = []

    class Spy(Networks):
        def forward(self, inputs):
            if not torch.is_grad_enabled():
                seen.append(self.weights.detach().clone())
            return super().forward(inputs)

    ends = []
    for averaging in (0.0, 0.5):
        networks = Spy(2, (10, 5, 1), "he", generator())
        sets = {"train": (inputs, target), "test": (inputs, target)}
        sweep(Curves, "pos-AP", settings, networks, sets, iterations=3, averaging=averaging)
        ends.append(networks.weights.detach().clone())
    plain, averaged = seen[:4], seen[4:]
    assert torch.equal(*ends)
    assert torch.equal(plain[3], ends[0])
    mean = (plain[0] / 8 + plain[1] / 4 + plain[2] / 2 + plain[3]) / (1 / 8 + 1 / 4 + 1 / 2 + 1)
    torch.testing.assert_close(averaged[3], mean)
    assert torch.equal(averaged[0], plain[0])


def test_a_warm_up_is_a_tenth_of_cross_entropy_and_then_starts_anew():
    inputs, target = ranked_by_teacher(200, generator())
    settings = (Setting(0.5, 0.1, 0.0), Setting(2.0, 0.3, 0.1))
    sets = {"train": (inputs, target), "test": (inputs, target)}
    warmed, plain = (Networks(2, (10, 5, 1), "he", generator()) for _ in range(2))
    found = sweep(Curves, WARM, settings, warmed, sets, iterations=20)
    first = tuple(setting._replace(strength=1.0) for setting in settings)
    sweep(Curves, "x-ent", first, plain, sets, iterations=2)
    sweep(Curves, "pos-AP", settings, plain, sets, iterations=18)
    assert torch.equal(warmed.weights, plain.weights)
    assert found.iterations == tuple(range(21))
    assert len(found.test) == 21


def test_choice_takes_the_best_end_or_the_best_checkpoint():
    train, test = ((0.1, 0.2), (0.3, 0.9), (0.5, 0.4)), ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))
    assert choose(train) == (2, (0,))
    assert choose(train).value(test) == 5.0
    assert choose(train, early_stopping=True) == (1, (1,))


def test_settings_that_tie_are_averaged_at_the_first_checkpoint_that_is_best():
    train = ((0.1, 0.2, 0.3), (0.9, 0.9, 0.3), (0.9, 0.2, 0.9))
    test = ((0.0, 0.0, 0.0), (0.2, 0.4, 0.9), (1.0, 1.0, 1.0))
    chosen = choose(train, early_stopping=True)
    assert chosen == (1, (0, 1))
    assert chosen.value(test) == pytest.approx(0.3)
    assert choose(train) == (2, (0, 2))
