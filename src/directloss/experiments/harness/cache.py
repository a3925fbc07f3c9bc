"""Arrays on disk that may be far larger than memory, each under a key of everything it depends on.

They are written in chunks, and a computation that was stopped goes on after the last whole chunk. Nothing stays mapped
between chunks, so the process stays small.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .files import cache_folder, write_whole
from .progress import Progress, no_progress

__all__ = ["alone", "keep", "key_of", "location", "open_kept", "take"]

Loaded = TypeVar("Loaded")
TAKEN = 2048  # rows under one mapping


def key_of(**facts: Any) -> str:
    """A name for what these facts make."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def location(key: str) -> Path:
    """Where the array under a key is, or will be."""
    return cache_folder() / "features" / f"{key}.npy"


def keep(
    key: str,
    shape: tuple[int, ...],
    kind_of_number: Any,
    ends: Sequence[int],
    load: Callable[[int, int], Loaded],
    make: Callable[[Loaded], Any],
    progress: Progress = no_progress,
) -> None:
    """Compute an array, rows up to each of `ends` after the other, unless it is there.

    `load` gets the first row of a chunk and the one after its last; it runs one chunk ahead, in a thread. `make` turns
    what it returned into rows.
    """
    path = location(key)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path):
        if not path.exists():
            _fill(path, shape, np.dtype(kind_of_number), ends, load, make, progress)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Let others that want the same file wait, where the system can lock."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(
    path: Path,
    shape: tuple[int, ...],
    kind_of_number: Any,
    ends: Sequence[int],
    load: Callable[[int, int], Any],
    make: Callable[[Any], Any],
    progress: Progress,
) -> None:
    part, count = path.with_suffix(".part"), path.with_suffix(".progress")
    done = _whole_rows(part, count, shape, kind_of_number, ends)
    if not done:
        count.unlink(missing_ok=True)  # before the new file: an old count must not be believed of it
        np.lib.format.open_memmap(part, "w+", kind_of_number, shape)
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash on the way
            with open(part, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, part.stat().st_size)
    chunks = [(start, end) for start, end in zip([0, *ends], ends, strict=False) if start >= done and end > start]
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(load, *chunks[0]) if chunks else None
        for number, (start, end) in enumerate(chunks):
            loaded = ahead.result() if ahead else load(start, end)
            ahead = pool.submit(load, *chunks[number + 1]) if number + 1 < len(chunks) else None
            rows = make(loaded)
            array = np.lib.format.open_memmap(part, "r+")
            array[start:end] = rows
            array.flush()
            del array
            write_whole(count, str(end))
            progress(end / shape[0])
    os.replace(part, path)
    count.unlink(missing_ok=True)


def _whole_rows(part: Path, count: Path, shape: tuple[int, ...], kind_of_number: Any, ends: Sequence[int]) -> int:
    """How many rows of a part are done; 0 if anything about it is odd."""
    try:
        done = int(count.read_text())
        array = np.lib.format.open_memmap(part, "r")
        size = array.offset + array.nbytes
        fits = array.shape == shape and array.dtype == kind_of_number and part.stat().st_size == size
        return done if fits and done in ends else 0
    except (OSError, ValueError):
        return 0


def open_kept(key: str, what: str = "actions") -> Any:
    """The array under a key, memory-mapped; an error says that reproducing `what` computes it."""
    path = location(key)
    if not path.exists():
        raise FileNotFoundError(f"{path} is gone. `directloss reproduce {what} --root …` computes it again.")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error}). Remove it; the same command computes it again.") from None


def take(key: str, places: NDArray[np.int64], what: str = "actions") -> NDArray[Any]:
    """Rows of the array under a key, in memory. Each brings its neighbours with it, so no mapping outlives a few."""
    parts = np.array_split(places, max(1, len(places) // TAKEN))
    return np.concatenate([open_kept(key, what)[part] for part in parts])
