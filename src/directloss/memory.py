"""A memory of scores, so that the loss of a mini-batch ranks it against the whole training set.

The state is here, and not in a loss: a loss is a function of scores.
"""

from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .autograd import attached
from .checks import check_batch, check_binary, check_finite, check_labels, check_no_group, needs_dispatch, refuse_first
from .families import RankingTask
from .families.packed import scratch
from .group_module import GroupModule
from .loss import StructuredLoss
from .training import WarmUp

__all__ = ["ScoreMemory"]


class ScoreMemory(GroupModule):
    """The latest score of every training sample, by index.

    Args:
        target: the labels (samples,) of the whole training set. Scores are remembered on its device. The CPU is best,
            because ranking is done there.
        process_group: processes that each hold a part of every batch, e.g. torch.distributed.group.WORLD. All of them
            remember all scores. Pass it here, not to the loss.

    Call it with a loss on lists, the scores (batch,) of some samples and their indices (batch,). It ranks these scores
    among the remembered ones of all other samples, then remembers them. Samples without a score yet are masked out.

    It returns the loss of the whole list. Only the scores of the batch get a gradient. The gradient of a positive is
    multiplied by the number of positives in the list, divided by their number in the batch. The same is done for
    negatives. So its mean over batches is the gradient of the whole list, even if `with_positives` draws the batches.
    If an index comes twice, the last score counts, and gets the gradient of both.

    The remembered scores are in the `state_dict`; the labels are not.

    >>> from directloss import AveragePrecisionLoss
    >>> memory, loss = ScoreMemory(torch.tensor([0, 1, 1, 0])), AveragePrecisionLoss()
    >>> memory(loss, torch.tensor([2.0, 1.0], requires_grad=True), torch.tensor([0, 1]))
    tensor(0.5000, grad_fn=<...>)
    >>> memory(loss, torch.tensor([0.0, -1.0], requires_grad=True), torch.tensor([2, 3]))  # now all four are ranked
    tensor(0.4167, grad_fn=<...>)
    """

    target: Tensor
    scores: Tensor
    """(samples,) the latest scores; 0 where there is none yet."""
    seen: Tensor
    """(samples,) whether there is a score."""

    def __init__(self, target: Tensor, *, process_group: Any = None) -> None:
        super().__init__()
        check_labels(target)
        self.register_buffer("target", target, persistent=False)
        self.register_buffer("scores", torch.zeros(target.shape, device=target.device))
        self.register_buffer("seen", torch.zeros_like(target, dtype=torch.bool))
        self.process_group = process_group
        self._sorted: SortedKeys | None = None

    def forward(self, loss: Any, scores: Tensor, items: Tensor) -> Tensor:
        """The loss of the whole list, with a gradient on the scores of the batch."""
        check_no_group(loss)
        device = scores.device
        scores, items = self._batch(scores, items)
        while isinstance(loss, WarmUp) and loss.step >= loss.steps:
            loss = loss.loss
        if self._is_plain(loss, scores):
            return self._rank(loss, scores, items).to(device)
        seen = self.seen.index_fill(0, items, True)
        factors = self._factors(seen & self._counted(loss), items)
        scaled = scores.detach() + factors.to(scores.dtype) * (scores - scores.detach())
        whole = self.scores.to(scores.dtype).index_put((items,), scaled)
        value = loss(whole, self.target, None if seen.all() else seen)
        self._store(scores.detach(), items)
        return value.to(device)

    @torch.no_grad()
    def remember(self, scores: Tensor, items: Tensor) -> None:
        """Remember scores without a loss, e.g. those of all samples before the first step."""
        scores, items = self._batch(scores, items)
        check_finite(scores, None)
        self._store(scores, items)

    def _is_plain(self, loss: Any, scores: Tensor) -> bool:
        """Whether keys may stay sorted from step to step: one ranking in float32, on the CPU."""
        return (
            isinstance(loss, StructuredLoss)
            and isinstance(loss.task, RankingTask)
            and loss.ignore_index is None
            and not any(isinstance(number, Tensor) for number in loss.update.row)
            and self.scores.dtype is scores.dtype is torch.float32
            and self.scores.is_cpu
            and len(self.target) < 1 << 30
            and not needs_dispatch(scores)
        )

    def _rank(self, loss: Any, scores: Tensor, items: Tensor) -> Tensor:
        """The loss of the whole list, from keys that stay sorted; only those of the batch change."""
        if self._sorted is None or self._sorted.version != self._stamp():
            check_binary(self.scores, self.target, None)
            self._sorted = SortedKeys(self.scores.numpy(), self.target.numpy() > 0, self.seen.numpy())
        keys, detached = self._sorted, scores.detach()
        keys.version = ()  # a step that fails half-way leaves them to be made anew
        places = keys.exchange(items.numpy(), detached.numpy())
        distinct, which = np.unique(places, return_inverse=True)
        value, gradient = loss.task.contrast_sorted(keys.keys, keys.classes, loss.update.row, distinct, keys.scratch)
        at_batch = torch.from_numpy(gradient[which] * keys.factors(items.numpy()))
        self._store(detached, items)
        keys.version = self._stamp()
        return attached(scores, at_batch, torch.tensor(value))

    def _stamp(self) -> tuple[int, ...]:
        return (self.scores._version, self.seen._version, self.scores.data_ptr(), self.seen.data_ptr())

    def _store(self, scores: Tensor, items: Tensor) -> None:
        self.scores[items] = scores.to(self.scores.dtype)
        self.seen[items] = True

    def _batch(self, scores: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """The batch of all processes, on the device of the memory; the last score of an index that comes twice."""
        check_batch(scores, items)
        if self.process_group is not None:
            from .distributed import gather

            scores, items = gather(self.process_group, scores, items.to(scores.device, torch.int64))
        scores = scores.to(self.scores.device, torch.promote_types(scores.dtype, self.scores.dtype))
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        items = items.to(self.scores.device, torch.int64)
        samples = len(self.target)
        refuse_first(
            (items < 0) | (items >= samples), items, f"items must be from 0 to {samples - 1}", "Pass dataset indices."
        )
        found, which = items.unique(return_inverse=True)
        order = torch.arange(len(items), device=items.device)
        last = torch.zeros_like(found).scatter_reduce(0, which, order, "amax")
        return scores[last[which]], items

    def _counted(self, loss: Any) -> Tensor:
        """(samples,) whether the loss looks at a sample."""
        while isinstance(loss, WarmUp):
            loss = loss.loss
        ignored = getattr(loss, "ignore_index", None)
        return torch.ones_like(self.seen) if ignored is None else self.target != ignored

    def _factors(self, counted: Tensor, items: Tensor) -> Tensor:
        """How many samples of the list every sample of the batch stands for."""
        positive, factors = self.target > 0, torch.ones(len(items), dtype=torch.float64, device=items.device)
        for which in (positive & counted, ~positive & counted):
            drawn = which[items]
            factors[drawn] = which.count_nonzero().double() / drawn.count_nonzero()
        return factors

    def extra_repr(self) -> str:
        """How many samples it remembers."""
        return f"samples={len(self.target)}, seen={int(self.seen.count_nonzero())}"


class SortedKeys:
    """The packed keys of all samples that were seen, sorted. A batch is taken out and put in again."""

    version: tuple[int, ...] = ()
    """Of the memory that they were made from."""

    def __init__(self, scores: NDArray[np.float32], positive: NDArray[np.bool_], seen: NDArray[np.bool_]) -> None:
        self.scores, self.positive, self.seen = scores, positive, seen
        samples = np.flatnonzero(seen)
        self.keys = self._pack(scores[samples], samples)
        self.keys.sort()
        positives = int(np.count_nonzero(positive & seen))
        self.classes = positives, samples.size - positives
        # what every step writes to: new memory would take half as long as the ranking
        self.current, self.next = np.empty((2, seen.size), np.int64)
        self.scratch = scratch(seen.size)

    def exchange(self, items: NDArray[np.int64], scores: NDArray[np.float32]) -> NDArray[np.int64]:
        """Give samples their new scores; return their places in the ranking.

        The arrays that this was made from must still hold the old scores.
        """
        samples, which = np.unique(items, return_index=True)
        old = samples[self.seen[samples]]
        gone, new = self._pack(self.scores[old], old), self._pack(scores[which], samples)
        gone.sort()
        size = self.keys.size - gone.size + new.size
        kept = self.next[:size]
        import_module("directloss.kernels.memory").exchange(self.keys, gone, np.sort(new), kept)
        self.keys, self.current, self.next = kept, self.next, self.current
        more = np.count_nonzero(self.positive[samples]) - np.count_nonzero(self.positive[old])
        self.classes = self.classes[0] + int(more), self.classes[1] + samples.size - old.size - int(more)
        return kept.searchsorted(new)[samples.searchsorted(items)]

    def factors(self, items: NDArray[np.int64]) -> NDArray[np.float32]:
        """How many samples of the list every sample of the batch stands for."""
        drawn = self.positive[items]
        batch = np.array([np.count_nonzero(drawn), np.count_nonzero(~drawn)])
        positives, negatives = np.array(self.classes) / np.maximum(batch, 1)
        return np.where(drawn, positives, negatives).astype(np.float32)

    def _pack(self, scores: NDArray[np.float32], samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Keys of some samples, with their numbers as indexes."""
        kernels, keys = import_module("directloss.kernels.lists"), np.empty(samples.size, np.int64)
        if not kernels.pack(scores, self.positive[samples], None, keys):
            check_finite(torch.from_numpy(scores), None)
        return (keys & ~kernels.LONGEST_LIST) | samples
