"""Whole tables of ADBench in the cache, split and standardised by a seed: for studies of large training sets."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..harness.cache import Cache, key_of
from ..harness.options import DataOptions
from .tabular import read_table

__all__ = ["Rows", "Split", "WholeTable", "find_tables", "split"]

CACHE = Cache("directloss reproduce STUDY --data DIR")
VERSION = 1  # see `key_of`
FILES = {
    "annthyroid": "2_annthyroid.npz",
    "celeba": "8_celeba.npz",
    "cover": "10_cover.npz",
    "magic": "22_magic.gamma.npz",
    "mammography": "23_mammography.npz",
    "satellite": "30_satellite.npz",
}


@dataclass(frozen=True)
class WholeTable:
    """A table: its name, and its key in the cache; empty for one that is made here."""

    name: str
    key: str


class Rows(NamedTuple):
    """Rows of a table."""

    inputs: Tensor
    """(rows, columns), of mean 0 and variance 1 in training."""
    target: Tensor
    """(rows,) bool."""


class Split(NamedTuple):
    """The three parts of a table."""

    train: Rows
    validation: Rows
    test: Rows


def find_tables(options: DataOptions, names: Sequence[str]) -> tuple[WholeTable, ...]:
    """Read tables into the cache. The quick preset makes one if it gets none."""
    if options.data is None:
        if options.preset != "quick":
            raise ValueError(
                "Name the folder with the tables: --data DIR. `directloss data tables --root DIR` gets them."
            )
        return (WholeTable("made", ""),)
    tables = []
    for name in names:
        inputs, target = read_table(options.data / FILES[name])
        rows = np.column_stack([target, inputs]).astype(np.float32)
        key = key_of(kind="whole table", version=VERSION, sha256=hashlib.sha256(rows.tobytes()).hexdigest())
        CACHE.make_array(key, lambda rows=rows: rows)
        tables.append(WholeTable(name, key))
    return tuple(tables)


def _load(table: WholeTable) -> Rows:
    if table.key:
        rows = torch.from_numpy(np.array(CACHE.array(table.key)))
        return Rows(rows[:, 1:].contiguous(), rows[:, 0] > 0)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((3000, 6), generator=generator)
    signal = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + torch.randn(3000, generator=generator)
    return Rows(inputs, signal > signal.quantile(0.9))


def split(table: WholeTable, rows: int | None, shares: tuple[float, float], generator: torch.Generator) -> Split:
    """At most this number of rows. The shares are for training and validation, the rest is for tests."""
    inputs, target = _load(table)
    drawn = torch.randperm(len(inputs), generator=generator)[:rows]
    sizes = [round(share * len(drawn)) for share in shares]
    parts = drawn.split([*sizes, len(drawn) - sum(sizes)])
    mean, spread = inputs[parts[0]].mean(0), inputs[parts[0]].std(0).clamp(min=1e-6)
    return Split(*(Rows((inputs[part] - mean) / spread, target[part]) for part in parts))
