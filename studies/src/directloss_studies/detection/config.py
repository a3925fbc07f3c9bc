"""What a person can ask of the detection study, its configurations and its result."""

from dataclasses import dataclass
from typing import Annotated

from ..harness import study as harness
from ..harness.options import Option
from ..harness.typed import JsonName
from ..sweep import Setting
from ..vision.calibration import Knots, check_knots
from ..vision.options import VisionOptions
from ..vision.proposals import SIDE
from ..vision.regions import FEATURE_KINDS
from .pictures import Picture

__all__ = ["Config", "DetectionOptions", "ObjectCounts", "Result", "Run", "Source", "TrainingCounts"]


@dataclass(frozen=True, kw_only=True)
class DetectionOptions(VisionOptions):
    """What the detection study takes."""

    features: Annotated[
        str | None,
        Option(
            f"One of: {', '.join(FEATURE_KINDS)}. Pooled from one map of the image, from several layers (without it, "
            "where the backbone has them), or of warped crops (slow)."
        ),
    ] = None
    images: Annotated[
        int | None,
        Option("Images of each list at most, 0: all; without it 500. Quick preset: images in all, 40.", min=0),
    ] = None
    boxes: Annotated[int, Option("Proposals of an image at most.", min=1)] = 2000
    side: Annotated[
        int, Option("Pixels of the longer side of the image in which proposals are searched; fewer are faster.")
    ] = SIDE
    positive: Annotated[float, Option("A box that overlaps an object by this or more is positive.")] = 0.5
    negative: Annotated[float, Option("A box that overlaps all objects by less than this is negative.")] = 0.3
    batch: Annotated[int, Option("Boxes in a batch.", min=2)] = 512
    hard: Annotated[
        float, Option("Share of the negatives that are hard: those that a first classifier takes for the class.")
    ] = 0.0


@dataclass(frozen=True)
class Source:
    """Data and weights: what was asked for, and keys of the cache."""

    backbone: str
    features: str
    images: int
    boxes: int
    positive: float
    negative: float
    batch: int
    keys: tuple[str, str, str, str, str]
    """Of images, boxes, rows, their basis, weights."""
    side: int = 500
    """Runs of older versions have no other."""
    hard: float = 0.0
    """The share of hard negatives. Runs of older versions have none."""


@dataclass(frozen=True)
class Config:
    """One method on one class at one noise rate from one seed, with all its settings."""

    method: str
    seed: int
    noise: float
    category: str
    source: Source | None
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.category}, {self.method}, {self.noise:.0%} flipped, seed {self.seed}"


@dataclass(frozen=True)
class TrainingCounts:
    """Boxes that train, before labels are flipped."""

    positive: int
    negative: int


@dataclass(frozen=True)
class ObjectCounts:
    """Objects of the class that are not difficult, in the images of each part."""

    train: int
    held_out: Annotated[int, JsonName("held out")]
    test: int


@dataclass(frozen=True)
class Result:
    """AP by setting; and the weights, curve and pictures of the setting that is best on the images held out."""

    held_out: Annotated[tuple[float, ...], JsonName("held out")]
    """AP by setting."""
    test: tuple[float, ...]
    """AP by setting."""
    chosen: int
    """The place of the setting that is best on the images held out."""
    dead: tuple[float, ...]
    """By setting: the share of iterations whose gradient was zero at every score."""
    training: TrainingCounts
    objects: ObjectCounts
    recall: float
    """Share of the class's objects in the test images that some proposal overlaps by half or more."""
    precision: tuple[float, ...]
    """The highest precision at each recall 0, 0.01, …, 1 or a higher one, on the test images."""
    weights: str
    """Of the head, the bias last: float32 as base64."""
    threshold: float
    """The score threshold with the best F1 on the images held out."""
    pictures: dict[str, tuple[Picture, ...]]
    """The best and the worst detections, where the report shows them."""
    precision_by_score: Annotated[Knots, JsonName("precision by score")] = ()
    """Of the detections in the test images. Empty if there are none, and in runs of older versions."""

    def check(self, config: Config) -> None:
        """Raise a ValueError unless all parts have every setting, AP is from 0 to 1 and pictures have a size."""
        check_knots(self.precision_by_score)
        settings = len(config.settings)
        if not len(self.held_out) == len(self.test) == len(self.dead) == settings > self.chosen >= 0:
            raise ValueError(f"held out, test and dead must have {settings} settings, and chosen must be one of them")
        if not all(0 <= value <= 1 for value in (*self.held_out, *self.test, *self.precision, self.recall)):
            raise ValueError("held out, test, precision and recall must be from 0 to 1")
        if len(self.precision) != 101:
            raise ValueError(f"precision must be given at 101 recalls; got {len(self.precision)}")
        if not all(0 < side < 10_000 for some in self.pictures.values() for each in some for side in each.size):
            raise ValueError("pictures must have from 1 to 9999 pixels a side")


Run = harness.Run[Config, Result]
