"""Two plain training loops: for networks side by side, and for fine-tuning one network, a batch in chunks."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from directloss import accumulate

from .networks import Networks

__all__ = ["OPTIMIZERS", "Callback", "fine_tune", "passes", "stratified", "train"]


class Callback(Protocol):
    """Called after every iteration, with the number of finished ones."""

    def __call__(self, iteration: int, /) -> object:
        """Take note of a finished iteration."""
        ...


Step = Callable[[Tensor, Tensor], Tensor]
"""From gradient and weight decay to the direction of a step; without a graph."""


def train(
    networks: Networks,
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    target: Tensor,
    *,
    learning_rates: Tensor,
    weight_decays: Tensor,
    iterations: int,
    optimizer: str = "adamw",
    batches: Iterator[Tensor | None] | None = None,
    falling: bool = False,
    callback: Callback = lambda iteration: None,
) -> Tensor:
    """Train every network with its own step size and weight decay; the whole set is one batch by default.

    `batches` gives the items of each iteration, None: all of them; see `passes` and `stratified`. The loss maps
    scores (networks, items) and target (items,) to one value for each network. Calls `callback` with the number of
    finished iterations. Returns for each network the share of iterations whose gradient was dead: zero at every score.
    A network whose scores are no longer finite stays as it is. Optimizers: "adamw"; or "momentum", gradient descent
    with momentum 0.9 on gradients divided by the length of the network's first gradient, so that one grid of step
    sizes serves losses of any scale. With `falling`, step sizes fall linearly to zero, so that the end of training on
    random batches does not depend on the last of them.
    """
    weights = networks.weights
    rate, decay = learning_rates.unsqueeze(1), weight_decays.unsqueeze(1)
    if networks.decayed is not None:
        decay = decay * networks.decayed
    step = OPTIMIZERS[optimizer](weights)
    dead = torch.zeros(len(weights))
    batches = batches or passes(len(target), None, None)
    for iteration in range(1, iterations + 1):
        items = next(batches)
        scores = networks(inputs if items is None else inputs[items])
        labels = target if items is None else target[items]
        finite = scores.detach().isfinite().all(dim=1, keepdim=True)
        seen = scores.detach().where(finite, 0.0).requires_grad_()
        (at_scores,) = torch.autograd.grad(loss(seen, labels).sum(), seen)
        dead += (at_scores == 0).all(dim=1)
        (gradient,) = torch.autograd.grad(scores, weights, at_scores)
        with torch.no_grad():
            share = 1 - (iteration - 1) / iterations if falling else 1.0
            weights.sub_((share * rate * step(gradient, decay)).where(finite, 0.0))
        callback(iteration)
    return dead / max(iterations, 1)


def _adamw(weights: Tensor) -> Step:
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    iteration = 0

    def step(gradient: Tensor, decay: Tensor) -> Tensor:
        nonlocal iteration
        iteration += 1
        mean.lerp_(gradient, 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        return (mean / (1 - 0.9**iteration)) / ((square / (1 - 0.999**iteration)).sqrt_() + 1e-8) + decay * weights

    return step


def _momentum(weights: Tensor) -> Step:
    velocity = torch.zeros_like(weights)
    first = weights.new_zeros(len(weights), 1)

    def step(gradient: Tensor, decay: Tensor) -> Tensor:
        length = gradient.norm(dim=1, keepdim=True)
        first.copy_(first.where(first > 0, length))
        return velocity.mul_(0.9).add_(gradient / first.where(first > 0, 1.0) + decay * weights)

    return step


OPTIMIZERS: dict[str, Callable[[Tensor], Step]] = {"adamw": _adamw, "momentum": _momentum}


def passes(items: int, batch: int | None, generator: torch.Generator | None) -> Iterator[Tensor | None]:
    """Batches without end: None for the whole set, or random ones, pass after pass; the rest of a pass is left out."""
    while batch is None or batch >= items:
        yield None
    while True:
        order = torch.randperm(items, generator=generator)
        for start in range(0, items - batch + 1, batch):
            yield order[start : start + batch]


def stratified(target: Tensor, batch: int, share: float, generator: torch.Generator | None) -> Iterator[Tensor]:
    """Batches without end, drawn at random with replacement; the given share is positive, at least one of each class.

    `directloss.PositivesSampler` draws without replacement. The published runs are made with these draws.
    """
    wanted = min(max(round(share * batch), 1), batch - 1)
    classes = (target != 0).nonzero().squeeze(1), (target == 0).nonzero().squeeze(1)
    for of_class, lacking in zip(classes, ("positives", "negatives"), strict=True):
        if not len(of_class):
            raise ValueError(f"A batch needs positives and negatives; the target has no {lacking}.")

    def drawn() -> Iterator[Tensor]:
        while True:
            parts = (
                of_class[torch.randint(len(of_class), (count,), generator=generator)]
                for of_class, count in zip(classes, (wanted, batch - wanted), strict=True)
            )
            yield torch.cat(list(parts))

    return drawn()


def fine_tune(
    network: nn.Module,
    head: nn.Module,
    batches: Iterator[tuple[Callable[[], Iterable[Tensor]], Tensor]],
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    learning_rate: float,
    weight_decay: float,
    iterations: int,
    callback: Callback = lambda iteration: None,
) -> float:
    """Train a network as the paper does: momentum 0.9, ten times the step size for the head.

    `batches` has no end. It gives for each iteration a function that returns the chunks of the batch, the same at each
    call, and the labels of all of them. Parameters that need no gradient stay as they are. Calls `callback` with the
    number of finished iterations. Ends early if scores are no longer finite. Returns the share of iterations whose
    gradient was dead: zero at every score.
    """
    top = set(head.parameters())
    body = [weight for weight in network.parameters() if weight.requires_grad and weight not in top]
    groups = [{"params": list(top), "lr": 10 * learning_rate}, *([{"params": body}] if body else [])]
    optimizer = torch.optim.SGD(groups, lr=learning_rate, momentum=0.9, weight_decay=weight_decay)
    dead = 0

    def finite(target: Tensor) -> Callable[[Tensor], Tensor]:
        def of(scores: Tensor) -> Tensor:
            if not scores.isfinite().all():
                raise FloatingPointError
            return loss(scores, target)

        return of

    for iteration in range(1, iterations + 1):
        optimizer.zero_grad()
        network.train()
        chunks, target = next(batches)
        try:
            _, at_scores = accumulate(network, chunks, finite(target))
        except FloatingPointError:
            return dead / iterations
        dead += not at_scores.any()
        optimizer.step()
        callback(iteration)
    return dead / max(iterations, 1)
