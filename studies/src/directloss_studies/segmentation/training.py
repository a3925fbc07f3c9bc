"""Train a U-Net with one setting, and measure IoU on the way."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..harness.progress import Progress, no_progress
from ..sweep import Setting
from ..trainers import passes
from .losses import LOSSES
from .network import UNet

__all__ = ["Measured", "Part", "Trained", "image_ious", "pooled_iou", "scored", "train"]

AT_ONCE = 64  # images that are scored without a gradient


class Part(NamedTuple):
    """Images (images, 3, size, size), their masks (images, size, size) bool, and which pixels count."""

    images: Tensor
    masks: Tensor
    valid: Tensor


class Measured(NamedTuple):
    """Mean IoU an image at one checkpoint, and that of all test pixels together."""

    train: float
    """Of the batches since the last checkpoint."""
    validation: float
    noisy_validation: float
    test: float
    pooled: float


class Trained(NamedTuple):
    """What was measured, by checkpoint; the share of iterations with a dead gradient; the network."""

    measured: list[Measured]
    dead: float
    network: UNet


def train(
    method: str,
    setting: Setting,
    sets: dict[str, Part],
    *,
    widths: Sequence[int],
    batch: int,
    iterations: int,
    checkpoints: Sequence[int],
    seed: int,
    progress: Progress = no_progress,
) -> Trained:
    """AdamW on batches of sets["train"], the same weights and batches for every method and setting of a seed."""
    generator = torch.Generator().manual_seed(seed)
    network = UNet(widths, generator)
    part, loss = sets["train"], LOSSES[method].loss
    optimizer = torch.optim.AdamW(network.parameters(), lr=setting.learning_rate, weight_decay=setting.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, setting.learning_rate, total_steps=iterations, cycle_momentum=False
    )
    dead, seen, measured = 0, [], []
    noise = torch.Generator().manual_seed(1_000_000 + seed).get_state()
    for iteration, items in zip(range(1, iterations + 1), passes(len(part.images), batch, generator), strict=False):
        some = part if items is None else Part(*(of[items] for of in part))
        network.train()
        scores = network(some.images)
        at_scores = torch.zeros_like(scores)
        if scores.isfinite().all():
            leaf = scores.detach().requires_grad_()
            with torch.random.fork_rng(devices=[]):  # for losses with noise
                torch.set_rng_state(noise)
                value = loss(leaf.flatten(1), some.masks.flatten(1), some.valid.flatten(1), setting.strength).mean()
                noise = torch.get_rng_state()
            (at_scores,) = torch.autograd.grad(value, leaf)
        seen.append(image_ious(scores.detach() > 0, some).mean().item())
        dead += not at_scores.any()
        optimizer.zero_grad()
        scores.backward(at_scores)
        optimizer.step()
        schedule.step()
        if iteration in checkpoints:
            measured.append(_measure(network, sets, sum(seen) / len(seen)))
            seen = []
        progress(iteration / iterations)
    return Trained(measured, dead / max(iterations, 1), network)


def _measure(network: nn.Module, sets: dict[str, Part], train: float) -> Measured:
    found = {name: scored(network, sets[name].images) > 0 for name in ("validation", "test")}
    found["noisy_validation"] = found["validation"]
    means = {name: round(image_ious(found[name], sets[name]).mean().item(), 6) for name in found}
    return Measured(train=round(train, 6), pooled=round(pooled_iou(found["test"], sets["test"]), 6), **means)


def scored(network: nn.Module, images: Tensor) -> Tensor:
    """One score a pixel; below zero where it is not finite."""
    network.eval()
    with torch.inference_mode():
        return torch.cat([network(some) for some in images.split(AT_ONCE)]).nan_to_num(nan=-1.0)


def _overlap(found: Tensor, part: Part) -> tuple[Tensor, Tensor]:
    found, masks = found & part.valid, part.masks & part.valid
    return (found & masks).sum((-1, -2)).double(), (found | masks).sum((-1, -2)).double()


def image_ious(found: Tensor, part: Part) -> Tensor:
    """IoU of every image; 1 where there is no foreground and none was found."""
    intersection, union = _overlap(found, part)
    return torch.where(union > 0, intersection / union.clamp_min(1), 1.0)


def pooled_iou(found: Tensor, part: Part) -> float:
    """IoU over the pixels of all images together."""
    intersection, union = (of.sum() for of in _overlap(found, part))
    return (intersection / union.clamp_min(1)).item()
