"""What training loops import beside the loss: a warm-up, batches with positives, and one ranking over many chunks."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .checks import (
    check_binary,
    check_chunk_count,
    check_chunk_scores,
    check_chunks,
    check_count,
    check_labels,
    check_same_scores,
    check_share,
    check_steps,
    check_warm_up,
)

__all__ = ["WarmUp", "accumulate", "with_positives"]


class WarmUp(nn.Module):
    """A loss that begins with another one: `first` for some steps, then `loss`.

    Args:
        loss: the loss after the warm-up, e.g. `AveragePrecisionLoss()`.
        steps: the number of first steps; a tenth of all steps is a good choice.
        first: the loss of the first steps, called with the valid scores and their target; None: binary cross-entropy.

    Call it as you call `loss`. A step is a call on scores that require a gradient. Other calls, as in validation, use
    `loss` and do not count. The number of steps so far is in the `state_dict`. In the first steps `loss` is called,
    too, without a gradient: so it refuses wrong input from the first step on.

    `first` gets all valid scores at once, without regard to lists, and returns one number: the `reduction` of `loss`
    and the `weight` of lists are for later steps. If a loss on lists has a `process_group`, `first` gets the scores of
    all processes, too.

    The positive update strengthens pairs that are already in the right order. If a network starts with more pairs in
    the wrong order, the ranking may get worse. A warm-up avoids most of that. With a large ε, reset Adam after these
    steps: `optimizer.state.clear()`. docs/warm-up.md has the measurements.

    >>> from directloss import AveragePrecisionLoss
    >>> loss = WarmUp(AveragePrecisionLoss(), steps=1)
    >>> scores, target = torch.tensor([2.0, 1.0, 0.0], requires_grad=True), torch.tensor([0, 1, 1])
    >>> loss(scores, target), loss(scores, target)
    (tensor(1.0444, grad_fn=<...>), tensor(0.4167, grad_fn=<...>))
    """

    def __init__(self, loss: nn.Module, steps: int, first: Callable[..., Tensor] | None = None) -> None:
        super().__init__()
        self.loss = loss
        self.steps = check_steps(steps)
        self.first = first
        self.step = 0

    def forward(self, scores: Tensor, target: Tensor, *more: Any, **options: Any) -> Tensor:
        """The loss of this step; what comes behind the target goes to `loss`."""
        counts = isinstance(scores, Tensor) and scores.requires_grad and torch.is_grad_enabled()
        if self.step >= self.steps or not counts:
            return self.loss(scores, target, *more, **options)
        with torch.no_grad():
            self.loss(scores, target, *more, **options)
        scores, target = self._valid(scores, target, *more, **options)
        if self.first is None:
            check_warm_up(scores, target)
        self.step += 1
        return _cross_entropy(scores, target) if self.first is None else self.first(scores, target)

    def _valid(self, scores: Tensor, target: Tensor, mask: Tensor | None = None, *more: Any, **options: Any) -> Any:
        """The valid scores of all processes, and their target."""
        if not isinstance(target, Tensor) or target.shape != scores.shape:
            return scores, target
        ignored, group = (getattr(self.loss, name, None) for name in ("ignore_index", "process_group"))
        if ignored is not None:
            mask = (target != ignored) if mask is None else mask & (target != ignored)
        if group is not None:
            from .distributed import gather

            flat = (None if part is None else part.reshape(-1) for part in (scores, target, mask))
            scores, target, mask = gather(group, *flat)
        return (scores, target) if mask is None else (scores[mask], target[mask])

    def get_extra_state(self) -> Tensor:
        """The number of steps so far, as a tensor: safetensors saves nothing else."""
        return torch.tensor(self.step, device="cpu")

    def set_extra_state(self, state: Tensor | int) -> None:
        """Go on after so many steps."""
        self.step = int(state)

    def extra_repr(self) -> str:
        """The number of first steps."""
        return f"steps={self.steps}"


def _cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """The mean over items; 0 if there are none."""
    reduction = "mean" if scores.numel() else "sum"
    return nn.functional.binary_cross_entropy_with_logits(scores, target.to(scores.dtype), reduction=reduction)


def with_positives(
    target: Tensor, batch: int, share: float, generator: torch.Generator | None = None
) -> Iterator[Tensor]:
    """Yield batches of indices without end, drawn at random with replacement; the given share is positive.

    Args:
        target: (samples,), 0 or 1 for each sample, as bool, int or float.
        batch: the number of indices in a batch, 2 or more.
        share: the share of positives in a batch; at least one of each class is drawn.
        generator: for the random numbers; None uses torch's own.

    >>> target = torch.arange(100) < 3
    >>> items = next(with_positives(target, batch=8, share=0.25, generator=torch.Generator().manual_seed(0)))
    >>> items.shape, int(target[items].sum())
    (torch.Size([8]), 2)
    """
    check_labels(target)
    check_binary(target, target, None)
    check_count("batch", batch, 2)
    check_share("share", share)
    positives, negatives = (which.nonzero().squeeze(1) for which in (target != 0, target == 0))
    if not len(positives) or not len(negatives):
        lacking = "negatives" if len(positives) else "positives"
        raise ValueError(f"A batch needs positives and negatives; the target has no {lacking}.")
    return _drawn(positives, negatives, batch, min(max(round(share * batch), 1), batch - 1), generator)


def _drawn(
    positives: Tensor, negatives: Tensor, batch: int, wanted: int, generator: torch.Generator | None
) -> Iterator[Tensor]:
    while True:
        drawn = (
            which[torch.randint(len(which), (count,), generator=generator)]
            for which, count in ((positives, wanted), (negatives, batch - wanted))
        )
        yield torch.cat(list(drawn))


def accumulate(
    network: nn.Module, chunks: Callable[[], Iterable[Tensor]], loss: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Add the gradient of a loss on all scores together to the network's parameters, with the memory of one chunk.

    The first pass computes the scores of all chunks without a graph, and the loss gives the gradient at each score. The
    second pass runs the network again, chunk by chunk, with gradients. `chunks` must give the same chunks both times.
    Random numbers in the network, such as dropout, are the same in both passes.

    Args:
        network: gives the scores of a chunk, (items,) or (items, ...).
        chunks: returns the chunks; it is called twice.
        loss: of all scores, (all items,) or (all items, ...).

    Returns the scores and the gradient at them.

    >>> from directloss import AveragePrecisionLoss
    >>> network = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
    >>> x, y = torch.randn(6, 2), torch.tensor([1, 0, 0, 1, 0, 0])
    >>> scores, gradient = accumulate(network, lambda: x.split(2), lambda scores: AveragePrecisionLoss()(scores, y))
    >>> scores.shape, gradient.shape, network[0].weight.grad.shape
    (torch.Size([6]), torch.Size([6]), torch.Size([1, 2]))
    """
    check_chunks(chunks)
    states: list[tuple[Tensor, list[Tensor]]] = []
    parts: list[Tensor] = []
    with torch.no_grad():
        for chunk in chunks():
            states.append((torch.get_rng_state(), torch.cuda.get_rng_state_all()))
            parts.append(check_chunk_scores(network(chunk)))
    check_chunk_count(len(parts), len(parts))  # there are some
    scores = torch.cat(parts).requires_grad_()
    (at_scores,) = torch.autograd.grad(loss(scores), scores)
    finite = scores.detach()[scores.isfinite()]
    spread = float(finite.max() - finite.min()) if finite.numel() else 0.0
    gradients = at_scores.split([len(part) for part in parts])
    passed = 0
    for chunk in chunks():
        check_chunk_count(len(parts), max(len(parts), passed + 1))  # not more than before
        torch.set_rng_state(states[passed][0])
        torch.cuda.set_rng_state_all(states[passed][1])
        again = network(chunk)
        check_same_scores(parts[passed], again.detach(), spread)
        again.backward(gradients[passed])
        passed += 1
    check_chunk_count(len(parts), passed)
    return scores.detach(), at_scores
