"""One ranking over all processes of a group, each of which holds a part of every list.

Scores are gathered, and every process computes the same loss of all of them. Its gradient reaches the scores of this
process only, times the number of processes: `DistributedDataParallel` takes the mean of the gradients of all processes,
and the mean of these is the gradient that one process with all the scores would have had.

It is imported on first use, as `flat` is.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from .checks import check_process_group

__all__ = ["gather"]


def _gather_lists(group: Any, scores: Tensor, *others: Tensor | None) -> list[Any]:
    """The scores of all processes behind each other in the last dimension, and so with the other tensors.

    What is None in all processes stays None; what is None in some is taken as all True there, as a mask is.
    """
    check_process_group(group)
    processes, here = dist.get_world_size(group), dist.get_rank(group)
    tensors = [scores, *others]
    header = torch.tensor(
        [scores.shape[-1], scores.dim(), scores.shape[:-1].numel(), *(tensor is not None for tensor in tensors)],
        device=scores.device,
    )
    headers = _gather_equal(header, group, processes)
    sizes = [int(one[0]) for one in headers]
    if len({tuple(one[1:3].tolist()) for one in headers}) > 1:
        shapes = [f"{int(one[0])} items in {int(one[2])} lists" for one in headers]
        raise ValueError(
            f"all processes must hold parts of the same lists; they hold {', '.join(shapes)}. Gather along the last "
            "dimension, or pass indexes."
        )
    found = []
    for k, tensor in enumerate(tensors):
        if not any(one[3 + k] for one in headers):
            found.append(None)
            continue
        whole = torch.ones_like(scores, dtype=torch.bool) if tensor is None else tensor
        parts = _gather_ragged(whole.detach(), sizes, group, processes)
        if k == 0:  # the value of the own part, with a gradient that is as many times larger
            parts[here] = scores + (processes - 1) * (scores - scores.detach())
        found.append(torch.cat(parts, -1))
    return found


gather = cast(Callable[..., list[Any]], torch.compiler.disable(_gather_lists))


def _gather_ragged(tensor: Tensor, sizes: list[int], group: Any, processes: int) -> list[Tensor]:
    """Tensors that differ in their last dimension only."""
    bits = tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor
    padded = torch.nn.functional.pad(bits, (0, max(sizes) - bits.shape[-1])).contiguous()
    parts = _gather_equal(padded, group, processes)
    return [part[..., :size].to(tensor.dtype) for part, size in zip(parts, sizes, strict=True)]


def _gather_equal(tensor: Tensor, group: Any, processes: int) -> list[Tensor]:
    parts = [torch.empty_like(tensor) for _ in range(processes)]
    dist.all_gather(parts, tensor, group=group)
    return parts
