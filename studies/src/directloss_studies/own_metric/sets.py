"""The sets of data: where each is, what counts as positive, and how a seed splits it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.queries import Queries, read_lambdarank, read_letor
from ..data.tabular import TableError, read_table
from ..harness.cache import Cache, key_of
from .config import Part, Source
from .lists import Lists

__all__ = ["CACHE", "MADE", "SETS", "Set", "find", "split"]

CACHE = Cache("directloss reproduce own-metric --data DIR")
VERSION = 1


@dataclass(frozen=True)
class Set:
    """A set of data, and what the study does with it."""

    folder: str
    """Or file, in the folder with the data; empty for data that is made here."""
    read: Callable[[Path], Queries]
    positive: int
    """The grade from which on an item is positive."""
    k: int
    """Of P@k."""
    max_fpr: float
    """Of pAUC."""
    hidden: tuple[int, ...]
    """Widths of the hidden layers."""
    batch: int | None = None
    """Lists of an iteration; None: all."""

    @property
    def is_table(self) -> bool:
        """Whether it is one list of items instead of many lists."""
        return self.read in (_table, _made_table)


def _table(path: Path) -> Queries:
    inputs, target = read_table(path)
    return Queries(inputs, target.astype(np.int64), np.array([len(target)]))


def _made_table(_: Path) -> Queries:
    """1200 points of N(0, I); those whose noisy score is highest, one in twenty, are positive."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(1200, 6)).astype(np.float32)
    scores = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + 0.5 * generator.normal(size=1200)
    return Queries(inputs, (scores >= np.sort(scores)[-60]).astype(np.int64), np.array([1200]))


def _made_queries(_: Path) -> Queries:
    """60 lists of 20 points of N(0, I); the rank of a noisy score in its list gives grades from 0 to 3."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(1200, 6)).astype(np.float32)
    scores = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + generator.normal(size=1200)
    ranks = (-scores.reshape(60, 20)).argsort(1).argsort(1).reshape(-1)
    return Queries(inputs, (ranks < 1).astype(np.int64) + (ranks < 3) + (ranks < 7), np.full(60, 20))


SETS: dict[str, Set] = {
    "annthyroid": Set("tabular/2_annthyroid.npz", _table, 1, 50, 0.1, (32, 32)),
    "lambdarank": Set("ranking", read_lambdarank, 2, 5, 0.25, ()),
    "mammography": Set("tabular/23_mammography.npz", _table, 1, 50, 0.1, (32, 32)),
    "MQ2007-agg": Set("mq2007-agg", read_letor, 1, 5, 0.25, (32,), 50),
}
MADE: dict[str, Set] = {
    "made table": Set("", _made_table, 1, 10, 0.1, (16,)),
    "made queries": Set("", _made_queries, 2, 5, 0.25, (16,)),
}
"""What the quick preset uses if it gets no data."""


def find(folder: Path) -> tuple[Source, list[str]]:
    """Read all sets that are in a folder into the cache. Returns them, and a note on those that are missing."""
    there = {name: of for name, of in SETS.items() if (folder / of.folder).exists()}
    places = ", ".join(of.folder for of in SETS.values())
    if not there:
        raise TableError(
            f"{folder} holds none of {places}. docs/studies/own-metric.md says where to get them. Name their folder: "
            "--data DIR."
        )
    parts = []
    for name, of in there.items():
        inputs, grades, sizes = of.read(folder / of.folder)
        content = [np.ascontiguousarray(array) for array in (inputs, grades, sizes)]
        digest = hashlib.sha256(b"".join(array.tobytes() for array in content)).hexdigest()
        key = key_of(kind="lists", version=VERSION, sha256=digest, columns=inputs.shape[1])
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        CACHE.make_array(key, lambda rows=(numbers, grades, inputs): _rows(*rows))
        parts.append(Part(name, key))
    missing = [of.folder for name, of in SETS.items() if name not in there]
    return Source(tuple(parts)), [f"Not in {folder}, so left out: {', '.join(missing)}."] if missing else []


def _rows(numbers: NDArray[np.int64], grades: NDArray[np.int64], inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """One array: the number of the list, the grade, the columns."""
    return np.concatenate([numbers[:, None], grades[:, None], inputs], axis=1, dtype=np.float64)


def split(of: Set, key: str, seed: int) -> tuple[Lists, Lists, Lists]:
    """Training, validation and test data by a seed, standardised by the training data.

    A table is cut into thirds that have equal shares of positives. Of queries, those with a positive and a negative
    document are shuffled; three fifths are for training, a fifth each for validation and test.
    """
    if key:
        rows = torch.from_numpy(np.array(CACHE.array(key)))
        lists = Lists(rows[:, 2:].float(), rows[:, 1].long(), rows[:, 0].long().bincount(), of.positive)
    else:
        inputs, grades, sizes = map(torch.from_numpy, of.read(Path()))
        lists = Lists(inputs, grades, sizes, of.positive)
    generator = torch.Generator().manual_seed(seed)
    parts = _thirds(lists, generator) if of.is_table else _fifths(lists.that_count(), generator)
    mean, spread = parts[0].inputs.mean(0), parts[0].inputs.std(0)
    for part in parts:
        part.inputs = (part.inputs - mean) / spread.where(spread > 0, 1.0)
    return parts


def _shuffled(places: Tensor, generator: torch.Generator) -> Tensor:
    return places[torch.randperm(len(places), generator=generator)]


def _thirds(table: Lists, generator: torch.Generator) -> tuple[Lists, Lists, Lists]:
    positive = table.grades >= table.positive
    classes = [
        _shuffled((positive == value).nonzero().squeeze(1), generator).tensor_split(3) for value in (True, False)
    ]
    parts = [torch.cat(third) for third in zip(*classes, strict=True)]
    train, validation, test = (
        Lists(table.inputs[items], table.grades[items], torch.tensor([len(items)]), table.positive) for items in parts
    )
    return train, validation, test


def _fifths(lists: Lists, generator: torch.Generator) -> tuple[Lists, Lists, Lists]:
    fifth = len(lists) // 5
    order = _shuffled(torch.arange(len(lists)), generator)
    train, validation, test = (lists.only(part) for part in order.split([len(lists) - 2 * fifth, fifth, fifth]))
    return train, validation, test
