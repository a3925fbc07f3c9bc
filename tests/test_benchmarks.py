"""The benchmark compares what it says: peers that compute average precision, ratios to the floor. Mutants die."""

import pytest
import torch

from benchmarks import estimator
from benchmarks.mutation import mutants, run_child
from benchmarks.peers import reference_dp, smooth_ap
from benchmarks.speed import compare, problem, with_backward
from directloss import AveragePrecision, AveragePrecisionLoss, PositiveDirect


def test_smooth_ap_becomes_average_precision_as_its_temperature_falls():
    scores, target = problem(200)
    exact = AveragePrecision().infer(scores, target).loss
    torch.testing.assert_close(smooth_ap(scores, target, temperature=1e-6), exact, rtol=0, atol=1e-5)


def test_reference_infers_what_the_loss_is_trained_on():
    scores, target = problem(200)
    above = torch.from_numpy(reference_dp(scores, target))
    rank = torch.arange(1, len(above) + 1)
    loss = 1 - (rank / (rank + above)).mean()
    assert loss.item() == pytest.approx(AveragePrecision().infer_augmented(scores, target, 1.0).loss.item(), abs=1e-6)


def test_ratios_are_to_the_first_method():
    scores, target = problem(100)
    call = with_backward(AveragePrecisionLoss(PositiveDirect(1.0)), scores, target)
    result = compare({"floor": lambda: None, "loss": call}, rounds=3)
    assert result["floor"]["ratio"] == 1
    assert result["loss"]["ratio"] > 1
    assert result["loss"]["milliseconds"] > 0


def test_estimators_are_compared_and_put_in_words():
    results = estimator.measure(600, rounds=1)
    for found in results["fit"].values():
        theirs, ours = (found[f"{name}, seconds"] for name in ("MLPClassifier", "DirectLossClassifier"))
        assert found["ratio"] == pytest.approx(ours / theirs)
    assert "on 600 rows of 30 features" in estimator.in_words(results)


CLAMP = '''def clamp(x, top):
    """At most top, at least 0."""
    if x > top:
        return top
    return max(x, 0)
'''


def clamp_fails(tree) -> str:
    names = {}
    exec(compile(tree, "clamp", "exec"), names)
    return "" if [names["clamp"](x, 3) for x in (-1, 2, 5)] == [0, 2, 3] else "wrong"


def test_mutants_are_killed_unless_they_do_the_same():
    tree, every = mutants(CLAMP, "clamp.py")
    changes = {mutant.change: mutant for mutant in every}
    assert run_child(lambda: clamp_fails(tree), 5.0)[:2] == ("survived", "")

    def outcome(change):
        return run_child(lambda: changes[change].plant() or clamp_fails(tree), 5.0)[0]

    assert outcome("x > top  →  x <= top") == "killed"
    assert outcome("max  →  min") == "killed"
    assert outcome("return top  →  return None") == "killed"
    assert outcome("x > top  →  x >= top") == "survived"  # at the boundary both are the same
    assert [mutant.name for mutant in mutants(CLAMP, "clamp.py")[1]] == [mutant.name for mutant in every]
    assert not any("At most" in mutant.change for mutant in every)
