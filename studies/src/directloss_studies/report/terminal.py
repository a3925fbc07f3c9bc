"""What a terminal shows after a run: a short table, a line for every block of claims, and what to take away."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from ..harness.study import Summary, Table
from .sections import Section
from .verdicts import Block, Verdict, blocks, counted
from .words import counts_in_words

__all__ = ["overview"]

STYLES = {
    Verdict.HOLDS: "bold blue",
    Verdict.CONTRADICTED: "bold red",
    Verdict.UNDECIDED: "yellow",
    Verdict.TOO_FEW: "dim",
}


def overview(sections: Sequence[Section]) -> RenderableType:
    """All sections, one below the other. Nothing in it is read as markup."""
    return Group(*(part for section in sections for part in _section(section)))


def _section(section: Section) -> Iterator[RenderableType]:
    yield Text(f"\n{section.title}", style="bold")
    for table in _tables(section.summary):
        yield Text(table.title, style="italic")
        yield _grid(table)
    if section.summary.claims:
        yield _claims(blocks(section.summary.claims))
    for sentence in section.takeaway:
        yield Padding(Text(f"→ {sentence}"), (0, 0, 0, 2))


def _tables(summary: Summary) -> Sequence[Table]:
    return summary.overview or summary.tables[:1]


def _grid(table: Table) -> Grid:
    """The best number of a column is bold."""
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, name in enumerate(table.header):
        grid.add_column(Text(name), justify="left" if column == 0 else "right", overflow="fold")
    for row, cells in enumerate(table.rows):
        grid.add_row(
            *(Text(text, style="bold" if (row, column) in table.best else "") for column, text in enumerate(cells))
        )
    return grid


def _claims(some: Sequence[Block]) -> Grid:
    """A line a block: what is claimed, and the number of comparisons by verdict."""
    grid = Grid.grid(padding=(0, 3, 0, 0))
    for block in some:
        counts = Text()
        for verdict, number in counted(block.claims).items():
            counts.append(", " if counts else "").append(counts_in_words({verdict: number}), style=STYLES[verdict])
        grid.add_row(Text(block.says), counts)
    return grid
