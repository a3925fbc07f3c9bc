"""What the library may cost: each limit beside what is measured, in one run.

    python -m benchmarks.budget                # or ./dev bench --budget: measure, print, write results/budget.json

A ratio is the median over rounds of time / time of the peer, both taken in the same round, forward plus backward. The
time of a first call is that of a fresh process with an empty cache of kernels, without the import of torch.
"""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from benchmarks.speed import RESULTS as SPEED
from benchmarks.speed import compare, extra_bytes, machine, problem, with_backward, write
from directloss import AveragePrecisionLoss, NegativeDirect, PositiveDirect

RESULTS = SPEED.parent / "budget.json"
ROUNDS = 15
FIRST_CALL = """
import time, torch, directloss
from directloss import *
scores, target = torch.randn(100, requires_grad=True), torch.arange(100) % 3 == 0
start = time.perf_counter()
{loss}(scores, target).backward()
print(time.perf_counter() - start)
"""


class Line(NamedTuple):
    """One line of the budget."""

    what: str
    limit: float
    unit: str
    measured: float


def short_lists() -> Iterator[Line]:
    """One list of 512 beside binary cross-entropy, for each type of target."""
    scores, target = problem(512)
    cross_entropy = torch.nn.BCEWithLogitsLoss()
    calls = {"binary cross-entropy": with_backward(lambda s, t: cross_entropy(s, t.float()), scores, target)}
    for dtype in (torch.bool, torch.int64, torch.float32):
        calls[str(dtype)] = with_backward(AveragePrecisionLoss(), scores, target.to(dtype))
    for name, times in list(compare(calls, 4 * ROUNDS).items())[1:]:
        yield Line(f"a list of 512, target {name}", 2.0, "× binary cross-entropy", times["ratio"])


def long_lists() -> Iterator[Line]:
    """One long list beside torch.sort."""
    limits = {"positive": (PositiveDirect(1.0), 0.35), "negative": (NegativeDirect(1.0), 1.0)}
    for items in (10**6, 10**7):
        scores, target = problem(items)
        calls: dict[str, Callable[[], object]] = {"sort": lambda scores=scores: torch.sort(scores)}
        for name, (update, _) in limits.items():
            calls[name] = with_backward(AveragePrecisionLoss(update), scores, target)
        times = compare(calls, ROUNDS if items < 10**7 else 5)
        for name, (_, limit) in limits.items():
            yield Line(f"a list of {items:,}, {name} update", limit, "× torch.sort", times[name]["ratio"])


def batches() -> Iterator[Line]:
    """Many short lists with one thread, and as flat lists in any order."""
    scores, target = problem(1024, 100)
    loss = AveragePrecisionLoss()
    order = torch.randperm(scores.numel(), generator=torch.Generator().manual_seed(1))
    ids = torch.arange(1024).repeat_interleave(100)[order]
    flat, labels = scores.reshape(-1)[order], target.reshape(-1)[order]
    torch.set_num_threads(1)
    calls = {"sort": lambda: torch.sort(scores), "batch": with_backward(loss, scores, target)}
    yield Line("1,024 lists of 100, one thread", 1.0, "× torch.sort", compare(calls, 2 * ROUNDS)["batch"]["ratio"])
    torch.set_num_threads(2)
    calls = {
        "batch": with_backward(loss, scores, target),
        "flat": with_backward(lambda s, t: loss(s, t, indexes=ids), flat, labels),
    }
    yield Line("the same, flat in any order", 2.0, "× the batch", compare(calls, 2 * ROUNDS)["flat"]["ratio"])


def memory() -> Iterator[Line]:
    """Beyond scores and target."""
    yield Line("extra memory at 1,000,000", 48.0, "bytes a sample", extra_bytes(PositiveDirect(1.0), 10**6))


def first_calls() -> Iterator[Line]:
    """What a newcomer waits for."""
    losses = {"AveragePrecisionLoss()": 3.0, "ROCAUCLoss()": 5.0, "AveragePrecisionLoss(NegativeDirect(1.0))": 8.0}
    for loss, limit in losses.items():
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-c", FIRST_CALL.format(loss=loss)],
                env={**os.environ, "NUMBA_CACHE_DIR": cache}, capture_output=True, text=True, check=True,
            )  # fmt: skip
        yield Line(f"first call of {loss}", limit, "seconds", float(done.stdout))


def main() -> int:
    """Measure all, print and write it; 1 if a limit is exceeded by more than a tenth."""
    torch.set_num_threads(2)
    random.seed(0)
    lines = []
    for part in (short_lists, batches, long_lists, memory, first_calls):
        for line in part():
            lines.append(line)
            mark = "" if line.measured <= line.limit else "  over"
            print(f"{line.what:<58} {line.measured:8.2f} of {line.limit:g} {line.unit}{mark}", flush=True)
    write({"command": "./dev bench --budget", **machine(), "lines": [line._asdict() for line in lines]}, RESULTS)
    return int(any(line.measured > 1.1 * line.limit for line in lines))


if __name__ == "__main__":
    sys.exit(main())
