"""torch in one thread: where others share the cores, or where rounding must not depend on the number of threads."""

import contextlib
import ctypes
from collections.abc import Callable, Iterator

import torch

__all__ = ["one_thread", "return_memory", "side_by_side"]


@contextlib.contextmanager
def one_thread() -> Iterator[int]:
    """Let torch compute in one thread meanwhile; gives the number of its threads before. Freed memory is kept, too."""
    _keep_freed_memory()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def side_by_side() -> Iterator[tuple[int, Callable[[], None]]]:
    """For work in a few threads: their number, and what each calls first, so that torch takes its share of the cores.

    Two images at once keep all cores busy, where the work on one has parts in one thread. More would take more memory.
    """
    with one_thread() as threads:
        workers = min(2, threads)
        yield workers, lambda: torch.set_num_threads(threads // workers)


def return_memory() -> None:
    """Return freed memory to the system. Work on arrays of many sizes leaves holes that fill gigabytes in time."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _keep_freed_memory() -> None:
    """Tell glibc to reuse freed memory instead of returning it to the system and asking for it again.

    It takes a quarter off the time of networks on 10,000 samples or on large images. Arrays above 64 MB are returned
    all the same. Without glibc it does nothing.
    """
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(trim_threshold, 1 << 30)
        mallopt(mmap_threshold, 1 << 26)  # refused by old versions, which are then a little slower
