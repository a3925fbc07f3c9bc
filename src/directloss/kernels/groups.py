"""Items of a flat tensor, put list by list."""

import numpy as np
from numpy.typing import NDArray

from . import compiled

__all__ = ["arrange"]


@compiled
def arrange(
    ids: NDArray[np.int64],  # [n]
    low: int,  # the least of them
    starts: NDArray[np.int64],  # by id − low: where the list starts; then where it ends
    places: NDArray[np.int64],  # [n] written
) -> None:
    """Write where each item goes, so that items stand list by list, those of a list in their order."""
    for n in range(ids.size):
        k = ids[n] - low
        places[n] = starts[k]
        starts[k] += 1
