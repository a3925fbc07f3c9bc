"""What else people train on when they want average precision, written or wrapped here to be timed beside the loss."""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from directloss.experiments.methods import smooth_ap
from directloss.kernels.average_precision_reference import average_precision_reference

__all__ = ["reference_dp", "smooth_ap", "soft_ap"]


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
