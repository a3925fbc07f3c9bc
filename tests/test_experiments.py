"""The label-noise experiment, in small: data as the paper says, and a table at the end."""

import json

import pytest
import torch

from directloss.data.label_noise import flip_labels
from directloss.data.synthetic import two_shells
from directloss.experiments import label_noise


def test_two_shells_are_apart():
    inputs, target = two_shells(1000, torch.Generator().manual_seed(0))
    norms = inputs.square().sum(-1)
    assert inputs.shape == (1000, 10)
    assert (norms[target] > 1200).all()
    assert (norms[~target] < 1000).all()
    assert 9 < inputs.std() < 11
    assert 0.25 < target.float().mean() < 0.45


def test_labels_flip_at_the_given_rate():
    target = torch.zeros(20_000, dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    assert not flip_labels(target, 0.0, generator).any()
    assert flip_labels(target, 1.0, generator).all()
    assert abs(flip_labels(target, 0.2, generator).float().mean() - 0.2) < 0.01
    with pytest.raises(ValueError, match="rate must be a probability; got 20"):
        flip_labels(target, 20, generator)


def test_run_learns_and_repeats_itself():
    config = label_noise.Config("pos-AP", 0.0, 0, strength=1.0, learning_rate=0.01, iterations=60)
    state = torch.random.get_rng_state()
    result = label_noise.run(config)
    assert result.test > 0.9
    assert label_noise.run(config) == result
    assert (torch.random.get_rng_state() == state).all()


def test_command_prints_a_row_for_every_method_and_writes_what_it_prints(capsys, tmp_path):
    files = ["--json", str(tmp_path / "new" / "a.json"), "--figure", str(tmp_path / "a.svg")]
    assert label_noise.main(["--seeds", "1", "--iterations", "3", "--noise", "0", "0.2", *files]) == 0
    printed = capsys.readouterr().out
    for method in label_noise.METHODS:
        assert method in printed
    assert "20%" in printed
    records = json.loads((tmp_path / "new" / "a.json").read_text())["records"]
    assert len(records) == 2 * len(label_noise.METHODS)
    for record in records:
        assert f"{record['mean']:.3f}" in printed
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--noise", "20"], ["--iterations", "-1"]])
def test_command_refuses_bad_options(arguments, capsys):
    with pytest.raises(SystemExit):
        label_noise.main(arguments)
    assert arguments[0] in capsys.readouterr().err
