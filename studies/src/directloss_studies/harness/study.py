"""What a study is: typed options, typed configurations, a function that runs one, and a summary of all runs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any, Generic, NamedTuple, Protocol, TypeVar, get_type_hints

from .options import Options, options_of
from .progress import Progress, Steps
from .typed import JsonName

__all__ = [
    "AnyStudy",
    "Claim",
    "Comparison",
    "Config",
    "Export",
    "Figure",
    "Leaderboard",
    "Provenance",
    "Record",
    "Run",
    "Study",
    "Summary",
    "Table",
]


class Config(Protocol):
    """What all configurations have. Each study has a frozen dataclass of its own, with plain values."""

    @property
    def method(self) -> str:
        """What is trained with."""
        ...

    @property
    def seed(self) -> int:
        """From 0 on."""
        ...

    @property
    def iterations(self) -> int:
        """Of training."""
        ...

    @property
    def label(self) -> str:
        """What a progress bar shows; not part of the file."""
        ...


ConfigT = TypeVar("ConfigT", bound=Config)
ResultT = TypeVar("ResultT")
OptionsT = TypeVar("OptionsT", bound=Options)
SourceT = TypeVar("SourceT")


@dataclass(frozen=True)
class Provenance:
    """How a run was made: how long it took, and with which versions."""

    seconds: float
    python: str = ""
    directloss: str = ""
    torch: str = ""
    numpy: str = ""
    numba: str = ""
    machine: str = ""

    @property
    def versions(self) -> dict[str, str]:
        """All but the time, by name."""
        return {of.name: value for of in fields(self) if of.name != "seconds" and (value := getattr(self, of.name))}


@dataclass(frozen=True)
class Run(Generic[ConfigT, ResultT]):
    """A finished run: its configuration, its result, and how it was made."""

    config: ConfigT
    result: ResultT
    provenance: Annotated[Provenance, JsonName("made")]


class Record(NamedTuple):
    """One number of a summary, in flat form."""

    study: str
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
    """What somebody says of one variant of a study, and the comparisons that test it."""

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
class Leaderboard:
    """Rows that a reader of the page can filter, average and sort; too many to print."""

    title: str
    keys: Sequence[str]
    """Names of the columns that say what a row is of."""
    values: Sequence[str]
    """Names of the columns with numbers, which follow."""
    rows: Sequence[tuple[str | float | None, ...]]
    begin: Sequence[str]
    """What is chosen at first for each key: one of its values, "each" for a row a value, or "mean" for the mean."""


@dataclass(frozen=True)
class Figure:
    """A picture as SVG with the words for those who cannot see it."""

    name: str
    title: str
    svg: str
    alt: str


@dataclass(frozen=True)
class Summary:
    """What the report shows of a study."""

    records: Sequence[Record] = ()
    claims: Sequence[Claim] = ()
    tables: Sequence[Table] = ()
    figures: Callable[[], Sequence[Figure]] = field(default=lambda: ())
    headline: str = ""
    """The most important result in one sentence, made from the runs; empty while there are too few."""
    overview: Sequence[Table] = ()
    """The tables that a terminal shows: at most six columns."""
    leaderboards: Sequence[Leaderboard] = ()
    """On the page only."""


@dataclass(frozen=True)
class Export(Generic[ConfigT, ResultT]):
    """Files that people can use, written from the runs."""

    folder: str
    """Its name, beside the runs."""
    write: Callable[[Sequence[Run[ConfigT, ResultT]], Path], list[Path]]
    """Write into a folder; return what was written."""


@dataclass(frozen=True)
class Study(Generic[OptionsT, SourceT, ConfigT, ResultT]):
    """A study of the paper, or one beside it."""

    name: str
    title: str
    about: str
    version: int
    """Part of every file name. A configuration holds what a result depends on and what may differ from run to run.
    The version stands for the rest: code, and the constants of the modules. Raise it when the same configuration would
    give other numbers."""
    configs: Callable[[OptionsT, SourceT | None], Sequence[ConfigT]]
    """The configurations of the options on a source. Without a source they can be counted, and if the study makes
    its own data, also run. The options are a subclass of `Options`."""
    run: Callable[[ConfigT, Progress], ResultT]
    """Run one configuration, a frozen dataclass of plain values; a pure function of it. The result is a dataclass of
    plain values too."""
    summarise: Callable[[Sequence[Run[ConfigT, ResultT]]], Summary]
    prepare: Callable[[OptionsT, int, Steps], tuple[SourceT, list[str]]] | None = None
    """Read data and compute what is costly, once for all runs, in so many processes (0: as many as cores). Returns the
    source, a frozen dataclass of plain values, and notes for the person who runs it. None if a study makes its
    own data."""
    export: Export[ConfigT, ResultT] | None = None
    beside: Sequence[str] = ()
    """Methods that stand beside the others, and that no claim is about: claims do not wait for their runs."""
    first_seed: int = 0
    """Not 0 if an earlier version has published other seeds."""
    presets: Sequence[str] = ("quick", "paper")

    @cached_property
    def options(self) -> type[OptionsT]:
        """What a person can ask for: as `configs` is annotated."""
        return get_type_hints(self.configs)["options"]

    @cached_property
    def config(self) -> type[ConfigT]:
        """As `run` is annotated."""
        return get_type_hints(self.run)["config"]

    @cached_property
    def result(self) -> type[ResultT]:
        """As `run` is annotated."""
        return get_type_hints(self.run)["return"]

    def options_from(self, preset: str, seeds: int | None, source: Any = None) -> OptionsT:
        """The options that give this source: it holds them in fields of the same name."""
        names = [member.name for member in options_of(self.options) if not member.is_path]
        given = {name: getattr(source, name) for name in names if hasattr(source, name)}
        return self.options(preset=preset, seeds=seeds, **given)


AnyStudy = Study[Any, Any, Any, Any]
