"""The tasks. `TASKS` is the one list of them: command line, tests and docs read it."""

from ..task import Task
from .average_precision import AveragePrecision
from .ranking import (
    ROCAUC,
    AveragePrecisionAtK,
    BinaryDCG,
    HitAtK,
    LastRank,
    PartialAUC,
    PrecisionAtRecall,
    RankBiasedPrecision,
    RecallAtFPR,
    ReciprocalRank,
)
from .zero_one import ZeroOne

__all__ = [
    "ROCAUC",
    "TASKS",
    "AveragePrecision",
    "AveragePrecisionAtK",
    "BinaryDCG",
    "HitAtK",
    "LastRank",
    "PartialAUC",
    "PrecisionAtRecall",
    "RankBiasedPrecision",
    "RecallAtFPR",
    "ReciprocalRank",
    "ZeroOne",
]

TASKS: dict[str, type[Task]] = {
    "average_precision": AveragePrecision,
    "average_precision_at_k": AveragePrecisionAtK,
    "roc_auc": ROCAUC,
    "partial_auc": PartialAUC,
    "recall_at_fpr": RecallAtFPR,
    "reciprocal_rank": ReciprocalRank,
    "hit_at_k": HitAtK,
    "precision_at_recall": PrecisionAtRecall,
    "binary_dcg": BinaryDCG,
    "rank_biased_precision": RankBiasedPrecision,
    "last_rank": LastRank,
    "zero_one": ZeroOne,
}
