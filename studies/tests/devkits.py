"""Tiny VOC2012 devkits, laid out as the official one: people who show in colours what they do, objects to detect."""

import colorsys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from directloss_studies.data.voc import ACTIONS, CLASSES
from directloss_studies.vision.backbones import BACKBONES
from PIL import Image
from torch import nn

COLOURS = np.array([colorsys.hsv_to_rgb(k / 10, 1.0, 0.6 + 0.4 * (k % 2)) for k in range(10)]) * 255


def make_devkit(root: Path, images: int = 24, seed: int = 0, size: tuple[int, int] = (80, 60)) -> Path:
    """One or two people an image, each of whom does two actions: in cell k of a box (2 × 5) lies colour k if so."""
    random = np.random.default_rng(seed)
    devkit = root / "VOCdevkit" / "VOC2012"
    for folder in ("JPEGImages", "Annotations", "ImageSets/Action"):
        (devkit / folder).mkdir(parents=True)
    names = [f"2010_{number:06d}" for number in sorted(random.choice(999_999, images, replace=False) + 1)]
    shift = int(random.integers(10))
    lists: dict[str, list[str]] = {action: [] for action in ACTIONS}
    people = 0
    for place, name in enumerate(names):
        count = 1 if place % 3 == 2 else 2
        pixels = random.normal(100, 20, (size[1], size[0], 3))
        objects = [_object("horse", [1, 1, size[0], size[1]])] if place % 5 == 4 else []
        for box in _boxes(random, count, size):
            does = {(people + shift) % 10, (people + shift + 3) % 10}
            _paint(pixels, box, does)
            objects.append(_object("person", box))
            for k, action in enumerate(ACTIONS):
                unclear = (people, k) == (1, shift)
                if k in does or unclear or (people + 2 * k) % 7:
                    label = 1 if k in does else 0 if unclear else -1
                    lists[action].append(f"{name}  {len(objects)} {label:2d}\n")
            people += 1
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(devkit / "JPEGImages" / f"{name}.jpg", quality=90)
        (devkit / "Annotations" / f"{name}.xml").write_text(
            f"<annotation>\n<folder>VOC2012</folder>\n<filename>{name}.jpg</filename>\n<size><width>{size[0]}</width>"
            f"<height>{size[1]}</height><depth>3</depth></size>\n{''.join(objects)}</annotation>\n"
        )
    (devkit / "ImageSets" / "Action" / "trainval.txt").write_text("".join(f"{name}\n" for name in names))
    for action, lines in lists.items():
        (devkit / "ImageSets" / "Action" / f"{action}_trainval.txt").write_text("".join(lines))
    return root


def _boxes(random: np.random.Generator, count: int, size: tuple[int, int]) -> list[list[float]]:
    """Boxes side by side: left, top, right, bottom, pixels from 1; every third edge lies at the image's border."""
    boxes = []
    for k in range(count):
        outer = np.array([1 + k * size[0] / count, 1, (k + 1) * size[0] / count, size[1]])
        inward = random.uniform(0, 0.15, 4) * [size[0] / count, size[1], -size[0] / count, -size[1]]
        boxes.append((outer + inward * (random.random(4) > 1 / 3)).round(2).tolist())
    return boxes


def _paint(pixels: np.ndarray, box: list[float], does: set[int]) -> None:
    columns = np.linspace(box[0] - 1, box[2], 3).round().astype(int)
    rows = np.linspace(box[1] - 1, box[3], 6).round().astype(int)
    for k in does:
        cell = pixels[rows[k // 2] : rows[k // 2 + 1], columns[k % 2] : columns[k % 2 + 1]]
        cell[:] = COLOURS[k] + (cell - 100) / 2


def make_detection_devkit(
    root: Path,
    train: int = 28,
    val: int = 20,
    classes: Sequence[str] = ("car", "cat", "person"),
    seed: int = 0,
    size: tuple[int, int] = (120, 90),
) -> Path:
    """One to three objects an image, side by side; each class is a colour with stripes of another, on grey noise.

    Of every class there is one in each run of as many images as there are classes. Every fifth object is difficult but
    never the first one of an image. Every sixth image shows a pedestrian too, which is no class.
    """
    random = np.random.default_rng(seed)
    devkit = root / "VOCdevkit" / "VOC2012"
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (devkit / folder).mkdir(parents=True)
    names = [f"2008_{number:06d}" for number in random.choice(999_999, train + val, replace=False) + 1]
    for place, name in enumerate(names):
        pixels = random.normal(110, 12, (size[1], size[0], 3))
        count = 1 + place % 3
        objects = []
        for k, box in enumerate(_object_boxes(random, count, size)):
            shown = classes[(place + k * (1 + place // len(classes))) % len(classes)]
            paint_object(pixels, box, shown)
            objects.append(_object(shown, [*map(float, box)], difficult=k > 0 and (place + k) % 5 == 0))
        if place % 6 == 5:
            objects.insert(0, _object("pedestrian", [1, 1, *map(float, size)]))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(devkit / "JPEGImages" / f"{name}.jpg", quality=92)
        (devkit / "Annotations" / f"{name}.xml").write_text(f"<annotation>\n{''.join(objects)}</annotation>\n")
    for part, some in (("train", names[:train]), ("val", names[train:])):
        (devkit / "ImageSets" / "Main" / f"{part}.txt").write_text("".join(f"{name}\n" for name in some))
    return root


def _object_boxes(random: np.random.Generator, count: int, size: tuple[int, int]) -> list[tuple[int, int, int, int]]:
    """Boxes side by side, whole pixels from 1, at least 24 pixels a side."""
    boxes = []
    for k in range(count):
        low, high = 1 + k * size[0] // count, (k + 1) * size[0] // count
        left, top = (int(random.integers(start, start + 6)) for start in (low, 1))
        right = int(random.integers(left + 23, max(left + 24, min(high, left + 55))))
        bottom = int(random.integers(top + 30, size[1] - 2))
        boxes.append((left, top, right, bottom))
    return boxes


def paint_object(pixels: np.ndarray, box: tuple[int, int, int, int], shown: str) -> None:
    """An object of a class, on pixels (height, width, 3)."""
    number = CLASSES.index(shown)
    left, top, right, bottom = box
    cell = pixels[top - 1 : bottom, left - 1 : right]
    colours = [np.array(colorsys.hsv_to_rgb((0.618 * k) % 1, 1.0, 1.0)) * 255 for k in (number, number + 7)]
    cell[:] = colours[0] + (cell - 110) / 3
    step = 4 + number % 3
    stripes = cell[::step] if number % 2 else cell[:, ::step]
    stripes[:] = colours[1]


def make_weights(path: Path, backbone: str = "squeezenet", seed: int = 0) -> Path:
    """Random weights of a backbone's convolutions that keep activations of order one, so that features tell colours."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = BACKBONES[backbone]()
        for name, weight in network.named_parameters():
            if weight.ndim > 1:
                nn.init.kaiming_normal_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)
    named = network.state_dict().items()
    weights = {name: value.numpy() for name, value in named if not name.startswith(network.classifier_names)}
    np.savez(path, **weights)
    return path


def _object(name: str, box: list[float], difficult: bool | None = None) -> str:
    edges = "".join(f"<{k}>{value:g}</{k}>" for k, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    head = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
    hard = "" if difficult is None else f"<difficult>{int(difficult)}</difficult>"
    return f"<object><name>{name}</name>{head}{hard}<bndbox>{edges}</bndbox></object>\n"
