"""One plain training loop, for networks side by side."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .networks import Networks

__all__ = ["train"]


def train(
    networks: Networks,
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    target: Tensor,
    *,
    learning_rates: Tensor,
    weight_decays: Tensor,
    iterations: int,
    batch: int | None = None,
    generator: torch.Generator | None = None,
    after: Callable[[int], object] = lambda iteration: None,
) -> Tensor:
    """Train with AdamW, every network with its own step size and weight decay; the whole set is one batch by default.

    The loss maps scores (networks, items) and target (items,) to one value a network. Calls `after` with the number of
    finished iterations. Returns for every network the share of iterations whose gradient was dead: zero at every score.
    A network whose scores are no longer finite stays as it is.
    """
    weights = networks.weights
    rate, decay = learning_rates.unsqueeze(1), weight_decays.unsqueeze(1)
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    dead = torch.zeros(len(weights))
    chosen = _batches(len(target), batch, generator)
    for iteration in range(1, iterations + 1):
        items = next(chosen)
        scores = networks(inputs if items is None else inputs[items])
        labels = target if items is None else target[items]
        finite = scores.detach().isfinite().all(dim=1, keepdim=True)
        seen = scores.detach().where(finite, 0.0).requires_grad_()
        (at_scores,) = torch.autograd.grad(loss(seen, labels).sum(), seen)
        dead += (at_scores == 0).all(dim=1)
        (gradient,) = torch.autograd.grad(scores, weights, at_scores)
        with torch.no_grad():
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            step = (mean / (1 - 0.9**iteration)) / ((square / (1 - 0.999**iteration)).sqrt_() + 1e-8) + decay * weights
            weights.sub_((rate * step).where(finite, 0.0))
        after(iteration)
    return dead / max(iterations, 1)


def _batches(items: int, batch: int | None, generator: torch.Generator | None) -> Iterator[Tensor | None]:
    """Without end: the whole set as None, or pass after pass in random order, in batches; a rest is left out."""
    while batch is None or batch >= items:
        yield None
    while True:
        order = torch.randperm(items, generator=generator)
        for start in range(0, items - batch + 1, batch):
            yield order[start : start + batch]
