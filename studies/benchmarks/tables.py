"""Tables for studies of training, split and standardised; and a file of runs that a stopped study goes on with."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from directloss_studies.data.tabular import read_table
from torch import Tensor

__all__ = ["TABLES", "Part", "Runs", "Split", "load", "split"]

TABLES = {
    "annthyroid": "2_annthyroid.npz",
    "celeba": "8_celeba.npz",
    "cover": "10_cover.npz",
    "magic": "22_magic.gamma.npz",
    "mammography": "23_mammography.npz",
    "satellite": "30_satellite.npz",
}
"""Files of ADBench (github.com/Minqi824/ADBench, Classical)."""


class Part(NamedTuple):
    """Rows of a table."""

    x: Tensor
    """(rows, columns), of mean 0 and variance 1 in training."""
    target: Tensor
    """(rows,) bool."""


class Split(NamedTuple):
    """The three parts of a table."""

    training: Part
    validation: Part
    test: Part


def load(folder: Path, table: str) -> Part:
    """A whole table, as it is."""
    x, target = read_table(folder / TABLES[table])
    return Part(torch.from_numpy(x), torch.from_numpy(target))


def split(table: Part, rows: int | None, shares: tuple[float, float], generator: torch.Generator) -> Split:
    """At most so many rows of a table, of which the shares are for training and validation, and the rest for tests."""
    drawn = torch.randperm(len(table.x), generator=generator)[:rows]
    sizes = [round(share * len(drawn)) for share in shares]
    training, validation, test = drawn.split([*sizes, len(drawn) - sum(sizes)])
    mean, spread = table.x[training].mean(0), table.x[training].std(0).clamp(min=1e-6)
    return Split(*(Part((table.x[part] - mean) / spread, table.target[part]) for part in (training, validation, test)))


class Runs:
    """Results of runs in one file, which is written anew after every run, so that a study can be stopped."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = json.loads(json.dumps(settings))
        found = json.loads(path.read_text()) if path.exists() else {"settings": self.settings, "runs": []}
        if found["settings"] != self.settings:
            raise ValueError(f"{path} has other settings. Move it away to begin anew.")
        self.runs: list[dict[str, Any]] = found["runs"]

    def has(self, **key: Any) -> bool:
        """Whether there is a run with these values."""
        return any(key.items() <= run.items() for run in self.runs)

    def add(self, run: dict[str, Any]) -> None:
        """Add a run, and write all."""
        self.runs.append(run)
        rows = ",\n".join(json.dumps(one, ensure_ascii=False) for one in self.runs)
        fresh = self.path.with_suffix(".part")
        fresh.write_text(f'{{"settings": {json.dumps(self.settings, ensure_ascii=False)},\n"runs": [\n{rows}\n]}}\n')
        fresh.replace(self.path)
