"""Segmentation: does a loss on IoU itself give better masks, and what do wrong masks do to it? Not in the paper."""

import hashlib
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.label_noise import flip_labels
from ..data.shapes import move_masks, textured_shapes
from ..data.voc import Segmented, read_segmented
from ..harness.cache import Cache, key_of
from ..harness.progress import Progress, Steps, no_progress, no_steps
from ..harness.study import Study
from ..sweep import Setting, choose
from ..vision.images import read_image, read_palette
from .config import DATA, FIRST_SEED, Config, Result, SegmentationOptions, Source
from .losses import LOSSES
from .pictures import shown
from .summary import summarise
from .training import Measured, Part, scored, train

__all__ = ["STUDY", "configs", "prepare", "run", "sets_of"]

CACHE = Cache("directloss reproduce segmentation --data voc2012 --root DIR")
VERSION = 1  # see `key_of`
SIZE = 48
"""Pixels a side."""
VOID = 255
WIDTHS = (8, 8, 16, 16)
BATCH, CHECKPOINTS = 8, 2
RATES = {"shapes": (0.03, 0.1, 0.3), "voc2012": (0.003, 0.01, 0.03, 0.1)}
"""Step sizes, the same for every loss."""
SHOWN = 6
"""Test images in a picture."""


def prepare(options: SegmentationOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[Source | None, list[str]]:
    """Scale the images and masks of VOC2012, unless they are in the cache; nothing for shapes."""
    if options.data not in DATA:
        raise ValueError(f"--data {options.data!r} is unknown. There are: {', '.join(DATA)}.")
    if options.data == "shapes":
        return None, []
    if options.root is None:
        raise ValueError("VOC2012 must be given: add --root DIR. `directloss data voc2012 --root DIR` gets it.")
    found = read_segmented(options.root)
    facts = {"size": SIZE, "files": _digest(found, steps("reading masks")), "version": VERSION}
    images, labels = (key_of(kind=f"segmentation {kind}", **facts) for kind in ("images", "labels"))
    progress = steps("scaling images")
    CACHE.make_array(images, lambda: np.stack(list(_images(found, progress))))
    CACHE.make_array(labels, lambda: np.stack([_in_small(read_palette(each.labels), nearest=True) for each in found]))
    return Source(options.data, images, labels), []


def _digest(found: list[Segmented], progress: Progress) -> str:
    digest = hashlib.sha256()
    for number, each in enumerate(found, 1):
        digest.update(each.name.encode() + each.path.read_bytes() + each.labels.read_bytes())
        progress(number / len(found))
    return digest.hexdigest()


def _images(found: list[Segmented], progress: Progress) -> Iterator[np.ndarray]:
    for number, each in enumerate(found, 1):
        yield _in_small(read_image(each.path), nearest=False)
        progress(number / len(found))


def _in_small(image: Any, nearest: bool) -> np.ndarray:
    from PIL.Image import Resampling

    return np.asarray(image.resize((SIZE, SIZE), Resampling.NEAREST if nearest else Resampling.BOX))


def configs(options: SegmentationOptions, source: Source | None = None) -> list[Config]:
    """The paper preset takes about a quarter of an hour of one core on shapes, the quick one half a minute."""
    shapes, full = options.data == "shapes", options.preset == "paper"
    size = 32 if shapes and not full else SIZE
    samples, held_out, iterations = ((200, 100, 100) if shapes else (600, 150, 100)) if full else (64, 32, 40)
    tried, rates = (slice(None), RATES[options.data]) if full else (slice(1), (0.01, 0.03))
    seeds = options.seeds or (5 if full and shapes else 3)
    return [
        Config(
            method, seed, options.data, "pixels", noise, source, size, samples, held_out, iterations,
            tuple(Setting(strength, rate, 0.0) for strength in of.strengths[tried] for rate in rates),
        )
        for noise, seed in product((0.0, 0.2), range(FIRST_SEED, FIRST_SEED + seeds))
        for method, of in LOSSES.items()
    ]  # fmt: skip


def sets_of(config: Config) -> dict[str, Part]:
    """Damage strikes the masks of training and noisy validation; clean validation and test are as they are."""
    generator = torch.Generator().manual_seed(config.seed)
    counts = {"train": config.samples, "validation": config.held_out, "test": 2 * config.held_out}
    sets = (
        {name: _shapes(count, config.size, generator) for name, count in counts.items()}
        if config.source is None
        else _voc(config.source, counts, generator)
    )
    for name, of in (("train", "train"), ("noisy_validation", "validation")):
        sets[name] = sets[of]._replace(masks=_damaged(sets[of].masks, config, generator))
    return sets


def _damaged(masks: Tensor, config: Config, generator: torch.Generator) -> Tensor:
    damage = flip_labels if config.damage == "pixels" else move_masks
    return damage(masks, config.noise, generator)


def _shapes(count: int, size: int, generator: torch.Generator) -> Part:
    images, masks = textured_shapes(count, size, generator)
    return Part(images, masks, torch.ones_like(masks))


def _voc(source: Source, counts: dict[str, int], generator: torch.Generator) -> dict[str, Part]:
    """Foreground is any of the twenty classes. Images without any are left out."""
    labels = torch.from_numpy(np.array(CACHE.array(source.labels)))
    masks, valid = (labels > 0) & (labels != VOID), labels != VOID
    places = masks.any(-1).any(-1).nonzero().squeeze(1)
    if len(places) < sum(counts.values()):
        raise ValueError(f"{sum(counts.values())} images with foreground are needed; the devkit has {len(places)}.")
    order = places[torch.randperm(len(places), generator=generator)]
    sets = {}
    for (name, count), start in zip(counts.items(), np.cumsum([0, *counts.values()]), strict=False):
        some = order[start : start + count]
        rows = torch.from_numpy(CACHE.rows(source.images, some.numpy())).permute(0, 3, 1, 2)
        sets[name] = Part(rows / 64 - 2, masks[some], valid[some])
    return sets


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Every setting trains a network of its own, from the same weights on the same batches."""
    if config.data != "shapes" and config.source is None:
        raise ValueError("Name the data: directloss reproduce segmentation --data voc2012 --root DEVKIT.")
    sets = sets_of(config)
    number = min(CHECKPOINTS, config.iterations)
    moments = [config.iterations * k // number for k in range(1, number + 1)]
    trained = [
        train(
            config.method, setting, sets, widths=WIDTHS, batch=BATCH, iterations=config.iterations, checkpoints=moments,
            seed=config.seed, progress=lambda share, k=k: progress((k + share) / len(config.settings)),
        )
        for k, setting in enumerate(config.settings)
    ]  # fmt: skip
    curves = {
        name: tuple(tuple(getattr(each.measured[k], name) for each in trained) for k in range(number))
        for name in Measured._fields
    }
    picture = None
    if config.seed == FIRST_SEED:
        best = trained[choose(curves["noisy_validation"]).settings[0]].network
        some = Part(*(of[:SHOWN] for of in sets["test"]))
        picture = shown(some.images, some.masks, scored(best, some.images) > 0)
    return Result(
        iterations=tuple(moments), dead=tuple(round(each.dead, 6) for each in trained), shown=picture, **curves
    )


STUDY = Study[SegmentationOptions, Source | None, Config, Result](
    name="segmentation",
    title="Segmentation: losses on IoU",
    about=(
        "A small U-Net gives every pixel a score; pixels above zero are foreground. Shapes: blobs of one texture on "
        "another, made here. VOC2012: any of the twenty classes against the background, images scaled to 48 × 48. "
        "The masks of training and validation are right, or each pixel is wrong with a probability of 20 %. Test masks "
        "are right. Direct loss on IoU (positive, "
        "central, hinge; central at noisy scores plus cross-entropy) stands beside cross-entropy, Dice, their sum and "
        "the Lovász hinge, with as many settings each."
    ),
    version=2,
    first_seed=FIRST_SEED,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
)
