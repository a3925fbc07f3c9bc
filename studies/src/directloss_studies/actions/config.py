"""What a person can ask of the actions study, its configurations and its result."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..data.voc import ACTIONS
from ..harness import study as harness
from ..harness.options import Option
from ..harness.typed import JsonName
from ..sweep import Curve, Curves, Setting
from ..vision.options import VisionOptions

__all__ = ["OWN", "TRAINED", "ActionsOptions", "Config", "Result", "Run", "Source"]

TRAINED = {"head": "pooled", "top": "trunk", "all": "crops"}
"""What trains, and the kind of features of a box that it needs."""
OWN = "own features "
"""How the name of a source begins whose features came in a file; then the name of the file."""


@dataclass(frozen=True, kw_only=True)
class ActionsOptions(VisionOptions):
    """What the actions study takes."""

    train: Annotated[str, Option(f"What trains, one of: {', '.join(TRAINED)}.")] = "head"
    features: Annotated[
        Path | None, Option("Features of your own, .npz, instead of a backbone's; see the docs.", metavar="FILE")
    ] = None

    def hidden(self) -> set[str]:
        """A command with features of one's own has no backbone."""
        if self.backbone.startswith(OWN):
            return {"backbone", "weights"}
        return super().hidden() | {"features"}


@dataclass(frozen=True)
class Source:
    """Data and weights: what was asked for, and keys of the cache."""

    backbone: str
    train: str
    features: str
    labels: str
    weights: str


@dataclass(frozen=True)
class Config:
    """One method on one action at one noise rate from one seed, with all its settings."""

    method: str
    seed: int
    noise: float
    action: str
    head: str
    source: Source | None
    items: int | None
    """The largest number of boxes in each third, half of them positive; None: all boxes."""
    iterations: int
    settings: tuple[Setting, ...]
    batch: int | None = None
    """Boxes in a batch, if the network trains; None: all of them."""
    pixels: int | None = None
    """The side of a crop, if all of the network trains; None: that of the backbone."""

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{ACTIONS[self.action]}, {self.method}, {self.noise:.0%} flipped, {self.head} head, seed {self.seed}"


@dataclass(frozen=True)
class Result(Curves):
    """AP on all sets. Noisy validation is the validation set with as many flipped labels as training has."""

    validation: Curve
    noisy_validation: Annotated[Curve, JsonName("noisy validation")]


Run = harness.Run[Config, Result]
