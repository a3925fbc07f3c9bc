"""The adversary of the ways to an oracle: layouts, types, ids, devices, threads and memories, against lists alone.

`tests/fuzz.py` holds oracles to exact answers, one list beside another of its shape. Here the same lists come flat in
any order, with gaps in memory, along another dimension, mapped, through a memory of scores. Each way must give what
the lists give one by one.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from directloss import (
    CentralDirect,
    Hinge,
    NegativeDirect,
    Perceptron,
    PositiveDirect,
    ScoreMemory,
    StructuredLoss,
    Task,
    structured_loss,
)

__all__ = ["LAYOUTS", "list_tasks", "try_layout"]

IDS = torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint64
DTYPES = torch.float16, torch.bfloat16, torch.float32, torch.float64
LONG = 1 << 19  # items, from which on threads help


def list_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Those on lists with a target for each item."""
    return [task for task in tasks if _on_lists(task)]


@cache
def _on_lists(task: Task) -> bool:
    scores, target, mask = task.random_problem(5, torch.Generator().manual_seed(0))
    return task.event_dims == 1 and task.exchangeable and target.shape == scores.shape and mask is None


def _update(rng: Generator) -> Any:
    strength = float(10.0 ** rng.uniform(-2, 2))
    kinds = PositiveDirect, NegativeDirect, CentralDirect, Hinge
    kind = int(rng.integers(5))
    return Perceptron() if kind == 4 else kinds[kind](strength)


def _lists(rng: Generator, task: Task, count: int, most: int, ragged: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Scores, target and mask of some lists of one type."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    dtype = DTYPES[int(rng.integers(len(DTYPES)))]
    items = int(rng.integers(1, most + 1))
    lists = []
    while len(lists) < count:
        scores, target, _ = task.random_problem(most, generator)
        if not ragged and len(scores) != items:
            keep = torch.arange(items) % len(scores)
            scores, target = torch.randn(items, generator=generator), target[keep]
        scores = scores.round() if rng.random() < 0.3 else scores
        mask = torch.rand(scores.shape, generator=generator) < (0.8 if rng.random() < 0.5 else 2.0)
        lists.append((scores.to(dtype), target, mask))
    return lists


def _alone(task: Task, update: Any, lists: Sequence[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Values and gradients of lists one by one."""
    values, gradients = [], []
    for scores, target, mask in lists:
        leaf = scores.detach().clone().requires_grad_()
        value = structured_loss(task, update, leaf, target, mask)
        (gradient,) = torch.autograd.grad(value, leaf)
        values.append(value.detach())
        gradients.append(gradient)
    return torch.stack(values), torch.cat(gradients)


def _equal(what: str, got: tuple[Tensor, Tensor], want: tuple[Tensor, Tensor]) -> None:
    for one, other in zip(got, want, strict=True):  # values, gradients
        tolerance = 1e-12 if one.dtype == torch.float64 else 1e-6 if one.dtype == torch.float32 else 1e-2
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}: {text}")


def flat(rng: Generator, task: Task) -> None:
    """Lists of many lengths, flat in any order, with ids of any type."""
    dtype = IDS[int(rng.integers(len(IDS)))]
    count = int(rng.integers(1, 3 if dtype == torch.bool else 25))
    update, lists = _update(rng), _lists(rng, task, count, 12, ragged=True)
    kind = np.bool_ if dtype == torch.bool else np.dtype(str(dtype).removeprefix("torch."))
    limits = (0, 1) if dtype == torch.bool else (np.iinfo(kind).min, np.iinfo(kind).max)
    drawn = rng.integers(*limits, 10 * count + 10, dtype=np.int8 if dtype == torch.bool else kind, endpoint=True)
    names = np.unique(drawn.astype(kind))[:count]
    lists = lists[: names.size]
    ids = names.repeat([len(one[0]) for one in lists])
    scores, target, mask = (torch.cat(parts) for parts in zip(*lists, strict=True))
    order = torch.from_numpy(rng.permutation(len(scores)) if rng.random() < 0.7 else np.arange(len(scores)))
    leaf = scores[order].requires_grad_()
    shuffled = torch.from_numpy(ids[order.numpy()])
    value = structured_loss(task, update, leaf, target[order], mask[order], "none", indexes=shuffled)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    back = torch.empty_like(gradient)
    back[order] = gradient
    _equal(f"flat, ids {dtype}", (value.detach(), back), _alone(task, update, lists))


def strided(rng: Generator, task: Task) -> None:
    """A batch whose items have gaps between them, or lie along another dimension, with another default device."""
    update, lists = _update(rng), _lists(rng, task, int(rng.integers(1, 6)), 12, ragged=False)
    scores, target, mask = (torch.stack(parts) for parts in zip(*lists, strict=True))
    want = _alone(task, update, lists)
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "every second": lambda tensor: torch.stack([tensor, tensor], -1).flatten(-2)[..., ::2],
        "transposed": lambda tensor: tensor.T.contiguous().T,
        "a slice": lambda tensor: torch.cat([tensor, tensor], -1)[..., : tensor.shape[-1]],
    }
    name = str(rng.choice(list(views)))
    leaf, labels, valid = (views[name](tensor) for tensor in (scores, target, mask))
    leaf = leaf.detach().requires_grad_()
    with torch.device("meta" if rng.random() < 0.3 else "cpu"):
        value = structured_loss(task, update, leaf, labels, valid, "none")
    _equal(name, (value.detach(), torch.autograd.grad(value.sum(), leaf)[0].flatten()), want)
    turned = scores.T.clone().requires_grad_()
    value = structured_loss(task, update, turned, target.T, mask.T, "none", dim=0)
    _equal("dim=0", (value.detach(), torch.autograd.grad(value.sum(), turned)[0].T.flatten()), want)


def expanded(rng: Generator, task: Task) -> None:
    """One list many times, by a stride of 0, beside an ε for each."""
    ((scores, target, mask),) = _lists(rng, task, 1, 12, ragged=True)
    epsilons = torch.from_numpy(10.0 ** rng.uniform(-2, 2, 4))
    shape = (4, len(scores))
    given = [tensor.expand(shape) for tensor in (scores, target, mask)]
    value = structured_loss(task, PositiveDirect(epsilons), *given, reduction="none")
    each = [structured_loss(task, PositiveDirect(float(epsilon)), scores, target, mask) for epsilon in epsilons]
    _equal("expanded", (value, value), (torch.stack(each), torch.stack(each)))


def mapped(rng: Generator, task: Task) -> None:
    """A batch through `torch.func.vmap`."""
    update, lists = _update(rng), _lists(rng, task, int(rng.integers(1, 6)), 12, ragged=False)
    scores, target, mask = (torch.stack(parts) for parts in zip(*lists, strict=True))
    gradient, value = torch.func.vmap(torch.func.grad_and_value(StructuredLoss(task, update)))(scores, target, mask)
    _equal("vmap", (value, gradient.flatten()), _alone(task, update, lists))


def threads(rng: Generator, task: Task) -> None:
    """A batch of as many items as are solved in threads: the same bits with one thread and with two."""
    if rng.random() < 0.95:  # it takes a quarter of a second
        return
    items = int(rng.integers(50, 2000))
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    scores = torch.randn((LONG // items + 1, items), generator=generator)
    target = (torch.rand(scores.shape, generator=generator) < 0.2).long()
    before, outputs = torch.get_num_threads(), []
    for number in (1, 2):
        torch.set_num_threads(number)
        leaf = scores.clone().requires_grad_()
        value = structured_loss(task, PositiveDirect(1.0), leaf, target, reduction="none")
        outputs.append((value.detach(), torch.autograd.grad(value.sum(), leaf)[0]))
    torch.set_num_threads(before)
    if not all(torch.equal(one, other) for one, other in zip(*outputs, strict=True)):
        raise AssertionError("one thread and two threads differ")


def memory(rng: Generator, task: Task) -> None:
    """A `ScoreMemory` over some steps, beside the list that one remembers oneself."""
    ((_, target, _),) = _lists(rng, task, 1, 40, ragged=True)
    samples, update = len(target), _update(rng)
    loss = StructuredLoss(task, update)
    remembered = ScoreMemory(loss, target.clone()).double()
    scores, seen = torch.zeros(samples, dtype=torch.float64), torch.zeros(samples, dtype=torch.bool)
    for _ in range(4):
        items = torch.from_numpy(rng.integers(0, samples, int(rng.integers(1, samples + 1))))
        batch = torch.from_numpy(rng.normal(size=len(items)))
        if rng.random() < 0.2:
            target[int(rng.integers(samples))] = target[int(rng.integers(samples))]
            remembered.target.copy_(target)
        for item, score in zip(items.tolist(), batch.tolist(), strict=True):
            scores[item], seen[item] = score, True
        value = remembered(batch.requires_grad_(), items)
        want = structured_loss(task, update, scores, target, seen)
        _equal("memory", (value.detach(), remembered.scores), (want, scores))


LAYOUTS: dict[str, Callable[[Generator, Task], None]] = {
    one.__name__: one for one in (flat, strided, expanded, mapped, threads, memory)
}


def try_layout(rng: Generator, tasks: Sequence[Task]) -> tuple[str, str | None]:
    """Try one way with one task; return its name, and what is wrong if something is."""
    name, task = str(rng.choice(list(LAYOUTS))), tasks[int(rng.integers(len(tasks)))]
    try:
        LAYOUTS[name](rng, task)
    except Exception as error:
        return name, f"{name} of {task!r}: {type(error).__name__}: {str(error)[:600]}"
    return name, None
