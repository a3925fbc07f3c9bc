"""A warm-up: which loss a step gets, and what counts as a step."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from directloss import AveragePrecisionLoss, NDCGLoss, NegativeDirect, Perturbed, RetrievalLoss, WarmUp

SCORES, TARGET = torch.tensor([2.0, 1.0, 0.0, -1.0]), torch.tensor([0, 1, 1, 0])


def test_first_steps_are_cross_entropy_and_the_others_are_not():
    loss, plain = WarmUp(AveragePrecisionLoss(), steps=2), AveragePrecisionLoss()
    scores = SCORES.clone().requires_grad_()
    values = [loss(scores, TARGET) for _ in range(4)]
    assert values[:2] == 2 * [binary_cross_entropy_with_logits(scores, TARGET.float())]
    assert values[2:] == 2 * [plain(scores, TARGET)]


def test_validation_gets_the_loss_and_is_no_step():
    loss, plain = WarmUp(AveragePrecisionLoss(), steps=1), AveragePrecisionLoss()
    assert loss(SCORES, TARGET) == plain(SCORES, TARGET)
    with torch.no_grad():
        assert loss(SCORES.clone().requires_grad_(), TARGET) == plain(SCORES, TARGET)
    assert loss.step == 0


def test_a_run_goes_on_where_it_was():
    scores, before, after = SCORES.clone().requires_grad_(), *(WarmUp(AveragePrecisionLoss(), 3) for _ in range(2))
    before(scores, TARGET)
    after.load_state_dict(before.state_dict())
    assert after.step == 1
    assert all(isinstance(value, torch.Tensor) for value in before.state_dict().values())  # as safetensors wants
    with pytest.raises(RuntimeError, match="has no 'step'"):
        after.load_state_dict({})
    after.load_state_dict({}, strict=False)
    assert after.step == 1


def test_a_loss_that_holds_a_warm_up_goes_on_too():
    before, after = (Perturbed(WarmUp(AveragePrecisionLoss(), 3)) for _ in range(2))
    before(SCORES.clone().requires_grad_(), TARGET)
    assert before.state_dict().keys() == {"loss.step"}
    after.load_state_dict(before.state_dict())
    assert after.loss.step == 1


@pytest.mark.parametrize("wrap", [lambda loss: loss, Perturbed, lambda loss: torch.nn.ModuleList([loss])])
def test_a_model_that_holds_the_loss_has_the_checkpoint_of_the_network(wrap):
    bare, model = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    model.loss = wrap(WarmUp(AveragePrecisionLoss(), 3))
    assert model.state_dict().keys() == bare.state_dict().keys()
    model.load_state_dict(bare.state_dict())
    bare.load_state_dict(model.state_dict())


def test_half_precision_does_not_overflow():
    scores = torch.full((4096,), -20.0).half().requires_grad_()
    value = WarmUp(AveragePrecisionLoss(), 1)(scores, torch.arange(4096) % 5 < 4)
    assert value.item() == pytest.approx(16, abs=0.02)


def test_first_steps_know_neither_lists_nor_their_weights():
    scores, target = SCORES.reshape(2, 2).requires_grad_(), TARGET.reshape(2, 2)
    whole = binary_cross_entropy_with_logits(scores, target.float())
    loss = WarmUp(AveragePrecisionLoss(reduction="none"), 2)
    assert loss(scores, target) == whole
    assert loss(scores, target, weight=torch.tensor([0.0, 1.0])) == whole
    assert loss(scores, target).shape == (2,)


def test_a_loss_of_your_own_may_take_any_target_and_the_state_is_on_the_cpu():
    class Own(torch.nn.Module):
        def forward(self, scores, target):
            return (scores * torch.tensor(target)).sum()

    loss, scores = WarmUp(Own(), 1, first=lambda scores, target: scores.sum()), SCORES.clone().requires_grad_()
    assert loss(scores, [1, 2, 3, 4]) == SCORES.sum()
    assert loss(scores, [1, 2, 3, 4]) == (SCORES * torch.tensor([1, 2, 3, 4])).sum()
    with torch.device("meta"):
        assert loss.state_dict()["step"].item() == 1


def test_arrays_are_refused_as_the_loss_refuses_them():
    with pytest.raises(TypeError, match="scores must be a tensor; got ndarray"):
        WarmUp(AveragePrecisionLoss(), 1)(SCORES.numpy(), TARGET)


def test_what_is_masked_or_ignored_is_so_in_the_first_steps_too():
    scores = SCORES.clone().requires_grad_()
    mask = torch.tensor([True, True, True, False])
    whole = binary_cross_entropy_with_logits(scores[:3], TARGET[:3].float())
    assert WarmUp(AveragePrecisionLoss(), 1)(scores, TARGET, mask) == whole
    ignored = TARGET.masked_fill(~mask, -100)
    assert WarmUp(AveragePrecisionLoss(ignore_index=-100), 1)(scores, ignored) == whole


def test_another_first_loss_and_options():
    scores = SCORES.reshape(2, 2).requires_grad_()
    loss = WarmUp(AveragePrecisionLoss(NegativeDirect(1.0)), 1, first=lambda scores, target: scores.sum())
    assert loss(scores, TARGET.reshape(2, 2), dim=0) == SCORES.sum()
    expected = AveragePrecisionLoss(NegativeDirect(1.0))(scores, TARGET.reshape(2, 2), dim=0)
    assert loss(scores, TARGET.reshape(2, 2), dim=0) == expected


def test_the_first_loss_gets_valid_items_only():
    scores, mask = SCORES.clone().requires_grad_(), torch.tensor([True, False, True, True])
    seen = []

    def first(scores, target):
        seen.append((scores, target))
        return scores.sum()

    WarmUp(AveragePrecisionLoss(ignore_index=9), 1, first)(scores, TARGET.index_fill(0, torch.tensor(0), 9), mask)
    assert [part.tolist() for part in seen[0]] == [[0.0, -1.0], [1, 0]]


def test_nothing_valid_is_a_loss_of_0():
    scores = SCORES.clone().requires_grad_()
    value = WarmUp(AveragePrecisionLoss(ignore_index=-1), 1)(scores, torch.full((4,), -1))
    value.backward()
    assert value == 0
    assert scores.grad.tolist() == [0.0] * 4


def test_references_of_a_retrieval_go_to_the_loss():
    embeddings, labels = torch.eye(4)[:, :3].requires_grad_(), torch.tensor([0, 1, 0, 1])
    known = torch.ones(2, 3), torch.tensor([0, 1])
    plain = RetrievalLoss()(embeddings, labels, *known)
    assert WarmUp(RetrievalLoss(), 0)(embeddings, labels, *known) == plain
    loss = WarmUp(RetrievalLoss(), 1, first=lambda embeddings, labels: embeddings.sum())
    assert loss(embeddings, labels, ref_embeddings=known[0], ref_labels=known[1]) == embeddings.sum()
    assert loss(embeddings, labels, ref_embeddings=known[0], ref_labels=known[1]) == plain


@pytest.mark.parametrize(
    ("loss", "change", "error", "words"),
    [
        (AveragePrecisionLoss(), {"mask": torch.tensor([1, 1, 1, 0])}, TypeError, "mask must be bool"),
        (AveragePrecisionLoss(), {"target": 2 * TARGET}, ValueError, "target must hold only 0 and 1"),
        (AveragePrecisionLoss(), {"scores": SCORES / 0}, ValueError, "scores must be finite"),
        (AveragePrecisionLoss(), {"scores": SCORES[:, None], "target": TARGET[:, None]}, ValueError, "squeeze"),
        (AveragePrecisionLoss(), {"indexes": SCORES}, TypeError, "indexes must be a tensor of integers"),
        (AveragePrecisionLoss(), {"dimm": 0}, TypeError, "dimm"),
        (NDCGLoss(), {"target": 2 * TARGET}, ValueError, "the warm-up is binary cross-entropy.*first="),
    ],
)
def test_what_the_loss_refuses_is_refused_in_the_first_steps_too(loss, change, error, words):
    warm = WarmUp(loss, 1)
    given = {"scores": SCORES, "target": TARGET, "mask": None} | change
    with pytest.raises(error, match=words):
        warm(given.pop("scores").clone().requires_grad_(), given.pop("target"), given.pop("mask"), **given)
    assert warm.step == 0


@pytest.mark.parametrize("steps", [-1, 1.5, True, "10"])
def test_steps_are_a_number(steps):
    with pytest.raises(ValueError, match="steps must be an integer"):
        WarmUp(AveragePrecisionLoss(), steps)
