"""What a backbone makes of boxes, kept on disk under a key of everything it depends on.

A file is memory-mapped, float16 (crops: bytes), one row a box with the box as it is and mirrored. It is written in
chunks, and a computation that was stopped goes on after the last whole chunk.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.voc import Actions, DevkitError, read_image
from ..files import cache_folder, write_whole
from .backbones import BACKBONES, Backbone, load_weights
from .crops import CONTEXT, SIZE, crop, normalised

__all__ = ["compute", "keep_labels", "keep_weights", "kept_labels", "kept_weights", "open_kept"]

VERSION = 1  # raise it when the same key would give other values
CHUNK = 64  # boxes


def _key(**facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def compute(
    actions: Actions,
    kind: str,
    backbone: str,
    weights: Path,
    provenance: str,
    after: Callable[[float], object] = lambda share: None,
) -> str:
    """Compute what is not there yet; return its key.

    Kinds: "pooled" features for a head, the maps of the "trunk", or the "crops" themselves.
    """
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    made_by = {} if kind == "crops" else {"backbone": backbone, "weights": digest}
    key = _key(kind=kind, data=provenance, size=SIZE, context=CONTEXT, version=VERSION, **made_by)
    path = _path(key)
    if path.exists():
        return key
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        if not path.exists():
            network = BACKBONES[backbone]().eval()
            load_weights(network, weights)
            _fill(path, actions, kind, network, after)
    return key


def _path(key: str) -> Path:
    return cache_folder() / "features" / f"{key}.npy"


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let others that want the same file wait, where the system can lock."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(path: Path, actions: Actions, kind: str, network: Backbone, after: Callable[[float], object]) -> None:
    part, progress = path.with_suffix(".part"), path.with_suffix(".progress")
    starts = [*range(0, len(actions), CHUNK), len(actions)]
    chunks = list(pairwise(starts))
    first = _through(_crops(actions, 0, 1), kind, network)
    shape, kind_of_number = (len(actions), *first.shape[1:]), first.numpy().dtype
    done = _whole_rows(part, progress, shape, kind_of_number)
    if not done:
        progress.unlink(missing_ok=True)  # before the new file: an old count must not be believed of it
    array = np.lib.format.open_memmap(part, "r+" if done else "w+", kind_of_number, shape)
    todo = [chunk for chunk in chunks if chunk[0] >= done]
    with ThreadPoolExecutor(1) as pool:  # decodes the next chunk meanwhile
        ahead = None
        for number, (start, end) in enumerate(todo):
            crops = ahead.result() if ahead else _crops(actions, start, end)
            ahead = pool.submit(_crops, actions, *todo[number + 1]) if number + 1 < len(todo) else None
            array[start:end] = _through(crops, kind, network).numpy()
            array.flush()
            write_whole(progress, str(end))
            after(end / len(actions))
    del array
    os.replace(part, path)
    progress.unlink(missing_ok=True)


def _whole_rows(part: Path, progress: Path, shape: tuple[int, ...], kind_of_number: Any) -> int:
    """How many rows of a part are done; 0 if anything about it is odd."""
    try:
        done = int(progress.read_text())
        array = np.lib.format.open_memmap(part, "r")
        size = array.offset + array.nbytes
        fits = array.shape == shape and array.dtype == kind_of_number and part.stat().st_size == size
        return done if fits and (done == len(array) or (0 < done < len(array) and done % CHUNK == 0)) else 0
    except (OSError, ValueError):
        return 0


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


def open_kept(key: str) -> Any:
    """The array under a key, memory-mapped."""
    path = _path(key)
    if not path.exists():
        raise FileNotFoundError(f"{path} is gone. `directloss reproduce actions --root …` computes it again.")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error}). Remove it; the same command computes it again.") from None


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
