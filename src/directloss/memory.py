"""A memory of scores, so that the loss of a mini-batch ranks it against the whole training set.

The state is here, and not in a loss: a loss is a function of scores.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .checks import check_batch, check_finite, check_labels, check_loss, check_no_group, raise_at_first
from .group_module import GroupModule
from .layout import is_ignored
from .resumable import Resumable

__all__ = ["ScoreMemory"]


class ScoreMemory(Resumable, GroupModule):
    """The latest score of every training sample, by index.

    Args:
        loss: a loss on lists, e.g. `AveragePrecisionLoss()`; it may begin with a `WarmUp`.
        target: the labels (samples,) of the whole training set. Scores are remembered on its device. The CPU is best,
            because ranking is done there.
        process_group: processes that each hold a part of every batch, e.g. torch.distributed.group.WORLD. All of them
            remember all scores. Pass it here, not to the loss.

    Call it with the scores (batch,) of some samples and their indices (batch,). It ranks these scores among the
    remembered ones of all other samples, then remembers them. Samples without a score yet are masked out.

    It returns the loss of the whole list. Only the scores of the batch get a gradient. The gradient of a positive is
    multiplied by the number of positives in the list, divided by their number in the batch. The same is done for
    negatives. So its mean over batches is the gradient of the whole list, even if a `PositivesSampler` draws the
    batches. If an index comes twice, the last score counts, and gets the gradient of both.

    The remembered scores are in the `state_dict`; the labels are not.

    >>> from directloss import AveragePrecisionLoss
    >>> memory = ScoreMemory(AveragePrecisionLoss(), torch.tensor([0, 1, 1, 0]))
    >>> memory(torch.tensor([2.0, 1.0], requires_grad=True), torch.tensor([0, 1]))
    tensor(0.5000, grad_fn=<...>)
    >>> memory(torch.tensor([0.0, -1.0], requires_grad=True), torch.tensor([2, 3]))  # now all four are ranked
    tensor(0.4167, grad_fn=<...>)
    """

    target: Tensor
    scores: Tensor
    """(samples,) the latest scores; 0 where there is none yet."""
    seen: Tensor
    """(samples,) whether there is a score."""

    def __init__(self, loss: nn.Module, target: Tensor, *, process_group: Any = None) -> None:
        super().__init__()
        check_labels(target)
        check_no_group(check_loss(loss))
        self.loss = loss
        self.register_buffer("target", target.detach(), persistent=False)
        self.register_buffer("scores", torch.zeros(target.shape, device=target.device))
        self.register_buffer("seen", torch.zeros_like(target, dtype=torch.bool))
        self.process_group = process_group

    def forward(self, scores: Tensor, items: Tensor) -> Tensor:
        """The loss of the whole list, with a gradient on the scores of the batch."""
        device = scores.device
        scores, items = self._batch(scores, items)
        seen = self.seen.index_fill(0, items, True)
        factors = self._factors(seen & self._counted(), items)
        scaled = scores.detach() + factors.to(scores.dtype) * (scores - scores.detach())
        whole = self.scores.to(scores.dtype).index_put((items,), scaled)
        value = self.loss(whole, self.target, None if seen.all() else seen)
        self._store(scores.detach(), items)
        return value.to(device)

    if TYPE_CHECKING:  # torch's own says nothing of the arguments

        def __call__(self, scores: Tensor, items: Tensor) -> Tensor:
            """`forward`, with the hooks of a module."""
            ...

    @torch.no_grad()
    def remember(self, scores: Tensor, items: Tensor) -> None:
        """Remember scores without a loss, e.g. those of all samples before the first step."""
        scores, items = self._batch(scores, items)
        check_finite(scores, None)
        self._store(scores, items)

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
        raise_at_first(
            (items < 0) | (items >= samples), items, f"items must be from 0 to {samples - 1}", "Pass dataset indices."
        )
        distinct, which = items.unique(return_inverse=True)
        order = torch.arange(len(items), device=items.device)
        last = torch.zeros_like(distinct).scatter_reduce(0, which, order, "amax")
        return scores[last[which]], items

    def _counted(self) -> Tensor:
        """(samples,) whether the loss looks at a sample."""
        ignored = getattr(self.loss, "ignore_index", None)
        return torch.ones_like(self.seen) if ignored is None else ~is_ignored(self.target, ignored)

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
