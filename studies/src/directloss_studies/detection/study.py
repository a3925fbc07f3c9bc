"""Object detection on PASCAL VOC2012 (the paper's Table 2): R-CNN whose classifiers train on the AP of mini-batches."""

import base64
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.label_noise import flip_labels
from ..data.voc import CLASSES, Scene, read_scenes
from ..harness.cache import key_of
from ..harness.progress import Progress, Steps, no_progress, no_steps
from ..harness.study import Export, Study
from ..linear_models import LINEAR_MODELS, SHARES, fit
from ..networks import Classifiers, Scaling
from ..sweep import combinations, first_biases, losses
from ..trainers import stratified, train
from ..vision.backbones import BACKBONES, cache_weights, find_weights, load_weights
from ..vision.detector import LEAST_SEARCHED, MOST_SEARCHED
from ..vision.proposals import proposals, recall
from ..vision.regions import FEATURE_KINDS, compute
from .config import Config, DetectionOptions, ObjectCounts, Result, Source, TrainingCounts
from .detectors import export
from .images import CACHE, PARTS, Images, cache_images, easy_boxes, pick, read_images
from .measuring import (
    best_and_worst,
    best_threshold,
    curves_of,
    measured,
    precision_at_recalls,
    precision_by_score,
    recall_of,
)
from .mining import VERSION as MINING
from .mining import first_classifier, hardest
from .summary import summarise

__all__ = ["STUDY", "configs", "prepare", "run"]

GRIDS: dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    "x-ent": ((1.0,), (0.001, 0.01, 0.1, 1.0), (0.0, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0)),
    "hinge-AP": ((1.0, 100.0), (0.001, 0.01, 0.1, 1.0), (0.0, 0.03, 0.3, 3.0, 30.0)),
    "pos-AP": ((0.1, 1.0), (0.001, 0.01, 0.1, 1.0), (0.0, 0.1, 1.0, 10.0)),
    "LogisticRegression": (SHARES, (0.0,), (0.001, 0.01, 0.1, 1.0)),
    "LinearSVC": (SHARES[1:], (0.0,), (0.01, 0.1, 1.0, 10.0)),
}
"""Strengths, step sizes and weight decays. The margins and ε are the best of wider grids, and the paper's margin 1 and
ε 0.1. A scale of cross-entropy does what its decay does, so x-ent has more decays instead."""
QUICK = ("car", "cat", "person")
IMAGES = {"quick": 40, "paper": 500}  # quick preset: in all; paper preset: from each list
SEED = 0  # draws the images, once for all runs
COMPONENTS = 512
FEW = 1000  # training images of which a quarter is held out, not a tenth
SAMPLE = 150  # images that the coordinates of the features are fitted to
POSITIVES, NEGATIVES = 8192, 32768  # training boxes of a class at most; of many images four times as many
SHARE = 0.25  # of positives in a batch, as in R-CNN


def _check(options: DetectionOptions) -> None:
    """Refuse options that make no sense, before any work."""
    if options.features not in (None, *FEATURE_KINDS):
        raise ValueError(f"--features {options.features!r} is unknown. There are: {', '.join(FEATURE_KINDS)}.")
    if not 0 < options.negative <= options.positive <= 1:
        raise ValueError(
            f"Overlaps must be 0 < negative ≤ positive ≤ 1; got {options.negative} and {options.positive}."
        )
    if not LEAST_SEARCHED <= options.side <= MOST_SEARCHED:
        raise ValueError(f"--side must be from {LEAST_SEARCHED} to {MOST_SEARCHED}; got {options.side}.")
    if not 0 <= options.hard < 1:
        raise ValueError(f"--hard must be a share from 0 to below 1; got {options.hard}.")
    if options.batch < 2 or options.boxes < 1:
        raise ValueError("--batch must be 2 or more, --boxes 1 or more.")
    if options.images is not None and options.images < 20 and (options.images or options.preset == "quick"):
        raise ValueError("--images must be 20 or more, or, with --preset paper, 0 for all.")


def prepare(options: DetectionOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[Source, list[str]]:
    """Read the devkit, search for proposals, fetch weights if none are given, compute features not in the cache."""
    _check(options)
    root = options.devkit()
    backbone = options.network()
    weights = find_weights(backbone, options.weights, steps)
    network = BACKBONES[backbone]().eval()
    load_weights(network, weights)
    features = options.features or ("layers" if network.deeper else "pooled")
    asked = IMAGES[options.preset] if options.images is None else options.images
    scenes, parts = _divided(root, options.preset == "quick", asked)
    progress = steps(f"proposals of {len(scenes)} images")
    found = proposals([scene.path for scene in scenes], jobs, progress, side=options.side)
    found = [boxes[: options.boxes] for boxes in found]
    notes = [
        f"{sum(map(len, found))} proposals of {len(scenes)} images. Objects that a proposal overlaps by half or more: "
        + ", ".join(f"{recall(*_part(found, scenes, parts, part)):.1%} ({part})" for part in PARTS)
        + "."
    ]
    boxes = [
        np.concatenate([easy_boxes(scene.annotations), some]) if part == "train" else some
        for scene, some, part in zip(scenes, found, parts, strict=True)
    ]
    names, paths = tuple(scene.name for scene in scenes), tuple(str(scene.path.resolve()) for scene in scenes)
    annotations = tuple(scene.annotations for scene in scenes)
    images = Images(names, paths, tuple(parts), annotations, tuple(map(len, boxes)))
    weights_key = cache_weights(CACHE, weights)
    made_by = {"backbone": backbone, "weights": weights_key}
    sample = np.random.default_rng(SEED).permutation(parts.count("train"))[:SAMPLE].tolist()
    keys = compute(
        CACHE, [scene.path for scene in scenes], boxes, features, network, made_by, sample, COMPONENTS, steps
    )
    return Source(
        backbone, features, asked, options.boxes, options.positive, options.negative,
        options.batch, (cache_images(images), *keys, weights_key), options.side, options.hard,
    ), notes  # fmt: skip


def _divided(root: Path, quick: bool, asked: int) -> tuple[list[Scene], list[str]]:
    """The images and the part of each. A quarter of the training images is held out; if there are many, a tenth.

    Every part has all classes.
    """
    categories, counts = CLASSES, (asked, asked)
    if quick:
        categories, counts = QUICK, (asked - 2 * asked // 5, 2 * asked // 5)
    known, test = (
        pick(read_scenes(root, part), count, categories if quick else (), SEED)
        for part, count in zip(("train", "val"), counts, strict=True)
    )
    if len(known) < 4:
        raise ValueError(f"The list of training images has {len(known)}; 4 or more are needed.")
    twice = {scene.name for scene in known} & {scene.name for scene in test}
    if twice:
        raise ValueError(f"{min(twice)} is on the list of training images and on that of test images. Remove one.")
    held_out = len(known) // (4 if len(known) <= FEW else 10)
    divided = dict(zip(PARTS, (known[:-held_out], known[-held_out:], test), strict=True))
    for part, category in product(PARTS, categories):
        if not any(
            each.name == category and not each.difficult for scene in divided[part] for each in scene.annotations
        ):
            raise ValueError(f"There is no {category} in the images ({part}). Take more: --images N, or 0 for all.")
    return [*known, *test], [part for part, scenes in divided.items() for _ in scenes]


def _part(
    found: Sequence[Any], scenes: Sequence[Scene], parts: Sequence[str], part: str
) -> tuple[list[Any], list[Any]]:
    """The proposals and the objects of the images of a part."""
    mine = [number for number, of in enumerate(parts) if of == part]
    return [found[number] for number in mine], [easy_boxes(scenes[number].annotations) for number in mine]


def configs(options: DetectionOptions, source: Source | None = None) -> list[Config]:
    """The configurations of the options on a source. Without a source they can only be counted.

    scikit-learn's classifiers have one seed: they take longer, and only their boxes and flips are random.
    """
    paper = options.preset == "paper"
    categories, iterations = (CLASSES, 1000) if paper else (QUICK, 300)
    every = 1 if paper else 2
    grids = {
        method: combinations(strengths, rates[::every], decays[::every])
        for method, (strengths, rates, decays) in GRIDS.items()
    }
    ours = [method for method in grids if method not in LINEAR_MODELS]
    stages = [
        *((seed, ours) for seed in range(options.seeds or 3)),
        *((0, [method]) for method in LINEAR_MODELS),
    ]
    return [
        Config(method, seed, noise, category, source, iterations, grids[method])
        for seed, methods in stages
        for category in categories
        for noise in (0.0, 0.2)
        for method in methods
    ]


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train a head for each setting; detect with all of them in the images held out and in the test images."""
    source = config.source
    if source is None:
        raise ValueError("Name the data: directloss reproduce detection --root DEVKIT --weights FILE.")
    images_key, boxes_key, rows_key, *_ = source.keys
    images, boxes = read_images(images_key), CACHE.array(boxes_key)
    generator = torch.Generator().manual_seed(1000 * CLASSES.index(config.category) + config.seed)
    rows, truth, target = _training_set(config, source, images, boxes, generator)
    inputs = torch.from_numpy(CACHE.rows(rows_key, rows)).float()
    scaling = Scaling.of(inputs)
    heads = Classifiers(
        (inputs.shape[1], 1),
        first_biases(config.method, config.settings, SHARE),
        torch.Generator().manual_seed(config.seed),
    )
    if config.method in LINEAR_MODELS:
        weights = fit(config.method, config.settings, scaling(inputs), target, lambda share: progress(0.9 * share))
        dead = torch.zeros(len(weights))
    else:
        dead = train(
            heads, losses(config.method, config.settings), scaling(inputs), target,
            learning_rates=torch.tensor([setting.learning_rate for setting in config.settings]),
            weight_decays=torch.tensor([setting.weight_decay for setting in config.settings]),
            iterations=config.iterations, optimizer="momentum",
            batches=stratified(target, source.batch, SHARE, generator), falling=True,
            callback=lambda iteration: progress(0.9 * iteration / config.iterations),
        )  # fmt: skip
        weights = heads.weights.detach()
    with torch.no_grad():
        heads.weights.copy_(scaling.undone(weights))
    curves = partial(curves_of, images, boxes, rows_key, category=config.category, networks=heads)
    held_out, chosen, found, best = measured(curves("held out"))
    test, _, detections, curve = measured(curves("test"), chosen)
    pictured = (config.method, config.noise, config.seed) == ("pos-AP", 0.0, 0)
    progress(1.0)
    objects = {part: int((~images.objects(config.category, part).difficult).sum()) for part in PARTS}
    return Result(
        held_out=tuple(held_out),
        test=tuple(test),
        chosen=chosen,
        dead=tuple(round(share, 6) for share in dead.tolist()),
        training=TrainingCounts(int(truth.sum()), int((~truth).sum())),
        objects=ObjectCounts(*objects.values()),
        recall=round(recall_of(images, boxes, config.category), 6),
        precision=precision_at_recalls(curve),
        weights=base64.b64encode(heads.weights[chosen].detach().numpy().astype("<f4").tobytes()).decode(),
        threshold=best_threshold(found, best),
        pictures=best_and_worst(images, detections, curve, config.category) if pictured else {},
        precision_by_score=precision_by_score(detections, curve),
    )


def _training_set(
    config: Config, source: Source, images: Images, boxes: Any, generator: torch.Generator
) -> tuple[NDArray[np.int64], Tensor, Tensor]:
    """The rows of the training boxes, hard negatives among them; their right labels, and those that training sees."""
    labels = images.labels(config.category, boxes, source.positive, source.negative)
    times = 1 if images.parts.count("train") <= FEW else 4
    hard = round(source.hard * times * NEGATIVES)
    rows, truth = _drawn(labels, (times * POSITIVES, times * NEGATIVES - hard), generator)
    target = flip_labels(truth, config.noise, generator)
    if not hard:
        return rows, truth, target
    images_key, _, rows_key, *_ = source.keys
    facts = {"images": images_key, "rows": rows_key, "class": config.category, "seed": config.seed}
    facts |= {"noise": config.noise, "overlaps": [source.positive, source.negative], "count": hard}
    key = key_of(kind="hard negatives", version=MINING, **facts)

    def mine() -> NDArray[np.int64]:
        others = labels == -1
        others[rows] = False
        weights = first_classifier(torch.from_numpy(CACHE.rows(rows_key, rows)).float(), target)
        return hardest(lambda: CACHE.array(rows_key), others, weights, hard)

    CACHE.make_array(key, mine)  # every method gets the same ones
    mined = np.array(CACHE.array(key))
    nothing = torch.zeros(len(mined), dtype=torch.bool)
    order = np.argsort(np.append(rows, mined))
    both = (torch.cat([truth, nothing]), torch.cat([target, flip_labels(nothing, config.noise, generator)]))
    return np.append(rows, mined)[order], both[0][order], both[1][order]


def _drawn(
    labels: NDArray[np.int8], limits: tuple[int, int], generator: torch.Generator
) -> tuple[NDArray[np.int64], Tensor]:
    """The rows of positives and negatives, and their labels; a random choice where there are too many."""
    chosen = []
    for label, limit in zip((1, -1), limits, strict=True):
        places = np.flatnonzero(labels == label)
        chosen.append(places[torch.randperm(len(places), generator=generator)[:limit].numpy()])
    rows = np.sort(np.concatenate(chosen))
    return rows, torch.from_numpy(labels[rows] == 1)


STUDY = Study(
    name="detection",
    title="VOC2012 object detection (Table 2)",
    about=(
        "R-CNN with a frozen backbone on PASCAL VOC2012: selective search, features of every proposal, a linear head a "
        "class trained on mini-batches a quarter of which is positive, a share of the training labels flipped, "
        "non-maximum suppression, AP as VOC2012 defines it on images of the validation list."
    ),
    version=4,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
    export=Export("detectors", export),
    beside=LINEAR_MODELS,
)
