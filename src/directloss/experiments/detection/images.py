"""The images of the detection task as runs see them: which are for what, what they show, where their boxes' rows are.

Rows of features stand image by image, first those that train, then those held out to choose settings by, then the test
images. Of images that train, rows begin with what they show, as in R-CNN.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.voc import Scene, Thing
from ..harness.files import cache_folder, write_whole
from ..vision.boxes import Floats, Integers, labelled
from ..vision.evaluation import Objects

__all__ = ["PARTS", "Images", "keep_images", "kept_images", "pick"]

PARTS = ("train", "held out", "test")


@dataclass(frozen=True)
class Images:
    """Images in the order of their rows."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    parts: tuple[str, ...]
    things: tuple[tuple[Thing, ...], ...]
    rows: tuple[int, ...]
    """How many each has."""

    @cached_property
    def ends(self) -> list[int]:
        """The row after the last one of every image."""
        return list(accumulate(self.rows))

    def span(self, part: str) -> tuple[int, int]:
        """The first row of a part, and the one after its last."""
        there = [number for number, of in enumerate(self.parts) if of == part]
        return self.ends[there[0]] - self.rows[there[0]], self.ends[there[-1]]

    def objects(self, category: str, part: str) -> Objects:
        """What there is to find of a class in a part."""
        found = [
            (number, thing)
            for number, (of, things) in enumerate(zip(self.parts, self.things, strict=True))
            for thing in things
            if of == part and thing.name == category
        ]
        return Objects(
            np.array([number for number, _ in found], dtype=np.int64),
            np.array([thing.box for _, thing in found]).reshape(-1, 4),
            np.array([thing.difficult for _, thing in found], dtype=bool),
        )

    def labels(self, category: str, boxes: Any, positive: float, negative: float) -> NDArray[np.int8]:
        """Of all rows that train; `boxes` are those of all rows."""
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
    """So many images in random order; of few, as many with one class as with another. 0: all of them."""
    order = [scenes[k] for k in np.random.default_rng(seed).permutation(len(scenes))]
    if not categories or not count:
        return order[: count or None]
    found: list[Scene] = []
    while order and len(found) < count:
        wanted = categories[len(found) % len(categories)]
        shows = [any(t.name == wanted and not t.difficult for t in scene.things) for scene in order]
        found.append(order.pop(shows.index(True) if any(shows) else 0))
    return found


def keep_images(images: Images) -> str:
    """Keep them for other processes; return their key, which does not hang on where the files are."""
    content = json.dumps(asdict(images))
    key = hashlib.sha256(json.dumps({**asdict(images), "paths": []}).encode()).hexdigest()[:32]
    path = _path(key)
    if not path.exists() or path.read_bytes() != content.encode():
        write_whole(path, content)
        kept_images.cache_clear()
    return key


@lru_cache(maxsize=1)
def kept_images(key: str) -> Images:
    """The images under a key."""
    path = _path(key)
    if not path.exists():
        raise FileNotFoundError(f"{path} is gone. `directloss reproduce detection --root …` writes it again.")
    content = json.loads(path.read_text())
    content["things"] = tuple(
        tuple(Thing(thing["name"], tuple(thing["box"]), thing["difficult"]) for thing in things)
        for things in content["things"]
    )
    return Images(**{name: value if name == "things" else tuple(value) for name, value in content.items()})


def _path(key: str) -> Path:
    return cache_folder() / "images" / f"{key}.json"


def shown(things: Sequence[Thing]) -> Floats:
    """Boxes of what an image shows and a detector should find."""
    return np.array([thing.box for thing in things if not thing.difficult]).reshape(-1, 4)
