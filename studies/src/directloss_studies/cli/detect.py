"""`directloss detect`: draw what a detector finds in images."""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..harness.files import write_whole
from ..vision.detector import Detection, choose_detector, draw, load_detector, upright
from ..vision.images import read_image
from .terminal import console, errors, handled, refuse, show_steps

__all__ = ["detect"]


def _free_name(image: Path, out: Path, taken: set[str]) -> str:
    """A name for the drawing of an image that is not taken yet; adds it to `taken`."""
    stem, again = image.stem[:80], 1
    name = f"{stem}-detected.png"
    while os.path.realpath(out / name) in taken:
        again += 1
        name = f"{stem}-detected-{again}.png"
    taken.add(os.path.realpath(out / name))
    return name


def _plain(each: Detection) -> dict[str, Any]:
    """A detection in `detections.json`."""
    precision = None if each.precision is None else round(each.precision, 4)
    return {"class": each.name, "precision": precision, "score": round(each.score, 4), "box": each.box}


def _in_words(detections: Sequence[Detection]) -> str:
    """The numbers of each class, the class with the best detection first."""
    found: dict[str, list[str]] = {}
    for each in detections:
        found.setdefault(each.name, []).append(each.number)
    return "; ".join(f"{name} {', '.join(numbers)}" for name, numbers in found.items()) or "nothing"


def detect(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="JPEG or PNG.")],
    model: Annotated[Path | None, typer.Option(help="Folder of a detector. Without it, one under --runs.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder in which `directloss reproduce` wrote detectors.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder for drawn images and detections.json.")] = Path("detections"),
    top: Annotated[int, typer.Option(min=1, help="The largest number of boxes in an image.")] = 20,
) -> None:
    """Detect objects in images: draw boxes, write JSON.

    The command names an image that it cannot use, and continues with the others.
    """
    if out.exists() and not out.is_dir():
        raise refuse(f"--out {out} is a file. Name a folder.")
    with handled():
        if model is None:
            model, why = choose_detector(runs)
            console.print(f"Detector: {model}", soft_wrap=True)
            console.print(why)
        detector = load_detector(model)
    taken = {os.path.realpath(path) for path in images}  # a drawing must not replace an image
    if os.path.realpath(out / "detections.json") in taken:
        raise refuse(f"{out / 'detections.json'} is to be drawn and would be replaced. Name another --out.")
    rows, lines, bad = [], [], 0
    with handled():
        with show_steps() as steps:
            progress = steps("detecting")
            for number, path in enumerate(images):
                try:
                    image = upright(read_image(path))
                    detections = detector(image, top)
                except (ValueError, OSError) as error:
                    bad += 1
                    text = str(error) if str(path) in str(error) else f"{path}: {error}"
                    errors.print(text, style="red")
                else:
                    name = _free_name(path, out, taken)
                    buffer = io.BytesIO()
                    draw(image, detections).save(buffer, format="PNG")
                    write_whole(out / name, buffer.getvalue())
                    boxes = [_plain(each) for each in detections]
                    size = {"width": image.width, "height": image.height}
                    rows.append({"image": str(path), "drawn": name, **size, "boxes": boxes})
                    shown = str(path).encode(errors="backslashreplace").decode()  # a file name may not be UTF-8
                    lines.append(f"{shown}: {_in_words(detections)}")
                progress((number + 1) / len(images))
        if rows:
            write_whole(out / "detections.json", json.dumps(rows, indent=1) + "\n")
    for line in lines:
        console.print(line, soft_wrap=True)
    if rows:
        console.print(detector.numbers_in_words, soft_wrap=True)
        console.print(f"Drawn images and detections.json: {out}", soft_wrap=True)
    if bad:
        raise typer.Exit(1)
