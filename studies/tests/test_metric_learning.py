"""Metric learning: drawings are read as their files mean them, and the other losses are those that were published."""

import hashlib
import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import call
from directloss_studies import metric_learning
from directloss_studies.data import omniglot
from directloss_studies.data.omniglot import parse, read_omniglot
from directloss_studies.data.sources import Source
from directloss_studies.data.tabular import TableError
from directloss_studies.harness.progress import no_progress, no_steps
from directloss_studies.metric_learning import (
    BASELINES,
    METHODS,
    DrawingData,
    Network,
    batches_of,
    calibration,
    configs,
    contrastive,
    cosines,
    load,
    measure,
    smooth_ap,
    split,
    sup_ap,
    triplet,
)
from directloss_studies.sweep import Setting
from PIL import Image
from torch.nn.functional import normalize

from directloss import AveragePrecision, metric

MADE = DrawingData("made", "")


def drawing(mode="1", size=(105, 105), ink=(0, 0, 52, 105)):
    """A PNG file: white, and black in a box."""
    image = Image.new(mode, size, 255)
    image.paste(0, ink)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def archive(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()


FIRST = archive({
    "small1/": b"",
    "small1/Greek/character02/0002_01.png": drawing(),
    "small1/Greek/character01/0001_02.png": drawing(),
    "small1/Greek/character01/0001_01.png": drawing(ink=(0, 0, 105, 105)),
})  # fmt: skip
SECOND = archive({
    "small2/Greek/character02/0002_01.png": drawing(ink=(0, 0, 1, 1)),
    "small2/Ainu/character01/0009_01.png": drawing(),
})  # fmt: skip


def test_drawings_are_ink_in_the_order_of_alphabets_and_an_alphabet_of_two_files_counts_once():
    found = parse([FIRST, SECOND], no_progress)
    assert found.names == ["Ainu", "Greek"]
    assert found.alphabets.tolist() == [0, 1, 1, 1]
    assert found.characters.tolist() == [0, 1, 1, 2]
    assert found.images.shape == (4, 28, 28)
    assert (found.images[1] == 255).all()
    assert found.images[3, :, :13].min() == 255  # of the first file
    assert found.images[3, :, 14:].max() == 0


@pytest.mark.parametrize("files", [
    {},
    {"a/Greek/character1/0001_01.png": drawing()},
    {"a/../../character01/0001_01.png.exe": drawing()},
    {"a/Greek/character01/0001_01.png": drawing()[:-20]},
    {"a/Greek/character01/0001_01.png": b"GIF89a"},
    {"a/Greek/character01/0001_01.png": bytes(1 << 20)},
    {"a/Greek/character01/0001_01.png": drawing("L", (3000, 10))},
    None,
])  # fmt: skip
def test_archives_that_hold_something_else_are_refused(files, tmp_path, monkeypatch):
    content = b"PK" if files is None else archive(files)
    (tmp_path / "a.zip").write_bytes(content)
    sources = {"a.zip": Source("file:///none", hashlib.sha256(content).hexdigest())}
    monkeypatch.setattr(omniglot, "FILES", sources)
    with pytest.raises(TableError, match=r"drawing|cannot be read"):
        read_omniglot(tmp_path, no_steps)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_an_archive_of_too_many_files_is_refused_before_they_are_read(monkeypatch):
    monkeypatch.setattr(omniglot, "MOST_MEMBERS", 2)
    monkeypatch.setattr(omniglot, "decode_grey", None)
    with pytest.raises(TableError, match="has 3 files"):
        parse([FIRST], no_progress)


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """Two small archives with right checksums, in a folder of their own."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for (name, _), content in zip(list(omniglot.FILES.items()), (FIRST, SECOND), strict=True):
        (folder / name).write_bytes(content)
        source = Source((folder / name).as_uri(), hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(omniglot.FILES, name, source)
    return folder


def test_the_command_checks_the_files_and_fetches_those_that_are_missing(raw, tmp_path):
    done = call("data", "omniglot", "--root", tmp_path / "fetched")
    assert done.returncode == 0, done.stderr
    assert "4 drawings of 3 characters of 2 alphabets" in " ".join(done.stdout.split())
    (tmp_path / "fetched" / "images_background_small1.zip").write_bytes(SECOND)
    assert call("data", "omniglot", "--root", tmp_path / "fetched").returncode != 0


def test_drawings_are_read_once(raw, tmp_path, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))
    source, notes = metric_learning.prepare(metric_learning.DataOptions(data=raw), 1, no_steps)
    assert (source.name, notes) == ("Omniglot", [])
    images = load(source)
    assert images.images.shape == (4, 28, 28)
    assert images.characters.tolist() == [0, 1, 1, 2]
    assert images.alphabets.tolist() == [0, 1, 1, 1]
    with pytest.raises(ValueError, match="--data DIR"):
        metric_learning.prepare(metric_learning.DataOptions(preset="paper"), 1, no_steps)


def test_no_character_and_no_alphabet_of_the_test_is_seen_and_halves_change_places():
    images = load(MADE)
    halves = []
    for seed in range(4):
        training, validation, test = split(images, seed)
        assert len(training) + len(validation) + len(test) == len(images.images)
        seen = [set(images.characters[part].tolist()) for part in (training, validation, test)]
        assert sum(map(len, seen)) == len(set.union(*seen)) == 96
        alphabets = set(images.alphabets[test].tolist())
        assert len(alphabets) == 4
        assert not alphabets & set(images.alphabets[training].tolist())
        assert not alphabets & set(images.alphabets[validation].tolist())
        halves.append(alphabets)
    assert halves[0] | halves[1] == halves[2] | halves[3] == set(range(8))
    assert halves[0] not in halves[2:]


def test_all_losses_see_the_same_batches_with_as_many_drawings_of_each_character():
    characters = torch.arange(10).repeat_interleave(8)
    batches = batches_of(characters, 5, 0)
    for _, batch in zip(range(9), batches, strict=False):
        assert torch.equal(characters[batch].bincount(minlength=10).sort().values, torch.tensor([0] * 5 + [4] * 5))
    assert next(batches_of(characters, 5, 1)) == next(batches_of(characters, 5, 1))


def embeddings(seed=0, classes=5, each=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)[torch.randperm(classes * each, generator=generator)]
    centres = torch.randn((classes, 6), generator=generator)
    vectors = centres[labels] + torch.randn((len(labels), 6), generator=generator)
    return normalize(vectors.to(dtype), dim=-1).requires_grad_(), labels


def exact(vectors, labels):
    same = labels.unsqueeze(1) == labels
    return metric(AveragePrecision(), vectors @ vectors.T, same, ~torch.eye(len(labels), dtype=torch.bool)).item()


def test_smooth_losses_tend_to_one_minus_ap():
    vectors, labels = embeddings()
    assert smooth_ap(cosines(vectors, labels), 1e-6).item() == pytest.approx(1 - exact(vectors, labels), abs=1e-4)
    perfect = normalize(torch.eye(5)[labels] + 0.01, dim=-1)
    for loss in (smooth_ap, sup_ap):
        assert loss(cosines(perfect, labels), 1e-3).item() == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.01, 0.03, 0.1])
def test_sup_ap_is_never_below_one_minus_ap(temperature):
    for seed in range(20):
        vectors, labels = embeddings(seed)
        assert sup_ap(cosines(vectors, labels), temperature).item() >= 1 - exact(vectors, labels) - 1e-9


def test_sup_ap_counts_a_negative_as_the_paper_does():
    """Three drawings of each of two characters, written out term by term."""
    vectors, labels = embeddings(3, classes=2, each=3)
    tau, rho, delta = 0.01, 100.0, 0.05

    def behind(lead):
        sigmoid = 1 / (1 + np.exp(-lead / tau))
        if lead <= 0:
            return sigmoid
        return sigmoid + 0.5 if lead <= delta else rho * (lead - delta) + 1 / (1 + np.exp(-delta / tau)) + 0.5

    scores, precisions = (vectors @ vectors.T).detach().numpy(), []
    for query in range(6):
        positives = [k for k in range(6) if k != query and labels[k] == labels[query]]
        negatives = [k for k in range(6) if labels[k] != labels[query]]
        for k in positives:
            rank = sum(scores[query, j] >= scores[query, k] for j in positives)
            precisions.append(rank / (rank + sum(behind(scores[query, j] - scores[query, k]) for j in negatives)))
    assert sup_ap(cosines(vectors, labels), tau).item() == pytest.approx(1 - np.mean(precisions))


@pytest.mark.parametrize("method", METHODS)
def test_a_step_down_the_gradient_lowers_the_loss_of_a_batch(method):
    images, network = load(MADE), Network(0)
    rows = torch.arange(64)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    values = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = METHODS[method].loss(network(images.images[rows]), images.characters[rows], METHODS[method].strengths[1])
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    assert values[-1] < values[0]


def test_metrics_are_those_of_a_plain_loop():
    vectors, labels = embeddings(1)
    map_at_r, hits = [], []
    scores = (vectors @ vectors.T).detach()
    for query in range(len(labels)):
        order = [k for k in scores[query].argsort(descending=True).tolist() if k != query]
        right = np.array([bool(labels[k] == labels[query]) for k in order])
        precision = right.cumsum() / np.arange(1, len(right) + 1)
        map_at_r.append((precision * right)[:3].sum() / 3)
        hits.append(right[0])
    expected = np.mean(map_at_r), np.mean(hits), exact(vectors, labels)
    assert measure(vectors.detach(), labels) == pytest.approx(expected, abs=1e-6)


def test_baselines_do_not_train_and_every_network_starts_alike():
    short = [config for config in configs(metric_learning.DataOptions(seeds=1)) if config.method in BASELINES]
    results = [metric_learning.run(config) for config in short]
    for config, result in zip(short, results, strict=True):
        assert len(set(result.map[0])) == 1
        result.check(config)
    assert results[0] != results[1]
    first, second = (Network(3).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    trained = metric_learning.run(replace(short[0], method="AP", iterations=2, settings=(Setting(0.1, 0.01, 0.0),)))
    assert trained.map[0][0] != results[0].map[0][0]


@pytest.fixture(scope="module")
def losses():
    return pytest.importorskip("pytorch_metric_learning.losses")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["contrastive", "triplet", "Smooth-AP", "calibration"])
def test_losses_are_those_of_pytorch_metric_learning(method, losses):
    from pytorch_metric_learning.distances import DotProductSimilarity

    vectors, labels = embeddings(classes=4, dtype=torch.float32)
    order = labels.argsort()  # its Smooth-AP is right for as many classes as samples of each, beside each other
    vectors, labels = vectors.detach()[order].requires_grad_(), labels[order]
    expected = {
        "contrastive": losses.ContrastiveLoss(neg_margin=0.9),
        "triplet": losses.TripletMarginLoss(margin=0.2),
        "Smooth-AP": losses.SmoothAPLoss(temperature=0.05),
        "calibration": losses.ContrastiveLoss(0.9, 0.6, distance=DotProductSimilarity()),
    }[method](vectors, labels)
    scores = cosines(vectors, labels)
    found = {
        "contrastive": lambda: contrastive(scores, 0.9),
        "triplet": lambda: triplet(scores, 0.2),
        "Smooth-AP": lambda: smooth_ap(with_the_query(scores), 0.05),
        "calibration": lambda: calibration(scores),
    }[method]()
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value, vectors)[0] for value in (found, expected)]
    along_the_sphere = [slope - (slope * vectors).sum(-1, keepdim=True) * vectors for slope in gradients]
    torch.testing.assert_close(*along_the_sphere)


def with_the_query(scores):
    """Smooth-AP of the package ranks the query too, as its own first positive."""
    return scores._replace(positives=torch.cat([scores.positives, torch.ones_like(scores.positives[:, :1])], 1))


def test_cosines_of_a_batch_are_those_of_positives_and_of_negatives_by_query():
    vectors, labels = embeddings()
    positives, negatives = cosines(vectors, labels)
    assert (positives.shape, negatives.shape) == ((20, 3), (20, 16))
    expected = (vectors @ vectors.T)[3][(labels == labels[3]) & (torch.arange(20) != 3)]
    torch.testing.assert_close(positives[3], expected)
