"""Results on disk: one JSON file a run, written whole or not at all, under a name made from its configuration.

A file is trusted only if it is whole and holds the configuration that its name stands for. Any other file in the folder
is set aside under `aside/`, and named; nothing is overwritten.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .experiment import Run
from .files import write_whole

__all__ = ["Store", "plain"]

FORMAT = 1
ASIDE = "aside"
PARTIAL = re.compile(r"\..+\.json\.\d+-[0-9a-f]{8}\.partial")
ABANDONED = 600.0  # seconds after which a partial file belongs to nobody: writing takes milliseconds
LARGEST = 1 << 26  # bytes of a result that is read; those written here have at most a hundredth


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def plain(config: Any) -> dict[str, Any]:
    """A configuration as JSON holds it: lists for tuples."""
    return json.loads(_canonical(asdict(config)))


class Store:
    """The runs of one experiment and preset in a folder."""

    def __init__(self, folder: Path, experiment: str, version: int) -> None:
        self.folder = folder
        self.experiment = experiment
        self.version = version
        self.set_aside: list[str] = []
        """What was set aside, and why, a sentence each."""

    def path(self, config: dict[str, Any]) -> Path:
        """Where the run of a configuration stands."""
        key = {"experiment": self.experiment, "version": self.version, "config": config}
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"{config['method']}-{config['seed']}")
        return self.folder / f"{name}-{_digest(key)[:16]}.json"

    def write(self, run: Run) -> None:
        """Keep a run."""
        content = {"format": FORMAT, "experiment": self.experiment, "version": self.version, **asdict(run)}
        write_whole(self.path(run.config), json.dumps({**content, "sha256": _digest(content)}, ensure_ascii=False))

    def runs(self) -> dict[Path, Run]:
        """All runs that are there and whole, of this or an earlier version. Sets anything else aside."""
        found: dict[Path, Run] = {}
        if not self.folder.is_dir():
            return found
        for path in sorted(self.folder.iterdir()):
            if PARTIAL.fullmatch(path.name):
                with contextlib.suppress(OSError):  # gone meanwhile: its writer is alive
                    if time.time() - path.lstat().st_mtime > ABANDONED:
                        path.unlink()
            elif path.name != ASIDE:
                try:
                    found[path] = self._read(path)
                except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                    self._put_aside(path, error)
        return found

    def _read(self, path: Path) -> Run:
        status = path.lstat()
        if path.suffix != ".json" or not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise ValueError("it is no result of a run")
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError("it is no result of a run")
        if content.pop("sha256", None) != _digest(content):
            raise ValueError("its checksum is wrong")
        owner = Store(self.folder, content["experiment"], content["version"])
        if content["experiment"] != self.experiment or owner.path(content["config"]) != path:
            raise ValueError("it belongs to another experiment or configuration")
        return Run(content["config"], content["result"], content["made"])

    def _put_aside(self, path: Path, error: Exception) -> None:
        reason = "it is no JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else error
        aside = self.folder / ASIDE
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
        self.set_aside.append(text.encode("utf-8", "backslashreplace").decode())
