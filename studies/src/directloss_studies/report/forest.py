"""Forest plots: every comparison of a claim as a point with its interval, beside a line at zero."""

import textwrap
from typing import Any

from ..harness.study import Figure
from .figures import canvas_and_axes, finish
from .verdicts import Block, Verdict, counted, interval, verdict
from .words import counts_in_words, signed

__all__ = ["LOOKS", "forest"]

LOOKS: dict[Verdict, tuple[str, str]] = {  # colour (Okabe and Ito's, or grey) and marker of a comparison
    Verdict.HOLDS: ("#0072B2", "o"),
    Verdict.CONTRADICTED: ("#D55E00", "D"),
    Verdict.UNDECIDED: ("#6b6b6b", "s"),
    Verdict.TOO_FEW: ("#6b6b6b", "x"),
}
ROW = 0.24  # inches
WIDTH = 5.6
HEADING_CHARACTERS = 70


def forest(name: str, block: Block) -> Figure:
    """A row a comparison, under a heading for every variant; blue holds, orange is contradicted, grey is undecided."""
    headings = [textwrap.wrap(claim.variant, HEADING_CHARACTERS) or [""] for claim in block.claims]
    rows = sum(len(heading) + len(claim.comparisons) for heading, claim in zip(headings, block.claims, strict=True))
    height = 1.1 + ROW * rows
    with canvas_and_axes(WIDTH, height) as (canvas, axes):
        place = 0.0
        ticks: list[tuple[float, str]] = []
        seen: set[Verdict] = set()
        for claim, heading in zip(block.claims, headings, strict=True):
            middle = place - (len(heading) - 1) / 2
            where: dict[str, Any] = {"xy": (0.01, middle), "xycoords": ("figure fraction", "data"), "va": "center"}
            label = axes.annotate("\n".join(heading), **where, fontsize=8.5, fontweight="bold", annotation_clip=False)
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.0})
            label.set_in_layout(False)  # it may reach over the axes; there is nothing to its right
            place -= len(heading)
            for comparison in claim.comparisons:
                found = verdict(comparison) if claim.complete else Verdict.TOO_FEW
                ticks.append((place, comparison.name))
                if comparison.differences:
                    seen.add(found)
                    colour, marker = LOOKS[found]
                    if ends := interval(comparison):
                        axes.plot(ends, [place, place], color=colour, linewidth=1.6)
                    style = {"color": colour, "marker": marker, "markersize": 5.5, "linestyle": ""}
                    axes.plot([comparison.mean], [place], **style)
                place -= 1
        axes.axvline(0, color="#1a1a1a", linewidth=0.9, zorder=0)
        axes.set_yticks([at for at, _ in ticks], [text for _, text in ticks], fontsize=8.5)
        axes.set_ylim(place + 0.3, 0.7)
        axes.set_xlabel("difference, with its 95 % interval", fontsize=9)
        axes.tick_params(axis="x", labelsize=8.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(True, axis="x", alpha=0.3)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        for each in (one for one in Verdict if one in seen):
            colour, marker = LOOKS[each]
            axes.plot([], [], color=colour, marker=marker, markersize=5.5, linewidth=1.6, label=each)
        if seen:
            canvas.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        return finish(canvas, name, block.says, _alt(block))


def _alt(block: Block) -> str:
    means = [one.mean for claim in block.claims for one in claim.comparisons if one.differences]
    span = f" Mean differences go from {signed(min(means))} to {signed(max(means))}." if means else ""
    return (
        f"Forest plot of the claim: {block.says}. Of its comparisons: {counts_in_words(counted(block.claims))}.{span} "
        "The table beside it has all numbers."
    )
