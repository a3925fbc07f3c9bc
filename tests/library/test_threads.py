"""Long batches, solved in threads: the numbers of each list alone, errors that come through, nothing left behind."""

import multiprocessing
import subprocess
import sys
import threading

import pytest
import torch

from directloss import NDCG, ROCAUC, AveragePrecision, FMeasure, NegativeDirect, PositiveDirect, StructuredLoss

LISTS, ITEMS = 600, 1000  # more than 2^19 items
TASKS = pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC(), FMeasure(), NDCG(10)], ids=repr)


@pytest.fixture(autouse=True)
def several():
    """Threads, however many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def batch(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(LISTS, ITEMS, generator=generator).to(dtype)
    return scores, torch.rand(LISTS, ITEMS, generator=generator) < 0.1


def solved(task, update, scores, target, **options):
    scores = scores.clone().requires_grad_()
    values = StructuredLoss(task, update, "none")(scores, target, **options)
    values.sum().backward()
    assert scores.grad is not None
    return values.detach(), scores.grad


@TASKS
@pytest.mark.parametrize("update", [PositiveDirect(0.7), NegativeDirect(0.7)], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_long_batch_has_the_numbers_of_its_lists(task, update, dtype):
    scores, target = batch(dtype)
    before = threading.active_count()
    values, gradient = solved(task, update, scores, target)
    assert threading.active_count() == before
    for some in (slice(0, 3), slice(300, 302), slice(LISTS - 1, LISTS)):
        alone = solved(task, update, scores[some], target[some])
        assert torch.equal(values[some], alone[0])
        assert torch.equal(gradient[some], alone[1])


@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC()], ids=repr)
def test_many_flat_lists_in_any_order_have_the_numbers_of_the_batch(task):
    scores, target = batch()
    want, gradient = solved(task, PositiveDirect(0.7), scores, target)
    order = torch.randperm(scores.numel(), generator=torch.Generator().manual_seed(1))
    ids = torch.arange(LISTS).repeat_interleave(ITEMS)[order]
    flat, labels = scores.reshape(-1)[order], target.reshape(-1)[order]
    values, found = solved(task, PositiveDirect(0.7), flat, labels, indexes=ids)
    assert torch.equal(values, want)
    assert torch.equal(found, gradient.reshape(-1)[order])


@TASKS
def test_an_error_in_a_thread_is_raised_here(task):
    scores, target = batch()
    scores[577, 3] = torch.nan
    with pytest.raises(ValueError, match=r"finite.*\(577, 3\)"):
        StructuredLoss(task, PositiveDirect(1.0))(scores, target)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_may_solve_a_long_batch_after_its_parent_has():
    scores, target = batch()
    want = solved(AveragePrecision(), PositiveDirect(1.0), scores, target)[0].tolist()
    fork = multiprocessing.get_context("fork")
    found = fork.SimpleQueue()

    def child():
        values = StructuredLoss(AveragePrecision(), PositiveDirect(1.0), "none")(scores, target)
        found.put(values.tolist() == want)

    process = fork.Process(target=child)
    process.start()
    process.join(60)
    alive = process.is_alive()
    process.kill()
    assert not alive
    assert found.get()


def test_a_metric_may_call_another_loss():
    scores, target = torch.randn(9, generator=torch.Generator().manual_seed(1)), torch.arange(9) < 4
    inner = StructuredLoss(AveragePrecision(), PositiveDirect(1.0))
    want = StructuredLoss(ROCAUC(), PositiveDirect(1.0))(scores, target)

    class Nested(ROCAUC):
        def gain(self, positives, negatives):
            inner(-scores, target)
            return super().gain(positives, negatives)

    assert torch.equal(StructuredLoss(Nested(), PositiveDirect(1.0))(scores, target), want)


LONG = """
import os, signal, sys, threading, numpy as np, torch
from directloss import AveragePrecisionLoss, NegativeDirect
P, M, lists = 15_000, 35_000, int(sys.argv[1])
H = np.concatenate(([0.0], np.cumsum(1 / np.arange(1, P + M + 1))))
c = np.arange(1, M + 1)
b = M / (2 * P) * (c * (H[c + P] - H[c]) - (c - 1) * (H[c - 1 + P] - H[c - 1]))
b[:P] += 10 * b[0]
scores, target = torch.from_numpy(np.concatenate((np.zeros(P), b))).expand(lists, -1), torch.arange(P + M) < P
loss = AveragePrecisionLoss(NegativeDirect(1.0))
loss(scores[0, :5], torch.tensor([1, 0, 1, 0, 0]))  # compiles
torch.set_num_threads(2)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    loss(scores, target.expand(lists, -1))
except KeyboardInterrupt:
    print("interrupted")
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lists", [1, 12])  # the second solved in threads
def test_ctrl_c_gets_through_a_long_inference(lists):
    done = subprocess.run([sys.executable, "-c", LONG, str(lists)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", done.stderr
