"""What an experiment is: configurations, a function that runs one, and a summary of all runs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

__all__ = ["Claim", "Comparison", "Experiment", "Figure", "Options", "Record", "Run", "Summary", "Table"]


@dataclass(frozen=True)
class Run:
    """A finished run: what was asked, what came out, and by what it was made."""

    config: dict[str, Any]
    result: dict[str, Any]
    made: dict[str, Any]


class Record(NamedTuple):
    """One number of a summary, in flat form."""

    experiment: str
    method: str
    noise: float
    variant: str
    class_: str | None
    metric: str
    mean: float
    sd: float | None
    """Standard deviation; none of a single value."""
    n: int


@dataclass(frozen=True)
class Comparison:
    """Paired differences that a claim says are positive on average."""

    name: str
    differences: Sequence[float]
    seeds: int
    """The number of different seeds among the pairs."""

    @property
    def mean(self) -> float:
        """Of the differences; there must be one."""
        return mean(self.differences)

    @property
    def error(self) -> float:
        """Standard error of the mean; there must be two differences."""
        return stdev(self.differences) / len(self.differences) ** 0.5


@dataclass(frozen=True)
class Claim:
    """What somebody says of one variant of an experiment, and the comparisons that test it."""

    says: str
    variant: str
    comparisons: Sequence[Comparison]
    source: str = "the paper"
    """Who says it."""
    complete: bool = True
    """Whether all runs are there."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    best: Collection[tuple[int, int]] = ()
    """Row and column of the cells that have the highest number of their column."""


@dataclass(frozen=True)
class Figure:
    """A picture as SVG with the words for those who cannot see it."""

    name: str
    title: str
    svg: str
    alt: str


@dataclass(frozen=True)
class Summary:
    """What the report shows of an experiment."""

    records: Sequence[Record] = ()
    claims: Sequence[Claim] = ()
    tables: Sequence[Table] = ()
    figures: Callable[[], Sequence[Figure]] = field(default=lambda: ())
    headline: str = ""
    """The most important result in one sentence, made from the runs; empty while there are too few."""
    overview: Sequence[Table] = ()
    """The tables that a terminal shows: at most six columns."""


@dataclass(frozen=True)
class Options:
    """What a command asks for of an experiment on real data."""

    preset: str
    root: Path
    backbone: str = "squeezenet"
    weights: Path | None = None
    """None: fetch them."""
    train: str = "head"
    features: str = "pooled"
    images: int | None = None
    """How many at most, 0: all; none: as many as the preset has."""
    boxes: int = 2000
    """Proposals of an image, at most."""
    positive: float = 0.5
    """Overlap with an object from which a box is on it."""
    negative: float = 0.3
    """Overlap below which it is not."""
    batch: int = 512
    jobs: int = 0
    """Processes; 0: as many as cores."""


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper, or one beside it."""

    name: str
    title: str
    about: str
    version: int
    """Part of every configuration: raise it when the same configuration would give other numbers."""
    presets: Sequence[str]
    configs: Callable[..., Sequence[Any]]
    """The configurations of a preset, for so many seeds or as many as the preset has, and, if there is something to
    prepare, on what was prepared: frozen dataclasses of plain values, all that a result depends on, method, seed and a
    label among them."""
    run: Callable[[Any, Callable[[float], object]], dict[str, Any]]
    """Run one configuration; the second argument hears the finished share. A pure function of the configuration."""
    summarise: Callable[[Sequence[Run]], Summary]
    prepare: Callable[[Options, Callable[[str], Callable[[float], object]]], tuple[Any, list[str]]] | None = None
    """From what was asked for, and what hears of steps, to a frozen dataclass of plain values, the `source` of
    configurations, and what a person should know; none if an experiment makes its own data."""
    options: Callable[[dict[str, Any]], str] = lambda source: ""
    """What to ask for on the command line, beside root and weights, to get this source."""
    export: Callable[[Sequence[Run], Path], list[Path]] | None = None
    """Write what the runs made and people can use into a folder; return what was written."""
