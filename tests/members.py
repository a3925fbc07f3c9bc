"""The members that every law is tried on, how lists are drawn, and kernels in memory that holds nothing of use."""

import os

import numpy as np
import torch
from hypothesis import strategies

from directloss import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    AveragePrecisionAtK,
    BalancedError,
    BinaryDCG,
    CentralDirect,
    FMeasure,
    Hinge,
    HitAtK,
    IoU,
    LastRank,
    NegativeDirect,
    PartialAUC,
    Perceptron,
    PositiveDirect,
    PrecisionAtK,
    PrecisionAtRecall,
    RankBiasedPrecision,
    RecallAtFPR,
    RecallAtK,
    ReciprocalRank,
    Tversky,
    Update,
    WindowDirect,
    ZeroOne,
    structured_loss,
)

UPDATES = [
    PositiveDirect(0.7),
    NegativeDirect(0.7),
    CentralDirect(0.7),
    Hinge(1.3),
    Perceptron(),
    WindowDirect(0.4, 2.3),
]
LISTS = [  # every task on lists of 0 and 1, with options that matter in short ones
    AveragePrecision(), ZeroOne(), AveragePrecisionAtK(3), ROCAUC(), PartialAUC(0.4), RecallAtFPR(0.3),
    ReciprocalRank(), HitAtK(2), PrecisionAtRecall(0.6), BinaryDCG(), BinaryDCG(3), RankBiasedPrecision(0.7),
    LastRank(), NDCG(3), PrecisionAtK(2), RecallAtK(2), BalancedError(), FMeasure(), IoU(), Tversky(0.3, 0.8),
]  # fmt: skip
if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # as `tests.mutation` runs them: kernels are slow then
    LISTS = LISTS[:4]
MEMBERS = [(task, update) for task in LISTS[:2] for update in UPDATES] + [
    (task, UPDATES[k % len(UPDATES)]) for k, task in enumerate(LISTS[2:])
]
UPDATE = PositiveDirect(1.0)


def average_precision_loss(scores, target, update: Update = UPDATE, mask=None, reduction="mean", **options):
    """The loss that most tests look at."""
    return structured_loss(AveragePrecision(), update, scores, target, mask, reduction, **options)


@strategies.composite
def lists(draw, longest: int = 12, ties: bool = True):
    """Scores and target of one list, float64; scores with ties, heavy tails, and ranges up to 1e6."""
    items = draw(strategies.integers(1, longest))
    generator = torch.Generator().manual_seed(draw(strategies.integers(0, 2**32)))
    scores = torch.randn(items, generator=generator, dtype=torch.float64)
    kinds = ["normal", "heavy", "wide", "far"] + (["tied", "few", "zeros"] if ties else [])
    match draw(strategies.sampled_from(kinds)):
        case "heavy":
            scores = scores / torch.rand(items, generator=generator, dtype=torch.float64)
        case "wide":
            scores = scores * 1e6
        case "far":
            scores = scores + 1e3
        case "tied":
            scores = scores.round()
        case "few":  # many ties in one class and across
            scores = scores.sign()
        case "zeros":  # all equal, of both signs
            scores = scores * 0.0
    share = draw(strategies.sampled_from([0.1, 0.5, 0.9]))
    return scores, torch.rand(items, generator=generator) < share


def epsilons():
    return strategies.floats(-3, 3).map(lambda exponent: 10.0**exponent)


def uncompile(monkeypatch, *modules):
    """Let the kernels of some modules run as Python, where their constants can be changed and a tracer sees lines."""
    for module in modules:
        for name, value in vars(module).items():
            monkeypatch.setattr(module, name, getattr(value, "py_func", value))


def predicted(a, b):
    """How many of the negatives b stand above each of the positives a in the prediction; both descend."""
    return np.searchsorted(-b, -a).astype(np.int32)


def augment_down(a, b, kappa, above):
    """The kernel of that name, in memory that holds nothing of use."""
    from directloss.kernels import average_precision

    memory = np.full((2, a.size + b.size), np.nan), np.full((2, a.size + b.size), -7, np.int32)
    return average_precision._augment_down(a, b, kappa, predicted(a, b), memory, above)


def augment_up(a, b, kappa, above):
    """The kernel of that name, in memory that holds nothing of use."""
    from directloss.kernels import average_precision

    average_precision._augment_up(a, b, kappa, predicted(a, b), np.full((2, a.size + 257), -7, np.int32), above)
