"""AlexNet and SqueezeNet 1.0, with the names that torchvision gives their weights.

A backbone is a trunk, the convolutions, and a top, what stands between these and the head that a task puts on it.
"""

import io
import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..harness.downloads import check, download
from ..harness.files import cache_folder
from ..harness.progress import Steps

__all__ = [
    "BACKBONES",
    "AlexNet",
    "Backbone",
    "Official",
    "SqueezeNet",
    "WeightsError",
    "find_weights",
    "load_weights",
]


class WeightsError(ValueError):
    """A file of weights that cannot be used."""


@dataclass(frozen=True)
class Official:
    """Where torchvision's weights are, and how the SHA-256 of the file begins."""

    address: str
    sha256: str


class Backbone(nn.Module, ABC):
    """Crops (items, 3, 227, 227), normalised, to what a head sees."""

    official: Official
    width: int
    """Of what the top returns."""
    stride: int
    """Pixels of the image from one pixel of the maps to the next."""
    offset: float
    """Where in the image the first pixel of the maps begins, if each is centred on what it sees."""
    margin: int
    """Pixels to put to the right of an image and below it, so that the maps reach its edges there."""
    channels: int
    """Of the maps."""
    cells: int
    """A box of maps is pooled to so many rows and columns of cells."""

    @abstractmethod
    def trunk(self, crops: Tensor) -> Tensor:
        """The convolutional part."""

    @abstractmethod
    def top(self, maps: Tensor) -> Tensor:
        """From what the trunk returns to (items, width)."""

    @abstractmethod
    def of_top(self) -> list[nn.Module]:
        """The layers that the top has weights in."""

    @abstractmethod
    def pooled(self, crops: Tensor) -> Tensor:
        """Features for a head on a frozen backbone, (items, features): the trunk's maps, pooled."""

    @abstractmethod
    def maps(self, images: Tensor) -> Tensor:
        """Of images of any size, normalised: the trunk's last maps of fine grain, for boxes to be pooled from."""


class AlexNet(Backbone):
    """Krizhevsky's network as torchvision has it (one tower)."""

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
    """The file of a backbone's weights: the given one, or torchvision's, which is fetched once."""
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


def load_weights(backbone: Backbone, path: Path) -> list[str]:
    """Fill a backbone from a file of torchvision's weights, `.pth` or `.npz`.

    The trunk must be there whole. Weights of the classifier may be missing: they stay random, and are returned by name.
    """
    if not path.is_file():
        raise WeightsError(f"{path} is missing.")
    expected = backbone.state_dict()
    try:
        found = _read_npz(path, expected) if path.suffix == ".npz" else _read_pth(path)
    except WeightsError:
        raise
    except Exception as error:  # whatever a hostile file makes the reader raise
        raise WeightsError(f"{path} is no file of weights: {type(error).__name__}: {str(error)[:200]}") from None
    unknown = sorted(found.keys() - expected.keys())
    missing = sorted(expected.keys() - found.keys())
    lost = [name for name in missing if not name.startswith("classifier.")]
    if unknown or lost:
        wrong = f"{unknown[0]!r} is unknown" if unknown else f"{lost[0]!r} is missing"
        raise WeightsError(f"{path} holds no weights of {type(backbone).__name__}: {wrong}.")
    for name, tensor in found.items():
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(tensor.shape)} instead of {tuple(expected[name].shape)}"
            raise WeightsError(f"{path}: {name!r} has shape {shapes}.")
        if not tensor.isfinite().all():
            raise WeightsError(f"{path}: {name!r} holds values that are not finite.")
    backbone.load_state_dict(found, strict=False)
    return missing


def _read_pth(path: Path) -> dict[str, Tensor]:
    found = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise WeightsError(f"{path} holds no dictionary of tensors.")
    for name, tensor in found.items():
        plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and tensor.is_floating_point()
        if not plain:
            raise WeightsError(f"{path}: {str(name)[:80]!r} is no plain tensor of real numbers.")
    return {str(name): tensor.float() for name, tensor in found.items()}


def _read_npz(path: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            if name not in expected or name in found:
                raise WeightsError(f"{path}: {name[:80]!r} is unknown or there twice.")
            if entry.file_size > 8 * expected[name].numel() + 4096:
                raise WeightsError(f"{path}: {name!r} has {entry.file_size} bytes, more than it can need.")
            array = np.load(io.BytesIO(archive.read(entry)), allow_pickle=False)
            found[name] = torch.from_numpy(np.asarray(array, dtype=np.float32))
    return found
