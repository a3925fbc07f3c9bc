"""One ranking over all processes of a group, each of which holds a part of every list.

Scores are gathered, and every process computes the same loss of all of them. Its gradient reaches the scores of this
process only, times the number of processes: `DistributedDataParallel` takes the mean of the gradients of all processes,
and the mean of these is the gradient that one process with all the scores would have had.

It is imported on first use, as `flat` is.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from .checks import check_process_group

__all__ = ["gather"]

FLOATS = torch.float16, torch.bfloat16, torch.float32, torch.float64
DTYPES = torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *FLOATS
MOST = 8  # dimensions of a batch that are compared one by one
SENT_AS = {torch.bool: torch.uint8, torch.int16: torch.int32}  # what gloo cannot send


def _gather_lists(group: Any, scores: Tensor, *others: Tensor | None) -> list[Any]:
    """The scores of all processes behind each other in the last dimension, and so with the other tensors.

    What is None in all processes stays None; a mask that is None in some is all True there. If types differ, all
    processes get a type for all of them. A process without items may have any type.
    """
    check_process_group(group)
    processes, here = dist.get_world_size(group), dist.get_rank(group)
    tensors = [scores, *others]
    batch = tuple(scores.shape[:-1])
    padded = [*batch[:MOST], *[0] * (MOST - len(batch))]  # headers have one length
    header = [scores.shape[-1], len(batch), math.prod(batch), *padded, *map(_dtype_code, tensors)]
    headers = [one.tolist() for one in _gather_equal(torch.tensor(header, device=scores.device), group, processes)]
    sizes, codes = [one[0] for one in headers], [one[3 + MOST :] for one in headers]
    if len({tuple(one[1 : 3 + MOST]) for one in headers}) > 1:
        held = ", ".join(f"{one[0]} items in lists {tuple(one[3 : 3 + one[1]])}" for one in headers)
        raise ValueError(
            f"all processes must hold parts of the same lists; they hold {held}. Gather along the last dimension, or "
            "pass indexes."
        )
    gathered = []
    for k, tensor in enumerate(tensors):
        dtype = _common_dtype([one[k] for one in codes], sizes)
        if dtype is None:
            gathered.append(None)
            continue
        whole = torch.ones_like(scores, dtype=torch.bool) if tensor is None else tensor
        parts = _gather_ragged(whole.detach().to(dtype), sizes, group, processes)
        if k == 0:  # the value of the own part, with a gradient that is as many times larger
            parts[here] = (scores + (processes - 1) * (scores - scores.detach())).to(dtype)
        gathered.append(torch.cat(parts, -1))
    return gathered


def _dtype_code(tensor: Tensor | None) -> int:
    """A number for the type of a tensor; −1 for none, −2 for one that cannot be gathered."""
    return -1 if tensor is None else DTYPES.index(tensor.dtype) if tensor.dtype in DTYPES else -2


def _common_dtype(codes: list[int], sizes: list[int]) -> torch.dtype | None:
    """One type for the tensors of all processes, given the codes of theirs. All get the same error."""
    codes = [code for code, items in zip(codes, sizes, strict=True) if items] or codes
    if set(codes) == {-1}:
        return None
    if -2 in codes:
        raise TypeError(
            "what processes rank together must be bool, integer or floating-point; one of them passed another type. "
            "Convert it, e.g. target.bool()."
        )
    dtypes = {DTYPES[code] for code in codes if code >= 0}
    dtype = reduce(torch.promote_types, dtypes)
    if -1 in codes and dtype != torch.bool:
        raise ValueError(
            f"some processes passed a tensor of {dtype} and others None in its place. Only a mask may be None in some "
            "processes: pass indexes in all of them or in none."
        )
    if dtype.is_floating_point and not dtypes <= {torch.bool, *FLOATS}:
        return torch.float64  # float32 does not hold large integers
    return dtype


gather = cast(Callable[..., list[Any]], torch.compiler.disable(_gather_lists))


def _gather_ragged(tensor: Tensor, sizes: list[int], group: Any, processes: int) -> list[Tensor]:
    """Tensors that differ in their last dimension only."""
    sent = tensor.to(SENT_AS.get(tensor.dtype, tensor.dtype))
    padded = torch.nn.functional.pad(sent, (0, max(sizes) - sent.shape[-1])).contiguous()
    parts = _gather_equal(padded, group, processes)
    return [part[..., :size].to(tensor.dtype) for part, size in zip(parts, sizes, strict=True)]


def _gather_equal(tensor: Tensor, group: Any, processes: int) -> list[Tensor]:
    parts = [torch.empty_like(tensor) for _ in range(processes)]
    dist.all_gather(parts, tensor, group=group)
    return parts
