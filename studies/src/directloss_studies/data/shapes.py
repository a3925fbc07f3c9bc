"""Masks to segment: blobs of one texture on another, made here; and wrong masks."""

import torch
from torch import Tensor, nn

__all__ = ["move_masks", "textured_shapes"]


def textured_shapes(images: int, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Images (images, 3, size, size) with one to three blobs each, and their masks (images, size, size), bool.

    The border of a blob is a circle with three random waves. Inside, noise has a grain of one pixel and a slight
    tint; outside, a grain of four. White noise lies over both, so that no pixel gives itself away.
    """

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=generator)

    blobs = 3
    place = torch.arange(size) + 0.5
    centre = uniform(0.15 * size, 0.85 * size, images, blobs, 2, 1, 1)
    down, across = place[:, None] - centre[:, :, 0], place[None, :] - centre[:, :, 1]
    angle, distance = torch.atan2(down, across), torch.hypot(down, across)
    radius = uniform(0.08 * size, 0.2 * size, images, blobs, 1, 1)
    waves = torch.zeros_like(angle)
    for k in (2, 3, 5):
        strength, phase = uniform(0.0, 0.6 / k, images, blobs, 1, 1), uniform(0.0, 2 * torch.pi, images, blobs, 1, 1)
        waves += strength * torch.cos(k * angle + phase)
    there = torch.arange(blobs) < torch.randint(1, blobs + 1, (images, 1), generator=generator)
    masks = ((distance < radius * (1 + waves)) & there[:, :, None, None]).any(1)

    def grain(pixels: int) -> Tensor:
        coarse = torch.randn((images, 3, -(-size // pixels) + 1, -(-size // pixels) + 1), generator=generator)
        fine = nn.functional.interpolate(coarse, scale_factor=pixels, mode="bilinear")[..., :size, :size]
        return fine / fine.std()

    tint = 0.3 * torch.randn((images, 3, 1, 1), generator=generator)
    inside = masks.unsqueeze(1)
    return torch.where(inside, grain(1) + tint, grain(4)) + 0.7 * grain(1), masks


def move_masks(masks: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Move every mask (images, height, width) in a random direction until a share of its IoU with itself is lost.

    What leaves the image is lost, and nothing comes in. A mask that cannot lose so much within half an image, and an
    empty one, is moved as far as it goes.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share must be at least 0 and less than 1; got {share!r}. Pass e.g. 0.2 for 20 %.")
    angles = (2 * torch.pi * torch.rand(len(masks), generator=generator)).tolist()
    return torch.stack([_moved(mask, share, angle) for mask, angle in zip(masks, angles, strict=True)])


def _moved(mask: Tensor, share: float, angle: float) -> Tensor:
    direction = torch.tensor([angle]).sin().item(), torch.tensor([angle]).cos().item()
    moved = mask
    for distance in range(1, max(mask.shape) // 2):
        lost = 1 - (moved & mask).sum() / (moved | mask).sum().clamp_min(1)
        if lost >= share:
            break
        moved = _shifted(mask, *(round(distance * part) for part in direction))
    return moved


def _shifted(mask: Tensor, down: int, across: int) -> Tensor:
    found = torch.zeros_like(mask)
    height, width = mask.shape
    rows, columns = slice(max(down, 0), height + min(down, 0)), slice(max(across, 0), width + min(across, 0))
    from_rows, from_columns = (
        slice(max(-down, 0), height - max(down, 0)),
        slice(max(-across, 0), width - max(across, 0)),
    )
    found[rows, columns] = mask[from_rows, from_columns]
    return found
