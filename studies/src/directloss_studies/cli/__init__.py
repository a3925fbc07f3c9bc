"""The command line: reproduce, report, data, detect, check, list. One file for each job."""

import typer

from . import data, detect, report, reproduce, tasks

__all__ = ["app"]

app = typer.Typer(
    help="Train on the metric itself: reproduce the paper's experiments, look at them, check a task of your own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(reproduce.reproduce, name="reproduce")
for command in (report.report, data.data, detect.detect, tasks.check):
    app.command()(command)
app.command("list")(tasks.list_all)
