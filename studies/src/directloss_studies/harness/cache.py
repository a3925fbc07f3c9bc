"""The cache: files that are costly to make and can be made again.

A file is `<kind>/<key><suffix>` in the cache folder. The key is a digest of all facts that the content depends on, see
`key_of`. A file is written whole or not at all. One process computes an array, the others wait for its lock.

Content is bytes, JSON or an array. An array may be far larger than memory: it is computed in chunks, a stopped
computation continues after the last whole chunk, and no chunk stays mapped, so the process stays small.
"""

import contextlib
import hashlib
import io
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .files import write_whole
from .progress import Progress, no_progress

__all__ = ["Cache", "cache_folder", "key_of"]

ARRAYS = "arrays"
AT_ONCE = 2048  # rows that are read under one mapping


def cache_folder() -> Path:
    """$DIRECTLOSS_CACHE, or directloss in the user's cache folder."""
    given = os.environ.get("DIRECTLOSS_CACHE")
    if given:
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "directloss"
    except RuntimeError:
        raise FileNotFoundError(
            "There is no cache folder: HOME is not set, and this user has no home. Set DIRECTLOSS_CACHE to a folder."
        ) from None


def key_of(**facts: Any) -> str:
    """The key of the content that these facts determine.

    The facts are digests of input files, options, and a version. The version stands for the code and for the constants
    of a module: raise it when the same facts would give other content.
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Cache:
    """The cache as one command uses it. Caches of all commands share their files."""

    command: str
    """Makes missing content again; errors name it."""

    def path(self, kind: str, name: str) -> Path:
        """Where content is, or will be."""
        return cache_folder() / kind / name

    def find(self, kind: str, name: str) -> Path:
        """Where content is. An error if it is missing."""
        path = self.path(kind, name)
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing. `{self.command}` makes it again.")
        return path

    def write(self, kind: str, name: str, content: bytes) -> None:
        """Write bytes, unless they are there. A damaged file is replaced."""
        path = self.path(kind, name)
        if not path.exists() or path.read_bytes() != content:
            write_whole(path, content)

    def write_json(self, kind: str, key: str, content: Any) -> None:
        """Write JSON, unless it is there. A damaged file is replaced."""
        self.write(kind, f"{key}.json", json.dumps(content).encode())

    def read_json(self, kind: str, key: str) -> Any:
        """The JSON under a key."""
        path = self.find(kind, f"{key}.json")
        try:
            return json.loads(path.read_bytes())
        except ValueError as error:
            raise self._damaged(path, error) from None

    def array_path(self, key: str) -> Path:
        """Where an array is, or will be."""
        return self.path(ARRAYS, f"{key}.npy")

    def array(self, key: str) -> Any:
        """The array under a key, memory-mapped."""
        path = self.find(ARRAYS, f"{key}.npy")
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise self._damaged(path, error) from None

    def rows(self, key: str, places: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of the array under a key, in memory. They are read a few at a time, so that the mapping stays small."""
        parts = np.array_split(places, max(1, len(places) // AT_ONCE))
        return np.concatenate([self.array(key)[part] for part in parts])

    def make_array(self, key: str, make: Callable[[], NDArray[Any]]) -> None:
        """Make an array at once, unless it is there."""
        path = self.array_path(key)
        with self._missing(path) as missing:
            if missing:
                buffer = io.BytesIO()
                np.save(buffer, make())
                write_whole(path, buffer.getvalue())

    def compute_array(
        self,
        key: str,
        shape: tuple[int, ...],
        dtype: Any,
        ends: Sequence[int],
        make: Callable[[int, int], Any],
        progress: Progress = no_progress,
        threads: int = 1,
    ) -> None:
        """Compute an array in chunks of rows that end at `ends`, unless it is there.

        `make(start, end)` gives the rows of a chunk. It is called in so many threads at once.
        """
        path = self.array_path(key)
        with self._missing(path) as missing:
            if missing:
                _fill(path, shape, np.dtype(dtype), ends, make, progress, threads)

    @contextlib.contextmanager
    def _missing(self, path: Path) -> Iterator[bool]:
        """Whether content is missing, under its lock: it does not appear meanwhile."""
        if path.exists():
            yield False
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path):
            yield not path.exists()

    def _damaged(self, path: Path, error: Exception) -> ValueError:
        return ValueError(f"{path} is damaged ({error}). Remove it; `{self.command}` makes it again.")


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file, where the system has locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path.with_suffix(".lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fill(
    path: Path,
    shape: tuple[int, ...],
    dtype: Any,
    ends: Sequence[int],
    make: Callable[[int, int], Any],
    progress: Progress,
    threads: int,
) -> None:
    part, count = path.with_suffix(".part"), path.with_suffix(".progress")
    done = _whole_rows(part, count, shape, dtype, ends)
    if not done:
        count.unlink(missing_ok=True)  # before the new part: an old count must not be taken for its own
        np.lib.format.open_memmap(part, "w+", dtype, shape)
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash later
            with open(part, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, part.stat().st_size)
    chunks = [(start, end) for start, end in zip([0, *ends], ends, strict=False) if start >= done and end > start]
    with ThreadPoolExecutor(threads) as pool:
        try:
            for (start, end), rows in zip(chunks, _in_order(pool, make, chunks, 2 * threads), strict=True):
                array = np.lib.format.open_memmap(part, "r+")
                array[start:end] = np.asarray(rows)  # NumPy 2.0 warns of a tensor here
                array.flush()
                del array
                write_whole(count, str(end))
                progress(end / shape[0])
        finally:
            pool.shutdown(cancel_futures=True)
    os.replace(part, path)
    count.unlink(missing_ok=True)


def _in_order(
    pool: ThreadPoolExecutor, make: Callable[[int, int], Any], chunks: Sequence[tuple[int, int]], ahead: int
) -> Iterator[Any]:
    """What is made of each chunk; so many are under way or waiting at any time."""
    made = deque(pool.submit(make, *chunk) for chunk in chunks[:ahead])
    for chunk in [*chunks[ahead:], *[None] * len(made)]:
        yield made.popleft().result()
        if chunk:
            made.append(pool.submit(make, *chunk))


def _whole_rows(part: Path, count: Path, shape: tuple[int, ...], dtype: Any, ends: Sequence[int]) -> int:
    """The number of finished rows of a part; 0 if anything about it is odd."""
    try:
        done = int(count.read_text())
        array = np.lib.format.open_memmap(part, "r")
        size = array.offset + array.nbytes
        fits = array.shape == shape and array.dtype == dtype and part.stat().st_size == size
        return done if fits and done in ends else 0
    except (OSError, ValueError):
        return 0
