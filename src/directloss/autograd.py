"""Where a loss meets autograd, compilers and transforms.

A task computes the gradient together with the value. `differentiable_values` attaches that gradient to the scores: the
value is locally linear in them, so its graph is one dot product with the gradient. Plain operations are at home in
compile, vmap, torch.func and double backward. They cost less than an autograd.Function, whose `setup_context` takes
30 µs.

A compiler or a transform cannot look inside a task, which may loop, branch on numbers or call NumPy. So it gets an
operator. The two operators here serve every task: they take tensors, and a number under which the task is registered.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Size, Tensor

from .checks import check_problems, needs_dispatch
from .update import TRUTH, Row, Weight

__all__ = ["attached", "differentiable_values", "register", "registered", "run_output"]


def differentiable_values(
    task: Any, row: Row, scores: Tensor, target: Tensor, mask: Tensor | None, summed: bool
) -> tuple[Tensor, Tensor]:
    """The value of every problem, with its gradient on scores, and which problems count in a mean.

    Where only their sum is asked for, it may come in their place: its graph is smaller.
    """
    dispatched = needs_dispatch(scores)
    if dispatched:
        check_problems(scores, target, mask, task.event_dims, task.mask_dims)
        weights = (_as_tensor(weight, scores) for weight in row)
        gradient, value, counted = _contrast(scores.detach(), target, mask, *weights, task.handle)
    else:
        gradient, value, counted = task.contrast(scores.detach(), target, row, mask)
        if summed and value.dim():
            return attached(scores, gradient, value.sum()), counted
    flat = scores if scores.dtype == gradient.dtype else scores.to(gradient.dtype)  # to() takes 3 µs even for nothing
    if task.event_dims > 1:
        flat, gradient = flat.flatten(-task.event_dims), gradient.flatten(-task.event_dims)
    values = torch.dot(flat, gradient) if flat.dim() == 1 else torch.linalg.vecdot(flat, gradient)  # for the graph
    if dispatched:  # for the value: exact, and not NaN where a masked item is
        values.detach().copy_(value)
    else:
        values.data = value  # the same, 10 µs faster
    return values, counted


def attached(scores: Tensor, gradient: Tensor, value: Tensor) -> Tensor:
    """A number, with its gradient at the scores."""
    flat = scores if scores.dtype == gradient.dtype else scores.to(gradient.dtype)
    if flat.dim() != 1:  # a view of what is flat costs 3 µs in the backward pass
        flat, gradient = flat.reshape(-1), gradient.reshape(-1)
    total = torch.dot(flat, gradient)
    total.data = value
    return total


def run_output(task: Any, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Features and loss of one output of a task, through the operator where that is needed."""
    check_problems(scores, target, mask, task.event_dims, task.mask_dims)
    if needs_dispatch(scores):
        return _output(scores.detach(), target, mask, _as_tensor(weight, scores), task.handle)
    return task.output(scores.detach(), target, weight, mask)


_tasks: WeakValueDictionary[int, Any] = WeakValueDictionary()
_handles = count()


def register(task: Any) -> int:
    """A number under which operators find the task, in this process."""
    handle = next(_handles)
    _tasks[handle] = task
    return handle


def registered(handle: int) -> Any:
    """The task of a number."""
    return _tasks[handle]


def _as_tensor(weight: Weight, scores: Tensor) -> Tensor | None:
    if weight is TRUTH:
        return None
    if isinstance(weight, Tensor):
        return weight.to(scores.device, torch.float64)
    return weight * torch.ones((), dtype=torch.float64, device=scores.device)  # a compiler then makes no constant of it


def _from_tensor(weight: Tensor | None) -> Weight:
    return TRUTH if weight is None else weight


def _contrast_on(
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None,
    away: Tensor | None,
    toward: Tensor | None,
    scale: Tensor,
    handle: int,
) -> tuple[Tensor, Tensor, Tensor]:
    row = Row(_from_tensor(away), _from_tensor(toward), scale)
    return tuple(_tasks[handle].contrast(scores, target, row, mask))


def _output_on(
    scores: Tensor, target: Tensor, mask: Tensor | None, weight: Tensor | None, handle: int
) -> tuple[Tensor, Tensor]:
    return tuple(_tasks[handle].output(scores, target, _from_tensor(weight), mask))


def _fake_output(
    scores: Tensor, target: Tensor, mask: Tensor | None, weight: Tensor | None, handle: int
) -> tuple[Tensor, Tensor]:
    features = torch.empty_like(scores, dtype=torch.promote_types(scores.dtype, torch.float32))
    return features, features.new_empty(_batch(scores.shape, handle))


def _fake_contrast(scores: Tensor, target: Tensor, mask: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    gradient, value = _fake_output(scores, target, mask, *rest[-2:])
    return gradient, value, torch.empty_like(value, dtype=torch.bool)


def _batch(shape: Size, handle: int) -> Size:
    return shape[: len(shape) - _tasks[handle].event_dims]


def _operator(name: str, schema: str, function: Any, fake: Any) -> Any:
    """Register a function of scores, target, mask, weights and a handle as the operator directloss::name."""
    qualified = f"directloss::{name}"
    torch.library.define(qualified, schema)
    torch.library.impl(qualified, "CompositeExplicitAutograd", function)
    torch.library.register_fake(qualified, fake)
    operation = getattr(torch.ops.directloss, name).default

    def batched(info: Any, dims: Sequence[int | None], *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """The mapped dimension becomes the first of the batch."""
        tensors = [_lead(tensor, dim, info.batch_size) for tensor, dim in zip(arguments[:3], dims[:3], strict=True)]
        handle = arguments[-1]
        batch = _batch(tensors[0].shape, handle)
        weights = [
            tensor
            if tensor is None or (dim is None and tensor.dim() == 0)
            else _each(_lead(tensor, dim, info.batch_size), batch)
            for tensor, dim in zip(arguments[3:-1], dims[3:-1], strict=True)
        ]
        outputs = operation(*tensors, *weights, handle)
        return outputs, (0,) * len(outputs)

    torch.library.register_vmap(qualified, batched)
    return operation


def _lead(tensor: Tensor | None, dim: int | None, size: int) -> Any:
    if tensor is None:
        return None
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _each(weight: Tensor, batch: Size) -> Tensor:
    """A weight for each of the mapped problems, or for each list of them, as one for every list."""
    return weight.reshape(*weight.shape, *[1] * (len(batch) - weight.dim())).expand(batch)


_contrast = _operator(
    "contrast",
    "(Tensor scores, Tensor target, Tensor? mask, Tensor? away, Tensor? toward, Tensor scale, int task)"
    " -> (Tensor, Tensor, Tensor)",
    _contrast_on,
    _fake_contrast,
)
_output = _operator(
    "output",
    "(Tensor scores, Tensor target, Tensor? mask, Tensor? weight, int task) -> (Tensor, Tensor)",
    _output_on,
    _fake_output,
)
