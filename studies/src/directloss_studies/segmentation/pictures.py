"""Pictures of masks: test images, their true masks, and what every method found."""

import base64
import io
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from ..harness.study import Figure
from ..report.figures import canvas_and_axes, finish
from .config import Shown

__all__ = ["gallery", "shown"]


def shown(images: Tensor, truth: Tensor, found: Tensor) -> Shown:
    """Images side by side, as PNG."""
    low, high = images.min(), images.max()
    colours = (255 * (images - low) / (high - low).clamp_min(1e-6)).byte().permute(0, 2, 3, 1)
    return Shown(*(_png(np.concatenate(list(each.numpy()), axis=1)) for each in (colours, truth, found)))


def _png(pixels: np.ndarray) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def _pixels(png: str) -> np.ndarray:
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(png)), formats=("PNG",)) as image:
        return np.array(image.convert("RGB"))


def gallery(name: str, title: str, by_method: Mapping[str, Shown]) -> Figure:
    """One row for the images, one for the truth, one for each method."""
    first = next(iter(by_method.values()))
    rows = {"image": first.images, "truth": first.truth, **{method: of.found for method, of in by_method.items()}}
    strips = [_pixels(png) for png in rows.values()]
    height, width = strips[0].shape[:2]
    for strip in strips[1:]:  # a line between rows
        strip[0] = 128
    with canvas_and_axes(1 + 5 * width / (6 * height), 0.85 * len(strips)) as (canvas, axes):
        axes.imshow(np.concatenate(strips), interpolation="nearest")
        axes.set_yticks([(k + 0.5) * height for k in range(len(strips))], list(rows))
        axes.set_xticks([])
        axes.tick_params(length=0, labelsize=8)
        canvas.figure.set_layout_engine("constrained", w_pad=0.15)  # a viewer's font may be wider than the one measured
        return finish(canvas, name, title, f"{title}. Rows: {', '.join(rows)}.")
