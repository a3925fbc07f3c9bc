"""A memory of scores: the loss of the whole list, and the batch's part of its gradient.

`test_distributed.py` has several processes.
"""

from itertools import chain, islice, repeat

import pytest
import torch

from directloss import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    AveragePrecisionLoss,
    CentralDirect,
    FMeasure,
    Hinge,
    NegativeDirect,
    PositiveDirect,
    PositivesSampler,
    ScoreMemory,
    StructuredLoss,
    WarmUp,
)

SAMPLES = 60
LOSSES = [
    StructuredLoss(AveragePrecision(), PositiveDirect(0.5)),
    StructuredLoss(AveragePrecision(), NegativeDirect(0.5), "sum"),
    StructuredLoss(NDCG(), CentralDirect(0.3)),
    StructuredLoss(ROCAUC(), PositiveDirect(2.0), "none"),
    StructuredLoss(FMeasure(), Hinge(1.0)),
]


def problem(seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(SAMPLES, generator=generator) < 0.3
    return torch.randn(SAMPLES, generator=generator, dtype=dtype), target, generator


def gradient_of(loss, scores, target, mask=None):
    scores = scores.clone().requires_grad_()
    value = loss(scores, target, mask)
    (gradient,) = torch.autograd.grad(value, scores)
    return value.detach(), gradient


def call(memory, scores, items):
    scores = scores.clone().requires_grad_()
    value = memory(scores, items)
    (gradient,) = torch.autograd.grad(value, scores)
    return value.detach(), gradient


def factors(target, items, seen):
    """The same for every positive, and for every negative: their number in the list over that in the batch."""
    return torch.tensor([
        float((seen & (target == target[item])).sum()) / float((target[items] == target[item]).sum()) for item in items
    ]).double()  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: repr(loss.task))
def test_value_of_the_whole_list_and_the_batch_s_part_of_its_gradient(loss):
    scores, target, generator = problem()
    memory = ScoreMemory(loss, target).double()
    memory.remember(scores, torch.arange(SAMPLES))
    for _ in range(3):
        items = torch.randperm(SAMPLES, generator=generator)[:16]
        scores[items] = torch.randn(16, generator=generator, dtype=torch.float64)
        value, gradient = gradient_of(loss, scores, target)
        found, at_batch = call(memory, scores[items], items)
        assert found == value
        torch.testing.assert_close(at_batch, gradient[items] * factors(target, items, memory.seen))


def test_batches_of_an_epoch_together_have_the_gradient_of_the_whole_list():
    scores, target, _ = problem()
    target = torch.arange(SAMPLES) % 3 == 0  # each batch of 12 has 4 positives, so all factors are 5
    memory = ScoreMemory(LOSSES[0], target).double()
    memory.remember(scores, torch.arange(SAMPLES))
    parts = [call(memory, scores[items], items)[1] for items in torch.arange(SAMPLES).split(12)]
    torch.testing.assert_close(torch.cat(parts) / 5, gradient_of(LOSSES[0], scores, target)[1])


def test_the_expected_gradient_is_that_of_the_whole_list_also_when_more_positives_are_drawn():
    scores, target, generator = problem()
    memory = ScoreMemory(LOSSES[0], target).double()
    memory.remember(scores, torch.arange(SAMPLES))
    epochs = chain.from_iterable(repeat(PositivesSampler(target, 8, 0.5, generator)))
    total = torch.zeros_like(scores)
    for batch in islice(epochs, 2000):
        items = torch.tensor(batch)
        total.index_add_(0, items, call(memory, scores[items], items)[1])  # of an index that comes twice: of both
    expected = gradient_of(LOSSES[0], scores, target)[1]
    assert (total / 2000 - expected).abs().max() < 0.15 * expected.abs().max()


def test_samples_are_masked_out_until_they_are_seen():
    scores, target, _ = problem()
    memory, seen = ScoreMemory(LOSSES[0], target).double(), torch.zeros(SAMPLES, dtype=torch.bool)
    for items in torch.arange(SAMPLES).split(25):
        seen[items] = True
        value, gradient = gradient_of(LOSSES[0], scores, target, seen)
        found, at_batch = call(memory, scores[items], items)
        assert found == value
        torch.testing.assert_close(at_batch, gradient[items] * factors(target, items, seen))
        assert torch.equal(memory.seen, seen)
    assert torch.equal(memory.scores, scores)


@pytest.mark.parametrize("wrapped", [False, True])
def test_ignored_samples_are_as_if_they_were_not_there(wrapped):
    scores, target, _ = problem()
    labels, ignored = target.long(), torch.arange(SAMPLES) % 3 == 0
    loss, plain = AveragePrecisionLoss(NegativeDirect(0.5), ignore_index=-1), AveragePrecisionLoss(NegativeDirect(0.5))
    kept, items = (~ignored).nonzero().squeeze(1), torch.arange(20)
    whole = ScoreMemory(WarmUp(loss, 0) if wrapped else loss, labels.masked_fill(ignored, -1)).double()
    part = ScoreMemory(plain, labels[kept]).double()
    whole.remember(scores, torch.arange(SAMPLES))
    part.remember(scores[kept], torch.arange(len(kept)))
    found, at_batch = call(whole, scores[items] + 1, items)
    drawn = items[~ignored[items]]
    value, expected = call(part, scores[drawn] + 1, torch.searchsorted(kept, drawn))
    assert found == value
    torch.testing.assert_close(at_batch[drawn], expected)
    assert (at_batch[ignored[items]] == 0).all()


def test_the_last_score_of_an_index_that_comes_twice_counts():
    scores, target, _ = problem()
    memory = ScoreMemory(LOSSES[0], target).double()
    memory.remember(scores, torch.arange(SAMPLES))
    items = torch.tensor([5, 7, 5, 9, 7, 5])
    drawn = torch.tensor([9.0, 8.0, 0.1, 0.2, -0.3, 0.4], dtype=torch.float64)
    found, at_batch = call(memory, drawn, items)
    scores[[5, 7, 9]] = torch.tensor([0.4, -0.3, 0.2], dtype=torch.float64)
    value, gradient = gradient_of(LOSSES[0], scores, target)
    assert found == value
    assert torch.equal(memory.scores, scores)
    expected = gradient[items] * factors(target, items, memory.seen)
    torch.testing.assert_close(at_batch[[3, 4, 5]], torch.stack([expected[3], 2 * expected[4], 3 * expected[5]]))
    assert (at_batch[:3] == 0).all()


def test_a_run_goes_on_where_it_was():
    scores, target, _ = problem(dtype=torch.float32)
    before, after = ScoreMemory(LOSSES[0], target), ScoreMemory(LOSSES[0], target)
    before.remember(scores[:40], torch.arange(40))
    assert set(before.state_dict()) == {"scores", "seen"}
    after.load_state_dict(before.state_dict())
    items = torch.arange(30, 50)
    first, second = (call(memory, scores[items] + 1, items) for memory in (before, after))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    shown = repr(after)
    assert shown.startswith("ScoreMemory(")
    assert "samples=60, seen=50" in shown
    assert repr(LOSSES[0]) in shown
    after.loss, before.loss = WarmUp(LOSSES[0], 5), WarmUp(LOSSES[0], 5)
    call(before, scores[items], items)
    after.load_state_dict(before.state_dict())
    assert after.loss.step == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_ranked_in_float32(dtype):
    scores, target, _ = problem(dtype=torch.float32)
    memory = ScoreMemory(LOSSES[0], target)
    memory.remember(scores, torch.arange(SAMPLES))
    items = torch.arange(20, dtype=torch.int32)
    half = scores[items].to(dtype)
    found, at_batch = call(memory, half, items)
    scores[items] = half.float()
    value, gradient = gradient_of(LOSSES[0], scores, target)
    assert found == value
    torch.testing.assert_close(at_batch, (gradient[items] * factors(target, items, memory.seen)).to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert call(memory, half, items)[0] == value


def test_a_memory_stays_where_its_labels_are():
    _, target, _ = problem()
    memory = ScoreMemory(LOSSES[0], target.to("meta"))
    assert memory.scores.device.type == memory.seen.device.type == "meta"


def test_with_a_warm_up_and_without_a_graph():
    scores, target, _ = problem()
    loss = WarmUp(AveragePrecisionLoss(), steps=1)
    memory = ScoreMemory(loss, target).double()
    with torch.no_grad():
        memory(scores, torch.arange(SAMPLES))
    assert loss.step == 0
    assert torch.equal(memory.scores, scores)
    items = torch.arange(10)
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits(scores, target.double())
    torch.testing.assert_close(call(memory, scores[items], items)[0], cross_entropy)
    assert call(memory, scores[items], items)[0] == AveragePrecisionLoss()(scores, target)


def test_a_refused_batch_is_not_remembered():
    _, target, _ = problem()
    memory = ScoreMemory(LOSSES[0], target)
    with pytest.raises(ValueError, match="scores must be finite"):
        memory(torch.tensor([1.0, float("nan")]), torch.tensor([0, 1]))
    assert not memory.seen.any()


def test_a_batch_of_one_class_and_an_empty_one():
    scores, target, _ = problem()
    memory = ScoreMemory(LOSSES[0], target).double()
    memory.remember(scores, torch.arange(SAMPLES))
    items = target.nonzero().squeeze(1)[:3]
    value, gradient = gradient_of(LOSSES[0], scores, target)
    found, at_batch = call(memory, scores[items], items)
    assert found == value
    torch.testing.assert_close(at_batch, gradient[items] * float(target.sum()) / 3)
    assert call(memory, scores[:0], items[:0])[0] == value


@pytest.mark.parametrize(
    ("scores", "items", "error", "message"),
    [
        (torch.randn(2), torch.tensor([0, 60]), ValueError, "from 0 to 59; got 60 at index 1"),
        (torch.randn(2), torch.tensor([-1, 0]), ValueError, "from 0 to 59; got -1 at index 0"),
        (torch.randn(2), torch.tensor([0.0, 1.0]), TypeError, "tensor of integers.*got torch.float32"),
        (torch.randn(2), torch.tensor([True, False]), TypeError, "tensor of integers.*got torch.bool"),
        (torch.randn(2), [0, 1], TypeError, "tensor of integers.*got list"),
        (torch.randn(2, 1), torch.tensor([0, 1]), ValueError, r"shape \(2, 1\).*squeeze"),
        (torch.randn(3), torch.tensor([0, 1]), ValueError, r"shape \(3,\) and items has shape \(2,\)"),
        (torch.tensor([1, 2]), torch.tensor([0, 1]), TypeError, "floating-point"),
    ],
)
def test_bad_batches_are_refused(scores, items, error, message):
    memory = ScoreMemory(LOSSES[0], problem()[1])
    for take in (lambda: memory(scores, items), lambda: memory.remember(scores, items)):
        with pytest.raises(error, match=message):
            take()


def test_bad_labels_and_groups_are_refused():
    with pytest.raises(TypeError, match="target must be a tensor; got list"):
        ScoreMemory(LOSSES[0], [0, 1])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"shape \(samples,\).*got \(4, 2\)"):
        ScoreMemory(LOSSES[0], torch.zeros(4, 2))
    with pytest.raises(ValueError, match="Pass it to ScoreMemory"):
        ScoreMemory(WarmUp(AveragePrecisionLoss(process_group="world"), 1), torch.tensor([0, 1]))
    memory = ScoreMemory(LOSSES[0], torch.tensor([0, 1]), process_group="world")
    with pytest.raises(RuntimeError, match=r"to be started.*torchrun"):
        memory(torch.randn(2), torch.tensor([0, 1]))


@pytest.mark.parametrize("update", [PositiveDirect(0.7), NegativeDirect(0.7), Hinge(1.0)], ids=repr)
@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC()], ids=repr)
def test_labels_and_scores_may_change_in_place_between_steps(task, update):
    """With ties, signed zeros, repeated indices, samples seen for the first time, and a state that is loaded."""
    generator = torch.Generator().manual_seed(5)
    target = torch.rand(SAMPLES, generator=generator) < 0.3
    loss = StructuredLoss(task, update)
    memory, known = ScoreMemory(loss, target), {}
    for step in range(40):
        items = torch.randint(SAMPLES, (9,), generator=generator)
        scores = (torch.randn(9, generator=generator) * 2).round() * (-0.5)
        known.update(zip(items.tolist(), scores.tolist(), strict=True))
        found, at_batch = call(memory, scores, items)
        rest = sorted(known)
        value, gradient = gradient_of(loss, torch.tensor([known[item] for item in rest]), target[rest])
        assert found == value
        places = [rest.index(item) for item in items.tolist()]
        expected = gradient[places] * factors(target, items, memory.seen).float()
        torch.testing.assert_close(total_of(items, at_batch), total_of(items, expected))
        if step == 10:
            memory.target[:20] = target[:20] = ~target[:20]
        elif step == 20:
            memory.scores.neg_()
            known = {item: -score for item, score in known.items()}
        elif step == 25:
            memory.scores[7], memory.seen[7], known[7] = 3.0, True, 3.0
        elif step == 30:
            memory.load_state_dict({name: tensor.flip(0) for name, tensor in memory.state_dict().items()})
            known = {SAMPLES - 1 - item: score for item, score in known.items()}


def total_of(items, values):
    """The sum of the values of each item."""
    return torch.zeros(SAMPLES).index_add(0, items, values)


def test_a_step_that_is_refused_leaves_the_memory_as_it_was():
    memory = ScoreMemory(AveragePrecisionLoss(), torch.tensor([0, 1, 1, 0]))
    memory(torch.tensor([2.0, 1.0]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="finite"):
        memory(torch.tensor([float("nan"), 1.0]), torch.tensor([0, 2]))
    assert memory.scores.tolist() == [2.0, 1.0, 0.0, 0.0]
    assert memory(torch.tensor([0.0, -1.0]), torch.tensor([2, 3])) == pytest.approx(5 / 12)


def test_a_run_goes_on_after_a_step_that_failed_half_way():
    class Moody(ROCAUC):
        fails = False

        def gain(self, positives, negatives):
            if Moody.fails:
                raise RuntimeError("not today")
            return super().gain(positives, negatives)

    target = torch.tensor([0, 1, 1, 0, 0])
    memory = ScoreMemory(StructuredLoss(Moody(), PositiveDirect(1.0)), target)
    memory(torch.tensor([2.0, 1.0]), torch.tensor([0, 1]))
    Moody.fails = True
    with pytest.raises(RuntimeError, match="not today"):
        memory(torch.tensor([3.0, 0.5]), torch.tensor([0, 2]))
    Moody.fails = False
    value = memory(torch.tensor([-1.0, 0.0]), torch.tensor([0, 3]))
    whole = StructuredLoss(ROCAUC(), PositiveDirect(1.0))(torch.tensor([-1.0, 1.0, 0.0]), torch.tensor([0, 1, 0]))
    torch.testing.assert_close(value, whole)


def test_labels_may_change_in_place_and_be_replaced():
    scores = torch.tensor([4.0, 3.0, 2.0, 1.0])
    memory = ScoreMemory(AveragePrecisionLoss(), torch.tensor([1, 0, 0, 0]))
    for change in (
        lambda: memory.target.copy_(torch.tensor([0, 0, 0, 1])),
        lambda: setattr(memory, "target", memory.target.flip(0)),
    ):
        change()
        assert memory(scores, torch.arange(4)) == AveragePrecisionLoss()(scores, memory.target)
