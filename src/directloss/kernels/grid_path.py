"""Best paths, on grids and in directed acyclic graphs; scores may have any sign."""

import numpy as np
from numpy.typing import NDArray

from . import compiled

__all__ = ["dag_path", "grid_path"]


@compiled
def grid_path(
    scores: NDArray[np.float64],  # [B, H, W]
    valid: NDArray[np.bool_],  # [B, H, W]
    diagonal: bool,
    y: NDArray[np.float64],  # [B, H, W] of zeros; 1 is written on the path
) -> NDArray[np.bool_]:  # [B]
    """Find argmax of the sum of scores over paths from the first cell to the last, in O(H·W); return where one is.

    Paths go right, down, or diagonally right and down, through valid cells. The last cell is the one in the last row
    and the last column that have a valid cell. Of equal ways back, up wins over left, and left over diagonal.
    """
    exists = np.zeros(len(scores), np.bool_)
    value = np.empty((scores.shape[1] + 1, scores.shape[2] + 1))  # with a border above and to the left
    for b in range(len(scores)):
        value[0], value[:, 0] = -np.inf, -np.inf
        row, column = -1, -1
        for i in range(scores.shape[1]):
            for j in range(scores.shape[2]):
                before = max(value[i, j + 1], value[i + 1, j])
                if diagonal:
                    before = max(before, value[i, j])
                if i == j == 0:
                    before = 0.0
                if valid[b, i, j]:
                    row, column = max(row, i), max(column, j)
                    value[i + 1, j + 1] = before + scores[b, i, j]
                else:
                    value[i + 1, j + 1] = -np.inf
        i, j = row, column
        exists[b] = i >= 0 and value[i + 1, j + 1] > -np.inf
        if not exists[b]:
            continue
        y[b, i, j] = 1.0
        while i > 0 or j > 0:
            up, left = value[i, j + 1], value[i + 1, j]
            if diagonal and value[i, j] > max(up, left):
                i, j = i - 1, j - 1
            elif up >= left:
                i -= 1
            else:
                j -= 1
            y[b, i, j] = 1.0
    return exists


@compiled
def dag_path(
    scores: NDArray[np.float64],  # [B, E]
    valid: NDArray[np.bool_],  # [B, E]
    order: NDArray[np.int64],  # [E] of the edges: those into a node come before those out of it
    tails: NDArray[np.int64],  # [E]
    heads: NDArray[np.int64],  # [E]
    nodes: int,
    source: int,
    sink: int,
    y: NDArray[np.float64],  # [B, E] of zeros; 1 is written on the path
) -> NDArray[np.bool_]:  # [B]
    """Find argmax of the sum of scores over paths from source to sink, through valid edges, in O(E); where one is.

    Of equal ways into a node the first one in the order wins.
    """
    exists = np.zeros(len(scores), np.bool_)
    value, back = np.empty(nodes), np.empty(nodes, np.int64)
    for b in range(len(scores)):
        value[:] = -np.inf
        value[source] = 0.0
        for edge in order:
            through = value[tails[edge]] + scores[b, edge]
            if valid[b, edge] and through > value[heads[edge]]:
                value[heads[edge]], back[heads[edge]] = through, edge
        exists[b] = value[sink] > -np.inf
        node = sink
        while exists[b] and node != source:
            y[b, back[node]] = 1.0
            node = tails[back[node]]
    return exists
