"""Files that are written whole or not at all."""

import os
import secrets
from pathlib import Path

__all__ = ["write_whole"]


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
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
