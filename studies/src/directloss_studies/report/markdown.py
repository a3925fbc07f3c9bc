"""The report as Markdown: every table and every comparison, for files and for version control."""

from collections.abc import Iterator, Sequence

from ..harness.files import visible
from ..harness.study import Claim, Table
from .sections import Section
from .verdicts import RULE, Block, Verdict, blocks, counted, judge, verdict
from .words import counts_in_words, difference, interval_in_words

__all__ = ["claim_rows", "markdown"]


def markdown(sections: Sequence[Section]) -> str:
    """All sections."""
    parts = [part for section in sections for part in _section(section)]
    return "\n\n".join([*parts, f"## How verdicts are made\n\n{RULE}"]) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    if section.takeaway:
        yield "\n".join(f"- {_line(sentence)}" for sentence in section.takeaway)
    yield section.study.about
    if section.summary.claims:
        yield "### What is claimed, and what we found"
    for block in blocks(section.summary.claims):
        yield _claim(block)
    if section.summary.tables:
        yield "### All numbers"
    for table in section.summary.tables:
        yield _table(table)
    yield "### How these numbers were made"
    yield "\n".join(f"- {_line(fact)}" for fact in section.facts)


def _claim(block: Block) -> str:
    header = ["variant", "comparison", "difference", "95 % interval", "pairs", "verdict"]
    rows = [[claim.variant, *row] for claim in block.claims for row in claim_rows(claim)]
    title = f"{block.says} ({block.source}): {judge(block.claims)}; {counts_in_words(counted(block.claims))}"
    return _table(Table(title, header, rows))


def claim_rows(claim: Claim) -> Iterator[list[str]]:
    """Of every comparison: name, difference, interval, number of pairs, verdict."""
    for one in claim.comparisons:
        found = verdict(one) if claim.complete else Verdict.TOO_FEW
        yield [one.name, difference(one), interval_in_words(one), str(len(one.differences)), found]


def _table(table: Table) -> str:
    lines = [
        _row(table.header),
        "|" + "---|" * len(table.header),
        *map(_row, table.rows),
    ]
    return "\n".join([f"**{_line(table.title)}**", "", *lines, *(["", table.note] if table.note else [])])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_line(text).replace("|", "\\|") for text in cells) + " |"


def _line(text: str) -> str:
    """Text that comes from runs: it stays one line."""
    return visible(text.replace("\n", "\\n"))
