"""Every validation of user input and every error text: name, what was expected, what was got, and a cure.

`check_scores` and `check_layout` need types and shapes only, so a compiler can trace them. Most others look at numbers.
They run inside operators (see `autograd.py`), where a compiler does not look.
"""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "SWAPPED",
    "check_batch",
    "check_binary",
    "check_chunk_count",
    "check_chunk_scores",
    "check_chunks",
    "check_classes",
    "check_count",
    "check_decayed",
    "check_embeddings",
    "check_epsilons",
    "check_finite",
    "check_function",
    "check_held_out",
    "check_ignore_index",
    "check_indexes",
    "check_is_task",
    "check_kind",
    "check_labels",
    "check_layers",
    "check_layout",
    "check_length",
    "check_list_task",
    "check_list_weight",
    "check_loss",
    "check_no_group",
    "check_not_negative",
    "check_one_shape",
    "check_parts",
    "check_positive",
    "check_problems",
    "check_process_group",
    "check_range",
    "check_rate",
    "check_reduction",
    "check_same_chunk",
    "check_same_scores",
    "check_scored",
    "check_scores",
    "check_shape",
    "check_share",
    "check_similarity",
    "check_state",
    "check_steps",
    "check_strength",
    "check_tensors",
    "check_warm_up",
    "check_weight",
    "check_window",
    "check_word",
    "looks_like_labels",
    "needs_dispatch",
    "raise_at_first",
]

REDUCTIONS = ("mean", "sum", "none")
LARGEST_SCORE = 1e300
STRENGTHS = 1e-100, 1e100
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def needs_dispatch(tensor: Tensor) -> bool:
    """Whether a compiler, a transform, a mode or a subclass of Tensor has to see what is done with a tensor.

    If so, an operation goes through torch's dispatcher, and nobody may look at numbers outside of an operator. If not,
    calling the function behind an operator saves the dispatcher's 25 µs, a sixth of a call on a list of 512.
    """
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or (type(tensor) is not Tensor and _dispatch(type(tensor)) is not _dispatch(Tensor))
        or tensor.is_meta
    )


def _dispatch(kind: Any) -> Any:
    return kind.__torch_dispatch__


def check_positive(name: str, value: float | Tensor) -> float | Tensor:
    """Return value as a float, or as a tensor without a graph, if every number in it is finite and above 0."""
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            raise TypeError(f"{name} must be of a floating-point type; got {value.dtype}. Pass {name}.float().")
        value = value.detach()
        if not needs_dispatch(value):
            inside = (value > STRENGTHS[0]) & (value < STRENGTHS[1])
            raise_at_first(
                ~inside, value, f"{name} must be finite and above 0, from 1e-100 to 1e100", "Start from 1.0."
            )
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} must be a number above 0, or a tensor with one number for each list; got {value!r} of type "
            f"{type(value).__name__}. Pass a float."
        )
    value = value if isinstance(value, Integral) else float(value)  # NumPy's float32 holds neither limit
    if not STRENGTHS[0] < value < STRENGTHS[1]:
        raise ValueError(f"{name} must be finite and above 0, from 1e-100 to 1e100; got {value!r}. Start from 1.0.")
    return float(value)


def check_window(above: float | Tensor, below: float | Tensor) -> None:
    """Both ends of a window are numbers, or tensors of one shape."""
    shapes = {end.shape for end in (above, below) if isinstance(end, Tensor) and end.dim()}
    if len(shapes) > 1:
        raise ValueError(
            f"above has shape {tuple(above.shape)} and below {tuple(below.shape)}; "  # pyright: ignore
            "both must have one number for each list."
        )


def check_weight(weight: float | Tensor) -> float | Tensor:
    """Return the weight of a loss-augmented inference, as a float or as a tensor without a graph."""
    if isinstance(weight, Tensor):
        if not weight.is_floating_point():
            raise TypeError(f"weight must be of a floating-point type; got {weight.dtype}. Pass weight.float().")
        return weight.detach()
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise TypeError(
            f"weight must be a number, or a tensor with one number for each list; got {weight!r} of type "
            f"{type(weight).__name__}. Pass a float."
        )
    if not -math.inf < weight < math.inf:
        raise ValueError(f"weight must be finite; got {weight!r}. For the ground truth call truth().")
    return float(weight)


def check_strength(name: str, value: float | Tensor, batch: torch.Size) -> None:
    """A weight or a scale is one finite number, or as many as the batch has lists."""
    if isinstance(value, Tensor):
        if value.shape not in (torch.Size(), batch):
            raise ValueError(
                f"{name} has shape {tuple(value.shape)} but the batch of lists has shape {tuple(batch)}. Pass an ε, "
                "margin or weight that is one number, or one for every list."
            )
        raise_at_first(~value.isfinite(), value, f"{name} must be finite", "Look for the division that made it.")
    elif not math.isfinite(value):
        raise ValueError(f"{name} must be finite; got {value!r}. For the ground truth there is TRUTH.")


def check_reduction(reduction: str) -> str:
    """Return reduction if it is one."""
    if reduction not in REDUCTIONS:
        names = ", ".join(map(repr, REDUCTIONS))
        raise ValueError(f"reduction must be one of {names}; got {reduction!r}. For one value per list pass 'none'.")
    return reduction


def check_parts(task: object, update: object) -> None:
    """A loss is made of a task and an update, instances both."""
    check_is_task(task)
    if isinstance(update, type) or not hasattr(update, "spec"):
        number = isinstance(update, int | float) and not isinstance(update, bool) and update > 0
        example = f"PositiveDirect({update if number else 1.0})"
        raise TypeError(f"update must be an instance such as {example}; got {update!r}. Pass update={example}.")


def check_is_task(task: object) -> None:
    """A task is an instance of one."""
    if isinstance(task, type) or not hasattr(task, "oracle"):
        cure = f"Pass update={task!r}" if hasattr(task, "spec") else "Pass task=AveragePrecision()"
        cure = f"Pass {task.__name__}()" if isinstance(task, type) and hasattr(task, "oracle") else cure
        raise TypeError(f"task must be an instance such as AveragePrecision(); got {task!r}. {cure}.")


def check_tensors(scores: Tensor, target: Tensor, mask: Tensor | None) -> None:
    """Scores, target and mask are tensors, and dense."""
    if (
        isinstance(scores, Tensor)
        and isinstance(target, Tensor)
        and scores.layout is target.layout is torch.strided
        and mask is None
        and not scores.is_nested
        and not target.is_nested
    ):
        return  # the usual case takes a microsecond
    for name, value in (("scores", scores), ("target", target), ("mask", mask)):
        if value is None and name == "mask":
            continue
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a tensor; got {type(value).__name__}. {_as_tensor(name, value)}")
        if value.is_nested:
            raise TypeError(f"{name} must be a dense tensor; got a nested one. Pass flat lists, with indexes=.")
        if value.layout is not torch.strided:
            raise TypeError(f"{name} must be a dense tensor; got one of {value.layout}. Pass {name}.to_dense().")


def _as_tensor(name: str, value: Any) -> str:
    """How to make a tensor of what is none."""
    some = value if isinstance(value, list | tuple) else getattr(value, "tolist", list)()
    some = some if isinstance(some, list | tuple) else [some]
    if any(isinstance(one, Tensor) and one.dim() for one in some):
        return "Concatenate the lists by torch.cat, and pass for every item the number of its list: indexes=."
    if any(isinstance(one, str) for one in some):
        return f"Pass 0 and 1: torch.as_tensor({name} == {some[0]!r})."
    return "Wrap it in torch.as_tensor."


def check_scores(scores: Tensor, event_dims: int) -> None:
    """Scores are a tensor of a floating-point type, with the dimensions of a problem."""
    if not isinstance(scores, Tensor):
        raise TypeError(f"scores must be a tensor; got {type(scores).__name__}. {_as_tensor('scores', scores)}")
    if not scores.is_floating_point():
        raise TypeError(
            f"scores must be raw scores of a floating-point type; got {scores.dtype}. Pass the network's logits, "
            "or scores.float()."
        )
    if scores.dim() < event_dims:
        if event_dims == 1:
            raise ValueError(
                "scores must have at least one dimension, the list; got a single number. If it is a batch of one row, "
                "write squeeze(-1) and not squeeze()."
            )
        raise ValueError(
            f"scores must have at least {event_dims} dimensions, those of one problem; got shape "
            f"{tuple(scores.shape)}. Leading dimensions are the batch."
        )


def check_problems(
    scores: Tensor, target: Tensor, mask: Tensor | None, event_dims: int, mask_dims: int | None
) -> torch.Size:
    """Types and devices of all three, and the shape of the mask, which is returned. The task checks the target."""
    check_tensors(scores, target, mask)
    swapped = target.is_floating_point() and not scores.is_floating_point() and not needs_dispatch(target)
    if swapped and not looks_like_labels(target):
        raise TypeError(f"scores have the type {scores.dtype} and target {target.dtype}. {SWAPPED}")
    check_scores(scores, event_dims)
    shape = scores.shape
    if mask_dims is not None:
        shape = shape[: len(shape) - event_dims + mask_dims]
    if mask is not None:
        if mask.dtype != torch.bool:
            raise TypeError(f"mask must be bool, True where an item is valid; got {mask.dtype}. Pass mask.bool().")
        if mask.shape != shape:
            raise ValueError(
                f"scores has shape {tuple(scores.shape)} but mask has shape {tuple(mask.shape)}; mask must have shape "
                f"{tuple(shape)}. Expand mask to it."
            )
        if mask.device != scores.device:
            raise ValueError(f"scores is on {scores.device} but mask on {mask.device}. Move them to one device.")
    if target.device != scores.device:
        raise ValueError(f"scores is on {scores.device} but target on {target.device}. Move them to one device.")
    return shape


def check_layout(
    task: Any, scores: Tensor, target: Tensor, mask: Tensor | None, dim: int = -1, indexes: Tensor | None = None
) -> None:
    """Refuse scores, dim and indexes that do not fit together, in the shapes that the user passed."""
    if scores.dim() < task.event_dims:
        check_scores(scores, task.event_dims)
    if dim != -1:
        _check_dim(scores, dim, indexes)
    if indexes is None and scores.dim() > 1 and dim in (-1, scores.dim() - 1):
        _check_lists_of_one(task, scores, target, mask)


def _check_lists_of_one(task: Any, scores: Tensor, target: Tensor, mask: Tensor | None) -> None:
    """A batch of lists of one item each, without a mask, is one list in the wrong shape."""
    if mask is not None or task.event_dims != 1 or task.lists_of_one:
        return
    shape = scores.shape
    if torch._C._get_tracing_state() is not None or shape[-1] != 1:  # jit.trace makes tensors of sizes
        return
    if target.shape == shape and shape.numel() > 1:
        raise ValueError(
            f"scores has shape {tuple(shape)}: {shape.numel()} lists of one item each. If they are one list, pass "
            "scores.squeeze(-1) and target.squeeze(-1). If each is a list, pass a mask."
        )


def check_dim(dim: int) -> int:
    """Return the dimension of the list if it is a number."""
    if isinstance(dim, bool) or not isinstance(dim, Integral):
        raise TypeError(f"dim must be an integer; got {dim!r}. For scores (samples, classes) pass dim=0.")
    return dim


def _check_dim(scores: Tensor, dim: int, indexes: Tensor | None) -> None:
    """The dimension of the list is one of scores. A flat tensor of several lists has none."""
    check_dim(dim)
    if not -scores.dim() <= dim < scores.dim():
        raise ValueError(
            f"dim must be from {-scores.dim()} to {scores.dim() - 1} for scores of shape {tuple(scores.shape)}; got "
            f"{dim}. It says which dimension is the list."
        )
    if indexes is not None:
        raise ValueError(f"pass dim or indexes, not both: indexes says which items are one list; got dim={dim}.")


def check_ignore_index(ignore_index: object) -> None:
    """A value of the target that is left out is a number."""
    if not isinstance(ignore_index, Real | Tensor):
        raise TypeError(
            f"ignore_index must be a number, a value of the target; got {ignore_index!r} of type "
            f"{type(ignore_index).__name__}."
        )


def check_length(items: int, longest: int) -> None:
    """A list is not longer than a kernel can number."""
    if items > longest:
        raise ValueError(f"a list may have at most {longest} items; got {items}. Split it into several lists.")


def check_finite(scores: Tensor, mask: Tensor | None) -> None:
    """Valid scores are finite, and small enough for sums of their differences to be so."""
    finite = scores.abs() <= LARGEST_SCORE if scores.dtype == torch.float64 else torch.isfinite(scores)
    if not finite.all():
        raise_at_first(
            ~finite if mask is None else mask & ~finite,
            scores,
            f"scores must be finite where valid, and at most {LARGEST_SCORE:g} in magnitude",
            "Mask the item out (mask=False), or look for the overflow or division that made it.",
        )


def check_list_task(name: str, task: Any, scores: Tensor, target: Tensor) -> None:
    """Lists of another shape need a task on lists, with one target an item."""
    if task.event_dims != 1 or target.shape != scores.shape:
        raise ValueError(
            f"{name} is for tasks on lists with a target of the shape of scores; {task!r} got scores of shape "
            f"{tuple(scores.shape)} and a target of shape {tuple(target.shape)}. Reshape them yourself."
        )


def check_indexes(scores: Tensor, indexes: Tensor) -> None:
    """One integer for every item."""
    if not isinstance(indexes, Tensor) or indexes.is_floating_point() or indexes.is_complex():
        kind = indexes.dtype if isinstance(indexes, Tensor) else type(indexes).__name__
        raise TypeError(
            f"indexes must be a tensor of integers, the id of the list of every item; got {kind}. Pass indexes.long(), "
            "or torch.as_tensor(indexes)."
        )
    if indexes.shape != scores.shape:
        cure = " Pass scores.squeeze(-1)." if scores.shape == (*indexes.shape, 1) else ""
        raise ValueError(
            f"scores has shape {tuple(scores.shape)} but indexes has shape {tuple(indexes.shape)}; both must have one "
            f"entry for every item.{cure}"
        )


def check_list_weight(weight: Tensor, values: Tensor) -> Tensor:
    """Return the weights of lists in a mean: one for every list, finite, at least 0."""
    if not isinstance(weight, Tensor) or weight.shape != values.shape:
        got, cure = type(weight).__name__, "Wrap it in torch.as_tensor."
        if isinstance(weight, Tensor):
            got = str(tuple(weight.shape))
            cure = (
                "With indexes there is one for each id, in ascending order; with process_group, for the lists of all "
                "processes. To weigh items there is no exact way; see docs/guide.md."
            )
        raise ValueError(
            f"weight must be a tensor with one number for every list, of shape {tuple(values.shape)}; got {got}. {cure}"
        )
    weight = weight.to(values.device, values.dtype)
    if not needs_dispatch(weight):
        wrong = ~((weight >= 0) & weight.isfinite())
        raise_at_first(wrong, weight, "weight must be finite and at least 0", "A weight of 0 leaves a list out.")
    return weight


def check_process_group(group: Any) -> None:
    """torch.distributed is there, and started."""
    if not torch.distributed.is_available():
        raise RuntimeError("process_group needs torch.distributed, which this build of torch does not have.")
    if not torch.distributed.is_initialized():
        raise RuntimeError(
            "process_group needs torch.distributed to be started. Call torch.distributed.init_process_group first, "
            "e.g. under torchrun; or leave process_group out to rank what this process holds."
        )
    if torch.distributed.get_rank(group) < 0:
        raise RuntimeError("this process is not in process_group. Pass a group that it is in.")


def check_kind(name: str, kind: str, kinds: Sequence[str]) -> str:
    """Return a kind if it is one of those that there are."""
    if kind not in kinds:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, kinds))}; got {kind!r}.")
    return kind


def check_similarity(similarity: str) -> str:
    """Return similarity if it is one."""
    if similarity not in ("cosine", "dot"):
        raise ValueError(f"similarity must be 'cosine' or 'dot'; got {similarity!r}.")
    return similarity


def check_embeddings(embeddings: Tensor, labels: Tensor, others: Tensor | None, other_labels: Tensor | None) -> None:
    """Embeddings (samples, dimensions) with one label each, and so those to search, if there are any."""
    if (others is None) != (other_labels is None):
        raise ValueError("ref_embeddings and ref_labels come together; got one of them.")
    for name, vectors, known in (("", embeddings, labels), ("ref_", others, other_labels)):
        if vectors is None or known is None:
            continue
        for word, value in (("embeddings", vectors), ("labels", known)):
            if not isinstance(value, Tensor):
                kind = type(value).__name__
                raise TypeError(f"{name}{word} must be a tensor; got {kind}. Wrap it in torch.as_tensor.")
        if vectors.dim() != 2 or not vectors.is_floating_point():
            raise ValueError(
                f"{name}embeddings must have shape (samples, dimensions) and a floating-point type; got "
                f"{tuple(vectors.shape)} of {vectors.dtype}."
            )
        if known.shape != vectors.shape[:1]:
            raise ValueError(
                f"{name}labels must have shape {tuple(vectors.shape[:1])}, one for each sample; got "
                f"{tuple(known.shape)}."
            )
        if not needs_dispatch(vectors) and not (finite := vectors.isfinite()).all():
            cure = "Look for the overflow or division that made it."
            raise_at_first(~finite, vectors, f"{name}embeddings must be finite", cure)
        if vectors.shape[1] != embeddings.shape[1]:
            raise ValueError(
                f"embeddings have {embeddings.shape[1]} dimensions but ref_embeddings have {vectors.shape[1]}."
            )


def check_count(name: str, value: int, least: int = 1) -> None:
    """A number of items is an integer and not too small."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        kind = type(value).__name__
        raise TypeError(f"{name} must be an integer, {least} or more; got {value!r} of type {kind}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}.")


def check_gains(gains: Any, names: tuple[str, ...], largest: float) -> str | tuple[float, ...]:
    """Return what grades are worth: a name, or one number for each grade."""
    if isinstance(gains, str) and gains in names:
        return gains
    try:
        numbers = () if isinstance(gains, str) else tuple(float(gain) for gain in gains)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) < 2 or not all(0 <= gain <= largest for gain in numbers):
        known = " or ".join(map(repr, names))
        raise ValueError(
            f"gains must be {known}, a number from 0 on for each grade, as (0, 1, 3), or a function of grades; got "
            f"{gains!r}."
        )
    return numbers


def check_not_negative(name: str, value: float) -> None:
    """A parameter of a metric is a finite number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, 0 or more; got {value!r} of type {type(value).__name__}.")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and 0 or more; got {value!r}. Start from 1.0.")


SWAPPED = "Are they swapped? Scores come first, then the target."


def looks_like_labels(values: Tensor) -> bool:
    """Whether numbers are 0 and 1 only."""
    return values.numel() > 1 and bool(((values == 0) | (values == 1)).all())


def check_shape(scores: Tensor, target: Tensor) -> None:
    """The target has the shape of scores, and a type that can be ordered."""
    if target.is_complex():
        raise TypeError(f"target must be bool, int or float; got {target.dtype}.")
    if target.shape != scores.shape:
        _refuse_shape(scores, target)


def _refuse_shape(scores: Tensor, target: Tensor) -> None:
    cure = "Reshape or expand target to the shape of scores."
    if scores.shape == (*target.shape, 1):
        cure = "Pass scores.squeeze(-1)."
    elif scores.shape == (*target.shape, 2):
        cure = "If each item has two scores, one for each class, pass scores[..., 1] - scores[..., 0]."
    raise ValueError(
        f"scores has shape {tuple(scores.shape)} but target has shape {tuple(target.shape)}; both must be "
        f"(..., items). {cure}"
    )


def check_classes(scores: Tensor, target: Tensor, mask: Tensor) -> None:
    """The target is the index of a class that is valid, for every item that has a valid class."""
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        cure = "Pass target.argmax(-1)" if target.shape == scores.shape else "Pass target.long()"
        raise TypeError(f"target must hold the index of a class; got {target.dtype}. {cure}.")
    if target.shape != scores.shape[:-1]:
        raise ValueError(
            f"scores has shape {tuple(scores.shape)} but target has shape {tuple(target.shape)}; for scores "
            f"(..., classes) target must have shape {tuple(scores.shape[:-1])}. Pass one index for every item, and "
            "scores with the classes last, e.g. scores.movedim(1, -1)."
        )
    classes, some = scores.shape[-1], mask.any(-1)
    outside = some & ((target < 0) | (target >= classes))
    raise_at_first(outside, target, f"target must hold classes from 0 to {classes - 1}", "Mask the item out.")
    if not classes:
        return
    chosen = mask.gather(-1, target.long().where(some, 0).unsqueeze(-1)).squeeze(-1)
    raise_at_first(some & ~chosen, target, "target must be a class that the mask leaves valid", "Unmask it.")


def check_binary(scores: Tensor, target: Tensor, mask: Tensor | None) -> None:
    """The target has the shape of scores, and is 0 or 1 where valid."""
    if target.is_complex():
        raise TypeError(f"target must be bool, int or float in {{0, 1}}; got {target.dtype}. Pass target.bool().")
    if target.shape != scores.shape:
        _refuse_shape(scores, target)
    if target.dtype == torch.bool:
        return
    wrong = target != (target != 0)
    if wrong.any():
        cure = "Threshold it, e.g. target > 0.5, or leave items out by mask= or ignore_index=."
        swapped = target.is_floating_point() and looks_like_labels(scores)
        raise_at_first(
            wrong if mask is None else mask & wrong,
            target,
            "target must hold only 0 and 1 where valid",
            f"Scores hold only 0 and 1. {SWAPPED}" if swapped else cure,
        )


def raise_at_first(wrong: Tensor, values: Tensor, expected: str, cure: str) -> None:
    """Raise a ValueError about the first of the wrong values, if there is one."""
    if wrong.any():
        index = tuple(wrong.nonzero()[0].tolist())
        where = "" if not index else f" at index {index[0] if len(index) == 1 else index}"
        raise ValueError(f"{expected}; got {values[index].item()}{where}. {cure}")


def check_share(name: str, value: object, zero: bool = False, one: bool = True) -> None:
    """A share of something lies between 0 and 1; whether it may be 0 or 1."""
    if not isinstance(value, int | float) or not (0 < value < 1 or (zero and value == 0) or (one and value == 1)):
        raise ValueError(
            f"{name} must be a share, {'at least' if zero else 'more than'} 0 and {'at most' if one else 'less than'} "
            f"1; got {value!r}."
        )


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


def check_one_shape(away: Tensor, toward: Tensor) -> None:
    """The scores of two outputs have one shape."""
    if away.shape != toward.shape:
        raise ValueError(
            f"away has scores of shape {tuple(away.shape)} but toward of shape {tuple(toward.shape)}; both must have "
            "one value per example. Score both outputs for the same batch."
        )


def check_warm_up(scores: Tensor, target: Tensor) -> None:
    """Binary cross-entropy takes 0 or 1 for every score."""
    numbers = not needs_dispatch(scores) and target.shape == scores.shape
    if target.shape != scores.shape or (numbers and not ((target == 0) | (target == 1)).all()):
        raise ValueError(
            "the warm-up is binary cross-entropy, which needs a target of 0 or 1 for every score; this target is of "
            "another kind. Pass a loss for it: WarmUp(loss, steps, first=...)."
        )


def check_steps(steps: int) -> int:
    """Return a number of steps if it is one."""
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 0:
        raise ValueError(f"steps must be an integer, 0 or more; got {steps!r}. A tenth of all steps will do.")
    return int(steps)


def check_layers(name: str, widths: object) -> None:
    """The widths of layers are integers, 1 or more, in a tuple or a list."""
    if not isinstance(widths, tuple | list):
        raise TypeError(f"{name} must be a tuple of widths of layers; got {widths!r}. For one layer pass (64,).")
    for width in widths:
        check_count(f"a width in {name}", width)


def check_rate(name: str, value: Any, zero: bool = False) -> None:
    """A step size or a weight decay is a finite number above 0, or one that may be 0."""
    number = isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < math.inf
    if not number or (value == 0 and not zero):
        raise ValueError(f"{name} must be a finite number, {'0 or more' if zero else 'more than 0'}; got {value!r}.")


def check_range(low_name: str, low: Any, high_name: str, high: Any) -> None:
    """Two numbers above 0, the first one less."""
    check_rate(low_name, low)
    check_rate(high_name, high)
    if low >= high:
        raise ValueError(f"{low_name} must be less than {high_name}; got {low!r} and {high!r}.")


def check_decayed(optimizer: Any, high: float) -> list[int]:
    """Return which groups of parameters decay; a step at the highest decay must leave weights their sign."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be one of torch.optim; got {optimizer!r}. Pass AdamW(network.parameters()).")
    groups = [group for group in optimizer.param_groups if group.get("weight_decay")]
    if not groups:
        raise ValueError(
            "the optimizer has no group of parameters with weight decay, so there is nothing to adapt. Make it with "
            "weight_decay=1.0, for example torch.optim.AdamW(network.parameters(), weight_decay=1.0)."
        )
    kind = type(optimizer)
    adds = kind.__module__.startswith("torch.optim") and kind not in (torch.optim.AdamW, torch.optim.SGD)
    if adds and not all(group.get("decoupled_weight_decay") for group in groups):
        raise ValueError(
            f"{kind.__name__} adds weight decay to the gradient, which it then rescales, so a larger decay is another "
            "loss. Take torch.optim.AdamW, or decoupled_weight_decay=True where there is such an option."
        )
    shrink = max(float(group["lr"]) / (1 - group.get("momentum", 0.0)) for group in groups) * high
    if shrink >= 1:
        raise ValueError(
            f"the weight decay may grow to `high`, {high:g}. With the learning rate of {kind.__name__} this would turn "
            f"weights around: steps of {shrink:g} times the weights. Pass a smaller learning rate, or "
            f"AdaptiveDecay(…, low={high / shrink / 100:.2g}, high={high / shrink / 3:.2g})."
        )
    return [place for place, group in enumerate(optimizer.param_groups) if group.get("weight_decay")]


def check_word(name: str, value: Any, words: tuple[str, ...]) -> None:
    """If it is a word, one of these."""
    if isinstance(value, str) and value not in words:
        raise ValueError(f"{name} may be {' or '.join(map(repr, words))}, or a value of another kind; got {value!r}.")


def check_state(state: Any, names: tuple[str, ...]) -> None:
    """A state to go on from."""
    if not isinstance(state, dict) or not set(names) <= state.keys():
        raise ValueError(f"state must be what state_dict gave, with {', '.join(names)}; got {state!r}.")


def check_function(name: str, value: Any) -> None:
    """What is called later."""
    if not callable(value):
        raise TypeError(f"{name} must be a function; got {type(value).__name__}. Pass for example {name}=lambda: ….")


def check_held_out(held: Any) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return scores, target, mask and indexes of held-out rows."""
    if not isinstance(held, tuple | list) or len(held) not in (2, 3, 4) or not isinstance(held[0], Tensor):
        raise TypeError(
            f"held_out must return scores and target, and perhaps mask and indexes; got {type(held).__name__}. "
            "Pass for example held_out=lambda: (network(x), y)."
        )
    scores, target, *rest = held
    mask, indexes = (*rest, None, None)[:2]
    return scores, target, mask, indexes


def check_labels(target: Tensor) -> None:
    """The labels of a training set: one for each sample."""
    if not isinstance(target, Tensor):
        raise TypeError(f"target must be a tensor; got {type(target).__name__}. Wrap it in torch.as_tensor.")
    if target.dim() != 1 or target.is_complex():
        raise ValueError(
            f"target must have shape (samples,), one label for every training sample; got {tuple(target.shape)} of "
            f"{target.dtype}. Of several classes, take one at a time."
        )


def check_batch(scores: Tensor, items: Tensor) -> None:
    """Scores (batch,) with the index of the sample of each."""
    check_scores(scores, 1)
    if not isinstance(items, Tensor) or (items.dtype not in INTEGERS and items.numel()):
        kind = items.dtype if isinstance(items, Tensor) else type(items).__name__
        raise TypeError(f"items must be a tensor of integers, the index of every sample; got {kind}.")
    if scores.dim() != 1 or items.shape != scores.shape:
        raise ValueError(
            f"scores has shape {tuple(scores.shape)} and items has shape {tuple(items.shape)}; both must have shape "
            "(batch,). Of scores (batch, 1) pass scores.squeeze(-1)."
        )


def check_chunks(chunks: object) -> None:
    """Chunks are gone through twice, so a function gives them."""
    if not callable(chunks):
        raise TypeError(
            "chunks must be a function that returns the chunks, because it is called twice; got "
            f"{type(chunks).__name__}. Pass lambda: chunks."
        )


def check_chunk_scores(scores: Tensor) -> Tensor:
    """Return what a network gives for a chunk if it is a tensor of scores."""
    if not isinstance(scores, Tensor) or scores.dim() == 0:
        got = "a single number" if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"the network must give the scores of a chunk, a tensor (items, ...); got {got}.")
    return scores


def check_chunk_count(first: int, second: int) -> None:
    """There are chunks, and the second pass has as many as the first."""
    if not first:
        raise ValueError("chunks() gave no chunks.")
    if first != second:
        raise ValueError(
            f"chunks() gave {first} chunks in the first pass, and another number in the second. It must return all "
            "chunks each time: a list, or a new iterator."
        )


SHUFFLED = (
    "chunks() must return the same chunks in the same order, without shuffling. Call zero_grad before you go on: some "
    "gradients are already added."
)


def check_same_chunk(first: Sequence[Tensor], second: Sequence[Tensor]) -> None:
    """A chunk has the same rows in both passes, by a sum of each."""
    same = len(first) == len(second) and all(
        one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-5, equal_nan=True)
        for one, other in zip(first, second, strict=True)
    )
    if not same:
        raise ValueError(f"a chunk has other rows in the second pass, so its gradient would be wrong. {SHUFFLED}")


def check_same_scores(first: Tensor, second: Tensor, spread: float) -> None:
    """A chunk has the same scores in both passes, but for rounding."""
    within = {"rtol": 4 * torch.finfo(first.dtype).eps, "atol": 0.01 * spread + 1e-6, "equal_nan": True}
    if first.shape != second.shape or not torch.isclose(first, second, **within).all():
        raise ValueError(
            f"the scores of a chunk differ between the two passes, so its gradient would be wrong. {SHUFFLED}"
        )


def check_epsilons(epsilons: Any) -> list[float]:
    """Return one or several ε as a list."""
    if isinstance(epsilons, Tensor) and epsilons.dtype == torch.bool:
        raise TypeError("epsilons must be numbers above 0; got a tensor of bool. Pass a mask by its name: mask=mask.")
    if isinstance(epsilons, Real) or (isinstance(epsilons, Tensor) and epsilons.dim() == 0):
        epsilons = [epsilons]
    numbers = [float(check_positive("epsilon", epsilon)) for epsilon in epsilons]
    if not numbers:
        raise ValueError("epsilons must have at least one number; got none. Leave it out for the usual ones.")
    return numbers


def check_loss(loss: Any) -> Any:
    """Return what a wrapper wraps, if it is a loss and not a class of them."""
    if isinstance(loss, type) or not callable(loss):
        example = f"{loss.__name__}()" if isinstance(loss, type) else "AveragePrecisionLoss()"
        raise TypeError(f"loss must be an instance such as {example}; got {loss!r}. Pass {example}.")
    return loss


def check_no_group(loss: Any) -> None:
    """A memory gathers the batch of all processes itself."""
    modules = loss.modules() if isinstance(loss, torch.nn.Module) else ()
    if any(getattr(module, "process_group", None) is not None for module in modules):
        raise ValueError("the loss has a process_group. Pass it to ScoreMemory, and leave it out of the loss.")
