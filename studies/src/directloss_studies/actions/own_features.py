"""Features of one's own, from a file.

The file is an `.npz` with three arrays: `features` (boxes, width) of real numbers, one row a box; `images` (boxes,)
with the names of their images; `objects` (boxes,) with the numbers of their objects in the annotations, from 1. Rows
may stand in any order. Every box of the action task must be there once.
"""

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np

from ..data.voc import Actions
from ..harness.cache import key_of
from ..harness.files import distrusted
from .features import CACHE

__all__ = ["FeaturesError", "cache_own_features"]

ARRAYS = ("features", "images", "objects")
LARGEST = 1 << 31  # bytes of all arrays


class FeaturesError(ValueError):
    """A file of features that cannot be used."""


def cache_own_features(path: Path, actions: Actions) -> str:
    """Write the rows of a file into the cache, in the order of the boxes; return their key."""
    with distrusted(f"{path} is not a file of features", FeaturesError):
        features, images, objects = _read(path)
    rows = _ordered(path, features, images, objects, actions)
    key = key_of(kind="own features", shape=rows.shape, sha256=hashlib.sha256(rows.tobytes()).hexdigest())
    CACHE.make_array(key, lambda: rows)
    return key


def _read(path: Path) -> list[np.ndarray]:
    if not path.is_file():
        raise FeaturesError(f"{path} is missing.")
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        if len(entries) != len(archive.infolist()) or set(entries) != set(ARRAYS):
            there = ", ".join(sorted(name[:40] for name in entries)) or "nothing"
            raise FeaturesError(f"{path} must hold the arrays {', '.join(ARRAYS)}, each once. It holds: {there}.")
        size = sum(entry.file_size for entry in entries.values())
        if size > LARGEST:
            raise FeaturesError(f"{path} unpacks to {size} bytes; at most {LARGEST} are read.")
        return [np.load(io.BytesIO(archive.read(entries[name])), allow_pickle=False) for name in ARRAYS]


def _ordered(path: Path, features: np.ndarray, images: np.ndarray, objects: np.ndarray, actions: Actions) -> np.ndarray:
    """(boxes, 1, width), float32: the rows in the order of the boxes."""
    kinds = features.dtype.kind == "f" and images.dtype.kind == "U" and objects.dtype.kind in "iu"
    if not kinds or features.ndim != 2 or not features.shape[1]:
        raise FeaturesError(
            f"{path}: features must be a matrix of real numbers, images an array of names, objects one of integers; "
            f"got {features.dtype} {features.shape}, {images.dtype} and {objects.dtype}."
        )
    if images.shape != features.shape[:1] or objects.shape != features.shape[:1]:
        raise FeaturesError(
            f"{path}: there must be one image and one object a row; got {features.shape[0]} rows, "
            f"images {images.shape} and objects {objects.shape}."
        )
    boxes = list(zip(actions.images, actions.objects, strict=True))
    place: dict[tuple[str, int], int] = {}
    known = set(boxes)
    for row, box in enumerate(zip(images.tolist(), objects.tolist(), strict=True)):
        name = f"object {box[1]} of {box[0][:40]!r}"
        if box not in known:
            raise FeaturesError(f"{path}: row {row} is {name}; the devkit lists no such box.")
        if place.setdefault(box, row) != row:
            raise FeaturesError(f"{path}: {name} is there twice, in rows {place[box]} and {row}.")
    missing = [box for box in boxes if box not in place]
    if missing:
        image, number = missing[0]
        raise FeaturesError(
            f"{path} lacks {len(missing)} of the {len(boxes)} boxes of the devkit, first object {number} of {image!r}."
        )
    with np.errstate(over="ignore"):
        rows = features[[place[box] for box in boxes]].astype(np.float32)
    if not np.isfinite(rows).all():
        raise FeaturesError(f"{path}: features must be finite as 32-bit numbers.")
    return rows[:, None]
