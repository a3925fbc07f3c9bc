"""A detector comes back from its folder, finds what it likes, distrusts files, and serves the command line."""

import base64
import dataclasses
import errno
import gc
import hashlib
import io
import json
import os
import pickle
import shutil
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from devkits import make_detection_devkit, make_weights, paint_object
from directloss_studies.cli import app
from directloss_studies.cli.reproduce import _export
from directloss_studies.data.voc import read_scenes
from directloss_studies.detection import study as detection
from directloss_studies.detection.images import read_images
from directloss_studies.detection.measuring import SUPPRESSION
from directloss_studies.harness.store import Store
from directloss_studies.harness.typed import encode
from directloss_studies.vision import regions
from directloss_studies.vision.backbones import BACKBONES, SqueezeNet, WeightsError, load_weights
from directloss_studies.vision.detector import (
    ClassHeads,
    Detection,
    Detector,
    DetectorError,
    Measured,
    choose_detector,
    draw,
    load_detector,
    read_measured,
    save_detector,
    upright,
)
from directloss_studies.vision.images import read_image
from directloss_studies.vision.proposals import search
from directloss_studies.vision.regions import Basis, describe
from joblib.externals.loky.process_executor import TerminatedWorkerError
from PIL import Image
from typer.testing import CliRunner

BOX = (31, 21, 80, 70)
MEASURED = Measured(0.5, 7, (((1.15, 0.5), (1.35, 0.9)), ((0.0, 0.1), (0.4, 0.25))))
"""Of a car and a cat."""


def picture(shown="car", size=(120, 90), box=BOX):
    pixels = np.random.default_rng(0).normal(110, 12, (size[1], size[0], 3))
    paint_object(pixels, box, shown)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture(scope="module", autouse=True)
def patched():
    patch = pytest.MonkeyPatch()
    patch.setattr(regions, "SHORTER", 120)
    patch.setattr("joblib.cpu_count", lambda: 1)
    for name in ("kaiming_uniform_", "uniform_"):  # slow, and the files' weights replace them
        patch.setattr(f"torch.nn.init.{name}", lambda tensor, *options, **more: tensor.data.zero_())
    yield patch
    patch.undo()


@pytest.fixture(scope="module")
def made(tmp_path_factory, patched):
    """A detector whose heads like a planted car and a planted cat."""
    folder = tmp_path_factory.mktemp("detector")
    weights = make_weights(folder / "w.npz")
    network = SqueezeNet().eval()
    load_weights(network, weights)
    box = np.array([BOX], dtype=float)
    liked = torch.cat([describe(picture(shown), box, "pooled", network) for shown in ("car", "cat")])
    heads = ClassHeads(("car", "cat"), liked.T.contiguous(), torch.tensor([0.25, -0.5]), torch.tensor([1.24, 0.49]))
    detector = Detector(network, "pooled", 500, 0.3, heads, MEASURED, side=500)
    save_detector(folder / "model", detector)
    return SimpleNamespace(folder=folder / "model", network=network, heads=heads, detector=detector)


@pytest.fixture(scope="module")
def detector(made):
    return load_detector(made.folder)


def test_a_planted_object_is_found_to_the_pixel(detector):
    for shown, score, precision in (("car", 1.25, 0.7), ("cat", 0.5, 0.25)):
        (found,) = detector(picture(shown))
        assert (found.name, found.box) == (shown, BOX)
        assert found.score == pytest.approx(score, abs=1e-3)
        assert found.precision == pytest.approx(precision, abs=2e-3)


def test_it_comes_back_as_it_was(made, detector):
    assert (detector.feature_kind, detector.boxes, detector.overlap) == ("pooled", 500, 0.3)
    assert detector.heads.classes == ("car", "cat")
    assert detector.measured == read_measured(made.folder) == MEASURED
    for name in ("weights", "biases", "thresholds"):
        assert torch.equal(getattr(detector.heads, name), getattr(made.heads, name))
    state = made.network.state_dict()
    for name, tensor in detector.network.state_dict().items():
        assert torch.equal(tensor, state[name]) or name.startswith("classifier.")
    assert not detector.network.training
    assert files(made.folder) == ["backbone.npz", "detector.json", "detector.npz"]
    with np.load(made.folder / "backbone.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {name for name in state if name.startswith("features.")}


def test_scores_are_those_of_heads_in_the_coordinates_of_a_basis(made, tmp_path):
    generator = torch.Generator().manual_seed(0)
    basis = Basis(torch.rand(4608, generator=generator) / 100, torch.randn((4608, 7), generator=generator))
    heads = torch.randn((2, 8), generator=generator)
    given = ClassHeads.of(["dog", "cow"], basis, heads, [-1e6, -1e6])
    save_detector(tmp_path, Detector(made.network, "pooled", 30, 1.0, given, side=90))
    found = load_detector(tmp_path)(picture(), 1000)
    boxes = search(picture(), side=90)[:30].astype(float)
    assert boxes.tolist() != search(picture())[:30].tolist()
    rows = basis(describe(picture(), boxes, "pooled", made.network))
    expected = (rows @ heads[:, :-1].T + heads[:, -1]).numpy()
    assert len(found) == 2 * len(boxes) > 20  # nothing is suppressed at an overlap of 1
    for each in found:
        (place,) = np.flatnonzero((boxes == each.box).all(1))
        assert each.score == pytest.approx(float(expected[place, ["dog", "cow"].index(each.name)]), abs=2e-3)


def test_at_most_so_many_boxes_those_with_the_highest_precision(detector):
    loose = dataclasses.replace(detector, heads=dataclasses.replace(detector.heads, thresholds=torch.full((2,), -5.0)))
    found = loose(picture(), 1000)
    order = [(each.precision, each.score) for each in found]
    assert order == sorted(order, reverse=True)
    assert {each.name for each in found} == {"car", "cat"}
    assert loose(picture(), 3) == found[:3]


def test_without_precision_they_are_those_farthest_above_their_threshold(detector):
    loose = dataclasses.replace(detector.heads, thresholds=torch.tensor([0.0, -5.0]))
    loose = dataclasses.replace(detector, heads=loose, measured=None)
    found = loose(picture(), 1000)
    margins = [each.score + (5.0 if each.name == "cat" else 0.0) for each in found]
    assert margins == sorted(margins, reverse=True)
    assert {each.name for each in found} == {"car", "cat"}
    assert loose(picture(), 3) == found[:3]
    tight = dataclasses.replace(detector, heads=dataclasses.replace(loose.heads, thresholds=torch.tensor([99.0, 99.0])))
    assert tight(picture()) == []


@pytest.mark.parametrize("size", [(600, 2), (2, 600), (2, 2), (5000, 3), (25, 25), (900, 600)])
@pytest.mark.parametrize("kind", regions.FEATURE_KINDS)
def test_images_of_any_size(detector, size, kind):
    every = dataclasses.replace(detector.heads, thresholds=torch.tensor([-9.0, -9.0]))
    image = picture(size=size, box=(101, 101, 700, 500)) if size == (900, 600) else Image.new("RGB", size, "teal")
    found = dataclasses.replace(detector, feature_kind=kind, boxes=5, heads=every)(image)
    assert found
    for each in found:
        left, top, right, bottom = each.box
        assert 1 <= left <= right <= size[0]
        assert 1 <= top <= bottom <= size[1]
        assert np.isfinite(each.score)


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1)])
def test_a_line_of_pixels_shows_nothing(detector, size):
    with pytest.raises(ValueError, match=f"The image has {size[0]} × {size[1]} pixels; a side must have 2"):
        detector(Image.new("RGB", size))


def damaged(made, folder, facts=None, arrays=None, content=None):
    """A copy of the detector's folder with other facts, or other heads whose checksum is right."""
    folder.mkdir(exist_ok=True)
    for path in made.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    found = json.loads((folder / "detector.json").read_text())
    if arrays is not None or content is not None:
        if content is None:
            whole = {k: getattr(made.heads, k).numpy() for k in ("weights", "biases", "thresholds")} | (arrays or {})
            np.savez(folder / "detector.npz", **{k: v for k, v in whole.items() if v is not None})
        else:
            (folder / "detector.npz").write_bytes(content)
        found["files"]["detector.npz"] = hashlib.sha256((folder / "detector.npz").read_bytes()).hexdigest()
    (folder / "detector.json").write_text(json.dumps(found | (facts or {})))
    return folder


def refused(folder, match, name=None):
    """The error names the file or its folder, and is one of ours."""
    with pytest.raises((DetectorError, WeightsError), match=match) as caught:
        load_detector(folder)
    assert str(folder / (name or "")).rstrip("/") in str(caught.value)


def test_a_folder_without_a_detector_is_named(tmp_path):
    refused(tmp_path, "there is no detector.json. `directloss reproduce detection` makes one")
    refused(tmp_path / "nowhere", "does not hold a detector")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "does not hold a detector")
    (tmp_path / "detector.json").mkdir()
    refused(tmp_path, "does not hold a detector")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"3", b'"text"', b"\xff\xfe\x00", b"{}", b"[" * 100_000, b'{"format": 1}'],
    ids=range(10),
)
def test_junk_instead_of_facts_is_refused(made, content, tmp_path):
    damaged(made, tmp_path)
    (tmp_path / "detector.json").write_bytes(content)
    refused(tmp_path, "does not hold a detector")


def test_facts_that_are_too_large_are_not_read(made, tmp_path):
    damaged(made, tmp_path, {"more": "x" * (1 << 20)})
    refused(tmp_path, "bytes, more than 1048576: not read", "detector.json")


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"format": 3}, "has format 3; this version reads 1 to 2"),
        ({"format": True}, "has format True"),
        ({"backbone": "vgg"}, "names a backbone or a kind of features that is unknown"),
        ({"feature_kind": "sift"}, "names a backbone or a kind of features that is unknown"),
        ({"classes": ["car"]}, r"'weights' is not an array of \(4608, 1\) finite numbers"),
        ({"classes": []}, "names no classes, or some that are not words"),
        ({"classes": ["car", "\x1b[31mcat"]}, "names no classes, or some that are not words"),
        ({"boxes": 0}, "wants 0 boxes that overlap by at most 0.3"),
        ({"boxes": "many"}, "does not hold a detector"),
        ({"overlap": float("nan")}, "overlap by at most nan"),
        ({"overlap": -0.1}, "overlap by at most -0.1"),
        ({"side": 49}, "in images of 49 pixels"),
        ({"side": 5001}, "in images of 5001 pixels"),
        ({"files": {}}, "does not hold a detector"),
        ({"files": {"backbone.npz": "0", "detector.npz": "0"}}, "its checksum is wrong"),
        (
            {"backbone": "alexnet"},
            r"backbone.npz: 'features\.0\.weight' has shape \(96, 3, 7, 7\) instead of \(64, 3, 11",
        ),
    ],
)
def test_facts_that_are_wrong_are_refused(made, facts, match, tmp_path):
    refused(damaged(made, tmp_path, facts), match)


@pytest.mark.parametrize("name", ["detector.npz", "backbone.npz"])
def test_a_file_that_was_changed_cut_or_lost_is_named(made, name, tmp_path):
    damaged(made, tmp_path)
    whole = (tmp_path / name).read_bytes()
    for content in (whole[:-1], whole[:100], b"", whole + b"x", whole[:-1] + bytes([whole[-1] ^ 1])):
        (tmp_path / name).write_bytes(content)
        refused(tmp_path, "is damaged or of another detector: its checksum is wrong", name)
    (tmp_path / name).unlink()
    refused(tmp_path, "is missing", name)
    os.mkfifo(tmp_path / name)
    refused(tmp_path, "is missing", name)


def test_a_detector_of_format_1_is_read_and_says_that_its_scores_are_bare(made, tmp_path):
    folder = damaged(made, tmp_path / "old", {"format": 1})
    facts = json.loads((folder / "detector.json").read_text())
    del facts["measured"]
    (folder / "detector.json").write_text(json.dumps(facts))
    (found,) = load_detector(folder)(picture())
    assert (found.box, found.precision, found.number) == (BOX, None, "1.25")
    assert read_measured(folder) is None
    picture().save(tmp_path / "x.png")
    done = invoke("detect", tmp_path / "x.png", "--model", folder, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert (
        "x.png: car 1.25\nA number without % is a bare score: this detector does not know its precision." in done.output
    )
    (row,) = json.loads((tmp_path / "o" / "detections.json").read_text())
    assert row["boxes"][0]["precision"] is None


KNOTS = [[[0.0, 0.5], [1.0, 0.6]], [[0.0, 0.5]]]
BAD_MEASURED = {
    "text": "many",
    "nothing in it": {},
    "no images": {"test_images": 0},
    "ap above one": {"average_precision": 1.5},
    "one class": {"precision": KNOTS[:1]},
    "falling": {"precision": [[[0.0, 0.5], [1.0, 0.4]], []]},
    "above one": {"precision": [[[0.0, 1.5]], []]},
    "nan": {"precision": [[[0.0, float("nan")]], []]},
    "more": {"more": 1},
}


@pytest.mark.parametrize("case", BAD_MEASURED)
def test_what_was_measured_is_refused_if_it_cannot_be(made, case, tmp_path):
    bad = BAD_MEASURED[case]
    if isinstance(bad, dict) and bad:
        bad = {"test_images": 7, "average_precision": 0.5, "precision": KNOTS} | bad
    folder = damaged(made, tmp_path, {"measured": bad})
    refused(folder, "does not hold a detector: ValueError")
    with pytest.raises(DetectorError, match="does not hold a detector: ValueError"):
        read_measured(folder)


class Evil:
    """What would run if a pickle were read."""

    def __reduce__(self):
        return os.mkdir, ("evil",)


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", b"PK\x03\x04", pickle.dumps(Evil()), b"\x93NUMPY\x01\x00"],
    ids=["empty", "junk", "zip", "pickle", "npy"],
)
def test_heads_that_are_no_archive_are_refused(made, content, tmp_path, monkeypatch):
    folder = damaged(made, tmp_path / "model", content=content)
    monkeypatch.chdir(tmp_path)
    refused(folder, "does not hold a detector")
    gc.collect()  # a file that was left open is told here
    assert not (tmp_path / "evil").exists()


def test_pickled_heads_are_not_unpickled(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("weights", "biases", "thresholds"):
        folder = damaged(made, tmp_path / "model", arrays={name: np.array([Evil(), Evil()], dtype=object)})
        refused(folder, "allow_pickle=False")
    assert not (tmp_path / "evil").exists()


BAD_HEADS = {
    "nan weight": {"weights": np.full((4608, 2), np.nan, np.float32)},
    "infinite bias": {"biases": np.array([np.inf, 0], np.float32)},
    "nan threshold": {"thresholds": np.array([0, np.nan], np.float32)},
    "no thresholds": {"thresholds": None},
    "too few features": {"weights": np.zeros((4607, 2), np.float32)},
    "three classes": {"weights": np.zeros((4608, 3), np.float32)},
    "a table of biases": {"biases": np.zeros((5, 2), np.float32)},
    "text": {"biases": np.array(["a", "b"])},
    "complex": {"weights": np.zeros((4608, 2), np.complex64)},
}


@pytest.mark.parametrize("case", BAD_HEADS)
def test_heads_that_cannot_be_used_are_refused(made, case, tmp_path):
    expected = (
        "'thresholds is not a file" if case == "no thresholds" else "is not an array of .* finite numbers|unpacks to"
    )
    refused(damaged(made, tmp_path, arrays=BAD_HEADS[case]), expected)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(made, tmp_path, monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("weights", "biases", "thresholds"):
            archive.writestr(f"{name}.npy", bytes(1 << 20))
    folder = damaged(made, tmp_path, content=buffer.getvalue())
    opened = zipfile.ZipFile.open

    def guarded(archive, name, *options, **more):
        assert not str(getattr(name, "filename", name)).startswith(("weights", "biases", "thresholds")), "unpacked"
        return opened(archive, name, *options, **more)

    monkeypatch.setattr(zipfile.ZipFile, "open", guarded)
    refused(folder, "detector.npz unpacks to more than 2 classes can need")


def test_a_folder_is_not_whole_while_it_is_written(made, tmp_path, monkeypatch):
    damaged(made, tmp_path)
    written = []

    def stop(path, content):
        written.append(path.name)
        raise KeyboardInterrupt

    monkeypatch.setattr("directloss_studies.vision.detector.write_whole", stop)
    with pytest.raises(KeyboardInterrupt):
        save_detector(tmp_path, made.detector)
    assert written == ["detector.npz"]
    refused(tmp_path, "there is no detector.json")


def test_drawing_changes_a_copy_only_and_only_near_its_boxes():
    image = picture(size=(300, 200))
    before = np.asarray(image).copy()
    drawn = draw(image, [Detection("car", 0.75, (150, 100, 250, 180)), Detection("cat", 0.5, (151, 99, 200, 150))])
    assert drawn.size == image.size
    assert np.array_equal(np.asarray(image), before)
    changed = (np.asarray(drawn) != before).any(2)
    rows, columns = changed.any(1).nonzero()[0], changed.any(0).nonzero()[0]
    assert rows[0] >= 80
    assert columns[0] >= 140
    assert changed[179, 149:250].all()  # the lower edge, pixels from 0
    assert changed[99:180, 249].all()
    assert not changed[180:].any()
    assert not changed[140:178, 205:245].any()  # what is inside stays to be seen
    assert np.array_equal(np.asarray(draw(image, [])), before)


def test_words_of_a_box_at_the_right_edge_are_inside():
    blank = Image.new("RGB", (300, 200))
    words = [np.asarray(draw(blank, [Detection("aeroplane", 0.0, (left, 100, 299, 180), 0.75)])) for left in (20, 290)]
    white = [(of == 255).all(2) for of in words]
    assert white[0].any()
    assert [int(of.sum()) for of in white] == [int(white[0].sum())] * 2  # none is cut off


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_photos_are_turned_as_their_exif_data_say(orientation, ending, tmp_path):
    image = Image.new("RGB", (32, 16))
    image.paste("red", (0, 0, 16, 8))  # left, top
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / f"x.{ending}", exif=exif)
    found = upright(read_image(tmp_path / f"x.{ending}"))
    assert found.size == ((32, 16) if orientation < 5 else (16, 32))
    corner = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (0, 1), 5: (0, 0), 6: (1, 0), 7: (1, 1), 8: (0, 1)}[orientation]
    pixel = found.getpixel([(side - 1) * at for side, at in zip(found.size, corner, strict=True)])
    assert pixel[0] > 200
    assert (np.asarray(found)[..., 0] > 128).mean() == pytest.approx(0.25, abs=0.05)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


def files(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_detect_draws_every_image_and_writes_what_it_found(made, tmp_path):
    for name, shown in (("one.png", "car"), ("two.png", "cat")):
        picture(shown).save(tmp_path / name)
    done = invoke("detect", tmp_path / "one.png", tmp_path / "two.png", "--model", made.folder, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert files(tmp_path / "o") == ["detections.json", "one-detected.png", "two-detected.png"]
    rows = json.loads((tmp_path / "o" / "detections.json").read_text())
    assert [(row["image"], row["drawn"], row["width"], row["height"]) for row in rows] == [
        (str(tmp_path / f"{name}.png"), f"{name}-detected.png", 120, 90) for name in ("one", "two")
    ]
    assert [[(box["class"], box["box"]) for box in row["boxes"]] for row in rows] == [
        [("car", list(BOX))],
        [("cat", list(BOX))],
    ]
    assert rows[0]["boxes"][0]["score"] == pytest.approx(1.25, abs=1e-3)
    assert rows[0]["boxes"][0]["precision"] == pytest.approx(0.7, abs=2e-3)
    drawn = Image.open(tmp_path / "o" / "one-detected.png")
    assert (np.asarray(drawn) != np.asarray(picture())).any()
    assert f"{tmp_path / 'one.png'}: car 70 %\n{tmp_path / 'two.png'}: cat 25 %\n" in done.output
    assert "Precision: the share that was right, of boxes with such a score in 7 test images.\n" in done.output


def test_same_stems_do_not_overwrite_one_another(made, tmp_path):
    names = (("a", "x.png"), ("b", "x.png"), ("b", "x.jpg"), ("b", "x-detected.png"))
    paths = [tmp_path / folder / name for folder, name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        picture().save(path)
    done = invoke("detect", *paths, paths[0], "--model", made.folder, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "o" / "detections.json").read_text())
    last = ["x-detected-detected.png", "x-detected-4.png"]
    assert [row["drawn"] for row in rows] == ["x-detected.png", "x-detected-2.png", "x-detected-3.png", *last]
    assert files(tmp_path / "o") == sorted(["detections.json", *(row["drawn"] for row in rows)])


@pytest.mark.parametrize("out", [".", "sub/..", "link"])
def test_an_image_is_never_overwritten_by_a_drawing(made, out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(".")
    names = ["x.png", "x-detected.png", "x-detected-2.png"]
    for name in names:
        picture().save(tmp_path / name)
    before = (tmp_path / "x.png").read_bytes()
    done = invoke("detect", names[0], tmp_path / names[1], names[2], "--model", made.folder, "--out", out)
    assert done.exit_code == 0, done.output
    assert [(tmp_path / name).read_bytes() == before for name in names] == [True] * 3
    rows = json.loads((tmp_path / "detections.json").read_text())
    drawn = ["x-detected-3.png", "x-detected-detected.png", "x-detected-2-detected.png"]
    assert [row["drawn"] for row in rows] == drawn
    assert files(tmp_path) == sorted([*names, *drawn, "detections.json", "link", "sub"])


def test_a_photo_that_lies_on_its_side_is_drawn_upright(made, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    picture().transpose(Image.Transpose.ROTATE_90).save(tmp_path / "x.png", exif=exif)
    done = invoke("detect", tmp_path / "x.png", "--model", made.folder, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    (row,) = json.loads((tmp_path / "o" / "detections.json").read_text())
    assert (row["width"], row["height"], row["boxes"][0]["box"]) == (120, 90, list(BOX))
    assert read_image(tmp_path / "o" / "x-detected.png").size == (120, 90)


def test_a_name_that_is_not_utf_8_works(made, tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.png"
    picture().save(tmp_path / "x.png")
    os.rename(tmp_path / "x.png", name)
    done = invoke("detect", os.fsdecode(name), "--model", made.folder, "--out", tmp_path / "o")
    assert done.exit_code == 0, repr(done.exception)
    assert r"caf\udce9.png: car 70 %" in done.output
    assert sorted(os.listdir(os.fsencode(tmp_path / "o"))) == [b"caf\xe9-detected.png", b"detections.json"]
    (row,) = json.loads((tmp_path / "o" / "detections.json").read_text())
    assert os.fsencode(row["image"]) == name
    assert os.fsencode(row["drawn"]) == b"caf\xe9-detected.png"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_to_is_a_refusal(made, number, tmp_path, monkeypatch):
    def stop(path, content):
        raise OSError(number, os.strerror(number), str(path))

    picture().save(tmp_path / "x.png")
    monkeypatch.setattr("directloss_studies.cli.detect.write_whole", stop)
    done = invoke("detect", tmp_path / "x.png", "--model", made.folder, "--out", tmp_path / "o")
    assert done.exit_code == 2
    assert os.strerror(number) in done.output
    assert str(tmp_path / "o" / "x-detected.png") in done.output
    assert "Traceback" not in done.output


def test_what_is_broken_is_named_and_the_rest_is_done(made, tmp_path):
    picture().save(tmp_path / "good.png")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "cut.png").write_bytes((tmp_path / "good.png").read_bytes()[:900])
    Image.new("RGB", (1, 1)).save(tmp_path / "dot.png")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "loop.png").symlink_to("loop.png")
    bad = [tmp_path / f"{name}.png" for name in ("empty", "cut", "dot", "folder", "nowhere", "loop", "long" * 70)]
    out = tmp_path / "o"
    done = invoke("detect", *bad, tmp_path / "good.png", "--model", made.folder, "--out", out)
    assert done.exit_code == 1
    for path in bad:
        assert str(path) in done.output
    assert f"{tmp_path / 'folder.png'} is not a file." in done.output
    assert f"{tmp_path / 'nowhere.png'} is missing." in done.output
    assert files(out) == ["detections.json", "good-detected.png"]
    assert len(json.loads((out / "detections.json").read_text())) == 1


def test_where_all_is_broken_nothing_is_written(made, tmp_path):
    (tmp_path / "x.png").write_bytes(b"junk")
    done = invoke("detect", tmp_path / "x.png", "--model", made.folder, "--out", tmp_path / "o")
    assert done.exit_code == 1
    assert str(tmp_path / "x.png") in done.output
    assert not (tmp_path / "o").exists()


def test_detect_refuses_what_cannot_be(made, tmp_path):
    picture().save(tmp_path / "x.png")
    (tmp_path / "file").write_text("")
    done = invoke("detect", tmp_path / "x.png", "--model", made.folder, "--out", tmp_path / "file")
    assert done.exit_code == 2
    assert "is a file. Name a folder." in done.output
    done = invoke("detect", tmp_path / "x.png", "--model", tmp_path, "--out", tmp_path / "o")
    assert done.exit_code == 2
    assert "does not hold a detector" in done.output
    assert invoke("detect", tmp_path / "x.png", "--model", made.folder, "--top", 0).exit_code == 2
    assert files(tmp_path) == ["file", "x.png"]


def test_the_only_detector_under_the_runs_is_taken(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = damaged(made, tmp_path / "model")
    (tmp_path / "runs" / "detectors").mkdir(parents=True)
    model.rename("runs/detectors/one")
    picture().save("x.png")
    done = invoke("detect", "x.png")
    assert done.exit_code == 0, done.output
    assert "Detector: runs/detectors/one\nIt is the only one under runs.\n" in done.output
    assert files(tmp_path / "detections") == ["detections.json", "x-detected.png"]
    assert invoke("detect", "x.png", "--runs", "runs/detectors/one").exit_code == 0


def test_of_the_detectors_of_one_command_the_best_on_held_out_images_is_taken(made, tmp_path):
    for name, average_precision in (("a", 0.5), ("b", 0.625), ("c", 0.25)):
        measured = {**encode(MEASURED), "average_precision": average_precision}
        damaged(made, tmp_path / name, {"measured": measured})
    picture().save(tmp_path / "x.png")
    done = invoke("detect", tmp_path / "x.png", "--runs", tmp_path, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert (
        f"Detector: {tmp_path / 'b'}\nOf 3 detectors it has the highest AP on held-out images, 0.62.\n" in done.output
    )


@pytest.mark.parametrize("case", ["several commands", "not measured"])
def test_where_several_detectors_cannot_be_compared_they_are_listed(made, case, tmp_path):
    other = tmp_path / ("more" if case == "several commands" else "") / "b"
    other.parent.mkdir(exist_ok=True)
    paths = damaged(made, tmp_path / "a"), damaged(made, other, {"measured": None} if other.parent == tmp_path else {})
    with pytest.raises(DetectorError, match=f"There are 2 detectors under {tmp_path}"):
        choose_detector(tmp_path)
    done = invoke("detect", "x.png", "--runs", tmp_path, "--out", tmp_path / "o")
    assert done.exit_code == 2
    assert f"There are 2 detectors under {tmp_path}. Name one with --model:\n" in done.output
    for path in paths:
        assert f"\n  {path}\n" in done.output


@pytest.mark.parametrize("there", [True, False])
def test_where_there_is_no_detector_a_command_that_makes_one_is_named(there, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if there:
        (tmp_path / "runs").mkdir()
    done = invoke("detect", "x.png")
    assert done.exit_code == 2
    assert "There is no detector under runs. `directloss reproduce detection --root DEVKIT` makes some" in done.output
    assert not (tmp_path / "detections").exists()


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory, patched):
    folder = tmp_path_factory.mktemp("reproduced")
    make_detection_devkit(folder / "data", 14, 10, ("car", "cat"), size=(100, 70))
    make_weights(folder / "w.npz")
    patched.setenv("DIRECTLOSS_CACHE", str(folder / "cache"))
    patched.setattr(detection, "COMPONENTS", 48)
    patched.setattr(detection, "QUICK", ("car", "cat"))
    few = {method: (strengths[:1], *rest) for method, (strengths, *rest) in detection.GRIDS.items()}
    patched.setattr(detection, "GRIDS", few)  # few settings, for speed
    read_images.cache_clear()
    line = ["reproduce", "detection", "--root", folder / "data", "--weights", folder / "w.npz", "--seeds", 1]
    line += ["--jobs", 1, "--images", 20, "--boxes", 40, "--batch", 32, "--out", folder / "runs"]
    done = invoke(*line)
    assert done.exit_code == 0, done.output
    return SimpleNamespace(folder=folder, line=line, output=done.output)


def test_the_command_goes_from_a_devkit_to_table_2_and_detectors(reproduced):
    page = (reproduced.folder / "runs" / "report.html").read_text()
    assert "Table 2 of the paper, and ours" in page
    tables = (reproduced.folder / "runs" / "report.md").read_text()
    assert "Table 2 of the paper, and ours" in tables
    assert "| pos-AP, the paper | 0.485 | 0.403 |" in tables
    assert f"Report: {reproduced.folder}/runs/report.html" in reproduced.output.replace("\n", "")
    assert page.count("data:image/jpeg;base64,") >= 4
    assert "too few runs to say" in page
    assert "proposals of 20 images. Objects that a proposal overlaps" in reproduced.output
    options = "--features pooled --images 20 --boxes 40 --side 300 --positive 0.5 --negative 0.3 --batch 32"
    assert f"--preset quick --seeds 1 --root DEVKIT --weights FILE --backbone squeezenet {options}" in page
    expected = [f"squeezenet-pooled-{m}-{n}" for m in detection.GRIDS for n in (0, 20)]
    assert files(reproduced.folder / "runs" / "detectors") == ["quick"]
    assert files(reproduced.folder / "runs" / "detectors" / "quick") == sorted(expected)


def test_a_detector_that_was_reproduced_gives_the_scores_of_its_runs(reproduced):
    folder = reproduced.folder / "runs"
    detector = load_detector(folder / "detectors" / "quick" / "squeezenet-pooled-pos-AP-0")
    assert detector.heads.classes == ("car", "cat")
    assert (detector.boxes, detector.overlap) == (40, SUPPRESSION)
    every = dataclasses.replace(detector, heads=dataclasses.replace(detector.heads, thresholds=torch.full((2,), -1e9)))
    scenes = {scene.name: scene for scene in read_scenes(reproduced.folder / "data", "val")}
    checked = 0
    for path in (folder / "detection" / "quick").glob("pos-AP-0-*.json"):
        run = json.loads(path.read_text())
        if run["config"]["noise"] == 0:
            number = detector.heads.classes.index(run["config"]["category"])
            size = np.linalg.norm(np.frombuffer(base64.b64decode(run["result"]["weights"]), "<f4")[:-1])
            threshold = run["result"]["threshold"] / size
            assert float(detector.heads.thresholds[number]) == pytest.approx(threshold, abs=1e-5)
            for shown in run["result"]["pictures"]["best"]:
                found = every(read_image(scenes[shown["name"]].path), 10_000)
                box = (shown["box"][0] + 1, shown["box"][1] + 1, *shown["box"][2:])
                (score,) = [f.score for f in found if (f.name, f.box) == (run["config"]["category"], box)]
                assert score == pytest.approx(shown["score"] / size, abs=0.02 * max(1, abs(score)))
                assert abs(score) < 50
                checked += 1
    assert checked >= 2


def test_a_detector_that_was_reproduced_serves_detect(reproduced, tmp_path):
    scene = read_scenes(reproduced.folder / "data", "val")[0]
    done = invoke("detect", scene.path, "--runs", reproduced.folder / "runs", "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert "Of 10 detectors it has the highest AP on held-out images" in done.output
    assert "test images.\nDrawn images" in done.output
    assert files(tmp_path / "o") == sorted([f"{scene.name}-detected.png", "detections.json"])


def test_there_are_no_detectors_before_all_runs_of_the_source_are_there(reproduced, tmp_path):
    store = Store(tmp_path / "detection" / "quick", detection.STUDY)

    def export(seeds, source):
        configs = detection.configs(detection.STUDY.options_from("quick", seeds, source), source)
        _export(store, configs, "quick", tmp_path)

    shutil.copytree(reproduced.folder / "runs" / "detection" / "quick", store.folder)
    runs = store.runs()
    source = next(iter(runs.values())).config.source
    assert source
    victim = min(runs)
    victim.rename(tmp_path / "away")
    export(1, source)
    assert not (tmp_path / "detectors").exists()
    (tmp_path / "away").rename(victim)
    export(2, source)  # of the second seed there are none
    export(1, dataclasses.replace(source, boxes=39))
    assert not (tmp_path / "detectors").exists()
    export(1, source)
    assert len(files(tmp_path / "detectors" / "quick")) == 10


def test_jobs_reach_the_search_and_a_process_that_is_killed_in_it_is_told(reproduced, monkeypatch):
    asked = []

    def killed(paths, jobs, progress, side):
        asked.append(jobs)
        raise TerminatedWorkerError("A worker process managed by the executor was unexpectedly terminated.")

    monkeypatch.setattr(detection, "proposals", killed)
    line = [*reproduced.line]
    line[line.index("--jobs") + 1] = 2
    done = invoke(*line)
    assert done.exit_code == 2
    assert asked == [2]
    told = " ".join(done.output.split())
    assert "A process was killed, perhaps because memory ran out; try fewer --jobs. The same command continues" in told
    assert "Traceback" not in done.output


@pytest.mark.parametrize("name", BACKBONES)
def test_every_backbone_and_kind_of_features_serves_a_detector(name, tmp_path, patched):
    network = BACKBONES[name]().eval()
    load_weights(network, make_weights(tmp_path / "w.npz", name))
    pooled = network.channels * network.cells**2
    assert pooled == {"alexnet": 9216, "squeezenet": 4608, "efficientnet-lite0": 4032}[name]
    warped = 1280 if name == "efficientnet-lite0" else pooled
    layers = pooled + 1280 * (name == "efficientnet-lite0")
    for kind, features in {"pooled": pooled, "layers": layers, "warped": warped}.items():
        heads = ClassHeads(("car",), torch.ones(features, 1), torch.zeros(1), torch.full((1,), -1e6))
        save_detector(tmp_path / kind, Detector(network, kind, 3, 0.3, heads))
        assert load_detector(tmp_path / kind)(picture())
    assert set(regions.FEATURE_KINDS) == {"pooled", "layers", "warped"}
