"""Files that are written whole or not at all, and text that shows all it has."""

import contextlib
import errno
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["check_writable", "distrusted", "visible", "write_whole"]

UNSEEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


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
        if isinstance(error, OSError) and error.errno:  # a full disk names no file, others the partial one
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextlib.contextmanager
def distrusted(what: object, error: type[ValueError], *passing: type[ValueError]) -> Iterator[None]:
    """Turn whatever reading raises into an error that begins with `what`: a hostile file can make it raise anything."""
    try:
        yield
    except (error, *passing):
        raise
    except Exception as reason:
        raise error(f"{what}: {type(reason).__name__}: {str(reason)[:200]}") from None


def visible(text: str) -> str:
    r"""The text with control characters as words, e.g. \x1b: a terminal must not obey what stands in a file."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def check_writable(*paths: Path) -> None:
    """Raise the OSError that writing these files would end in, as far as it can be known; leaves no folder behind."""
    folders = dict.fromkeys(path.parent for path in paths)
    made = [one for folder in folders for one in (folder, *folder.parents) if not one.exists()]
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        for folder in folders:
            try:
                tempfile.TemporaryFile(dir=folder).close()
            except OSError as error:
                error.filename = str(folder)
                raise
    finally:
        for folder in sorted(made, key=lambda one: len(one.parts), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
