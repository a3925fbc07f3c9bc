"""Boxes that may hold something: selective search (Uijlings et al., 2013), fast mode, as R-CNN uses it.

OpenCV draws the order of its boxes from the C library's random numbers, so these are seeded before every image. What
was found is kept per image, under a key of the image's bytes.
"""

import ctypes
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..harness.files import cache_folder, write_whole
from ..harness.processes import in_parallel
from ..harness.progress import Progress, no_progress
from .boxes import Floats, overlaps
from .images import ImageError, read_image

__all__ = ["proposals", "propose", "recall", "search"]

VERSION = 1  # raise it when the same key would give other boxes
LARGEST = 500  # pixels of the longer side in which is searched; VOC has no larger ones
SMALLEST = 20  # pixels of a side of a box, there


def propose(path: Path, seed: int = 0) -> NDArray[np.int32]:
    """The proposals of an image file, (boxes, 4), those of highest rank first; computed once."""
    cv2 = _opencv()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}.") from None
    facts = f" fast {SMALLEST} {LARGEST} {seed} {VERSION} {cv2.__version__}"
    key = hashlib.sha256(content + facts.encode()).hexdigest()[:32]
    kept = cache_folder() / "proposals" / key[:2] / f"{key}.boxes"
    boxes = _read(kept)
    if boxes is None:
        try:
            boxes = search(read_image(path), seed)
        except cv2.error as error:
            raise ImageError(f"{path} cannot be searched: {error}") from None
        content = boxes.astype("<i4").tobytes()
        write_whole(kept, hashlib.sha256(content).digest() + content)
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
    """What is kept, if it is whole: it begins with its checksum."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, boxes = content[:32], content[32:]
    return np.frombuffer(boxes, "<i4").reshape(-1, 4) if hashlib.sha256(boxes).digest() == digest else None


def search(image: Any, seed: int = 0) -> NDArray[np.int32]:
    """Search a Pillow image: left, top, right, bottom from 1, both ends inside; no two alike, none too small.

    An image with nothing to find is one box.
    """
    from PIL import Image

    cv2 = _opencv()
    whole = np.array([[1, 1, image.width, image.height]], dtype=np.int32)
    small, grow = image, max(image.size) / LARGEST
    if grow > 1:
        small = image.resize([max(1, round(side / grow)) for side in image.size], Image.Resampling.BILINEAR)
    if min(small.size) < SMALLEST:
        return whole
    cv2.setNumThreads(1)
    ctypes.CDLL("ucrtbase" if os.name == "nt" else None).srand(seed + 1)  # of 0 and 1 glibc makes the same
    searching = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    searching.setBaseImage(np.ascontiguousarray(np.asarray(small)[:, :, ::-1]))
    searching.switchToSelectiveSearchFast()
    left, top, width, height = np.asarray(searching.process()).reshape(-1, 4).T
    large = (width >= SMALLEST) & (height >= SMALLEST)
    edges = np.stack([left, top, left + width, top + height], axis=1)[large]
    if grow > 1:
        edges = (edges * np.tile(np.divide(image.size, small.size), 2)).round()
    boxes = edges.astype(np.int32) + np.array([1, 1, 0, 0], dtype=np.int32)
    _, first = np.unique(boxes, axis=0, return_index=True)
    return boxes[np.sort(first)] if len(boxes) else whole


def proposals(
    paths: Sequence[Path], jobs: int = 0, progress: Progress = no_progress, seed: int = 0
) -> list[NDArray[np.int32]]:
    """Of every image, in so many processes; 0: as many as cores."""
    from joblib import cpu_count

    found = []
    for boxes in in_parallel(propose, [(path, seed) for path in paths], jobs or cpu_count()):
        found.append(boxes)
        progress(len(found) / len(paths))
    return found


def recall(boxes: Sequence[NDArray[Any]], truths: Sequence[Floats], overlap: float = 0.5) -> float:
    """The share of objects that some proposal of their image overlaps so much; not a number if there are none."""
    total = sum(len(truth) for truth in truths)
    hit = sum(
        int((overlaps(truth, found).max(axis=1, initial=0.0) >= overlap).sum())
        for found, truth in zip(boxes, truths, strict=True)
    )
    return hit / total if total else float("nan")
