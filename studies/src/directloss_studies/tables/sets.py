"""The tables: read once into the cache, then split and made noisy by a seed, alike for every method."""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.label_noise import flip_labels, flip_near_boundary, miss_positives
from ..data.tabular import TableError, read_blocks, read_noisy, read_table
from ..harness.cache import Cache, key_of
from ..sweep import Setting
from .config import Noise, Part
from .objectives import Facts
from .training import Rows, train

__all__ = ["CACHE", "LEARN", "Boundary", "Split", "find", "name_of", "noisy", "split"]

CACHE = Cache("directloss reproduce tables --data DIR")
VERSION = 1
MOST_ROWS = 10_000
MOST_COLUMNS = 1024
FEWEST_POSITIVES = 40
SHARES = (0.5, 0.2)
"""Of the rows: for training, for validation; the rest is for testing."""


class Split(NamedTuple):
    """Three parts of a table, standardised by the first, with right labels."""

    train: Rows
    validation: Rows
    test: Rows


def _breast_cancer() -> tuple[Any, Any]:
    from sklearn.datasets import load_breast_cancer

    inputs, target = load_breast_cancer(return_X_y=True)
    return inputs, target == 0  # malignant


def _digit(digit: int) -> Callable[[], tuple[Any, Any]]:
    def load() -> tuple[Any, Any]:
        from sklearn.datasets import load_digits

        inputs, target = load_digits(return_X_y=True)
        return inputs, target == digit

    return load


def _wine() -> tuple[Any, Any]:
    from sklearn.datasets import load_wine

    inputs, target = load_wine(return_X_y=True)
    return inputs, target == 2


LEARN: dict[str, Callable[[], tuple[Any, Any]]] = {
    "breast cancer": _breast_cancer,
    "digit 8": _digit(8),
    "digit 9": _digit(9),
    "wine 3": _wine,
}
"""Tables of scikit-learn, for those who have no others."""


def find(folder: Path) -> tuple[tuple[Part, ...], list[str]]:
    """Read all tables of a folder into the cache. Returns them, and notes on those that are left out."""
    paths = sorted(folder.glob("*.npz"), key=lambda path: name_of(path.name).lower())
    parts: list[Part] = []
    notes = []
    for path in paths:
        inputs, target = read_table(path)
        blocks = read_blocks(path)
        if blocks is not None and len(blocks) != len(target):
            raise TableError(f"{path}: blocks must be (rows,), as y is; got {blocks.shape} and {target.shape}.")
        kept = np.arange(len(target)) if blocks is not None else _thinned(target, name_of(path.name))
        positives = int(target[kept].sum())
        if min(positives, len(kept) - positives) < FEWEST_POSITIVES or inputs.shape[1] > MOST_COLUMNS:
            notes.append(
                f"{path.name} is left out: it has {positives} positives in {len(kept)} rows and {inputs.shape[1]} "
                f"columns; both classes need {FEWEST_POSITIVES} rows, and at most {MOST_COLUMNS} columns are used."
            )
            continue
        given = read_noisy(path, len(target))
        lists = blocks if blocks is not None else np.zeros(len(target))
        columns = [array[:, None] for array in (lists, target, *given.values())]
        rows = np.concatenate([*columns, inputs], axis=1, dtype=np.float32)[kept]
        digest = hashlib.sha256(rows.tobytes()).hexdigest()
        key = key_of(kind="table", version=VERSION, sha256=digest, columns=inputs.shape[1])
        key = ".".join([key, *given])
        CACHE.make_array(key, lambda rows=rows: rows)
        parts.append(Part(name_of(path.name), key))
    if len({part.name for part in parts}) < len(parts):
        raise TableError(f"{folder} has several tables of one name. A number and _ before a name do not count.")
    if not parts:
        raise TableError(
            f"{folder} holds no table that can be used. {' '.join(notes)} "
            "`directloss data tables --root DIR` gets some; --data DIR names their folder."
        )
    return tuple(parts), notes


def name_of(file: str) -> str:
    """The name of a table: that of its file, without the number that ADBench puts before it."""
    number, _, rest = (stem := file.removesuffix(".npz")).partition("_")
    return (rest if number.isdecimal() and rest else stem).replace("_", " ")


def _seed(*parts: object) -> int:
    """A number that depends on these words only."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:7], "big")


def _thinned(target: NDArray[np.bool_], name: str) -> NDArray[np.int64]:
    """Rows of a table: all, or so many at random, with the same share of positives."""
    if len(target) <= MOST_ROWS:
        return np.arange(len(target))
    generator = np.random.default_rng(_seed("thin", name))
    share = MOST_ROWS / len(target)
    kept = [
        generator.choice(places := np.flatnonzero(target == value), round(share * len(places)), replace=False)
        for value in (False, True)
    ]
    return np.sort(np.concatenate(kept))


def _load(part: Part) -> Rows:
    if part.key:
        rows = torch.from_numpy(np.array(CACHE.array(part.key)))
        lists = rows[:, 0].long()
        first = 2 + len(part.given)
        given = rows[:, 2:first] > 0 if part.given else None
        return Rows(rows[:, first:].contiguous(), rows[:, 1] > 0, lists if lists.any() else None, given)
    if part.name not in LEARN:
        raise ValueError("Name the folder with the tables: directloss reproduce tables --data DIR.")
    inputs, target = LEARN[part.name]()
    return Rows(torch.from_numpy(inputs).float(), torch.from_numpy(target))


@lru_cache(maxsize=2)
def split(part: Part, seed: int) -> Split:
    """Half of the rows for training, a fifth for validation, the rest for testing; of a table with lists, of the lists.

    It depends on the name of the table and the seed. The parts of a table have equal shares of positives.
    """
    table = _load(part)
    generator = torch.Generator().manual_seed(_seed("split", part.name, seed))

    def cut(places: Tensor) -> list[Tensor]:
        places = places[torch.randperm(len(places), generator=generator)]
        first, second = (round(len(places) * share) for share in SHARES)
        return list(places.split([first, second, len(places) - first - second]))

    if table.lists is None:
        classes = [cut((table.target == value).nonzero().squeeze(1)) for value in (True, False)]
        parts = [torch.cat(some) for some in zip(*classes, strict=True)]
    else:
        parts = [torch.isin(table.lists, lists).nonzero().squeeze(1) for lists in cut(table.lists.unique())]
    first = table.inputs[parts[0]].double()
    mean, spread = first.mean(0), first.std(0)
    inputs = ((table.inputs - mean) / spread.where(spread > 0, 1.0)).float().clamp(-10, 10)

    def of(k: Tensor) -> Rows:
        more = (None if each is None else each[k] for each in (table.lists, table.given))
        return Rows(inputs[k], table.target[k], *more)

    return Split(*map(of, parts))


class Boundary(NamedTuple):
    """How the network is trained that says where the boundary is."""

    steps: int
    batch: int
    learning_rate: float


def noisy(part: Part, of: Split, noise: Noise, seed: int, settings: Boundary) -> tuple[Rows, Rows, Facts]:
    """Training and validation data with wrong labels, and the facts; they depend on table, seed and noise only."""
    generator = torch.Generator().manual_seed(_seed(noise.kind, part.name, seed))
    rows = [of.train, of.validation]
    right = torch.cat([each.target for each in rows])
    if noise.kind == "symmetric":
        wrong = flip_labels(right, noise.rate, generator)
    elif noise.kind == "missing positives":
        wrong = miss_positives(right, noise.rate, generator)
    elif noise.kind == "near the boundary":
        wrong = flip_near_boundary(right, _distances(of, settings, seed), noise.rate, generator)
    elif noise.given in part.given:
        wrong = torch.cat([each.given[:, part.given.index(noise.given)] for each in rows if each.given is not None])
    else:
        raise ValueError(f"There is no noise {noise.kind!r}.")
    labels = wrong.split([len(each.target) for each in rows])
    train_rows, validation = (each._replace(target=label) for each, label in zip(rows, labels, strict=True))
    flipped, positive = train_rows.target != of.train.target, of.train.target
    facts = Facts(
        rows=len(positive),
        share=float(train_rows.target.double().mean()),
        missed=float(flipped[positive].double().mean()),
        invented=float(flipped[~positive].double().mean()),
        flipped=float(flipped.double().mean()),
        warm_up=settings.steps // 10,
    )
    return train_rows, validation, facts


def _distances(of: Split, settings: Boundary, seed: int) -> Tensor:
    """From the boundary of a network that was trained on right labels, for training and validation rows.

    The boundary is the score above which it has as many training rows as there are positives.
    """
    found: list[Tensor] = []
    inputs = torch.cat([of.train.inputs, of.validation.inputs])
    facts = Facts(len(of.train.target), float(of.train.target.double().mean()), 0.0, 0.0, 0.0, 0)
    train(
        of.train, {"x-ent": (Setting(1.0, settings.learning_rate, 0.0),)}, facts, batch=settings.batch,
        moments=(settings.steps,), seed=seed, record=lambda _, model: found.append(model(inputs)[0]),
    )  # fmt: skip
    (scores,) = found
    return (scores - scores[: facts.rows].quantile(1 - facts.share)).abs()
