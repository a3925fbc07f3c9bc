"""Tasks and updates."""

import json
import re
from inspect import Parameter, signature

from directloss import CentralDirect, Hinge, NegativeDirect, Perceptron, PositiveDirect, WindowDirect
from directloss.families import CountTask, LinearLossTask, RankingTask, explain
from directloss.tasks import TASKS
from directloss.update import UPDATES

from .numbers import ROOT, block

FAMILIES = {RankingTask: "ranking", CountTask: "counts", LinearLossTask: "linear"}


@block
def tasks() -> str:
    """Every task, from `TASKS` and its docstring."""
    lines = ["| task | task loss | family |", "|---|---|---|"]
    for member in TASKS.values():
        options = ", ".join(
            one.name
            for one in signature(member).parameters.values()
            if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        )
        said = (member.__doc__ or "").split("\n\n")[0].replace("\n    ", " ")
        sentences = re.split(r"(?<=[.;]) ", said)
        kept = " ".join(one for one in sentences if not re.search(r"exact|O\(", one)).rstrip(";.") + "."
        family = next((name for kind, name in FAMILIES.items() if issubclass(member, kind)), "its own")
        lines.append(f"| `{member.__name__}({options})` | {kept} | {family} |")
    return "\n".join(lines)


@block
def updates() -> str:
    """Every update, from its docstring."""
    values = {
        PositiveDirect: "(max(F + εL) − max F)/ε",
        NegativeDirect: "(max F − max(F − εL))/ε",
        CentralDirect: "the mean of the two above",
        WindowDirect: "(max(F + above·L) − max(F − below·L))/(above + below)",
        Hinge: "max(F + margin·L) − F(truth)",
        Perceptron: "max F − F(truth)",
    }
    lines = ["| update | away | toward | scale | value of the loss |", "|---|---|---|---|---|"]
    for member in UPDATES.values():
        said = re.match(r"away = (.*), toward = (.*), scale ([^\s:]*[^\s:.])", member.__doc__ or "")
        if not said:
            raise ValueError(f"The docstring of {member.__name__} does not begin with its row.")
        options = ", ".join(signature(member).parameters)
        lines.append(f"| `{member.__name__}({options})` | {' | '.join(said.groups())} | {values[member]} |")
    return "\n".join(lines)


@block
def ranking_ways() -> str:
    """Which way each ranking task takes, from `explain`."""
    positives, negatives = 200_000, 800_000
    lines = [f"| {positives:,} positives, {negatives:,} negatives | weight > 0 | weight < 0 |", "|---|---|---|"]
    for member in TASKS.values():
        if issubclass(member, RankingTask | CountTask):
            _, *ways = explain(member(), positives, negatives).splitlines()
            cells = [way.partition(": ")[2] for way in ways]
            lines.append(f"| `{member()!r}` | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


@block
def scales() -> str:
    """How often ε = 1 suits a ranking task, from results/scale.json."""
    results = json.loads((ROOT / "results" / "scale.json").read_text())
    medians = results["medians"]
    every = [epsilon for of_task in medians.values() for epsilon in of_task.values() if epsilon]
    tasks = sum(not name.startswith("RandomGain") for name in medians)
    return (
        f"Measured on {tasks} metrics and {len(medians) - tasks} random gains, in lists of 10 to 100,000 items: of "
        f"{len(every)} medians {results['inside']} lie between 0.5 and 4. Most of the others are of metrics that "
        "depend on the first ranks alone, where the typical ε differs from list to list by factors of a thousand. "
        f"`AveragePrecision` keeps the scale of the paper. Made by `{results['command']}`."
    )
