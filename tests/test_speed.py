"""The benchmark of the library compares what it says: peers that compute average precision, ratios to the first."""

import pytest
import torch

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
