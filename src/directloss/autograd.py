"""Where a loss meets autograd, compilers and transforms.

A task computes the gradient together with the value. `differentiable` attaches that gradient to the scores: the value
is locally linear in them.

A compiler or a transform cannot look inside a task, which may loop, branch on numbers or call NumPy. So it gets an
operator, and plain operations for the gradient. The two operators here serve every task: they take tensors, and a
string that makes the task again, in another process too: its class and its parameters.
"""

import ast
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import count
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

import torch
from torch import Size, Tensor

from .checks import check_problems, needs_dispatch
from .groups import Groups
from .host import beside
from .update import TRUTH, UpdateSpec, Weight

__all__ = ["describe", "differentiable", "number", "register", "remember_description", "run_output"]


class _Value(torch.autograd.Function):
    """A value for each problem, whose gradient is known; for flat scores, `of` says which problem an item is in."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, contrast: tuple[Tensor, Tensor, Tensor | None]) -> Tensor:
        gradient, value, of = contrast
        ctx.save_for_backward(gradient, of)
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradient, of = ctx.saved_tensors
        if of is not None:
            upstream = upstream.index_select(0, of)
        elif upstream.dim():
            upstream = upstream.reshape(*upstream.shape, *[1] * (gradient.dim() - upstream.dim()))
        return upstream * gradient, None


def differentiable(
    task: Any, spec: UpdateSpec, scores: Tensor, target: Tensor, mask: Tensor | None, groups: Groups | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The value of every problem, attached to scores by its gradient, that gradient, and which problems count."""
    if not needs_dispatch(scores):
        gradient, value, counted = task.contrast(scores.detach(), target, spec, mask, groups)
        of = None if groups is None else beside(scores, groups.numbers)[0]
        if not scores.requires_grad:
            return value, gradient, counted
        scores = scores if scores.dtype == gradient.dtype else scores.to(gradient.dtype)
        return _Value.apply(scores, (gradient, value, of)), gradient, counted
    check_problems(scores, target, mask, task.event_dims, task.mask_dims)
    weights = (_as_tensor(weight, scores) for weight in spec)
    gradient, value, counted = _contrast(scores.detach(), target, mask, *weights, describe(task))
    values = (scores.to(gradient.dtype) * gradient).flatten(-task.event_dims).sum(-1)  # for the graph
    values.detach().copy_(value)  # for the value: exact, and not NaN where a masked item is
    return values, gradient, counted


def run_output(
    task: Any, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None, groups: Groups | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Features and loss of one output of a task, and which problems count, through the operator where needed."""
    check_problems(scores, target, mask, task.event_dims, task.mask_dims)
    if needs_dispatch(scores):
        return _output(scores.detach(), target, mask, _as_tensor(weight, scores), describe(task))
    return task.output(scores.detach(), target, weight, mask, groups)


_kinds: dict[str, type] = {}
"""All classes of tasks that can be found by module and name."""
_numbers = count()
_process = uuid4().hex[:8]
_tasks: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Tasks of this process by number, and by description where they have one."""
LONGEST = 10_000  # characters of a description; costs of a thousand classes take millions


def register(kind: type) -> None:
    """Let graphs name a class of tasks."""
    if "<" not in kind.__qualname__:
        _kinds[f"{kind.__module__}:{kind.__qualname__}"] = kind


def number(task: Any) -> str:
    """A number by which operators find the task, in this process."""
    name = f"#{_process}-{next(_numbers)}"
    _tasks[name] = task
    return name


def describe(task: Any) -> str:
    """What makes the task again: its class and its parameters; or its number, if they do not."""
    described = _recipe(task) if task._described is None else task._described
    if described:
        return described
    name = type(task).__qualname__
    if torch.compiler.is_exporting():
        raise TypeError(
            f"{name} cannot be exported: another process could not make this task again. Define its class in a module "
            "that can be imported, with a few numbers, strings and tuples as its parameters."
        )
    if task._number is None:
        raise TypeError(f"a {name} is made inside of compiled code. Make the task outside of it.")
    return task._number


def remember_description(task: Any) -> None:
    """Describe a task that cannot change before a compiler looks: it would take a parameter for a variable."""
    if torch.compiler.is_compiling():
        return
    kind = type(task)
    if task._described is None and _is_declared(kind) and kind.__dataclass_params__.frozen:  # pyright: ignore
        described = _recipe(task) or ""
        object.__setattr__(task, "_described", described)
        if described:
            _tasks[described] = task


def _recipe(task: Any) -> str | None:
    """Class and parameters, if they make the task again."""
    kind = type(task)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if kind.__module__ == "__main__" or _kinds.get(name) is not kind:
        return None
    if not torch.compiler.is_compiling() and _is_declared(kind):  # a compiler does not read the fields of a class
        parameters = {one.name: getattr(task, one.name) for one in fields(kind) if one.init}
    else:
        parameters = task.__getstate__()
    if not _is_plain(tuple(parameters.values())):
        return None
    described = f"{name}:{parameters!r}"
    return described if len(described) <= LONGEST else None


def _is_declared(kind: type) -> bool:
    """Whether a class is a dataclass itself, so that its fields are all that it has; a subclass may have more."""
    return "__dataclass_fields__" in vars(kind)


def _is_plain(value: Any) -> bool:
    """Whether `ast.literal_eval` makes a value again from its repr."""
    if type(value) is tuple:
        return all(_is_plain(one) for one in value)
    return value is None or type(value) in (bool, int, str) or (type(value) is float and value - value == 0)


def _find(described: str) -> Any:
    """The task of a description."""
    task = _tasks.get(described)
    if task is None and not described.startswith("#"):
        return _make(described)
    if task is None:
        raise RuntimeError("this graph holds a task of another process, or one that no longer exists. Trace it again.")
    return task


@lru_cache(maxsize=256)
def _make(described: str) -> Any:
    """Make the task again. A graph may come from anywhere, so nothing is imported for it."""
    module, name, parameters = described.split(":", 2)
    kind: Any = _kinds.get(f"{module}:{name}")
    if kind is None:
        raise RuntimeError(f"this graph needs the task {name} of the module {module}. Import that module first.")
    if _is_declared(kind):
        return kind(**ast.literal_eval(parameters))
    task = kind.__new__(kind)
    vars(task).update(ast.literal_eval(parameters))
    return task


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
    task: str,
) -> tuple[Tensor, Tensor, Tensor]:
    spec = UpdateSpec(_from_tensor(away), _from_tensor(toward), scale)
    return _contiguous(*_find(task).contrast(scores, target, spec, mask))


def _output_on(
    scores: Tensor, target: Tensor, mask: Tensor | None, weight: Tensor | None, task: str
) -> tuple[Tensor, Tensor, Tensor]:
    return _contiguous(*_find(task).output(scores, target, _from_tensor(weight), mask))


def _contiguous(features: Tensor, value: Tensor, counted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As `_fake` promises, whatever the strides of scores."""
    return features.contiguous(), value.contiguous(), counted.contiguous()


def _fake(scores: Tensor, target: Tensor, mask: Tensor | None, *weights_and_task: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What both operators return: a tensor like scores, a number for each problem, and which count."""
    features = scores.new_empty(scores.shape, dtype=torch.promote_types(scores.dtype, torch.float32))
    value = features.new_empty(_batch(scores.shape, weights_and_task[-1]))
    return features, value, torch.empty_like(value, dtype=torch.bool)


def _batch(shape: Size, task: str) -> Size:
    return shape[: len(shape) - _find(task).event_dims]


def _operator(name: str, schema: str, function: Any, fake: Any) -> Any:
    """Register a function of scores, target, mask, weights and a task as the operator directloss::name."""
    qualified = f"directloss::{name}"
    torch.library.define(qualified, schema)
    torch.library.impl(qualified, "CompositeExplicitAutograd", function)
    torch.library.register_fake(qualified, fake)
    operation = getattr(torch.ops.directloss, name).default

    def batched(info: Any, dims: Sequence[int | None], *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """The mapped dimension becomes the first of the batch."""
        tensors = [_lead(tensor, dim, info.batch_size) for tensor, dim in zip(arguments[:3], dims[:3], strict=True)]
        task = arguments[-1]
        batch = _batch(tensors[0].shape, task)
        weights = [
            tensor
            if tensor is None or (dim is None and tensor.dim() == 0)
            else _each(_lead(tensor, dim, info.batch_size), batch)
            for tensor, dim in zip(arguments[3:-1], dims[3:-1], strict=True)
        ]
        outputs = operation(*tensors, *weights, task)
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
    "(Tensor scores, Tensor target, Tensor? mask, Tensor? away, Tensor? toward, Tensor scale, str task)"
    " -> (Tensor, Tensor, Tensor)",
    _contrast_on,
    _fake,
)
_output = _operator(
    "output",
    "(Tensor scores, Tensor target, Tensor? mask, Tensor? weight, str task) -> (Tensor, Tensor, Tensor)",
    _output_on,
    _fake,
)
