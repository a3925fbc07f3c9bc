"""The study's configurations and its result."""

from dataclasses import dataclass
from typing import NamedTuple

from ..harness import study as harness
from ..sweep import Curve, Setting, check_curves

__all__ = ["AT_ZERO", "METRICS", "Config", "Part", "Result", "Run", "Source"]

METRICS = ("AP", "AUC", "pAUC", "NDCG@10", "P@k", "F1")
"""The columns of the study."""
AT_ZERO = "F1 at 0"
"""F1 of the items whose score is at least 0, without a threshold from validation data."""


class Part(NamedTuple):
    """One set of data: its name, and its key in the cache."""

    name: str
    key: str


@dataclass(frozen=True)
class Source:
    """All sets of data that were found."""

    parts: tuple[Part, ...]

    def key(self, name: str) -> str:
        """The key of a set of data in the cache."""
        return dict(self.parts)[name]


@dataclass(frozen=True)
class Config:
    """One method on one set of data, split by one seed, with all its settings."""

    method: str
    seed: int
    data: str
    source: Source | None
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.data}, {self.method}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """Every metric on validation and test data."""

    iterations: tuple[int, ...]
    """Of the checkpoints."""
    validation: dict[str, Curve]
    """By metric."""
    test: dict[str, Curve]
    dead: tuple[float, ...]
    """By setting: the share of iterations whose gradient was zero at every score."""

    def check(self, config: Config) -> None:
        """Raise a ValueError unless every metric has all checkpoints and settings, and is from 0 to 1."""
        checkpoints, settings = len(self.iterations), len(config.settings)
        if not checkpoints or len(self.dead) != settings:
            raise ValueError(f"dead must have {settings} settings, and iterations a checkpoint")
        for name, curves in (("validation", self.validation), ("test", self.test)):
            if curves.keys() != {*METRICS, AT_ZERO}:
                raise ValueError(f"{name} must have the metrics {', '.join((*METRICS, AT_ZERO))}")
            check_curves({f"{name} {metric}": curve for metric, curve in curves.items()}, checkpoints, settings, name)


Run = harness.Run[Config, Result]
