"""Monotone alignment: where in a recording each phone starts, given the phones and their order.

Outputs: T frames are cut into N segments, in order, each at least a frame long; segment i starts at frame start_i, the
first one at frame 0. Scores (..., T, N): how well frame t fits segment i. Target (..., N): the true starts. L = the
share of the N − 1 boundaries that are off by more than τ frames, as McAllester, Hazan and Keshet (2010) measure it; the
start of the first segment is no boundary. F = 2/((N − 1)(τ + 1))·Σ of the frames' scores for their segments: with that
scale argmax F + weight·L gives a boundary up where a mean margin of weight/2 over τ + 1 frames speaks for it.

L counts starts, but is linear in frames all the same: start_i = t where frame t is in segment i or a later one, and
frame t − 1 is not. So the plain aligner finds all outputs.

A mask (..., T, N) is True in a block: the first frames of the first segments; padding follows. A problem with one
segment has no boundary and does not count. Of equally good alignments the one with the earliest starts is taken.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import combinations
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from ..checks import raise_at_first
from ..families.linear_loss import LinearLossTask
from ..task import Output, Problem

__all__ = ["Alignment"]


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.alignment")  # on first use: importing numba takes half a second


@dataclass(frozen=True, repr=False)
class Alignment(LinearLossTask):
    """The share of boundaries that are off by more than `tolerance` frames. Every oracle is exact, O(T·N).

    >>> scores = torch.tensor([[1.0, 0.0], [0.6, 0.4], [0.6, 0.4], [0.0, 1.0]])  # four frames, two segments
    >>> starts = torch.tensor([0, 1])
    >>> Alignment(tolerance=1).infer(scores, starts).loss, Alignment(tolerance=2).infer(scores, starts).loss  # at 3
    (tensor(1.), tensor(0.))
    >>> Alignment(tolerance=1).infer_augmented(scores, starts, -0.5).loss  # a margin of 0.2 on one frame is given up
    tensor(0.)
    """

    tolerance: int = 1

    event_dims = 2
    exchangeable = False

    def __post_init__(self) -> None:
        if isinstance(self.tolerance, bool) or not isinstance(self.tolerance, int) or self.tolerance < 0:
            raise ValueError(f"tolerance must be a number of frames, 0 or more; got {self.tolerance!r}.")

    def __repr__(self) -> str:
        return f"Alignment(tolerance={self.tolerance})"

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        expected = (*scores.shape[:-2], scores.shape[-1])
        if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
            raise TypeError(f"target must hold frames, of an integer type; got {target.dtype}. Pass target.long().")
        if target.shape != expected:
            raise ValueError(
                f"scores of shape {tuple(scores.shape)}, (..., frames, segments), need a target of shape {expected}, "
                f"the start of every segment; got {tuple(target.shape)}."
            )
        frames, segments = _sizes(mask)
        block = _first(frames, mask.shape[-2]).unsqueeze(-1) & _first(segments, mask.shape[-1]).unsqueeze(-2)
        raise_at_first(
            mask != block, mask, "mask must be a block: the first frames of the first segments", "Pad behind."
        )
        cure = "Every segment needs a frame: mask segments out, or use shorter frames."
        raise_at_first(segments > frames, segments, "there must not be more segments than frames", cure)
        valid = _first(segments, mask.shape[-1])
        starts = target.long().where(valid, 0)
        follow = starts[..., 1:] > starts[..., :-1]
        wrong = torch.cat([starts[..., :1] != 0, ~follow], -1) & valid | (starts >= frames.unsqueeze(-1)) & valid
        raise_at_first(
            wrong, target, "target must hold starts: the first is 0, they rise, all are frames", "Sort them."
        )
        return starts

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        return _sizes(mask)[1] > 1

    def cost(self, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        segments = _sizes(mask)[1]
        frame = torch.arange(mask.shape[-2], device=mask.device).unsqueeze(-1)
        off = ((frame - target.unsqueeze(-2)).abs() > self.tolerance) & mask  # of a segment that starts at this frame
        off[..., :1] = False  # the first one is no boundary
        loss = off.double() / (segments - 1).clamp(min=1)[..., None, None]
        rest = torch.nn.functional.pad(loss[..., 1:, :], (0, 0, 0, 1))
        return loss.new_zeros(segments.shape), (loss - rest).cumsum(-1) * mask

    def scale(self, target: Tensor, mask: Tensor) -> Tensor:
        return 2 / ((_sizes(mask)[1] - 1).clamp(min=1).double() * (self.tolerance + 1))

    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        frames, segments = _sizes(mask)
        batch, shape = scores.shape[:-2], (scores.shape[:-2].numel(), *scores.shape[-2:])
        starts = np.full((shape[0], shape[-1]), shape[-2])  # behind the last frame, where masked
        sizes = (size.cpu().numpy().reshape(-1) for size in (frames, segments))
        _kernels().alignment_starts(scores.cpu().contiguous().numpy().reshape(shape), *sizes, starts)
        return _frames(torch.from_numpy(starts.reshape(*batch, -1)).to(scores.device), mask)

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """Every choice of N − 1 starts among the frames behind the first."""
        frames, segments = scores.shape
        starts = torch.tensor([(0, *rest) for rest in combinations(range(1, frames), segments - 1)])
        boundaries = max(segments - 1, 1)
        features = _frames(starts, torch.ones_like(scores, dtype=torch.bool)) * (segments > 1)
        off = (starts[:, 1:] - target[1:]).abs() > self.tolerance
        return Output(features * 2 / (boundaries * (self.tolerance + 1)), off.sum(-1).double() / boundaries)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        def number(least: int, most: int) -> int:
            return int(torch.randint(least, most + 1, (), generator=generator))

        segments = number(1, min(longest, 4))
        frames = number(segments, longest + 3)
        scores = torch.randn((frames, segments), generator=generator, dtype=torch.float64)
        mask = None
        if number(0, 1):
            inside = number(1, segments)
            mask = torch.zeros(scores.shape, dtype=torch.bool)
            mask[: number(inside, frames), :inside] = True
            frames = int(mask[:, 0].sum())
            segments = inside
        starts = torch.randperm(frames - 1, generator=generator)[: segments - 1].sort().values + 1
        target = torch.full((scores.shape[-1],), -1)
        target[:segments] = torch.cat([torch.zeros(1, dtype=torch.int64), starts])
        return Problem(scores, target, mask)


def _sizes(mask: Tensor) -> tuple[Tensor, Tensor]:
    """How many frames and segments are valid, in the shape of the batch."""
    return mask.any(-1).sum(-1), mask.any(-2).sum(-1)


def _first(count: Tensor, size: int) -> Tensor:
    """True for the first `count` of `size` places."""
    return torch.arange(size, device=count.device) < count.unsqueeze(-1)


def _frames(starts: Tensor, mask: Tensor) -> Tensor:
    """(..., T, N): 1 where a frame is in a segment, from its start to the next one."""
    frame = torch.arange(mask.shape[-2], device=mask.device).unsqueeze(-1)
    begun = (frame >= starts.unsqueeze(-2)).double()
    ended = torch.nn.functional.pad(begun[..., 1:], (0, 1))
    return (begun - ended) * mask
