"""Raw files: in a folder of the user, or fetched into it; always checked, and never large."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..harness.downloads import check, download
from ..harness.progress import Progress
from .tabular import TableError

__all__ = ["LARGEST", "Source", "read_bytes", "read_sources"]

LARGEST = 1 << 24  # bytes of a file


class Source(NamedTuple):
    """Where a file is, and its checksum."""

    address: str
    sha256: str


def read_sources(root: Path, sources: Mapping[str, Source], progress: Progress) -> list[str]:
    """The text of each file, in the order of `sources`. Files that are missing are fetched into the folder first."""
    return [content.decode("utf-8", "replace") for content in read_bytes(root, sources, progress)]


def read_bytes(root: Path, sources: Mapping[str, Source], progress: Progress) -> list[bytes]:
    """The content of each file, in the order of `sources`. Files that are missing are fetched into the folder first."""
    contents = []
    for name, (address, digest) in sources.items():
        path = root / name
        if not path.exists():
            download(address, path, "sha256", digest)
        if (size := path.stat().st_size) > LARGEST:
            raise TableError(f"{path} has {size} bytes, more than the {LARGEST} that are read.")
        check(path, "sha256", digest)
        contents.append(path.read_bytes())
        progress(len(contents) / len(sources))
    return contents
