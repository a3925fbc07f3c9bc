"""Files that are written whole or not at all."""

import contextlib
import errno
import os
import secrets
import tempfile
from pathlib import Path

__all__ = ["check_writable", "write_whole"]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file. If the process or the machine stops meanwhile, the file is as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):  # a full disk names no file, others the partial one
            error.filename, error.filename2 = str(path), None
        raise


def check_writable(*paths: Path) -> None:
    """Raise the OSError that writing these files would end in, as far as it can be known; makes their folders."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    for folder in dict.fromkeys(path.parent for path in paths):
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            error.filename = str(folder)
            raise
