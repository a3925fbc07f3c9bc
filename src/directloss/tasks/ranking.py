"""Ranking metrics, each two vectors: what a positive weighs, and what its place is worth.

`families/ranking.py` says what the outputs and F are.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from ..checks import check_count, check_share
from ..families.ranking import ByNegatives, ByRank, RankingTask

__all__ = [
    "ROCAUC",
    "AveragePrecisionAtK",
    "BinaryDCG",
    "HitAtK",
    "LastRank",
    "PartialAUC",
    "PrecisionAtRecall",
    "RankBiasedPrecision",
    "RecallAtFPR",
    "ReciprocalRank",
]


def _ranks(positives: int, negatives: int) -> NDArray[np.float64]:
    return np.arange(1.0, positives + negatives + 1)


def _until(k: int | None, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values of the first k ranks, 0 behind."""
    return values if k is None else np.where(np.arange(values.size) < k, values, 0.0)


def _only(i: int, positives: int) -> NDArray[np.float64]:
    """Weights of which the i-th positive has all."""
    return (np.arange(positives) == i).astype(np.float64)


@dataclass(frozen=True)
class AveragePrecisionAtK(RankingTask):
    """1 − average precision of the first k ranks, as a share of what min(k, P) positives there can reach.

    >>> AveragePrecisionAtK(2).infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(0.7500)
    """

    k: int = 10

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def gain(self, positives: int, negatives: int) -> ByRank:
        return ByRank(np.arange(1, positives + 1), _until(self.k, 1 / _ranks(positives, negatives)))


@dataclass(frozen=True)
class ROCAUC(RankingTask):
    """1 − area under the ROC curve: the share of pairs in the wrong order, a tied one as half.

    >>> ROCAUC().infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 0])).loss
    tensor(0.5000)
    """

    def gain(self, positives: int, negatives: int) -> ByNegatives:
        return ByNegatives(np.ones(positives), 1 - np.arange(negatives + 1) / negatives)

    def scale(self, positives: int, negatives: int) -> float:
        return 1.0  # all pairs count the same: ε is a margin between two scores


@dataclass(frozen=True)
class PartialAUC(RankingTask):
    """1 − area under the ROC curve left of a false positive rate, as a share of that rate.

    scikit-learn's `roc_auc_score(max_fpr=…)` standardises the same area: its value is (1 + (A − r/2)/(1 − r/2))/2 for
    an area A·r left of r.

    >>> PartialAUC(0.5).infer(torch.tensor([3.0, 2.0, 1.0, 0.0]), torch.tensor([1, 0, 1, 0])).loss
    tensor(0.5000)
    """

    max_fpr: float = 0.1

    def __post_init__(self) -> None:
        check_share("max_fpr", self.max_fpr)

    def gain(self, positives: int, negatives: int) -> ByNegatives:
        return ByNegatives(np.ones(positives), np.maximum(1 - np.arange(negatives + 1) / (self.max_fpr * negatives), 0))


@dataclass(frozen=True)
class RecallAtFPR(RankingTask):
    """1 − the share of positives found before the false positive rate exceeds a limit.

    >>> RecallAtFPR(0.5).infer(torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0]), torch.tensor([1, 0, 1, 0, 1])).loss
    tensor(0.3333)
    """

    fpr: float = 0.1

    def __post_init__(self) -> None:
        check_share("fpr", self.fpr, zero=True)

    def gain(self, positives: int, negatives: int) -> ByNegatives:
        allowed = np.arange(negatives + 1) <= self.fpr * negatives
        return ByNegatives(np.ones(positives), allowed.astype(np.float64))


@dataclass(frozen=True)
class ReciprocalRank(RankingTask):
    """1 − 1/(rank of the first positive): the mean over lists is 1 − MRR.

    >>> ReciprocalRank().infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(0.5000)
    """

    def gain(self, positives: int, negatives: int) -> ByRank:
        return ByRank(_only(0, positives), 1 / _ranks(positives, negatives))


@dataclass(frozen=True)
class HitAtK(RankingTask):
    """0 where a positive is among the first k, else 1.

    >>> HitAtK(1).infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(1.)
    """

    k: int = 10

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def gain(self, positives: int, negatives: int) -> ByRank:
        return ByRank(_only(0, positives), _until(self.k, np.ones(positives + negatives)))


@dataclass(frozen=True)
class PrecisionAtRecall(RankingTask):
    """1 − precision where recall first reaches a share.

    >>> PrecisionAtRecall(0.5).infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(0.5000)
    """

    recall: float = 0.5

    def __post_init__(self) -> None:
        check_share("recall", self.recall)

    def gain(self, positives: int, negatives: int) -> ByRank:
        needed = max(1, ceil(self.recall * positives - 1e-9))
        return ByRank(_only(needed - 1, positives), needed / np.maximum(_ranks(positives, negatives), needed))


@dataclass(frozen=True)
class BinaryDCG(RankingTask):
    """1 − NDCG for relevance 0 and 1, of the first k ranks or all; F counts pairs. `NDCG` takes grades.

    >>> BinaryDCG().infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(0.3066)
    """

    k: int | None = None

    def __post_init__(self) -> None:
        if self.k is not None:
            check_count("k", self.k)

    def gain(self, positives: int, negatives: int) -> ByRank:
        return ByRank(np.ones(positives), _until(self.k, 1 / np.log2(1 + _ranks(positives, negatives))))


@dataclass(frozen=True)
class RankBiasedPrecision(RankingTask):
    """1 − Σ over positives of persistence^(rank − 1), as a share of the best ranking's.

    >>> RankBiasedPrecision(0.5).infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(0.5000)
    """

    persistence: float = 0.8

    def __post_init__(self) -> None:
        check_share("persistence", self.persistence)

    def gain(self, positives: int, negatives: int) -> ByRank:
        return ByRank(np.ones(positives), self.persistence ** (_ranks(positives, negatives) - 1))


@dataclass(frozen=True)
class LastRank(RankingTask):
    """The share of negatives above the last positive; KDD Cup 2004 measures the rank of it.

    >>> LastRank().infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).loss
    tensor(1.)
    """

    def gain(self, positives: int, negatives: int) -> ByNegatives:
        return ByNegatives(_only(positives - 1, positives), 1 - np.arange(negatives + 1) / negatives)
