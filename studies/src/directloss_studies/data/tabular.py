"""Tables with a 0/1 label, as ADBench stores them: an npz file with arrays X (rows, columns) and y (rows,).

A third array, blocks (rows,), may say which list a row belongs to. Arrays noisy_NAME (rows,) may hold labels that
people gave, some of them wrong. Files are read without trust: sizes before reading, shapes before copies, no pickles.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..harness.files import distrusted

__all__ = ["TableError", "read_blocks", "read_noisy", "read_table"]

LARGEST = 1 << 28  # bytes of an array that is read
MOST_COLUMNS = 4096
MOST_NOISY = 8
NOISY = re.compile(r"noisy_([a-z][a-z0-9]{0,19})\.npy")


class TableError(ValueError):
    """A file of data that cannot be used."""


def read_table(path: Path) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The columns (rows, columns) and the labels (rows,) of an npz file."""
    if not path.is_file():
        raise TableError(f"{path} is missing.")
    with _opened(path) as archive:
        inputs, target = (_array(path, archive, name, dims) for name, dims in (("X", 2), ("y", 1)))
    if len(inputs) != len(target) or not 1 <= inputs.shape[1] <= MOST_COLUMNS:
        raise TableError(
            f"{path}: X must be (rows, 1 to {MOST_COLUMNS} columns) and y (rows,); "
            f"got {inputs.shape} and {target.shape}."
        )
    if not np.isin(target, (0, 1)).all() or len(np.unique(target)) < 2:
        raise TableError(f"{path}: y must hold 0 and 1, and both of them.")
    with np.errstate(over="ignore"):  # what float32 does not hold is refused
        inputs = inputs.astype(np.float32)
    if not np.isfinite(inputs).all():
        raise TableError(f"{path}: X holds values that are not finite.")
    return inputs, target.astype(np.bool_)


def read_blocks(path: Path) -> NDArray[np.int64] | None:
    """The list of every row of a table, from 0 on; None if the table is one list."""
    with _opened(path) as archive:
        if "blocks.npy" not in archive.namelist():
            return None
        blocks = _array(path, archive, "blocks", 1)
    return np.unique(blocks, return_inverse=True)[1].astype(np.int64)


def read_noisy(path: Path, rows: int) -> dict[str, NDArray[np.bool_]]:
    """The labels (rows,) that people gave, by name, in the order of names; none if the table has none."""
    with _opened(path) as archive:
        names = sorted({name for name in archive.namelist() if name.startswith("noisy")})
        if len(names) > MOST_NOISY or not all(NOISY.fullmatch(name) for name in names):
            raise TableError(
                f"{path}: at most {MOST_NOISY} arrays noisy_NAME can be used, NAME of up to 20 small letters and "
                f"digits; got {', '.join(name[:40] for name in names[: MOST_NOISY + 1])}."
            )
        found = {name[6:-4]: _array(path, archive, name[:-4], 1) for name in names}
    for name, labels in found.items():
        if labels.shape != (rows,) or not np.isin(labels, (0, 1)).all() or len(np.unique(labels)) < 2:
            raise TableError(
                f"{path}: noisy_{name} must be ({rows},), as y is, and hold 0 and 1, and both of them; "
                f"got {labels.shape}."
            )
    return {name: labels.astype(np.bool_) for name, labels in found.items()}


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with distrusted(f"{path} is not an npz file", TableError), zipfile.ZipFile(path) as archive:
        yield archive


def _array(path: Path, archive: zipfile.ZipFile, name: str, dims: int) -> NDArray[np.generic]:
    entries = [entry for entry in archive.infolist() if entry.filename == f"{name}.npy"]
    if len(entries) != 1:
        raise TableError(f"{path} must hold one array {name}; it holds {len(entries)}.")
    if entries[0].file_size > LARGEST:
        raise TableError(f"{path}: {name} has {entries[0].file_size} bytes, more than the {LARGEST} that are read.")
    array = np.load(io.BytesIO(archive.read(entries[0])), allow_pickle=False)
    if array.ndim != dims or array.dtype.kind not in "biuf":
        raise TableError(
            f"{path}: {name} must be {dims}-dimensional with real numbers; got {array.dtype} {array.shape}."
        )
    return array
