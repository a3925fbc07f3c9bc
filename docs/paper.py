"""The paper's numbers by class (studies/results/paper-*.csv) beside ours: rank correlations and a figure."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from directloss_studies.report.figures import LOOK, STYLES, finish

__all__ = ["MEAN", "Numbers", "Panel", "draw", "read", "spearman"]

MEAN = "mean"
"""Its numbers stand in the tables as those of one more class."""

Numbers = dict[tuple[str, float, str], float]
"""AP by class, share of flipped labels and method."""


def read(path: Path) -> Numbers:
    """A table of the paper."""
    with path.open(newline="") as file:
        return {(row["class"], float(row["noise"]), row["method"]): float(row["ap"]) for row in csv.DictReader(file)}


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of the ranks, where equal values share their mean rank; NaN if all values of one are equal."""
    ranks = np.stack([_ranks(first), _ranks(second)])
    return float(np.corrcoef(ranks)[0, 1]) if ranks.std(1).all() else float("nan")


def _ranks(values: Sequence[float]) -> Any:
    numbers = np.asarray(values)
    below, above = (numbers[:, None] > numbers).sum(1), (numbers[:, None] < numbers).sum(1)
    return (below - above) / 2


class Panel(NamedTuple):
    """One method at one share of flipped labels: AP by class."""

    title: str
    method: str
    paper: Mapping[str, float]
    ours: Mapping[str, tuple[float, float]]
    """Mean and standard deviation over seeds."""


def draw(panels: Sequence[Panel], classes: Sequence[str]) -> str:
    """SVG with a row for each class, and in each panel a hollow mark for the paper and a filled one for ours."""
    import matplotlib.style
    from matplotlib.figure import Figure

    with matplotlib.style.context(["default", LOOK]):
        canvas = Figure(figsize=(2.35 * len(panels) + 1, 0.23 * len(classes) + 1.2), layout="constrained")
        every = canvas.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        rows = range(len(classes))
        for axis, panel in zip(every, panels, strict=True):
            colour, marker, _ = STYLES[panel.method]
            paper = [panel.paper[of] for of in classes]
            means, spreads = zip(*(panel.ours[of] for of in classes), strict=True)
            axis.hlines(rows, paper, means, color="0.8", linewidth=1, zorder=1)
            axis.plot(paper, rows, marker, color=colour, markerfacecolor="white", markersize=6, label="the paper")
            axis.errorbar(means, rows, xerr=spreads, fmt=marker, color=colour, markersize=5, elinewidth=1, label="ours")
            axis.set(title=f"{panel.title}\nrank correlation {spearman(paper, means):.2f}", xlabel="AP")
            axis.title.set_fontsize(9)
            axis.grid(True, axis="x", alpha=0.3)
            axis.legend(loc="lower right", frameon=False, fontsize=8)
        every[0].set_yticks(rows, classes)
        every[0].invert_yaxis()
        every[0].set_xlim(left=0)
        return finish(canvas, "", "", "").svg
