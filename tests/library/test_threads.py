"""Parts of a batch in several threads: the numbers of one, errors that come through, nothing left behind."""

import multiprocessing
import threading

import pytest
import torch
from directloss.threads import in_threads, team

from directloss import ROCAUC, AveragePrecision, NegativeDirect, PositiveDirect, StructuredLoss, threads
from directloss.families import packed
from directloss.kernels import lists


@pytest.fixture(params=["threads of torch", "new threads"])
def many(request, monkeypatch):
    """Both kinds of threads."""
    if request.param == "new threads":
        monkeypatch.setattr(threads, "_team", lambda: None)
    elif team() is None:
        pytest.skip("torch was built with another OpenMP")


@pytest.fixture
def small(many, monkeypatch):
    """Threads from the first item on, a few lists in a part."""
    monkeypatch.setattr(packed, "CHUNK", 50)
    monkeypatch.setattr(packed, "THREADED", 0)
    monkeypatch.setattr(packed, "AWAKE", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


def solved(task, update, scores, target, **options):
    scores = scores.clone().requires_grad_()
    values = StructuredLoss(task, update, "none")(scores, target, **options)
    values.sum().backward()
    assert scores.grad is not None
    return values.detach(), scores.grad


@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("flat", [False, True])
def test_threads_give_the_numbers_of_one(task, dtype, flat, small, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 17, generator=generator, dtype=torch.float64).to(dtype)
    target = torch.rand(40, 17, generator=generator) < 0.3
    options = {}
    if flat:
        options["indexes"] = torch.randint(30, (scores.numel(),), generator=generator)
        scores, target = scores.reshape(-1), target.reshape(-1)
    solved(task, NegativeDirect(0.7), scores, target, **options)  # kernels that are compiled here have a timer
    before = threading.active_count()
    many = solved(task, NegativeDirect(0.7), scores, target, **options)
    assert threading.active_count() == before
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    alone = solved(task, NegativeDirect(0.7), scores, target, **options)
    assert all(torch.equal(a, b) for a, b in zip(many, alone, strict=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True])
def test_flat_lists_in_any_order_have_the_numbers_of_a_batch_with_any_number_of_threads(
    dtype, masked, small, monkeypatch
):
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(60, 17, generator=generator).mul(4).round().div(4).to(dtype)  # many ties
    target, mask = (torch.rand(60, 17, generator=generator) < share for share in (0.3, 0.8))
    order = torch.randperm(scores.numel(), generator=generator)
    ids = torch.arange(60).repeat_interleave(17)[order]
    task, update, valid = AveragePrecision(), PositiveDirect(0.7), mask if masked else None
    want, gradient = solved(task, update, scores, target, mask=valid)
    flat, labels, some = (one.reshape(-1)[order] for one in (scores, target, mask))
    for number in (1, 2, 3, 7):
        monkeypatch.setattr(torch, "get_num_threads", lambda number=number: number)
        found = solved(task, update, flat, labels, mask=some if masked else None, indexes=ids)
        assert torch.equal(found[0], want)
        assert torch.equal(found[1], gradient.reshape(-1)[order])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("by_list", [False, True])
def test_lists_of_different_lengths_have_the_numbers_of_padded_ones_with_any_number_of_threads(
    dtype, masked, by_list, small, monkeypatch
):
    generator = torch.Generator().manual_seed(2)
    lengths = torch.randint(1, 60, (50,), generator=generator)
    inside = torch.arange(60) < lengths.unsqueeze(1)
    scores = torch.randn(50, 60, generator=generator, dtype=torch.float64).mul(4).round().div(4).to(dtype)
    target, some = (torch.rand(50, 60, generator=generator) < share for share in (0.3, 0.8))
    valid = inside & some if masked else inside
    task, update = AveragePrecision(), PositiveDirect(0.7)
    want, gradient = solved(task, update, scores, target, mask=valid)
    order = torch.arange(int(lengths.sum())) if by_list else torch.randperm(int(lengths.sum()), generator=generator)
    ids = torch.arange(50).repeat_interleave(lengths)[order]
    flat, labels, kept, expected = (one[inside][order] for one in (scores, target, some, gradient))
    for number in (1, 2, 3, 7, 2):  # the last with memory of more threads
        monkeypatch.setattr(torch, "get_num_threads", lambda number=number: number)
        found = solved(task, update, flat, labels, mask=kept if masked else None, indexes=ids)
        assert torch.equal(found[0], want)
        assert torch.equal(found[1], expected)


def test_one_thread_packs_items_in_any_order_if_rooms_might_need_more_bits_than_a_key_has(small, monkeypatch):
    ids = torch.randint(9, (200,), generator=torch.Generator().manual_seed(3))
    scores, target = torch.randn(200), torch.arange(200) % 3 == 0
    workers = []
    monkeypatch.setattr(packed, "in_threads", lambda some, parts: workers.append(len(some)) or in_threads(some, parts))
    for longest in (1000, 220, 201):
        monkeypatch.setattr(lists, "LONGEST_LIST", longest)
        solved(AveragePrecision(), PositiveDirect(1.0), scores, target, indexes=ids)
    assert workers == [3, 1, 1]


def test_an_error_in_a_thread_is_raised_here(small):
    scores, target = torch.randn(40, 17), torch.arange(17).expand(40, 17) < 5
    scores[33, 3] = torch.nan
    with pytest.raises(ValueError, match="finite"):
        StructuredLoss(AveragePrecision(), PositiveDirect(1.0))(scores, target)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have(small):
    """Nor does its own fork. OpenMP would wait forever."""
    scores, target = torch.randn(40, 17, dtype=torch.float64), torch.arange(17).expand(40, 17) < 5
    want = solved(AveragePrecision(), PositiveDirect(1.0), scores, target)
    fork = multiprocessing.get_context("fork")
    found = fork.SimpleQueue()

    def child():
        got = solved(AveragePrecision(), PositiveDirect(1.0), scores, target)
        found.put((team() is None, all(torch.equal(a, b) for a, b in zip(want, got, strict=True))))

    process = fork.Process(target=child)
    process.start()
    process.join(60)
    alive = process.is_alive()
    process.kill()
    assert not alive
    assert found.get() == (True, True)


def test_every_part_is_done_once_and_the_first_error_ends_all(many):
    done = []
    in_threads([done.append, done.append, done.append], range(100))
    assert sorted(done) == list(range(100))

    def fail(part):
        done.append(part)
        raise KeyError(part)

    done.clear()
    with pytest.raises(KeyError):
        in_threads([fail, fail], range(100))
    assert len(done) <= 2


def test_a_metric_may_call_another_loss(monkeypatch):
    """Memory that is kept from list to list is not shared by two that are solved at once."""
    scores, target = torch.randn(9, generator=torch.Generator().manual_seed(1)), torch.arange(9) < 4
    inner = StructuredLoss(AveragePrecision(), PositiveDirect(1.0))
    want = StructuredLoss(ROCAUC(), PositiveDirect(1.0))(scores, target)

    class Nested(ROCAUC):
        def gain(self, positives, negatives):
            inner(-scores, target)
            return super().gain(positives, negatives)

    assert torch.equal(StructuredLoss(Nested(), PositiveDirect(1.0))(scores, target), want)
