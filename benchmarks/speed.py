"""Time of the loss beside torch.sort, the floor of anything that ranks, and beside peers.

Every ratio is the median over rounds of time(loss) / time(torch.sort), both taken in the same round, on the same
float32 scores, N(0, 1) without regard to the target: the hardest case for the negative update. Forward plus backward,
two threads, 20 % positives.

    python -m benchmarks.speed                 # run all, print the tables, write results/speed.json and docs/speed.svg
    python -m benchmarks.speed --tables        # print the tables of results/speed.json
"""

import argparse
import gc
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from benchmarks.peers import chain_loop, reference_dp, sequence_by_sequence, smooth_ap, soft_ap
from directloss import (
    AveragePrecisionAtK,
    AveragePrecisionLoss,
    CentralDirect,
    Hinge,
    LinearChain,
    NegativeDirect,
    PositiveDirect,
    StructuredLoss,
    Task,
    __version__,
)
from directloss.tasks import TASKS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "speed.json"
FIGURE = ROOT / "docs" / "speed.svg"
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
UPDATES = {
    "pos-AP": PositiveDirect(1.0),
    "hinge-AP": Hinge(1.0),
    "neg-AP": NegativeDirect(1.0),
    "central-AP": CentralDirect(1.0),
}
SIGNS = {"positive": PositiveDirect(1.0), "negative": NegativeDirect(1.0)}
LIST_TASKS = ("average_precision", "roc_auc", "partial_auc", "recall_at_fpr", "reciprocal_rank", "hit_at_k",
              "precision_at_recall", "binary_dcg", "rank_biased_precision", "last_rank", "ndcg", "precision_at_k",
              "recall_at_k", "zero_one", "balanced_error", "f_measure", "iou")  # fmt: skip
ITEMS = 10**6  # of the list on which tasks are compared
PEERS: dict[str, tuple[Callable[[Tensor, Tensor], Any] | None, int]] = {  # and the longest list that fits here
    "torchsort soft AP": (soft_ap(), 10**6),
    "Smooth-AP": (smooth_ap, 10**4),
    "reference DP (no gradient)": (reference_dp, 10**4),
}


def problem(*shape: int) -> tuple[Tensor, Tensor]:
    """Scores and target of a list or a batch."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(shape, generator=generator)
    return scores, torch.rand(shape, generator=generator) < 0.2


def seconds(call: Callable[[], object]) -> float:
    """Time of one call, or the mean of as many as fill 20 milliseconds, after one that warms the caches."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    if once > 0.2:
        return once
    repeats = max(1, int(0.02 / once))
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def with_backward(loss: Callable[[Tensor, Tensor], Any], scores: Tensor, target: Tensor) -> Callable[[], object]:
    """Forward plus backward, as in training."""
    scores = scores.clone().requires_grad_()

    def call() -> None:
        scores.grad = None
        value = loss(scores, target)
        if isinstance(value, Tensor):
            value.backward()

    return call


def compare(methods: dict[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Time all methods in turn, round by round; the first one is the floor."""
    floor, *_ = methods
    times: dict[str, list[float]] = {name: [] for name in methods}
    for call in methods.values():
        call()
    for _ in range(rounds):
        gc.collect()
        order = list(methods)
        random.shuffle(order)  # what ran just before matters
        for name in order:
            times[name].append(seconds(methods[name]))
    return {
        name: {
            "milliseconds": 1e3 * statistics.median(values),
            "least": 1e3 * min(values),
            "ratio": statistics.median(a / b for a, b in zip(values, times[floor], strict=True)),
            "rounds": rounds,
        }
        for name, values in times.items()
    }


def chain_problem() -> tuple[Tensor, Tensor]:
    """Scores and target of 32 linear chains of 100 steps, 20 labels."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((32, 99, 20, 20), generator=generator)
    return scores, torch.randint(20, (32, 100), generator=generator)


def chain_calls() -> dict[str, Callable[[], object]]:
    """A batch of linear chains, beside the same loss written in PyTorch."""
    ways = {
        "`LinearChain`": StructuredLoss(LinearChain(), PositiveDirect(1.0)),
        "a loop over steps, all sequences at once": chain_loop,
        "a loop over sequences and steps": sequence_by_sequence,
    }
    return {name: with_backward(loss, *chain_problem()) for name, loss in ways.items()}


def extra_bytes(update: Any, items: int) -> float:
    """Peak memory of forward plus backward beyond scores and target, in bytes a sample; in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_extra_bytes, update, items).result()


def _extra_bytes(update: Any, items: int) -> float:
    loss = AveragePrecisionLoss(update)
    with_backward(loss, *problem(1000))()  # what is needed once: kernels, and torch's own
    call = with_backward(loss, *problem(items))

    def status(key: str) -> int:
        return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is in use now
    before = status("VmRSS")
    call()
    return (status("VmHWM") - before) / items


def timed_tasks() -> list[Task]:
    """The tasks on lists of 0 and 1, and one that is cut at a rank."""
    return [*(TASKS[name]() for name in LIST_TASKS if name in TASKS), AveragePrecisionAtK(100)]


def measure_tasks(items: int, rounds: int) -> dict[str, dict[str, float]]:
    """Every task on one list, with either sign."""
    scores, target = problem(items)
    methods: dict[str, Callable[[], object]] = {"torch.sort": lambda: torch.sort(scores)}
    for task in timed_tasks():
        for sign, update in SIGNS.items():
            methods[f"{task!r}, {sign}"] = with_backward(StructuredLoss(task, update), scores, target)
    return compare(methods, rounds)


def measure(sizes: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """Run everything."""
    torch.set_num_threads(2)
    random.seed(0)
    batch_scores, batch_target = problem(1024, 100)
    batch: dict[str, Callable[[], object]] = {"torch.sort": lambda: torch.sort(batch_scores, dim=-1)}
    small_scores, small_target = problem(512)
    small: dict[str, Callable[[], object]] = {"torch.sort": lambda: torch.sort(small_scores)}
    for name, update in UPDATES.items():
        batch[name] = with_backward(AveragePrecisionLoss(update), batch_scores, batch_target)
        small[name] = with_backward(AveragePrecisionLoss(update), small_scores, small_target)
    cross_entropy = torch.nn.BCEWithLogitsLoss()  # a module, as ours
    small["binary cross-entropy"] = with_backward(lambda s, t: cross_entropy(s, t.float()), small_scores, small_target)
    print("batches and short lists …", file=sys.stderr, flush=True)  # first: long ones leave a scattered heap behind
    batches, shorts = compare(batch, 2 * rounds), compare(small, 2 * rounds)
    lists: dict[str, dict[str, dict[str, float]]] = {}
    for items in sizes:
        scores, target = problem(items)
        methods: dict[str, Callable[[], object]] = {"torch.sort": lambda scores=scores: torch.sort(scores)}
        for name, update in UPDATES.items():
            methods[name] = with_backward(AveragePrecisionLoss(update), scores, target)
        for name, (peer, longest) in PEERS.items():
            if peer is not None and items <= longest:
                methods[name] = with_backward(peer, scores, target)
        print(f"one list of {items:,} …", file=sys.stderr, flush=True)
        lists[str(items)] = compare(methods, rounds if items < 10**7 else min(rounds, 5))
    print(f"every task on one list of {ITEMS:,} …", file=sys.stderr, flush=True)
    tasks = measure_tasks(ITEMS, min(rounds, 7))
    print("chains …", file=sys.stderr, flush=True)
    chains = compare(chain_calls(), min(rounds, 7))
    return {
        "command": "python -m benchmarks.speed",
        **machine(),
        "one list": lists,
        "tasks": tasks,
        "chains": chains,
        "1024 lists of 100": batches,
        "one list of 512": shorts,
        "bytes a sample at 1000000": {name: extra_bytes(update, 10**6) for name, update in UPDATES.items()},
    }  # fmt: skip


def machine() -> dict[str, Any]:
    """Where something was measured."""
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {_processor()}",
        "versions": {
            "directloss": __version__, "python": platform.python_version(), "torch": torch.__version__,
            "numpy": np.__version__, "numba": numba.__version__,
        },
    }  # fmt: skip


def write(results: dict[str, Any], path: Path) -> None:
    """Write results as JSON, whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    partial.replace(path)


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def _digits(value: float, digits: int) -> str:
    """A number with some significant digits and without an exponent: 1,320 and not 1.32e+03."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if rounded >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"


def tables(results: dict[str, Any]) -> str:
    """The results as Markdown, as they stand in the README."""
    lists = results["one list"]
    names = list(dict.fromkeys(name for methods in lists.values() for name in methods))
    lines = [
        "| forward + backward, one list of | " + " | ".join(f"{int(n):,}" for n in lists) + " |",
        "|---" * (len(lists) + 1) + "|",
    ]
    for name in names:
        cells = []
        for methods in lists.values():
            if name not in methods:
                cells.append("–")
                continue
            ms, ratio = methods[name]["milliseconds"], methods[name]["ratio"]
            cells.append(f"{_digits(ms, 3)} ms" + (f" ({_digits(ratio, 2)}×)" if name != "torch.sort" else ""))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "| | 1024 lists of 100 | one list of 512 | extra memory at 1,000,000 |", "|---|---|---|---|"]
    for name in ("torch.sort", *UPDATES, "binary cross-entropy"):
        batch, small = (results[key].get(name) for key in ("1024 lists of 100", "one list of 512"))
        memory = results["bytes a sample at 1000000"].get(name)
        cells = [
            f"{_digits(batch['milliseconds'], 3)} ms ({_digits(batch['ratio'], 2)}×)" if batch else "–",
            f"{1e3 * small['milliseconds']:.0f} µs (least {1e3 * small['least']:.0f})",
            f"{memory:.0f} bytes a sample" if memory else "–",
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def task_table(results: dict[str, Any]) -> str:
    """The other tasks as ratios to torch.sort, as Markdown."""
    tasks = results["tasks"]
    lines = [f"| beside torch.sort, one list of {ITEMS:,} | positive | negative |", "|---|---|---|"]
    for name in dict.fromkeys(name.rpartition(", ")[0] for name in tasks if name != "torch.sort"):
        if name != "AveragePrecision()":
            cells = [f"{_digits(tasks[f'{name}, {sign}']['ratio'], 2)}×" for sign in SIGNS]
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chain_table(results: dict[str, Any]) -> str:
    """The linear chain beside loops in PyTorch, as Markdown."""
    lines = ["| forward + backward, 32 sequences of 100 steps and 20 labels | time | beside ours |", "|---|---|---|"]
    for name, found in results["chains"].items():
        lines.append(f"| {name} | {_digits(found['milliseconds'], 3)} ms | {_digits(found['ratio'], 2)}× |")
    return "\n".join(lines)


def draw(results: dict[str, Any], path: Path) -> None:
    """Time against length, log-log."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "directloss", "font.size": 10})
    styles = ["o-", "s-", "D-", "v-", "^--", "x--", "+--", "*--"]
    colours = ["#000000", "#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#999999"]
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    lists = results["one list"]
    names = list(dict.fromkeys(name for methods in lists.values() for name in methods))
    for name, style, colour in zip(names, styles, colours, strict=False):
        points = [(int(n), methods[name]["milliseconds"]) for n, methods in lists.items() if name in methods]
        axes.loglog(*zip(*points, strict=True), style, color=colour, label=name, markersize=5, linewidth=1.3)
    axes.set(xlabel="items in the list", ylabel="milliseconds, forward + backward")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None) -> int:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description="Time the loss beside torch.sort.")
    parser.add_argument("--tables", action="store_true", help="print the tables of results/speed.json and stop")
    parser.add_argument("--rounds", type=int, default=21, help="how often everything is timed (default 21)")
    parser.add_argument("--longest", type=int, default=10**7, help="the longest list (default 10000000)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes (default results/speed.json)")
    options = parser.parse_args(arguments)
    if options.tables:
        print(tables(json.loads(RESULTS.read_text())))
        return 0
    results = measure(tuple(n for n in SIZES if n <= options.longest), options.rounds)
    write(results, options.out)
    if options.out == RESULTS:
        draw(results, FIGURE)
    print(tables(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
