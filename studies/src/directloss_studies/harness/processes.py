"""Worker processes of this one: they ignore Ctrl-C, and they end when nobody waits for them."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["in_parallel"]


def in_parallel(
    function: Callable[..., Any], work: Sequence[tuple[Any, ...]], jobs: int, in_order: bool = True
) -> Iterator[Any]:
    """Call a function with each tuple of arguments, in `jobs` processes of one thread each; 1: in this process."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky import get_reusable_executor

    if jobs == 1 or len(work) < 2:
        yield from (function(*arguments) for arguments in work)
        return
    finished = False
    order = "generator" if in_order else "generator_unordered"
    try:
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            parallel = Parallel(return_as=order, batch_size=1)  # pyright: ignore[reportArgumentType]
            with _children_ignore_interrupts():
                results = parallel(delayed(function)(*arguments) for arguments in work)
            yield from results  # pyright: ignore[reportReturnType]
        finished = True
    finally:
        if not finished:
            get_reusable_executor().shutdown(wait=False, kill_workers=True)


@contextlib.contextmanager
def _children_ignore_interrupts() -> Iterator[None]:
    """Processes started meanwhile ignore Ctrl-C. A terminal sends it to all of them; the parent handles it alone."""
    if threading.current_thread() is not threading.main_thread():  # only that one can set a handler
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # children inherit this, but no other handler
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
