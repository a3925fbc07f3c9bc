"""Data: functions that return tensors, and registries of what can be checked, fetched or converted by name."""

from collections.abc import Callable
from pathlib import Path

from ..harness.progress import Steps
from .answers import convert_answers
from .cifar import convert_cifar10n
from .cranfield import check_cranfield
from .molecules import convert_molecules
from .omniglot import check_omniglot
from .tables import check_tables
from .voc import check_voc2012

__all__ = ["CONVERTED", "DATA"]

DATA: dict[str, Callable[[Path, Steps], str]] = {
    "voc2012": check_voc2012,
    "tables": check_tables,
    "answers": convert_answers,
    "molecules": convert_molecules,
    "cranfield": check_cranfield,
    "omniglot": check_omniglot,
}
"""By name: a function that fetches the data into a folder if it is not there, checks it, and says what is there."""
CONVERTED: dict[str, Callable[[Path, Path, Path, Path | None, Steps], str]] = {"cifar10n": convert_cifar10n}
"""By name: a function that writes into a folder what it makes of images, labels and weights, and says what is there."""
