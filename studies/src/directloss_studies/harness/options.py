"""What a person can ask of a study: one typed options class each, from which the command line is made.

A field of an options class is an option. `preset` of `Options` is `--preset` on the command line. Its type, its
default and its `Option` say what is accepted and what the help shows.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

__all__ = ["DataOptions", "Option", "Options", "arguments", "options_of"]


@dataclass(frozen=True)
class Option:
    """The help text and the limits of one option."""

    help: str
    min: int | None = None
    metavar: str | None = None
    """What stands for the value in help and in a report's commands, e.g. DIR."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every study takes. A study that takes more has a subclass."""

    preset: Annotated[str, Option("quick: a minute or two; paper: the full study.")] = "quick"
    seeds: Annotated[int | None, Option("The number of seeds; without it that of the preset.", min=1)] = None

    def hidden(self) -> set[str]:
        """The names of options that do not stand in a command that gives these options."""
        return set()


@dataclass(frozen=True, kw_only=True)
class DataOptions(Options):
    """What studies on data of a folder take."""

    data: Annotated[
        Path | None,
        Option("Folder with the data, see the study's page; without it quick makes its own.", metavar="DIR"),
    ] = None


class Member(NamedTuple):
    """One option of a class: its name, type, default and description."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def is_path(self) -> bool:
        """Whether it names a place on this machine. Such an option is no part of a source."""
        return self.type in (Path, Path | None)


def options_of(kind: type[Any]) -> list[Member]:
    """The options of a dataclass, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    members = []
    for each in fields(kind):
        annotated = hints[each.name]
        (option,) = (extra for extra in annotated.__metadata__ if isinstance(extra, Option))
        members.append(Member(each.name, annotated.__origin__, each.default, option))
    return members


def arguments(options: Options) -> str:
    """The command line that gives these options. A path is shown by its metavar, since it differs by machine."""
    words = []
    hidden = options.hidden()
    for member in (member for member in options_of(type(options)) if member.name not in hidden):
        value = member.option.metavar if member.is_path else getattr(options, member.name)
        if value is not None:
            words.append(f"--{member.name} {value}")
    return " ".join(words)
