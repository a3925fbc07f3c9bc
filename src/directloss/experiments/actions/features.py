"""What a backbone makes of the boxes of people: float16 (crops: bytes), one row a box, as it is and mirrored."""

import hashlib
import json
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..data.voc import Actions, DevkitError
from ..harness.cache import keep, key_of, location
from ..harness.files import cache_folder, write_whole
from ..harness.progress import Progress, no_progress
from ..vision.backbones import BACKBONES, Backbone, load_weights
from ..vision.crops import CONTEXT, SIZE, crop, normalised
from ..vision.images import read_image

__all__ = ["compute", "keep_labels", "keep_weights", "kept_labels", "kept_weights"]

VERSION = 1  # raise it when the same key would give other values
CHUNK = 64  # boxes


def compute(
    actions: Actions,
    kind: str,
    backbone: str,
    weights: Path,
    provenance: str,
    progress: Progress = no_progress,
) -> str:
    """Compute what is not there yet; return its key.

    Kinds: "pooled" features for a head, the maps of the "trunk", or the "crops" themselves.
    """
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    made_by = {} if kind == "crops" else {"backbone": backbone, "weights": digest}
    key = key_of(kind=kind, data=provenance, size=SIZE, context=CONTEXT, version=VERSION, **made_by)
    if not location(key).exists():
        network = BACKBONES[backbone]().eval()
        load_weights(network, weights)
        first = _through(_crops(actions, 0, 1), kind, network).numpy()
        ends = [*range(CHUNK, len(actions), CHUNK), len(actions)]
        shape = len(actions), *first.shape[1:]
        load, make = partial(_crops, actions), partial(_through, kind=kind, network=network)
        keep(key, shape, first.dtype, ends, load, make, progress)
    return key


def _crops(actions: Actions, start: int, end: int) -> Tensor:
    """(boxes, 2, 3, size, size): as they are, and mirrored."""
    found = []
    name, image = "", None
    for place in range(start, end):
        if actions.images[place] != name:
            name = actions.images[place]
            image = read_image(actions.paths[name])
        try:
            square = crop(image, actions.boxes[place].tolist())
        except ValueError as error:
            raise DevkitError(f"{actions.paths[name]}: {error}") from None
        found.append(torch.stack([square, square.flip(-1)]))
    return torch.stack(found)


@torch.inference_mode()
def _through(crops: Tensor, kind: str, network: Backbone) -> Tensor:
    if kind == "crops":
        return crops[:, 0]
    inputs = normalised(crops.flatten(0, 1))
    parts = inputs.split(16)  # so that the maps of a part stay in the processor's cache
    out = torch.cat([network.pooled(part) if kind == "pooled" else network.trunk(part) for part in parts])
    return out.view(len(crops), 2, *out.shape[1:]).half()


def keep_labels(actions: Actions) -> str:
    """Keep the labels beside the features; return their key."""
    table = np.stack([labels.numpy() for labels in actions.labels.values()], axis=1)
    key = hashlib.sha256(table.tobytes()).hexdigest()[:32]
    path = cache_folder() / "labels" / f"{key}.json"
    if not path.exists():
        write_whole(path, json.dumps({name: labels.tolist() for name, labels in actions.labels.items()}))
    return key


def kept_labels(key: str, action: str) -> Tensor:
    """The labels of one action under a key."""
    path = cache_folder() / "labels" / f"{key}.json"
    return torch.tensor(json.loads(path.read_text())[action], dtype=torch.int8)


def keep_weights(path: Path) -> str:
    """Keep a file of weights, for processes that know only its key."""
    content = path.read_bytes()
    key = hashlib.sha256(content).hexdigest()[:32] + path.suffix
    kept = cache_folder() / "weights" / key
    if not kept.exists():
        write_whole(kept, content)
    return key


def kept_weights(backbone: str, key: str, seed: int) -> Backbone:
    """A backbone with the weights under a key; any that are missing there are drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = BACKBONES[backbone]()
    load_weights(network, cache_folder() / "weights" / key)
    return network
