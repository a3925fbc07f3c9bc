"""The studies of a warm-up and of a memory of scores: what they train and compare is what they say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from directloss_studies import score_memory, warm_up
from directloss_studies.data.whole_tables import Rows, WholeTable, find_tables, split
from directloss_studies.harness.options import DataOptions
from directloss_studies.harness.study import Provenance, Run

from directloss import ROCAUC

MADE = WholeTable("made", "")
ROWS = Rows(torch.randn(3000, 5, generator=torch.Generator().manual_seed(0)), torch.arange(3000) % 7 == 0)


def test_parts_of_a_table_are_disjoint_and_standardised_by_the_first():
    parts = split(MADE, 800, (0.5, 0.25), torch.Generator().manual_seed(0))
    assert [len(part.target) for part in parts] == [400, 200, 200]
    assert len({tuple(row) for part in parts for row in part.inputs.tolist()}) == 800
    torch.testing.assert_close(parts.train.inputs.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(parts.train.inputs.std(0), torch.ones(6))


def test_tables_of_a_folder_are_cached_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))
    np.savez(tmp_path / "10_cover.npz", X=ROWS.inputs.numpy(), y=ROWS.target.numpy())
    (table,) = find_tables(DataOptions(data=tmp_path), ["cover"])
    parts = split(table, None, (0.5, 0.2), torch.Generator().manual_seed(0))
    assert sum(int(part.target.sum()) for part in parts) == int(ROWS.target.sum())
    with pytest.raises(ValueError, match="--data DIR"):
        find_tables(DataOptions(preset="paper"), ["cover"])


def test_opposite_starts_compute_what_torch_layers_do():
    weights = warm_up.starts(5, 3, torch.Generator().manual_seed(0))
    inputs, k = ROWS.inputs[:50], 4
    layers = torch.nn.functional.linear(inputs, weights[0][k].T, weights[1][k, 0]).relu()
    layers = torch.nn.functional.linear(layers, weights[2][k].T, weights[3][k, 0]).relu()
    layers = torch.nn.functional.linear(layers, weights[4][k].T, weights[5][k, 0]).squeeze(-1)
    torch.testing.assert_close(warm_up.score(weights, inputs)[k], layers)
    auc = warm_up.measure(ROCAUC(), weights, ROWS)
    torch.testing.assert_close(auc[:3] + auc[3:], torch.ones(3))


def test_a_warm_start_is_cross_entropy_first_and_then_not():
    whole = warm_up.Config("cold", 0, 0.2, 0.01, (MADE,), 20)
    found = {kind: warm_up.run(replace(whole, method=kind)) for kind in warm_up.KINDS}
    assert len({result.ap for result in found.values()}) == len(found)
    assert {result.start_auc for result in found.values()} == {found["cold"].start_auc}
    below, above = found["cold"].start_auc
    assert below < 0.5 < above
    never = [warm_up.run(replace(whole, method=kind, iterations=9)) for kind in ("cold", "warm")]  # a tenth is no step
    assert never[0] == never[1]


def test_trainings_that_go_the_wrong_way_or_end_poor_have_failed():
    ends = {"x-ent": (0.8, 0.9), "cold": (0.3, 0.4), "warm": (0.6, 0.6), "warm, new optimizer": (0.5, 0.45)}
    runs = []
    for config in warm_up.configs(DataOptions(seeds=3)):
        ap, auc = (((value,) * (1 if config.method == "x-ent" else 4),) * 2 for value in ends[config.method])
        runs.append(Run(config, warm_up.Result((0.4, 0.6), ap, auc), Provenance(1.0)))
        runs[-1].result.check(config)
    summary = warm_up.summarise(runs)
    found = {(r.method, r.metric, r.class_): r.mean for r in summary.records if r.noise == 0.4}
    for method, failed in {"ε = 1": (1, 1), "ε = 1, warm-up": (0, 0), "ε = 1, warm-up, new optimizer": (1, 0)}.items():
        assert (found[method, "wrong_way", None], found[method, "poor", None]) == failed
        assert found[method, "failed", "made"] == found[method, "failed", "learning rate 0.01"] == failed[0]
    assert found["ε = 10, warm-up", "minus_cold", None] == pytest.approx(0.3)
    assert [table.rows[0][0] for table in summary.tables] == ["x-ent", "x-ent", "ε = 0.1, warm-up"]


@pytest.mark.parametrize("method", score_memory.METHODS)
def test_every_method_learns(method):
    separable = Rows(ROWS.inputs, ROWS.inputs[:, 0] > 1)
    network = score_memory.train(method, separable, 0.03, 0, 128, 8 if method == "two passes" else 2)
    assert score_memory.average_precision(network, separable) > 0.9


def test_the_step_size_is_chosen_on_validation_data():
    runs = []
    for config in score_memory.configs(DataOptions(seeds=3)):
        count = len(config.settings)
        test = (0.5 + 0.1 * (config.method == "memory"), *[0.9] * (count - 1))
        result = score_memory.Result((0.7, *[0.6] * (count - 1)), test, tuple(map(float, range(count))))
        result.check(config)
        runs.append(Run(config, result, Provenance(1.0)))
    found = {
        (r.variant, r.method, r.metric): (r.mean, r.n) for r in score_memory.summarise(runs).records if not r.noise
    }
    assert found["made, batches of 32", "memory", "test_ap"] == (0.6, 3)
    assert found["made, batches of 32", "memory", "minus_plain_batches"] == (pytest.approx(0.1), 3)
    assert found["made, batches of 64", "two passes", "median_seconds"] == (1.5, 12)
