"""Files that are there whole or not at all, and the folder where what is costly to make is kept."""

import os
import secrets
from pathlib import Path

__all__ = ["cache_folder", "write_whole"]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that, whenever the process or the machine stops, it is there whole or not at all."""
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


def cache_folder() -> Path:
    """$DIRECTLOSS_CACHE, or directloss in the user's folder of caches."""
    given = os.environ.get("DIRECTLOSS_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "directloss"
