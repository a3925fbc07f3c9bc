"""Speed."""

import json
from typing import Any

from .numbers import MEASURED, block


@block
def speed_tasks() -> str:
    """Time of every task."""
    from benchmarks.speed import task_table

    return task_table(_speed())


@block
def speed_chains() -> str:
    """Time of the linear chain."""
    from benchmarks.speed import chain_table

    return chain_table(_speed())


def _speed() -> dict[str, Any]:
    return json.loads((MEASURED / "speed.json").read_text())


@block
def speed_tables() -> str:
    """Time of one list, by its length."""
    from benchmarks.speed import tables

    return tables(_speed()).split("\n\n")[0]


@block
def speed_batches() -> str:
    """Time of many short lists and of one short list, and memory."""
    from benchmarks.speed import tables

    return tables(_speed()).split("\n\n")[1]


@block
def speed_machine() -> str:
    """What the benchmark ran on."""
    results = _speed()
    versions = ", ".join(f"{name} {results['versions'][name]}" for name in ("torch", "numpy", "numba"))
    return f"{results['machine']}; {versions}."


@block
def gpu_table() -> str:
    """What a device adds to a step."""
    from benchmarks.device import table

    return table(json.loads((MEASURED / "device.json").read_text()))


@block
def speed_in_a_line() -> str:
    """One sentence and its condition."""
    one = _speed()["one list"]["1000000"]
    ours, sort = one["pos-AP"], one["torch.sort"]
    return (
        f"The loss and its gradient for a list of a million items take {ours['milliseconds']:.0f} ms on two cores, and "
        f"`torch.sort`\n{sort['milliseconds']:.0f} ms. [All times](docs/speed.md), made by `./dev bench`."
    )


@block
def speed_in_words() -> str:
    """What the tables say."""
    results = _speed()
    lists = results["one list"]
    slower = [f"{lists[size]['neg-AP']['ratio']:.1f}" for size in ("100000", "1000000", "10000000")]
    growth = {
        name: lists["10000000"][name]["milliseconds"] / lists["1000000"][name]["milliseconds"]
        for name in ("pos-AP", "hinge-AP", "torch.sort", "neg-AP")
    }
    short = {
        name: [f"{1e3 * results['one list of 512'][name][key]:.0f}" for key in ("milliseconds", "least")]
        for name in ("pos-AP", "binary cross-entropy")
    }
    ours, entropy = short.values()
    sizes = [int(size) for size in lists]
    slow = [n for n in sizes if any(lists[str(n)][name]["ratio"] >= 1 for name in ("pos-AP", "hinge-AP"))]
    first = min(n for n in sizes if n > max(slow, default=0))
    fold = {name: f"{ratio:.1f}-fold" for name, ratio in growth.items()}
    return "\n".join(
        [
            f"From {first:,} items on, the positive update and the hinge take less time than `torch.sort` alone.",
            f"The negative update takes as long as {slower[0]} sorts at 100,000 items, {slower[1]} at a million and",
            f"{slower[2]} at ten million. From a million items to ten, time grows {fold['pos-AP']} for the positive",
            f"update, {fold['hinge-AP']} for the hinge, {fold['torch.sort']} for `torch.sort` and {fold['neg-AP']}",
            "for the negative update. On short lists the overhead of Python is most of the time: a list of 512 takes",
            f"{ours[0]} µs (quietest round: {ours[1]}), and binary cross-entropy takes {entropy[0]} µs ({entropy[1]}).",
        ]
    )


@block
def speed_loops() -> str:
    """Flat lists, threads, a memory of scores, several processes."""
    from benchmarks.loops import table

    return table(json.loads((MEASURED / "loops.json").read_text()))


@block
def speed_estimator() -> str:
    """Time of the scikit-learn estimator."""
    from benchmarks.estimator import in_words

    return in_words(json.loads((MEASURED / "estimator.json").read_text()))
