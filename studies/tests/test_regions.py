"""Features of boxes: pooled from maps whose geometry is right, or warped; labels; coordinates; what is kept."""

import errno
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from directloss_studies.harness import cache
from directloss_studies.harness.cache import Cache
from directloss_studies.harness.progress import no_steps
from directloss_studies.vision import regions
from directloss_studies.vision.backbones import BACKBONES, AlexNet, Backbone, SqueezeNet
from directloss_studies.vision.boxes import labelled
from directloss_studies.vision.crops import MEAN, STD, crop, normalised
from directloss_studies.vision.images import ImageError
from directloss_studies.vision.regions import FEATURE_KINDS, compute, describe, fit_basis, read_basis
from PIL import Image
from test_detection_evaluation import plain_overlap
from test_pooling import plain as plain_pool
from torch import Tensor, nn


class Sees(Backbone):
    """Maps are the image itself."""

    stride, offset, margin, channels, cells, width = 1, 0.0, 16, 3, 2, 12

    def trunk(self, crops: Tensor) -> Tensor:
        return crops

    def top(self, maps: Tensor) -> Tensor:
        return maps.flatten(1)

    def of_top(self) -> list[nn.Module]:
        return []

    def pooled(self, crops: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(self.trunk(crops), self.cells).flatten(1)

    def maps(self, images: Tensor) -> Tensor:
        return self.trunk(images)


class Tiny(Sees):
    """One convolution."""

    stride, offset, margin, channels, cells, width = 16, 0.0, 16, 5, 2, 20

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn((5, 3, 16, 16), generator=generator) / 16)

    def trunk(self, crops: Tensor) -> Tensor:
        return nn.functional.conv2d(crops, self.weight, stride=16).relu()


def picture(width=60, height=45, seed=0):
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return coarse.resize((width, height), Image.Resampling.BILINEAR)


def boxes_in(width, height, count, seed=0, smallest=6):
    random = np.random.default_rng(seed)
    corner = random.integers(1, [width - smallest, height - smallest], (count, 2))
    end = random.integers(corner + smallest, [width + 1, height + 1])
    return np.concatenate([corner, end], axis=1).astype(float)


@pytest.fixture(scope="module")
def networks():
    torch.manual_seed(0)
    return {name: kind().eval() for name, kind in BACKBONES.items()}


def all_positive(kind):
    """A random network without a dead unit, whose pooling lets everything through: of the same geometry."""
    torch.manual_seed(0)
    network = kind().eval()
    for weight in network.features.parameters():
        weight.data = weight.data.abs() + 1e-3
    for place, layer in enumerate(network.features):
        if isinstance(layer, nn.MaxPool2d):
            network.features[place] = nn.AvgPool2d(3, 2, ceil_mode=layer.ceil_mode)
    return network


@pytest.mark.parametrize("kind", [AlexNet, SqueezeNet])
def test_pixels_of_maps_are_centred_on_what_they_see(kind):
    network = all_positive(kind).double()
    image = torch.rand((1, 3, 330, 360), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    image.requires_grad_()
    maps = network.maps(image)
    centres = []
    for row, column in ((9, 9), (9, 10), (10, 9)):
        (seen,) = torch.autograd.grad(maps[0, :, row, column].sum(), image, retain_graph=True)
        touched = seen[0].abs().sum(0) > 0
        rows, columns = touched.any(1).nonzero().flatten(), touched.any(0).nonzero().flatten()
        assert 0 < rows[0] < rows[-1] < 329  # nothing of what it sees is cut off
        assert 0 < columns[0] < columns[-1] < 359
        centres.append([(int(side[0]) + int(side[-1]) + 1) / 2 for side in (rows, columns)])  # of pixel edges, from 0
        expected = [network.offset + network.stride * (place + 0.5) for place in (row, column)]
        assert centres[-1] == expected
    assert centres[2][0] - centres[0][0] == centres[1][1] - centres[0][1] == network.stride


@pytest.mark.parametrize("name", BACKBONES)
def test_maps_reach_every_edge_of_an_image_whatever_its_size(name):
    with torch.device("meta"):
        network = BACKBONES[name]()
    assert max(level.offset for level in network.levels) <= regions.MARGIN
    for side in [*range(2, 36), 600, 607, *range(984, 1001)]:
        padded = torch.empty(1, 3, 40, regions.MARGIN + side + network.margin, device="meta")
        layers = network.layers(padded)
        assert layers[0].shape == network.maps(padded).shape
        for maps, level in zip(layers, network.levels, strict=True):
            assert maps.shape[1] == level.channels
            end = level.offset + level.stride * maps.shape[-1]
            assert end >= side + regions.MARGIN, f"{side} pixels: {side + regions.MARGIN - end} of them are not seen"


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("size", [(90, 60), (59, 97)])
@pytest.mark.parametrize("kind", ["pooled", "layers"])
def test_boxes_of_a_few_pixels_in_the_corners_of_an_image_have_features(name, size, kind, networks, monkeypatch):
    monkeypatch.setattr(regions, "SHORTER", 60)  # an image of 60 × 90 stays as it is, one of 59 × 97 nearly
    monkeypatch.setattr(regions, "LONGER", 100)
    width, height = size
    corners = [[1, 1, 3, 3], [width - 2, 1, width, 3], [1, height - 2, 3, height], [width - 2, height - 2, *size]]
    rows = describe(picture(*size), np.array(corners, dtype=float), kind, networks[name])
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(4))


def test_a_box_has_the_colours_that_are_in_it(monkeypatch):
    # red is twice the column from 0 on, green three times the row: means say where a cell lies, to the pixel
    pixels = np.full((80, 120, 3), 100, dtype=np.uint8)
    pixels[..., 0], pixels[..., 1] = 2 * np.arange(120)[None], 3 * np.arange(80)[:, None]
    monkeypatch.setattr(regions, "SHORTER", 160)
    monkeypatch.setattr(regions, "LONGER", 1000)
    boxes = boxes_in(110, 70, 20, smallest=8) + 4
    found = regions._pooled(Image.fromarray(pixels), boxes, Sees()).view(20, 2, 2, 3)
    colours = found * torch.tensor(STD) + torch.tensor(MEAN)
    for (left, top, right, bottom), cells in zip(boxes.tolist(), (255 * colours).tolist(), strict=True):
        width, height = right - left + 1, bottom - top + 1
        for row in range(2):
            for column in range(2):
                x, y = left - 1 + width * (column + 0.5) / 2, top - 1 + height * (row + 0.5) / 2
                assert cells[row][column] == pytest.approx([2 * (x - 0.5), 3 * (y - 0.5), 100], abs=0.6)


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("kind", ["pooled", "layers"])
def test_pooled_features_are_means_of_the_maps_of_one_image(name, kind, networks, monkeypatch):
    monkeypatch.setattr(regions, "SHORTER", 90)
    monkeypatch.setattr(regions, "LONGER", 110)  # the longer side decides: 60 × 45 becomes 110 × 82.5
    network, image = networks[name], picture()
    square = torch.from_numpy(np.asarray(image.resize((110, 82), Image.Resampling.BILINEAR)).copy()).permute(2, 0, 1)
    with torch.inference_mode():
        every = network.layers(nn.functional.pad(normalised(square), (16, network.margin) * 2)[None])
    boxes = np.concatenate([boxes_in(60, 45, 6), [[1, 1, 60, 45]]])
    parts = []
    for maps, (_, stride, offset, cells) in zip(every, network.levels, strict=True):
        expected = []
        for left, top, right, bottom in boxes.tolist():
            edges = [(left - 1) * 110 / 60, (top - 1) * 82 / 45, right * 110 / 60, bottom * 82 / 45]
            expected.append(plain_pool(maps[0], [(e + 16 - offset) / stride for e in edges], cells))
        rows = torch.stack(expected)
        parts.append(rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-6))
    rows = parts[0] if kind == "pooled" else torch.cat(parts, 1)
    rows = rows / rows.norm(dim=1, keepdim=True)
    found = describe(image, boxes, kind, network)
    assert found.shape[1] == network.features_of(kind)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), rows, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
def test_warped_features_are_those_of_crops_one_by_one(name, networks):
    network, image = networks[name], picture()
    boxes = boxes_in(60, 45, regions.AT_ONCE + 1 if name == "squeezenet" else 2)
    found = describe(image, boxes, "warped", network)
    with torch.inference_mode():
        expected = torch.cat([network.pooled(normalised(crop(image, box))[None]) for box in boxes.tolist()])
    length = expected.norm(dim=1, keepdim=True).clamp_min(1e-6)  # without training, EfficientNet's features are tiny
    torch.testing.assert_close(found, expected / length, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_rows_have_length_one_and_those_of_nothing_are_zero(kind, monkeypatch):
    monkeypatch.setattr(regions, "SHORTER", 64)
    found = describe(picture(), boxes_in(60, 45, 9), kind, Tiny())
    torch.testing.assert_close(found.norm(dim=1), torch.ones(9))
    network = Tiny()
    network.weight.data.zero_()
    assert describe(picture(), boxes_in(60, 45, 9), kind, network).abs().sum() == 0


def plain_labels(boxes, objects, difficult, positive, negative):
    found = []
    for box in boxes.tolist():
        shared = [(plain_overlap(box, of), hard) for of, hard in zip(objects.tolist(), difficult.tolist(), strict=True)]
        if any(value >= positive and not hard for value, hard in shared):
            found.append(1)
        elif all(value < negative for value, _ in shared):
            found.append(-1)
        else:
            found.append(0)
    return found


@pytest.mark.parametrize(("positive", "negative"), [(0.5, 0.3), (0.5, 0.5), (1.0, 0.1), (0.2, 0.001)])
def test_labels_are_those_of_a_plain_loop(positive, negative):
    random = np.random.default_rng(0)
    seen = set()
    for case in range(60):
        boxes, objects = boxes_in(40, 40, 25, case), boxes_in(40, 40, int(random.integers(0, 5)), case + 100)
        boxes = np.concatenate([boxes, objects])
        difficult = random.random(len(objects)) < 0.4
        found = labelled(boxes, objects, difficult, positive, negative)
        assert found.dtype == np.int8
        assert found.tolist() == plain_labels(boxes, objects, difficult, positive, negative)
        seen |= set(found.tolist())
    assert seen == ({-1, 1, 0})


def test_thresholds_of_labels_by_hand():
    objects = np.array([[1.0, 1.0, 10.0, 10.0]])
    boxes = np.array([[1, 1, 10, 5], [1, 1, 10, 4], [1, 1, 10, 3], [11, 11, 20, 20], [1, 1, 10, 10]], dtype=float)
    easy, hard = np.array([False]), np.array([True])
    assert labelled(boxes, objects, easy, 0.5, 0.3).tolist() == [1, 0, 0, -1, 1]  # half is on it; 0.3 is not away
    assert labelled(boxes, objects, easy, 0.51, 0.31).tolist() == [0, 0, -1, -1, 1]
    assert labelled(boxes, objects, hard, 0.5, 0.3).tolist() == [0, 0, 0, -1, 0]
    both = np.concatenate([objects, objects])
    assert labelled(boxes, both, np.array([True, False]), 0.5, 0.3).tolist() == [1, 0, 0, -1, 1]
    none = np.zeros((0, 4))
    assert labelled(boxes, none, np.zeros(0, dtype=bool), 0.5, 0.3).tolist() == [-1] * 5
    assert labelled(none, objects, easy, 0.5, 0.3).tolist() == []


def correlated(rows=300, features=40):
    generator = torch.Generator().manual_seed(0)
    few = torch.randn((rows, 8), generator=generator) * torch.linspace(3, 1, 8)
    spread = torch.randn((8, features), generator=generator)
    return few @ spread + 0.05 * torch.randn((rows, features), generator=generator) + 7


def test_a_basis_turns_and_scales_alike_and_keeps_what_varies():
    rows = correlated()
    basis = fit_basis(rows, 8, 0)
    gram = basis.axes.T @ basis.axes
    torch.testing.assert_close(gram / gram[0, 0], torch.eye(8), rtol=0, atol=1e-4)
    found = basis(rows)
    assert found.shape == (300, 8)
    torch.testing.assert_close(found.mean(0), torch.zeros(8), rtol=0, atol=1e-3)
    torch.testing.assert_close(found.square().mean(), torch.tensor(1.0), rtol=1e-4, atol=0)
    scale = float(gram[0, 0])
    assert found.square().sum() / scale > 0.999 * (rows - rows.mean(0)).square().sum()
    distances = torch.cdist(found, found) / scale**0.5
    torch.testing.assert_close(distances, torch.cdist(rows, rows), rtol=0.05, atol=1.0)


def test_a_basis_does_not_hang_on_the_number_of_threads():
    rows, before = correlated(4000, 500), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(fit_basis(rows, 64, 0))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for basis in found[1:]:
        assert torch.equal(basis.mean, found[0].mean)
        assert torch.equal(basis.axes, found[0].axes)


def test_a_basis_has_no_more_components_than_there_are_rows_or_features():
    assert fit_basis(correlated(5), 8, 0).axes.shape == (40, 5)
    assert fit_basis(correlated(300, 6), 8, 0).axes.shape == (6, 6)
    still = fit_basis(torch.ones(9, 4), 2, 0)
    assert still(torch.ones(9, 4)).abs().max() == 0
    assert still.axes.isfinite().all()


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Five images, one of them of another size, and their boxes."""
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(regions, "SHORTER", 64)
    paths = []
    for number in range(5):
        paths.append(tmp_path / f"{number}.png")
        picture(60 + 20 * (number == 2), 45, number).save(paths[-1])
    return paths, [boxes_in(60, 45, 3 + number, number) for number in range(5)]


CACHE = Cache("make it again")


def call(images, kind="pooled", network=None, made_by=None, sample=(0, 2), components=6, steps=no_steps):
    paths, boxes = images
    return compute(CACHE, paths, boxes, kind, network or Tiny(), made_by or {"weights": "w"}, sample, components, steps)


@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_rows_of_all_boxes_are_kept_image_by_image_in_the_coordinates_of_the_basis(images, kind):
    network, told = Tiny(), []
    boxes_key, rows_key, basis_key = call(
        images, kind, network, steps=lambda text: told.append(text) or (lambda share: 0)
    )
    boxes, rows, basis = CACHE.array(boxes_key), CACHE.array(rows_key), read_basis(CACHE, basis_key)
    assert boxes.dtype == np.float32
    assert np.array_equal(boxes, np.concatenate(images[1]))
    assert rows.dtype == np.float16
    assert rows.shape == (sum(map(len, images[1])), 6)
    expected = [
        basis(describe(Image.open(path), some, kind, network)).half().numpy()
        for path, some in zip(*images, strict=True)
    ]
    assert np.array_equal(rows, np.concatenate(expected))
    sampled = torch.cat([describe(Image.open(images[0][k]), images[1][k], kind, network) for k in (0, 2)])
    fitted = fit_basis(sampled, 6, regions.SEED)
    torch.testing.assert_close(basis(sampled).square().sum(), fitted(sampled).square().sum(), rtol=1e-3, atol=0)
    torch.testing.assert_close(basis.mean, sampled.mean(0))
    some = f"{kind} features of some boxes, for their coordinates"
    assert told == ["reading images", some, f"{kind} features of 25 boxes, 0.0 GB"]
    assert {path.suffix for path in CACHE.array_path(rows_key).parent.iterdir()} == {".npy", ".lock"}


def test_keys_depend_on_images_boxes_feature_kind_weights_sample_and_components_and_on_nothing_else(images, tmp_path):
    paths, boxes = images
    found = [call(images)]
    assert len(set(found[0])) == 3
    moved = [tmp_path / "elsewhere" / f"x{path.name}" for path in paths]
    (tmp_path / "elsewhere").mkdir()
    for path, to in zip(paths, moved, strict=True):
        shutil.copy(path, to)
    assert call((moved, boxes)) == found[0]
    picture(60, 45, 99).save(moved[3])
    found.append(call((moved, boxes)))
    found.append(call((paths, [*boxes[:4], boxes[4] + [0, 0, 0, 0.25]])))
    found.append(call((paths, [boxes[0][:-1], *boxes[1:]])))
    found.append(call(((paths[1], paths[0], *paths[2:]), (boxes[1], boxes[0], *boxes[2:]))))
    found.append(call(images, "warped"))
    found.append(call(images, made_by={"weights": "v"}))
    found.append(call(images, made_by={"weights": "w", "backbone": "tiny"}))
    found.append(call(images, sample=(0, 1)))
    found.append(call(images, components=5))
    wider = Tiny()
    wider.margin = 32
    found.append(call(images, network=wider))
    assert len({keys[1] for keys in found}) == len(found)
    assert len({keys[2] for keys in found}) == len(found)


class StopError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 3, 4])
def test_it_goes_on_after_the_last_whole_image_and_gives_the_same_bytes(images, tmp_path, monkeypatch, after):
    sizes = [len(some) for some in images[1]]

    def steps(text):
        def progress(share):
            if "of 25 boxes" in text and round(share * 25) >= sum(sizes[:after]):
                raise StopError

        return progress

    with pytest.raises(StopError):
        call(images, steps=steps)
    (part,) = (tmp_path / "cache").rglob("*.part")
    assert part.with_suffix(".progress").read_text() == str(sum(sizes[:after]))
    seen = []

    def counting(image, boxes, kind, network):
        seen.append(len(boxes))
        return describe(image, boxes, kind, network)

    monkeypatch.setattr(regions, "describe", counting)
    keys = call(images)
    assert sorted(seen) == sorted(sizes[after:])  # two threads, in any order
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.suffix in (".part", ".progress", ".partial")]
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "other"))
    assert call(images) == keys
    for key in keys:
        ours, theirs = (tmp_path / folder / "arrays" / f"{key}.npy" for folder in ("cache", "other"))
        assert ours.read_bytes() == theirs.read_bytes()


def test_a_box_outside_of_its_image_is_an_error_that_names_the_image(images):
    boxes = [some.copy() for some in images[1]]
    boxes[1][0] = [500, 500, 600, 600]
    for sample in ((0, 2), (1, 2)):  # whether it is met on the way to the basis or after
        with pytest.raises(ImageError, match="outside") as caught:
            call((images[0], boxes), sample=sample)
        assert str(caught.value).startswith(f"{images[0][1]}: ")


def test_a_full_disk_is_an_error_and_the_next_call_succeeds(images, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full, raising=False)
        with pytest.raises(OSError, match="No space left on device"):
            call(images)
    keys = call(images)
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "other"))
    assert call(images) == keys
    for key in keys:
        ours, theirs = (tmp_path / folder / "arrays" / f"{key}.npy" for folder in ("cache", "other"))
        assert ours.read_bytes() == theirs.read_bytes()


def test_two_at_once_fit_one_basis(images, monkeypatch):
    fitted = []

    def slow(*arguments):
        fitted.append(arguments)
        time.sleep(0.3)
        return fit_basis(*arguments)

    monkeypatch.setattr(regions, "fit_basis", slow)
    with ThreadPoolExecutor(2) as pool:
        first, second = (done.result() for done in [pool.submit(call, images) for _ in range(2)])
    assert first == second
    assert len(fitted) == 1


@pytest.mark.parametrize("count", [0, 1, 5, 9])
def test_rows_are_taken_in_the_order_asked_for(tmp_path, monkeypatch, count):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "AT_ONCE", 2)
    rows = np.arange(18).reshape(9, 2)
    CACHE.compute_array("k", (9, 2), np.float16, [9], lambda start, end: rows)
    places = np.random.default_rng(0).permutation(9)[:count]
    found = CACHE.rows("k", places)
    assert found.tolist() == [[2 * k, 2 * k + 1] for k in places.tolist()]
