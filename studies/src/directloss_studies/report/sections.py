"""The runs of a folder, study by study: what the page, the Markdown and the terminal show."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..harness.options import arguments
from ..harness.store import Store
from ..harness.study import AnyStudy, Run, Summary
from .takeaway import takeaway

__all__ = ["Section", "gather", "records"]


@dataclass(frozen=True)
class Section:
    """The runs of one study and preset."""

    study: AnyStudy
    preset: str
    seeds: int
    """How many were begun."""
    runs: Sequence[Run[Any, Any]]
    missing: int
    """Runs that the preset has, for as many seeds as were begun, and that are not there."""
    left_out: int
    """Runs of other settings or of an earlier version."""
    set_aside: Sequence[str]
    summary: Summary
    newer: Sequence[str] = ()
    """What a newer directloss wrote, a sentence each."""

    @property
    def commands(self) -> list[str]:
        """What makes these runs: the different commands of all sources of data."""
        commands = []
        for source, seeds in _sources(self.study, self.runs) or [(None, self.seeds)]:
            usual = self.study.configs(self.study.options_from(self.preset, None, source), source)
            given = None if seeds == len({config.seed for config in usual}) else seeds
            options = arguments(self.study.options_from(self.preset, given, source))
            commands.append(f"directloss reproduce {self.study.name} {options}")
        return list(dict.fromkeys(commands))

    @property
    def title(self) -> str:
        """The study and the preset."""
        return f"{self.study.title}, {self.preset} preset"

    @property
    def takeaway(self) -> list[str]:
        """What to take away, at most three sentences."""
        return takeaway(self.summary.headline, self.summary.claims, self.seeds, self.missing)

    @property
    def facts(self) -> list[str]:
        """Seeds, time, versions, and anything that a reader should know about the runs."""
        seconds = sum(run.provenance.seconds for run in self.runs)
        iterations = sorted({run.config.iterations for run in self.runs})
        facts = [
            f"{len(self.runs)} runs, {self.seeds} seeds, {' or '.join(map(str, iterations)) or 'no'} iterations, "
            f"{seconds / 60:.1f} minutes of one core in all.",
            *(f"Made by: {command}" for command in self.commands),
        ]
        versions = {tuple(run.provenance.versions.items()) for run in self.runs}
        facts += ["Versions: " + ", ".join(f"{name} {value}" for name, value in maker) for maker in sorted(versions)]
        if self.missing:
            runs = "1 run is" if self.missing == 1 else f"{self.missing} runs are"
            facts.append(f"Not finished: {runs} missing. The same command continues with them.")
        if self.left_out:
            facts.append(f"{self.left_out} runs of other settings are in the folder and not counted here.")
        facts += self.newer
        facts += [f"Set aside, not counted: {text}" for text in self.set_aside]
        return facts


def _source(config: Any) -> Any:
    return getattr(config, "source", None)


def _sources(study: AnyStudy, runs: Iterable[Run[Any, Any]]) -> list[tuple[Any, int]]:
    """What data the runs were made from, and how many seeds were begun on each."""
    seeds: dict[Any, int] = {}
    for run in runs:
        source = _source(run.config)
        seeds[source] = max(seeds.get(source, 0), 1 + run.config.seed - study.first_seed)
    return list(seeds.items())


def gather(folder: Path, studies: Iterable[AnyStudy]) -> list[Section]:
    """All studies and presets that have runs in the folder."""
    sections = []
    for study in studies:
        for preset in study.presets:
            store = Store(folder / study.name / preset, study)
            runs = store.runs()
            if runs or store.set_aside or store.newer or store.other_versions:
                sections.append(_section(store, preset, runs))
    return sections


def _section(store: Store[Any, Any], preset: str, stored: Mapping[Path, Run[Any, Any]]) -> Section:
    study, expected = store.study, []
    sources = _sources(study, stored.values())
    for source, begun in sources:
        options = study.options_from(preset, begun, source)
        expected += [store.path(config) for config in study.configs(options, source)]
    runs = [stored[path] for path in expected if path in stored]
    unfinished = [path for path in expected if path not in stored]
    seeds = max((seeds for _, seeds in sources), default=0)
    missing, left_out = len(expected) - len(runs), len(stored) - len(runs) + store.other_versions
    summary = study.summarise(runs)
    beside = sum(Path(path).name.startswith(tuple(f"{name}-" for name in study.beside)) for path in unfinished)
    if missing > beside:  # by the rule nothing is concluded
        summary = replace(summary, claims=[replace(one, complete=False) for one in summary.claims])
    newer = list(store.newer.values())
    return Section(study, preset, seeds, runs, missing, left_out, store.set_aside, summary, newer)


def records(sections: Sequence[Section]) -> str:
    """All numbers as flat JSON records, one a line."""
    flat = [
        {"experiment": record.study, **{key.rstrip("_"): value for key, value in list(record._asdict().items())[1:]}}
        for section in sections
        for record in section.summary.records
    ]
    return "[\n" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in flat) + "\n]\n"
