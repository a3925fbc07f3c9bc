"""Pictures of detections: a small copy of the image with the detected box and the annotated boxes."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ..harness.study import Figure
from ..vision.images import read_image

__all__ = ["Picture", "gallery", "picture"]

WIDTH, HEIGHT = 220, 165  # pixels of a picture in a gallery, at most
RIGHT, WRONG, TRUTH = "#0072B2", "#D55E00", "#E69F00"


@dataclass(frozen=True)
class Picture:
    """All that a gallery needs, as plain values."""

    name: str
    jpeg: str
    """The image in small, as base64."""
    size: tuple[int, int]
    """Width and height of it."""
    score: float
    box: tuple[float, float, float, float]
    """The detection: left, top, right, bottom edges in pixels of the small image."""
    truth: tuple[tuple[float, float, float, float], ...]
    """The objects of the class, likewise."""


def picture(name: str, path: str, box: Sequence[float], score: float, truth: Sequence[Sequence[float]]) -> Picture:
    """A small copy of an image file, with the boxes in its pixels."""
    image = read_image(Path(path))
    shrink = min(1.0, 2 * WIDTH / image.width, 2 * HEIGHT / image.height)
    small = image.resize([max(1, round(side * shrink)) for side in image.size])
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=75)

    def edges(of: Sequence[float]) -> tuple[float, float, float, float]:
        left, top, right, bottom = (
            round((value - first) * shrink, 1) for value, first in zip(of, (1, 1, 0, 0), strict=True)
        )
        return left, top, right, bottom

    content = base64.b64encode(buffer.getvalue()).decode()
    return Picture(name, content, small.size, round(score, 4), edges(box), tuple(edges(of) for of in truth))


def gallery(name: str, title: str, kinds: Mapping[str, Sequence[Picture]]) -> Figure:
    """One row of pictures for each kind."""
    columns = max((len(pictures) for pictures in kinds.values()), default=0)
    across, down = WIDTH + 10, HEIGHT + 44
    parts, words = [], []
    for row, (kind, pictures) in enumerate(kinds.items()):
        colour = RIGHT if kind == "best" else WRONG
        words.append(f"{kind}: " + (", ".join(f"{p.name} with score {p.score:.2f}" for p in pictures) or "none"))
        parts.append(f'<text x="0" y="{row * down + 14}" font-weight="600">{escape(kind)}</text>')
        for column, shown in enumerate(pictures):
            width, height = shown.size
            scale = min(WIDTH / width, HEIGHT / height)
            parts.append(f'<g transform="translate({column * across} {row * down + 20}) scale({scale:.5f})">')
            address = f"data:image/jpeg;base64,{shown.jpeg}"
            parts.append(f'<image width="{width}" height="{height}" href="{escape(address, quote=True)}"/>')
            parts += [_rectangle(box, TRUTH, 2 / scale, f"{4 / scale:.1f}") for box in shown.truth]
            parts.append(_rectangle(shown.box, colour, 3 / scale) + "</g>")
            caption = f"{shown.score:.2f}  {shown.name}"
            parts.append(f'<text x="{column * across}" y="{row * down + HEIGHT + 34}">{escape(caption)}</text>')
    size = f"{max(columns, 1) * across} {max(len(kinds), 1) * down}"
    style = 'font-family="sans-serif" font-size="12" fill="#1a1a1a"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" {style}>{"".join(parts)}</svg>'
    return Figure(name, title, svg, f"{title}. {'; '.join(words)}.")


def _rectangle(box: Sequence[float], colour: str, width: float, dashes: str = "none") -> str:
    left, top, right, bottom = box
    place = f'x="{left}" y="{top}" width="{right - left:.1f}" height="{bottom - top:.1f}"'
    return f'<rect {place} fill="none" stroke="{colour}" stroke-width="{width:.2f}" stroke-dasharray="{dashes}"/>'
