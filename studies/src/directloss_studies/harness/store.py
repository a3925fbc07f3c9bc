"""Results on disk: one JSON file for each run, written whole or not at all, under a name made from its configuration.

A file is trusted only if it is whole, holds the configuration that its name stands for, and fits the types of its
study. A file that a newer directloss wrote stays where it is. Any other is moved to `aside/` and named. Nothing
is overwritten.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Any, Generic, Protocol, runtime_checkable

from .files import visible, write_whole
from .study import ConfigT, Provenance, ResultT, Run, Study
from .typed import decode, encode

__all__ = ["Store"]

FORMAT = 1
ASIDE = "aside"
PARTIAL = re.compile(r"\..+\.json\.\d+-[0-9a-f]{8}\.partial")
ABANDONED = 600.0  # seconds after which nobody writes a partial file any more: writing takes milliseconds
SEEDS = 10_000  # a report counts the runs of all seeds up to the highest
LARGEST = 1 << 26  # bytes of a file that is read; the largest result has a hundredth of it


class _NewerError(Exception):
    """A file of a format that is newer than this code."""


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


@runtime_checkable
class Checked(Protocol):
    """A result that knows more than its types: it is checked when it is read."""

    def check(self, config: Any, /) -> None:
        """Raise a ValueError if the parts do not fit together, or not to the configuration."""
        ...


class Store(Generic[ConfigT, ResultT]):
    """The runs of one study and preset in a folder."""

    def __init__(self, folder: Path, study: Study[Any, Any, ConfigT, ResultT]) -> None:
        self.folder = folder
        self.study = study
        self.set_aside: list[str] = []
        """What was set aside, and why, a sentence each."""
        self.newer: dict[Path, str] = {}
        """Files that a newer directloss wrote, and a sentence that says so. They are not read, and stay."""
        self.other_versions = 0
        """How many runs of other versions of the study were met. They are not read."""

    def path(self, config: ConfigT) -> Path:
        """Where the run of a configuration is, or will be."""
        return self._path(self.study.version, encode(config))

    def _path(self, version: int, config: dict[str, Any]) -> Path:
        key = {"experiment": self.study.name, "version": version, "config": config}
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"{config['method']}-{config['seed']}")
        return self.folder / f"{name}-{_digest(key)[:16]}.json"

    def write(self, run: Run[ConfigT, ResultT]) -> None:
        """Write a run to its file."""
        owner = {"experiment": self.study.name, "version": self.study.version}
        content = {"format": FORMAT, **owner, **encode(run)}
        write_whole(self.path(run.config), json.dumps({**content, "sha256": _digest(content)}, ensure_ascii=False))

    def runs(self) -> dict[Path, Run[ConfigT, ResultT]]:
        """All runs of this version that are there and whole. Counts those of other versions; sets the rest aside."""
        found: dict[Path, Run[ConfigT, ResultT]] = {}
        self.other_versions, self.newer = 0, {}
        if not self.folder.is_dir():
            return found
        for path in sorted(self.folder.iterdir()):
            if PARTIAL.fullmatch(path.name):
                with contextlib.suppress(OSError):  # gone meanwhile: its writer is alive
                    if time.time() - path.lstat().st_mtime > ABANDONED:
                        path.unlink()
            elif path.name != ASIDE:
                try:
                    run = self._read(path)
                except _NewerError as error:
                    self.newer[path] = visible(f"{path} is not counted, and stays where it is: {error}")
                except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                    self._put_aside(path, error)
                else:
                    if run is None:
                        self.other_versions += 1
                    else:
                        found[path] = run
        return found

    def _read(self, path: Path) -> Run[ConfigT, ResultT] | None:
        """The run in a file; None if another version of the study made it."""
        status = path.lstat()
        if path.suffix != ".json" or not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise ValueError("it is not the result of a run")
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is not the result of a run")
        found = content.get("format")
        if type(found) is int and found > FORMAT:
            raise _NewerError(
                f"a newer directloss wrote it (format {found}; this one reads {FORMAT}). Install that one."
            )
        if found != FORMAT:
            raise ValueError("it is not the result of a run")
        if content.pop("sha256", None) != _digest(content):
            raise ValueError("its checksum is wrong")
        version, config = content["version"], content["config"]
        if content["experiment"] != self.study.name or self._path(version, config) != path:
            raise ValueError("it belongs to another study or configuration")
        if version != self.study.version:
            return None
        parts = {"config": self.study.config, "result": self.study.result, "made": Provenance}
        found = {}
        for name, kind in parts.items():
            try:
                found[name] = decode(kind, content.get(name))
                if isinstance(found[name], Checked):
                    found[name].check(found["config"])
            except ValueError as error:
                raise ValueError(f"its {name} does not fit: {error}") from None
        run = Run(found["config"], found["result"], found["made"])
        if not 0 <= run.config.seed < SEEDS:
            raise ValueError(f"its config does not fit: seed must be from 0 to {SEEDS - 1}; got {run.config.seed}")
        return run

    def _put_aside(self, path: Path, error: Exception) -> None:
        reason = str(error)
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            reason = "it is not JSON"
        elif isinstance(error, KeyError):
            reason = f"it lacks the key {error}"
        aside = self.folder / ASIDE
        if aside.is_symlink():
            raise OSError(
                f"{path} cannot be used ({reason}), and {aside}, where it would be set aside, is a symbolic link. "
                "Nothing was moved. Remove the link."
            )
        place = aside / path.name
        count = 1
        while os.path.lexists(place):
            place = aside / f"{path.name}.{count}"
            count += 1
        try:
            aside.mkdir(exist_ok=True)
            os.replace(path, place)
        except OSError as failure:
            text = f"{path} is not counted, and could not be set aside ({failure}): {reason}"
        else:
            text = f"{path} set aside as {place}: {reason}"
        self.set_aside.append(visible(text))
