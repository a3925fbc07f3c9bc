"""Parts of a batch in several threads.

After each operation the threads of torch's OpenMP stay awake: for milliseconds they wait for the next operation, on the
cores that other threads would need. So these threads get the work. Where there are none, new threads do.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

__all__ = ["in_threads", "team"]

_JOB = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_forks: list[bool] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _forks.append(True))


def team() -> Callable[[Callable[[], None], int], None] | None:
    """What calls a function in so many threads of torch's OpenMP, or None.

    A fork does not copy these threads, and OpenMP would wait for them forever. So a forked process has none.
    """
    return None if _forks else _team()


@cache
def _team() -> Callable[[Callable[[], None], int], None] | None:
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):  # another OpenMP, or Windows
        return None
    parallel.argtypes, parallel.restype = (_JOB, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return lambda job, threads: parallel(_JOB(lambda _: job()), None, threads, 0)


def in_threads(workers: Sequence[Callable[[Any], None]], parts: Sequence[Any]) -> None:
    """Do every part, each worker in a thread of its own, one of them this one.

    The first error ends all and is raised here. Workers bring their scratch memory: what another thread allocates is
    new to the process each time.
    """
    left, mine = iter(parts), iter(workers)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            worker = next(mine)
            for part in left:  # hands out each part once
                if errors:
                    return
                worker(part)
        except BaseException as error:
            errors.append(error)

    call = team()
    if len(workers) == 1:
        run()
    elif call is not None:
        call(run, len(workers))
    else:
        _in_new_threads(run, len(workers))
    if errors:
        raise errors[0]


def _in_new_threads(run: Callable[[], None], threads: int) -> None:
    """Call a function in new threads, and in this one. They live as long as the call: a fork can lose nothing."""
    others = [threading.Thread(target=run, daemon=True) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    run()
    for thread in others:
        thread.join()
