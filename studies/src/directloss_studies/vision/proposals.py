"""Proposals, boxes that may hold an object, by selective search, as R-CNN has them.

The proposals of an image are cached under a key of its bytes.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..harness.cache import Cache, key_of
from ..harness.processes import in_parallel
from ..harness.progress import Progress, no_progress
from .boxes import Floats, overlaps
from .images import ImageError, read_image
from .selective_search import selective_search

__all__ = ["SIDE", "proposals", "propose", "recall", "search"]

VERSION = 2  # see `key_of`
SIDE = 300  # pixels of the longer side of the searched image; larger ones are shrunk
CACHE = Cache("directloss reproduce")
FULL, SMALLEST, SEGMENT, READINESS = 500, 20, 100, 150
"""In an image of that side: pixels of a side of a box, pixels of a segment, how readily pixels join one."""


def propose(path: Path, seed: int = 0, side: int = SIDE) -> NDArray[np.int32]:
    """The proposals of an image file, (boxes, 4), those of highest rank first; computed once. `side` as in `search`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}.") from None
    digest = hashlib.sha256(content).hexdigest()
    key = key_of(kind="proposals", image=digest, seed=seed, side=side, version=VERSION)
    boxes = _read(CACHE.path("proposals", f"{key}.boxes"))
    if boxes is None:
        boxes = search(read_image(path), seed, side)
        content = boxes.astype("<i4").tobytes()
        CACHE.write("proposals", f"{key}.boxes", hashlib.sha256(content).digest() + content)
    return boxes


def _read(path: Path) -> NDArray[np.int32] | None:
    """The cached boxes, None if there are none or the checksum at the beginning of the file is wrong."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, boxes = content[:32], content[32:]
    return np.frombuffer(boxes, "<i4").reshape(-1, 4) if hashlib.sha256(boxes).digest() == digest else None


def search(image: Any, seed: int = 0, side: int = SIDE) -> NDArray[np.int32]:
    """The proposals of a Pillow image: left, top, right, bottom from 1, both ends inside; all different.

    An image whose longer side has more than `side` pixels is shrunk first. Where `side` is below 500, what the search
    measures in pixels shrinks too, or it would miss small objects. An image that is too small to search has one
    proposal, the whole image.
    """
    from PIL import Image

    whole = np.array([[1, 1, image.width, image.height]], dtype=np.int32)
    small, grow, share = image, max(image.size) / side, min(1.0, side / FULL)
    if grow > 1:
        small = image.resize([max(1, round(length / grow)) for length in image.size], Image.Resampling.BILINEAR)
    smallest = max(1, round(SMALLEST * share))
    if min(small.size) < smallest:
        return whole
    segment, readiness = max(1, round(SEGMENT * share**2)), READINESS * share**2
    edges = selective_search(np.asarray(small), readiness, segment, np.random.default_rng(seed))
    edges[:, 2:] += 1
    edges = edges[(edges[:, 2:] - edges[:, :2] >= smallest).all(axis=1)]
    if grow > 1:
        edges = (edges * np.tile(np.divide(image.size, small.size), 2)).round()
    boxes = edges.astype(np.int32) + np.array([1, 1, 0, 0], dtype=np.int32)
    _, first = np.unique(boxes, axis=0, return_index=True)
    return boxes[np.sort(first)] if len(boxes) else whole


def proposals(
    paths: Sequence[Path], jobs: int = 0, progress: Progress = no_progress, seed: int = 0, side: int = SIDE
) -> list[NDArray[np.int32]]:
    """The proposals of every image, found in `jobs` processes; 0: as many as cores."""
    from joblib import cpu_count

    found = []
    for boxes in in_parallel(propose, [(path, seed, side) for path in paths], jobs or cpu_count()):
        found.append(boxes)
        progress(len(found) / len(paths))
    return found


def recall(boxes: Sequence[NDArray[Any]], truths: Sequence[Floats], overlap: float = 0.5) -> float:
    """The share of objects that some proposal of their image overlaps by `overlap` or more; NaN without objects."""
    total = sum(len(truth) for truth in truths)
    hit = sum(
        int((overlaps(truth, found).max(axis=1, initial=0.0) >= overlap).sum())
        for found, truth in zip(boxes, truths, strict=True)
    )
    return hit / total if total else float("nan")
