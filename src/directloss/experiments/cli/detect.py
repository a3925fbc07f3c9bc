"""`directloss detect`: draw what a detector finds in images."""

import io
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from ..harness.files import write_whole
from ..vision.detector import draw, load_detector, upright
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


def detect(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="JPEG or PNG.")],
    model: Annotated[Path, typer.Option(help="Folder of a detector; `directloss reproduce` writes some.")],
    out: Annotated[Path, typer.Option(help="Folder for drawn images and detections.json.")] = Path("detections"),
    top: Annotated[int, typer.Option(min=1, help="The largest number of boxes in an image.")] = 20,
) -> None:
    """Detect objects in images: draw boxes, write JSON.

    The command names an image that it cannot use, and continues with the others.
    """
    if out.exists() and not out.is_dir():
        raise refuse(f"--out {out} is a file. Name a folder.")
    with handled():
        detector = load_detector(model)
    taken = {os.path.realpath(path) for path in images}  # a drawing must not replace an image
    if os.path.realpath(out / "detections.json") in taken:
        raise refuse(f"{out / 'detections.json'} is to be drawn and would be replaced. Name another --out.")
    rows, bad = [], 0
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
                    boxes = [{"class": of.name, "score": round(of.score, 4), "box": of.box} for of in detections]
                    size = {"width": image.width, "height": image.height}
                    rows.append({"image": str(path), "drawn": name, **size, "boxes": boxes})
                progress((number + 1) / len(images))
        if rows:
            write_whole(out / "detections.json", json.dumps(rows, indent=1) + "\n")
    for row in rows:
        words = ", ".join(f"{box['class']} {box['score']:.2f}" for box in row["boxes"]) or "nothing"
        image = row["image"].encode(errors="backslashreplace").decode()  # a file name may not be UTF-8
        console.print(f"{image}: {words}", soft_wrap=True)
    if rows:
        console.print(f"Drawn images and detections.json: {out}", soft_wrap=True)
    if bad:
        raise typer.Exit(1)
