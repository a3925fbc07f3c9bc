"""One plain training loop."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["train"]


def train(
    network: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    target: Tensor,
    *,
    learning_rate: float,
    iterations: int,
    after: Callable[[int], object] = lambda iteration: None,
) -> None:
    """Train the network with Adam, the whole set as one batch; call `after` with the number of finished iterations."""
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)
    for iteration in range(iterations):
        optimizer.zero_grad()
        loss(network(inputs).squeeze(-1), target).backward()
        optimizer.step()
        after(iteration + 1)
