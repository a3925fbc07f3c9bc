"""Weight decay that follows overfitting: strong where training runs ahead of held-out rows, weak where it does not."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .checks import (
    check_count,
    check_decayed,
    check_function,
    check_held_out,
    check_is_task,
    check_range,
    check_rate,
    check_share,
)
from .metric import metric
from .task import Task
from .tasks import AveragePrecision

__all__ = ["AdaptiveDecay"]

KEPT_TRAIN, KEPT_HELD = 0.9, 0.7  # of the running means: each step of the first, each look at held-out rows
STATE = "share", "steps", "train", "held"
SETTLING = 2  # looks that move nothing, because the running means have only begun


class AdaptiveDecay:
    """Sets the weight decay of an optimizer, so that training does not run ahead of held-out rows.

    At times it compares the metric of the training batches with that of rows that were held out. If training is ahead
    by more than `gap`, the weight decay grows, otherwise it shrinks. The held-out rows need no better labels than the
    training rows. It fits every loss, not only those of this library.

    Args:
        optimizer: one with decoupled weight decay, as `torch.optim.AdamW`. Groups of parameters whose weight decay
            is 0 stay as they are.
        held_out: a function that returns scores and target of the held-out rows, and perhaps a mask. It is called
            without a gradient.
        task: the metric that is compared; None: `AveragePrecision()`.
        gap: by how much training may be ahead.
        low: the least weight decay.
        high: the greatest weight decay.
        start: where between `low` and `high` to begin, from 0 to 1, on a scale of their logarithms.
        pace: how far the weight decay moves at a time, on the same scale.
        every: the number of steps from one look at the held-out rows to the next.
        process_group: processes that train one network, so that they agree; None: each decides by itself.

    Call `step` once for each training step, before `optimizer.step()`. Flat lists are compared at one length: the
    longer one is cut into parts, because the metric of a short list is another quantity than that of a long one.

    >>> x, y = torch.randn(60, 20), torch.arange(60) % 3 == 0  # nothing to learn
    >>> network = torch.nn.Sequential(torch.nn.Linear(20, 1), torch.nn.Flatten(0))
    >>> optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
    >>> decay = AdaptiveDecay(optimizer, lambda: (network(x[40:]), y[40:]))
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     scores = network(x[:40])
    ...     torch.nn.functional.binary_cross_entropy_with_logits(scores, y[:40].float()).backward()
    ...     _ = decay.step(scores, y[:40])
    ...     optimizer.step()
    >>> decay
    AdaptiveDecay(decay=3.6, train=0.83, held_out=0.31)
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        held_out: Callable[[], tuple[Tensor, ...]],
        task: Task | None = None,
        *,
        gap: float = 0.1,
        low: float = 0.3,
        high: float = 10.0,
        start: float = 0.5,
        pace: float = 0.05,
        every: int = 10,
        process_group: Any = None,
    ) -> None:
        check_is_task(task := AveragePrecision() if task is None else task)
        check_function("held_out", held_out)
        check_rate("gap", gap, zero=True)
        check_range("low", low, "high", high)
        check_share("start", start, zero=True)
        check_share("pace", pace)
        check_count("every", every)
        self.optimizer, self.held_out, self.task = optimizer, held_out, task
        self.gap, self.low, self.high, self.pace, self.every = gap, low, high, pace, every
        self.process_group = process_group
        self.share = float(start)
        self.steps = 0
        self.train = self.held = self._length = None
        self._groups = check_decayed(optimizer, high)
        self._set()

    @property
    def decay(self) -> float:
        """The weight decay now."""
        return self.low * (self.high / self.low) ** self.share

    @torch.no_grad()
    def step(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> float:
        """Look at a training batch, set the weight decay, and return it."""
        self.steps += 1
        looks = self.steps % self.every == 0
        held = check_held_out(self.held_out()) if looks or self._length is None else None
        if held is not None:
            self._length = held[0].shape[-1]
        self.train = _mean(self.train, self._metric(scores.detach(), target, mask, self._length), KEPT_TRAIN)
        if held is not None and looks:
            self.held = _mean(self.held, self._metric(*held, scores.shape[-1]), KEPT_HELD)
            ahead = self._ahead(scores.device)
            if self.steps > SETTLING * self.every and not math.isnan(ahead):
                moved = self.share + (self.pace if ahead > self.gap else -self.pace)
                self.share = min(1.0, max(0.0, moved))
        self._set()
        return self.decay

    def _metric(self, scores: Tensor, target: Tensor, mask: Tensor | None, length: int | None) -> float:
        """The mean over lists; a flat list is cut into parts of about this length, by turns."""
        parts = max(scores.shape[-1] // length, 1) if scores.dim() == 1 and length else 1
        cuts = [(scores, target, mask)] if parts == 1 else [
            (scores[k::parts], target[k::parts], None if mask is None else mask[k::parts]) for k in range(parts)
        ]  # fmt: skip
        values = [metric(self.task, *cut).item() for cut in cuts]
        counted = [value for value in values if not math.isnan(value)]
        return sum(counted) / len(counted) if counted else math.nan

    def _ahead(self, device: torch.device) -> float:
        """By how much training is ahead, the mean over processes; NaN if nobody knows."""
        ahead = math.nan if self.train is None or self.held is None else self.train - self.held
        if self.process_group is None:
            return ahead
        known = torch.tensor([0.0, 0.0] if math.isnan(ahead) else [ahead, 1.0], dtype=torch.float64).to(device)
        torch.distributed.all_reduce(known, group=self.process_group)
        total, count = known.tolist()
        return total / count if count else math.nan

    def _set(self) -> None:
        for group in self._groups:
            group["weight_decay"] = self.decay

    def state_dict(self) -> dict[str, Any]:
        """All that changes, to go on after a break."""
        return {name: getattr(self, name) for name in STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there. Load the optimizer first."""
        for name in STATE:
            setattr(self, name, state[name])
        self._groups = [group for group in self.optimizer.param_groups if group["weight_decay"]]
        self._set()

    def __repr__(self) -> str:
        known = {"decay": self.decay, "train": self.train, "held_out": self.held}
        return f"AdaptiveDecay({', '.join(f'{k}={v:.2g}' for k, v in known.items() if v is not None)})"


def _mean(before: float | None, now: float, kept: float) -> float | None:
    """A running mean; a value that is not a number does not count."""
    if math.isnan(now):
        return before
    return now if before is None else kept * before + (1 - kept) * now
