"""Families of tasks: a metric becomes a few lines, and its exact oracle of both signs comes with the family.

`RankingTask` is for metrics of a ranked list, `LinearLossTask` for losses that add up over the parts of an output, and
`CountTask` for metrics of true and false positives.
"""

from typing import Any

from ..checks import check_count
from ..update import TRUTH, Truth, UpdateSpec
from .counts import CountTask
from .linear_loss import LinearLossTask
from .ranking import ByNegatives, ByRank, RankingTask

__all__ = [
    "TRUTH",
    "ByNegatives",
    "ByRank",
    "CountTask",
    "LinearLossTask",
    "RankingTask",
    "Truth",
    "UpdateSpec",
    "explain",
]


def explain(task: Any, positives: int, negatives: int) -> str:
    """How inference is done in a list of this size, for each sign of the weight, and what it costs after sorting.

    Args:
        task: a task on lists of positives and negatives, e.g. `BinaryDCG()`, or one of your own.
        positives: the number P of positives in a list.
        negatives: the number M of negatives in it.

    The place of a positive is the number of negatives above it, and the other way round. The positive update and the
    hinge need a weight above 0, the negative update one below 0, the central update both. Every way is exact;
    docs/mathematics.md has the proofs.

    >>> from directloss import BinaryDCG
    >>> print(explain(BinaryDCG(), positives=100, negatives=900))
    BinaryDCG(k=None), 100 positives, 900 negatives
    weight > 0: the best place of each negative, by divide and conquer, O(P log M + M): at most 1,900 steps
    weight < 0: the best place of each positive, by divide and conquer, O(M log P + P): at most 6,400 steps
    """
    if not hasattr(task, "explain"):
        raise TypeError(f"{task!r} has one way only, its oracle. Tasks of a family that chooses one have explain.")
    for name, count in (("positives", positives), ("negatives", negatives)):
        check_count(name, count)
    return task.explain(positives, negatives)
