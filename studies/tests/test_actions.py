"""Action classification on a tiny devkit: from files to the report, through the command line and piece by piece."""

import csv
import dataclasses
import io
import itertools
import json
import random
import re
import zipfile
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
from devkits import make_devkit
from directloss_studies.actions import features, fine_tuning
from directloss_studies.actions import summary as actions_summary
from directloss_studies.actions.config import ActionsOptions, Config, Result, Source
from directloss_studies.actions.fine_tuning import Scorer
from directloss_studies.actions.own_features import FeaturesError
from directloss_studies.actions.study import _thirds, configs, prepare, run
from directloss_studies.data.voc import ACTIONS, read_actions
from directloss_studies.harness.cache import Cache
from directloss_studies.harness.options import arguments
from directloss_studies.harness.progress import no_steps
from directloss_studies.harness.study import Provenance, Run
from directloss_studies.linear_models import LINEAR_MODELS
from directloss_studies.registry import STUDIES
from directloss_studies.report.verdicts import judge
from directloss_studies.sweep import Setting
from directloss_studies.vision.backbones import AlexNet, SqueezeNet, cached_backbone, load_weights
from directloss_studies.vision.crops import crop, normalised
from directloss_studies.vision.images import read_image


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A devkit, weights of untrained backbones, and a cache."""
    folder = tmp_path_factory.mktemp("actions")
    make_devkit(folder / "data", images=60)
    torch.manual_seed(0)
    for name, network, parts in (("alexnet", AlexNet(), "features."), ("squeezenet", SqueezeNet(), "")):
        weights = {k: v.numpy() for k, v in network.state_dict().items() if k.startswith(parts)}
        np.savez(folder / f"{name}.npz", **weights)
    patch = pytest.MonkeyPatch()
    patch.setenv("DIRECTLOSS_CACHE", str(folder / "cache"))
    yield folder
    patch.undo()


def prepared(place, backbone="alexnet", train="head"):
    prepare = STUDIES["actions"].prepare
    assert prepare
    return prepare(asked(place, backbone, train), 1, no_steps)


def asked(place, backbone="alexnet", train="head", **more):
    return ActionsOptions(
        root=place / "data", weights=place / f"{backbone}.npz", backbone=backbone, train=train, **more
    )


def call(place, *arguments):
    return commands.call(*arguments, DIRECTLOSS_CACHE=str(place / "cache"))


@pytest.fixture(scope="module")
def finished(place):
    options = ["--backbone", "alexnet", "--weights", place / "alexnet.npz", "--seeds", 1, "--out", place / "runs"]
    line = ["reproduce", "actions", "--root", place / "data", *options, "--jobs", 1]
    done = call(place, *line)
    assert done.returncode == 0, done.stderr
    return line, done.stdout


def test_the_command_goes_from_a_devkit_to_table_1(place, finished):
    printed = " ".join(finished[1].split())
    assert "Mean test AP by share of flipped training labels: alexnet, linear head: the paper's protocol" in printed
    assert "too few runs to judge any claim" in printed
    tables = (place / "runs" / "report.md").read_text()
    assert "Table 1 of the paper, and ours" in tables
    assert "| pos-AP, the paper | 0.695 | 0.625 | 0.578 | 0.459 | 0.296 |" in tables
    assert "| pos-AP, alexnet, linear head: the paper's protocol | " in tables
    assert "--preset quick --seeds 1 --root DEVKIT --weights FILE --backbone alexnet --train head" in tables
    page = (place / "runs" / "report.html").read_text()
    assert page.count("<figure>") >= 6
    assert "What pos-AP gains at 20 % flipped labels" in page


def test_it_learns(place, finished):
    done = call(place, "report", place / "runs", "--json", place / "flat.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((place / "flat.json").read_text())
    variant = "alexnet, linear head: the paper's protocol"
    values = {
        (record["method"], record["class"], record["noise"]): record["mean"]
        for record in found
        if record["variant"] == variant and record["metric"] == "test_ap"
    }
    for method in ("pos-AP", "hinge-AP", "x-ent", "central-AP", "Smooth-AP"):
        assert values[method, "riding horse", 0.0] == values[method, None, 0.0] > 0.6, method  # a fifth is positive
        assert ("Smooth-AP" == method) == ((method, None, 0.2) not in values)


def test_the_second_call_computes_nothing(place, finished):
    line, _ = finished
    before = {path: path.stat().st_mtime_ns for path in (place / "cache").rglob("*.npy")}
    done = call(place, *line)
    assert done.returncode == 0
    assert "all 15 runs are in" in done.stdout
    assert before
    assert {path: path.stat().st_mtime_ns for path in (place / "cache").rglob("*.npy")} == before


def test_a_devkit_that_is_damaged_or_not_official_is_told(place, tmp_path):
    done = call(place, "data", "voc2012", "--root", place / "data")
    assert done.returncode == 2
    assert "60 images instead of 4588" in done.stderr
    make_devkit(tmp_path, images=12)
    victim = min((tmp_path / "VOCdevkit" / "VOC2012" / "JPEGImages").iterdir())
    victim.write_bytes(victim.read_bytes()[:500])
    line = ["--root", tmp_path, "--backbone", "alexnet", "--weights", place / "alexnet.npz", "--out", tmp_path / "runs"]
    done = call(place, "reproduce", "actions", *line)
    assert done.returncode == 2
    assert str(victim) in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_features_depend_on_weights_boxes_and_images(place, tmp_path):
    actions = read_actions(place / "data")
    provenance = actions.provenance()
    key = features.compute(actions, "pooled", "alexnet", place / "alexnet.npz", provenance)
    assert key == prepared(place)[0].features
    rows = features.CACHE.array(key)
    assert rows.shape == (len(actions), 2, 9216)
    assert rows.dtype == np.float16
    network = AlexNet().eval()
    load_weights(network, place / "alexnet.npz")
    with torch.inference_mode():
        for k in (0, 7):
            image = read_image(actions.paths[actions.images[k]])
            square = crop(image, actions.boxes[k].tolist())
            both = torch.stack([square, square.flip(-1)])
            expected = network.pooled(normalised(both))
            torch.testing.assert_close(torch.from_numpy(rows[k].astype("f4")), expected, rtol=2e-3, atol=1e-4)
    make_devkit(tmp_path, images=8, seed=1)
    other = read_actions(tmp_path)
    keys = {features.compute(other, "pooled", "alexnet", place / "alexnet.npz", other.provenance())}
    moved = dataclasses.replace(other, boxes=other.boxes + torch.tensor([0.0, 0.0, 0.25, 0.0]))
    keys.add(features.compute(moved, "pooled", "alexnet", place / "alexnet.npz", moved.provenance()))
    weights = dict(np.load(place / "alexnet.npz"))
    np.savez(tmp_path / "w.npz", **weights | {"features.0.bias": weights["features.0.bias"] + 1})
    keys.add(features.compute(other, "pooled", "alexnet", tmp_path / "w.npz", other.provenance()))
    assert len(keys) == 3


@pytest.mark.parametrize("damage", ["removed", "cut", "junk", "other count"])
def test_an_odd_part_is_begun_anew(place, tmp_path, monkeypatch, damage):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(features, "CHUNK", 4)
    make_devkit(tmp_path, images=8, seed=2)
    actions = read_actions(tmp_path)
    arguments = actions, "crops", "alexnet", place / "alexnet.npz", actions.provenance()

    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        features.compute(*arguments, stop)
    (part,) = (tmp_path / "cache").rglob("*.part")
    progress = part.with_suffix(".progress")
    assert progress.read_text() == "4"
    if damage == "removed":
        part.unlink()
    elif damage == "other count":
        progress.write_text("7")
    else:
        part.write_bytes(part.read_bytes()[:-9] if damage == "cut" else b"junk")
    # stopped once more before the first chunk is done: the old count must not be believed of the new part
    calls = []
    through = features._through

    def once(*arguments, **options):
        calls.append(0)
        return through(*arguments, **options) if len(calls) == 1 else stop(0)

    monkeypatch.setattr(features, "_through", once)
    with pytest.raises(KeyboardInterrupt):
        features.compute(*arguments)
    assert len(calls) >= 2  # some chunks are made at once
    assert not progress.exists()
    assert part.exists()
    monkeypatch.undo()
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))
    rows = features.CACHE.array(features.compute(*arguments))
    assert np.array_equal(rows, features._crops(actions, 0, len(actions), 227)[:, 0].numpy())


def test_a_damaged_file_of_features_is_named(place, tmp_path, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path))
    cache = Cache("make it")
    with pytest.raises(FileNotFoundError, match=r"key\.npy is missing\. `make it` makes it again\."):
        cache.array("key")
    path = cache.array_path("key")
    path.parent.mkdir()
    np.save(path, np.zeros(100))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"key\.npy is damaged .* Remove it; `make it` makes it again\."):
        cache.array("key")


def test_a_damaged_file_of_labels_is_named_and_replaced(place, tmp_path, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path))
    actions = read_actions(place / "data")
    with pytest.raises(FileNotFoundError, match=r"key\.json is missing\. `directloss reproduce actions --root DIR`"):
        features.read_labels("key", "walking")
    key = features.cache_labels(actions)
    (path,) = (tmp_path / "labels").iterdir()
    path.write_text("{")
    with pytest.raises(ValueError, match=r"\.json is damaged .* Remove it"):
        features.read_labels(key, "walking")
    assert features.cache_labels(actions) == key
    assert torch.equal(features.read_labels(key, "walking"), actions.labels["walking"])


def test_weights_that_are_missing_are_drawn_from_the_seed(place):
    source, _ = prepared(place, "alexnet", "all")
    first, second, other = (
        cached_backbone(features.CACHE, "alexnet", source.weights, seed).state_dict()["classifier.1.weight"]
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_thirds_are_apart_and_of_listed_boxes_only(place):
    source, _ = prepared(place)
    config = configs(asked(place, seeds=1), source)[0]
    actions = read_actions(place / "data")
    for action in ACTIONS:
        labels = actions.labels[action]
        thirds, _ = _thirds(dataclasses.replace(config, action=action), labels)
        places = torch.cat(list(thirds.values()))
        assert sorted(places.tolist()) == labels.nonzero().flatten().tolist()
        sizes = [len(part) for part in thirds.values()]
        assert max(sizes) - min(sizes) <= 1
        assert torch.equal(labels, features.read_labels(source.labels, action))
        again, _ = _thirds(dataclasses.replace(config, action=action, method="x-ent", noise=0.4), labels)
        assert all(torch.equal(thirds[name], again[name]) for name in thirds)
        few, _ = _thirds(dataclasses.replace(config, action=action, items=4), labels)
        assert all(labels[part].tolist() == [1, 1, -1, -1] for part in few.values())
        other, _ = _thirds(dataclasses.replace(config, action=action, seed=1), labels)
        assert not torch.equal(thirds["train"], other["train"])


ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "studies" / "experiments.md"


@pytest.fixture(scope="module")
def own(place, tmp_path_factory):
    """A file of features, made by the code in the document: mean colours of the two rows of cells of a box."""
    (code,) = re.findall(r"^```py\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    folder = tmp_path_factory.mktemp("own")

    def describe(path, box):
        return crop(read_image(path), box, 20, 0).float().view(3, 2, 10, 5, 4).mean((2, 4)).flatten().numpy()

    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    exec(compile(code, str(DOCUMENT), "exec"), {"root": place / "data", "describe": describe})
    patch.undo()
    return folder / "clip.npz"


def from_file(place, path, **more):
    return prepare(ActionsOptions(root=place / "data", features=path, **more), 1, no_steps)[0]


def test_features_of_ones_own_are_matched_to_boxes_and_learned(place, own, tmp_path):
    source = from_file(place, own)
    assert source.backbone == "own features clip"
    arrays = dict(np.load(own))
    rows = features.CACHE.array(source.features)
    assert np.array_equal(rows[:, 0], arrays["features"])
    order = np.random.default_rng(0).permutation(len(rows))
    np.savez(tmp_path / "clip.npz", **{name: array[order] for name, array in arrays.items()})
    assert from_file(place, tmp_path / "clip.npz") == source
    asked = STUDIES["actions"].options_from("quick", 1, source)
    assert arguments(asked) == "--preset quick --seeds 1 --root DEVKIT --train head --features FILE"
    (config,) = (c for c in configs(asked, source) if (c.method, c.noise) == ("GCE", 0.0))
    result = run(dataclasses.replace(config, iterations=40))
    assert max(result.test[-1]) > 0.6


def save(path, arrays):
    np.savez(path, **arrays)


def changed(**changes):
    return lambda arrays, path: save(path, arrays | {name: change(arrays[name]) for name, change in changes.items()})


def bomb(arrays, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in arrays:
            archive.writestr(f"{name}.npy", bytes(1 << 20))


def promise(arrays, path):
    """The header of a matrix of 4 GB that holds nothing."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 1 << 10)})
    with zipfile.ZipFile(path, "w") as archive:
        for name in arrays:
            archive.writestr(f"{name}.npy", content.getvalue())


BAD_FEATURES = {
    r"lacks 1 of the 100 boxes of the devkit, first object \d of '2010_\d+'": lambda arrays, path: np.savez(
        path, **{name: array[1:] for name, array in arrays.items()}
    ),
    r"object \d of '2010_\d+' is there twice, in rows 0 and 100": lambda arrays, path: save(
        path, {name: np.concatenate([array, array[:1]]) for name, array in arrays.items()}
    ),
    r"row 0 is object 9 of '2010_\d+'; the devkit lists no such box": changed(objects=lambda a: np.r_[9, a[1:]]),
    "features must be a matrix of real numbers": changed(features=lambda a: a.astype(int)),
    "one image and one object a row; got 100 rows": changed(images=lambda a: a[1:]),
    "features must be finite": changed(features=lambda a: np.where(np.arange(30) == 2, np.nan, a)),
    "Object arrays cannot be loaded": changed(images=lambda a: a.astype(object)),
    r"must hold the arrays features, images, objects, each once\. It holds: features, images": lambda arrays, path: (
        np.savez(path, features=arrays["features"], images=arrays["images"])
    ),
    "is not a file of features: BadZipFile": lambda arrays, path: path.write_bytes(b"PK and no more"),
    "is not a file of features: ValueError": bomb,
    "is not a file of features": promise,
    "is missing": lambda arrays, path: None,
    "unpacks to [0-9]+ bytes; at most 1000 are read": lambda arrays, path: np.savez(path, **arrays),
}


@pytest.mark.parametrize("message", BAD_FEATURES)
def test_a_bad_file_of_features_is_named(place, own, tmp_path, monkeypatch, message):
    if "at most 1000" in message:
        monkeypatch.setattr("directloss_studies.actions.own_features.LARGEST", 1000)
    path = tmp_path / "bad.npz"
    BAD_FEATURES[message](dict(np.load(own)), path)
    with pytest.raises(FeaturesError, match=message) as caught:
        from_file(place, path)
    assert str(path) in str(caught.value)


def test_options_that_do_not_fit_features_are_refused(place, own):
    for more in ({"train": "all"}, {"backbone": "alexnet"}, {"weights": place / "alexnet.npz"}):
        with pytest.raises(ValueError, match="--features takes the place of a backbone"):
            from_file(place, own, **more)
    done = call(place, "reproduce", "actions", "detection", "--root", place / "data")
    assert done.returncode == 2
    assert "--features means different things to actions and detection" in " ".join(done.stderr.split())


def test_on_features_of_today_all_methods_have_as_many_settings():
    found = configs(ActionsOptions(preset="paper", backbone="efficientnet-lite0"))
    assert {len(config.settings) for config in found if config.method not in LINEAR_MODELS} == {48}
    by_head = {(config.head, config.method): set() for config in found}
    for config in found:
        by_head[config.head, config.method].add((config.seed, config.noise, config.action))
    costly = by_head.pop(("linear", "Smooth-AP"))
    assert {noise for _, noise, _ in costly} == {0.0, 0.2, 0.4}
    assert len(costly) == 5 * 3 * 10
    assert {len(some) for some in by_head.values()} == {5 * 5 * 10}
    assert {method for head, method in by_head if head == "linear"} >= {"GCE", "pos-AP"}
    assert [config.seed for config in found[:750]] == sorted(config.seed for config in found[:750])
    assert ActionsOptions(weights=Path("w.npz")).network() == "squeezenet"


def test_noise_strikes_training_and_its_own_validation_only(place, monkeypatch):
    source, _ = prepared(place)
    (clean, noisy) = (c for c in configs(asked(place, seeds=1), source) if c.method == "x-ent")
    assert (clean.noise, noisy.noise) == (0.0, 0.2)
    seen = []

    def spy(result, method, settings, heads, sets, **options):
        seen.append(sets)

    monkeypatch.setattr("directloss_studies.actions.study.sweep", spy)
    for config in (clean, noisy):
        run(config)
    flipped = {name: int((seen[0][name][1] != seen[1][name][1]).sum()) for name in seen[0]}
    assert flipped["validation"] == flipped["test"] == 0
    assert flipped["train"] > 0
    assert flipped["noisy_validation"] > 0
    for name in seen[0]:
        assert torch.equal(seen[0][name][0], seen[1][name][0])
    assert seen[0]["validation"][0] is seen[0]["noisy_validation"][0]


def test_heads_see_centred_inputs_and_their_biases_start_at_the_log_odds_and_do_not_decay(place, monkeypatch):
    source, _ = prepared(place)
    seen = []

    def spy(result, method, settings, heads, sets, **options):
        inputs, target = sets["train"]
        torch.testing.assert_close(inputs.mean(0), torch.zeros(inputs.shape[1]), atol=1e-4, rtol=0)
        assert heads.decayed[:-1].all()
        assert not heads.decayed[-1]
        scales = torch.tensor([setting.strength if method == "x-ent" else 1.0 for setting in settings])
        odds = target.float().mean().logit()
        torch.testing.assert_close(heads.weights[:, -1].detach() * scales, odds.expand(len(settings)))
        seen.append(method)

    monkeypatch.setattr("directloss_studies.actions.study.sweep", spy)
    for config in configs(asked(place, seeds=1), source):
        if config.method not in LINEAR_MODELS:
            run(config)
    assert {"x-ent", "hinge-AP", "pos-AP"} <= set(seen)


@pytest.mark.parametrize("method", LINEAR_MODELS)
def test_linear_models_have_one_checkpoint(place, method):
    source, _ = prepared(place)
    config = next(c for c in configs(asked(place, seeds=1), source) if c.method == method)
    found = run(config)
    found.check(config)
    assert len(found.iterations) == 1
    assert max(found.train[0]) > 0.5


@pytest.mark.parametrize("train", ["top", "all"])
@pytest.mark.slow
def test_fine_tuning_trains_what_it_says(place, train):
    source, notes = prepared(place, "squeezenet", train)
    assert notes == []
    config = dataclasses.replace(configs(asked(place, "squeezenet", train), source)[0], items=6, iterations=2)
    told = []
    result = run(config, told.append)
    assert told[-1] == 1.0
    assert result.iterations == (0, 1, 2)
    for curve in (result.train, result.validation, result.noisy_validation, result.test):
        assert len(curve) == 3
        assert all(0 < value <= 1 for row in curve for value in row)
    if train == "all":
        assert run(config) == result
    scorer = Scorer(SqueezeNet(), train == "all")
    trained = {name for name, weight in scorer.named_parameters() if weight.requires_grad}
    assert any(name.startswith("backbone.features") for name in trained) == (train == "all")
    assert {"head.weight", "backbone.classifier.1.weight"} <= trained


def test_a_batch_has_its_share_of_positives_and_crops_of_the_size_that_is_asked_for():
    rows = np.arange(40, dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 32, 32), dtype=np.uint8)
    places = torch.arange(5, 35)
    sets = {"train": (places, places % 7 == 0)}
    one = fine_tuning._One("pos-AP", Setting(1.0, 0.1, 0.0), Scorer(SqueezeNet(), True), rows, sets, 0, 8, 16)
    seen = set()
    for chunks, target in itertools.islice(one._batches(), 20):
        inputs = torch.cat(list(chunks()))
        assert inputs.shape == (8, 3, 16, 16)
        assert torch.equal(inputs, torch.cat(list(chunks())))
        assert int(target.sum()) == 2
        flat = normalised(torch.from_numpy(rows[:, :, :1, :1].copy())).flatten(1)
        boxes = [int((flat - each[:, 0, 0]).abs().sum(1).argmin()) for each in inputs]
        assert [box % 7 == 0 for box in boxes] == target.tolist()
        seen.update(boxes)
    assert len(seen) > 20
    assert seen <= set(places.tolist())


def test_a_summary_of_fine_tuning_shows_what_it_did():
    one = invented("jumping", "pos-AP", 0.0, 0)
    source = dataclasses.replace(SOURCE, train="all")
    config = dataclasses.replace(one.config, source=source, items=64)
    plain = dataclasses.replace(
        config, method="x-ent", settings=tuple(s._replace(strength=1.0) for s in config.settings)
    )
    found = actions_summary.summarise([Run(each, one.result, one.provenance) for each in (config, plain)])
    *means, table = found.tables
    assert [row[0] for row in means[0].rows] == ["x-ent", "pos-AP"]  # all of x-ent is plain here
    assert "plain" not in means[0].note
    assert [each.title.rsplit(": ", 1)[1] for each in means] == [rule.name for rule in actions_summary.RULES]
    assert table.title == "Through the network: squeezenet, fine-tuned: all"
    assert table.note.startswith("AP before training and after 300 iterations, at most 64 boxes a third")
    assert list(table.rows[0]) == [
        "pos-AP, jumping, 0 % flipped, seed 0",
        "0.100 → 0.900",
        "0.850 → 0.820",
        "0.600 → 0.800",
    ]
    variant = "squeezenet, fine-tuned: all: the paper's protocol"
    assert {record.mean for record in found.records if record.variant == variant} == {0.7}


@pytest.mark.parametrize(("train", "pixels"), [("top", None), ("all", 160)])
def test_the_paper_preset_of_fine_tuning_is_one_action_in_batches(place, train, pixels):
    found = configs(dataclasses.replace(asked(place, "squeezenet", train), preset="paper"))
    assert {(one.action, one.batch, one.pixels, one.items) for one in found} == {("jumping", 128, pixels, None)}
    assert len(found) == 3 * 2 * 3  # methods, noise rates, seeds
    assert len({len(one.settings) for one in found}) == 1


def test_missing_weights_of_the_top_are_told(place):
    _, notes = prepared(place, "alexnet", "all")
    (note,) = notes
    assert note.startswith("alexnet.npz lacks classifier.1.bias")
    assert note.endswith("these start at random.")


def test_expected_best_is_the_mean_over_all_draws():
    generator = random.Random(0)
    chosen_by, value = ([generator.random() for _ in range(6)] for _ in range(2))
    for tries in range(1, 7):
        draws = [value[max(draw, key=chosen_by.__getitem__)] for draw in itertools.combinations(range(6), tries)]
        assert actions_summary.expected_best(chosen_by, value, tries) == pytest.approx(sum(draws) / len(draws))
    assert actions_summary.expected_best([1.0, 1.0, 0.0], [0.0, 1.0, 9.0], 3) == 0.5


SOURCE = Source("squeezenet", "head", "f", "l", "w")
LEVEL = {"pos-AP": 0.7, "hinge-AP": 0.6, "x-ent": 0.5}


def invented(action, method, noise, seed):
    """Three settings, two checkpoints. The third has a large weight decay; the second pleases noisy validation."""
    level = LEVEL[method] - noise + 0.01 * list(ACTIONS).index(action) + 0.001 * seed
    settings = (Setting(1.0, 0.1, 0.0), Setting(1.0, 0.3, 0.1), Setting(1.0, 0.1, 1.0))
    config = Config(method, seed, noise, action, "linear", SOURCE, None, 300, settings)
    result = Result(
        iterations=(0, 300),
        train=((0.1, 0.1, 0.1), (0.9, 0.9, 0.9)),
        validation=((0.1, 0.2, 0.85), (0.8, 0.3, 0.82)),
        noisy_validation=((0.1, 0.7, 0.2), (0.3, 0.6, 0.2)),
        test=((0.0, level - 0.2, level - 0.1), (level, level - 0.3, level + 0.1)),
        dead=(0.0, 0.0, 0.0),
    )
    return Run(config, result, Provenance(1.0))


@pytest.fixture(scope="module")
def summary():
    each = itertools.product(ACTIONS, LEVEL, (0.0, 0.2, 0.4), range(3))
    return actions_summary.summarise([invented(*one) for one in each])


@pytest.mark.parametrize(
    ("rule", "shift"),
    [
        ("the paper's protocol", 0.0),
        ("stopped early, clean validation", -0.1),
        ("stopped early, noisy validation", -0.2),
        ("to the end, noisy validation", -0.3),
    ],
)
def test_every_rule_chooses_as_it_says(summary, rule, shift):
    values = {
        (record.method, record.class_): record
        for record in summary.records
        if record.variant == f"squeezenet, linear head: {rule}" and record.noise == 0.2 and record.metric == "test_ap"
    }
    mean = values["pos-AP", None]
    assert mean.mean == pytest.approx(0.7 - 0.2 + 0.045 + 0.001 + shift)
    assert mean.sd == pytest.approx(0.001)
    assert mean.n == 3
    walking = values["hinge-AP", "walking"]
    assert walking.mean == pytest.approx(0.6 - 0.2 + 0.09 + 0.001 + shift)


def test_differences_are_paired_over_classes_and_seeds(summary):
    (found,) = [
        record
        for record in summary.records
        if (record.metric, record.method, record.noise) == ("pos-AP_minus_this", "x-ent", 0.4)
        and record.variant.endswith("paper's protocol")
    ]
    assert (found.mean, found.sd, found.n) == (pytest.approx(0.2), pytest.approx(0, abs=1e-6), 30)
    variant = "squeezenet, linear head: the paper's protocol"
    verdicts = {claim.says: judge(claim) for claim in summary.claims if claim.variant == variant}
    assert "pos-AP withstands label noise better than x-ent" in verdicts
    assert list(verdicts.values()) == ["holds", "holds", "holds", "too few runs to say"]  # two noise levels are missing


@pytest.mark.slow
def test_a_summary_can_be_made_at_any_time():
    runs = [invented(*one) for one in itertools.product(ACTIONS, LEVEL, (0.0, 0.2), range(3))]
    for count in range(0, len(runs), 31):
        found = actions_summary.summarise(runs[:count])
        assert found.tables
        assert found.figures() or not count
    one_seed = actions_summary.summarise([run for run in runs if run.config.seed == 0])
    assert {judge(claim) for claim in one_seed.claims} == {"too few runs to say"}


def test_smooth_ap_counts_where_it_is_tried():
    def also(action, method, noise, seed):
        run = invented(action, "x-ent" if method == "Smooth-AP" else method, noise, seed)
        return Run(dataclasses.replace(run.config, method=method), run.result, run.provenance)

    levels = (0.0, 0.1, 0.2, 0.3, 0.4)
    runs = [invented(*one) for one in itertools.product(ACTIONS, LEVEL, levels, range(3))]
    runs += [also(*one) for one in itertools.product(ACTIONS, ["Smooth-AP"], levels[::2], range(3))]
    found = actions_summary.summarise(runs)
    (ahead,) = [c for c in found.claims if "every other method" in c.says and "paper's protocol" in c.variant]
    assert len(ahead.comparisons) == 8
    assert judge(ahead) == "holds"


def test_runs_on_other_data_stand_apart():
    runs = [invented(*one) for one in itertools.product(ACTIONS, LEVEL, (0.0, 0.2), range(3))]
    other = dataclasses.replace(SOURCE, features="other")
    runs += [Run(dataclasses.replace(run.config, source=other), run.result, run.provenance) for run in runs[:5]]
    names = {record.variant.split(":")[0] for record in actions_summary.summarise(runs).records}
    assert len(names) == 2
    assert all(name.startswith("squeezenet, linear head (data and weights ") for name in names)


def test_tables_and_figures_say_it_all(summary):
    titles = [table.title for table in summary.tables]
    assert titles[0] == "Table 1 of the paper, and ours"
    assert any(title.startswith("Class by class, 20 % flipped") for title in titles)
    (differences,) = [table for table in summary.tables if table.title.startswith("pos-AP − hinge-AP, class by class")]
    assert len(differences.rows) == 10
    assert all(text == "+0.100 ± 0.000" for row in differences.rows for text in row[1:])
    figures = summary.figures()
    assert len({figure.name for figure in figures}) == len(figures) == 11
    (budget,) = [
        figure for figure in figures if figure.name.endswith("budget-stopped-early-noisy-validation-20-percent-flipped")
    ]
    assert "settings tried" in budget.alt


def test_the_papers_means_are_those_of_its_classes():
    with open(ROOT / "studies" / "results" / "paper-actions.csv", newline="") as file:
        rows = [(row["class"], row["method"], float(row["noise"]), float(row["ap"])) for row in csv.DictReader(file)]
    assert {row[0] for row in rows} == {*ACTIONS.values(), "mean"}
    for method, means in actions_summary.PAPER.items():
        for noise, given in means.items():
            values = {name: ap for name, *key, ap in rows if key == [method, noise]}
            assert values.pop("mean") == given
            assert sum(values.values()) / 10 == pytest.approx(given, abs=6e-4)
