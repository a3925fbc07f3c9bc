"""A report on the runs of a folder: one HTML file that needs nothing else, Markdown for the terminal, flat JSON.

Everything in it, verdicts too, is computed from the runs.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from ..harness.experiment import AnyExperiment, Claim, Comparison, Figure, Run, Summary, Table
from ..harness.options import arguments
from ..harness.store import Store
from .summary import RULE, TOO_FEW

__all__ = ["Section", "gather", "html", "markdown", "records"]


@dataclass(frozen=True)
class Section:
    """The runs of one experiment and preset."""

    experiment: AnyExperiment
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

    @property
    def commands(self) -> list[str]:
        """What makes these runs, a command for every source of data."""
        found = []
        for source, seeds in _sources(self.runs) or [(None, self.seeds)]:
            usual = self.experiment.configs(self.experiment.asked(self.preset, None, source), source)
            given = None if seeds == len({config.seed for config in usual}) else seeds
            asked = arguments(self.experiment.asked(self.preset, given, source))
            found.append(f"directloss reproduce {self.experiment.name} {asked}")
        return found


def _source(config: Any) -> Any:
    return getattr(config, "source", None)


def _sources(runs: Iterable[Run[Any, Any]]) -> list[tuple[Any, int]]:
    """What data the runs were made from, and how many seeds were begun on each."""
    seeds: dict[Any, int] = {}
    for run in runs:
        source = _source(run.config)
        seeds[source] = max(seeds.get(source, 0), 1 + run.config.seed)
    return list(seeds.items())


def gather(folder: Path, experiments: Iterable[AnyExperiment]) -> list[Section]:
    """All experiments and presets that have runs in the folder."""
    sections = []
    for experiment in experiments:
        for preset in experiment.presets:
            store = Store(folder / experiment.name / preset, experiment)
            found = store.runs()
            sources = _sources(found.values())
            seeds = max((seeds for _, seeds in sources), default=0)
            expected = []
            for source, begun in sources:
                asked = experiment.asked(preset, begun, source)
                expected += [store.path(config) for config in experiment.configs(asked, source)]
            runs = [found[path] for path in expected if path in found]
            if found or store.set_aside or store.other_versions:
                missing, left_out = len(expected) - len(runs), len(found) - len(runs) + store.other_versions
                summary = experiment.summarise(runs)
                if missing:  # by the rule nothing is concluded
                    summary = replace(summary, claims=[replace(one, verdict=TOO_FEW) for one in summary.claims])
                sections.append(Section(experiment, preset, seeds, runs, missing, left_out, store.set_aside, summary))
    return sections


def records(sections: Sequence[Section]) -> str:
    """All numbers as flat JSON records, one a line."""
    flat = [
        {key.rstrip("_"): value for key, value in record._asdict().items()}
        for section in sections
        for record in section.summary.records
    ]
    return "[\n" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in flat) + "\n]\n"


def _found(claim: Claim) -> str:
    """What we found, in one cell."""
    cells = [f"{name} = {mean:+.3f} ± {error:.3f}" for name, mean, error, _ in claim.comparisons]
    return "; ".join(cells).replace("= -", "= −") or "–"


def _pairs(comparisons: Sequence[Comparison]) -> str:
    counts = sorted({comparison.n for comparison in comparisons})
    return "–" if not counts else str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _claims_table(claims: Sequence[Claim]) -> Table:
    rows = [[claim.paper, _found(claim), _pairs(claim.comparisons), claim.verdict] for claim in claims]
    note = f"{RULE} Differences in AP, mean ± standard error."
    return Table("What the paper says, and what we found", ["claim", "ours", "pairs", "verdict"], rows, note)


def _facts(section: Section) -> list[str]:
    """Seeds, time, versions, and anything that a reader should know about the runs."""
    seconds = sum(run.made.seconds for run in section.runs)
    iterations = sorted({run.config.iterations for run in section.runs})
    facts = [
        f"{len(section.runs)} runs, {section.seeds} seeds, {' or '.join(map(str, iterations)) or 'no'} iterations, "
        f"{seconds / 60:.1f} minutes of one core in all.",
        *(f"Made by: {command}" for command in section.commands),
    ]
    makers = {tuple(run.made.versions.items()) for run in section.runs}
    facts += ["Versions: " + ", ".join(f"{name} {value}" for name, value in maker) for maker in sorted(makers)]
    if section.missing:
        facts.append(f"Not finished: {section.missing} runs are missing. The same command goes on with them.")
    if section.left_out:
        facts.append(f"{section.left_out} runs of other settings are in the folder and not counted here.")
    facts += [f"Set aside, not counted: {text}" for text in section.set_aside]
    return facts


def _markdown_table(table: Table) -> str:
    lines = [
        "| " + " | ".join(table.header) + " |",
        "|" + "---|" * len(table.header),
        *("| " + " | ".join(row) + " |" for row in table.rows),
    ]
    return "\n".join([f"**{table.title}**", "", *lines, *(["", table.note] if table.note else [])])


def markdown(sections: Sequence[Section], details: bool = True) -> str:
    """The tables; without details only the first one of each experiment and the claims."""
    parts = []
    for section in sections:
        parts.append(f"## {section.experiment.title}, {section.preset} preset\n\n{section.experiment.about}")
        tables = section.summary.tables if details else section.summary.tables[:1]
        parts += [_markdown_table(table) for table in (*tables, _claims_table(section.summary.claims))]
        parts.append("\n".join(f"- {fact}" for fact in _facts(section)))
    return "\n\n".join(parts) + "\n"


STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; padding: 1rem;
  max-width: 72rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.3rem; margin-top: 2.5rem; } h3 { font-size: 1.05rem; }
p, li { max-width: 46rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figcaption { font-size: .9rem; color: #333; }
figure svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; } .scroll:focus { outline: 2px solid #0072b2; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #ddd; }
td:not(:first-child) { min-width: 5rem; } table:not(.claims) td:first-child { white-space: nowrap; }
.claims td:nth-child(-n+2) { min-width: 14rem; }
.verdict { font-weight: 600; white-space: nowrap; }
.holds { color: #00573f; } .holds-in-part { color: #6b4e00; } .does-not-hold { color: #9c2a00; }
.note, .facts { font-size: .9rem; color: #333; }
@media (max-width: 40rem) { body { font-size: 15px; padding: .75rem; } table { font-size: .8rem; }
  table:not(.claims) td:first-child { white-space: normal; min-width: 9rem; }
  .claims thead { display: none; } .claims tr { display: block; padding: .5rem 0; border-bottom: 1px solid #ddd; }
  .claims td { display: block; border: 0; padding: .1rem 0; } .claims td:nth-child(3)::before { content: "pairs: "; } }
@media print { body { max-width: none; font-size: 10pt; } .scroll { overflow: visible; } h2 { break-before: page; }
  .figures { grid-template-columns: 1fr 1fr; } tr { break-inside: avoid; } }
"""


def _html_table(table: Table, kind: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    body = ""
    for row in table.rows:
        cells = ""
        for column, text in enumerate(row):
            last = kind == "claims" and column == len(row) - 1
            mark = f' class="verdict {re.sub(r"[^a-z]+", "-", text)}"' if last else ""
            cells += f"<td{mark}>{escape(text)}</td>"
        body += f"<tr>{cells}</tr>\n"
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{escape(table.title)}</h3>\n<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(table.title, quote=True)}"><table class="{kind}"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n{note}\n"
    )


def _inline(figure: Figure, section: str) -> str:
    """The figure's SVG with ids that are its own in the page."""
    svg = re.sub(r'\bid="', f'id="{section}-{figure.name}-', figure.svg)
    return re.sub(r'(url\(|href=")#', rf"\g<1>#{section}-{figure.name}-", svg)


def html(sections: Sequence[Section]) -> str:
    """The whole report as one page, without scripts and without anything from elsewhere."""
    body = ""
    for section in sections:
        name = f"{section.experiment.name}-{section.preset}"
        figures = "".join(
            f'<figure><div role="img" aria-label="{escape(figure.alt, quote=True)}">{_inline(figure, name)}</div>'
            f"<figcaption>{escape(figure.title)}</figcaption></figure>\n"
            for figure in section.summary.figures()
        )
        first, *others = (_html_table(table) for table in section.summary.tables) if section.summary.tables else ("",)
        facts = "".join(f"<li>{escape(fact)}</li>\n" for fact in _facts(section))
        body += (
            f'<section id="{name}">\n<h2>{escape(section.experiment.title)}, {section.preset} preset</h2>\n'
            f"<p>{escape(section.experiment.about)}</p>\n{first}"
            f"{_html_table(_claims_table(section.summary.claims), 'claims')}"
            f'<h3>Figures</h3>\n<p class="note">Bands are one standard error over seeds.</p>\n'
            f'<div class="figures">\n{figures}</div>\n{"".join(others)}'
            f'<h3>How these numbers were made</h3>\n<ul class="facts">\n{facts}</ul>\n</section>\n'
        )
    links = "".join(
        f'<li><a href="#{section.experiment.name}-{section.preset}">{escape(section.experiment.title)}, '
        f"{section.preset} preset</a></li>"
        for section in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>directloss: the paper's experiments, reproduced</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        "<h1>Direct loss minimization: the paper and what we found</h1>\n"
        "<p>Song, Schwing, Zemel and Urtasun, <cite>Training Deep Neural Networks via Direct Loss Minimization</cite>, "
        f"ICML 2016, beside runs of directloss.</p>\n<ul>{links}</ul>\n{body}</main>\n</body>\n</html>\n"
    )
