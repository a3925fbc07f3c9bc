"""The command line: reproduce, report, data, detect, bench, check, list."""

import importlib
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as Grid

from ..loss import AveragePrecisionLoss
from ..task import Task
from ..tasks import TASKS
from ..update import UPDATES, NegativeDirect, PositiveDirect
from ..verification import TaskError, check_task
from . import EXPERIMENTS
from .data.downloads import DownloadError
from .data.voc import DevkitError, fetch_voc2012, find_devkit, is_there, read_image, verify
from .harness.execution import BACKENDS, Failure, Notes, execute
from .harness.experiment import Options
from .harness.files import write_whole
from .harness.store import Store, plain
from .report.page import gather, html, markdown, records
from .vision.backbones import BACKBONES
from .vision.detector import draw, load_detector, upright

__all__ = ["app"]

app = typer.Typer(
    help="Train on the metric itself: reproduce the paper's experiments, look at them, check a task of your own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
console = Console()
errors = Console(stderr=True, soft_wrap=True)


def _refuse(message: str) -> typer.Exit:
    errors.print(message, style="red", markup=False, highlight=False)
    return typer.Exit(2)


@contextmanager
def _progress(total: int, done: int) -> Iterator[tuple[Any, Any]]:
    """Bars for the whole and for every run under way; yields what to call after a run, and what hears the notes."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left = TextColumn("left"), TimeRemainingColumn()
    with Progress(*columns, *left, console=errors, speed_estimate_period=3600) as progress:
        whole = progress.add_task("all runs", total=total, completed=done)
        ended = threading.Event()
        threads: list[threading.Thread] = []

        def watch(notes: Notes) -> None:
            bars: dict[str, Any] = {}
            while not ended.wait(0.3):
                under_way = dict(notes.read())
                for label in bars.keys() - under_way.keys():
                    progress.remove_task(bars.pop(label))
                for label, share in under_way.items():
                    if label not in bars:
                        bars[label] = progress.add_task(f"  {label}", total=100)
                    progress.update(bars[label], completed=round(100 * share))
            for bar in bars.values():
                progress.remove_task(bar)

        def listen(notes: Notes) -> None:
            threads.append(threading.Thread(target=watch, args=(notes,), daemon=True))
            threads[-1].start()

        try:
            yield lambda: progress.advance(whole), listen
        finally:
            ended.set()
            for thread in threads:
                thread.join()


@app.command()
def reproduce(
    experiments: Annotated[list[str], typer.Argument(help=f"One or more of: {', '.join(EXPERIMENTS)}.")],
    preset: Annotated[str, typer.Option(help="quick: a minute or two; paper: the full study.")] = "quick",
    out: Annotated[Path, typer.Option(help="Folder that keeps the runs and the report.")] = Path("runs"),
    jobs: Annotated[int, typer.Option(min=0, help="Processes, one core each; 0: as many as cores.")] = 0,
    backend: Annotated[str, typer.Option(help="loky: this machine; ray: a Ray cluster.")] = "loky",
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster; without it a local one is started.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds, if not as many as the preset has.")] = None,
    root: Annotated[Path | None, typer.Option(help="VOC2012: folder of the devkit.")] = None,
    backbone: Annotated[str, typer.Option(help=f"VOC2012: {' or '.join(BACKBONES)}.")] = "squeezenet",
    weights: Annotated[
        Path | None, typer.Option(help="VOC2012: torchvision's weights, .pth or .npz; without it they are fetched.")
    ] = None,
    train: Annotated[str, typer.Option(help="actions: what trains, head, top or all.")] = "head",
    features: Annotated[
        str, typer.Option(help="detection: pooled from one map an image, or warped crops (slow).")
    ] = "pooled",
    images: Annotated[
        int | None,
        typer.Option(min=0, help="detection: of each list at most, 500 if not given, 0: all; quick preset: 40 in all."),
    ] = None,
    boxes: Annotated[int, typer.Option(min=1, help="detection: proposals of an image, at most.")] = 2000,
    positive: Annotated[float, typer.Option(help="detection: overlap from which a box is on an object.")] = 0.5,
    negative: Annotated[float, typer.Option(help="detection: overlap below which it is not.")] = 0.3,
    batch: Annotated[int, typer.Option(min=2, help="detection: boxes in a batch.")] = 512,
) -> None:
    """Run experiments of the paper and write their report.

    A run that is in the folder already is not run again, so the same command goes on where it was stopped.
    """
    for name in experiments:
        if name not in EXPERIMENTS:
            raise _refuse(f"There is no experiment {name!r}. There are: {', '.join(EXPERIMENTS)}.")
        if preset not in EXPERIMENTS[name].presets:
            raise _refuse(f"{name} has no preset {preset!r}. It has: {', '.join(EXPERIMENTS[name].presets)}.")
    if backend not in BACKENDS:
        raise _refuse(f"There is no backend {backend!r}. There are: {', '.join(BACKENDS)}.")
    if address and backend != "ray":
        raise _refuse("--address is where a Ray cluster is. Add --backend ray.")
    if out.exists() and not out.is_dir():
        raise _refuse(f"--out {out} is a file. Name a folder.")
    for package in ("joblib", "matplotlib", *(["ray"] if backend == "ray" else [])):
        importlib.import_module(package)  # before the work, not after it
    on_data = {name: prepare for name in experiments if (prepare := EXPERIMENTS[name].prepare)}
    if on_data and root is None:
        raise _refuse(f"{min(on_data)} needs data: add --root DIR. `directloss data voc2012 --root DIR` gets it.")
    if root and not on_data:
        raise _refuse("--root is for experiments on real data: actions, detection.")
    place = root or Path()
    asked = Options(preset, place, backbone, weights, train, features, images, boxes, positive, negative, batch, jobs)
    sources = {name: _prepare(prepare, asked) for name, prepare in on_data.items()}
    failures = 0
    for name in experiments:
        failures += _run(name, preset, out, jobs, backend, address, seeds, sources.get(name))
        _export(name, preset, out, seeds, sources.get(name))
    _write_report(out)
    if failures:
        errors.print(f"{failures} runs failed; the same command tries them again.", style="red")
        raise typer.Exit(1)


@contextmanager
def _steps() -> Iterator[Callable[[str], Callable[[float], object]]]:
    """Bars for work that has several steps: yields what to tell of a step, which returns what hears its share."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=errors) as progress:

        def say(text: str) -> Callable[[float], object]:
            bar: list[Any] = []

            def heard(share: float) -> None:
                if not bar:  # a step that has nothing to do shows no bar
                    bar.append(progress.add_task(text, total=1.0))
                progress.update(bar[0], completed=share)

            return heard

        yield say


def _prepare(prepare: Callable[..., Any], *options: Any) -> Any:
    """Data and features of an experiment, from the options of the command line."""
    try:
        with _steps() as say:
            source, notes = prepare(*options, say)
    except KeyboardInterrupt:
        errors.print("Stopped. The same command goes on where it was.")
        raise typer.Exit(130) from None
    except BrokenExecutor:
        raise _refuse("A process was killed, perhaps for want of memory; try fewer --jobs. The rest is kept.") from None
    except (ValueError, DownloadError, OSError) as error:
        raise _refuse(str(error)) from None
    for note in notes:
        errors.print(note, style="yellow", markup=False, highlight=False)
    return source


def _run(
    name: str, preset: str, out: Path, jobs: int, backend: str, address: str | None, seeds: int | None, source: Any
) -> int:
    """Run what is missing; return how many failed."""
    experiment = EXPERIMENTS[name]
    store = Store(out / name / preset, name, experiment.version)
    there = store.runs()
    for text in store.set_aside:
        errors.print(text, style="yellow", markup=False, highlight=False)
    configs = experiment.configs(preset, seeds, *([plain(source)] if source else []))
    missing = [config for config in configs if store.path(plain(config)) not in there]
    done = len(configs) - len(missing)
    if not missing:
        console.print(f"{name}, {preset} preset: all {len(configs)} runs are in {store.folder} already.")
        return 0
    import joblib

    jobs = jobs or joblib.cpu_count()
    where = f"on {address}" if address else f"{jobs} at a time"
    console.print(f"{name}, {preset} preset: {len(missing)} of {len(configs)} runs to do, {where}.")
    _compile()
    failures = 0

    def kept() -> str:
        return f"{done} of {len(configs)} runs are kept in {store.folder}; the same command goes on."

    try:
        with _progress(len(configs), done) as (advance, listen):
            for run in execute(name, missing, jobs, backend, address, listen):
                if isinstance(run, Failure):
                    failures += 1
                    errors.print(f"failed: {run.message}", style="red", markup=False, highlight=False)
                else:
                    store.write(run)
                    done += 1
                advance()
    except KeyboardInterrupt:
        errors.print(f"Stopped. {kept()}")
        raise typer.Exit(130) from None
    except BrokenExecutor:
        errors.print(f"A process was killed, perhaps for want of memory; try fewer --jobs. {kept()}", style="red")
        raise typer.Exit(1) from None
    except ConnectionError as error:
        raise _refuse(f"No Ray cluster answers: {error}") from None
    return failures


def _export(name: str, preset: str, out: Path, seeds: int | None, source: Any) -> None:
    """What the runs on this source made and people can use, once all are there."""
    experiment = EXPERIMENTS[name]
    if experiment.export is None:
        return
    store = Store(out / name / preset, name, experiment.version)
    there = store.runs()
    wanted = [store.path(plain(config)) for config in experiment.configs(preset, seeds, plain(source))]
    if all(path in there for path in wanted):
        for folder in experiment.export([there[path] for path in wanted], out / "detectors" / preset):
            console.print(f"Detector: {folder}", soft_wrap=True)


def _compile() -> None:
    """Compile the kernels once, before several processes would."""
    scores, target = torch.tensor([1.0, 0.0]), torch.tensor([True, False])
    with console.status("compiling kernels, once after installation (up to a minute)"):
        for update in (PositiveDirect(1.0), NegativeDirect(1.0)):
            AveragePrecisionLoss(update)(scores, target)


def _write_report(
    folder: Path,
    page: Path | None = None,
    flat: Path | None = None,
    pictures: Path | None = None,
    preset: str | None = None,
) -> None:
    sections = [section for section in gather(folder) if preset in (None, section.preset)]
    if not sections:
        raise _refuse(f"There are no runs in {folder}. Make some: directloss reproduce synthetic --out {folder}")
    if (flat or pictures) and len({section.experiment.name for section in sections}) < len(sections):
        raise _refuse(f"{folder} has runs of several presets. Name one: --preset quick or --preset paper.")
    for section in sections:
        for text in section.set_aside:
            errors.print(text, style="yellow", markup=False, highlight=False)
    page = page or folder / "report.html"
    tables = page.with_suffix(".md")
    write_whole(page, html(sections))
    write_whole(tables, markdown(sections))
    if pictures:
        for section in sections:
            for figure in section.summary.figures():
                write_whole(pictures / f"{figure.name}.svg", figure.svg)
    if flat:
        write_whole(flat, records(sections))
    print(markdown(sections, details=False))
    if flat:
        console.print(f"Numbers: {flat}", soft_wrap=True)
    console.print(f"Report: {page} (all tables as Markdown: {tables})", soft_wrap=True)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder that keeps the runs.")],
    page: Annotated[Path | None, typer.Option("--html", help="The page; FOLDER/report.html if not given.")] = None,
    flat: Annotated[Path | None, typer.Option("--json", help="Also write all numbers as flat records.")] = None,
    pictures: Annotated[
        Path | None, typer.Option("--figures", help="Also write every figure into this folder.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Only the runs of this preset.")] = None,
) -> None:
    """Write the report on the runs of a folder, and print its tables."""
    if not folder.is_dir():
        raise _refuse(f"{folder} is no folder.")
    if page and page.suffix != ".html":
        raise _refuse(f"--html {page} must end in .html; the tables go beside it as Markdown.")
    _write_report(folder, page, flat, pictures, preset)


@app.command()
def data(
    name: Annotated[str, typer.Argument(help="voc2012")],
    root: Annotated[Path, typer.Option(help="Folder that holds the devkit, or shall hold it.")],
) -> None:
    """Check the data of an experiment, or fetch it (2 GB) where it is not there yet."""
    if name != "voc2012":
        raise _refuse(f"There is no data {name!r}. There is: voc2012.")
    try:
        with _steps() as say:
            if not is_there(root):
                fetch_voc2012(root, say)
            counts = verify(root, say("decoding every image"))
    except KeyboardInterrupt:
        errors.print("Stopped. The same command goes on where it was.")
        raise typer.Exit(130) from None
    except (DevkitError, DownloadError, OSError) as error:
        raise _refuse(str(error)) from None
    told = ", ".join(f"{count} {what}" for what, count in counts.items())
    console.print(f"{find_devkit(root)} is the official action task: {told}.", soft_wrap=True, highlight=False)


def _free_name(image: Path, out: Path, taken: set[str]) -> str:
    """What to call the drawing of an image so that it replaces nothing that is taken; it then is."""
    stem, again = image.stem[:80], 1
    name = f"{stem}-detected.png"
    while os.path.realpath(out / name) in taken:
        again += 1
        name = f"{stem}-detected-{again}.png"
    taken.add(os.path.realpath(out / name))
    return name


@app.command()
def detect(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="JPEG or PNG.")],
    model: Annotated[Path, typer.Option(help="Folder of a detector: reproduce detection writes some.")],
    out: Annotated[Path, typer.Option(help="Folder for drawn images and detections.json.")] = Path("detections"),
    top: Annotated[int, typer.Option(min=1, help="Boxes of an image, at most.")] = 20,
) -> None:
    """Find objects in images: draw boxes, write JSON.

    An image that cannot be used is named, and the others are done.
    """
    if out.exists() and not out.is_dir():
        raise _refuse(f"--out {out} is a file. Name a folder.")
    try:
        detector = load_detector(model)
    except (ValueError, OSError) as error:
        raise _refuse(str(error)) from None
    rows, bad = [], 0
    taken = {os.path.realpath(path) for path in images}  # no drawing may replace what is to be drawn
    if os.path.realpath(out / "detections.json") in taken:
        raise _refuse(f"{out / 'detections.json'} is to be drawn and would be replaced. Name another --out.")
    try:
        with _steps() as say:
            heard = say("detecting")
            for number, path in enumerate(images):
                try:
                    image = upright(read_image(path))
                    found = detector(image, top)
                except (ValueError, OSError) as error:
                    bad += 1
                    text = str(error) if str(path) in str(error) else f"{path}: {error}"
                    errors.print(text, style="red", markup=False, highlight=False)
                else:
                    name = _free_name(path, out, taken)
                    buffer = io.BytesIO()
                    draw(image, found).save(buffer, format="PNG")
                    write_whole(out / name, buffer.getvalue())
                    boxes = [{"class": each.name, "score": round(each.score, 4), "box": each.box} for each in found]
                    size = {"width": image.width, "height": image.height}
                    rows.append({"image": str(path), "drawn": name, **size, "boxes": boxes})
                heard((number + 1) / len(images))
        if rows:
            write_whole(out / "detections.json", json.dumps(rows, indent=1) + "\n")
    except OSError as error:
        raise _refuse(str(error)) from None
    for row in rows:
        told = ", ".join(f"{box['class']} {box['score']:.2f}" for box in row["boxes"]) or "nothing"
        image = row["image"].encode(errors="backslashreplace").decode()  # a name may be no UTF-8
        console.print(f"{image}: {told}", soft_wrap=True, highlight=False, markup=False)
    if rows:
        console.print(f"Drawn images and detections.json: {out}", soft_wrap=True)
    if bad:
        raise typer.Exit(1)


@app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(context: typer.Context) -> None:
    """Time the loss beside torch.sort and its peers; options as of python -m benchmarks.speed."""
    sys.path.insert(0, "")
    try:
        speed = importlib.import_module("benchmarks.speed")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "benchmarks":
            raise
        raise _refuse("The benchmark is in the repository, beside src/. Run this in a clone of it.") from None
    raise typer.Exit(speed.main(context.args))


@app.command()
def check(task: Annotated[str, typer.Argument(metavar="MODULE:TASK", help="E.g. examples.top_item:TopItem")]) -> None:
    """Try a task of your own against brute force, and say in words what is wrong."""
    module_name, _, name = task.partition(":")
    if not module_name or not name:
        raise _refuse(f"{task!r} names no task. Write MODULE:TASK, e.g. examples.top_item:TopItem.")
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise _refuse(f"There is no module {module_name!r} here or installed.") from None
    found = getattr(module, name, None)
    if found is None:
        raise _refuse(f"{module_name} has no {name!r}.")
    try:
        instance = found() if isinstance(found, type) else found
        if not isinstance(instance, Task):
            raise TypeError(f"{task} is no Task but {instance!r}.")
        check_task(instance)
    except TaskError as error:
        errors.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    except TypeError as error:
        raise _refuse(str(error)) from None
    console.print(f"{instance!r}: no oracle was beaten, every law holds.", markup=False)


@app.command("list")
def list_() -> None:
    """List experiments, tasks and updates."""
    table = Grid("experiment", "what", "presets")
    for experiment in EXPERIMENTS.values():
        counts = ", ".join(f"{preset} ({len(experiment.configs(preset, None))} runs)" for preset in experiment.presets)
        table.add_row(experiment.name, experiment.title, counts)
    console.print(table)
    for title, members in (("task", TASKS), ("update", UPDATES)):
        table = Grid(title, "class", "what")
        for name, member in members.items():
            table.add_row(name, member.__name__, (member.__doc__ or "").splitlines()[0])
        console.print(table)
