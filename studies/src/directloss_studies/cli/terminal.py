"""What the commands print with: two consoles, progress bars, and errors without a traceback."""

import errno
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.text import Text

from ..harness.downloads import DownloadError
from ..harness.execution import INTERVAL, RunProgress
from ..harness.files import visible
from ..harness.progress import Progress, Steps

__all__ = ["KILLED", "console", "errors", "handled", "in_words", "refuse", "show_runs", "show_steps", "warn"]

PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}  # [b] and :x: in a path are not ours


class _Console(Console):
    """Prints text as it is: no markup, and control characters as words. Only rich itself moves the cursor."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


console = _Console(**PLAIN)
errors = _Console(**PLAIN, stderr=True, soft_wrap=True)
CURES = {
    errno.ENOSPC: "Free some space, or name another folder.",
    errno.EISDIR: "Name a file.",
    errno.ENOTDIR: "Name a folder.",
    errno.EEXIST: "Name a folder.",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Name a folder that you may write to."),
}
KILLED = "A process was killed, perhaps because memory ran out; try fewer --jobs."


def in_words(error: OSError) -> str:
    """What is wrong with a file or folder, and what to do about it, without the number of the error."""
    if not error.strerror:
        text = str(error)
    else:
        reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        text = " ".join(filter(None, (f"{reason}.", CURES.get(error.errno or 0))))
    return " ".join((text, *getattr(error, "__notes__", ())))


def refuse(message: str) -> typer.Exit:
    """Print an error, and return the exception that ends the command with exit code 2."""
    errors.print(message, style="red")
    return typer.Exit(2)


def warn(message: str) -> None:
    """Print something that a person should know."""
    errors.print(message, style="yellow")


@contextmanager
def handled() -> Iterator[None]:
    """Turn the errors of reading, fetching and computing data into messages."""
    try:
        yield
    except KeyboardInterrupt:
        errors.print("Stopped. The same command continues where it stopped.")
        raise typer.Exit(130) from None
    except BrokenExecutor:
        raise refuse(f"{KILLED} The same command continues where it stopped.") from None
    except (ValueError, DownloadError) as error:
        raise refuse(str(error)) from None
    except OSError as error:
        raise refuse(in_words(error)) from None


@contextmanager
def show_steps() -> Iterator[Steps]:
    """Show a bar for each step of some work."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    bars = Bars(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=errors)

    def step(text: str, /) -> Progress:
        bar: list[TaskID] = []

        def progress(share: float, /) -> None:
            if not bar:  # a step that has nothing to do shows no bar
                bars.start()
                bar.append(bars.add_task(text, total=1.0))
            bars.update(bar[0], completed=share)

        return progress

    try:
        yield step
    finally:
        if bars.tasks:
            bars.stop()


@contextmanager
def show_runs(total: int, done: int) -> Iterator[tuple[Callable[[], None], Callable[[RunProgress], None]]]:
    """Show a bar for all runs and one for each running; yields what to call after a run, and the runs' observer."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left = TextColumn("left"), TimeRemainingColumn()
    with Bars(*columns, *left, console=errors, speed_estimate_period=3600) as bars:
        whole = bars.add_task("all runs", total=total, completed=done)
        ended = threading.Event()
        threads: list[threading.Thread] = []

        def update(progress: RunProgress) -> None:
            running: dict[str, TaskID] = {}
            while not ended.wait(INTERVAL):
                shares = progress.read()
                for label in running.keys() - shares.keys():
                    bars.remove_task(running.pop(label))
                for label, share in shares.items():
                    if label not in running:
                        running[label] = bars.add_task(f"  {label}", total=100)
                    bars.update(running[label], completed=round(100 * share))
            for bar in running.values():
                bars.remove_task(bar)

        def observe(progress: RunProgress) -> None:
            threads.append(threading.Thread(target=update, args=(progress,), daemon=True))
            threads[-1].start()

        try:
            yield lambda: bars.advance(whole), observe
        finally:
            ended.set()
            for thread in threads:
                thread.join()
