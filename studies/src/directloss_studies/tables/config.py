"""What a person can ask of the study, its configurations and its result."""

from dataclasses import dataclass
from math import inf
from typing import Annotated, NamedTuple

from ..harness import study as harness
from ..harness.options import DataOptions, Option
from ..sweep import Curve, Setting, check_curves

__all__ = [
    "ADAPTIVE",
    "DECAYED",
    "HUMAN",
    "LENGTHS",
    "NETWORKS",
    "NOISES",
    "OFFICIAL",
    "PLAIN",
    "PROTOCOLS",
    "TOOLS",
    "TUNED",
    "Config",
    "Noise",
    "Part",
    "Result",
    "Run",
    "Source",
    "TableOptions",
    "Tried",
]

PLAIN, DECAYED, ADAPTIVE, TOOLS, TUNED = PROTOCOLS = ("untuned", "decayed", "adaptive", "tools", "tuned")
"""Untuned; with strong weight decay and averaged weights; with weight decay that follows overfitting and averaged
weights; what a user would take instead, as it comes; with settings chosen on validation rows."""
NETWORKS = "networks"
"""The group of all methods that train the same network. Every other group is one method that is another model."""
LENGTHS = (1, 2, 4, 8)
"""Training lengths at which every method is measured, as multiples of the first."""
OFFICIAL = ("top 1", "rank of last", "squared error")
"""The official metrics of protein homology beside AP."""


HUMAN = "human "
"""Begins a kind of noise that is labels people gave; their name follows."""


class Noise(NamedTuple):
    """A kind of wrong labels, and their rate."""

    kind: str
    rate: float

    @property
    def given(self) -> str:
        """The name of the labels that people gave, if they are what is noisy. The rate is then that of the labels."""
        return self.kind.removeprefix(HUMAN) if self.kind.startswith(HUMAN) else ""

    @property
    def is_wrong(self) -> bool:
        """Whether labels are wrong."""
        return self.rate > 0 or bool(self.given)


NOISES = (
    Noise("symmetric", 0.0),
    Noise("symmetric", 0.4),
    Noise("symmetric", 0.2),
    Noise("missing positives", 0.5),
    Noise("near the boundary", 0.2),
)


@dataclass(frozen=True, kw_only=True)
class TableOptions(DataOptions):
    """What the study takes."""

    protocol: Annotated[str, Option(f"One of: {', '.join(PROTOCOLS)}.")] = "untuned"
    noise: Annotated[
        str | None,
        Option("Only wrong labels of this kind: symmetric, missing positives, near the boundary.", metavar="KIND"),
    ] = None


class Part(NamedTuple):
    """One table: its name, and its key in the cache; empty for a table of scikit-learn."""

    name: str
    key: str

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the labels that people gave. The key ends with them."""
        return tuple(self.key.split(".")[1:])


@dataclass(frozen=True)
class Source:
    """Tables, and the groups of methods that can run on them. That of a configuration has one of each."""

    protocol: str
    parts: tuple[Part, ...]
    groups: tuple[str, ...]


class Tried(NamedTuple):
    """A method and its settings."""

    method: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Config:
    """A group of methods on one table, split and made noisy by one seed, with all settings."""

    method: str
    """The group."""
    seed: int
    noise: Noise
    source: Source
    iterations: int
    batch: int
    tried: tuple[Tried, ...]

    @property
    def settings(self) -> dict[str, tuple[Setting, ...]]:
        """By method."""
        return dict(self.tried)

    @property
    def table(self) -> str:
        """Its name."""
        return self.source.parts[0].name

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        kind = self.noise.kind if self.noise.given else f"{100 * self.noise.rate:.0f} % {self.noise.kind}"
        return f"{self.table}, {self.method}, {kind}, {self.source.protocol}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """AP on noisy validation and on clean test data, by method: at every length, and there by setting."""

    iterations: tuple[int, ...]
    """Of the lengths."""
    validation: dict[str, Curve]
    test: dict[str, Curve]
    official: dict[str, dict[str, Curve]]
    """Other metrics of test data with lists, by metric and method; none of other tables."""
    seconds: dict[str, float]
    """Of one training to the greatest length, by method."""

    def check(self, config: Config) -> None:
        """Raise a ValueError unless every method has all lengths and settings, and AP is from 0 to 1."""
        for name, curves in {"validation": self.validation, "test": self.test, **self.official}.items():
            if curves.keys() != config.settings.keys():
                raise ValueError(f"{name} must have the methods {', '.join(config.settings)}")
            metric, highest = (name, inf) if name in self.official else ("AP", 1.0)
            for method, curve in curves.items():
                settings = len(config.settings[method])
                check_curves({f"{name} of {method}": curve}, len(self.iterations), settings, metric, highest)
        if self.seconds.keys() != config.settings.keys() or not self.iterations:
            raise ValueError("seconds must have every method, and iterations a length")


Run = harness.Run[Config, Result]
