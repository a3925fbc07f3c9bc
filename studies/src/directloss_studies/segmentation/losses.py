"""The losses that are compared: updates on IoU, alone or beside cross-entropy, and what people train segmentation with.

A loss maps scores (images, pixels), target and mask in that shape, and its strength to one value an image. The
strength is tuned beside the step size.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from directloss import (
    CentralDirect,
    Hinge,
    IoU,
    Perturbed,
    PositiveDirect,
    StructuredLoss,
    Update,
    structured_loss,
)

__all__ = ["LOSSES", "SegmentationLoss", "cross_entropy", "dice", "lovasz_hinge"]


class SegmentationLoss(NamedTuple):
    """A loss, what its strength is, and the strengths that are tried."""

    loss: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    strength: str
    strengths: tuple[float, ...]


def cross_entropy(scores: Tensor, target: Tensor, mask: Tensor, weight: float) -> Tensor:
    """The mean over pixels, where a foreground pixel counts `weight` times."""
    values = nn.functional.binary_cross_entropy_with_logits(
        scores, target.to(scores.dtype), reduction="none", pos_weight=scores.new_tensor(weight)
    )
    return (values * mask).sum(-1) / mask.sum(-1).clamp_min(1)


def dice(scores: Tensor, target: Tensor, mask: Tensor, smoothing: float) -> Tensor:
    """Soft Dice (Milletari et al., 2016, without squares): 1 − (2 Σ pt + smoothing) / (Σ p + Σ t + smoothing)."""
    chance, truth = scores.sigmoid() * mask, target * mask
    return 1 - (2 * (chance * truth).sum(-1) + smoothing) / (chance.sum(-1) + truth.sum(-1) + smoothing)


def lovasz_hinge(scores: Tensor, target: Tensor, mask: Tensor, margin: float) -> Tensor:
    """The Lovász hinge (Berman et al., 2018): the Lovász extension of the Jaccard loss at the hinge of every pixel.

    Pixels in the order of falling hinge are added to the set of wrong ones. A pixel counts by what it adds to the
    Jaccard loss.
    """
    truth = target & mask
    hinge = (margin - torch.where(truth, scores, -scores)).relu() * mask
    hinge, order = hinge.sort(dim=-1, descending=True)
    truth, valid = truth.gather(-1, order).to(scores.dtype), mask.gather(-1, order).to(scores.dtype)
    positives = truth.sum(-1, keepdim=True)
    kept = positives - truth.cumsum(-1)
    union = positives + ((1 - truth) * valid).cumsum(-1)
    jaccard = 1 - kept / union.clamp_min(1)
    return (hinge * jaccard.diff(dim=-1, prepend=torch.zeros_like(positives))).sum(-1)


def _on_iou(update: Callable[[float], Update]) -> Callable[[Tensor, Tensor, Tensor, float], Tensor]:
    def loss(scores: Tensor, target: Tensor, mask: Tensor, strength: float) -> Tensor:
        return structured_loss(IoU(), update(strength), scores, target, mask, reduction="none")

    return loss


def dice_and_cross_entropy(scores: Tensor, target: Tensor, mask: Tensor, smoothing: float) -> Tensor:
    """The sum of both, as nnU-Net has it (Isensee et al., 2021)."""
    return dice(scores, target, mask, smoothing) + cross_entropy(scores, target, mask, 1.0)


def cross_entropy_and_central(scores: Tensor, target: Tensor, mask: Tensor, epsilon: float) -> Tensor:
    """Cross-entropy plus central-IoU at four copies of the scores with logistic noise of scale 1.

    The noise comes from torch's own generator.
    """
    central = StructuredLoss(IoU(), CentralDirect(epsilon), reduction="none")
    smooth = Perturbed(central, 1.0, 4, kind="logistic", relative=False)
    return cross_entropy(scores, target, mask, 1.0) + smooth(scores, target, mask)


LOSSES: dict[str, SegmentationLoss] = {
    "pos-IoU": SegmentationLoss(_on_iou(PositiveDirect), "ε", (0.3, 3.0)),
    "central-IoU": SegmentationLoss(_on_iou(CentralDirect), "ε", (0.3, 3.0)),
    "x-ent + central-IoU": SegmentationLoss(cross_entropy_and_central, "ε", (0.3, 3.0)),
    "hinge-IoU": SegmentationLoss(_on_iou(Hinge), "margin", (3.0, 30.0)),
    "x-ent": SegmentationLoss(cross_entropy, "weight of the foreground", (1.0, 2.0)),
    "Dice": SegmentationLoss(dice, "smoothing", (100.0, 10000.0)),
    "Dice + x-ent": SegmentationLoss(dice_and_cross_entropy, "smoothing", (100.0, 10000.0)),
    "Lovász hinge": SegmentationLoss(lovasz_hinge, "margin", (1.0, 10.0)),
}
