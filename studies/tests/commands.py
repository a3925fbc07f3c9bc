"""The command `directloss` inside this process: what a new process would print and return, without its two seconds."""

import contextlib
import io
import os
import subprocess
import sys
import traceback
from unittest import mock

from directloss_studies.__main__ import main
from joblib.externals.loky import reusable_executor


def _end_workers() -> None:
    """Worker processes have the environment of the call that started them, and would serve the next one too."""
    if reusable_executor._executor is not None:
        reusable_executor._executor.shutdown(wait=True, kill_workers=True)


def call(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with these arguments and environment; an error that escapes it ends in a traceback."""
    _end_workers()
    line = ["directloss", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1", **environment}),
        mock.patch.object(sys, "argv", line),
        mock.patch.object(sys, "path", list(sys.path)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            traceback.print_exc()
            code = 1
        finally:
            _end_workers()
    printed, told = (stream.buffer.getvalue().decode() for stream in (out, err))  # pyright: ignore[reportAttributeAccessIssue]
    return subprocess.CompletedProcess(line, code, printed, told)
