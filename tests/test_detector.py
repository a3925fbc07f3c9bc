"""A detector comes back from its folder, finds what it likes, distrusts files, and serves the command line."""

import dataclasses
import gc
import hashlib
import json
import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from directloss.cli import app
from directloss.data.voc import read_image, read_scenes
from directloss.experiments import detection
from directloss.experiments.detection_data import kept_images
from directloss.vision import regions
from directloss.vision.backbones import BACKBONES, SqueezeNet, WeightsError, load_weights
from directloss.vision.detector import DetectorError, Found, Heads, draw, load_detector, save_detector
from directloss.vision.proposals import search
from directloss.vision.regions import Basis, describe
from tests.devkits import make_detection_devkit, make_weights, paint_thing

BOX = (31, 21, 80, 70)


def picture(shown="car", size=(120, 90), box=BOX):
    pixels = np.random.default_rng(0).normal(110, 12, (size[1], size[0], 3))
    paint_thing(pixels, box, shown)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def patched():
    patch = pytest.MonkeyPatch()
    patch.setattr(regions, "SHORTER", 120)
    patch.setattr("joblib.cpu_count", lambda: 1)
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
    heads = Heads(("car", "cat"), liked.T.contiguous(), torch.tensor([0.25, -0.5]), torch.tensor([1.24, 0.49]))
    save_detector(folder / "model", "squeezenet", weights, "pooled", 500, 0.3, heads)
    return SimpleNamespace(folder=folder / "model", weights=weights, network=network, heads=heads)


@pytest.fixture(scope="module")
def detector(made):
    return load_detector(made.folder)


def test_a_planted_object_is_found_to_the_pixel(detector):
    for shown, score in (("car", 1.25), ("cat", 0.5)):
        (found,) = detector(picture(shown))
        assert (found.name, found.box) == (shown, BOX)
        assert found.score == pytest.approx(score, abs=1e-3)


def test_it_comes_back_as_it_was(made, detector):
    assert (detector.way, detector.boxes, detector.overlap) == ("pooled", 500, 0.3)
    assert detector.heads.classes == ("car", "cat")
    for name in ("weights", "biases", "thresholds"):
        assert torch.equal(getattr(detector.heads, name), getattr(made.heads, name))
    state = made.network.state_dict()
    for name, tensor in detector.network.state_dict().items():
        assert torch.equal(tensor, state[name]) or name.startswith("classifier.")
    assert not detector.network.training


def test_scores_are_those_of_heads_in_the_coordinates_of_a_basis(made, tmp_path):
    generator = torch.Generator().manual_seed(0)
    basis = Basis(torch.rand(4608, generator=generator) / 100, torch.randn((4608, 7), generator=generator))
    heads = torch.randn((2, 8), generator=generator)
    given = Heads.of(["dog", "cow"], basis, heads, [-1e6, -1e6])
    save_detector(tmp_path, "squeezenet", made.weights, "pooled", 30, 1.0, given)
    found = load_detector(tmp_path)(picture(), 1000)
    boxes = search(picture())[:30].astype(float)
    rows = basis(describe(picture(), boxes, "pooled", made.network))
    expected = (rows @ heads[:, :-1].T + heads[:, -1]).numpy()
    assert len(found) == 2 * len(boxes) > 20  # nothing is suppressed at an overlap of 1
    for each in found:
        (place,) = np.flatnonzero((boxes == each.box).all(1))
        assert each.score == pytest.approx(float(expected[place, ["dog", "cow"].index(each.name)]), abs=2e-3)


def test_at_most_so_many_boxes_those_farthest_above_their_threshold(detector):
    loose = dataclasses.replace(detector.heads, thresholds=torch.tensor([0.0, -5.0]))
    loose = dataclasses.replace(detector, heads=loose)
    found = loose(picture(), 1000)
    margins = [each.score + (5.0 if each.name == "cat" else 0.0) for each in found]
    assert margins == sorted(margins, reverse=True)
    assert {each.name for each in found} == {"car", "cat"}
    assert loose(picture(), 3) == found[:3]
    tight = dataclasses.replace(detector, heads=dataclasses.replace(loose.heads, thresholds=torch.tensor([99.0, 99.0])))
    assert tight(picture()) == []


@pytest.mark.parametrize("size", [(600, 2), (2, 600), (2, 2), (5000, 3), (25, 25), (1500, 1000)])
@pytest.mark.parametrize("way", regions.WAYS)
def test_images_of_any_size(detector, size, way):
    every = dataclasses.replace(detector.heads, thresholds=torch.tensor([-9.0, -9.0]))
    image = picture(size=size, box=(101, 101, 900, 700)) if size == (1500, 1000) else Image.new("RGB", size, "teal")
    found = dataclasses.replace(detector, way=way, boxes=20, heads=every)(image)
    assert found
    for each in found:
        left, top, right, bottom = each.box
        assert 1 <= left <= right <= size[0]
        assert 1 <= top <= bottom <= size[1]
        assert np.isfinite(each.score)


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1)])
def test_a_line_of_pixels_shows_nothing(detector, size):
    with pytest.raises(ValueError, match=f"An image of {size[0]} × {size[1]} pixels shows nothing"):
        detector(Image.new("RGB", size))


@pytest.mark.parametrize("mode", ["L", "P", "1", "LA", "RGBA", "I;16"])
def test_whatever_mode_a_png_has_it_is_looked_at(detector, mode, tmp_path):
    image = Image.new("I;16", (40, 30)) if mode == "I;16" else picture().convert(mode)
    image.save(tmp_path / "x.png")
    assert isinstance(detector(read_image(tmp_path / "x.png")), list)


def damaged(made, folder, facts=None, arrays=None, content=None):
    """A copy of the detector's folder with other facts, or other heads whose checksum is right."""
    folder.mkdir(exist_ok=True)
    for path in made.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    found = json.loads((folder / "detector.json").read_text())
    if arrays is not None or content is not None:
        if content is None:
            whole = {k: getattr(made.heads, k).numpy() for k in ("weights", "biases", "thresholds")} | (arrays or {})
            np.savez(folder / "detector.npz", allow_pickle=True, **{k: v for k, v in whole.items() if v is not None})
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
    refused(tmp_path / "nowhere", "holds no detector")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "holds no detector")
    (tmp_path / "detector.json").mkdir()
    refused(tmp_path, "holds no detector")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"3", b'"text"', b"\xff\xfe\x00", b"{}", b"[" * 100_000, b'{"format": 1}'],
    ids=range(10),
)
def test_junk_instead_of_facts_is_refused(made, content, tmp_path):
    damaged(made, tmp_path)
    (tmp_path / "detector.json").write_bytes(content)
    refused(tmp_path, "holds no detector")


def test_facts_that_are_too_large_are_not_read(made, tmp_path):
    damaged(made, tmp_path, {"more": "x" * (1 << 20)})
    refused(tmp_path, "bytes, more than 1048576: not read", "detector.json")


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"format": 2}, "has format 2; this version reads 1"),
        ({"format": None}, "has format None"),
        ({"backbone": "vgg"}, "names a backbone or a kind of features that is unknown"),
        ({"backbone": ["squeezenet"]}, "holds no detector"),
        ({"way": "sift"}, "names a backbone or a kind of features that is unknown"),
        ({"classes": ["car"]}, "heads that do not fit its 1 classes"),
        ({"classes": 3}, "holds no detector"),
        ({"boxes": 0}, "do not fit|boxes"),
        ({"boxes": "many"}, "holds no detector"),
        ({"boxes": float("inf")}, "holds no detector"),
        ({"overlap": "much"}, "holds no detector"),
        ({"overlap": float("nan")}, "overlap"),
        ({"overlap": -1.0}, "overlap"),
        ({"files": {}}, "holds no detector"),
        ({"files": ["backbone.npz"]}, "holds no detector"),
        ({"files": {"backbone.npz": "0", "detector.npz": "0"}}, "its checksum is wrong"),
        ({"files": {"../backbone.npz": "0", "detector.npz": "0"}}, "holds no detector"),
        ({"backbone": "alexnet"}, "holds no weights of AlexNet|is unknown"),
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
        refused(tmp_path, "is damaged, or of another detector: its checksum is wrong", name)
    (tmp_path / name).unlink()
    refused(tmp_path, "is missing", name)
    os.mkfifo(tmp_path / name)
    refused(tmp_path, "is missing", name)


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
    refused(folder, "holds no detector")
    gc.collect()  # a file that was left open is told here
    assert not (tmp_path / "evil").exists()


def test_a_truncated_archive_with_the_right_checksum_is_refused(made, tmp_path):
    whole = (made.folder / "detector.npz").read_bytes()
    for size in (len(whole) // 2, len(whole) - 30):
        refused(damaged(made, tmp_path, content=whole[:size]), "holds no detector")
    gc.collect()


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
    "features of another backbone": {"weights": np.zeros((9216, 2), np.float32)},
    "no features": {"weights": np.zeros((0, 2), np.float32)},
    "three classes": {"weights": np.zeros((4608, 3), np.float32)},
    "one vector": {"weights": np.zeros(2, np.float32)},
    "three dimensions": {"weights": np.zeros((1, 4608, 2), np.float32)},
    "a table of biases": {"biases": np.zeros((5, 2), np.float32)},
    "a table of thresholds": {"thresholds": np.zeros((2, 2), np.float32)},
    "one bias": {"biases": np.zeros((), np.float32)},
    "text": {"biases": np.array(["a", "b"])},
    "complex": {"weights": np.zeros((4608, 2), np.complex64)},
}


@pytest.mark.parametrize("case", BAD_HEADS)
def test_heads_that_cannot_be_used_are_refused(made, case, tmp_path):
    refused(damaged(made, tmp_path, arrays=BAD_HEADS[case]), "holds")


@pytest.mark.parametrize("kind", [np.float64, np.float16])
def test_heads_in_another_precision_work_or_are_refused(made, kind, tmp_path):
    arrays = {k: getattr(made.heads, k).numpy().astype(kind) for k in ("weights", "biases", "thresholds")}
    try:
        found = load_detector(damaged(made, tmp_path, arrays=arrays))(picture())
    except DetectorError:
        return
    assert [each.name for each in found] == ["car"]


@pytest.mark.parametrize("name", ["w.pth", "w.pt", "w", "w.NPZ"])
def test_weights_may_have_any_name_that_they_can_be_read_by(made, name, tmp_path):
    state = {key: value for key, value in made.network.state_dict().items() if key.startswith("features.")}
    torch.save(state, tmp_path / name)
    load_weights(SqueezeNet(), tmp_path / name)
    save_detector(tmp_path / "model", "squeezenet", tmp_path / name, "pooled", 500, 0.3, made.heads)
    (found,) = load_detector(tmp_path / "model")(picture())
    assert found.box == BOX


def test_a_folder_is_not_whole_while_it_is_written(made, tmp_path, monkeypatch):
    damaged(made, tmp_path)
    written = []

    def stop(path, content):
        written.append(path.name)
        raise KeyboardInterrupt

    monkeypatch.setattr("directloss.vision.detector.write_whole", stop)
    with pytest.raises(KeyboardInterrupt):
        save_detector(tmp_path, "squeezenet", made.weights, "pooled", 500, 0.3, made.heads)
    assert written == ["detector.npz"]
    refused(tmp_path, "there is no detector.json")


def test_drawing_changes_a_copy_only_and_only_near_its_boxes():
    image = picture(size=(300, 200))
    before = np.asarray(image).copy()
    drawn = draw(image, [Found("car", 0.75, (150, 100, 250, 180)), Found("cat", 0.5, (151, 99, 200, 150))])
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


@pytest.mark.parametrize("size", [(2, 2), (600, 2), (40, 30), (1500, 1000)])
def test_drawing_at_the_edges_stays_inside(size):
    corners = [(1, 1, *size), (1, 1, 2, 2), (size[0] - 1, size[1] - 1, *size), (size[0], size[1], *size)]
    found = [Found("a long name " * 9, -1e9, box) for box in corners]
    assert draw(Image.new("RGB", size), found).size == size


def invoke(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


def files(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_detect_draws_every_image_and_writes_what_it_found(made, tmp_path):
    for name, shown in (("one.png", "car"), ("two.png", "cat")):
        picture(shown).save(tmp_path / name)
    done = invoke("detect", tmp_path / "one.png", tmp_path / "two.png", "--model", made.folder, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert files(tmp_path / "o") == ["detections.json", "one.png", "two.png"]
    rows = json.loads((tmp_path / "o" / "detections.json").read_text())
    assert [(row["image"], row["drawn"], row["width"], row["height"]) for row in rows] == [
        (str(tmp_path / name), name, 120, 90) for name in ("one.png", "two.png")
    ]
    assert [[(box["class"], box["box"]) for box in row["boxes"]] for row in rows] == [
        [("car", list(BOX))],
        [("cat", list(BOX))],
    ]
    assert rows[0]["boxes"][0]["score"] == pytest.approx(1.25, abs=1e-3)
    drawn = Image.open(tmp_path / "o" / "one.png")
    assert (np.asarray(drawn) != np.asarray(picture())).any()
    assert f"{tmp_path / 'one.png'}: car 1.25" in done.output


def test_same_stems_do_not_overwrite_one_another(made, tmp_path):
    paths = [
        tmp_path / folder / name for folder, name in (("a", "x.png"), ("b", "x.png"), ("b", "x.jpg"), ("b", "x-2.png"))
    ]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        picture().save(path)
    done = invoke("detect", *paths, paths[0], "--model", made.folder, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "o" / "detections.json").read_text())
    assert len({row["drawn"] for row in rows}) == 5
    assert files(tmp_path / "o") == sorted(["detections.json", *(row["drawn"] for row in rows)])


@pytest.mark.parametrize("out", [".", "sub/.."])
def test_an_image_is_never_overwritten_by_its_drawing(made, out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("x.png", "y.png"):
        picture().save(tmp_path / name)
    before = (tmp_path / "x.png").read_bytes()
    done = invoke("detect", "x.png", tmp_path / "y.png", "--model", made.folder, "--out", out)
    assert done.exit_code in (0, 2), done.output
    assert (tmp_path / "x.png").read_bytes() == before
    assert (tmp_path / "y.png").read_bytes() == before


def test_what_is_broken_is_named_and_the_rest_is_done(made, tmp_path):
    picture().save(tmp_path / "good.png")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "cut.png").write_bytes((tmp_path / "good.png").read_bytes()[:900])
    Image.new("RGB", (1, 1)).save(tmp_path / "dot.png")
    (tmp_path / "folder.png").mkdir()
    bad = [tmp_path / f"{name}.png" for name in ("empty", "cut", "dot", "folder", "nowhere")]
    out = tmp_path / "o"
    done = invoke("detect", *bad, tmp_path / "good.png", "--model", made.folder, "--out", out)
    assert done.exit_code == 1
    for path in bad:
        assert str(path) in done.output
    assert files(out) == ["detections.json", "good.png"]
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
    assert "holds no detector" in done.output
    assert invoke("detect", tmp_path / "x.png", "--model", made.folder, "--top", 0).exit_code == 2
    assert files(tmp_path) == ["file", "x.png"]


def test_top_limits_what_is_shown(made, tmp_path):
    loose = dataclasses.replace(made.heads, thresholds=torch.tensor([-9.0, -9.0]))
    save_detector(tmp_path / "m", "squeezenet", made.weights, "pooled", 500, 0.3, loose)
    picture().save(tmp_path / "x.png")
    counts = []
    for top in (1, 3, 1000):
        done = invoke("detect", tmp_path / "x.png", "--model", tmp_path / "m", "--out", tmp_path / "o", "--top", top)
        assert done.exit_code == 0, done.output
        (row,) = json.loads((tmp_path / "o" / "detections.json").read_text())
        counts.append(len(row["boxes"]))
    assert counts[:2] == [1, 3]
    assert counts[2] > 3


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory, patched):
    folder = tmp_path_factory.mktemp("reproduced")
    make_detection_devkit(folder / "data")
    make_weights(folder / "w.npz")
    patched.setenv("DIRECTLOSS_CACHE", str(folder / "cache"))
    patched.setattr(detection, "COMPONENTS", 48)
    patched.setattr(detection, "STRENGTHS", dict.fromkeys(detection.STRENGTHS, (1.0,)))  # few settings, for speed
    kept_images.cache_clear()
    line = ["reproduce", "detection", "--root", folder / "data", "--weights", folder / "w.npz", "--seeds", 1]
    line += ["--jobs", 1, "--boxes", 60, "--batch", 32, "--out", folder / "runs"]
    done = invoke(*line)
    assert done.exit_code == 0, done.output
    return SimpleNamespace(folder=folder, line=line, output=done.output)


def test_the_command_goes_from_a_devkit_to_table_2_and_detectors(reproduced):
    page = (reproduced.folder / "runs" / "report.html").read_text()
    assert "Table 2 of the paper, and ours" in page
    assert "Table 2 of the paper, and ours" in reproduced.output
    assert "| pos-AP, the paper | 0.485 | 0.403 |" in reproduced.output
    assert page.count("data:image/jpeg;base64,") >= 6
    assert "too few runs to say" in page
    assert "proposals of 40 images; of the objects" in reproduced.output
    options = "--backbone squeezenet --features pooled --images 40 --boxes 60 --positive 0.5 --negative 0.3 --batch 32"
    assert f"--preset quick --seeds 1 --root DEVKIT --weights FILE {options}" in page
    expected = [f"squeezenet-pooled-{m}-{n}" for m in ("hinge-AP", "pos-AP", "x-ent") for n in (0, 20)]
    assert files(reproduced.folder / "runs" / "detectors") == sorted(expected)


def test_a_detector_that_was_reproduced_gives_the_scores_of_its_runs(reproduced):
    folder = reproduced.folder / "runs"
    detector = load_detector(folder / "detectors" / "squeezenet-pooled-pos-AP-0")
    assert sorted(detector.heads.classes) == ["car", "cat", "person"]
    assert (detector.boxes, detector.overlap) == (60, detection.SUPPRESSION)
    every = dataclasses.replace(detector, heads=dataclasses.replace(detector.heads, thresholds=torch.full((3,), -1e9)))
    scenes = {scene.name: scene for scene in read_scenes(reproduced.folder / "data", "val")}
    checked = 0
    for path in (folder / "detection" / "quick").glob("pos-AP-0-*.json"):
        run = json.loads(path.read_text())
        if run["config"]["noise"] == 0:
            number = detector.heads.classes.index(run["config"]["category"])
            assert float(detector.heads.thresholds[number]) == pytest.approx(run["result"]["threshold"], abs=1e-5)
            for shown in run["result"]["pictures"]["best"]:
                found = every(read_image(scenes[shown["name"]].path), 10_000)
                box = (shown["box"][0] + 1, shown["box"][1] + 1, *shown["box"][2:])
                (score,) = [f.score for f in found if (f.name, f.box) == (run["config"]["category"], box)]
                assert score == pytest.approx(shown["score"], abs=0.02 * max(1, abs(score)))
                checked += 1
    assert checked >= 3


def test_a_detector_that_was_reproduced_serves_detect(reproduced, tmp_path):
    scene = read_scenes(reproduced.folder / "data", "val")[0]
    model = reproduced.folder / "runs" / "detectors" / "squeezenet-pooled-pos-AP-20"
    done = invoke("detect", scene.path, "--model", model, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert files(tmp_path / "o") == sorted([f"{scene.name}.png", "detections.json"])


def test_the_second_call_runs_nothing(reproduced):
    folder = reproduced.folder

    def state():
        places = [*(folder / "cache").rglob("*"), *(folder / "runs" / "detection").rglob("*.json")]
        return {path: path.stat().st_mtime_ns for path in places if path.is_file()}

    before = state()
    done = invoke(*reproduced.line)
    assert done.exit_code == 0, done.output
    assert "all 18 runs are in" in done.output
    assert state() == before
    for model in (folder / "runs" / "detectors").iterdir():
        load_detector(model)


@pytest.mark.parametrize("name", BACKBONES)
def test_every_backbone_and_way_serves_a_detector(name, tmp_path, patched):
    weights = make_weights(tmp_path / "w.npz", name)
    features = {"alexnet": 9216, "squeezenet": 4608}[name]
    for way in regions.WAYS:
        heads = Heads(("car",), torch.ones(features, 1), torch.zeros(1), torch.full((1,), -1e6))
        save_detector(tmp_path / way, name, weights, way, 3, 0.3, heads)
        assert load_detector(tmp_path / way)(picture())


def test_weights_of_another_backbone_are_refused_and_named(made, tmp_path):
    damaged(made, tmp_path, {"backbone": "alexnet"})
    refused(tmp_path, "holds no weights of AlexNet|is unknown", "backbone.npz")
