"""What training loops import beside the loss: a warm-up, samplers, and one ranking over many chunks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import Sampler

from .checks import (
    check_binary,
    check_chunk_count,
    check_chunk_scores,
    check_chunks,
    check_count,
    check_labels,
    check_loss,
    check_same_chunk,
    check_same_scores,
    check_share,
    check_steps,
    check_warm_up,
    raise_at_first,
)
from .layout import is_ignored
from .resumable import Resumable

__all__ = ["ClassesSampler", "PositivesSampler", "WarmUp", "accumulate", "falling_k"]


class WarmUp(Resumable):
    """A loss that begins with another one: `first` for some steps, then `loss`.

    Args:
        loss: the loss after the warm-up, e.g. `AveragePrecisionLoss()`.
        steps: the number of first steps; a tenth of all steps is a good choice.
        first: the loss of the first steps, called with the valid scores and their target; None: binary cross-entropy.

    Call it as you call `loss`. A step is a call on scores that require a gradient. Other calls, as in validation, use
    `loss` and do not count. In the first steps `loss` is called, too, without a gradient: so it refuses wrong input
    from the first step on.

    Its own `state_dict` holds the number of steps so far. The `state_dict` of a model that holds the loss does not: its
    keys are those of the network. So to go on after a break save `loss.state_dict()`, too, or use the `LossCallback` of
    `directloss.integrations`.

    `first` gets all valid scores at once, without regard to lists, and returns one number: the `reduction` of `loss`
    and the `weight` of lists are for later steps. If a loss on lists has a `process_group`, `first` gets the scores of
    all processes, too.

    The positive update strengthens pairs that are already in the right order. If a network starts with more pairs in
    the wrong order, the ranking may get worse. A warm-up avoids most of that. With a large ε, reset Adam after these
    steps: `optimizer.state.clear()`. docs/studies/warm-up.md has the measurements.

    Under `torch.compile` the first steps run outside of the graph. With `fullgraph=True` compile the network alone.

    >>> from directloss import AveragePrecisionLoss
    >>> loss = WarmUp(AveragePrecisionLoss(), steps=1)
    >>> scores, target = torch.tensor([2.0, 1.0, 0.0], requires_grad=True), torch.tensor([0, 1, 1])
    >>> loss(scores, target), loss(scores, target)
    (tensor(1.0444, grad_fn=<...>), tensor(0.4167, grad_fn=<...>))
    """

    counts_steps = True

    def __init__(self, loss: nn.Module, steps: int, first: Callable[..., Tensor] | None = None) -> None:
        super().__init__()
        self.loss = check_loss(loss)
        self.first = first
        self._step, self._steps = 0, check_steps(steps)
        self._over = not steps  # of its own: compiled code then depends on this, and not on the number of the step

    @property
    def ignore_index(self) -> int | None:
        """The value of the target that the loss leaves out."""
        return getattr(self.loss, "ignore_index", None)

    @property
    def step(self) -> int:
        """The number of steps so far."""
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        self._step, self._over = step, step >= self._steps

    @property
    def steps(self) -> int:
        """The number of first steps."""
        return self._steps

    @steps.setter
    def steps(self, steps: int) -> None:
        self._steps, self._over = check_steps(steps), self._step >= steps

    def forward(self, scores: Tensor, target: Tensor, *more: Any, **options: Any) -> Tensor:
        """The loss of this step; what comes behind the target goes to `loss`."""
        counts = isinstance(scores, Tensor) and scores.requires_grad and torch.is_grad_enabled()
        if self._over or not counts:
            return self.loss(scores, target, *more, **options)
        if torch.compiler.is_compiling():
            from .uncompiled import run_uncompiled

            return run_uncompiled(self._first_step, scores, target, *more, **options)
        return self._first_step(scores, target, *more, **options)

    if TYPE_CHECKING:  # torch's own says nothing of the arguments

        def __call__(self, scores: Tensor, target: Tensor, *more: Any, **options: Any) -> Tensor:
            """`forward`, with the hooks of a module."""
            ...

    def _first_step(self, scores: Tensor, target: Tensor, *more: Any, **options: Any) -> Tensor:
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
            valid = ~is_ignored(target, ignored)
            mask = valid if mask is None else mask & valid
        if group is not None:
            from .distributed import gather

            flat = (None if part is None else part.reshape(-1) for part in (scores, target, mask))
            scores, target, mask = gather(group, *flat)
        return (scores, target) if mask is None else (scores[mask], target[mask])

    def extra_repr(self) -> str:
        """The number of first steps."""
        return f"steps={self.steps}"


def _cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """The mean over items; 0 if there are none."""
    reduction = "mean" if scores.numel() else "sum"
    return nn.functional.binary_cross_entropy_with_logits(scores, target.to(scores.dtype), reduction=reduction)


class PositivesSampler(Sampler[list[int]]):
    """Batches of indices for `DataLoader(batch_sampler=...)`, each with positives and negatives.

    An epoch has as many batches as `batch_size` goes into the number of samples. Every batch has its share of
    positives, at least one sample of each class. Samples of a class are drawn without replacement until all of them
    were drawn, then anew. So in an epoch a class whose share is that of the target comes once.

    Args:
        target: (samples,), 0 or 1 for each sample, as bool, int or float.
        batch_size: the number of indices in a batch, 2 or more.
        share: the share of positives in a batch; None: their share in the target.
        generator: for the random numbers; None uses torch's own.

    >>> target = torch.arange(100) < 3
    >>> batches = PositivesSampler(target, batch_size=8, share=0.25, generator=torch.Generator().manual_seed(0))
    >>> len(batches), [int(target[batch].sum()) for batch in batches][:3]
    (12, [2, 2, 2])
    """

    def __init__(
        self, target: Tensor, batch_size: int, share: float | None = None, generator: torch.Generator | None = None
    ) -> None:
        check_labels(target)
        check_binary(target, target, None)
        check_count("batch_size", batch_size, 2)
        positive = target != 0
        self.classes = positive.nonzero().squeeze(1), (~positive).nonzero().squeeze(1)
        if not all(len(rows) for rows in self.classes):
            lacking = "negatives" if len(self.classes[0]) else "positives"
            raise ValueError(f"a batch needs positives and negatives; the target has no {lacking}.")
        if share is None:
            share = len(self.classes[0]) / len(target)
        check_share("share", share)
        self.batch_size = batch_size
        self.positives = min(max(round(share * batch_size), 1), batch_size - 1)
        self.generator = generator

    def __len__(self) -> int:
        return max(sum(map(len, self.classes)) // self.batch_size, 1)

    def __iter__(self) -> Iterator[list[int]]:
        sizes = self.positives, self.batch_size - self.positives
        drawn = [_rounds(rows, self.generator) for rows in self.classes]
        for _ in range(len(self)):
            yield [next(rows) for rows, size in zip(drawn, sizes, strict=True) for _ in range(size)]


class ClassesSampler(Sampler[list[int]]):
    """Batches of indices for `DataLoader(batch_sampler=...)` with as many samples of each of some classes.

    It is for `RetrievalLoss`, where a query needs another sample of its class. Classes are drawn without replacement
    until all of them were drawn, then anew, and so are the samples of a class.

    Args:
        labels: (samples,), the class of each sample, as integers.
        batch_size: the number of indices in a batch, a multiple of `samples`.
        samples: the number of samples of a class in a batch, 2 or more. A class that has fewer repeats them.
        generator: for the random numbers; None uses torch's own.

    >>> labels = torch.arange(60) % 6
    >>> batches = ClassesSampler(labels, batch_size=8, samples=4, generator=torch.Generator().manual_seed(0))
    >>> len(batches), [labels[batch].unique().numel() for batch in batches][:3]
    (7, [2, 2, 2])
    """

    def __init__(
        self, labels: Tensor, batch_size: int, samples: int = 4, generator: torch.Generator | None = None
    ) -> None:
        check_labels(labels)
        raise_at_first(~labels.isfinite(), labels, "labels must be finite", "Leave these samples out.")
        check_count("batch_size", batch_size)
        check_count("samples", samples, 2)
        self.classes = [(labels == label).nonzero().squeeze(1) for label in labels.unique()]
        if batch_size % samples or batch_size // samples > len(self.classes):
            raise ValueError(
                f"batch_size must be a multiple of samples, with at most {len(self.classes)} classes in a batch; got "
                f"batch_size={batch_size} and samples={samples}."
            )
        self.batch_size, self.samples, self.generator = batch_size, samples, generator

    def __len__(self) -> int:
        return max(sum(map(len, self.classes)) // self.batch_size, 1)

    def __iter__(self) -> Iterator[list[int]]:
        drawn = [_rounds(rows, self.generator) for rows in self.classes]
        left: list[int] = []
        for _ in range(len(self)):
            batch: list[int] = []
            while len(batch) < self.batch_size // self.samples:
                if not left:  # those that are in this batch come last
                    order = _order(len(self.classes), self.generator).tolist()
                    left = sorted(order, key=batch.__contains__)
                batch.append(left.pop(0))
            yield [next(drawn[k]) for k in batch for _ in range(self.samples)]


def _rounds(rows: Tensor, generator: torch.Generator | None) -> Iterator[int]:
    """All rows in random order, again and again."""
    while True:
        yield from rows[_order(len(rows), generator).to(rows.device)].tolist()


def _order(items: int, generator: torch.Generator | None) -> Tensor:
    """A random order; torch's default device may be another one than the generator's."""
    return torch.randperm(items, generator=generator, device="cpu" if generator is None else generator.device)


def falling_k(step: int, steps: int, start: int, end: int) -> int:
    """The k of a step, from 0 on: from `start` in the first of `steps` to `end` in the last, by equal factors.

    A metric of few ranks, such as `NDCG(10)` on a list of thousands, often has no gradient. It has one if k begins at
    half of the length of a list. Make the task anew in each step. That adds a tenth to the time of `NDCG` and
    `PrecisionAtK`. `AveragePrecisionAtK` and `HitAtK` measure their scale for each k, about 10 ms on a list of 4000:
    count tens of steps instead. If `start` is not above `end`, k is `end`.

    >>> [falling_k(step, 5, start=160, end=10) for step in range(5)]
    [160, 80, 40, 20, 10]
    >>> from directloss import NDCG, CentralDirect, StructuredLoss
    >>> loss = StructuredLoss(NDCG(falling_k(3, 5, start=160, end=10)), CentralDirect(1.0))
    """
    for name, count, least in (("step", step, 0), ("steps", steps, 1), ("start", start, 1), ("end", end, 1)):
        check_count(name, count, least)
    share = min(step / max(steps - 1, 1), 1.0)
    return max(round(start * (end / start) ** share), end)


def accumulate(
    network: nn.Module, chunks: Callable[[], Iterable[Tensor]], loss: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Add the gradient of a loss on all scores together to the network's parameters, with the memory of one chunk.

    The first pass computes the scores of all chunks without a graph, and the loss gives the gradient at each score. The
    second pass runs the network again, chunk by chunk, with gradients. `chunks` must give the same chunks both times.
    Random numbers in the network, such as dropout, are the same in both passes. Its buffers, such as the statistics of
    a batch normalisation, are those after one pass.

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
    sums: list[list[Tensor]] = []
    buffers = dict(network.named_buffers()) if isinstance(network, nn.Module) else {}
    before = {name: buffer.clone() for name, buffer in buffers.items()}
    with torch.no_grad():
        for chunk in chunks():
            states.append((torch.get_rng_state(), torch.cuda.get_rng_state_all()))
            sums.append(_row_sums(chunk))
            parts.append(check_chunk_scores(network(chunk)))
        for name, buffer in buffers.items():
            buffer.copy_(before[name])
    check_chunk_count(len(parts), len(parts))  # there are some
    scores = torch.cat(parts).requires_grad_()
    (at_scores,) = torch.autograd.grad(loss(scores), scores)
    finite = scores.detach()[scores.isfinite()]
    spread = float(finite.max() - finite.min()) if finite.numel() else 0.0
    gradients = at_scores.split([len(part) for part in parts])
    passed = 0
    for chunk in chunks():
        check_chunk_count(len(parts), max(len(parts), passed + 1))  # not more than before
        check_same_chunk(sums[passed], _row_sums(chunk))
        torch.set_rng_state(states[passed][0])
        torch.cuda.set_rng_state_all(states[passed][1])
        again = network(chunk)
        check_same_scores(parts[passed], again.detach(), spread)
        again.backward(gradients[passed])
        passed += 1
    check_chunk_count(len(parts), passed)
    return scores.detach(), at_scores


def _row_sums(chunk: Any) -> list[Tensor]:
    """A number for each row of every tensor of a chunk, so that chunks in another order are told apart."""
    if isinstance(chunk, Tensor):
        rows = len(chunk) if chunk.dim() and chunk.numel() else 1
        return [chunk.detach().reshape(rows, -1).sum(1)]
    parts = chunk.values() if isinstance(chunk, Mapping) else chunk if isinstance(chunk, tuple | list) else ()
    return [sums for part in parts for sums in _row_sums(part)]
