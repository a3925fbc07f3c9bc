"""Keys that stay sorted while some of them change."""

import numpy as np
from numpy.typing import NDArray

from . import compiled
from .lists import LONGEST_LIST

__all__ = ["exchange"]


@compiled
def exchange(
    keys: NDArray[np.int64],  # [n] sorted
    gone: NDArray[np.int64],  # [g] sorted, all of them among the keys
    new: NDArray[np.int64],  # [k] sorted
    kept: NDArray[np.int64],  # [n − g + k] written: the keys without those that are gone, with the new ones
    ranked: NDArray[np.int64],  # [n − g + k] written: the same, with their places instead of their indexes
) -> None:
    """Replace some keys in one pass."""
    m = g = k = 0
    for place in range(kept.size):
        while g < gone.size and m < keys.size and keys[m] == gone[g]:
            m += 1
            g += 1
        if k < new.size and (m == keys.size or new[k] < keys[m]):
            key = new[k]
            k += 1
        else:
            key = keys[m]
            m += 1
        kept[place] = key
        ranked[place] = (key & ~LONGEST_LIST) | place
