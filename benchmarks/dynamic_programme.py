"""The paper's dynamic programme for average precision: the readable twin of `directloss.kernels.average_precision`.

It takes O(PM) time and memory, for a weight of either sign. Tests hold the fast oracles to it, benchmarks show what
they save; nothing else calls it.
"""

import numpy as np
from numpy.typing import NDArray

from directloss.kernels import compiled

__all__ = ["average_precision_objective", "average_precision_reference"]


@compiled
def average_precision_reference(
    positives: NDArray[np.float64], negatives: NDArray[np.float64], weight: float
) -> NDArray[np.int64]:  # [P], [M] -> [P]
    """Solves argmax_y F(s, y) + weight·L(y) exactly in O(PM); returns c[i], the negatives above positive i.

    `positives` and `negatives` must be sorted in descending order. h[i, j] is the best value of an interleaving of the
    first i positives and the first j negatives, counting every pair and every precision inside this prefix. Its last
    item is either positive i, which has j negatives above it, or negative j, which has i positives above it.
    """
    P, M = positives.size, negatives.size
    sum_positives = np.concatenate((np.zeros(1), np.cumsum(positives)))
    sum_negatives = np.concatenate((np.zeros(1), np.cumsum(negatives)))
    h = np.zeros((P + 1, M + 1))
    last_is_positive = np.zeros((P + 1, M + 1), np.bool_)
    for i in range(P + 1):
        for j in range(M + 1):
            if i + j == 0:
                continue
            best = -np.inf
            if j > 0:
                best = h[i, j - 1] + (sum_positives[i] - i * negatives[j - 1]) / (P * M)
            if i > 0:
                pairs = (sum_negatives[j] - j * positives[i - 1]) / (P * M)
                value = h[i - 1, j] + pairs + weight / P * (1 - i / (i + j))
                if value > best:
                    best = value
                    last_is_positive[i, j] = True
            h[i, j] = best
    above = np.zeros(P, np.int64)
    i, j = P, M
    while i > 0:
        if last_is_positive[i, j]:
            i -= 1
            above[i] = j
        else:
            j -= 1
    return above


@compiled
def average_precision_objective(
    positives: NDArray[np.float64], negatives: NDArray[np.float64], above: NDArray[np.int64], weight: float
) -> float:  # [P], [M], [P] -> ()
    """F(s, y) + weight·L(y) of the ranking that puts above[i] negatives above positive i."""
    P, M = positives.size, negatives.size
    sums = np.concatenate((np.zeros(1), np.cumsum(negatives)))
    score, precision = 0.0, 0.0
    for i in range(P):
        c = above[i]
        score += (M - 2 * c) * positives[i] - (sums[M] - 2 * sums[c])
        precision += (i + 1) / (i + 1 + c)
    return score / (P * M) + weight * (1 - precision / P)
