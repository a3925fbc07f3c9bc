"""Shortest paths."""

from collections.abc import Callable, Iterable

from .numbers import as_table, block, error_cell, mean_cell
from .verdicts import claims_of, verdict_of

PLACES = tuple((degree, noise) for noise in (0.0, 0.5) for degree in (1, 4, 8))


def _by_place(corner: str, methods: Iterable[str], shown: Callable[[str, int, float], str]) -> str:
    """One column for every degree and noise."""
    from directloss_studies.paths import WORDS

    header = [corner, *(f"degree {degree}, noise {noise:g}" for degree, noise in PLACES)]
    return as_table(header, [[WORDS.get(of, of), *(shown(of, *place) for place in PLACES)] for of in methods])


@block
def paths_regret() -> str:
    """Regret by method, degree and noise."""
    from directloss_studies.paths import METHODS

    def shown(method: str, degree: int, noise: float) -> str:
        return mean_cell("paths", f"degree {degree}", method, noise, metric="test_regret")

    return _by_place("regret", METHODS, shown)


@block
def paths_pairs() -> str:
    """Paired differences of regret to SPO+ ± standard error."""
    from directloss_studies.paths import METHODS

    def shown(method: str, degree: int, noise: float) -> str:
        return error_cell("paths", (f"degree {degree}", method, noise, None, "this_minus_SPO+"), "+")

    return _by_place("regret minus that of SPO+", [method for method in METHODS if method != "SPO+"], shown)


@block
def paths_verdicts() -> str:
    """The claims on shortest paths."""
    rows = [[says, judged.source, verdict_of("paths", says)] for says, judged in claims_of("paths").items()]
    return as_table(["claim", "who says it", "verdict (comparisons)"], rows)
