"""A detector of several classes: kept in a folder, and used on images.

The folder holds `detector.json`, `detector.npz` with a linear head a class, and the weights of the backbone. It is
trusted only if the checksums in the first agree with the others.
"""

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..files import write_whole
from .backbones import BACKBONES, Backbone, WeightsError, load_weights
from .boxes import suppress
from .proposals import search
from .regions import WAYS, Basis, describe

__all__ = ["Detector", "DetectorError", "Found", "Heads", "draw", "load_detector", "save_detector"]

FORMAT = 1
SMALLEST = 2  # pixels of a side of an image
LARGEST_JSON, LARGEST_HEADS = 1 << 20, 1 << 28  # bytes
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


class DetectorError(ValueError):
    """A folder that holds no detector."""


@dataclass(frozen=True)
class Heads:
    """One linear score a class, and from what score on a box is shown."""

    classes: tuple[str, ...]
    weights: Tensor
    """(features, classes)."""
    biases: Tensor
    thresholds: Tensor

    @classmethod
    def of(cls, classes: Sequence[str], basis: Basis, heads: Tensor, thresholds: Sequence[float]) -> "Heads":
        """From heads (classes, components + 1), the bias last, in the coordinates of a basis."""
        weights = basis.axes @ heads[:, :-1].T
        return cls(tuple(classes), weights, heads[:, -1] - basis.mean @ weights, torch.tensor(thresholds))


@dataclass(frozen=True)
class Found:
    """A box that shows something."""

    name: str
    score: float
    box: tuple[float, float, float, float]
    """Left, top, right, bottom: pixels from 1, both ends inside."""


@dataclass(frozen=True)
class Detector:
    """Selective search, a backbone, heads, non-maximum suppression."""

    network: Backbone
    way: str
    boxes: int
    overlap: float
    heads: Heads

    def __call__(self, image: Any, top: int = 20) -> list[Found]:
        """What a Pillow image shows, at most `top` boxes: those farthest above the threshold of their class."""
        if min(image.size) < SMALLEST:
            raise ValueError(f"An image of {image.width} × {image.height} pixels shows nothing.")
        boxes = search(image)[: self.boxes].astype(np.float64)
        rows = describe(image, boxes, self.way, self.network)
        scores = (rows @ self.heads.weights + self.heads.biases).double().numpy()
        found = []
        for number, name in enumerate(self.heads.classes):
            stays = suppress(np.zeros(len(boxes), dtype=np.int64), boxes, scores[:, number], self.overlap)
            above = scores[stays, number] - float(self.heads.thresholds[number])
            found += [
                (margin, Found(name, float(scores[place, number]), tuple(boxes[place].tolist())))
                for place, margin in zip(stays, above.tolist(), strict=True)
                if margin >= 0
            ]
        return [each for _, each in sorted(found, key=lambda pair: -pair[0])[:top]]


def save_detector(
    folder: Path, backbone: str, weights: Path, way: str, boxes: int, overlap: float, heads: Heads
) -> None:
    """Write the folder; `detector.json` comes last, so that a folder without it is not whole."""
    buffer = io.BytesIO()
    arrays = {"weights": heads.weights, "biases": heads.biases, "thresholds": heads.thresholds}
    np.savez(buffer, allow_pickle=False, **{name: tensor.float().numpy() for name, tensor in arrays.items()})
    files = {"detector.npz": buffer.getvalue(), f"backbone{weights.suffix}": weights.read_bytes()}
    (folder / "detector.json").unlink(missing_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)
    facts = {"format": FORMAT, "backbone": backbone, "way": way, "boxes": boxes, "overlap": overlap}
    facts |= {"classes": heads.classes, "files": {n: hashlib.sha256(c).hexdigest() for n, c in files.items()}}
    write_whole(folder / "detector.json", json.dumps(facts, indent=1) + "\n")


def load_detector(folder: Path) -> Detector:
    """Read a folder that `save_detector` wrote, with distrust."""
    path = folder / "detector.json"
    if not path.is_file():
        raise DetectorError(
            f"{folder} holds no detector: there is no {path.name}. `directloss reproduce detection` makes one."
        )
    try:
        facts = json.loads(_bytes(path, LARGEST_JSON))
        if facts["format"] != FORMAT:
            raise DetectorError(f"{path} has format {facts['format']!r}; this version reads {FORMAT}.")
        if facts["backbone"] not in BACKBONES or facts["way"] not in WAYS:
            raise DetectorError(f"{path} names a backbone or a kind of features that is unknown.")
        classes = tuple(str(name) for name in facts["classes"])
        boxes, overlap = int(facts["boxes"]), float(facts["overlap"])
        network = BACKBONES[facts["backbone"]]().eval()
        (weights,) = (name for name in facts["files"] if name in ("backbone.npz", "backbone.pth"))
        for name in ("detector.npz", weights):
            content = _bytes(folder / name, LARGEST_HEADS)
            if hashlib.sha256(content).hexdigest() != facts["files"][name]:
                raise DetectorError(f"{folder / name} is damaged, or of another detector: its checksum is wrong.")
        load_weights(network, folder / weights)
        with np.load(folder / "detector.npz", allow_pickle=False) as arrays:
            tensors = [torch.from_numpy(arrays[name]) for name in ("weights", "biases", "thresholds")]
        count = len(classes)
        if [tuple(t.shape[-1:]) for t in tensors] != [(count,)] * 3 or tensors[0].ndim != 2 or not boxes > 0:
            raise DetectorError(f"{folder} holds heads that do not fit its {count} classes.")
        if not all(tensor.isfinite().all() for tensor in tensors):
            raise DetectorError(f"{folder} holds values that are not finite.")
    except (DetectorError, WeightsError):
        raise
    except Exception as error:  # whatever a hostile file makes the reader raise
        raise DetectorError(f"{folder} holds no detector: {type(error).__name__}: {str(error)[:200]}") from None
    return Detector(network, facts["way"], boxes, overlap, Heads(classes, *tensors))


def _bytes(path: Path, at_most: int) -> bytes:
    if not path.is_file():
        raise DetectorError(f"{path} is missing.")
    if path.stat().st_size > at_most:
        raise DetectorError(f"{path} has {path.stat().st_size} bytes, more than {at_most}: not read.")
    return path.read_bytes()


def draw(image: Any, found: Sequence[Found]) -> Any:
    """A copy of a Pillow image with boxes, names and scores, the best box on top."""
    from PIL import ImageDraw, ImageFont

    copy = image.copy()
    pen = ImageDraw.Draw(copy)
    size = max(11, min(image.size) // 28)
    font = ImageFont.load_default(size)
    names = list(dict.fromkeys(each.name for each in found))
    for each in reversed(found):
        colour = COLOURS[names.index(each.name) % len(COLOURS)]
        left, top, right, bottom = each.box
        pen.rectangle((left - 1, top - 1, right - 1, bottom - 1), outline=colour, width=max(2, size // 6))
        text = f"{each.name} {each.score:.2f}"
        place = pen.textbbox((left - 1, max(top - 1 - size * 1.3, 0)), text, font=font)
        pen.rectangle((place[0] - 2, place[1] - 2, place[2] + 2, place[3] + 2), fill=colour)
        pen.text((left - 1, max(top - 1 - size * 1.3, 0)), text, fill="white", font=font)
    return copy
