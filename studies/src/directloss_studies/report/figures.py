"""Figures as SVG: colours that colour-blind readers can tell apart, and a marker and line style for every method."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from statistics import mean, stdev
from typing import Any, NamedTuple

from ..harness.study import Figure
from ..methods import PLAIN, WARM
from .outcomes import Outcomes

__all__ = ["Series", "bars", "canvas_and_axes", "curves_of", "finish", "lines", "noise_lines", "series", "slug"]

STYLES: dict[str, tuple[str, str, str]] = {  # colour (Okabe and Ito's), marker, line
    "pos-AP": ("#0072B2", "o", "-"),
    WARM: ("#0072B2", "o", "--"),
    "hinge-AP": ("#D55E00", "s", "-"),
    "x-ent": ("#009E73", "^", "-"),
    PLAIN: ("#009E73", "^", ":"),
    "neg-AP": ("#CC79A7", "v", "-"),
    "per-AP": ("#8C6D1F", "D", "-"),
    "central-AP": ("#56B4E9", "P", "--"),
    "Smooth-AP": ("#000000", "X", "--"),
    "GCE": ("#E69F00", "*", "--"),
    "pos-01": ("#0072B2", "o", ":"),
    "hinge-01": ("#D55E00", "s", ":"),
    "neg-01": ("#CC79A7", "v", ":"),
    "per-01": ("#8C6D1F", "D", ":"),
    "pos-IoU": ("#0072B2", "o", "-"),
    "hinge-IoU": ("#D55E00", "s", "-"),
    "central-IoU": ("#56B4E9", "P", "--"),
    "x-ent + central-IoU": ("#E69F00", "*", "--"),
    "Dice": ("#000000", "X", "--"),
    "Dice + x-ent": ("#000000", "X", ":"),
    "Lovász hinge": ("#CC79A7", "v", "-"),
    "LogisticRegression": ("#999999", "p", "--"),
    "LinearSVC": ("#999999", "h", ":"),
    "pos-AP, the paper": ("#0072B2", "o", ":"),
    "hinge-AP, the paper": ("#D55E00", "s", ":"),
    "x-ent, the paper": ("#009E73", "^", "-."),
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


def curves_of(methods: Iterable[str], points: Callable[[str], Mapping[float, Collection[float]]]) -> dict[str, Series]:
    """The curve of every method that has values. `points` gives the values of a method at every x."""
    known = {method: {x: values for x, values in points(method).items() if values} for method in methods}
    return {method: series(some) for method, some in known.items() if some}


LOOK = {
    "svg.hashsalt": "directloss",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "text.parse_math": False,  # a dollar in a name is a dollar
}


def slug(*parts: str) -> str:
    """A figure's name from words that say what it shows: only letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).replace("%", "percent").replace("'", "").lower()).strip("-")


@contextmanager
def canvas_and_axes(width: float = 5.6, height: float = 3.8) -> Iterator[tuple[Any, Any]]:
    """A figure, of a size in inches, and its axes; leaves matplotlib's own state alone."""
    import matplotlib.style
    from matplotlib.figure import Figure as Canvas

    with matplotlib.style.context(["default", LOOK]):
        canvas = Canvas(figsize=(width, height), layout="constrained")
        yield canvas, canvas.subplots()


def finish(canvas: Any, name: str, title: str, alt: str) -> Figure:
    """The figure as SVG, the same for the same content."""
    buffer = StringIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    return Figure(name, title, svg[svg.index("<svg") :], alt)


def lines(
    name: str, title: str, curves: Mapping[str, Series], xlabel: str, ylabel: str, doubling: bool = False
) -> Figure:
    """One curve a method, with a band of one standard error around it. With `doubling` x is logarithmic."""
    words = "; ".join(f"{method}: from {c.mean[0]:.2f} to {c.mean[-1]:.2f}" for method, c in curves.items())
    first, last = (next(iter(curves.values())).x[k] for k in (0, -1)) if curves else (0, 0)
    with canvas_and_axes() as (canvas, axes):
        for method, (x, means, errors) in curves.items():
            colour, marker, line = STYLES[method]
            style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 5, "label": method}
            axes.plot(x, means, markevery=max(1, len(x) // 8), **style)
            low, high = ([m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-1, 1))
            axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if doubling and curves:
            axes.set_xscale("log", base=2)
            ticks = max((c.x for c in curves.values()), key=len)
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.grid(True, alpha=0.3)
        if curves:
            columns = 4 if len(curves) <= 8 else 3
            canvas.legend(loc="outside upper center", ncols=columns, frameon=False, fontsize=9)
        return finish(canvas, name, title, f"{title}. {ylabel} at {xlabel} {first:g} and {last:g}: {words}.")


def noise_lines(name: str, title: str, outcomes: Outcomes, variant: str, xlabel: str, ylabel: str) -> Figure:
    """One curve a method against the share of damaged samples, of one variant."""
    curves = curves_of(
        outcomes.methods(variant),
        lambda method: {100 * noise: outcomes.values(variant, noise, method) for noise in outcomes.levels(variant)},
    )
    return lines(name, title, curves, xlabel, ylabel)


def bars(name: str, title: str, groups: Mapping[str, Mapping[str, float]], ylabel: str) -> Figure:
    """For every method a bar in each group."""
    methods = list(dict.fromkeys(method for group in groups.values() for method in group))
    shades = ("#0072B2", "#E69F00", "#56B4E9", "#000000")
    hatches = ("", "//", "..", "xx")
    width = 0.8 / max(len(groups), 1)
    words = "; ".join(f"{group}: {_list(values.items())}" for group, values in groups.items())
    with canvas_and_axes() as (canvas, axes):
        for number, (group, values) in enumerate(groups.items()):
            places = [k + (number - (len(groups) - 1) / 2) * width for k in range(len(methods))]
            heights = [values.get(method, float("nan")) for method in methods]
            shade = STYLES[group][0] if group in STYLES else shades[number % 4]
            style = {"color": shade, "hatch": hatches[number % 4], "edgecolor": "white"}
            axes.bar(places, heights, width, label=group, **style)
        axes.set_xticks(range(len(methods)), methods, rotation=40, ha="right")
        axes.set(ylabel=ylabel)
        axes.grid(True, axis="y", alpha=0.3)
        if groups:
            columns = 3 if groups.keys() <= STYLES.keys() else 2  # short names
            canvas.legend(loc="outside upper center", ncols=columns, frameon=False, fontsize=9)
        return finish(canvas, name, title, f"{title}. {ylabel}. {words}.")


def _list(values: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{method} {value:.2f}" for method, value in values)
