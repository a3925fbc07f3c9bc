"""Pictures of results as SVG: colours that everyone can tell apart, and a marker and line style for each method."""

import re
from collections.abc import Collection, Iterable, Mapping
from io import StringIO
from statistics import mean, stdev
from typing import Any, NamedTuple

from .experiment import Figure

__all__ = ["Series", "bars", "lines", "series"]

STYLES: dict[str, tuple[str, str, str]] = {  # colour (Okabe and Ito's), marker, line
    "pos-AP": ("#0072B2", "o", "-"),
    "hinge-AP": ("#D55E00", "s", "-"),
    "x-ent": ("#009E73", "^", "-"),
    "neg-AP": ("#CC79A7", "v", "-"),
    "per-AP": ("#8C6D1F", "D", "-"),
    "central-AP": ("#56B4E9", "P", "--"),
    "Smooth-AP": ("#000000", "X", "--"),
    "pos-01": ("#0072B2", "o", ":"),
    "hinge-01": ("#D55E00", "s", ":"),
    "neg-01": ("#CC79A7", "v", ":"),
    "per-01": ("#8C6D1F", "D", ":"),
}


class Series(NamedTuple):
    """A curve with the standard error of its points."""

    x: list[float]
    mean: list[float]
    error: list[float]


def series(points: Mapping[float, Collection[float]]) -> Series:
    """The curve through the means of the values at every x."""
    x = sorted(points)
    errors = [stdev(points[k]) / len(points[k]) ** 0.5 if len(points[k]) > 1 else 0.0 for k in x]
    return Series(x, [mean(points[k]) for k in x], errors)


def _axes() -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "directloss", "svg.fonttype": "none", "font.family": "sans-serif"})
    return plt.subplots(figsize=(5.6, 3.8), layout="constrained")


def _finish(figure: Any, name: str, title: str, alt: str) -> Figure:
    import matplotlib.pyplot as plt

    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="', f'id="{name}-', svg)  # unique where several stand in one page
    svg = re.sub(r'(url\(|href=")#', rf"\g<1>#{name}-", svg)
    return Figure(name, title, svg, alt)


def lines(name: str, title: str, curves: Mapping[str, Series], xlabel: str, ylabel: str) -> Figure:
    """One curve a method, a band of one standard error around it."""
    figure, axes = _axes()
    for method, (x, means, errors) in curves.items():
        colour, marker, line = STYLES[method]
        every = max(1, len(x) // 8)
        axes.plot(x, means, color=colour, marker=marker, linestyle=line, markevery=every, markersize=5, label=method)
        low, high = ([m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-1, 1))
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(True, alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    told = "; ".join(f"{method}: from {c.mean[0]:.2f} to {c.mean[-1]:.2f}" for method, c in curves.items())
    first, last = (next(iter(curves.values())).x[k] for k in (0, -1)) if curves else (0, 0)
    return _finish(figure, name, title, f"{title}. {ylabel} at {xlabel} {first:g} and {last:g}: {told}.")


def bars(name: str, title: str, groups: Mapping[str, Mapping[str, float]], ylabel: str) -> Figure:
    """For every method a bar in each group."""
    figure, axes = _axes()
    methods = list(dict.fromkeys(method for group in groups.values() for method in group))
    shades = ("#0072B2", "#E69F00", "#56B4E9", "#000000")
    hatches = ("", "//", "..", "xx")
    width = 0.8 / max(len(groups), 1)
    for number, (group, values) in enumerate(groups.items()):
        places = [k + (number - (len(groups) - 1) / 2) * width for k in range(len(methods))]
        heights = [values.get(method, 0.0) for method in methods]
        style = {"color": shades[number % 4], "hatch": hatches[number % 4], "edgecolor": "white"}
        axes.bar(places, heights, width, label=group, **style)
    axes.set_xticks(range(len(methods)), methods, rotation=40, ha="right")
    axes.set(ylabel=ylabel)
    axes.grid(True, axis="y", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    told = "; ".join(f"{group}: {_list(values.items())}" for group, values in groups.items())
    return _finish(figure, name, title, f"{title}. {ylabel}. {told}.")


def _list(values: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{method} {value:.2f}" for method, value in values)
