"""A detector of several classes: saved in a folder, loaded from it, and used on images.

The folder holds `detector.json`, `detector.npz` with a linear head a class, and the weights of the backbone. It is
trusted only if the checksums in the first agree with the others. Format 2 of `detector.json` adds what was measured on
images that the detector was not trained on; a folder of format 1 has scores only.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..harness.files import distrusted, write_whole
from ..harness.typed import decode, encode
from .backbones import BACKBONES, Backbone, WeightsError, load_weights
from .boxes import suppress
from .calibration import Knots, check_knots, precision_at
from .proposals import SIDE, search
from .regions import FEATURE_KINDS, Basis, describe

__all__ = [
    "LEAST_SEARCHED",
    "MOST_SEARCHED",
    "ClassHeads",
    "Detection",
    "Detector",
    "DetectorError",
    "Measured",
    "choose_detector",
    "draw",
    "load_detector",
    "read_measured",
    "save_detector",
    "upright",
]

FORMAT, OLDEST = 2, 1
LEAST_SIDE = 2  # pixels of an image
LEAST_SEARCHED, MOST_SEARCHED = 50, 5000  # pixels of the longer side of the image that is searched
LARGEST_JSON, LARGEST_FILE = 1 << 20, 1 << 29  # bytes
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


class DetectorError(ValueError):
    """A folder that does not hold a detector."""


@dataclass(frozen=True)
class ClassHeads:
    """A linear score for each class, and the threshold from which on a box is shown."""

    classes: tuple[str, ...]
    weights: Tensor
    """(features, classes)."""
    biases: Tensor
    thresholds: Tensor

    @classmethod
    def of(cls, classes: Sequence[str], basis: Basis, heads: Tensor, thresholds: Sequence[float]) -> "ClassHeads":
        """From heads (classes, components + 1), the bias last, in the coordinates of a basis."""
        weights = basis.axes @ heads[:, :-1].T
        return cls(tuple(classes), weights, heads[:, -1] - basis.mean @ weights, torch.tensor(thresholds))


@dataclass(frozen=True)
class Measured:
    """What was measured on images that the detector was not trained on."""

    average_precision: float
    """Mean over the classes, on the images by which settings were chosen."""
    test_images: int
    precision: tuple[Knots, ...]
    """By score, for each class, on the test images. Empty if it was not measured."""

    def check(self, classes: int) -> None:
        """Raise a ValueError unless all parts are in range and there is a precision for each class."""
        if self.test_images < 1 or not 0 <= self.average_precision <= 1 or len(self.precision) != classes:
            raise ValueError(f"measured must have 1 image or more, AP from 0 to 1, and {classes} precisions by score")
        for knots in self.precision:
            check_knots(knots)


@dataclass(frozen=True)
class Detection:
    """A box with the class and the score that the detector gives it."""

    name: str
    """Of the class."""
    score: float
    box: tuple[float, float, float, float]
    """Left, top, right, bottom: pixels from 1, both ends inside."""
    precision: float | None = None
    """The share of right ones among the detections of the class with such a score in test images; None: unknown."""

    @property
    def number(self) -> str:
        """What people are shown: the precision, or the score if that is all there is."""
        return f"{self.score:.2f}" if self.precision is None else f"{100 * self.precision:.0f} %"


@dataclass(frozen=True)
class Detector:
    """Selective search, a backbone, heads, non-maximum suppression."""

    network: Backbone
    feature_kind: str
    boxes: int
    overlap: float
    heads: ClassHeads
    measured: Measured | None = None
    side: int = SIDE
    """Of the image that is searched, see `search`."""

    @property
    def numbers_in_words(self) -> str:
        """What the number beside a detection is."""
        if self.measured is None or not all(self.measured.precision):
            return (
                "A number without % is a bare score: this detector does not know its precision. "
                "`directloss reproduce detection` makes one that does."
            )
        images = self.measured.test_images
        return f"Precision: the share that was right, of boxes with such a score in {images} test images."

    def __call__(self, image: Any, top: int = 20) -> list[Detection]:
        """The detections in a Pillow image, at most `top`: those with the highest precision.

        If two have the same one, or none, the one that is farther above the threshold of its class comes first.
        """
        if min(image.size) < LEAST_SIDE:
            raise ValueError(f"The image has {image.width} × {image.height} pixels; a side must have {LEAST_SIDE}.")
        boxes = search(image, side=self.side)[: self.boxes].astype(np.float64)
        rows = describe(image, boxes, self.feature_kind, self.network)
        scores = (rows @ self.heads.weights + self.heads.biases).double().numpy()
        found = []
        for number, name in enumerate(self.heads.classes):
            stays = suppress(np.zeros(len(boxes), dtype=np.int64), boxes, scores[:, number], self.overlap)
            knots = self.measured.precision[number] if self.measured else ()
            for place in stays:
                score = float(scores[place, number])
                margin = score - float(self.heads.thresholds[number])
                if margin >= 0:
                    precision = precision_at(knots, score)
                    each = Detection(name, score, tuple(boxes[place].tolist()), precision)
                    found.append((precision or 0.0, margin, each))
        return [each for *_, each in sorted(found, key=lambda row: row[:2], reverse=True)[:top]]


def save_detector(folder: Path, detector: Detector) -> None:
    """Write the folder. `detector.json` comes last, so that a folder that has it is whole."""
    heads = detector.heads
    arrays = {"weights": heads.weights, "biases": heads.biases, "thresholds": heads.thresholds}
    network = detector.network
    trunk = {name: of for name, of in network.state_dict().items() if not name.startswith(network.classifier_names)}
    files = {name: _npz(of) for name, of in (("detector.npz", arrays), ("backbone.npz", trunk))}
    (folder / "detector.json").unlink(missing_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)
    (backbone,) = (name for name, kind in BACKBONES.items() if kind is type(detector.network))
    facts = {"format": FORMAT, "backbone": backbone, "feature_kind": detector.feature_kind, "boxes": detector.boxes}
    facts["side"] = detector.side
    facts |= {"overlap": detector.overlap, "classes": heads.classes, "measured": encode(detector.measured)}
    facts["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    write_whole(folder / "detector.json", json.dumps(facts, indent=1) + "\n")


def _npz(tensors: Mapping[str, Tensor]) -> bytes:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {name: tensor.float().numpy() for name, tensor in tensors.items()}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def choose_detector(folder: Path) -> tuple[Path, str]:
    """The folder of a detector under a folder, and why this one, in words.

    Of the detectors that one command wrote, which stand side by side, it is the best on held-out images. A
    `DetectorError` lists several that cannot be compared.
    """
    found = sorted(path.parent for path in folder.rglob("detector.json") if path.is_file())
    if not found:
        raise DetectorError(
            f"There is no detector under {folder}. `directloss reproduce detection --root DEVKIT` makes some, "
            "and `directloss data voc2012 --root DEVKIT` fetches the images for it."
        )
    if len(found) == 1:
        return found[0], f"It is the only one under {folder}."
    by_ap = {path: measured.average_precision for path in found if (measured := read_measured(path))}
    if len(by_ap) < len(found) or len({path.parent for path in found}) > 1:
        listed = "".join(f"\n  {path}" for path in found)
        raise DetectorError(f"There are {len(found)} detectors under {folder}. Name one with --model:{listed}")
    best = max(found, key=by_ap.__getitem__)
    return best, f"Of {len(found)} detectors it has the highest AP on held-out images, {by_ap[best]:.2f}."


def load_detector(folder: Path) -> Detector:
    """Read a folder that `save_detector` wrote. Whatever is wrong with it is a `DetectorError`."""
    path = folder / "detector.json"
    with distrusted(f"{folder} does not hold a detector", DetectorError, WeightsError):
        facts = _read_facts(folder)
        feature_kind = facts["feature_kind"] if "feature_kind" in facts else facts["way"]  # its name until 0.1
        if facts["backbone"] not in BACKBONES or feature_kind not in FEATURE_KINDS:
            raise DetectorError(f"{path} names a backbone or a kind of features that is unknown.")
        classes = tuple(str(name) for name in facts["classes"])
        if not classes or not all(name.isprintable() and 0 < len(name) <= 64 for name in classes):
            raise DetectorError(f"{path} names no classes, or some that are not words.")
        boxes, overlap = int(facts["boxes"]), float(facts["overlap"])
        side = int(facts.get("side", 500))  # always this until 0.1
        network = BACKBONES[facts["backbone"]]().eval()
        contents = {name: _bytes(folder / name, LARGEST_FILE) for name in ("detector.npz", "backbone.npz")}
        for name, content in contents.items():
            if hashlib.sha256(content).hexdigest() != facts["files"][name]:
                raise DetectorError(f"{folder / name} is damaged or of another detector: its checksum is wrong.")
        load_weights(network, folder / "backbone.npz")
        tensors = _read_heads(
            folder / "detector.npz", contents["detector.npz"], network.features_of(feature_kind), len(classes)
        )
        if not (boxes > 0 and 0 <= overlap <= 1 and LEAST_SEARCHED <= side <= MOST_SEARCHED):
            raise DetectorError(
                f"{path} wants {boxes} boxes that overlap by at most {overlap}, in images of {side} pixels."
            )
        measured = _measured(facts)
        return Detector(network, feature_kind, boxes, overlap, ClassHeads(classes, *tensors), measured, side)


def read_measured(folder: Path) -> Measured | None:
    """What was measured, without reading the rest of a detector; None if it was not."""
    with distrusted(f"{folder} does not hold a detector", DetectorError, WeightsError):
        return _measured(_read_facts(folder))


def _read_facts(folder: Path) -> dict[str, Any]:
    """What `detector.json` says, in a format that is known."""
    path = folder / "detector.json"
    if not path.is_file():
        raise DetectorError(
            f"{folder} does not hold a detector: there is no {path.name}. `directloss reproduce detection` makes one."
        )
    facts = json.loads(_bytes(path, LARGEST_JSON))
    if type(facts["format"]) is not int or not OLDEST <= facts["format"] <= FORMAT:
        raise DetectorError(f"{path} has format {facts['format']!r}; this version reads {OLDEST} to {FORMAT}.")
    return facts


def _measured(facts: Mapping[str, Any]) -> Measured | None:
    if facts["format"] == OLDEST or facts["measured"] is None:
        return None
    found = decode(Measured, facts["measured"])
    found.check(len(facts["classes"]))
    return found


def _read_heads(path: Path, content: bytes, features: int, classes: int) -> list[Tensor]:
    """Weights, biases and thresholds, if they fit the number of features and of classes."""
    shapes = {"weights": (features, classes), "biases": (classes,), "thresholds": (classes,)}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > 16 * (features + 2) * classes + 4096:
            raise DetectorError(f"{path} unpacks to more than {classes} classes can need.")
    found = []
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for name, shape in shapes.items():
            array = arrays[name]
            if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
                raise DetectorError(f"{path}: {name!r} is not an array of {shape} finite numbers.")
            found.append(torch.from_numpy(array.astype(np.float32)))
    return found


def _bytes(path: Path, at_most: int) -> bytes:
    if not path.is_file():
        raise DetectorError(f"{path} is missing.")
    if path.stat().st_size > at_most:
        raise DetectorError(f"{path} has {path.stat().st_size} bytes, more than {at_most}: not read.")
    return path.read_bytes()


def upright(image: Any) -> Any:
    """A Pillow image turned upright, as its EXIF data say."""
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def draw(image: Any, detections: Sequence[Detection]) -> Any:
    """A copy of a Pillow image with boxes, names and precisions or scores, the best box on top."""
    from PIL import ImageDraw, ImageFont

    copy = image.copy()
    pen = ImageDraw.Draw(copy)
    size = max(11, min(image.size) // 28)
    font = ImageFont.load_default(size)
    names = list(dict.fromkeys(each.name for each in detections))
    for each in reversed(detections):
        colour = COLOURS[names.index(each.name) % len(COLOURS)]
        left, top, right, bottom = each.box
        pen.rectangle((left - 1, top - 1, right - 1, bottom - 1), outline=colour, width=max(2, size // 6))
        text = f"{each.name} {each.number}"
        corner = max(min(left - 1, image.width - pen.textlength(text, font=font) - 3), 0), max(top - 1 - size * 1.3, 0)
        place = pen.textbbox(corner, text, font=font)
        pen.rectangle((place[0] - 2, place[1] - 2, place[2] + 2, place[3] + 2), fill=colour)
        pen.text(corner, text, fill="white", font=font)
    return copy
