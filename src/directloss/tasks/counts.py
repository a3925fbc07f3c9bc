"""F-measure, intersection over union and the Tversky index of a selection.

Outputs: subsets of the items of a list, or of the pixels of an image. F = 2/P·Σ selected scores for P positives, so the
prediction selects the scores above 0. With tp true and fp false positives L = 1 − tp/(tp + α·fp + β·(P − tp)):

- `FMeasure(beta)`: α = 1/(1 + beta²), β = beta²/(1 + beta²); beta = 1 is F1, which is also the Dice coefficient;
- `IoU`: α = β = 1, the intersection over union, or Jaccard index;
- `Tversky(alpha, beta)`: any weights of false positives and of missed positives.

For detection and segmentation of something rare, for retrieval without a ranking: wherever true negatives count for
nothing. Masks of images are problems with `event_dims=2`: scores (B, H, W), or (B, C, H, W) with a target of 0 and 1
for each class, whose mean loss is the mean over images and classes. For classes over a whole batch, as in the mean IoU
of a data set, make each class one list: `scores.movedim(1, 0).flatten(1)`.

A list without positives does not count: these indices say nothing about it, and a batch may well have some. Where empty
images should stay empty, `count_empty=True` counts them, with L = 1 if anything is selected, else 0.

ε is in units of scores where about as many items are selected as there are positives. Where many more are, the index
hardly moves, and it takes a larger ε.
"""

from dataclasses import dataclass

from ..checks import check_not_negative
from ..families.counts import TverskyTask

__all__ = ["FMeasure", "IoU", "Tversky"]


@dataclass(frozen=True, repr=False)
class FMeasure(TverskyTask):
    """1 − F_beta. Every oracle is exact, O(n log n).

    >>> scores, target = torch.tensor([0.9, 0.4, 0.2, -0.1]), torch.tensor([1, 0, 1, 1])
    >>> FMeasure().infer(scores, target).loss
    tensor(0.3333)
    >>> FMeasure(beta=2).infer(scores, target).loss
    tensor(0.3333)
    """

    beta: float = 1.0
    """How much more recall weighs than precision."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("beta", self.beta)

    def weights(self) -> tuple[float, float]:
        square = float(self.beta) ** 2
        return 1 / (1 + square), square / (1 + square)


@dataclass(frozen=True, repr=False)
class IoU(TverskyTask):
    """1 − intersection over union. Every oracle is exact, O(n log n).

    >>> scores = torch.tensor([[[0.9, 0.4], [-0.2, -0.1]]])  # one image of 2 × 2 pixels
    >>> IoU(event_dims=2).infer(scores, torch.tensor([[[1, 0], [0, 1]]])).loss
    tensor([0.6667])
    """

    def weights(self) -> tuple[float, float]:
        return 1.0, 1.0


@dataclass(frozen=True, repr=False)
class Tversky(TverskyTask):
    """1 − the Tversky index. Exact, O(n log n); for beta above 1 and a weight below 0, O(P·M).

    >>> scores, target = torch.tensor([0.9, 0.4, 0.2, -0.1]), torch.tensor([1, 0, 1, 1])
    >>> Tversky(alpha=1.0, beta=0.0).infer(scores, target).loss  # 1 − precision
    tensor(0.3333)
    """

    alpha: float = 0.5
    """The weight of a false positive."""
    beta: float = 0.5
    """The weight of a positive that is not selected."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("alpha", self.alpha)
        check_not_negative("beta", self.beta)

    def weights(self) -> tuple[float, float]:
        return float(self.alpha), float(self.beta)
