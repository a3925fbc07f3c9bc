"""Says once, through the logger `directloss`, that kernels are being compiled, if that takes longer than two seconds.

numba tells when it compiles, one kernel at a time. Calls of compiled kernels do not come through here.
"""

import logging
import threading
import time
from typing import Any

from numba.core import event

__all__ = ["ANNOUNCEMENT", "MESSAGE", "NOT_KEPT", "Announcement"]

MESSAGE = (
    "directloss compiles the kernels of this loss for this machine. This takes some seconds, once; numba keeps the "
    "result on disk."
)
NOT_KEPT = (
    "directloss compiles the kernels of this loss for this machine. This takes some seconds, in every process: there "
    "is no folder where numba may keep the result. Set NUMBA_CACHE_DIR to one that can be written."
)


class Announcement(event.Listener):
    """Adds up the time that kernels of this package take to compile."""

    def __init__(self, patience: float = 2.0) -> None:
        self.kept = True  # is there a folder for what is compiled
        self._left = patience  # seconds until it is said
        self._depth = 0  # a kernel that calls another one compiles it on the way
        self._began = 0.0
        self._timer: threading.Timer | None = None
        self._said = False

    def on_start(self, event: Any) -> None:
        """A kernel is about to be compiled."""
        if self._said or not _is_ours(event):
            return
        if self._left <= 0:
            self._say()
            return
        self._depth += 1
        if self._depth == 1:
            self._began = time.monotonic()
            self._timer = threading.Timer(self._left, self._say)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """A kernel is compiled, or could not be."""
        if self._said or not _is_ours(event):
            return
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._left -= time.monotonic() - self._began

    def _say(self) -> None:
        if self._said:  # a timer that could no longer be cancelled
            return
        self._said = True
        logging.getLogger("directloss").warning(MESSAGE if self.kept else NOT_KEPT)


def _is_ours(event: Any) -> bool:
    return (event.data["dispatcher"].py_func.__module__ or "").startswith("directloss.")  # None: made by exec


ANNOUNCEMENT = Announcement()
event.register("numba:compile", ANNOUNCEMENT)
