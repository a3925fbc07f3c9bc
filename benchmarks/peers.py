"""What else people train on, written or wrapped here to be timed beside the loss."""

from collections.abc import Callable

import numpy as np
import torch
from directloss_studies.methods import smooth_ap
from torch import Tensor

from benchmarks.dynamic_programme import average_precision_reference

__all__ = ["chain_loop", "reference_dp", "sequence_by_sequence", "smooth_ap", "soft_ap", "viterbi"]


def soft_ap() -> Callable[[Tensor, Tensor], Tensor] | None:
    """AP from the soft ranks of torchsort (Blondel et al., ICML 2020), if it is installed."""
    try:
        from torchsort import soft_rank  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        rank = soft_rank(-scores.unsqueeze(0), regularization_strength=0.1)[0, target]
        rank_among_positives = soft_rank(-scores[target].unsqueeze(0), regularization_strength=0.1)[0]
        return 1 - (rank_among_positives / rank).mean()

    return loss


def reference_dp(scores: Tensor, target: Tensor) -> np.ndarray:
    """The paper's dynamic programme: loss-augmented inference alone, without a gradient; O(PM) time and memory."""
    scores = scores.detach()
    positives = scores[target].sort(descending=True).values.double().numpy()
    negatives = scores[~target].sort(descending=True).values.double().numpy()
    return average_precision_reference(positives, negatives, 1.0)


def viterbi(scores: Tensor) -> Tensor:
    """The labels (..., steps) of the best paths for scores of edges (..., steps − 1, labels, labels)."""
    value = torch.zeros_like(scores[..., 0, 0, :])
    back = []
    for edge in scores.unbind(-3):
        value, before = (value.unsqueeze(-1) + edge).max(-2)
        back.append(before)
    path = [value.argmax(-1, keepdim=True)]
    for before in reversed(back):
        path.append(before.gather(-1, path[-1]))
    return torch.cat(path[::-1], -1)


def chain_loop(scores: Tensor, target: Tensor) -> Tensor:
    """The loss of `PositiveDirect(1.0)` on a linear chain in PyTorch operations, with a loop over the steps."""
    steps, labels = target.shape[-1], scores.shape[-1]

    def score(path: Tensor) -> Tensor:
        edges = (path[..., :-1] * labels + path[..., 1:]).unsqueeze(-1)
        return 2 / steps * scores.flatten(-2).gather(-1, edges).sum((-1, -2))

    with torch.no_grad():
        wrong = (torch.arange(labels) != target.unsqueeze(-1)) / 2
        shifted = scores + wrong[..., 1:, None, :]
        shifted[..., 0, :, :] += wrong[..., 0, :, None]
        away, toward = viterbi(shifted), viterbi(scores)
    loss = (away != target).float().mean(-1)
    return (score(away) + loss - score(toward)).mean()


def sequence_by_sequence(scores: Tensor, target: Tensor) -> Tensor:
    """`chain_loop`, one sequence after the other."""
    return torch.stack([chain_loop(each, labels) for each, labels in zip(scores, target, strict=True)]).mean()
