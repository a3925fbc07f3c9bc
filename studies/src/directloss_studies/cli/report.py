"""`directloss report`: the report on the runs of a folder."""

from pathlib import Path
from typing import Annotated

import typer

from ..harness.files import check_writable, visible, write_whole
from ..registry import STUDIES
from ..report.markdown import markdown
from ..report.page import html
from ..report.sections import gather, records
from ..report.terminal import overview
from .terminal import console, refuse, warn

__all__ = ["report", "write_report"]


def write_report(
    folder: Path,
    page: Path | None = None,
    flat: Path | None = None,
    pictures: Path | None = None,
    preset: str | None = None,
) -> None:
    """Write the report on a folder as HTML and Markdown, print the most important, and write numbers and figures."""
    sections = [section for section in gather(folder, STUDIES.values()) if preset in (None, section.preset)]
    if not sections:
        example = f"directloss reproduce {next(iter(STUDIES))} --out {folder}"
        raise refuse(f"There are no runs in {folder}. Make some: {example}")
    if (flat or pictures) and len({section.study.name for section in sections}) < len(sections):
        raise refuse(f"{folder} has runs of several presets. Name one: --preset quick or --preset paper.")
    for section in sections:
        for text in (*section.newer, *section.set_aside):
            warn(text)
    page = page or folder / "report.html"
    tables = page.with_suffix(".md")
    check_writable(page, tables, *([flat] if flat else []), *([pictures / "figure.svg"] if pictures else []))
    write_whole(page, html(sections))
    write_whole(tables, markdown(sections))
    if pictures:
        for section in sections:
            for figure in section.summary.figures():
                write_whole(pictures / f"{figure.name}.svg", visible(figure.svg))
    if flat:
        write_whole(flat, records(sections))
    console.print(overview(sections))
    if flat:
        console.print(f"Numbers: {flat}", soft_wrap=True)
    console.print(f"Report: {page} (all tables as Markdown: {tables})", soft_wrap=True)


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that holds the runs.")],
    page: Annotated[Path | None, typer.Option("--html", help="The page to write; default FOLDER/report.html.")] = None,
    flat: Annotated[Path | None, typer.Option("--json", help="Also write all numbers as flat records.")] = None,
    pictures: Annotated[
        Path | None, typer.Option("--figures", help="Also write every figure into this folder.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Only the runs of this preset.")] = None,
) -> None:
    """Write the report on the runs in a folder, and print a summary."""
    if not folder.is_dir():
        raise refuse(f"{folder} is not a folder.")
    if page and page.suffix != ".html":
        raise refuse(f"--html {page} must end in .html; the tables go beside it as Markdown.")
    write_report(folder, page, flat, pictures, preset)
