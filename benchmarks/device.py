"""What a device adds to a step: the copies to the host and back, by arithmetic, and by measurement where there is one.

    python -m benchmarks.device      # print the table, write results/device.json

The loss is pos-AP on float32 scores with labels of bool. Its inference runs on the CPU. So a step on a device is the
step on the CPU plus copies: 5 bytes an item to the host, 4 bytes an item and 5 a list back.
"""

import statistics
import time
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed import ROOT, machine, problem, write
from directloss import AveragePrecisionLoss

RESULTS = ROOT / "results" / "device.json"
SHAPES = ((1, 512), (1, 4096), (4096, 4096))
LINKS = (12.0, 50.0)  # GB/s: about what PCIe 3 and PCIe 5 reach with 16 lanes
ROUNDS = {512: 500, 4096: 300, 4096**2: 9}
WATCHED = 100  # steps at which a loss looks more closely
NETWORK = 100.0  # milliseconds that the network takes in a step


def size(lists: int, items: int) -> tuple[int, int]:
    """Bytes to the host, and back."""
    return 5 * lists * items, 4 * lists * items + 5 * lists


def step(scores: Tensor, target: Tensor) -> float:
    """Milliseconds of forward plus backward, the device included."""
    loss, times = AveragePrecisionLoss(), []
    for _ in range(ROUNDS[scores.numel()]):
        given = scores.clone().requires_grad_()
        _finish(given)
        start = time.perf_counter()
        loss(given, target).backward()
        _finish(given)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[WATCHED if len(times) > WATCHED else 1 :])


def _finish(tensor: Tensor) -> None:
    if not tensor.is_cpu:
        torch.accelerator.synchronize(tensor.device)


def measure() -> dict[str, Any]:
    """Every shape on the CPU, and on the device if there is one."""
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    found = []
    for lists, items in SHAPES:
        scores, target = problem(lists, items)
        one = {"lists": lists, "items": items, "cpu": step(scores, target)}
        if device is not None:
            one["device"] = step(scores.to(device), target.to(device))
        found.append(one)
    name = torch.get_device_module(device).get_device_name() if device is not None and device.type == "cuda" else device
    return {
        "device": None if name is None else str(name),
        "steps": found,
    } | machine()


def table(results: dict[str, Any]) -> str:
    """Bytes, time of the copies for each link, time of the CPU, and the share of a step."""
    measured = results["device"] is not None
    links = [f"copies at {link:.0f} GB/s" for link in LINKS]
    head = [
        "scores",
        "to the host",
        "back",
        *links,
        "inference and gradient",
        f"share of a step if the network takes {NETWORK:.0f} ms",
    ]
    head += [f"measured on {results['device']}"] if measured else []
    rows = [head, ["---"] * len(head)]
    for one in results["steps"]:
        down, up = size(one["lists"], one["items"])
        copies = [(down + up) / link / 1e6 for link in LINKS]
        share = 1 - NETWORK / (NETWORK + one["cpu"] + copies[0])
        shown = f"{one['lists']:,} × {one['items']:,}" if one["lists"] > 1 else f"{one['items']:,}"
        row = [shown, _bytes(down), _bytes(up), *map(_time, copies), _time(one["cpu"]), f"{100 * share:.2g} %"]
        rows.append(row + ([_time(one["device"])] if measured else []))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows).replace("| --- ", "|---").replace("|--- |", "|---|")


def _bytes(number: int) -> str:
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} bytes"


def _time(milliseconds: float) -> str:
    if milliseconds < 0.0995:
        return f"{1e3 * milliseconds:.2g} µs"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.2g} ms"


def main() -> None:
    """Measure, write, print."""
    results = measure()
    write(results, RESULTS)
    print(table(results))
    if results["device"] is None:
        print("\nNo device here: the copies are arithmetic.")


if __name__ == "__main__":
    main()
