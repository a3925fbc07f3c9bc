"""Figures of the study: mean AP over noise or training length, and critical-difference diagrams."""

from collections.abc import Mapping

from ..harness.study import Figure
from ..report.figures import canvas_and_axes, finish
from .ranks import Ranks, cliques

__all__ = ["critical_difference", "mean_lines"]

STYLES = {  # colour (Okabe and Ito's), marker, line
    "x-ent": ("#009E73", "^", "-"),
    "GCE": ("#E69F00", "D", "-"),
    "ELR": ("#CC79A7", "v", "--"),
    "symmetric x-ent": ("#8C6D1F", "d", "--"),
    "pairwise sigmoid": ("#000000", "X", ":"),
    "SOAP": ("#000000", "P", "--"),
    "hinge-AP": ("#D55E00", "s", ":"),
    "pos-AP": ("#0072B2", "o", "--"),
    "x-ent → pos-AP": ("#0072B2", "o", "-"),
    "LightGBM logloss": ("#56B4E9", "*", ":"),
}
"""The methods that lines show. Tables have all."""


def mean_lines(
    name: str, title: str, means: Mapping[float, Mapping[str, float]], xlabel: str, doubling: bool = False
) -> Figure:
    """Mean AP over tables of the methods that have a style, by x. With `doubling` x is logarithmic."""
    curves = {
        method: {x: values[method] for x, values in means.items() if method in values}
        for method in STYLES
        if any(method in values for values in means.values())
    }
    words = "; ".join(
        f"{method}: " + ", ".join(f"{y:.3f}" for y in points.values()) for method, points in curves.items()
    )
    with canvas_and_axes() as (canvas, axes):
        for method, points in curves.items():
            colour, marker, line = STYLES[method]
            style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 5, "label": method}
            axes.plot(list(points), list(points.values()), **style)
        if doubling:
            axes.set_xscale("log", base=2)
        ticks = sorted({x for points in curves.values() for x in points})
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.set(xlabel=xlabel, ylabel="test AP, mean over tables")
        axes.grid(True, alpha=0.3)
        if curves:
            canvas.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
        at = ", ".join(f"{x:g}" for x in ticks)
        return finish(canvas, name, title, f"{title}. Mean test AP at {xlabel} {at}: {words}.")


def critical_difference(name: str, title: str, ranks: Ranks) -> Figure:
    """Methods on a line of mean ranks; a bar joins those that Nemenyi's test does not tell apart."""
    methods = list(ranks.means.items())
    half = (len(methods) + 1) // 2
    bars = cliques(ranks)
    top = 0.5 + 0.35 * len(bars)
    with canvas_and_axes(8.4, 1.2 + 0.24 * half + 0.1 * len(bars)) as (canvas, axes):
        low, high = 1.0, float(max(len(methods), 2))
        axes.set_xlim(low - 0.42 * (high - low), high + 0.42 * (high - low))
        axes.set_ylim(-top - 0.75 * half - 0.4, 1.6)
        axes.axis("off")
        axes.plot([low, high], [0, 0], color="black", linewidth=1)
        for place in range(1, len(methods) + 1):
            axes.plot([place, place], [0, 0.2], color="black", linewidth=1)
            if place in (1, len(methods)) or place % 5 == 0:
                axes.text(place, 0.3, str(place), ha="center", fontsize=8.5)
        axes.plot([low, min(low + ranks.critical, high)], [1.1, 1.1], color="black", linewidth=2)
        axes.text(low, 1.2, f"critical difference {ranks.critical:.2f}", fontsize=8.5)
        for number, (first, last) in enumerate(bars):
            depth = -0.35 * (number + 1)
            axes.plot([first - 0.06, last + 0.06], [depth, depth], color="#555555", linewidth=3, solid_capstyle="butt")
        for number, (method, value) in enumerate(methods):
            left = number < half
            row = number if left else len(methods) - 1 - number
            depth, edge = -top - 0.75 * row, low - 0.02 * (high - low) if left else high + 0.02 * (high - low)
            axes.plot([value, value, edge], [0, depth, depth], color="#888888", linewidth=0.8)
            text = f"{method}  {value:.1f}" if left else f"{value:.1f}  {method}"
            axes.text(edge, depth, f" {text} ", ha="right" if left else "left", va="center", fontsize=8.5)
        words = ", ".join(f"{method} {value:.1f}" for method, value in methods)
        return finish(canvas, name, title, f"{title}. {words}. Critical difference {ranks.critical:.2f}.")
