"""What the shapes and processes of people's loops cost: flat lists, threads, a memory of scores, several processes.

Every ratio is to what stands first in its table, taken in the same rounds. `benchmarks.speed` is about the loss itself.

    python -m benchmarks.loops                 # run all, print the tables, write results/loops.json
"""

import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.speed import compare, machine, problem, with_backward, write
from directloss import AveragePrecisionLoss, ScoreMemory

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "loops.json"
SAMPLES, BATCH = 10**6, 512
SHARD = 50_000

Calls = dict[str, Callable[[], object]]


def flat_lists(lists: int, shortest: int, longest: int) -> Calls:
    """The same lists as a batch, padded if their lengths differ, and flat with ids."""
    scores, target = problem(lists, longest)
    loss = AveragePrecisionLoss()
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(shortest, longest + 1, (lists,), generator=generator)
    inside = torch.arange(longest) < lengths.unsqueeze(1)
    if shortest == longest:
        calls: Calls = {"a batch (lists, items)": with_backward(loss, scores, target)}
    else:
        calls = {"padded, with a mask": with_backward(lambda s, t: loss(s, t, inside), scores, target)}
    items = int(lengths.sum())
    ids = torch.arange(lists).repeat_interleave(lengths)
    shuffled = torch.randperm(items, generator=generator)
    for name, order in (("flat, list by list", torch.arange(items)), ("flat, in any order", shuffled)):
        flat, labels, indexes = scores[inside][order], target[inside][order], ids[order]
        calls[name] = with_backward(lambda s, t, indexes=indexes: loss(s, t, indexes=indexes), flat, labels)
    return calls


def batches(lists: int, items: int) -> Calls:
    """A batch beside torch.sort, with one thread and with two."""
    scores, target = problem(lists, items)
    step = with_backward(AveragePrecisionLoss(), scores, target)

    def alone() -> None:
        torch.set_num_threads(1)
        step()
        torch.set_num_threads(2)

    return {"torch.sort": lambda: torch.sort(scores, dim=-1), "one thread": alone, "two threads": step}


def remembered() -> Calls:
    """A step of a batch against all samples, beside one ranking of all of them."""
    scores, target = problem(SAMPLES)
    loss = AveragePrecisionLoss()
    memory = ScoreMemory(loss, target)
    memory.remember(scores, torch.arange(SAMPLES))
    generator = torch.Generator().manual_seed(2)

    def step() -> None:
        items = torch.randint(SAMPLES, (BATCH,), generator=generator)
        memory(torch.randn(BATCH, generator=generator).requires_grad_(), items).backward()

    return {
        "torch.sort of all samples": lambda: torch.sort(scores),
        "one ranking of all samples": with_backward(loss, scores, target),
        f"ScoreMemory, a step of {BATCH}": step,
    }


def processes(rounds: int) -> dict[str, dict[str, float]]:
    """One ranking over two processes, beside a plain gathering of its scores and labels."""
    with tempfile.TemporaryDirectory() as folder, get_context("spawn").Pool(2) as pool:
        arguments = [(rank, f"{folder}/store", rounds) for rank in range(2)]
        return pool.starmap(_process, arguments, chunksize=1)[0]


def _process(rank: int, store: str, rounds: int) -> dict[str, dict[str, float]]:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    scores, target = (whole[rank * SHARD : (rank + 1) * SHARD].clone() for whole in problem(2 * SHARD))
    labels = target.to(torch.uint8)

    def gather() -> None:
        for tensor in (scores, labels):
            dist.all_gather([torch.empty_like(tensor) for _ in range(2)], tensor)

    methods: Calls = {
        f"all_gather of {2 * SHARD:,} scores and labels": gather,
        "the loss of the own half": with_backward(AveragePrecisionLoss(), scores, target),
        "the loss with process_group": with_backward(
            AveragePrecisionLoss(process_group=dist.group.WORLD), scores, target
        ),
    }
    found = {name: [] for name in methods}
    for _ in range(rounds):  # in one order: both processes must call the same thing
        for name, call in methods.items():
            dist.barrier()
            found[name].append(_mean(call))
    dist.destroy_process_group()
    floor = next(iter(methods))
    return {
        name: {
            "milliseconds": 1e3 * _median(values),
            "ratio": _median([a / b for a, b in zip(values, found[floor], strict=True)]),
            "rounds": rounds,
        }
        for name, values in found.items()
    }


def _mean(call: Callable[[], object], repeats: int = 10) -> float:
    """Seconds of a call; as often in each process, so not `seconds`."""
    call()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _median(values: list[float]) -> float:
    return float(Tensor(values).median())


def measure(rounds: int) -> dict[str, Any]:
    """Run everything."""
    print("flat lists and batches …", file=sys.stderr, flush=True)
    results: dict[str, Any] = {}
    for threads, words in ((1, "one thread"), (2, "two threads")):
        torch.set_num_threads(threads)
        for lists, shortest, longest in ((1024, 100, 100), (1024, 50, 150), (10_240, 100, 100)):
            lengths = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
            calls = flat_lists(lists, shortest, longest)
            results[f"{lists:,} lists of {lengths}, flat, {words}"] = compare(calls, rounds)
    results |= {
        "1,024 lists of 100": compare(batches(1024, 100), rounds),
        "10,240 lists of 100": compare(batches(10_240, 100), rounds),
    }
    print("a memory of scores …", file=sys.stderr, flush=True)
    results[f"{SAMPLES:,} samples"] = compare(remembered(), rounds)
    print("two processes …", file=sys.stderr, flush=True)
    results["two processes"] = processes(rounds)
    return {"command": "python -m benchmarks.loops", **machine(), "tables": results}


def table(results: dict[str, Any]) -> str:
    """One table of ratios, as Markdown; what two threads change is said by two rows."""
    lines = ["| forward + backward | beside | takes |", "|---|---|---|"]
    for name, methods in results["tables"].items():
        if "two threads" not in name:
            first, *others = methods
            of = name.replace(", one thread", "").replace(", flat", "")
            lines += [f"| {of}: {method} | {first} | {methods[method]['ratio']:.2f}× |" for method in others]
    return "\n".join(lines)


def main() -> int:
    """Measure and write."""
    results = measure(15)
    write(results, RESULTS)
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
