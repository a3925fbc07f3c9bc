"""The images of a detection run: the part that each belongs to, its annotations, and the rows of its boxes.

Rows of features are in the order of the images: first the training images, then those held out to choose settings by,
then the test images. The rows of a training image begin with those of its annotated objects, as in R-CNN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.voc import Annotation, Scene
from ..harness.cache import Cache, key_of
from ..harness.typed import decode, encode
from ..vision.boxes import Floats, Integers, labelled
from ..vision.evaluation import Objects

__all__ = ["CACHE", "PARTS", "Images", "cache_images", "easy_boxes", "pick", "read_images"]

CACHE = Cache("directloss reproduce detection --root DIR")

PARTS = ("train", "held out", "test")


@dataclass(frozen=True)
class Images:
    """Images in the order of their rows."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    parts: tuple[str, ...]
    annotations: tuple[tuple[Annotation, ...], ...]
    rows: tuple[int, ...]
    """The number of each image's rows."""

    @cached_property
    def ends(self) -> list[int]:
        """The row after the last one of every image."""
        return list(accumulate(self.rows))

    def span(self, part: str) -> tuple[int, int]:
        """The first row of a part, and the one after its last."""
        there = [number for number, of in enumerate(self.parts) if of == part]
        return self.ends[there[0]] - self.rows[there[0]], self.ends[there[-1]]

    def objects(self, category: str, part: str) -> Objects:
        """The objects of a class in the images of a part."""
        found = [
            (number, each)
            for number, (of, annotations) in enumerate(zip(self.parts, self.annotations, strict=True))
            for each in annotations
            if of == part and each.name == category
        ]
        return Objects(
            np.array([number for number, _ in found], dtype=np.int64),
            np.array([each.box for _, each in found]).reshape(-1, 4),
            np.array([each.difficult for _, each in found], dtype=bool),
        )

    def labels(self, category: str, boxes: Any, positive: float, negative: float) -> NDArray[np.int8]:
        """The labels of all training rows for a class, see `labelled`; `boxes` are those of all rows."""
        start, end = self.span("train")
        found = np.full(end - start, -1, dtype=np.int8)
        objects = self.objects(category, "train")
        for number in np.unique(objects.images):
            mine = objects.images == number
            rows = slice(self.ends[number] - self.rows[number], self.ends[number])
            given = objects.boxes[mine], objects.difficult[mine]
            found[rows.start - start : rows.stop - start] = labelled(boxes[rows], *given, positive, negative)
        return found

    def image_of(self, rows: Integers) -> Integers:
        """The numbers of the images that rows belong to."""
        return np.searchsorted(self.ends, rows, side="right")


def pick(scenes: Sequence[Scene], count: int, categories: Sequence[str], seed: int) -> list[Scene]:
    """`count` images in random order, 0: all of them. With `categories`, each class in turn gives an image."""
    order = [scenes[k] for k in np.random.default_rng(seed).permutation(len(scenes))]
    if not categories or not count:
        return order[: count or None]
    found: list[Scene] = []
    while order and len(found) < count:
        wanted = categories[len(found) % len(categories)]
        shows = [any(each.name == wanted and not each.difficult for each in scene.annotations) for scene in order]
        found.append(order.pop(shows.index(True) if any(shows) else 0))
    return found


def cache_images(images: Images) -> str:
    """Write the images into the cache; return their key, which does not depend on where the files are."""
    key = key_of(kind="images", images={**encode(images), "paths": []})
    CACHE.write_json("images", key, encode(images))
    read_images.cache_clear()
    return key


@lru_cache(maxsize=1)
def read_images(key: str) -> Images:
    """The images under a key."""
    return decode(Images, CACHE.read_json("images", key))


def easy_boxes(annotations: Sequence[Annotation]) -> Floats:
    """The boxes (n, 4) of annotated objects that are not difficult."""
    return np.array([each.box for each in annotations if not each.difficult]).reshape(-1, 4)
