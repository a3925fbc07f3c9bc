"""AlexNet and SqueezeNet 1.0, with the names that torchvision gives their weights, and files of these weights.

A backbone has a trunk and a top. The trunk is the convolutions. The top is the layers between them and a task's head.
"""

import hashlib
import io
import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..harness.cache import Cache, cache_folder, key_of
from ..harness.downloads import check, download
from ..harness.progress import Steps

__all__ = [
    "BACKBONES",
    "AlexNet",
    "Backbone",
    "Official",
    "SqueezeNet",
    "WeightsError",
    "cache_weights",
    "cached_backbone",
    "find_weights",
    "load_weights",
]


class WeightsError(ValueError):
    """A weights file that cannot be used."""


@dataclass(frozen=True)
class Official:
    """Where torchvision's weights are, and the first digits of the file's SHA-256."""

    address: str
    sha256: str


class Backbone(nn.Module, ABC):
    """From normalised crops (items, 3, 227, 227) to the inputs of a head."""

    official: Official
    width: int
    """Number of outputs of the top."""
    stride: int
    """Pixels of the image from one pixel of the maps to the next."""
    offset: float
    """Where in the image the first pixel of the maps begins, if each is centred on its receptive field."""
    margin: int
    """Pixels added to the right of an image and below it, so that the maps reach its edges there."""
    channels: int
    """Number of channels of the maps."""
    cells: int
    """A box is pooled to this number of rows and columns of cells."""

    @abstractmethod
    def trunk(self, crops: Tensor) -> Tensor:
        """The convolutional part."""

    @abstractmethod
    def top(self, maps: Tensor) -> Tensor:
        """From the output of the trunk to (items, width)."""

    @abstractmethod
    def of_top(self) -> list[nn.Module]:
        """The layers of the top that have weights."""

    @abstractmethod
    def pooled(self, crops: Tensor) -> Tensor:
        """Features (items, features) for a head on a frozen backbone: the pooled maps of the trunk."""

    @abstractmethod
    def maps(self, images: Tensor) -> Tensor:
        """The last maps of the trunk with fine resolution, from normalised images of any size; boxes pool from them."""


class AlexNet(Backbone):
    """Krizhevsky's network in torchvision's version, with one tower."""

    official = Official("https://download.pytorch.org/models/alexnet-owt-7be5be79.pth", "7be5be79")
    width = 4096
    stride, offset, margin, channels, cells = 16, 7.5, 32, 256, 6

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(),
            nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
            nn.Linear(4096, 1000),
        )  # fmt: skip

    def trunk(self, crops: Tensor) -> Tensor:
        """Pool5, flat."""
        return self.features(crops).flatten(1)

    def top(self, maps: Tensor) -> Tensor:
        """Fc7."""
        return self.classifier[:6](maps)

    def of_top(self) -> list[nn.Module]:
        """Fc6 and fc7."""
        return [self.classifier[1], self.classifier[4]]

    def pooled(self, crops: Tensor) -> Tensor:
        """Pool5."""
        return self.trunk(crops)

    def maps(self, images: Tensor) -> Tensor:
        """Conv5."""
        return self.features[:-1](images)


class Fire(nn.Module):
    """Squeeze to few channels, expand with 1×1 and 3×3 filters."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        """Channels of both expansions."""
        maps = self.squeeze(maps).relu()
        return torch.cat([self.expand1x1(maps), self.expand3x3(maps)], 1).relu()


class SqueezeNet(Backbone):
    """SqueezeNet 1.0: AlexNet's accuracy with a fiftieth of its weights."""

    official = Official("https://download.pytorch.org/models/squeezenet1_0-b66bff10.pth", "b66bff10")
    width = 1000
    stride, offset, margin, channels, cells = 16, 9.5, 16, 512, 3

    def __init__(self) -> None:
        super().__init__()
        pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.features = nn.Sequential(
            nn.Conv2d(3, 96, 7, stride=2), nn.ReLU(), pool,
            Fire(96, 16, 64), Fire(128, 16, 64), Fire(128, 32, 128), pool,
            Fire(256, 32, 128), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), pool,
            Fire(512, 64, 256),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )  # fmt: skip

    def trunk(self, crops: Tensor) -> Tensor:
        """Fire9."""
        return self.features(crops)

    def top(self, maps: Tensor) -> Tensor:
        """The class scores of ImageNet."""
        return self.classifier(maps).flatten(1)

    def of_top(self) -> list[nn.Module]:
        """The layer of class scores."""
        return [self.classifier[1]]

    def pooled(self, crops: Tensor) -> Tensor:
        """Fire9, in a grid of 3×3."""
        return nn.functional.adaptive_avg_pool2d(self.trunk(crops), self.cells).flatten(1)

    def maps(self, images: Tensor) -> Tensor:
        """Fire9."""
        return self.features(images)


BACKBONES: dict[str, type[Backbone]] = {"alexnet": AlexNet, "squeezenet": SqueezeNet}
"""By name, for the command line."""


def find_weights(backbone: str, given: Path | None, steps: Steps) -> Path:
    """The weights file of a backbone: the given one, or torchvision's, which is fetched once."""
    if backbone not in BACKBONES:
        raise ValueError(f"There is no backbone {backbone!r}. There are: {', '.join(BACKBONES)}.")
    if given is not None:
        return given
    official = BACKBONES[backbone].official
    path = cache_folder() / "weights" / official.address.rsplit("/", 1)[-1]
    if path.exists():
        check(path, "sha256", official.sha256)
    else:
        download(official.address, path, "sha256", official.sha256, steps(f"weights of {backbone}"))
    return path


def cache_weights(cache: Cache, path: Path) -> str:
    """Copy a weights file into the cache, for processes that know only its key; return the key."""
    content = path.read_bytes()
    key = key_of(kind="weights", sha256=hashlib.sha256(content).hexdigest()) + path.suffix
    cache.write("weights", key, content)
    return key


def cached_backbone(cache: Cache, backbone: str, key: str, seed: int) -> Backbone:
    """A backbone with the weights under a key. Weights that are missing there are drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = BACKBONES[backbone]()
    load_weights(network, cache.find("weights", key))
    return network


def load_weights(backbone: Backbone, path: Path) -> list[str]:
    """Load torchvision's weights into a backbone, from a `.pth` or `.npz` file; return the names that are missing.

    All weights of the trunk must be in the file. Those of the classifier may be missing; they stay random.
    """
    if not path.is_file():
        raise WeightsError(f"{path} is missing.")
    expected = backbone.state_dict()
    try:
        found = _read_npz(path, expected) if path.suffix == ".npz" else _read_pth(path, expected)
    except WeightsError:
        raise
    except Exception as error:  # a hostile file can make the reader raise anything
        raise WeightsError(f"{path} is not a weights file: {type(error).__name__}: {str(error)[:200]}") from None
    unknown = sorted(found.keys() - expected.keys())
    missing = sorted(expected.keys() - found.keys())
    lost = [name for name in missing if not name.startswith("classifier.")]
    if unknown or lost:
        wrong = f"{unknown[0]!r} is unknown" if unknown else f"{lost[0]!r} is missing"
        raise WeightsError(f"{path} does not hold weights of {type(backbone).__name__}: {wrong}.")
    for name, tensor in found.items():
        _check_shape(path, name, tensor.shape, expected[name].shape)  # before any copy: a shape may be far too large
        found[name] = tensor = tensor.float()
        if not tensor.isfinite().all():
            raise WeightsError(f"{path}: {name!r} holds values that are not finite.")
    backbone.load_state_dict(found, strict=False)
    return missing


def _check_shape(path: Path, name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if tuple(found) != tuple(expected):
        raise WeightsError(f"{path}: {name!r} has shape {tuple(found)} instead of {tuple(expected)}.")


def _read_pth(path: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    size, most = path.stat().st_size, sum(8 * tensor.numel() for tensor in expected.values()) + (1 << 20)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:  # torch.save does not compress
            size = max(size, sum(entry.file_size for entry in archive.infolist()))
    if size > most:
        raise WeightsError(f"{path} has or unpacks to {size} bytes; its weights can need {most}. It was not read.")
    found = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise WeightsError(f"{path} does not hold a dictionary of tensors.")
    for name, tensor in found.items():
        plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and tensor.is_floating_point()
        if not plain:
            raise WeightsError(f"{path}: {str(name)[:80]!r} is not a plain tensor of real numbers.")
    return {str(name): tensor for name, tensor in found.items()}


def _read_npz(path: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            if name not in expected or name in found:
                raise WeightsError(f"{path}: {name[:80]!r} is unknown or is there twice.")
            if entry.file_size > 8 * expected[name].numel() + 4096:
                raise WeightsError(f"{path}: {name!r} has {entry.file_size} bytes, more than it can need.")
            array = np.load(io.BytesIO(archive.read(entry)), allow_pickle=False)
            _check_shape(path, name, array.shape, tuple(expected[name].shape))
            found[name] = torch.from_numpy(np.asarray(array, dtype=np.float32))
    return found
