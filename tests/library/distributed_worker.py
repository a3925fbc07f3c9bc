"""One process of `test_distributed.py`: trains a linear model on its shard, and writes value and gradient to a file."""

import copy
import os
import pickle
import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from directloss import (
    AdaptiveDecay,
    AveragePrecision,
    AveragePrecisionLoss,
    CentralDirect,
    PositiveDirect,
    RetrievalLoss,
    ScoreMemory,
    StructuredLoss,
    WarmUp,
)


def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    return x, torch.rand(40, generator=generator) < 0.4, torch.randint(6, (40,), generator=generator)


def shard(items: int, process: int, processes: int, kind: str) -> torch.Tensor:
    """The items of one process: even, uneven, with an empty process, or with positives in the first one only."""
    everything = torch.arange(items)
    if kind == "even":
        return everything[process::processes]
    if kind == "uneven":
        return everything[: items // 3] if process == 0 else everything[items // 3 :][process - 1 :: processes - 1]
    if kind == "empty":
        return everything[:0] if process == processes - 1 else everything[process :: processes - 1]
    _, target, _ = data()
    if process == 0:
        return torch.cat([target.nonzero().squeeze(1), (~target).nonzero().squeeze(1)[:3]])
    return (~target).nonzero().squeeze(1)[3:][process - 1 :: processes - 1]


def model() -> torch.nn.Module:
    layer = torch.nn.Linear(3, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.3, -0.7, 0.5], [1.0, 0.2, -0.4]]))
        layer.bias.copy_(torch.tensor([0.1, -0.2]))
    return layer


def loss_of(case: str, group: Any) -> Any:
    """The loss of a case as a function of the model's outputs, target and ids."""
    reduction = "sum" if "sum" in case else "mean"
    if "retrieval" in case:
        loss = RetrievalLoss(reduction=reduction, process_group=group)
        return lambda out, target, ids: loss(out, ids)
    update = CentralDirect(0.3) if "central" in case else PositiveDirect(0.5)
    loss = StructuredLoss(AveragePrecision(), update, reduction, process_group=group)
    if "warm-up" in case:
        loss = WarmUp(loss, 1)
    if "indexes" in case:
        return lambda out, target, ids: loss(out[:, 0], target, indexes=ids)
    if "classes" in case:
        return lambda out, target, ids: loss(out, torch.stack([target, ids > 2], 1), dim=0)
    if "masked" in case:
        return lambda out, target, ids: loss(out[:, 0], target, ids > 0)
    return lambda out, target, ids: loss(out[:, 0], target)


CASES = ["plain", "plain sum", "central", "indexes", "indexes sum", "classes", "retrieval", "retrieval sum"]
CASES += ["warm-up", "warm-up masked", "masked", "warm-up classes"]
KINDS = ["even", "uneven", "empty", "one-sided"]


def memory_run(network: torch.nn.Module, group: Any, process: int, processes: int) -> Any:
    """Values and gradients of three steps with a memory, and what is remembered."""
    x, target, _ = data()
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(0.5))
    memory = ScoreMemory(loss, target, process_group=group).double()
    values, gradients = [], []
    for first in (0, 10, 25):  # the second batch repeats samples of the first, and every batch has one twice
        batch = torch.cat([torch.arange(first, first + 15), torch.tensor([first])])
        part = batch[shard(len(batch), process, processes, "uneven")] if processes > 1 else batch
        network.zero_grad()
        value = memory(network(x[part])[:, 0] + 0.01 * first, part)
        value.backward()
        values.append(value.detach())
        gradients.append([parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None])
    return values, gradients, memory.scores


def refused(group: Any) -> str:
    """What a process is told that is not in the group."""
    try:
        loss_of("plain", group)(torch.zeros(2, 1), torch.tensor([True, False]), None)
    except RuntimeError as error:
        return str(error)
    return ""


def different(group: Any, process: int) -> dict[str, Any]:
    """What processes get that differ in the types of their tensors, or in which of them they pass."""
    torch.manual_seed(process)
    first, loss = process == 0, StructuredLoss(AveragePrecision(), PositiveDirect(0.5), process_group=group)
    scores, target = torch.arange(6) + 0.1 * torch.rand(6), torch.tensor([1, 0, 0, 1, 0, 0])
    calls = {
        "target": lambda: loss(scores, target if first else target.float()),
        "half": lambda: loss(scores.half() if first else scores.bfloat16(), target),
        "ids": lambda: loss(scores, target, indexes=(target * 0 + 5).to(torch.int32 if first else torch.int64)),
        "mask": lambda: loss(scores, target, target > -1 if first else None),
        "no items": lambda: loss(scores, target) if first else loss(torch.zeros(0), torch.zeros(0)),
        "small ids": lambda: loss(scores, target, indexes=(target * 0 + 5).to(torch.int8 if first else torch.uint8)),
        "large labels": lambda: RetrievalLoss(process_group=group)(
            scores.unsqueeze(1), target + 2**24 if first else (target + 2**24).float()
        ),
        "labels": lambda: RetrievalLoss(process_group=group)(
            torch.randn(6, 2), target if first else target.double() + 0.5
        ),
        "some ids": lambda: loss(scores, target, indexes=target if first else None),
        "complex": lambda: loss(scores, target if first else target.to(torch.complex64)),
        "complex ids": lambda: loss(scores, target, indexes=target.to(torch.complex64) if first else None),
        "batches": lambda: loss(
            torch.zeros((2, 3, 4) if first else (3, 2, 4)), torch.zeros((2, 3, 4) if first else (3, 2, 4))
        ),
        "one list in the wrong shape": lambda: loss(scores.unsqueeze(1), target.unsqueeze(1)),
    }
    found = {}
    for name, call in calls.items():
        try:
            found[name] = call()
        except (TypeError, ValueError) as error:
            found[name] = str(error)
    return found


def decays(group: Any, process: int) -> list[float]:
    """The weight decay of 60 steps; only the first process is ahead of its held-out rows, the last knows nothing."""
    good, bad, target = torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 0, 0])
    last = process == dist.get_world_size(group) - 1
    held_out = (bad if process == 0 else good), (target * 0 if last else target)
    optimizer = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], weight_decay=1.0)
    decay = AdaptiveDecay(optimizer, lambda: held_out, process_group=group)
    return [decay.step(good, target) for _ in range(60)]


def copies(group: Any) -> dict[str, Any]:
    """Whether copies of modules have their group."""
    modules = [StructuredLoss(AveragePrecision(), PositiveDirect(0.5), process_group=group)]
    modules += [
        RetrievalLoss(process_group=group),
        ScoreMemory(AveragePrecisionLoss(), torch.zeros(3), process_group=group),
    ]
    found: dict[str, Any] = {}
    for how in (copy.copy, copy.deepcopy):
        found[how.__name__] = [how(WarmUp(how(module), 1)).loss.process_group is group for module in modules]
    try:
        found["saved"] = [pickle.loads(pickle.dumps(module)).process_group is group for module in modules]
    except TypeError as error:
        found["saved"] = str(error)
    return found


def work(folder: str, process: int, everyone: int) -> None:
    """Groups of 2, of 3 and of all processes, so that three sizes need one start."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    x, target, ids = data()
    found = {}
    for processes in range(2, everyone + 1):
        group = dist.new_group(list(range(processes))) if processes < everyone else dist.group.WORLD
        if process >= processes:
            found[processes, "outside"] = refused(group)
            continue
        for case in CASES:
            for kind in KINDS:
                part = shard(len(x), process, processes, kind)
                network = DistributedDataParallel(model(), process_group=group)
                value = loss_of(case, group)(network(x[part]), target[part], ids[part])
                value.backward()
                found[processes, case, kind] = value.detach(), [parameter.grad for parameter in network.parameters()]
        network = DistributedDataParallel(model(), process_group=group)
        found[processes, "memory"] = memory_run(network, group, process, processes)
        found[processes, "different"] = different(group, process)
        found[processes, "decays"] = decays(group, process)
        found[processes, "copies"] = copies(group)
    torch.save(found, f"{folder}/{process}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    work(sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
