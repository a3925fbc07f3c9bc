"""Functions on the host as torch operators: opaque to `torch.compile`, batched by `vmap`, on any device.

An operator takes scores, target and an optional mask, all (..., items), then plain numbers, and returns tensors whose
leading dimensions are the batch of lists. It may look at the numbers, and raise, where traced code cannot.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .checks import check_values

__all__ = ["operator", "valid_lists", "watched"]


def operator(
    name: str, schema: str, function: Callable[..., tuple[Tensor, ...]], fake: Callable[..., tuple[Tensor, ...]]
) -> Callable[..., tuple[Tensor, ...]]:
    """Register function, which gets CPU tensors, as the operator directloss::name; return what calls it.

    `fake` makes empty tensors of the right shapes and types on the device of scores.
    """
    qualified = f"directloss::{name}"

    def on_host(scores: Tensor, target: Tensor, mask: Tensor | None, *numbers: Any) -> tuple[Tensor, ...]:
        if scores.is_cpu:
            return function(scores, target, mask, *numbers)
        host = function(scores.cpu(), target.cpu(), None if mask is None else mask.cpu(), *numbers)
        return tuple(tensor.to(scores.device) for tensor in host)

    def batched(info: Any, dims: tuple[int | None, ...], *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        tensors = [
            value
            if value is None
            else value.expand(info.batch_size, *value.shape)
            if dim is None
            else value.movedim(dim, 0)
            for value, dim in zip(arguments[:3], dims[:3], strict=True)
        ]
        outputs = operation(*tensors, *arguments[3:])
        return outputs, (0,) * len(outputs)

    torch.library.define(qualified, schema)
    torch.library.impl(qualified, "CompositeExplicitAutograd", on_host)
    torch.library.register_fake(qualified, fake)
    torch.library.register_vmap(qualified, batched)
    operation = getattr(torch.ops.directloss, name).default

    def call(scores: Tensor, target: Tensor, mask: Tensor | None, *numbers: Any) -> tuple[Tensor, ...]:
        return (operation if watched(scores) else on_host)(scores, target, mask, *numbers)

    return call


def watched(scores: Tensor) -> bool:
    """Whether anything is there to see an operation: a compiler, a transform, a mode or a subclass of Tensor.

    If not, there are shorter ways: calling an operator's function itself saves the dispatcher's 25 µs, a sixth of a
    call on a list of 512.
    """
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
        or type(scores) is not Tensor
        or scores.is_meta
    )


def _valid_lists(scores: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    check_values(scores, target, mask)
    if mask is None:
        return scores.double().clone(), target != 0, torch.ones_like(scores, dtype=torch.bool)
    return scores.double().where(mask, 0.0), (target != 0) & mask, mask.clone()


def _fake_valid_lists(scores: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    positive = torch.empty_like(scores, dtype=torch.bool)
    return torch.empty_like(scores, dtype=torch.float64), positive, torch.empty_like(positive)


valid_lists = operator(
    "valid_lists",
    "(Tensor scores, Tensor target, Tensor? mask) -> (Tensor, Tensor, Tensor)",
    _valid_lists,
    _fake_valid_lists,
)
"""Checked lists as float64 scores, bool target and bool mask; masked items are 0 and False."""
