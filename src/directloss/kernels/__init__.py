"""Compiled loops: NumPy arrays in, NumPy arrays out, no torch, no state, no GIL.

A kernel computes in float64, takes a batch of lists and loops over it inside. It starts no threads: its callers do.
"""

import hashlib
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

from . import first_call as first_call

__all__ = ["compiled", "compiled_noalloc", "compiled_reassoc", "interruptible"]


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile `function` on its first call and keep the result on disk, or in memory where no disk can be written."""
    try:
        kernel = numba.njit(function, nogil=True, cache=True, error_model="numpy", **options)
    except RuntimeError:  # numba found no directory for its cache
        first_call.ANNOUNCEMENT.kept = False
        return numba.njit(function, nogil=True, error_model="numpy", **options)
    cache: Any = getattr(kernel, "_cache", None)
    file = getattr(cache, "_cache_file", None)
    if file is not None:
        file._source_stamp = _sources(function.__code__.co_filename)
        file._load_index = _if_damaged(file._load_index, dict)
        cache.load_overload = _if_damaged(cache.load_overload, lambda: None)
    return kernel


def _if_damaged(load: Callable[..., Any], nothing: Callable[[], Any]) -> Callable[..., Any]:
    """Load from the cache; of a damaged file nothing, so that numba compiles anew and writes it again."""

    def tolerant(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except OSError:
            raise
        except Exception:
            return nothing()

    return tolerant


@cache
def _sources(file: str) -> str:
    """A digest of the file and of all kernels here: a kernel holds code of others, and numba looks at its file only."""
    digest = hashlib.sha256()
    for path in sorted({Path(file), *Path(__file__).parent.glob("*.py")}):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def compiled_noalloc(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`compiled` for a function that allocates nothing, and calls only such functions.

    numba then counts no references to arrays, and a view of one costs nothing. Short lists take half the time.
    """
    return compiled(function, _nrt=False, **options)


def compiled_reassoc(function: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled_noalloc` for a sum whose terms may be added in any order: it then runs on vector instructions."""
    return compiled_noalloc(function, fastmath={"reassoc"})


def interruptible(kernel: Callable[..., Any], *arguments: Any) -> None:
    """Call a kernel that may take long, for what it writes, so that Ctrl-C gets through.

    Python answers signals in the main thread only, and not while compiled code runs there. So the kernel runs in
    another thread. After Ctrl-C that thread comes to its end unseen.
    """
    if threading.current_thread() is not threading.main_thread():
        kernel(*arguments)
        return
    errors: list[BaseException] = []

    def work() -> None:
        try:
            kernel(*arguments)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
