"""`directloss reproduce`: one subcommand for each study, made from its options class.

Several studies can be named in one command, before all options. The command then takes the options of all of them.
"""

import importlib
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from typer.core import TyperGroup

from directloss import AveragePrecisionLoss, NegativeDirect, PositiveDirect

from ..harness.execution import BACKENDS, Failure, execute
from ..harness.files import check_writable
from ..harness.options import Option, options_of
from ..harness.store import Store
from ..harness.study import AnyStudy
from ..registry import STUDIES
from .report import write_report
from .terminal import KILLED, console, errors, handled, refuse, show_runs, show_steps, warn

__all__ = ["reproduce"]


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """Where runs go, and what computes them: options of the command, not of a study."""

    out: Annotated[Path, Option("Folder for the runs and the report.", metavar="DIR")] = Path("runs")
    jobs: Annotated[int, Option("Processes, one core each; 0: as many as cores.", min=0)] = 0
    backend: Annotated[str, Option("loky: this machine; ray: a Ray cluster.")] = "loky"
    address: Annotated[str | None, Option("Of the Ray cluster; without it a local one is started.")] = None

    def check(self) -> None:
        """Refuse what makes no sense, and import what is needed later: before the work, not after it."""
        if self.backend not in BACKENDS:
            raise refuse(f"There is no backend {self.backend!r}. There are: {', '.join(BACKENDS)}.")
        if self.address and self.backend != "ray":
            raise refuse("--address is where a Ray cluster is. Add --backend ray.")
        if self.out.exists() and not self.out.is_dir():
            raise refuse(f"--out {self.out} is a file. Name a folder.")
        for package in ("joblib", "matplotlib", *(["ray"] if self.backend == "ray" else [])):
            importlib.import_module(package)


class _Studies(TyperGroup):
    """The group of subcommands. It also takes several names, and says which there are."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of one study, or one made for several."""
        names = list(takewhile(lambda arg: arg in STUDIES, args))
        if not names and not args[0].startswith("-"):
            raise refuse(f"There is no study {args[0]!r}. There are: {', '.join(STUDIES)}.")
        if len(names) < 2:
            return super().resolve_command(ctx, args)
        several = typer.Typer(rich_markup_mode=None, add_completion=False)
        several.command()(_command([STUDIES[name] for name in dict.fromkeys(names)]))
        return " ".join(names), typer.main.get_command(several), args[len(names) :]


def _command(studies: Sequence[AnyStudy]) -> Callable[..., None]:
    """The function behind a subcommand; its parameters are the options of the studies and of `ExecutionOptions`."""
    parameters: dict[str, inspect.Parameter] = {}
    for kind in (*(study.options for study in studies), ExecutionOptions):
        for name, annotation, default, option in options_of(kind):
            if name in parameters and parameters[name].annotation.__origin__ != annotation:
                names = " and ".join(study.name for study in studies)
                raise refuse(f"--{name} means different things to {names}. Run them one after the other.")
            given = typer.Option(help=option.help, min=option.min, metavar=option.metavar)
            parameters[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, given]
            )

    def command(**values: Any) -> None:
        def take(kind: type[Any]) -> Any:
            return kind(**{member.name: values[member.name] for member in options_of(kind)})

        _reproduce([(study, take(study.options)) for study in studies], take(ExecutionOptions))

    command.__signature__ = inspect.Signature(list(parameters.values()))  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    titles = "; ".join(study.title for study in studies)
    command.__doc__ = f"{titles}.\n\nRuns that are in the folder already are not run again."
    return command


reproduce = typer.Typer(
    cls=_Studies,
    help="Run studies of the paper and write their report.",
    epilog=(
        "Several studies in one command: name them first, then options that all of them share or that some take. "
        "A run that is in the folder already is not run again, so the same command continues where it was stopped."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
for _study in STUDIES.values():
    reproduce.command(_study.name)(_command([_study]))


def _reproduce(studies: Sequence[tuple[AnyStudy, Any]], execution: ExecutionOptions) -> None:
    """Prepare all data, then run one study after the other, then write one report."""
    for study, options in studies:
        if options.preset not in study.presets:
            known = ", ".join(study.presets)
            raise refuse(f"{study.name} has no preset {options.preset!r}. It has: {known}.")
    execution.check()
    check_writable(execution.out / "report.html", execution.out / "report.md")
    check_writable(*(execution.out / study.name / options.preset / "run.json" for study, options in studies))
    sources = [_prepare(study, options, execution.jobs) for study, options in studies]
    failures = 0
    for (study, options), source in zip(studies, sources, strict=True):
        configs = study.configs(options, source)
        store = Store(execution.out / study.name / options.preset, study)
        failures += _run(store, configs, options.preset, execution)
        _export(store, configs, options.preset, execution.out)
    write_report(execution.out)
    if failures:
        errors.print(f"{failures} runs failed; the same command tries them again.", style="red")
        raise typer.Exit(1)


def _prepare(study: AnyStudy, options: Any, jobs: int) -> Any:
    """The data of a study, or None if it makes its own."""
    if study.prepare is None:
        return None
    with handled(), show_steps() as steps:
        source, notes = study.prepare(options, jobs, steps)
    for note in notes:
        warn(note)
    return source


def _run(store: Store[Any, Any], configs: Sequence[Any], preset: str, execution: ExecutionOptions) -> int:
    """Run what is missing; return the number of failures."""
    finished = store.runs()
    for text in (*store.newer.values(), *store.set_aside):
        warn(text)
    there = finished.keys() | store.newer.keys()
    missing = [config for config in configs if store.path(config) not in there]
    done, name = len(configs) - len(missing), store.study.name
    if not missing:
        console.print(
            f"{name}, {preset} preset: all {len(configs)} runs are in {store.folder} already.", soft_wrap=True
        )
        return 0
    import joblib

    jobs = execution.jobs or joblib.cpu_count()
    where = f"on {execution.address}" if execution.address else f"{jobs} at a time"
    console.print(f"{name}, {preset} preset: {len(missing)} of {len(configs)} runs to do, {where}.")
    _compile()
    failures = 0

    def saved() -> str:
        return f"{done} of {len(configs)} runs are in {store.folder}; the same command continues."

    try:
        with (
            show_runs(len(configs), done) as (advance, observer),
            closing(execute(store.study, missing, jobs, execution.backend, execution.address, observer)) as runs,
        ):
            for run in runs:
                if isinstance(run, Failure):
                    failures += 1
                    errors.print(f"failed: {run.message}", style="red")
                else:
                    store.write(run)
                    done += 1
                advance()
    except KeyboardInterrupt:
        errors.print(f"Stopped. {saved()}")
        raise typer.Exit(130) from None
    except BrokenExecutor:
        errors.print(f"{KILLED} {saved()}", style="red")
        raise typer.Exit(1) from None
    except ConnectionError as error:
        raise refuse(f"No Ray cluster answers: {error}") from None
    except OSError as error:
        error.add_note(saved())
        raise
    return failures


def _export(store: Store[Any, Any], configs: Sequence[Any], preset: str, out: Path) -> None:
    """Write what people can use, once all runs are there."""
    export = store.study.export
    if export is None:
        return
    finished = store.runs()
    paths = [store.path(config) for config in configs]
    if all(path in finished for path in paths):
        for written in export.write([finished[path] for path in paths], out / export.folder / preset):
            console.print(f"Written: {written}", soft_wrap=True)


def _compile() -> None:
    """Compile the kernels once, before several processes would."""
    scores, target = torch.tensor([1.0, 0.0]), torch.tensor([True, False])
    with console.status("compiling kernels, once after installation (up to a minute)"):
        for update in (PositiveDirect(1.0), NegativeDirect(1.0)):
            AveragePrecisionLoss(update)(scores, target)
