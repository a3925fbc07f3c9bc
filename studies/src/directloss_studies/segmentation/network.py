"""A small U-Net (Ronneberger et al., 2015): one block a scale on the way down and up, one score a pixel."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

__all__ = ["UNet"]


class UNet(nn.Module):
    """From images (images, 3, size, size) to scores (images, size, size).

    Args:
        widths: channels at every scale, each half of the one before; the size must be divisible as often by two.
        generator: draws the initial weights, as He does.
    """

    def __init__(self, widths: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.down = nn.ModuleList(_block(*pair) for pair in pairwise([3, *widths]))
        self.up = nn.ModuleList(_block(low + high, high) for high, low in reversed([*pairwise(widths)]))
        self.score = skip_init(nn.Conv2d, widths[0], 1, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(self, images: Tensor) -> Tensor:
        """One score a pixel; above zero means foreground."""
        hidden = images.contiguous(memory_format=torch.channels_last)
        kept = []
        for block in self.down:
            hidden = block(nn.functional.max_pool2d(hidden, 2) if kept else hidden)
            kept.append(hidden)
        for block, skipped in zip(self.up, kept[-2::-1], strict=True):
            hidden = block(torch.cat([nn.functional.interpolate(hidden, scale_factor=2), skipped], dim=1))
        return self.score(hidden).squeeze(1)


def _block(inputs: int, outputs: int) -> nn.Sequential:
    convolution = skip_init(nn.Conv2d, inputs, outputs, 3, padding=1, bias=False)  # `UNet` draws the weights
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(True))
