"""Shortest paths."""

from functools import partial

from .numbers import BLOCKS, as_table, block, error_cell, mean_cell
from .verdicts import claims_of, verdict_of

DEGREES = (1, 4, 6, 8)


def _regrets(noise: float) -> str:
    """Regret by method and degree."""
    from directloss_studies.paths import METHODS, WORDS

    def shown(degree: int, method: str) -> str:
        return mean_cell("paths", f"degree {degree}", method, noise, metric="test_regret")

    rows = [[WORDS.get(method, method), *(shown(degree, method) for degree in DEGREES)] for method in METHODS]
    return as_table([f"regret; noise {noise:g}", *(f"degree {degree}" for degree in DEGREES)], rows)


@block
def paths_pairs() -> str:
    """Paired differences of regret to the two known baselines ± standard error."""
    from directloss_studies.paths import BASELINES, METHODS

    def shown(method: str, other: str, noise: float, degree: int) -> str:
        return error_cell("paths", (f"degree {degree}", method, noise, None, f"this_minus_{other}"), "+")

    rows = [
        [f"{method} − {other}, noise {noise:g}", *(shown(method, other, noise, degree) for degree in DEGREES)]
        for other in BASELINES
        for noise in (0.0, 0.5)
        for method in METHODS
        if method not in (other, "MSE")
    ]
    return as_table(["difference of regret", *(f"degree {degree}" for degree in DEGREES)], rows)


@block
def paths_verdicts() -> str:
    """The claims on shortest paths."""
    rows = [[says, judged.source, verdict_of("paths", says)] for says, judged in claims_of("paths").items()]
    return as_table(["claim", "who says it", "verdict (comparisons)"], rows)


BLOCKS |= {"paths_exact": partial(_regrets, 0.0), "paths_noisy": partial(_regrets, 0.5)}
