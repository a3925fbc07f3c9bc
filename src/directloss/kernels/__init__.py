"""Compiled loops: NumPy arrays in, NumPy arrays out, no torch, no state, no threads, no GIL.

A kernel computes in float64, takes a batch of lists and loops over it inside.
"""

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled", "summing"]


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile `function` on its first call and keep the result on disk, or in memory where no disk can be written."""
    try:
        return numba.njit(function, nogil=True, cache=True, error_model="numpy", **options)
    except RuntimeError:  # numba found no directory for its cache
        return numba.njit(function, nogil=True, error_model="numpy", **options)


def summing(function: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled` for a sum whose terms may be added in any order: it then runs on vector instructions."""
    return compiled(function, fastmath={"reassoc"})
