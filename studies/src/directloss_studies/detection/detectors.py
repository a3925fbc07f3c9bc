"""Detectors for people, written from finished runs: one of all classes for each method and noise rate."""

import base64
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from ..data.voc import CLASSES
from ..vision.backbones import cached_backbone
from ..vision.detector import ClassHeads, Detector, Measured, save_detector
from ..vision.regions import read_basis
from .config import Run, Source
from .images import CACHE, read_images
from .measuring import SUPPRESSION

__all__ = ["export"]


def export(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Write a detector of all classes for each method and noise rate, from the runs of the first seed."""
    found: dict[tuple[Source, str, float], list[Run]] = {}
    for run in runs:
        if run.config.seed == 0 and run.config.source is not None:
            found.setdefault((run.config.source, run.config.method, run.config.noise), []).append(run)
    written = []
    for (source, method, noise), some in found.items():
        images_key, *_, basis_key, weights_key = source.keys
        some = sorted(some, key=lambda run: CLASSES.index(run.config.category))
        classes = [run.config.category for run in some]
        heads = np.stack([np.frombuffer(base64.b64decode(run.result.weights), dtype="<f4") for run in some])
        heads = heads.astype(np.float64)  # the length of a large one overflows float32
        thresholds = np.array([run.result.threshold for run in some])
        if not np.isfinite([*heads.ravel(), *thresholds]).all():
            continue  # the training of a head diverged
        sizes = np.linalg.norm(heads[:, :-1], axis=1).clip(1e-30)  # then scores are of order one
        scaled = torch.from_numpy(heads / sizes[:, None]).float()
        made = ClassHeads.of(classes, read_basis(CACHE, basis_key), scaled, (thresholds / sizes).tolist())
        measured = Measured(
            fmean(run.result.held_out[run.result.chosen] for run in some),
            read_images(images_key).parts.count("test"),
            tuple(
                tuple((score / size, precision) for score, precision in run.result.precision_by_score)
                for run, size in zip(some, sizes.tolist(), strict=True)
            ),
        )
        name = f"{source.backbone}-{source.features}-{method}-{100 * noise:.0f}"
        network = cached_backbone(CACHE, source.backbone, weights_key, 0)
        save_detector(
            folder / name, Detector(network, source.features, source.boxes, SUPPRESSION, made, measured, source.side)
        )
        written.append(folder / name)
    return written
