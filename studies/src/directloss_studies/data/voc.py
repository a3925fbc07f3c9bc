"""PASCAL VOC devkits: their lists, annotations and images, and where to get them.

Files are read without trust. Whatever is wrong with one, the error names it.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..harness.downloads import check, download, unpack
from ..harness.progress import Progress, Steps, no_progress
from ..vision.images import read_image

__all__ = [
    "ACTIONS",
    "CLASSES",
    "Actions",
    "Annotation",
    "DevkitError",
    "Scene",
    "Segmented",
    "check_voc2012",
    "fetch_voc2012",
    "find_devkit",
    "is_there",
    "read_actions",
    "read_scenes",
    "read_segmented",
    "verify",
]

ACTIONS = {
    "jumping": "jumping",
    "phoning": "phoning",
    "playinginstrument": "playing instrument",
    "reading": "reading",
    "ridingbike": "riding bike",
    "ridinghorse": "riding horse",
    "running": "running",
    "takingphoto": "taking photo",
    "usingcomputer": "using computer",
    "walking": "walking",
}
"""The ten actions in the paper's order: their names in files, and in words."""

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
"""The twenty classes of the detection task."""

ARCHIVE = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar"
ARCHIVE_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
OFFICIAL = {"images": 4588, "boxes": 6278, "jumping": 5670}
LARGEST_XML = 1 << 20  # bytes; the largest annotation of VOC2012 has less than a twentieth


class DevkitError(ValueError):
    """A devkit, or a file of it, that cannot be used."""


def find_devkit(root: Path) -> Path:
    """The folder VOC2012; `root` is that folder, VOCdevkit, or the folder that holds VOCdevkit."""
    for folder in (root, root / "VOC2012", root / "VOCdevkit" / "VOC2012"):
        if (folder / "ImageSets").is_dir() and (folder / "Annotations").is_dir():
            return folder
    raise DevkitError(
        f"{root} does not hold a VOC2012 devkit: there are no folders ImageSets and Annotations in it, in VOC2012 or "
        "in VOCdevkit/VOC2012. `directloss data voc2012 --root DIR` gets one, or says what to put where."
    )


def is_there(root: Path) -> bool:
    """Whether `root` holds a devkit, whole or not."""
    try:
        return bool(find_devkit(root))
    except DevkitError:
        return False


def fetch_voc2012(root: Path, steps: Steps) -> None:
    """Fetch and unpack the official archive into `root`. An archive that is there is used if it is whole."""
    archive = root / ARCHIVE.rsplit("/", 1)[-1]
    if archive.exists():
        check(archive, "md5", ARCHIVE_MD5)
    else:
        download(ARCHIVE, archive, "md5", ARCHIVE_MD5, steps("fetching VOC2012"))
    unpack(archive, "VOCdevkit", root, steps("unpacking"))


@dataclass(frozen=True)
class Actions:
    """Boxes of people in images, and the actions of these people."""

    images: tuple[str, ...]
    """For each box the name of its image."""
    objects: tuple[int, ...]
    """For each box the number of its object in the image's annotation, from 1."""
    boxes: Tensor
    """(boxes, 4): left, top, right, bottom as annotated; pixels from 1, both ends inside."""
    labels: dict[str, Tensor]
    """For each action (boxes,): 1 the person does it, −1 does not, 0 not to be used."""
    paths: dict[str, Path]
    """For each image its file."""

    def __len__(self) -> int:
        return len(self.images)

    def provenance(self, progress: Progress = no_progress) -> str:
        """A digest of all boxes and of all bytes of the images."""
        digest = hashlib.sha256()
        names = sorted(self.paths)
        for number, name in enumerate(names):
            digest.update(f"{name} {hashlib.sha256(_bytes(self.paths[name])).hexdigest()}\n".encode())
            progress((number + 1) / len(names))
        for image, box in zip(self.images, self.boxes.tolist(), strict=True):
            digest.update(f"{image} {box}\n".encode())
        return digest.hexdigest()


def read_actions(root: Path) -> Actions:
    """The boxes and labels of the action task, for all images on the official list."""
    devkit = find_devkit(root)
    lists = devkit / "ImageSets" / "Action"
    on_list = {name: place for place, (name,) in enumerate(_rows(lists / "trainval.txt", 1))}
    labels: dict[str, dict[tuple[str, int], int]] = {}
    for action in ACTIONS:
        path = lists / f"{action}_trainval.txt"
        labels[action] = {}
        for image, number, label in _rows(path, 3):
            if image not in on_list:
                raise DevkitError(f"{path}: {image} is not on the list trainval.txt.")
            if labels[action].setdefault((image, int(number)), int(label)) != int(label):
                raise DevkitError(f"{path}: object {number} of {image} has two labels.")
        if not labels[action]:
            raise DevkitError(f"{path} lists no person.")
    people = sorted({person for found in labels.values() for person in found}, key=lambda k: (on_list[k[0]], k[1]))
    index = {person: place for place, person in enumerate(people)}
    wanted: dict[str, list[int]] = {}
    for image, number in index:
        wanted.setdefault(image, []).append(number)
    boxes = torch.zeros(len(index), 4)
    paths: dict[str, Path] = {}
    for image, numbers in wanted.items():
        annotation = devkit / "Annotations" / f"{image}.xml"
        objects = _objects(annotation)
        for number in numbers:
            if not 1 <= number <= len(objects):
                raise DevkitError(f"{annotation} has {len(objects)} objects; the lists name number {number}.")
            found = objects[number - 1]
            if found.name != "person":
                raise DevkitError(f"{annotation}: object {number} must be a person; got {found.name!r}.")
            boxes[index[image, number]] = torch.tensor(found.box)
        paths[image] = _image_of(devkit, image)
    tensors = {}
    for action, found in labels.items():
        tensors[action] = torch.zeros(len(index), dtype=torch.int8)
        tensors[action][[index[person] for person in found]] = torch.tensor(list(found.values()), dtype=torch.int8)
    images, objects = zip(*index, strict=True)
    return Actions(images, objects, boxes, tensors, paths)


@dataclass(frozen=True)
class Annotation:
    """An object in an image, as annotated."""

    name: str
    box: tuple[float, float, float, float]
    """Left, top, right, bottom; pixels from 1, both ends inside."""
    difficult: bool
    """It does not count in an evaluation, whether it is detected or not."""


@dataclass(frozen=True)
class Scene:
    """An image of the detection task, and its annotated objects of the twenty classes."""

    name: str
    path: Path
    annotations: tuple[Annotation, ...]


def read_scenes(root: Path, part: str) -> list[Scene]:
    """The images on the official list of a part of the detection task, with their annotations."""
    devkit = find_devkit(root)
    path = devkit / "ImageSets" / "Main" / f"{part}.txt"
    found = []
    for name in dict.fromkeys(name for (name,) in _rows(path, 1)):
        objects = _objects(devkit / "Annotations" / f"{name}.xml")
        found.append(Scene(name, _image_of(devkit, name), tuple(of for of in objects if of.name in CLASSES)))
    if not found:
        raise DevkitError(f"{path} lists no image.")
    return found


@dataclass(frozen=True)
class Segmented:
    """An image of the segmentation task, and the file that gives every pixel a class."""

    name: str
    path: Path
    labels: Path
    """0 is background, 1 to 20 are the classes, 255 is not to be used."""


def read_segmented(root: Path) -> list[Segmented]:
    """The images on the official list of the segmentation task."""
    devkit = find_devkit(root)
    path = devkit / "ImageSets" / "Segmentation" / "trainval.txt"
    found = []
    for name in dict.fromkeys(name for (name,) in _rows(path, 1)):
        labels = devkit / "SegmentationClass" / f"{name}.png"
        if not labels.is_file():
            raise DevkitError(f"{labels} is missing.")
        found.append(Segmented(name, _image_of(devkit, name), labels))
    if not found:
        raise DevkitError(f"{path} lists no image.")
    return found


def _image_of(devkit: Path, name: str) -> Path:
    path = devkit / "JPEGImages" / f"{name}.jpg"
    if not path.is_file():
        raise DevkitError(f"{path} is missing.")
    return path


PATTERNS = (
    ("an image name", re.compile(r"[A-Za-z0-9_-]{1,64}")),
    ("an object number", re.compile(r"[0-9]{1,6}")),
    ("a label (−1, 0 or 1)", re.compile(r"-1|0|1")),
)


def _rows(path: Path, columns: int) -> Iterator[tuple[str, ...]]:
    """The first columns of every line of a list: image, object, label."""
    for number, line in enumerate(_bytes(path).decode("utf-8", "replace").splitlines(), 1):
        parts = line.split()[:columns]
        if not parts:
            continue
        if len(parts) < columns:
            raise DevkitError(f"{path}, line {number}: {line.strip()!r} has fewer than {columns} columns.")
        for part, (what, pattern) in zip(parts, PATTERNS, strict=False):
            if not pattern.fullmatch(part):
                raise DevkitError(f"{path}, line {number}: {part!r} is not {what}.")
        yield tuple(parts)


def _bytes(path: Path, at_most: int | None = None) -> bytes:
    try:
        if not path.is_file():
            raise DevkitError(f"{path} is missing.")
        if at_most is not None and path.stat().st_size > at_most:
            raise DevkitError(f"{path} has {path.stat().st_size} bytes, more than {at_most}: not read.")
        return path.read_bytes()
    except OSError as error:
        raise DevkitError(f"{path} cannot be read: {error.strerror}.") from None


def _objects(path: Path) -> list[Annotation]:
    """The objects in an annotation file, in its order."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        tree = fromstring(_bytes(path, LARGEST_XML))
    except (ParseError, DefusedXmlException, LookupError, ValueError, RecursionError) as error:
        if isinstance(error, DevkitError):
            raise
        raise DevkitError(f"{path} is not an annotation: {type(error).__name__}: {error}") from None
    objects = []
    for found in tree.findall("object"):
        try:
            left, top, right, bottom = (float(_text(found, f"bndbox/{k}")) for k in ("xmin", "ymin", "xmax", "ymax"))
        except (TypeError, ValueError):
            raise DevkitError(f"{path}: object {len(objects) + 1} has no box of four numbers.") from None
        if not (-1e6 < left <= right < 1e6 and -1e6 < top <= bottom < 1e6):
            raise DevkitError(f"{path}: the box {left, top, right, bottom} of object {len(objects) + 1} is empty.")
        difficult = _text(found, "difficult").strip() == "1"
        objects.append(Annotation(_text(found, "name").strip(), (left, top, right, bottom), difficult))
    return objects


def _text(element: Any, path: str) -> str:
    return element.findtext(path, default="")


def verify(root: Path, progress: Progress = no_progress) -> dict[str, int]:
    """Read the whole action task, decode every image, and compare the counts with the official ones."""
    actions = read_actions(root)
    for number, path in enumerate(actions.paths.values()):
        read_image(path)
        progress((number + 1) / len(actions.paths))
    counts = {"images": len(actions.paths), "boxes": len(actions)}
    counts |= {action: int((labels != 0).sum()) for action, labels in actions.labels.items()}
    wrong = [f"{counts[key]} {key} instead of {value}" for key, value in OFFICIAL.items() if counts[key] != value]
    if wrong:
        raise DevkitError(f"{root} is readable, but it is not the official VOC2012 action task: {', '.join(wrong)}.")
    return counts


def check_voc2012(root: Path, steps: Steps) -> str:
    """Check the devkit in a folder, or fetch it (2 GB) if there is none. Returns what is there, in words."""
    if not is_there(root):
        fetch_voc2012(root, steps)
    counts = verify(root, steps("decoding every image"))
    words = ", ".join(f"{count} {what}" for what, count in counts.items())
    return f"{find_devkit(root)} is the official action task: {words}."
