"""Numbers of studies/results/ as cells and tables, and the functions that documents may name."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

__all__ = [
    "BLOCKS",
    "MEASURED",
    "PLAIN",
    "RESULTS",
    "ROOT",
    "Key",
    "as_table",
    "block",
    "error_cell",
    "gain_cell",
    "in_percent",
    "mean_cell",
    "records_of",
    "rows_of_means",
    "select",
    "with_error",
]

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "studies" / "results"
"""Of studies."""
MEASURED = ROOT / "results"
"""Of the library: times, and what the tools beside the tests found."""

BLOCKS: dict[str, Callable[[], str]] = {}
"""What makes each block."""


def block(function: Callable[[], str]) -> Callable[[], str]:
    """Let documents name this function."""
    BLOCKS[function.__name__] = function
    return function


PLAIN = "plain x-ent"
"""Cross-entropy whose scores are not multiplied by a tuned scale; older results call it "x-ent, scale 1"."""


class Key(NamedTuple):
    """What a record is of."""

    variant: str
    method: str
    noise: float
    class_: str | None
    metric: str


@cache
def records_of(name: str) -> dict[tuple[str, str, float, str | None, str], dict[str, Any]]:
    """The flat records of a file of results, by what they are of."""
    records = json.loads((RESULTS / f"{name}.json").read_text().replace('"x-ent, scale 1"', f'"{PLAIN}"'))
    return {Key(*(record[of.rstrip("_")] for of in Key._fields)): record for record in records}


def select(name: str, **wanted: Any) -> dict[Key, dict[str, Any]]:
    """The records of a file of results that have these values in their key."""
    return {
        Key(*key): record
        for key, record in records_of(name).items()
        if all(getattr(key, of) == value for of, value in wanted.items())
    }


def mean_cell(
    name: str, variant: str, method: str, noise: float = 0.0, class_: str | None = None, metric: str = "test_ap"
) -> str:
    """Test AP, or another metric, ± standard deviation, or a dash where there was no run."""
    record = records_of(name).get((variant, method, noise, class_, metric))
    if not record:
        return "–"
    return f"{record['mean']:.3f}" + (f" ± {record['sd']:.3f}" if record["n"] > 1 else "")


def gain_cell(name: str, variant: str, method: str, noise: float = 0.0, ours: str = "pos-AP") -> str:
    """Ours minus a method ± standard error, or a dash."""
    return error_cell(name, (variant, method, noise, None, f"{ours}_minus_this"), "+")


def as_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown; every row must hold a number."""
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    if any(not any(character.isdigit() for character in "".join(row[1:])) for row in rows):
        raise ValueError(f"A row without numbers under {header}: names in studies/results/ have changed.")
    return "\n".join(lines)


def rows_of_means(
    columns: Mapping[str, Mapping[str, float]],
    methods: Iterable[str],
    bold: Callable[[str], bool] = lambda method: False,
) -> list[list[str]]:
    """A row of means for every method; the highest of a column among the methods for which `bold` is true is bold."""
    best = {
        name: max((mean for method, mean in means.items() if bold(method)), default=None)
        for name, means in columns.items()
    }

    def shown(name: str, mean: float | None) -> str:
        text = "–" if mean is None else f"{mean:.3f}"
        return f"**{text}**" if mean is not None and mean == best[name] else text

    return [[method, *(shown(name, means.get(method)) for name, means in columns.items())] for method in methods]


def in_percent(noises: Iterable[float]) -> list[str]:
    """Shares as headings."""
    return [f"{noise:.0%}".replace("%", " %") for noise in noises]


def error_cell(name: str, key: tuple[str, str, float, str | None, str], sign: str = "") -> str:
    """Mean ± standard error of a record, or a dash."""
    record = records_of(name).get(key)
    if not record:
        return "–"
    return f"{record['mean']:{sign}.3f} ± {record['sd'] / record['n'] ** 0.5:.3f}".replace("-", "−")


def with_error(values: Sequence[float], sign: str = "") -> str:
    """Mean ± standard error."""
    error = stdev(values) / len(values) ** 0.5
    return f"{mean(values):{sign}.3f} ± {error:.3f}".replace("-", "−")
