"""Processes that work for this one: they never hear Ctrl-C, and are gone when nobody waits for them."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["in_parallel"]


def in_parallel(
    function: Callable[..., Any], work: Sequence[tuple[Any, ...]], jobs: int, in_order: bool = True
) -> Iterator[Any]:
    """Call a function with each of several arguments, in so many processes of one thread each; 1: in this one."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky import get_reusable_executor

    if jobs == 1 or len(work) < 2:
        yield from (function(*arguments) for arguments in work)
        return
    finished = False
    way = "generator" if in_order else "generator_unordered"
    try:
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            parallel = Parallel(return_as=way, batch_size=1)  # pyright: ignore[reportArgumentType]
            with _deaf_children():
                found = parallel(delayed(function)(*arguments) for arguments in work)
            yield from found  # pyright: ignore[reportReturnType]
        finished = True
    finally:
        if not finished:
            get_reusable_executor().shutdown(wait=False, kill_workers=True)


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that start meanwhile never hear Ctrl-C, which a terminal sends to all: the parent answers it."""
    if threading.current_thread() is not threading.main_thread():  # only there can it be said
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # children inherit that, and no other handler
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
