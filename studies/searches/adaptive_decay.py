"""Which constants `AdaptiveDecay` should have: ten tables, five kinds of labels, one seed that no study uses.

Every variant trains beside the others, as the study `tables` trains its methods: x-ent, the pairwise sigmoid and pos-AP
with each set of constants and with each fixed decay.

    python studies/searches/adaptive_decay.py DIR    # `directloss data tables --root DIR`; half an hour of one core

It goes on where it was stopped, and writes studies/results/adaptive-decay-search.json.
"""

import itertools
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from directloss_studies.sweep import Setting
from directloss_studies.tables import sets, study, training
from directloss_studies.tables.config import NOISES, Noise, Part

from directloss import AdaptiveDecay

ADAPTIVE: dict[str, dict[str, float]] = {
    "gap 0.02": {"gap": 0.02}, "gap 0.05": {"gap": 0.05}, "gap 0.1": {"gap": 0.1}, "gap 0.2": {"gap": 0.2},
    "gap 0.05, to 30": {"gap": 0.05, "high": 30.0}, "gap 0.1, to 30": {"gap": 0.1, "high": 30.0},
    "gap 0.05, from 0.1": {"gap": 0.05, "low": 0.1}, "gap 0.05, pace 0.1": {"gap": 0.05, "pace": 0.1},
    "gap 0.05, start at the highest": {"gap": 0.05, "start": 1.0},
}  # fmt: skip
FIXED = {"decay 0": 0.0, "decay 1": 1.0, "decay 3": 3.0, "decay 10": 10.0}
NAMES = [*ADAPTIVE, *FIXED]
METHODS = "x-ent", "pairwise sigmoid", "pos-AP"
SEED, LENGTHS = 100, (100, 200, 400, 800)
RESULTS = Path(__file__).parent.parent / "results" / "adaptive-decay-search.json"
CELLS = RESULTS.with_suffix(".cells.jsonl")


class _Variants(training._Adaptive):
    """As the study's, but each network has constants of its own, or a fixed decay."""

    def __init__(self, networks: Any, held_out: training.Rows) -> None:
        super().__init__(networks, held_out)
        for place, name in enumerate(NAMES * len(METHODS)):
            options: Any = ADAPTIVE.get(name, {})
            holder = torch.optim.AdamW([torch.zeros(1)], lr=0.0, weight_decay=1.0)
            self.each[place] = AdaptiveDecay(holder, lambda k=place: self._held_out(k), **options)

    def step(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.scores = None
        names = NAMES * len(METHODS)
        found = [
            FIXED[name] if name in FIXED else one.step(row, target)
            for name, one, row in zip(names, self.each, scores, strict=True)
        ]
        return torch.tensor(found)[:, None]


def cell(part: Part, noise: Noise) -> dict[str, list[tuple[float, float]]]:
    """By method and variant: AP on validation and on test rows at each length."""
    of = sets.split(part, SEED)
    boundary = sets.Boundary(study.STEPS, study.BATCH, study.RATE)
    train, validation, facts = sets.noisy(part, of, noise, SEED, boundary)
    found: dict[str, list[tuple[float, float]]] = {}

    def record(method: str, model: Any) -> None:
        values = (study._mean_ap(model(rows.inputs), rows) for rows in (validation, of.test))
        for name, *both in zip(NAMES, *values, strict=True):
            found.setdefault(f"{method}, {name}", []).append((both[0], both[1]))

    settings = (Setting(1.0, study.RATE, 1.0),) * len(NAMES)
    training.train(
        train, dict.fromkeys(METHODS, settings), facts, batch=study.BATCH, moments=LENGTHS, seed=SEED, record=record,
        average=study.AVERAGE, held_out=validation,
    )  # fmt: skip
    return found


def records(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over tables, at the end and stopped early."""
    found = []
    for noise in NOISES:
        mine = [one["found"] for one in cells if one["noise"] == list(noise)]
        for name, length in itertools.product(mine[0] if mine else (), ("8×", "stopped early")):
            curves = [one[name] for one in mine]
            values = [curve[-1][1] if length == "8×" else max(curve, key=lambda at: at[0])[1] for curve in curves]
            method, _, variant = name.partition(", ")
            found.append({
                "experiment": "adaptive-decay-search", "method": method, "noise": noise.rate,
                "variant": f"{variant}, {noise.kind}, {length}", "class": None, "metric": "test_ap",
                "mean": round(fmean(values), 6), "sd": None, "n": len(values),
            })  # fmt: skip
    return found


def main() -> None:
    """Run what is missing, then write the means."""
    torch.set_num_threads(1)
    training._Adaptive = _Variants
    parts = [part for part in sets.find(Path(sys.argv[1]))[0] if part.name != "protein homology"][::3]
    cells = [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []
    there = {(one["table"], tuple(one["noise"])) for one in cells}
    for noise, part in itertools.product(NOISES, parts):
        if (part.name, tuple(noise)) not in there:
            cells.append({"table": part.name, "noise": list(noise), "found": cell(part, noise)})
            with CELLS.open("a") as file:
                file.write(json.dumps(cells[-1]) + "\n")
            print(part.name, *noise, flush=True)
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records(cells))
    RESULTS.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
