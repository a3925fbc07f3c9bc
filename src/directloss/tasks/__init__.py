"""The tasks. `TASKS` is the one list of them: command line, tests and docs read it."""

from ..task import Task
from .alignment import Alignment
from .average_precision import AveragePrecision
from .balanced_error import BalancedError
from .counts import FMeasure, IoU, Tversky
from .dag_path import DAGPath
from .grid_path import GridPath
from .linear_chain import LinearChain, edge_potentials
from .multiclass import MulticlassZeroOne, TopK
from .ndcg import NDCG
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
from .selection import PrecisionAtK, RecallAtK
from .zero_one import ZeroOne

__all__ = [
    "NDCG",
    "ROCAUC",
    "TASKS",
    "Alignment",
    "AveragePrecision",
    "AveragePrecisionAtK",
    "BalancedError",
    "BinaryDCG",
    "DAGPath",
    "FMeasure",
    "GridPath",
    "HitAtK",
    "IoU",
    "LastRank",
    "LinearChain",
    "MulticlassZeroOne",
    "PartialAUC",
    "PrecisionAtK",
    "PrecisionAtRecall",
    "RankBiasedPrecision",
    "RecallAtFPR",
    "RecallAtK",
    "ReciprocalRank",
    "TopK",
    "Tversky",
    "ZeroOne",
    "edge_potentials",
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
    "ndcg": NDCG,
    "precision_at_k": PrecisionAtK,
    "recall_at_k": RecallAtK,
    "zero_one": ZeroOne,
    "balanced_error": BalancedError,
    "multiclass_zero_one": MulticlassZeroOne,
    "top_k": TopK,
    "linear_chain": LinearChain,
    "alignment": Alignment,
    "grid_path": GridPath,
    "dag_path": DAGPath,
    "f_measure": FMeasure,
    "iou": IoU,
    "tversky": Tversky,
}
