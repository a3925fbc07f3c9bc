"""Features of many boxes of an image, two ways: every box warped to a crop of its own, or all pooled from one map.

Rows have length one. For a head they are turned into the coordinates in which boxes of the training images vary most,
and kept in half precision.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..harness.cache import alone, keep, key_of, location, open_kept
from ..harness.files import write_whole
from ..harness.progress import Progress, Steps
from .backbones import Backbone
from .boxes import Floats
from .crops import crop, normalised
from .images import ImageError, read_image
from .pooling import pool

__all__ = ["WAYS", "Basis", "compute", "describe", "fit_basis", "kept_basis"]

VERSION = 1  # raise it when the same key would give other values
SHORTER, LONGER = 600, 1000  # pixels of an image's sides before the network, as in Fast R-CNN
MARGIN = 16  # pixels of mean colour to its left and above it, so that the maps reach its edges there
AT_ONCE = 16  # crops
SAMPLED, SEED = 64, 0  # boxes of an image for a basis, and what draws them


def describe(image: Any, boxes: Floats, way: str, network: Backbone) -> Tensor:
    """Rows (boxes, features) of length one for boxes of a Pillow image."""
    rows = WAYS[way](image, boxes, network)
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-6)


@torch.inference_mode()
def _pooled(image: Any, boxes: Floats, network: Backbone) -> Tensor:
    from PIL import Image

    grow = min(SHORTER / min(image.size), LONGER / max(image.size))
    width, height = (max(1, round(side * grow)) for side in image.size)
    scaled = torch.from_numpy(np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)).copy())
    pixels = normalised(scaled.permute(2, 0, 1))
    maps = network.maps(torch.nn.functional.pad(pixels, [MARGIN, network.margin] * 2)[None])[0]
    edges = (boxes - [1, 1, 0, 0]) * np.tile([width / image.width, height / image.height], 2)
    return pool(maps, (edges + MARGIN - network.offset) / network.stride, network.cells)


@torch.inference_mode()
def _warped(image: Any, boxes: Floats, network: Backbone) -> Tensor:
    parts = [
        network.pooled(normalised(torch.stack([crop(image, box) for box in boxes[start : start + AT_ONCE].tolist()])))
        for start in range(0, len(boxes), AT_ONCE)
    ]
    return torch.cat(parts)


WAYS: dict[str, Callable[[Any, Floats, Backbone], Tensor]] = {"pooled": _pooled, "warped": _warped}
"""By name, for the command line."""


@dataclass(frozen=True)
class Basis:
    """Coordinates: rows less `mean`, times `axes`."""

    mean: Tensor
    axes: Tensor
    """(features, components), scaled so that components are of order one on the boxes that it was fitted to."""

    def __call__(self, rows: Tensor) -> Tensor:
        """(boxes, features) to (boxes, components)."""
        return (rows - self.mean) @ self.axes


def fit_basis(rows: Tensor, components: int, seed: int) -> Basis:
    """The coordinates in which rows vary most. All are scaled alike: gradient descent sees a mere rotation."""
    components = min(components, *rows.shape)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that it does not hang on how many there are
    try:
        mean = rows.mean(0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            _, _, axes = torch.svd_lowrank(rows - mean, q=components, niter=3)
        size = ((rows - mean) @ axes).square().mean().sqrt().clamp_min(1e-9)
    finally:
        torch.set_num_threads(threads)
    return Basis(mean, axes / size)


def compute(
    paths: Sequence[Path],
    boxes: Sequence[NDArray[Any]],
    way: str,
    network: Backbone,
    made_by: dict[str, Any],
    sample: Sequence[int],
    components: int,
    steps: Steps,
) -> tuple[str, str, str]:
    """All boxes of all images one after the other, their rows, and the basis that `sample` images give; their keys.

    `made_by`: what else they depend on. Computes what is not there yet.
    """
    digest = hashlib.sha256()
    progress = steps("reading images")
    for number, (path, found) in enumerate(zip(paths, boxes, strict=True)):
        progress((number + 1) / len(paths))
        digest.update(hashlib.sha256(path.read_bytes()).digest() + found.astype("<f8").tobytes())
    facts = {"way": way, "data": digest.hexdigest(), "sample": list(sample), "components": components}
    facts |= {"sides": [SHORTER, LONGER, network.margin], "version": VERSION, **made_by}
    boxes_key, key, basis_key = (key_of(kind=kind, **facts) for kind in ("boxes", "rows", "basis"))
    if not location(boxes_key).exists():
        _write(boxes_key, np.concatenate(boxes).astype(np.float32))
    location(basis_key).parent.mkdir(parents=True, exist_ok=True)
    if not location(basis_key).exists():
        with alone(location(basis_key)):  # rows and basis must belong together
            if not location(basis_key).exists():
                progress = steps(f"{way} features of some boxes, for their coordinates")
                basis = fit_basis(_sampled(paths, boxes, way, network, sample, progress), components, SEED)
                _write(basis_key, torch.cat([basis.mean[:, None], basis.axes], 1).numpy())
    basis = kept_basis(basis_key)

    def load(start: int, end: int) -> tuple[int, Any]:
        number = places[start]
        return number, read_image(paths[number])

    def make(loaded: tuple[int, Any]) -> NDArray[np.float16]:
        number, image = loaded
        return basis(_described(paths[number], image, boxes[number], way, network)).half().numpy()

    ends = list(accumulate(len(found) for found in boxes))
    places = {end - len(found): number for number, (end, found) in enumerate(zip(ends, boxes, strict=True))}
    size = 2 * ends[-1] * basis.axes.shape[1] / 1e9
    text = f"{way} features of {ends[-1]} boxes, {size:.1f} GB"
    keep(key, (ends[-1], basis.axes.shape[1]), np.float16, ends, load, make, steps(text))
    return boxes_key, key, basis_key


def _write(key: str, array: NDArray[Any]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, array)
    write_whole(location(key), buffer.getvalue())


def _sampled(
    paths: Sequence[Path],
    boxes: Sequence[NDArray[Any]],
    way: str,
    network: Backbone,
    sample: Sequence[int],
    progress: Progress,
) -> Tensor:
    """Rows of some boxes of every sampled image."""
    random = np.random.default_rng(SEED)
    rows = []
    for number in sample:
        some = random.permutation(len(boxes[number]))[:SAMPLED]
        rows.append(_described(paths[number], read_image(paths[number]), boxes[number][some], way, network))
        progress(len(rows) / len(sample))
    return torch.cat(rows)


def _described(path: Path, image: Any, boxes: NDArray[Any], way: str, network: Backbone) -> Tensor:
    """`describe`, with an error that names the file."""
    try:
        return describe(image, boxes.astype(np.float64), way, network)
    except ValueError as error:
        raise ImageError(f"{path}: {error}") from None


def kept_basis(key: str) -> Basis:
    """The basis under a key."""
    table = torch.from_numpy(np.array(open_kept(key, "detection")))
    return Basis(table[:, 0], table[:, 1:])
