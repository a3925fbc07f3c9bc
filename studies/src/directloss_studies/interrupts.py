"""Signals that end the command `directloss`: without a traceback, and with what it started ended as well.

This module is imported before all others, and itself imports nothing that takes time.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["ended_by_signals"]


def _end_at_once(*_: Any) -> NoReturn:
    os._exit(130)


def _end(*_: Any) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not stop what cleans up
    sys.exit(143)


def _end_quietly_while_importing() -> None:
    """If this process is the command: let Ctrl-C end it at once, until `ended_by_signals`. There is nothing to save."""
    words = sys.orig_argv[1:3]
    is_command = words == ["-m", "directloss_studies"] or os.path.basename((words or [""])[0]) == "directloss"
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Meanwhile Ctrl-C is a KeyboardInterrupt as usual, and SIGTERM a SystemExit, so that temporary folders go."""
    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_end_quietly_while_importing()
