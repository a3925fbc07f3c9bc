"""Hard negatives: boxes without the class that a first classifier takes for it.

Most boxes of an image are easy, and a detector fails on the few that are not. The classifier is linear, by least
squares, so that every method gets the same boxes. It learns from the labels that training sees, wrong ones too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["VERSION", "first_classifier", "hardest"]

VERSION = 2  # see `key_of`
RIDGE = 1e-3  # beside the mean square of a feature
ROWS = 1 << 11  # that are scored at once: they stay in the cache of a core


def first_classifier(inputs: Tensor, target: Tensor) -> Tensor:
    """Weights (features,) by least squares; both classes count the same."""
    inputs = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], 1)
    share = torch.where(target, 0.5 / target.sum().clamp(min=1), 0.5 / (~target).sum().clamp(min=1))
    square = (inputs.T @ (inputs * share[:, None])).double()
    square += RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=torch.float64)
    return torch.linalg.solve(square, (inputs.T @ (share * (2.0 * target - 1.0))).double())[:-1].float()


@torch.inference_mode()
def hardest(
    open_rows: Callable[[], Any], candidates: NDArray[np.bool_], weights: Tensor, count: int
) -> NDArray[np.int64]:
    """The places, in ascending order, of the candidates with the highest scores among the first rows (boxes, features).

    The rows may be on disk. They are opened for each part anew, so that no more than a part stays mapped.
    """
    scores = torch.empty(candidates.size)
    inputs = torch.empty(ROWS, len(weights))
    for first in range(0, candidates.size, ROWS):
        last = min(first + ROWS, candidates.size)
        inputs[: last - first] = torch.from_numpy(np.array(open_rows()[first:last]))
        scores[first:last] = inputs[: last - first] @ weights
    places = torch.from_numpy(np.flatnonzero(candidates))
    best = scores[places].topk(min(count, len(places)), sorted=False).indices
    return places[best].sort().values.numpy()
