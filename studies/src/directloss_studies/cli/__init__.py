"""The command line: reproduce, report, data, detect, check, list. One file for each job."""

from importlib.metadata import version
from typing import Annotated

import typer

from . import data, detect, report, reproduce, tasks

__all__ = ["app"]

app = typer.Typer(
    help="Train on the metric itself: reproduce the paper's studies, look at them, check a task of your own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_versions(wanted: bool) -> None:
    if wanted:
        for package in ("directloss", "directloss-studies"):
            typer.echo(f"{package} {version(package)}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_versions, is_eager=True, help="Show the versions of both packages."),
    ] = False,
) -> None:
    """What the options before a command do."""


app.add_typer(reproduce.reproduce, name="reproduce")
for command in (report.report, data.data, detect.detect, tasks.check):
    app.command()(command)
app.command("list")(tasks.list_all)
