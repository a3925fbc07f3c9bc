"""Every validation of user input and every error text: name, what was expected, what was got, and a cure.

What can be seen from shapes and types is checked by `check_lists`, which a compiler can trace; what needs the numbers
by `check_values`, which runs inside operators (see `operators.py`).
"""

import math
from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

__all__ = [
    "check_alike",
    "check_binary",
    "check_finite",
    "check_length",
    "check_lists",
    "check_parts",
    "check_positive",
    "check_reduction",
    "check_scored",
    "check_values",
    "check_weight",
]

REDUCTIONS = ("mean", "sum", "none")
LARGEST_SCORE = 1e300


def check_positive(name: str, value: float) -> float:
    """Return value as a float if it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number above 0; got {value!r} of type {type(value).__name__}. Pass a float.")
    if not 1e-100 < value < 1e100:
        raise ValueError(f"{name} must be finite and above 0, from 1e-100 to 1e100; got {value!r}. Start from 1.0.")
    return float(value)


def check_weight(weight: float) -> float:
    """Return the weight of a loss-augmented inference as a float if it is a finite number."""
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise TypeError(f"weight must be a number; got {weight!r} of type {type(weight).__name__}. Pass a float.")
    if not -math.inf < weight < math.inf:
        raise ValueError(f"weight must be finite; got {weight!r}. For the ground truth call truth().")
    return float(weight)


def check_reduction(reduction: str) -> str:
    """Return reduction if it is one."""
    if reduction not in REDUCTIONS:
        names = ", ".join(map(repr, REDUCTIONS))
        raise ValueError(f"reduction must be one of {names}; got {reduction!r}. For one value per list pass 'none'.")
    return reduction


def check_parts(task: object, update: object) -> None:
    """A loss is made of a task and an update, instances both."""
    for name, value, attribute, example in (
        ("task", task, "infer_augmented", "AveragePrecision()"),
        ("update", update, "row", "PositiveDirect(1.0)"),
    ):
        if isinstance(value, type) or not hasattr(value, attribute):
            raise TypeError(f"{name} must be an instance such as {example}; got {value!r}. Pass {name}={example}.")


def check_lists(scores: Tensor, target: Tensor, mask: Tensor | None) -> None:
    """Types, shapes and devices of a batch of lists."""
    for name, value in (("scores", scores), ("target", target), ("mask", mask)):
        if not isinstance(value, Tensor) and not (name == "mask" and value is None):
            raise TypeError(f"{name} must be a tensor; got {type(value).__name__}. Wrap it in torch.as_tensor.")
    if not scores.is_floating_point():
        raise TypeError(
            f"scores must be raw scores of a floating-point type; got {scores.dtype}. Pass the network's logits, "
            "or scores.float()."
        )
    if target.is_complex():
        raise TypeError(f"target must be bool, int or float in {{0, 1}}; got {target.dtype}. Pass target.bool().")
    if scores.dim() == 0:
        raise ValueError("scores must have at least one dimension, the list; got a single number. Pass a whole list.")
    if target.shape != scores.shape:
        raise ValueError(
            f"scores has shape {tuple(scores.shape)} but target has shape {tuple(target.shape)}; both must be "
            "(..., items). Reshape or expand target to the shape of scores."
        )
    if mask is not None:
        if mask.dtype != torch.bool:
            raise TypeError(f"mask must be bool, True where an item is valid; got {mask.dtype}. Pass mask.bool().")
        if mask.shape != scores.shape:
            raise ValueError(
                f"scores has shape {tuple(scores.shape)} but mask has shape {tuple(mask.shape)}; both must be "
                "(..., items). Expand mask to the shape of scores."
            )
    for name, value in (("target", target), ("mask", mask)):
        if value is not None and value.device != scores.device:
            raise ValueError(f"scores is on {scores.device} but {name} on {value.device}. Move them to one device.")


def check_length(items: int, longest: int) -> None:
    """A list is not longer than a kernel can number."""
    if items > longest:
        raise ValueError(f"a list may have at most {longest} items; got {items}. Split it into several lists.")


def check_values(scores: Tensor, target: Tensor, mask: Tensor | None) -> None:
    """Numbers of a batch of lists. Masked items may hold anything."""
    check_finite(scores, mask)
    check_binary(target, mask)


def check_finite(scores: Tensor, mask: Tensor | None) -> None:
    """Valid scores are finite, and small enough for sums of their differences to be so."""
    finite = scores.abs() <= LARGEST_SCORE if scores.dtype == torch.float64 else torch.isfinite(scores)
    if not finite.all():
        _refuse_first(
            ~finite if mask is None else mask & ~finite,
            scores,
            f"scores must be finite where valid, and at most {LARGEST_SCORE:g} in magnitude",
            "Mask the item out (mask=False), or look for the overflow or division that made it.",
        )


def check_binary(target: Tensor, mask: Tensor | None) -> None:
    """Valid targets are 0 or 1."""
    if target.dtype == torch.bool:
        return
    binary = (target == 0) | (target == 1)
    if not binary.all():
        _refuse_first(
            ~binary if mask is None else mask & ~binary,
            target,
            "target must hold only 0 and 1 where valid",
            "Threshold it, e.g. target > 0.5, or mask the item out.",
        )


def _refuse_first(wrong: Tensor, values: Tensor, expected: str, cure: str) -> None:
    if wrong.any():
        index = tuple(wrong.nonzero()[0].tolist())
        where = index[0] if len(index) == 1 else index
        raise ValueError(f"{expected}; got {values[index].item()} at index {where}. {cure}")


def check_scored(name: str, scored: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the score and the task loss of an output, the loss detached."""
    if not isinstance(scored, tuple | list) or len(scored) != 2:
        raise TypeError(f"{name} must be a pair (score, task loss); got {scored!r}. Pass ({name}_score, {name}_loss).")
    score, loss = scored
    if not isinstance(score, Tensor) or not score.is_floating_point():
        raise TypeError(
            f"{name}[0] must be a differentiable score, a floating-point tensor; got {score!r}. "
            "Pass what the network gives for this output."
        )
    loss = torch.as_tensor(loss, dtype=score.dtype, device=score.device).detach()
    if loss.shape not in (score.shape, torch.Size()):
        raise ValueError(
            f"{name} has a score of shape {tuple(score.shape)} but a task loss of shape {tuple(loss.shape)}; "
            "both must have one value per example. Pass L(y) of each example, not its mean."
        )
    return score, loss


def check_alike(away: Tensor, toward: Tensor) -> None:
    """The scores of two outputs have one shape."""
    if away.shape != toward.shape:
        raise ValueError(
            f"away has scores of shape {tuple(away.shape)} but toward of shape {tuple(toward.shape)}; both must have "
            "one value per example. Score both outputs for the same batch."
        )
