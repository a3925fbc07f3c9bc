"""Documents of queries with grades of relevance, in the text format of svmlight and LETOR.

A line is a document: grade, optionally qid:NUMBER, then column:value with columns from 1 on, and a comment after #.
Files are read without trust. Whatever is wrong with one, the error names it and the line.
"""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .tabular import TableError

__all__ = ["Queries", "read_lambdarank", "read_letor"]

LARGEST = 1 << 26  # bytes of a file that is read
MOST_COLUMNS = 4096
MOST_VALUES = 1 << 26
HIGHEST_GRADE = 31


class Queries(NamedTuple):
    """All documents, query after query."""

    inputs: NDArray[np.float32]
    grades: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """The number of documents of each query."""


class _Lines(NamedTuple):
    grades: list[int]
    queries: list[int]
    """Empty if the lines have no qid."""
    values: NDArray[np.float32]
    """NaN where a line has no value."""


def read_lambdarank(folder: Path) -> Queries:
    """LightGBM's examples/lambdarank: rank.train and rank.test together, with query sizes in .query files."""
    parts = {name: _read(folder / name) for name in ("rank.train", "rank.test")}
    sizes = [_sizes(folder / f"{name}.query", len(part.grades)) for name, part in parts.items()]
    width = max(part.values.shape[1] for part in parts.values())
    padded = [np.pad(part.values, ((0, 0), (0, width - part.values.shape[1]))) for part in parts.values()]
    inputs, grades = np.concatenate(padded), np.array([grade for part in parts.values() for grade in part.grades])
    return Queries(np.nan_to_num(inputs), grades, np.concatenate(sizes))


def read_letor(folder: Path) -> Queries:
    """The files A1.txt to A5.txt of MQ2007-agg: the rank of a document in 21 lists, or NULL where it is in none.

    A rank becomes two columns: whether there is one, and its logarithm.
    """
    inputs, grades, sizes = [], [], []
    for path in (folder / f"A{number}.txt" for number in range(1, 6)):
        part = _read(path)
        if not part.queries:
            raise TableError(f"{path}: lines must have a qid.")
        if (part.values <= 0).any():
            raise TableError(f"{path}: ranks must be above 0.")
        ends = np.append(np.flatnonzero(np.diff(part.queries)) + 1, len(part.queries))
        sizes.append(np.diff(ends, prepend=0))
        there = ~np.isnan(part.values)
        inputs.append(np.concatenate([there, np.log(np.where(there, part.values, 1.0))], 1, dtype=np.float32))
        grades += part.grades
    if len({part.shape[1] for part in inputs}) > 1:
        raise TableError(f"{folder}: its files have different numbers of columns.")
    return Queries(np.concatenate(inputs), np.array(grades), np.concatenate(sizes))


def _text(path: Path) -> str:
    if not path.is_file():
        raise TableError(f"{path} is missing.")
    size = path.stat().st_size
    if size > LARGEST:
        raise TableError(f"{path} has {size} bytes, more than the {LARGEST} that are read.")
    try:
        return path.read_text(encoding="ascii")
    except UnicodeDecodeError:
        raise TableError(f"{path} is not a text of numbers.") from None


def _sizes(path: Path, documents: int) -> NDArray[np.int64]:
    try:
        sizes = [int(line) for line in _text(path).split()]
    except ValueError:
        raise TableError(f"{path} must hold one integer per line.") from None
    if any(size < 1 for size in sizes) or sum(sizes) != documents:
        raise TableError(f"{path} must hold sizes of queries that add up to {documents}; got {sum(sizes)}.")
    return np.array(sizes)


def _read(path: Path) -> _Lines:
    grades: list[int] = []
    queries: list[int] = []
    entries: list[tuple[list[int], list[float]]] = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        try:
            grade, query, columns, values = _document(line)
        except ValueError as error:
            raise TableError(f"{path}, line {number}: {str(error)[:200]}") from None
        grades.append(grade)
        if query is not None:
            queries.append(query)
        entries.append((columns, values))
    if not grades or len(queries) not in (0, len(grades)):
        raise TableError(f"{path} must have documents, and either all or none of them a qid.")
    width = max((max(columns) for columns, _ in entries if columns), default=0)
    if not width or width * len(grades) > MOST_VALUES:
        raise TableError(
            f"{path} has {len(grades)} documents with {width} columns; at most {MOST_VALUES} values are read."
        )
    dense = np.full((len(grades), width), np.nan, np.float32)
    for row, (columns, values) in enumerate(entries):
        dense[row, np.array(columns, np.int64) - 1] = values
    return _Lines(grades, queries, dense)


def _document(line: str) -> tuple[int, int | None, list[int], list[float]]:
    grade, *fields = line.split("#", 1)[0].split()
    query = int(fields.pop(0)[4:]) if fields and fields[0].startswith("qid:") else None
    columns, values = [], []
    for field in fields:
        column, _, value = field.partition(":")
        if value != "NULL":
            columns.append(int(column))
            values.append(float(value))
    if not 0 <= int(grade) <= HIGHEST_GRADE:
        raise ValueError(f"a grade must be from 0 to {HIGHEST_GRADE}; got {grade}")
    if len(set(columns)) < len(columns) or not all(1 <= column <= MOST_COLUMNS for column in columns):
        raise ValueError(f"columns must be different numbers from 1 to {MOST_COLUMNS}")
    if not all(math.isfinite(value) and abs(value) < 1e30 for value in values):
        raise ValueError("values must be finite")
    return int(grade), query, columns, values
