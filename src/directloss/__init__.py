"""Train a network on the metric itself: direct loss minimization with exact loss-augmented inference, for PyTorch."""

from .adaptive_decay import AdaptiveDecay
from .advice import TrainingWarning
from .diagnosis import Diagnosis, diagnose
from .loss import (
    AveragePrecisionLoss,
    IoULoss,
    NDCGLoss,
    ROCAUCLoss,
    StructuredLoss,
    direct_loss,
    structured_loss,
)
from .memory import ScoreMemory
from .metric import metric
from .perturbed import Perturbed
from .retrieval import RetrievalLoss, retrieval_metric
from .task import Output, Task
from .tasks import (
    NDCG,
    ROCAUC,
    Alignment,
    AveragePrecision,
    AveragePrecisionAtK,
    BalancedError,
    BinaryDCG,
    DAGPath,
    FMeasure,
    GridPath,
    HitAtK,
    IoU,
    LastRank,
    LinearChain,
    MulticlassZeroOne,
    PartialAUC,
    PrecisionAtK,
    PrecisionAtRecall,
    RankBiasedPrecision,
    RecallAtFPR,
    RecallAtK,
    ReciprocalRank,
    TopK,
    Tversky,
    ZeroOne,
)
from .training import ClassesSampler, PositivesSampler, WarmUp, accumulate, falling_k
from .update import CentralDirect, Hinge, NegativeDirect, Perceptron, PositiveDirect, Update, WindowDirect

__all__ = [
    "NDCG",
    "ROCAUC",
    "AdaptiveDecay",
    "Alignment",
    "AveragePrecision",
    "AveragePrecisionAtK",
    "AveragePrecisionLoss",
    "BalancedError",
    "BinaryDCG",
    "CentralDirect",
    "ClassesSampler",
    "DAGPath",
    "Diagnosis",
    "FMeasure",
    "GridPath",
    "Hinge",
    "HitAtK",
    "IoU",
    "IoULoss",
    "LastRank",
    "LinearChain",
    "MulticlassZeroOne",
    "NDCGLoss",
    "NegativeDirect",
    "Output",
    "PartialAUC",
    "Perceptron",
    "Perturbed",
    "PositiveDirect",
    "PositivesSampler",
    "PrecisionAtK",
    "PrecisionAtRecall",
    "ROCAUCLoss",
    "RankBiasedPrecision",
    "RecallAtFPR",
    "RecallAtK",
    "ReciprocalRank",
    "RetrievalLoss",
    "ScoreMemory",
    "StructuredLoss",
    "Task",
    "TopK",
    "TrainingWarning",
    "Tversky",
    "Update",
    "WarmUp",
    "WindowDirect",
    "ZeroOne",
    "accumulate",
    "diagnose",
    "direct_loss",
    "falling_k",
    "metric",
    "retrieval_metric",
    "structured_loss",
]

__version__ = "0.2.0"
