"""How lists reach kernels: one front for every task whose kernels take arrays.

All checks come first. Then scores and target become flat arrays, one list behind the other, and are solved part by
part: some lists of about one length, together small enough for a core's cache. Long batches are solved in threads.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import LARGEST_SCORE, check_binary, check_finite, check_length, check_problems, check_strength
from ..groups import Groups, parts
from ..host import beside, to_host
from ..task import Contrast, Output, Task
from ..update import TRUTH, Truth, UpdateSpec, Weight

__all__ = ["ArrayTask", "DenseLists", "KernelTask", "PackedLists", "Weights", "any_item", "as_array", "binary"]

PART = 1 << 16  # items that are solved together
THREADED = 1 << 19  # items from which on threads help


class PackedLists(NamedTuple):
    """All lists of a call, and the arrays for the answer."""

    scores: NDArray[np.float32]
    """(items,) list by list."""
    target: NDArray[Any]
    """(items,) what the task makes of it."""
    valid: NDArray[np.bool_] | None
    """(items,) or None where all are."""
    exact: NDArray[np.float64] | None
    """(items,) the scores, or None where float32 holds them."""
    starts: NDArray[np.int64]
    """(lists + 1,) where each list starts."""
    shape: tuple[int, ...]
    """Of one problem, if all have one."""
    outputs: tuple[int, int]
    """Which outputs: `AUGMENTED`, `OF_TRUTH` or `NOTHING`."""
    down: bool
    """Whether a weight is below 0."""
    numbers: NDArray[np.float64]
    """(lists, 6) the weights of both outputs, the scale; then written: F(away) − F(toward), both losses."""
    gradient: NDArray[np.floating]
    """(items,) written."""
    counted: NDArray[np.bool_]
    """(lists,) written: which lists count."""
    check_finite: Callable[[], None]
    """Raises an error if a valid score is not finite."""


class KernelTask(Task):
    """A task whose outputs are found by kernels. A subclass writes `solve_part`."""

    @abstractmethod
    def solve_part(self, problems: PackedLists, which: NDArray[np.int64], longest: int) -> None:
        """Solve some lists, none of them longer than `longest`: write gradient, numbers and counted."""

    def labels(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> NDArray[Any]:
        """The target as `check_target` makes it, as an array."""
        some = torch.ones((), dtype=torch.bool, device="cpu").expand(scores.shape) if mask is None else mask
        return as_array(self.check_target(scores, target, some))

    def contrast(
        self, scores: Tensor, target: Tensor, spec: UpdateSpec, mask: Tensor | None = None, groups: Groups | None = None
    ) -> Contrast:
        """Contrast both outputs at once, by a kernel."""
        gradient, counted, numbers = self._solve_lists(scores, target, mask, spec, groups)
        value = np.empty(counted.shape, gradient.dtype)
        _kernels().write_values(numbers, value.reshape(-1))
        return Contrast(*beside(scores, gradient, value, counted))

    def output(
        self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None, groups: Groups | None = None
    ) -> Output:
        """One output."""
        features, counted, numbers = self._solve_lists(scores, target, mask, (weight, None, 1.0), groups)
        loss = numbers[:, 4].astype(features.dtype).reshape(counted.shape)
        return Output(*beside(scores, features, loss, counted))

    def _solve_lists(
        self,
        scores: Tensor,
        target: Tensor,
        mask: Tensor | None,
        spec: tuple[Weight, Weight | None, float | Tensor],
        groups: Groups | None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.float64]]:
        """The gradient of all items, which lists count, and the numbers of each list, see `PackedLists`."""
        shape = check_problems(scores, target, mask, self.event_dims, None)
        if not scores.is_cpu:
            scores, target, mask = to_host(scores, target, mask)
        batch, event = shape[: len(shape) - self.event_dims], shape[len(shape) - self.event_dims :]
        if groups is None:
            starts = np.arange(batch.numel() + 1) * event.numel()
        else:
            starts, batch = groups.starts, torch.Size([groups.starts.size - 1])
        single = scores if scores.dtype is torch.float32 else scores.to(torch.float32)
        exact = scores.numpy() if scores.dtype is torch.float64 else None
        labels, valid = self.labels(scores, target, mask), None if mask is None else mask.numpy()
        order = None if groups is None else groups.order
        flat: Any = (None if one is None else _flat(one, order) for one in (single.numpy(), labels, valid, exact))
        items, labels, valid, exact = flat
        numbers, outputs, down = _numbers(spec, batch)
        gradient = np.zeros(shape.numel(), np.float32 if exact is None else np.float64)
        counted = np.zeros(batch.numel(), np.bool_)
        finite = partial(check_finite, scores, mask)
        problems = PackedLists(
            items, labels, valid, exact, starts, event, outputs, down, numbers, gradient, counted, finite
        )  # fmt: skip
        todo = list(parts(np.diff(starts), PART) if groups else _rows(counted.size, event.numel()))
        check_length(todo[-1][1] if todo else 0, _kernels().LONGEST_LIST)
        work = partial(self.solve_part, problems)
        threads = min(torch.get_num_threads(), len(todo)) if gradient.size >= THREADED else 1
        if threads > 1:
            pool = ThreadPoolExecutor(threads)
            try:
                list(pool.map(work, *zip(*todo, strict=True)))
            except BaseException:  # Ctrl-C need not wait for long lists
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            pool.shutdown()
        else:
            for some in todo:
                work(*some)
        if order is not None:
            gradient = np.empty_like(gradient)
            gradient[order] = problems.gradient
        return gradient.reshape(shape), counted.reshape(batch), numbers


def _flat(array: NDArray[Any], order: NDArray[np.int64] | None) -> NDArray[Any]:
    """All items, list by list, one behind the other in memory."""
    return array.reshape(-1)[order] if order is not None else np.ascontiguousarray(array).reshape(-1)


def _rows(lists: int, items: int) -> Iterator[tuple[NDArray[np.int64], int]]:
    """`parts` of lists that all have so many items."""
    step = max(1, PART // max(items, 1))
    for first in range(0, lists if items else 0, step):
        yield np.arange(first, min(first + step, lists)), items


class DenseLists(NamedTuple):
    """Some lists of a batch, padded to one length."""

    scores: NDArray[np.float64]  # [b, N], 0 where masked
    target: NDArray[Any]  # [b, N] what `check_target` made of it
    valid: NDArray[np.bool_] | None  # [b, N], or None where all are
    counted: NDArray[np.bool_]  # [b]


Weights = NDArray[np.float64] | Truth | None
"""Which output of every list: argmax F + weight·L, [b], the truth, or none."""


class ArrayTask(KernelTask):
    """A task whose kernels take lists as rows of arrays. A subclass writes `solve`."""

    @abstractmethod
    def solve(
        self, lists: DenseLists, away: Weights, toward: Weights, factor: NDArray[np.float64], gradient: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Write factor·(features(away) − features(toward)); return F(away) − F(toward) and both losses, [3, b].

        Without toward, one output alone. Lists that do not count get 0.
        """

    def solve_part(self, problems: PackedLists, which: NDArray[np.int64], longest: int) -> None:
        """Put lists into rows, and write the answer back."""
        starts, shape = problems.starts, (which.size, longest)
        given: list[Any] = [problems.scores if problems.exact is None else problems.exact, *problems[1:3]]
        places: Any
        scores: Any
        target: Any
        first, lengths = starts[which], starts[which + 1] - starts[which]
        places, inside = slice(first[0], first[-1] + longest), None
        if lengths.min() < longest or first[-1] - first[0] != (which.size - 1) * longest:  # they are no rows yet
            inside = np.arange(longest) < lengths[:, None]
            places = np.where(inside, first[:, None] + np.arange(longest), first[:, None])
        scores, target, valid = (None if one is None else one[places].reshape(shape) for one in given)
        scores, gradient = scores.astype(np.float64), problems.gradient[places].reshape(shape)
        if inside is not None:
            target[~inside] = 0
            valid = inside if valid is None else valid & inside
        if valid is not None:
            scores[~valid] = 0.0
        if not (scores.max() <= LARGEST_SCORE and scores.min() >= -LARGEST_SCORE):  # nor for NaN
            problems.check_finite()
        event = which.size, *(problems.shape if len(problems.shape) > 1 else (longest,))
        some = (
            torch.ones((), dtype=torch.bool, device="cpu").expand(event)
            if valid is None
            else torch.from_numpy(valid.reshape(event))
        )
        counted = self.is_scored(torch.from_numpy(target.reshape(event)), some).numpy()
        problems.counted[which] = counted
        away, toward = (
            problems.numbers[which, k] if output == AUGMENTED else TRUTH if output == OF_TRUTH else None
            for k, output in enumerate(problems.outputs)
        )
        lists = DenseLists(scores, target, valid, counted)
        problems.numbers[which, 3:] = self.solve(lists, away, toward, problems.numbers[which, 2], gradient).T
        if inside is not None:
            problems.gradient[places[inside]] = gradient[inside]


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A tensor on the host, as an array that shares its memory where it can."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy()  # NumPy has no bfloat16


def any_item(which: Tensor, dims: int) -> Tensor:
    """For every problem, whether any item is True."""
    return torch.from_numpy(np.asarray(as_array(which).any(tuple(range(-dims, 0))))).to(which.device)


def binary(scores: Tensor, target: Tensor, mask: Tensor | None) -> NDArray[np.bool_]:
    """A target of 0 and 1 as bool, with NumPy: an operation of torch takes several times as long in short lists."""
    if target.shape != scores.shape or target.is_complex():
        check_binary(scores, target, mask)
    values = as_array(target)
    positive = values if values.dtype == np.bool_ else values != 0
    if positive is not values and not (positive == values).all():
        check_binary(scores, target, mask)
    return positive


AUGMENTED, OF_TRUTH, NOTHING = 0, 1, 2  # as in kernels/lists.py


def _numbers(
    spec: tuple[Weight, Weight | None, float | Tensor], batch: torch.Size
) -> tuple[NDArray[np.float64], tuple[int, int], bool]:
    """The numbers of a row for every list, 0 for what is no weight; which outputs they ask for; is a weight below 0."""
    numbers, outputs, down = np.zeros((batch.numel(), 6)), [AUGMENTED, AUGMENTED, AUGMENTED], False
    for k, value in enumerate(spec):
        if value is None or value is TRUTH:
            outputs[k] = NOTHING if value is None else OF_TRUTH
            continue
        check_strength("the scale of the update" if k == 2 else "weight", value, batch)
        if isinstance(value, Tensor):
            value = value.cpu().double().reshape(-1).numpy()
            down |= k < 2 and bool((value < 0).any())
        else:
            down |= k < 2 and value < 0
        numbers[:, k] = value
    return numbers, (outputs[0], outputs[1]), down


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.lists")  # on first use: importing numba takes half a second
