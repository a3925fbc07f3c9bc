"""One number of every run, under what it depends on: the variant, the noise, the method, the seed and the class."""

from collections.abc import Collection, Iterator
from statistics import fmean, mean, stdev
from typing import NamedTuple, Self

from ..harness.study import Comparison, Record

__all__ = ["Group", "Outcomes", "Unit", "difference_records", "records"]


class Group(NamedTuple):
    """Numbers of which the mean is of interest."""

    variant: str
    noise: float
    method: str


class Unit(NamedTuple):
    """What the two numbers of a paired difference have in common."""

    seed: int
    class_: str | None = None
    """None where a study has no classes."""


class Outcomes:
    """A number for every group and unit."""

    def __init__(self) -> None:
        self._numbers: dict[Group, dict[Unit, float]] = {}

    def put(self, variant: str, noise: float, method: str, unit: Unit, value: float) -> None:
        """Add a number, or replace it."""
        self._numbers.setdefault(Group(variant, noise, method), {})[unit] = value

    def update(self, other: Self) -> None:
        """Add the groups of other outcomes."""
        self._numbers |= other._numbers

    def groups(self) -> Iterator[Group]:
        """In the order in which they were added."""
        return iter(self._numbers)

    def units(self, variant: str, noise: float, method: str) -> dict[Unit, float]:
        """The numbers of a group by unit; none if there is no such group."""
        return self._numbers.get(Group(variant, noise, method), {})

    def values(self, variant: str, noise: float, method: str) -> list[float]:
        """The numbers of a group."""
        return list(self.units(variant, noise, method).values())

    def levels(self, variant: str) -> list[float]:
        """The noise levels of a variant, from low to high."""
        return sorted({group.noise for group in self._numbers if group.variant == variant})

    def methods(self, variant: str) -> list[str]:
        """The methods of a variant."""
        return list(dict.fromkeys(group.method for group in self._numbers if group.variant == variant))

    def only(self, variant: str, noise: float) -> "Outcomes":
        """The groups of one variant and noise."""
        part = Outcomes()
        part._numbers = {group: units for group, units in self._numbers.items() if group[:2] == (variant, noise)}
        return part

    def of_class(self, wanted: str) -> "Outcomes":
        """The numbers of one class, under the seed alone."""
        part = Outcomes()
        for group, numbers in self._numbers.items():
            for unit, value in numbers.items():
                if unit.class_ == wanted:
                    part.put(*group, Unit(unit.seed), value)
        return part

    def means_over(self, classes: Collection[str]) -> "Outcomes":
        """The mean over classes by seed, for seeds that have all of them."""
        means = Outcomes()
        for group, numbers in self._numbers.items():
            for seed in sorted({unit.seed for unit in numbers}):
                units = [Unit(seed, name) for name in classes]
                if all(unit in numbers for unit in units):
                    means.put(*group, Unit(seed), fmean(numbers[unit] for unit in units))
        return means

    def compare(
        self, variant: str, noise: float, method: str, other: str, name: str, classes: Collection[str] = ()
    ) -> Comparison:
        """The differences method − other over the units that both have.

        With `classes`, both must have every class from every seed, else there are no differences.
        """
        ours, theirs = self.units(variant, noise, method), self.units(variant, noise, other)
        shared = sorted(ours.keys() & theirs.keys())
        seeds = {unit.seed for unit in shared}
        if classes and not len(ours) == len(theirs) == len(shared) == len(seeds) * len(classes):
            return Comparison(name, (), 0)
        return Comparison(name, tuple(ours[unit] - theirs[unit] for unit in shared), len(seeds))


def records(study: str, metric: str, outcomes: Outcomes) -> list[Record]:
    """Mean, standard deviation and number of values of every group."""
    flat = []
    for group in outcomes.groups():
        values = outcomes.values(*group)
        sd = round(stdev(values), 6) if len(values) > 1 else None
        names = study, group.method, group.noise, group.variant, None
        flat.append(Record(*names, metric, round(mean(values), 6), sd, len(values)))
    return flat


def difference_records(study: str, outcomes: Outcomes, ours: str = "pos-AP") -> list[Record]:
    """The differences of ours to the other methods, where there are at least three pairs."""
    flat = []
    for group in outcomes.groups():
        pairs = outcomes.compare(group.variant, group.noise, ours, group.method, "").differences
        if group.method != ours and len(pairs) >= 3:
            numbers = round(mean(pairs), 6), round(stdev(pairs), 6), len(pairs)
            names = study, group.method, group.noise, group.variant, None
            flat.append(Record(*names, f"{ours}_minus_this", *numbers))
    return flat
