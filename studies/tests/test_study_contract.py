"""What every study keeps: fair grids, runs that repeat themselves and come back from files, and the whole command."""

from dataclasses import replace
from functools import wraps

import pytest
import torch
from commands import call
from directloss_studies.harness.progress import no_steps
from directloss_studies.harness.typed import decode, encode
from directloss_studies.registry import STUDIES

SHORT = {  # the studies that can run without data, and what makes their runs short
    "synthetic": {"samples": 100, "iterations": 25},
    "label-noise": {"samples": 100, "iterations": 25},
    "separable": {"samples": 100, "iterations": 25},
    "own-metric": {"iterations": 4},
    "tables": {"iterations": 8},
    "paths": {"samples": 100, "iterations": 8},
    "segmentation": {"samples": 16, "held_out": 8, "iterations": 4},
    "warm-up": {"iterations": 3},
    "score-memory": {"iterations": 1},
    "text-search": {"iterations": 6},
    "metric-learning": {"iterations": 3},
}
DIFFERENT = ("tables", "actions", "detection", "warm-up", "score-memory")  # have grids of another kind


def short_configs(name, seeds=1):
    study = STUDIES[name]
    options = study.options(seeds=seeds)
    source = study.prepare(options, 1, no_steps)[0] if study.prepare else None
    return [replace(config, **SHORT[name]) for config in study.configs(options, source)]


@pytest.mark.parametrize("preset", ["quick", "paper"])
@pytest.mark.parametrize("name", STUDIES)
def test_configurations_differ_and_methods_have_as_many_settings_and_seeds(name, preset):
    study = STUDIES[name]
    configs = study.configs(study.options(preset=preset), None)
    assert len(set(configs)) == len({config.label for config in configs}) == len(configs)
    assert min(config.seed for config in configs) == study.first_seed
    if name not in DIFFERENT:
        assert len({len(set(config.settings)) for config in configs}) == 1
        assert len({config.seed for config in configs}) >= 3
    if name not in ("actions", "detection"):
        seeds = {method: {c.seed for c in configs if c.method == method} for method in {c.method for c in configs}}
        assert len({frozenset(some) for some in seeds.values()}) == 1


@pytest.mark.parametrize("name", SHORT)
def test_a_run_repeats_itself_leaves_the_random_state_alone_and_comes_back_from_its_file(name):
    study, config = STUDIES[name], short_configs(name)[-1]
    state, shares = torch.random.get_rng_state(), []
    result = study.run(config, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    again = study.run(config, lambda share: None)
    untimed = {"seconds": result.seconds} if hasattr(result, "seconds") else {}
    assert replace(again, **untimed) == result
    assert (torch.random.get_rng_state() == state).all()
    result.check(config)
    assert decode(study.result, encode(result)) == result
    assert decode(study.config, encode(config)) == config


@pytest.mark.parametrize(("name", "shown", "in_page"), [
    ("own-metric", "Test data of made queries", "Trained on (rows)"),
    ("tables", "Test AP by noise, untuned, length 8×", 'class="leaderboard"'),
    ("paths", "Regret by degree", "two-stage MSE"),
    ("segmentation", "shapes, wrong pixels: noisy validation", "Masks found after training with 20 % wrong pixels"),
    ("warm-up", "Mean test AP, by share", "ε = 1"),
    ("score-memory", "Minus plain batches", "two passes"),
    ("text-search", "made: test queries", "MultipleNegativesRanking"),
    ("metric-learning", "made: test characters", "Smooth-AP"),
])  # fmt: skip
def test_the_command_runs_without_data_makes_a_report_and_continues(name, shown, in_page, tmp_path, monkeypatch):
    configs = short_configs(name)
    whole = STUDIES[name].configs
    short = wraps(whole)(lambda *arguments: [replace(config, **SHORT[name]) for config in whole(*arguments)])
    monkeypatch.setitem(vars(STUDIES[name]), "configs", short)
    arguments = "reproduce", name, "--seeds", 1, "--jobs", 1, "--out", tmp_path
    done = call(*arguments)
    assert done.returncode == 0, done.stderr
    assert f"{len(configs)} of {len(configs)} runs to do" in done.stdout
    assert shown in (tmp_path / "report.md").read_text()
    assert in_page in (tmp_path / "report.html").read_text()
    assert f"all {len(configs)} runs are in" in " ".join(call(*arguments).stdout.split())
