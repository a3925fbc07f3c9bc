"""The study scripts: what they train and compare is what they say, and runs go on where they were."""

from itertools import combinations

import pytest
import torch

from directloss import ROCAUC
from studies.benchmarks import estimator, score_memory, warm_up
from studies.benchmarks.tables import Part, Runs, split


def test_estimators_are_compared_and_put_in_words():
    results = estimator.measure(600, rounds=1)
    for found in results["fit"].values():
        theirs, ours = (found[f"{name}, seconds"] for name in ("MLPClassifier", "DirectLossClassifier"))
        assert found["ratio"] == pytest.approx(ours / theirs)
    assert "on 600 rows of 30 features" in estimator.in_words(results)


TINY = Part(torch.randn(3000, 5, generator=torch.Generator().manual_seed(0)), torch.arange(3000) % 7 == 0)


def test_a_stack_holds_opposite_starts_and_computes_what_torch_layers_do():
    weights = warm_up.stack(5, 3, torch.Generator().manual_seed(0))
    x, k = TINY.x[:50], 4
    layers = torch.nn.functional.linear(x, weights[0][k].T, weights[1][k, 0]).relu()
    layers = torch.nn.functional.linear(layers, weights[2][k].T, weights[3][k, 0]).relu()
    layers = torch.nn.functional.linear(layers, weights[4][k].T, weights[5][k, 0]).squeeze(-1)
    torch.testing.assert_close(warm_up.scores_of(weights, x)[k], layers)
    auc = warm_up.measured(ROCAUC(), weights, TINY)
    assert len(auc) == 6
    torch.testing.assert_close(auc[:3] + auc[3:], torch.ones(3))


def test_a_warm_start_is_cross_entropy_first_and_then_not(monkeypatch):
    monkeypatch.setattr(warm_up, "STEPS", 6)

    def found(warm):
        monkeypatch.setattr(warm_up, "WARM", warm)
        return {kind: warm_up.run(TINY, 0.2, 0.01, 0, kind) for kind in warm_up.KINDS}

    never, half, always = found(0), found(3), found(6)
    below, above = never["cold"]["start_auc"]
    assert below < 0.5 < above
    assert never["warm"] == never["warm, new optimizer"] == never["cold"]
    assert always["warm"]["ap"] == [4 * row for row in always["x-ent"]["ap"]]
    ends = [half[kind]["ap"] for kind in warm_up.KINDS[1:]] + [always["warm"]["ap"]]
    assert all(one != other for one, other in combinations(ends, 2))


@pytest.mark.parametrize("method", score_memory.METHODS)
def test_every_method_of_the_study_of_a_memory_learns(method, monkeypatch):
    monkeypatch.setattr(score_memory, "CHUNKS", 2)
    separable = Part(TINY.x, TINY.x[:, 0] > 1)
    network = score_memory.train(method, separable, 0.03, 0, 512, 8 if method == "two passes" else 2)
    assert score_memory.measured(network, separable) > 0.9


def test_runs_go_on_where_they_were_unless_settings_differ(tmp_path):
    runs = Runs(tmp_path / "runs.json", {"steps": (1, 2)})
    runs.add({"table": "cover", "seed": 1, "ap": 0.5})
    again = Runs(tmp_path / "runs.json", {"steps": (1, 2)})
    assert again.has(table="cover", seed=1)
    assert not again.has(table="cover", seed=2)
    with pytest.raises(ValueError, match="other settings"):
        Runs(tmp_path / "runs.json", {"steps": (1, 3)})


def test_parts_of_a_table_are_disjoint():
    table = Part(torch.arange(10.0).unsqueeze(1), torch.arange(10) % 2 == 0)
    parts = split(table, 8, (0.5, 0.25), torch.Generator().manual_seed(0))
    assert [len(part.x) for part in parts] == [4, 2, 2]
    assert len(torch.cat([part.x for part in parts]).unique()) == 8
    torch.testing.assert_close(parts.training.x.mean(), torch.tensor(0.0))
