"""`directloss detect`: draw what a detector finds in images."""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..harness.files import write_whole
from ..vision.detector import Detection, Detector, draw, find_detectors, load_detector, read_held_out, upright
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


def _choose(runs: Path) -> Path:
    """The only detector under a folder, or of those that one command wrote the best on held-out images; says which."""
    found = find_detectors(runs)
    if not found:
        raise refuse(
            f"There is no detector under {runs}. `directloss reproduce detection --root DEVKIT` makes some, "
            "and `directloss data voc2012 --root DEVKIT` fetches the images for it."
        )
    if len(found) == 1:
        console.print(f"Detector: {found[0]}", soft_wrap=True)
        return found[0]
    measured = {path: held_out.average_precision for path in found if (held_out := read_held_out(path))}
    if len(measured) < len(found) or len({path.parent for path in found}) > 1:
        listed = "".join(f"\n  {path}" for path in found)
        raise refuse(f"There are {len(found)} detectors under {runs}. Name one with --model:{listed}")
    best = max(found, key=measured.__getitem__)
    console.print(
        f"Detector: {best}, the best of {len(found)} on held-out images (AP {measured[best]:.2f}).", soft_wrap=True
    )
    return best


def _explain(detector: Detector) -> str:
    """What the numbers beside the classes are."""
    if detector.held_out is None or not detector.calibrated:
        return (
            "The numbers are bare scores: this detector does not know their precision. "
            "`directloss reproduce detection` makes one that does."
        )
    return (
        "The percentage is precision: of boxes with such a score, the share that was right "
        f"in {detector.held_out.images} held-out images."
    )


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
    top: Annotated[int, typer.Option(min=1, help="Boxes of an image at most.")] = 20,
) -> None:
    """Detect objects in images: draw boxes, write JSON.

    An image that cannot be used is named, and the others are done.
    """
    if out.exists() and not out.is_dir():
        raise refuse(f"--out {out} is a file. Name a folder.")
    with handled():
        detector = load_detector(model or _choose(runs))
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
        console.print(_explain(detector), soft_wrap=True)
        console.print(f"Drawn images and detections.json: {out}", soft_wrap=True)
    if bad:
        raise typer.Exit(1)
