"""Detection on a tiny devkit: what is prepared, what a run says, each against plain loops."""

import base64
import dataclasses
import io
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from devkits import make_detection_devkit, make_weights
from directloss_studies.data.label_noise import flip_labels
from directloss_studies.data.voc import CLASSES, Annotation, DevkitError, Scene, read_scenes
from directloss_studies.detection import measuring, mining
from directloss_studies.detection import study as detection
from directloss_studies.detection.config import Config, DetectionOptions, ObjectCounts, Result, TrainingCounts
from directloss_studies.detection.detectors import export
from directloss_studies.detection.images import CACHE, PARTS, Images, cache_images, pick, read_images
from directloss_studies.detection.study import SHARE, configs, prepare, run
from directloss_studies.harness.cache import Cache
from directloss_studies.harness.study import Provenance, Run
from directloss_studies.harness.typed import decode, encode
from directloss_studies.linear_models import LINEAR_MODELS
from directloss_studies.networks import Heads, Scaling
from directloss_studies.sweep import Setting, combinations
from directloss_studies.trainers import train
from directloss_studies.vision import regions
from directloss_studies.vision.backbones import WeightsError
from directloss_studies.vision.calibration import fit_precision, precision_at
from directloss_studies.vision.detector import load_detector
from directloss_studies.vision.evaluation import Detections
from directloss_studies.vision.images import ImageError, read_image
from directloss_studies.vision.proposals import propose
from PIL import Image
from test_detection_evaluation import plain_evaluate, plain_overlap, plain_suppress
from test_regions import plain_labels


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A devkit, weights of an untrained backbone, a cache; small maps, one process."""
    folder = tmp_path_factory.mktemp("detection")
    make_detection_devkit(folder / "data")
    make_weights(folder / "w.npz")
    patch = pytest.MonkeyPatch()
    patch.setenv("DIRECTLOSS_CACHE", str(folder / "cache"))
    patch.setattr(regions, "SHORTER", 120)
    patch.setattr(detection, "COMPONENTS", 64)
    patch.setattr("joblib.cpu_count", lambda: 1)
    read_images.cache_clear()
    yield folder
    patch.undo()
    read_images.cache_clear()


def options(place, **changes):
    given = DetectionOptions(root=place / "data", weights=place / "w.npz", boxes=40, batch=32)
    return dataclasses.replace(given, **changes)


@pytest.fixture(scope="module")
def prepared(place):
    told = []
    source, notes = prepare(options(place), 0, lambda text: told.append(text) or (lambda share: None))
    return SimpleNamespace(source=source, notes=notes, told=told, images=read_images(source.keys[0]))


def config(source, **changes):
    settings = (Setting(1.0, 1e-6, 0.0), Setting(1.0, 0.3, 0.0), Setting(10.0, 0.03, 0.01))
    return dataclasses.replace(Config("pos-AP", 0, 0.0, "car", source, 100, settings), **changes)


@pytest.fixture(scope="module")
def result(prepared):
    return run(config(prepared.source))


def of_part(images, part):
    return [number for number, of in enumerate(images.parts) if of == part]


def test_images_are_apart_and_a_quarter_is_held_out(place, prepared):
    images = prepared.images
    train, held_out, test = ([images.names[number] for number in of_part(images, part)] for part in PARTS)
    assert [len(train), len(held_out), len(test)] == [18, 6, 16]
    assert len({*train, *held_out, *test}) == 40
    assert list(images.parts) == ["train"] * 18 + ["held out"] * 6 + ["test"] * 16
    lists = [{scene.name: scene for scene in read_scenes(place / "data", part)} for part in ("train", "val")]
    assert {*train, *held_out} <= lists[0].keys()
    assert set(test) <= lists[1].keys()
    for name, path, annotations in zip(images.names, images.paths, images.annotations, strict=True):
        scene = (lists[0] | lists[1])[name]
        assert (str(scene.path), scene.annotations) == (path, annotations)


def test_rows_are_objects_of_training_images_and_then_proposals_up_to_a_number(prepared):
    images, boxes = prepared.images, CACHE.array(prepared.source.keys[1])
    end = 0
    for number, part in enumerate(images.parts):
        start, end = end, end + images.rows[number]
        found = propose(Path(images.paths[number]))[:40]
        objects = [list(each.box) for each in images.annotations[number] if not each.difficult]
        expected = [*(objects if part == "train" else []), *found.tolist()]
        assert boxes[start:end].tolist() == expected
        assert (images.ends[number], images.image_of(np.array([start, end - 1])).tolist()) == (end, [number, number])
    assert len(boxes) == end == len(CACHE.array(prepared.source.keys[2]))
    assert max(images.rows[18:]) == 40
    for part in PARTS:
        numbers = of_part(images, part)
        assert images.span(part) == (images.ends[numbers[0]] - images.rows[numbers[0]], images.ends[numbers[-1]])


def test_notes_and_steps_tell_what_was_found(prepared):
    images = prepared.images
    shares = []
    for part in PARTS:
        hit = total = 0
        for number in of_part(images, part):
            found = propose(Path(images.paths[number]))[:40].tolist()
            for each in images.annotations[number]:
                total += not each.difficult
                hit += not each.difficult and max(plain_overlap(each.box, box) for box in found) >= 0.5
        shares.append(f"{hit / total:.1%} ({part})")
    count = sum(images.rows) - sum(not t.difficult for number in range(18) for t in images.annotations[number])
    assert prepared.notes == [
        f"{count} proposals of 40 images. Objects that a proposal overlaps by half or more: {', '.join(shares)}."
    ]
    assert prepared.told[0] == "proposals of 40 images"
    assert prepared.told[-1] == f"pooled features of {sum(images.rows)} boxes, 0.0 GB"


def test_preparing_again_computes_nothing_and_gives_the_same(place, prepared, monkeypatch):
    monkeypatch.setattr(regions, "describe", None)
    source, notes = prepare(options(place))
    assert (source, notes) == (prepared.source, prepared.notes)


def test_images_that_were_moved_are_found_where_they_are(prepared, monkeypatch, tmp_path):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path))
    read_images.cache_clear()
    images = prepared.images
    key = cache_images(images)
    assert read_images(key) == images
    moved = dataclasses.replace(images, paths=tuple(f"/elsewhere{path}" for path in images.paths))
    assert cache_images(moved) == key
    assert read_images(key) == moved
    other = dataclasses.replace(images, names=("x", *images.names[1:]))
    assert cache_images(other) != key
    read_images.cache_clear()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": "sift"}, "--features 'sift' is unknown. There are: pooled, layers, warped"),
        ({"root": None}, "The study needs data: add --root DIR."),
        ({"positive": 0.2}, "Overlaps must be 0 < negative ≤ positive ≤ 1; got 0.3 and 0.2"),
        ({"positive": float("nan")}, "Overlaps must be"),
        ({"side": 49}, "--side must be from 50 to 5000; got 49"),
        ({"side": 5001}, "--side must be from 50 to 5000; got 5001"),
        ({"hard": 1.0}, "--hard must be a share from 0 to below 1; got 1.0"),
        ({"batch": 1}, "--batch must be 2 or more"),
        ({"boxes": 0}, "--boxes 1 or more"),
        ({"images": 19}, "--images must be 20 or more"),
        ({"images": 19, "preset": "paper"}, "--images must be 20 or more"),
        ({"backbone": "vgg"}, "There is no backbone 'vgg'"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(place, changes, message, monkeypatch):
    monkeypatch.setattr(detection, "read_scenes", None)
    with pytest.raises(ValueError, match=message):
        prepare(options(place, **changes))


def test_weights_of_another_backbone_are_refused_and_named(place, tmp_path):
    with pytest.raises(WeightsError, match=r"a\.npz"):
        prepare(options(place, weights=make_weights(tmp_path / "a.npz", "alexnet")))
    with pytest.raises(WeightsError, match=r"w\.npz"):
        prepare(options(place, backbone="alexnet"))


def test_a_class_that_is_nowhere_is_named_before_any_search(place, tmp_path, monkeypatch):
    make_detection_devkit(tmp_path, classes=("car", "cat"))
    monkeypatch.setattr(detection, "proposals", None)
    with pytest.raises(ValueError, match=r"There is no person in the images \(train\)\. Take more: --images N"):
        prepare(options(place, root=tmp_path))


def test_too_few_images_are_told(place, tmp_path):
    make_detection_devkit(tmp_path, train=3)
    with pytest.raises(ValueError, match="The list of training images has 3; 4 or more are needed"):
        prepare(options(place, root=tmp_path))


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_missing_list_or_a_broken_image_is_named(place, part, tmp_path):
    shutil.copytree(place / "data", tmp_path / "data")
    main = tmp_path / "data" / "VOCdevkit" / "VOC2012" / "ImageSets" / "Main" / f"{part}.txt"
    names = main.read_text().split()
    main.unlink()
    with pytest.raises(DevkitError, match=f"{main} is missing"):
        prepare(options(place, root=tmp_path / "data"))
    main.write_text("\n".join(names))
    scenes = {scene.name: scene for scene in read_scenes(tmp_path / "data", part)}
    images = read_images(prepare(options(place))[0].keys[0])
    victim = next(scenes[name].path for name in images.names if name in scenes)
    victim.write_bytes(victim.read_bytes()[:300])
    with pytest.raises(ImageError, match=f"{victim} is not a whole image"):
        prepare(options(place, root=tmp_path / "data"))


def test_an_annotated_box_outside_of_its_image_is_an_error_that_names_it(place, prepared, tmp_path):
    shutil.copytree(place / "data", tmp_path / "data")
    name = prepared.images.names[0]
    path = tmp_path / "data" / "VOCdevkit" / "VOC2012" / "Annotations" / f"{name}.xml"
    for low in ("xmin", "ymin", "xmax", "ymax"):
        path.write_text(path.read_text().replace(f"<{low}>", f"<{low}>9"))
    with pytest.raises(ImageError, match="outside") as caught:
        prepare(options(place, root=tmp_path / "data"))
    assert f"{name}.jpg: " in str(caught.value)


def test_an_image_on_both_lists_is_refused_before_any_search(place, tmp_path, monkeypatch):
    monkeypatch.setattr(detection, "proposals", None)
    shutil.copytree(place / "data", tmp_path / "data")
    main = tmp_path / "data" / "VOCdevkit" / "VOC2012" / "ImageSets" / "Main"
    (main / "val.txt").write_text((main / "train.txt").read_text())
    with pytest.raises(ValueError, match=r"2008_\d+ is on the list of training images and on that of test images"):
        prepare(options(place, root=tmp_path / "data"))


@pytest.mark.parametrize("category", ["car", "cat", "person"])
def test_labels_of_rows_are_those_of_a_plain_loop(prepared, category):
    images, boxes = prepared.images, CACHE.array(prepared.source.keys[1])
    found = images.labels(category, boxes, 0.5, 0.3)
    expected = []
    for number in of_part(images, "train"):
        mine = [each for each in images.annotations[number] if each.name == category]
        there = np.array([each.box for each in mine]).reshape(-1, 4)
        some = np.asarray(boxes[images.ends[number] - images.rows[number] : images.ends[number]], dtype=float)
        expected += plain_labels(some, there, np.array([each.difficult for each in mine], dtype=bool), 0.5, 0.3)
    assert found.tolist() == expected
    assert {-1, 0, 1} == set(expected)


def head_of(result):
    weights = np.frombuffer(base64.b64decode(result.weights), "<f4").astype(float)
    return weights[:-1], weights[-1]


def detected(prepared, result, part):
    """By the head of a result, with plain loops: what stays of all boxes, and what the challenge says to it."""
    images, keys = prepared.images, prepared.source.keys
    rows, boxes = (np.asarray(CACHE.array(key), dtype=float) for key in keys[2:0:-1])
    numbers = of_part(images, part)
    where = np.concatenate([np.full(images.rows[number], number) for number in numbers])
    start = sum(images.rows[: numbers[0]])
    span = slice(start, start + len(where))
    weights, bias = head_of(result)
    scores = rows[span] @ weights + bias
    stays = plain_suppress(where, boxes[span], scores, 0.3)
    found = Detections(where[stays], boxes[span][stays], scores[stays])
    return found, plain_evaluate(images.objects("car", part), found)


@pytest.mark.parametrize("part", ["held out", "test"])
def test_ap_is_that_of_a_plain_evaluation_of_the_head(prepared, result, part):
    _, (*_, area) = detected(prepared, result, part)
    values = result.held_out if part == "held out" else result.test
    assert values[result.chosen] == pytest.approx(area, abs=2e-6)
    assert area > values[0] + 0.2  # it learns


@pytest.mark.parametrize("values", ["random", "tied", "sorted"])
@pytest.mark.parametrize(("count", "limit"), [(0, 10), (5, 10), (100_000, 2000), (100_000, 60_000), (70_000, 1)])
def test_the_highest_scores_are_those_of_a_sort(values, count, limit):
    scores = torch.randn(count, generator=torch.Generator().manual_seed(0))
    scores = {"random": scores, "tied": scores.round(), "sorted": scores.sort().values}[values]
    places = measuring.highest(scores, limit)
    assert len(places.unique()) == len(places) == min(limit, count)
    assert torch.equal(places.sort().values, places)
    assert torch.equal(scores[places].sort(descending=True).values, scores.sort(descending=True).values[:limit])


def test_a_result_says_what_it_is_from(prepared, result):
    images = prepared.images
    easy = [
        sum(t.name == "car" and not t.difficult for k in of_part(images, part) for t in images.annotations[k])
        for part in PARTS
    ]
    assert result.objects == ObjectCounts(*easy)
    labels = images.labels("car", CACHE.array(prepared.source.keys[1]), 0.5, 0.3)
    assert result.training == TrainingCounts(int((labels == 1).sum()), int((labels == -1).sum()))
    boxes = np.asarray(CACHE.array(prepared.source.keys[1]), dtype=float)
    hit = 0
    for number in of_part(images, "test"):
        some = boxes[images.ends[number] - images.rows[number] : images.ends[number]].tolist()
        for each in images.annotations[number]:
            if each.name == "car" and not each.difficult:
                hit += max(plain_overlap(each.box, box) for box in some) >= 0.5
    assert result.recall == pytest.approx(hit / result.objects.test, abs=1e-6)
    assert result == decode(Result, json.loads(json.dumps(encode(result), allow_nan=False)))


def test_precision_at_recalls_is_the_highest_there_or_beyond(prepared, result):
    _, (_, rows, wanted, _) = detected(prepared, result, "test")
    for k, value in enumerate(result.precision):
        expected = max((row[4] for row in rows if row[3] / wanted >= k / 100 - 1e-9), default=0.0)
        assert value == pytest.approx(expected, abs=1e-4)
    assert len(result.precision) == 101


def test_the_threshold_is_where_f1_is_best_on_images_held_out(prepared, result):
    found, (order, rows, wanted, _) = detected(prepared, result, "held out")
    harmonic = [2 * row[4] * row[3] / wanted / max(row[4] + row[3] / wanted, 1e-9) for row in rows]
    shown = found.scores >= result.threshold - 1e-5
    assert harmonic[int(shown.sum()) - 1] == pytest.approx(max(harmonic), abs=1e-9)
    assert found.scores[order[int(shown.sum()) - 1]] == pytest.approx(result.threshold, abs=1e-4)


def test_precision_by_score_is_fitted_to_detections_in_test_images(prepared, result):
    found, (order, rows, *_) = detected(prepared, result, "test")
    counted = [(found.scores[place], row[1]) for place, row in zip(order, rows, strict=True) if row[2]]
    scores, right = map(np.array, zip(*counted, strict=True))
    expected = fit_precision(scores, right)
    assert len(expected) > 2
    for score in scores.tolist():
        assert precision_at(result.precision_by_score, score) == pytest.approx(precision_at(expected, score), abs=1e-3)


def test_a_result_of_a_version_without_precision_by_score_is_read(prepared, result):
    old = encode(result)
    del old["precision by score"]
    found = decode(Result, old)
    found.check(config(prepared.source))
    assert found == dataclasses.replace(result, precision_by_score=())


def test_pictures_are_the_first_right_and_the_first_wrong_detections(prepared, result):
    found, (order, rows, _, _) = detected(prepared, result, "test")
    images = prepared.images
    for kind, right in (("best", True), ("worst", False)):
        expected = [order[place] for place, row in enumerate(rows) if row[2] and row[1] == right][:3]
        pictures = result.pictures[kind]
        assert len(pictures) == len(expected) > 0
        for picture, place in zip(pictures, expected, strict=True):
            number = int(found.images[place])
            assert picture.name == images.names[number]
            assert picture.score == pytest.approx(found.scores[place], abs=1e-3)
            left, top, right_, bottom = found.boxes[place].tolist()
            assert picture.box == (left - 1, top - 1, right_, bottom)  # not shrunk
            cars = [each.box for each in images.annotations[number] if each.name == "car"]
            assert picture.truth == tuple((box[0] - 1, box[1] - 1, *box[2:]) for box in cars)
            shown = Image.open(io.BytesIO(base64.b64decode(picture.jpeg)))
            assert shown.size == picture.size == (120, 90)
            whole = np.asarray(read_image(Path(images.paths[number])), dtype=float)
            assert np.abs(np.asarray(shown, dtype=float) - whole).mean() < 20


def test_a_run_is_a_pure_function_of_its_configuration(prepared, result):
    torch.manual_seed(5)
    told = []
    assert run(config(prepared.source), told.append) == result
    assert told[-1] == 1.0
    assert told == sorted(told)


def test_other_seeds_classes_noise_and_methods_give_other_numbers_and_only_what_is_shown_has_pictures(prepared):
    one = config(prepared.source, iterations=20)
    shown = ({}, {"category": "cat"})
    others = ({"seed": 1}, {"noise": 0.2}, {"method": "x-ent"}, {"method": "hinge-AP"})
    found = [run(dataclasses.replace(one, **changes)) for changes in (*shown, *others)]
    assert len({each.weights for each in found}) == 6
    assert [bool(each.pictures) for each in found] == [True, True, False, False, False, False]


def test_noise_changes_nothing_but_the_labels_that_train(prepared, monkeypatch):
    seen = []

    def spy(heads, loss, inputs, target, *, batches, **options):
        seen.append((inputs, target, [next(batches) for _ in range(30)]))
        return torch.zeros(3)

    monkeypatch.setattr(detection, "train", spy)
    clean, noisy = (run(config(prepared.source, noise=noise)) for noise in (0.0, 0.2))
    assert clean.pictures
    assert not noisy.pictures
    assert dataclasses.replace(clean, pictures={}) == noisy  # the heads are not trained
    assert torch.equal(seen[0][0], seen[1][0])
    flipped = (seen[0][1] != seen[1][1]).float().mean()
    assert 0.1 < flipped < 0.3
    labels = prepared.images.labels("car", CACHE.array(prepared.source.keys[1]), 0.5, 0.3)
    used = labels[labels != 0] == 1
    assert torch.equal(seen[0][1], torch.from_numpy(used))
    rows = np.flatnonzero(labels)
    taken = torch.from_numpy(CACHE.array(prepared.source.keys[2])[rows].astype(np.float32))
    assert torch.equal(seen[0][0], Scaling.of(taken)(taken))
    for _, target, batches in seen:
        for batch in batches:
            assert len(batch) == 32
            assert int(target[batch].sum()) == 8


def test_boxes_that_train_are_limited_and_drawn_from_the_seed(prepared):
    labels = prepared.images.labels("car", CACHE.array(prepared.source.keys[1]), 0.5, 0.3)
    drawn = [detection._drawn(labels, (5, 9), torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    for rows, target in drawn:
        assert sorted(set(rows.tolist())) == rows.tolist()
        assert (len(rows), int(target.sum())) == (14, 5)
        assert labels[rows].tolist() == [1 if positive else -1 for positive in target.tolist()]
    assert drawn[0][0].tolist() == drawn[1][0].tolist() != drawn[2][0].tolist()


def test_many_images_train_on_more_boxes(prepared, monkeypatch):
    monkeypatch.setattr(detection, "POSITIVES", 5)
    monkeypatch.setattr(detection, "NEGATIVES", 9)
    calm = (Setting(1.0, 0.3, 0.0),)
    for few, boxes in ((18, (5, 9)), (17, (20, 36))):  # 18 images train
        monkeypatch.setattr(detection, "FEW", few)
        found = run(config(prepared.source, settings=calm))
        assert found.training == TrainingCounts(*boxes)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_hard_negatives_are_those_that_a_first_classifier_scores_highest(prepared, noise, monkeypatch):
    monkeypatch.setattr(detection, "POSITIVES", 10)
    monkeypatch.setattr(detection, "NEGATIVES", 40)
    source = dataclasses.replace(prepared.source, hard=0.25)
    boxes, features = (CACHE.array(key) for key in source.keys[1:3])

    def training_set(**changes):
        mine = dataclasses.replace(config(source, noise=noise), **changes)
        return detection._training_set(mine, source, prepared.images, boxes, torch.Generator().manual_seed(3))

    rows, truth, target = training_set()
    labels = prepared.images.labels("car", boxes, 0.5, 0.3)
    assert sorted(set(rows.tolist())) == rows.tolist()
    assert labels[rows].tolist() == [1 if positive else -1 for positive in truth.tolist()]
    assert (len(rows), int(truth.sum())) == (50, 10)
    generator = torch.Generator().manual_seed(3)
    first, labelled = detection._drawn(labels, (10, 30), generator)
    seen = flip_labels(labelled, noise, generator)
    weights = mining.first_classifier(torch.from_numpy(features[first].astype(np.float32)), seen).double()
    scores = torch.from_numpy(features[: len(labels)].astype(np.float64)) @ weights
    left = sorted(set(np.flatnonzero(labels == -1).tolist()) - set(first.tolist()), key=lambda row: -scores[row])
    mined = sorted(set(rows.tolist()) - set(first.tolist()))
    assert mined == sorted(left[:10])
    assert target[np.isin(rows, first)].tolist() == seen.tolist()
    assert bool((target != truth)[~np.isin(rows, first)].any()) == (noise > 0)
    for method in ("x-ent", "hinge-AP"):  # from the cache
        monkeypatch.setattr(detection, "hardest", None)
        again = training_set(method=method)
        assert again[0].tolist() == rows.tolist()
        assert torch.equal(again[2], target)
    assert run(config(source, noise=noise, settings=(Setting(1.0, 0.3, 0.0),))).training == TrainingCounts(10, 40)


def test_the_hardest_do_not_depend_on_how_many_are_read_at_once(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    rows, weights = torch.randn(50, 4, generator=generator), torch.randn(4, generator=generator)
    candidates = (torch.rand(40, generator=generator) < 0.7).numpy()
    scores = (rows[:40] @ weights).numpy()
    expected = sorted(sorted(np.flatnonzero(candidates).tolist(), key=lambda row: -scores[row])[:9])
    for at_once in (1, 7, 100):
        monkeypatch.setattr(mining, "ROWS", at_once)
        assert mining.hardest(rows.numpy, candidates, weights, 9).tolist() == expected
    everything = mining.hardest(rows.numpy, candidates, weights, 99)
    assert everything.tolist() == np.flatnonzero(candidates).tolist()


def test_a_first_classifier_minimises_the_weighted_square():
    generator = torch.Generator().manual_seed(0)
    inputs, target = torch.randn(60, 3, generator=generator), torch.arange(60) < 6
    inputs[target] += torch.tensor([2.0, 0.0, -1.0])
    found = mining.first_classifier(inputs, target)
    several = np.concatenate([inputs[target].repeat(9, 1), inputs[~target]]).astype(np.float64)
    wanted = np.repeat([1.0, -1.0], 54)
    expected = np.linalg.lstsq(np.hstack([several, np.ones((108, 1))]), wanted, rcond=None)[0][:3]
    assert found.tolist() == pytest.approx(expected.tolist(), abs=0.01)


@pytest.mark.parametrize("rate", [1e38, 1e39])
def test_what_a_run_of_lost_networks_leaves_is_json_and_no_detector_that_cannot_be_read(prepared, rate, tmp_path):
    one = config(prepared.source, settings=(Setting(1.0, rate, 0.0),))
    found = run(one)
    assert 0 <= found.test[0] <= 1
    json.dumps(encode(found), allow_nan=False)
    calm = config(prepared.source, category="cat", settings=(Setting(1.0, 0.3, 0.0),), iterations=10)
    runs = [Run(each, run(each), Provenance(0.0)) for each in (one, calm)]
    written = export(runs, tmp_path)
    weights = np.concatenate(head_of(found)[:1])
    assert len(written) == len(list(tmp_path.iterdir())) == np.isfinite(weights).all()
    for folder in written:
        assert load_detector(folder).heads.weights.norm(dim=0).min() > 0


def test_one_score_that_is_not_finite_is_enough_in_whatever_chunk(monkeypatch):
    images, boxes, rows = many()
    rows[9000] = 60_000
    monkeypatch.setattr(Cache, "array", lambda self, key: rows)
    networks = Heads(2, (6, 1), "he", torch.Generator().manual_seed(0))
    networks.weights.data[1, :-1] = 1e34
    with torch.no_grad():
        assert int((~networks(torch.from_numpy(rows).float()).isfinite()).sum()) == 1
    for count in (1 << 15, 4500, 999):
        monkeypatch.setattr(measuring, "ROWS", count)
        (_, calm), (detections, lost) = measuring.curves_of(images, boxes, "key", "test", "car", networks)
        assert calm.average_precision > 0
        assert (len(detections.scores), lost.average_precision) == (0, 0)


def exported(source, category, method, weights, threshold, seed=0):
    one = config(source, category=category, method=method, seed=seed)
    text = base64.b64encode(np.asarray(weights, "<f4").tobytes()).decode()
    counts = TrainingCounts(1, 1), ObjectCounts(1, 1, 1)
    knots = ((threshold, 0.5), (3 * threshold, 0.75))
    found = Result((0.4, 0.5), (0.5, 0.5), 1, (0.0, 0.0), *counts, 1.0, (1.0,), text, threshold, {}, knots)
    return Run(one, found, Provenance(0.0))


def test_exported_heads_are_of_length_one_in_the_order_of_classes_and_from_the_first_seed(prepared, tmp_path):
    basis = regions.read_basis(CACHE, prepared.source.keys[3])
    random = np.random.default_rng(0)
    heads = {of: random.normal(size=65) * size for of, size in (("person", 1e30), ("cat", 1e-6), ("car", 5.0))}
    sizes = {of: np.linalg.norm(head[:-1]) for of, head in heads.items()}
    runs = [exported(prepared.source, of, "pos-AP", head, 0.25 * sizes[of]) for of, head in heads.items()]
    runs += [exported(prepared.source, of, "pos-AP", random.normal(size=65), 9.0, seed=1) for of in heads]
    lost = np.where(np.arange(65) == 7, np.nan, 1.0)
    runs += [exported(prepared.source, of, "x-ent", lost if of == "cat" else heads[of], 0.0) for of in heads]
    runs += [exported(prepared.source, of, "hinge-AP", heads[of], float("nan")) for of in heads]
    assert export(runs, tmp_path) == [tmp_path / "squeezenet-pooled-pos-AP-0"]
    assert [path.name for path in tmp_path.iterdir()] == ["squeezenet-pooled-pos-AP-0"]
    found = load_detector(tmp_path / "squeezenet-pooled-pos-AP-0")
    assert found.heads.classes == ("car", "cat", "person")
    assert (found.feature_kind, found.boxes, found.overlap) == ("pooled", 40, 0.3)
    torch.testing.assert_close(found.heads.thresholds, torch.full((3,), 0.25))
    assert found.measured
    assert found.measured.test_images == len(of_part(prepared.images, "test")) == 16
    assert found.measured.average_precision == 0.5
    np.testing.assert_allclose(found.measured.precision, [[(0.25, 0.5), (0.75, 0.75)]] * 3)
    rows = torch.rand((5, len(basis.mean)), generator=torch.Generator().manual_seed(0)) / 50
    for number, of in enumerate(found.heads.classes):
        scaled = torch.from_numpy(heads[of] / sizes[of]).float()
        expected = basis(rows) @ scaled[:-1] + scaled[-1]
        scores = rows @ found.heads.weights[:, number] + found.heads.biases[number]
        torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-3)


def test_a_run_without_a_source_says_what_to_name():
    with pytest.raises(ValueError, match="directloss reproduce detection --root DEVKIT --weights FILE"):
        run(config(None))


def many():
    """13,500 boxes in three test images, more than are looked at."""
    random = np.random.default_rng(0)
    corner = random.integers(1, 400, (13_500, 2))
    boxes = np.concatenate([corner, corner + random.integers(5, 80, (13_500, 2))], axis=1).astype(np.float32)
    rows = random.normal(size=(13_500, 6)).astype(np.float16)
    annotations = tuple(
        tuple(Annotation("car", tuple(boxes[4500 * k + place].tolist()), place == 3) for place in range(8))
        for k in range(3)
    )
    return Images(("a", "b", "c"), ("", "", ""), ("test",) * 3, annotations, (4500,) * 3), boxes, rows


def test_how_many_rows_are_scored_at_once_does_not_matter(monkeypatch):
    images, boxes, rows = many()
    monkeypatch.setattr(Cache, "array", lambda self, key: rows)
    networks = Heads(2, (6, 1), "he", torch.Generator().manual_seed(0))
    networks.weights.data[1] *= -1
    found = []
    for count in (1 << 15, 4500, 777):
        monkeypatch.setattr(measuring, "ROWS", count)
        found.append(list(measuring.curves_of(images, boxes, "key", "test", "car", networks)))
    weights = networks.weights.detach().double().numpy()
    for number in range(2):
        scores = rows.astype(float) @ weights[number, :-1] + weights[number, -1]
        for detections, curve in (each[number] for each in found):
            first, first_curve = found[0][number]
            assert np.array_equal(detections.boxes, first.boxes)
            assert np.array_equal(detections.images, first.images)
            np.testing.assert_allclose(detections.scores, first.scores, atol=1e-5)
            assert curve.average_precision == pytest.approx(first_curve.average_precision, abs=1e-6)
            assert detections.scores.min() >= np.sort(scores)[-10_000] - 1e-5  # the rest is not looked at
            assert detections.scores.max() == pytest.approx(scores.max(), abs=1e-5)


def scene(name, *annotations):
    return Scene(name, Path(name), tuple(Annotation(of, (1, 1, 9, 9), hard) for of, hard in annotations))


@pytest.fixture
def scenes():
    random = np.random.default_rng(0)
    found = [scene(f"p{k}", ("person", False)) for k in range(40)] + [scene(f"e{k}") for k in range(10)]
    found += [scene(f"c{k}", ("car", False)) for k in range(6)] + [scene(f"h{k}", ("cat", True)) for k in range(9)]
    found += [scene(f"m{k}", ("cat", False), ("dog", False)) for k in range(5)]
    return [found[k] for k in random.permutation(len(found))]


def test_picking_is_balanced_while_there_are_images_and_has_no_repeats(scenes):
    few = pick(scenes, 15, ("car", "cat", "person"), 0)
    assert [scene.name[0] for scene in few] == ["c", "m", "p"] * 5
    more = pick(scenes, 30, ("car", "cat", "person"), 0)
    assert more[:15] == few
    assert len({scene.name for scene in more}) == 30
    assert sum(scene.name[0] == "c" for scene in more) == 6
    assert len(pick(scenes, 1000, ("car", "cat", "person"), 0)) == len(scenes)


def test_picking_without_classes_is_a_random_order_of_as_many_as_are_asked_for(scenes):
    everything = pick(scenes, 0, (), 0)
    assert everything != scenes
    assert sorted(scene.name for scene in everything) == sorted(scene.name for scene in scenes)
    assert pick(scenes, 9, (), 0) == everything[:9]
    assert pick(scenes, 999, (), 0) == everything


def test_configurations_of_both_presets():
    quick, paper = configs(DetectionOptions()), configs(DetectionOptions(preset="paper"))
    assert len(quick) == len(set(quick)) == 3 * 2 * (3 * 3 + 2)
    assert len(paper) == len(set(paper)) == 20 * 2 * (3 * 3 + 2)
    assert {one.category for one in paper} == set(CLASSES)
    assert {one.seed for one in configs(DetectionOptions(preset="paper", seeds=5))} == set(range(5))
    assert {(one.method, one.noise) for one in quick} == {
        (method, noise) for method in ("x-ent", "hinge-AP", "pos-AP", *LINEAR_MODELS) for noise in (0.0, 0.2)
    }
    for some in (quick, paper):
        tried = {one.method: len(one.settings) for one in some}
        assert tried["pos-AP"] <= min(tried["x-ent"], tried["hinge-AP"])  # a baseline gets no less than ours
    for method, strength in (("hinge-AP", 1.0), ("pos-AP", 0.1)):  # the paper's
        assert {strength} <= {of.strength for one in paper if one.method == method for of in one.settings}


@pytest.mark.parametrize("method", ["x-ent", "hinge-AP", "pos-AP"])
def test_heads_see_centred_inputs_and_their_biases_start_at_the_log_odds_and_do_not_decay(
    prepared, method, monkeypatch
):
    seen = []

    def spy(heads, loss, inputs, target, **options):
        seen.append((heads.weights.detach().clone(), heads.decayed, inputs))
        return train(heads, loss, inputs, target, **options)

    monkeypatch.setattr("directloss_studies.detection.study.train", spy)
    run(config(prepared.source, method=method, iterations=2))
    ((weights, decayed, inputs),) = seen
    torch.testing.assert_close(inputs.mean(0), torch.zeros(inputs.shape[1]), atol=1e-4, rtol=0)
    torch.testing.assert_close(inputs.square().mean(), torch.tensor(1.0), atol=1e-3, rtol=0)
    assert decayed[:-1].all()
    assert not decayed[-1]
    asked = config(prepared.source).settings
    scales = torch.tensor([setting.strength if method == "x-ent" else 1.0 for setting in asked])
    torch.testing.assert_close((scales * weights[:, -1]).sigmoid(), torch.full((len(weights),), SHARE))


@pytest.mark.parametrize("method", LINEAR_MODELS)
def test_linear_models_detect_as_heads_do(prepared, method):
    found = run(config(prepared.source, method=method, settings=combinations([0.0, 0.5], [0.0], [0.1, 10.0])))
    assert len(found.test) == 4
    assert max(found.test) > 0.2
    assert found.dead == (0.0,) * 4
