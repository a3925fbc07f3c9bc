"""Proposals, boxes that may hold an object: selective search (Uijlings et al., 2013), fast mode, as R-CNN uses it.

OpenCV orders its boxes by the C library's random numbers, so these are seeded before every image. The proposals of an
image are cached under a key of its bytes.
"""

import ctypes
import hashlib
import os
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

__all__ = ["SIDE", "proposals", "propose", "recall", "search"]

VERSION = 1  # see `key_of`
SIDE = 500  # pixels of the longer side of the searched image; larger ones are shrunk, VOC has none
CACHE = Cache("directloss reproduce")
SMALLEST = 20  # pixels of a side of a box in it
SEGMENTS = 150  # how readily pixels join one segment, fast mode; it grows with the area of segments


def propose(path: Path, seed: int = 0, side: int = SIDE) -> NDArray[np.int32]:
    """The proposals of an image file, (boxes, 4), those of highest rank first; computed once. `side` as in `search`."""
    cv2 = _opencv()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}.") from None
    segments, smallest = _scaled(side)
    facts = {"mode": "fast", "smallest": smallest, "largest": side, "opencv": cv2.__version__, "version": VERSION}
    facts |= {"segments": segments} if segments != SEGMENTS else {}  # keys of the full size are older than this
    key = key_of(kind="proposals", image=hashlib.sha256(content).hexdigest(), seed=seed, **facts)
    boxes = _read(CACHE.path("proposals", f"{key}.boxes"))
    if boxes is None:
        try:
            boxes = search(read_image(path), seed, side)
        except cv2.error as error:
            raise ImageError(f"{path} cannot be searched: {error}") from None
        content = boxes.astype("<i4").tobytes()
        CACHE.write("proposals", f"{key}.boxes", hashlib.sha256(content).digest() + content)
    return boxes


def _opencv() -> Any:
    import cv2

    if not hasattr(cv2, "ximgproc"):
        raise ValueError(
            "OpenCV is installed without its contrib modules: pip uninstall opencv-python opencv-python-headless, then "
            "pip install --force-reinstall opencv-contrib-python-headless."
        )
    return cv2


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

    cv2 = _opencv()
    whole = np.array([[1, 1, image.width, image.height]], dtype=np.int32)
    small, grow = image, max(image.size) / side
    segments, smallest = _scaled(side)
    if grow > 1:
        small = image.resize([max(1, round(length / grow)) for length in image.size], Image.Resampling.BILINEAR)
    if min(small.size) < smallest:
        return whole
    cv2.setNumThreads(1)
    ctypes.CDLL("ucrtbase" if os.name == "nt" else None).srand(seed + 1)  # for glibc, 0 and 1 are the same seed
    searching = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    searching.setBaseImage(np.ascontiguousarray(np.asarray(small)[:, :, ::-1]))
    searching.switchToSelectiveSearchFast(segments, segments)
    left, top, width, height = np.asarray(searching.process()).reshape(-1, 4).T
    large = (width >= smallest) & (height >= smallest)
    edges = np.stack([left, top, left + width, top + height], axis=1)[large]
    if grow > 1:
        edges = (edges * np.tile(np.divide(image.size, small.size), 2)).round()
    boxes = edges.astype(np.int32) + np.array([1, 1, 0, 0], dtype=np.int32)
    _, first = np.unique(boxes, axis=0, return_index=True)
    return boxes[np.sort(first)] if len(boxes) else whole


def _scaled(side: int) -> tuple[int, int]:
    """How readily pixels join, and the smallest side of a box, in images of that side."""
    share = min(1.0, side / SIDE)
    return max(1, round(SEGMENTS * share**2)), max(1, round(SMALLEST * share))


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
