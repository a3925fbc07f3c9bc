"""The best monotone alignment of frames to segments."""

import numpy as np
from numpy.typing import NDArray

from . import compiled

__all__ = ["alignment_starts"]


@compiled
def alignment_starts(
    scores: NDArray[np.float64],  # [B, T, N]
    frames: NDArray[np.int64],  # [B]
    segments: NDArray[np.int64],  # [B], at most frames
    starts: NDArray[np.int64],  # [B, N] written
) -> None:
    """Write where segments start: argmax Σ_t scores[t, segment(t)], in order, each at least a frame long, in O(T·N).

    value[t, i] is the best of all alignments in which frame t belongs to segment i. Of two equal ways the segment
    goes on to the left, so of all best alignments this one has the earliest starts.
    """
    value = np.empty(scores.shape[1:])
    for b in range(scores.shape[0]):
        last = segments[b] - 1
        for t in range(frames[b]):
            for i in range(min(t, last) + 1):
                stay = value[t - 1, i] if t > i else -np.inf
                enter = value[t - 1, i - 1] if i > 0 else -np.inf
                value[t, i] = scores[b, t, i] + (max(stay, enter) if t > 0 else 0.0)
        i = last
        for t in range(frames[b] - 1, 0, -1):
            if i > 0 and (t == i or value[t - 1, i] < value[t - 1, i - 1]):
                starts[b, i] = t
                i -= 1
        if last >= 0:
            starts[b, 0] = 0
