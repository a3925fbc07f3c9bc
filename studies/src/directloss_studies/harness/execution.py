"""Run many configurations in parallel processes, by joblib on this machine or by Ray on a cluster.

Each process computes with one thread. So cores are not oversubscribed, and numbers do not depend on how many run at
once.
"""

import contextlib
import logging
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .processes import in_parallel
from .progress import Progress
from .study import ConfigT, Provenance, ResultT, Run, Study
from .threads import one_thread

__all__ = ["BACKENDS", "Failure", "RunProgress", "execute"]

BACKENDS = ("loky", "ray")
INTERVAL = 0.3  # seconds between two reports of a run's progress

Task = tuple[Callable[[Any, Progress], Any], Any, str]
"""What a process gets: the function that runs a configuration, the configuration, the file for its progress."""


@dataclass(frozen=True)
class Failure:
    """A run that ended in an error; the others go on."""

    message: str


def _versions() -> dict[str, str]:
    """The versions that results are made with."""
    packages = {name: version(name) for name in ("directloss", "torch", "numpy", "numba")}
    return {"python": platform.python_version(), **packages, "machine": platform.machine()}


def _work(
    run: Callable[[Any, Progress], Any], config: Any, progress_file: str, parent: int | None = None
) -> Run[Any, Any] | Failure:
    """Run one configuration in this process, and report its progress in a file.

    A worker knows the process that started it, its parent, and ends if that has been killed.
    """
    reported = 0.0

    def progress(share: float, /) -> None:
        nonlocal reported
        if time.monotonic() - reported > INTERVAL:
            reported = time.monotonic()
            if parent not in (None, os.getppid()):
                os._exit(1)
            with contextlib.suppress(OSError):  # another machine of a cluster lacks the folder
                Path(progress_file + ".new").write_text(f"{config.label}\n{share:.4f}")
                os.replace(progress_file + ".new", progress_file)

    start = time.perf_counter()
    try:
        with one_thread():
            result = run(config, progress)
    except Exception as error:
        return Failure(f"{config.label}: {type(error).__name__}: {error}")
    finally:
        with contextlib.suppress(OSError):
            Path(progress_file).unlink(missing_ok=True)
    return Run(config, result, Provenance(round(time.perf_counter() - start, 3), **_versions()))


class RunProgress:
    """The progress of all running configurations: a folder in which each has a file."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="directloss-"))

    def path(self, number: int) -> str:
        """The file of run `number`."""
        return str(self.folder / str(number))

    def read(self) -> dict[str, float]:
        """The finished share of each running configuration, by its label."""
        found = {}
        for path in sorted(self.folder.glob("*[0-9]")):
            with contextlib.suppress(OSError, ValueError):  # the run has ended meanwhile
                label, share = path.read_text().split("\n")
                found[label] = float(share)
        return found

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def execute(
    study: Study[Any, Any, ConfigT, ResultT],
    configs: Sequence[ConfigT],
    jobs: int,
    backend: str = "loky",
    address: str | None = None,
    observer: Callable[[RunProgress], object] = lambda progress: None,
) -> Generator[Run[ConfigT, ResultT] | Failure, None, None]:
    """Run the configurations; yield each as it ends, in any order.

    `observer` is called once, before work starts, with what tells the progress of the runs at any time.
    """
    progress = RunProgress()
    observer(progress)
    work: list[Task] = [(study.run, config, progress.path(number)) for number, config in enumerate(configs)]
    try:
        if backend == "ray":
            yield from _with_ray(work, jobs, address)
        elif jobs == 1 or len(work) == 1:
            yield from (_work(*task) for task in work)
        else:
            yield from in_parallel(_work, [(*task, os.getpid()) for task in work], jobs, in_order=False)
    finally:
        progress.close()


def _with_ray(work: Sequence[Task], jobs: int, address: str | None) -> Iterator[Run[Any, Any] | Failure]:
    import ray
    from ray.exceptions import RayError

    resources = {} if address else {"num_cpus": jobs, "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **resources)
    except (ValueError, RuntimeError) as error:
        raise ConnectionError(str(error)) from error
    try:
        remote = ray.remote(num_cpus=1)(_work)
        pending = [remote.remote(*task) for task in work]
        while pending:
            (ready, *_), pending = ray.wait(pending)
            try:
                yield ray.get(ready)
            except RayError as error:
                yield Failure(f"{type(error).__name__}: {error}")
    finally:
        ray.shutdown()
