"""How the kernels of this package are compiled: on the first call, without the GIL, kept on disk."""

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled"]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call and keep the result on disk, or in memory where no disk can be written."""
    try:
        return numba.njit(function, nogil=True, cache=True, error_model="numpy")
    except RuntimeError:  # numba found no directory for its cache
        return numba.njit(function, nogil=True, error_model="numpy")
