"""What a person can ask of the segmentation study, its configurations and its result."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ..harness import study as harness
from ..harness.options import Option, Options
from ..harness.typed import JsonName
from ..report.words import percent
from ..sweep import Curve, Curves, Setting

__all__ = ["DAMAGES", "DATA", "FIRST_SEED", "Config", "Result", "Run", "SegmentationOptions", "Shown", "Source"]

DATA = {"shapes": "shapes", "voc2012": "VOC2012"}
"""What is segmented: its name in options, and in words."""
DAMAGES = {"pixels": "wrong pixels", "borders": "moved borders"}
"""What is wrong with masks, and in words."""

FIRST_SEED = 10
"""Version 1 of the study had the seeds from 0 to 4."""


@dataclass(frozen=True, kw_only=True)
class SegmentationOptions(Options):
    """What the segmentation study takes."""

    data: Annotated[str, Option(f"What is segmented, one of: {', '.join(DATA)}.")] = "shapes"
    root: Annotated[Path | None, Option("Folder of the VOC2012 devkit; voc2012 needs it.", metavar="DEVKIT")] = None


@dataclass(frozen=True)
class Source:
    """VOC2012 in small: what was asked for, and keys of the cache."""

    data: str
    images: str
    labels: str


@dataclass(frozen=True)
class Config:
    """One method at one share of damage from one seed, with all its settings."""

    method: str
    seed: int
    data: str
    damage: str
    noise: float
    source: Source | None
    """None for shapes, which are made here."""
    size: int
    """Pixels a side."""
    samples: int
    """Training images."""
    held_out: int
    """Images for validation; twice as many are for the test."""
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        what = f"{percent(self.noise)} {DAMAGES[self.damage]}"
        return f"{self.method}, {DATA[self.data]}, {what}, seed {self.seed}"


@dataclass(frozen=True)
class Shown:
    """Some test images side by side, their true masks, and those found with the chosen setting: PNG in base64."""

    images: str
    truth: str
    found: str


@dataclass(frozen=True)
class Result(Curves):
    """Mean IoU an image on all sets; `train` is that of the batches since the last checkpoint.

    `validation` has clean masks, noisy validation masks as wrong as those of training.
    """

    validation: Curve
    noisy_validation: Annotated[Curve, JsonName("noisy validation")]
    pooled: Annotated[Curve, JsonName("test, all pixels")]
    """IoU over the pixels of all test images together."""
    shown: Shown | None
    """Of the first seed."""
    metric: ClassVar[str] = "IoU"
    others: ClassVar[tuple[str, ...]] = (*Curves.others, "shown")


Run = harness.Run[Config, Result]
