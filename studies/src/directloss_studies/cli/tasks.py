"""`directloss check` and `directloss list`: tasks of one's own, and everything that has a name."""

import importlib
import sys
import warnings
from typing import Annotated

import typer
from rich.table import Table

from directloss import Task
from directloss.tasks import TASKS
from directloss.testing import TaskError, check_task
from directloss.update import UPDATES

from ..registry import STUDIES
from .terminal import console, errors, refuse

__all__ = ["check", "list_all"]


def check(task: Annotated[str, typer.Argument(metavar="MODULE:TASK", help="E.g. examples.top_item:TopItem")]) -> None:
    """Compare a task of your own with brute force, and say what is wrong."""
    module_name, _, name = task.partition(":")
    if not all(module_name.split(".")) or "\0" in module_name or not name:
        raise refuse(f"{task!r} names no task. Write MODULE:TASK, e.g. examples.top_item:TopItem.")
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise refuse(f"There is no module {module_name!r} here or installed.") from None
    found = getattr(module, name, None)
    if found is None:
        raise refuse(f"{module_name} has no {name!r}.")
    try:
        instance = found() if isinstance(found, type) else found
        if not isinstance(instance, Task):
            raise TypeError(f"{task} is not a Task; got {instance!r}.")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_task(instance)
    except TaskError as error:
        errors.print(str(error), style="red")
        raise typer.Exit(1) from None
    except TypeError as error:
        raise refuse(str(error)) from None
    for warning in caught:
        errors.print(str(warning.message), style="yellow")
    console.print(f"{instance!r}: no oracle was beaten, every law holds.")


def list_all() -> None:
    """List studies, tasks and updates."""
    table = Table("study", "what", "presets")
    for study in STUDIES.values():
        counts = ", ".join(
            f"{preset} ({len(study.configs(study.options(preset=preset), None))} runs)" for preset in study.presets
        )
        table.add_row(study.name, study.title, counts)
    console.print(table)
    for title, members in (("task", TASKS), ("update", UPDATES)):
        table = Table(title, "class", "what")
        for name, member in members.items():
            table.add_row(name, member.__name__, (member.__doc__ or "").splitlines()[0])
        console.print(table)
