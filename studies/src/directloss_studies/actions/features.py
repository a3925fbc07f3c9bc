"""Features of the boxes of people, in the cache: for each box one row as it is and one mirrored, float16 or bytes."""

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from ..data.voc import Actions, DevkitError
from ..harness.cache import Cache, key_of
from ..harness.progress import Progress, no_progress
from ..harness.threads import side_by_side
from ..vision.backbones import BACKBONES, Backbone, load_weights
from ..vision.crops import CONTEXT, crop, normalised
from ..vision.images import read_image

__all__ = ["CACHE", "cache_labels", "compute", "read_labels"]

CACHE = Cache("directloss reproduce actions --root DIR")
VERSION = 1  # see `key_of`
CHUNK = 64  # boxes


def compute(
    actions: Actions,
    kind: str,
    backbone: str,
    weights: Path,
    provenance: str,
    progress: Progress = no_progress,
) -> str:
    """Compute the features of all boxes, unless they are in the cache; return their key.

    Kinds: "pooled" features for a head, the maps of the "trunk", or the "crops" themselves.
    """
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    made_by = {} if kind == "crops" else {"backbone": backbone, "weights": digest}
    size = BACKBONES[backbone].size
    key = key_of(kind=kind, data=provenance, size=size, context=CONTEXT, version=VERSION, **made_by)
    if not CACHE.array_path(key).exists():
        network = BACKBONES[backbone]().eval()
        load_weights(network, weights)
        first = _through(_crops(actions, 0, 1, size), kind, network).numpy()
        ends = [*range(CHUNK, len(actions), CHUNK), len(actions)]
        shape = len(actions), *first.shape[1:]

        def make(start: int, end: int) -> Tensor:
            take_share()
            return _through(_crops(actions, start, end, size), kind, network)

        with side_by_side() as (threads, take_share):
            CACHE.compute_array(key, shape, first.dtype, ends, make, progress, threads)
    return key


def _crops(actions: Actions, start: int, end: int, size: int) -> Tensor:
    """(boxes, 2, 3, size, size): as they are, and mirrored."""
    found = []
    name, image = "", None
    for place in range(start, end):
        if actions.images[place] != name:
            name = actions.images[place]
            image = read_image(actions.paths[name])
        try:
            square = crop(image, actions.boxes[place].tolist(), size)
        except ValueError as error:
            raise DevkitError(f"{actions.paths[name]}: {error}") from None
        found.append(torch.stack([square, square.flip(-1)]))
    return torch.stack(found)


@torch.inference_mode()
def _through(crops: Tensor, kind: str, network: Backbone) -> Tensor:
    if kind == "crops":
        return crops[:, 0]
    inputs = normalised(crops.flatten(0, 1))
    parts = inputs.split(16)  # so that the maps of a part fit into the processor's cache
    out = torch.cat([network.pooled(part) if kind == "pooled" else network.trunk(part) for part in parts])
    return out.view(len(crops), 2, *out.shape[1:]).half()


def cache_labels(actions: Actions) -> str:
    """Write the labels into the cache; return their key."""
    labels = {name: values.tolist() for name, values in actions.labels.items()}
    key = key_of(kind="labels", labels=labels)
    CACHE.write_json("labels", key, labels)
    return key


def read_labels(key: str, action: str) -> Tensor:
    """The labels of one action under a key."""
    return torch.tensor(CACHE.read_json("labels", key)[action], dtype=torch.int8)
