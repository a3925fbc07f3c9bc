"""`diagnose` says what the updates do, for every ε."""

import pytest
import torch

from directloss import ROCAUC, AveragePrecision, LinearChain, PositiveDirect, StructuredLoss, diagnose


def test_diagnosis_is_that_of_the_losses():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 40, generator=generator)
    target = torch.rand(3, 40, generator=generator) < 0.3
    target[2] = False  # does not count
    found = diagnose(AveragePrecision(), scores, target, epsilons=(0.1, 1.0, 10.0))
    for k, epsilon in enumerate((0.1, 1.0, 10.0)):
        leaf = scores.clone().requires_grad_()
        value = StructuredLoss(AveragePrecision(), PositiveDirect(epsilon), "none")(leaf, target)
        (grad,) = torch.autograd.grad(value.sum(), leaf)
        assert found.positive[k] == pytest.approx(value[:2].mean().item(), rel=1e-6)
        assert found.share[k] == pytest.approx((grad[:2] != 0).float().mean().item())
        assert found.norm[k] == pytest.approx(grad[:2].norm(dim=-1).mean().item(), rel=1e-5)
    assert found.loss == pytest.approx(AveragePrecision().infer(scores, target).loss[:2].mean().item(), rel=1e-6)
    assert (found.negative <= found.loss + 1e-6).all()
    assert (found.positive >= found.loss - 1e-6).all()
    assert (found.positive.diff() > 0).all()
    assert 0.1 < found.typical < 10
    assert len(str(found).splitlines()) == 5


def test_diagnosis_takes_masks_and_other_problems():
    scores, target = torch.tensor([1.0, 0.5, 0.2, torch.nan]), torch.tensor([0, 1, 0, 9])
    assert diagnose(ROCAUC(), scores, target, mask=torch.arange(4) < 3).loss == pytest.approx(0.5)
    chain = diagnose(LinearChain(), torch.randn(4, 3, 3), torch.tensor([0, 1, 2, 0, 1]))
    assert chain.share.shape == chain.epsilons.shape


def test_diagnosis_draws():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = diagnose(ROCAUC(), torch.randn(30), torch.arange(30) < 9).plot()
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "ε"]
    pyplot.close(figure)


def test_epsilons_are_checked():
    with pytest.raises(ValueError, match="epsilon must be finite and above 0"):
        diagnose(ROCAUC(), torch.randn(3), torch.tensor([1, 0, 0]), epsilons=(0.0,))
    with pytest.raises(ValueError, match="at least one number; got none"):
        diagnose(ROCAUC(), torch.randn(3), torch.tensor([1, 0, 0]), epsilons=())
    with pytest.raises(TypeError, match="Pass a mask by its name: mask=mask"):
        diagnose(ROCAUC(), torch.randn(3), torch.tensor([1, 0, 0]), torch.ones(3, dtype=torch.bool))
    for epsilon in (1.0, 1, torch.tensor(1.0)):
        assert diagnose(ROCAUC(), torch.randn(3), torch.tensor([1, 0, 0]), epsilons=epsilon).epsilons.tolist() == [1.0]
