"""Several small networks that train side by side.

The settings of a grid differ in step size, ε or weight decay, not in shape. So their networks are one batched network,
with one matrix product and one batch of lists for all. On short lists this is several times faster than one by one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["INITIALISATIONS", "Classifiers", "Heads", "Networks", "Scaling"]

INITIALISATIONS = ("normal", "he", "small")


class Networks(nn.Module):
    """`copies` ReLU networks with the same initial weights; from inputs (items, widths[0]) to scores (copies, items).

    Args:
        copies: the number of networks.
        widths: those of the input, of each hidden layer, and of the output, which is 1.
        initialisation: "normal", all weights and biases N(0, 1), as in the paper; or "he", weights N(0, 2/inputs) and
            zero biases, so that scores are of order one; or "small", as "he" but with a hundredth of the weights in
            the last layer, so that training starts with scores near zero.
        generator: draws the initial weights.
    """

    def __init__(self, copies: int, widths: Sequence[int], initialisation: str, generator: torch.Generator) -> None:
        super().__init__()
        if initialisation not in INITIALISATIONS:
            names = ", ".join(map(repr, INITIALISATIONS))
            raise ValueError(f"initialisation must be one of {names}; got {initialisation!r}.")
        self.shapes = list(zip(widths[1:], widths[:-1], strict=True))
        parts = []
        for outputs, inputs in self.shapes:
            scale = 1.0 if initialisation == "normal" else (2 / inputs) ** 0.5
            parts.append(scale * torch.randn(outputs * inputs, generator=generator))
            parts.append(torch.randn(outputs, generator=generator) * (initialisation == "normal"))
        if initialisation == "small":
            parts[-2] *= 0.01
        self.sizes = [len(part) for part in parts]
        self.weights = nn.Parameter(torch.cat(parts).repeat(copies, 1))
        """(copies, weights and biases of all layers): one tensor, so that one optimizer step updates all of them."""
        self.decayed: Tensor | None = None
        """Which weights decay, True where one does; None: all."""

    def spare_biases(self) -> "Networks":
        """Keep biases from decay."""
        self.decayed = torch.arange(len(self.sizes)).repeat_interleave(torch.tensor(self.sizes)) % 2 == 0
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        """Score all items by every network."""
        copies = len(self.weights)
        parts = self.weights.split(self.sizes, dim=1)
        hidden = inputs.T.expand(copies, -1, -1)  # (copies, width, items)
        for layer, (outputs, width) in enumerate(self.shapes):
            weight, bias = parts[2 * layer].view(copies, outputs, width), parts[2 * layer + 1].unsqueeze(-1)
            hidden = torch.baddbmm(bias, weight, hidden if layer == 0 else hidden.relu_())
        return hidden.squeeze(1)


class Heads(Networks):
    """Networks on wide inputs: the first layers of all networks are one matrix product.

    On 512 features it takes half the time of `Networks`. Sums are rounded differently.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Score all items by every network."""
        copies = len(self.weights)
        parts = self.weights.split(self.sizes, dim=1)
        outputs, width = self.shapes[0]
        hidden = parts[0].reshape(copies * outputs, width) @ inputs.T
        hidden = hidden.view(copies, outputs, -1) + parts[1].unsqueeze(-1)
        for layer, (outputs, width) in enumerate(self.shapes[1:], 1):
            weight, bias = parts[2 * layer].view(copies, outputs, width), parts[2 * layer + 1].unsqueeze(-1)
            hidden = torch.baddbmm(bias, weight, hidden.relu_())
        return hidden.squeeze(1)


class Classifiers(Heads):
    """Heads trained as a careful user trains a classifier: biases do not decay, and the last one starts at `biases`.

    Inputs should be centred, see `Scaling`, and the last bias should start at the log odds of the labels. Else the
    first step of a loss on single items, such as cross-entropy, goes along the mean of the inputs. A loss on a ranking
    ignores a common shift, so a comparison of the two would not be fair.
    """

    def __init__(self, widths: Sequence[int], biases: Tensor, generator: torch.Generator) -> None:
        super().__init__(len(biases), widths, "small", generator)
        self.spare_biases()
        with torch.no_grad():
            self.weights[:, -1] = biases


class Scaling(NamedTuple):
    """Centres inputs, and scales them by one number so that their mean square is one."""

    mean: Tensor
    size: Tensor

    @classmethod
    def of(cls, inputs: Tensor) -> "Scaling":
        """Fitted to training rows (items, features)."""
        mean = inputs.mean(0)
        return cls(mean, (inputs - mean).square().mean().sqrt().clamp_min(1e-9))

    def __call__(self, inputs: Tensor) -> Tensor:
        """The inputs as heads get them."""
        return (inputs - self.mean) / self.size

    def undone(self, weights: Tensor) -> Tensor:
        """Weights of linear heads (copies, features + bias) that give the same scores of the inputs as they were."""
        slopes = weights[:, :-1] / self.size
        return torch.cat([slopes, weights[:, -1:] - (slopes @ self.mean)[:, None]], 1)
