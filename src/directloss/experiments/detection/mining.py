"""Hard negatives: boxes without the class that a first classifier takes for it.

Most boxes of an image are easy, and a detector fails on the few that are not. The classifier is linear, by least
squares, so that every method gets the same boxes. It learns from the labels that training sees, wrong ones too.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["VERSION", "first_classifier", "hardest"]

VERSION = 1  # see `key_of`
RIDGE = 1e-3  # beside the mean square of a feature
ROWS = 1 << 15  # that are scored at once


def first_classifier(inputs: Tensor, target: Tensor) -> Tensor:
    """Weights (features,) by least squares; both classes count the same."""
    inputs = torch.cat([inputs.double(), inputs.new_ones(len(inputs), 1).double()], 1)
    share = torch.where(target, 0.5 / target.sum().clamp(min=1), 0.5 / (~target).sum().clamp(min=1)).double()
    square = inputs.T @ (inputs * share[:, None])
    square += RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=torch.float64)
    return torch.linalg.solve(square, inputs.T @ (share * (2.0 * target - 1.0)))[:-1].float()


@torch.inference_mode()
def hardest(rows: Any, candidates: NDArray[np.bool_], weights: Tensor, count: int) -> NDArray[np.int64]:
    """The places, in ascending order, of the candidates with the highest scores among the first rows (boxes, features).

    `rows` may be an array on disk: it is read in parts.
    """
    places, scores = np.empty(0, np.int64), np.empty(0, np.float32)
    for first in range(0, candidates.size, ROWS):
        mine = first + np.flatnonzero(candidates[first : first + ROWS])
        part = torch.from_numpy(np.array(rows[first : first + ROWS])).float() @ weights
        places, scores = np.append(places, mine), np.append(scores, part.numpy()[mine - first])
        if places.size > count:
            best = np.argpartition(-scores, count - 1)[:count]
            places, scores = places[best], scores[best]
    return np.sort(places)
