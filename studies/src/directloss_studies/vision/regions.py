"""Features of many boxes of an image: "pooled" from one map, from several "layers", or "warped" from a crop of each.

A row is the features of one box, scaled to length one. For a head, rows are given in the coordinates in which boxes of
the training images vary most, and cached in half precision.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..harness.cache import Cache, key_of
from ..harness.progress import Progress, Steps
from ..harness.threads import one_thread, return_memory, side_by_side
from .backbones import Backbone, Level
from .boxes import Floats
from .crops import crop, normalised
from .images import ImageError, read_image
from .pooling import pool

__all__ = ["FEATURE_KINDS", "Basis", "compute", "describe", "fit_basis", "read_basis"]

VERSION = 1  # see `key_of`
SHORTER, LONGER = 600, 1000  # largest sides of the image that the network gets, in pixels, as in Fast R-CNN
MARGIN = 16  # pixels of mean colour added to its left and above it, so that the maps reach its edges there
AT_ONCE = 16  # crops
TRIM = 100  # images after which freed memory is returned
SAMPLED, SEED = 64, 0  # boxes of an image for a basis, and the seed that draws them


def describe(image: Any, boxes: Floats, feature_kind: str, network: Backbone) -> Tensor:
    """Rows (boxes, features) of length one for boxes of a Pillow image."""
    return _unit(FEATURE_KINDS[feature_kind](image, boxes, network))


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-6)


@torch.inference_mode()
def _pooled(image: Any, boxes: Floats, network: Backbone) -> Tensor:
    pixels, edges = _enlarged(image, boxes, network)
    return _pool(network.maps(pixels), edges, network.levels[0])


@torch.inference_mode()
def _layers(image: Any, boxes: Floats, network: Backbone) -> Tensor:
    """Every layer has the same length in a row."""
    pixels, edges = _enlarged(image, boxes, network)
    parts = zip(network.layers(pixels), network.levels, strict=True)
    return torch.cat([_unit(_pool(maps, edges, level)) for maps, level in parts], 1)


def _pool(maps: Tensor, edges: Floats, level: Level) -> Tensor:
    return pool(maps[0], (edges - level.offset) / level.stride, level.cells)


def _enlarged(image: Any, boxes: Floats, network: Backbone) -> tuple[Tensor, Floats]:
    """The image as the network gets it, with a margin, and the edges of the boxes in it."""
    from PIL import Image

    grow = min(SHORTER / min(image.size), LONGER / max(image.size))
    width, height = (max(1, round(side * grow)) for side in image.size)
    scaled = torch.from_numpy(np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)).copy())
    pixels = normalised(scaled.permute(2, 0, 1))
    edges = (boxes - [1, 1, 0, 0]) * np.tile([width / image.width, height / image.height], 2)
    return torch.nn.functional.pad(pixels, [MARGIN, network.margin] * 2)[None], edges + MARGIN


@torch.inference_mode()
def _warped(image: Any, boxes: Floats, network: Backbone) -> Tensor:
    parts = [
        network.pooled(normalised(torch.stack([crop(image, box) for box in boxes[start : start + AT_ONCE].tolist()])))
        for start in range(0, len(boxes), AT_ONCE)
    ]
    return torch.cat(parts)


FEATURE_KINDS: dict[str, Callable[[Any, Floats, Backbone], Tensor]] = {
    "pooled": _pooled,
    "layers": _layers,
    "warped": _warped,
}
"""By name, for the command line."""


@dataclass(frozen=True)
class Basis:
    """Coordinates: (rows − mean) times axes."""

    mean: Tensor
    axes: Tensor
    """(features, components), scaled so that components have mean square one on the boxes that it was fitted to."""

    def __call__(self, rows: Tensor) -> Tensor:
        """(boxes, features) to (boxes, components)."""
        return (rows - self.mean) @ self.axes


def fit_basis(rows: Tensor, components: int, seed: int) -> Basis:
    """The coordinates in which rows vary most. All have one scale, so that gradient descent sees only a rotation."""
    components = min(components, *rows.shape)
    with one_thread(), torch.random.fork_rng(devices=[]):  # the result must not depend on the number of threads
        mean = rows.mean(0)
        torch.manual_seed(seed)
        _, _, axes = torch.svd_lowrank(rows - mean, q=components, niter=3)
        size = ((rows - mean) @ axes).square().mean().sqrt().clamp_min(1e-9)
    return Basis(mean, axes / size)


def compute(
    cache: Cache,
    paths: Sequence[Path],
    boxes: Sequence[NDArray[Any]],
    feature_kind: str,
    network: Backbone,
    made_by: dict[str, Any],
    sample: Sequence[int],
    components: int,
    steps: Steps,
) -> tuple[str, str, str]:
    """The keys of three arrays: all boxes of all images, their rows, and the basis that `sample` images give.

    `made_by`: what else they depend on. Computes what is not in the cache.
    """
    digest = hashlib.sha256()
    progress = steps("reading images")
    for number, (path, some) in enumerate(zip(paths, boxes, strict=True)):
        progress((number + 1) / len(paths))
        digest.update(hashlib.sha256(path.read_bytes()).digest() + some.astype("<f8").tobytes())
    facts = {"features": feature_kind, "data": digest.hexdigest(), "sample": list(sample), "components": components}
    facts |= {"sides": [SHORTER, LONGER, network.margin], "version": VERSION, **made_by}
    boxes_key, rows_key, basis_key = (key_of(kind=kind, **facts) for kind in ("boxes", "rows", "basis"))

    def make_basis() -> NDArray[Any]:
        progress = steps(f"{feature_kind} features of some boxes, for their coordinates")
        basis = fit_basis(_sampled(paths, boxes, feature_kind, network, sample, progress), components, SEED)
        return torch.cat([basis.mean[:, None], basis.axes], 1).numpy()

    cache.make_array(boxes_key, lambda: np.concatenate(boxes).astype(np.float32))
    cache.make_array(basis_key, make_basis)
    basis = read_basis(cache, basis_key)

    def make(start: int, end: int) -> NDArray[np.float16]:
        take_share()
        number = numbers[start]
        if number % TRIM == 0:
            return_memory()
        image = read_image(paths[number])
        return basis(_described(paths[number], image, boxes[number], feature_kind, network)).half().numpy()

    ends = list(accumulate(len(some) for some in boxes))
    numbers = {end - len(some): number for number, (end, some) in enumerate(zip(ends, boxes, strict=True))}
    shape = ends[-1], basis.axes.shape[1]
    text = f"{feature_kind} features of {shape[0]} boxes, {2 * shape[0] * shape[1] / 1e9:.1f} GB"
    with side_by_side() as (threads, take_share):
        cache.compute_array(rows_key, shape, np.float16, ends, make, steps(text), threads)
    return_memory()
    return boxes_key, rows_key, basis_key


def _sampled(
    paths: Sequence[Path],
    boxes: Sequence[NDArray[Any]],
    feature_kind: str,
    network: Backbone,
    sample: Sequence[int],
    progress: Progress,
) -> Tensor:
    """Rows of some boxes of every sampled image."""
    random = np.random.default_rng(SEED)
    rows = []
    for number in sample:
        some = random.permutation(len(boxes[number]))[:SAMPLED]
        rows.append(_described(paths[number], read_image(paths[number]), boxes[number][some], feature_kind, network))
        progress(len(rows) / len(sample))
    return torch.cat(rows)


def _described(path: Path, image: Any, boxes: NDArray[Any], feature_kind: str, network: Backbone) -> Tensor:
    """`describe`, with an error that names the file."""
    try:
        return describe(image, boxes.astype(np.float64), feature_kind, network)
    except ValueError as error:
        raise ImageError(f"{path}: {error}") from None


def read_basis(cache: Cache, key: str) -> Basis:
    """The basis under a key."""
    table = torch.from_numpy(np.array(cache.array(key)))
    return Basis(table[:, 0], table[:, 1:])
