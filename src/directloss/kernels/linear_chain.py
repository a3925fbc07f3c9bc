"""The Viterbi algorithm for linear chains, with a price on labels that differ from the target's."""

import numpy as np
from numpy.typing import NDArray

from . import compiled

__all__ = ["linear_chain_paths"]


@compiled
def linear_chain_paths(
    scores: NDArray[np.floating],  # [B, E, K, K], float32 or float64
    edges: NDArray[np.int64],  # [B] of every chain, from the first on
    target: NDArray[np.int64],  # [B, E + 1]
    prices: NDArray[np.float64],  # [W, B]
    largest: float,
    paths: NDArray[np.int64],  # [W, B, E + 1] written, up to the last edge's end
) -> bool:
    """Write argmax_y Σ_t scores[t, y_t, y_t+1] + price·Σ_t [y_t ≠ target_t] for every price and chain, in O(E·K²).

    value[w, t, j] is the best of all paths that end in label j at step t. The way back looks for its maximum again:
    that takes K comparisons a step, where remembering it would slow down each of the K² on the way there. Of equal
    labels the first one wins. Returns whether all scores of edges are at most the largest in magnitude.
    """
    labels = scores.shape[2]
    value = np.empty((len(prices), scores.shape[1] + 1, labels))
    for b in range(scores.shape[0]):
        for w in range(len(prices)):
            for j in range(labels):
                value[w, 0, j] = 0.0 if j == target[b, 0] else prices[w, b]
        for t in range(edges[b]):
            if not _at_most(scores[b, t].reshape(-1), largest):
                return False
            for w in range(len(prices)):
                following = value[w, t + 1]
                following[:] = -np.inf
                for i in range(labels):
                    row, before = scores[b, t, i], value[w, t, i]
                    for j in range(labels):
                        following[j] = max(following[j], before + row[j])
                for j in range(labels):
                    following[j] += 0.0 if j == target[b, t + 1] else prices[w, b]
        for w in range(len(prices)):
            label = value[w, edges[b]].argmax()
            paths[w, b, edges[b]] = label
            for t in range(edges[b] - 1, -1, -1):
                best, before = -np.inf, 0
                for i in range(labels):
                    through = value[w, t, i] + scores[b, t, i, label]
                    if through > best:
                        best, before = through, i
                paths[w, b, t] = label = before
    return True


@compiled
def _at_most(values: NDArray[np.floating], largest: float) -> bool:
    exceeded = 0
    for k in range(values.size):
        exceeded |= not abs(values[k]) <= largest  # NaN too
    return exceeded == 0
