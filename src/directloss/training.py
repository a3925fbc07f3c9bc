"""What training loops import beside the loss: batches with positives, and one ranking over many chunks."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

__all__ = ["accumulate", "with_positives"]


def with_positives(target: Tensor, batch: int, share: float, generator: torch.Generator | None) -> Iterator[Tensor]:
    """Without end: batches drawn at random, with replacement, of which the given share is positive."""
    positives, negatives = (which.nonzero().squeeze(1) for which in (target, ~target))
    if not len(positives) or not len(negatives):
        lacking = "negatives" if len(positives) else "positives"
        raise ValueError(f"A batch needs positives and negatives; the target has no {lacking}.")
    wanted = min(max(round(share * batch), 1), batch - 1)
    while True:
        drawn = (
            which[torch.randint(len(which), (count,), generator=generator)]
            for which, count in ((positives, wanted), (negatives, batch - wanted))
        )
        yield torch.cat(list(drawn))


def accumulate(
    network: nn.Module, chunks: Callable[[], Iterable[Tensor]], loss: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Add the gradient of a loss of all scores at once to the network's parameters, with the memory of one chunk.

    Two passes: the scores of all chunks without a graph, and what the loss says to them; then chunk by chunk the way
    back. Chunks must come alike both times; what the network draws at random (dropout) is drawn alike by itself.
    Returns the scores and the gradient at them.
    """
    states: list[tuple[Tensor, list[Tensor]]] = []
    parts: list[Tensor] = []
    with torch.no_grad():
        for chunk in chunks():
            states.append((torch.get_rng_state(), torch.cuda.get_rng_state_all()))
            parts.append(network(chunk))
    scores = torch.cat(parts).requires_grad_()
    (at_scores,) = torch.autograd.grad(loss(scores), scores)
    for chunk, state, gradient in zip(chunks(), states, at_scores.split([len(part) for part in parts]), strict=True):
        torch.set_rng_state(state[0])
        torch.cuda.set_rng_state_all(state[1])
        network(chunk).backward(gradient)
    return scores.detach(), at_scores
