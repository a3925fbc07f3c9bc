"""Weight decay that follows overfitting: strong where training runs ahead of held-out rows, weak where it does not."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .advice import TrainingWarning
from .checks import (
    check_count,
    check_decayed,
    check_dim,
    check_function,
    check_held_out,
    check_is_task,
    check_range,
    check_rate,
    check_share,
    check_state,
)
from .metric import metric
from .task import Task
from .tasks import AveragePrecision

__all__ = ["AdaptiveDecay"]

GAP, LOW, HIGH, START, PACE, EVERY = 0.1, 0.3, 10.0, 0.5, 0.05, 10  # chosen in studies/searches/adaptive_decay.py
KEPT_TRAIN, KEPT_HELD = 0.9, 0.7  # of the running means: each step of the first, each look at held-out rows
STATE = "share", "train", "held_out"  # of what follows overfitting, one number each
SILENT = 3  # looks, after which there is a warning if all of them said nothing
SETTLING = 2  # looks that move nothing, because the running means have only begun


class Overfitting:
    """How far training is ahead of held-out rows, for networks side by side, and the weight decay that follows.

    The decay moves between `low` and `high` on a logarithmic scale; `share` says where it is, from 0 to 1.
    """

    def __init__(self, networks: int, gap: float, low: float, high: float, start: float, pace: float) -> None:
        self.gap, self.low, self.high, self.pace = gap, low, high, pace
        self.looks = 0
        self.share = torch.full((networks,), float(start), dtype=torch.float64)
        self.train = torch.full((networks,), math.nan, dtype=torch.float64)
        self.held_out = self.train.clone()

    @property
    def decay(self) -> Tensor:
        """The weight decay of each network."""
        return self.low * (self.high / self.low) ** self.share

    def trained(self, quality: Tensor) -> None:
        """Take note of the metric (networks,) of a training batch; NaN says nothing."""
        self.train = _running_mean(self.train, quality, KEPT_TRAIN)

    def look(self, quality: Tensor, group: Any = None) -> None:
        """Take note of the metric (networks,) of held-out rows, and move the decay; processes of a group agree."""
        self.held_out = _running_mean(self.held_out, quality, KEPT_HELD)
        self.looks += 1
        ahead = _mean_of_processes(self.train - self.held_out, group, quality.device)
        if self.looks > SETTLING:
            move = torch.where(ahead > self.gap, self.pace, -self.pace).where(~ahead.isnan(), 0.0)
            self.share = (self.share + move).clamp(0.0, 1.0)


def quality_at_length(task: Task, scores: Tensor, target: Tensor, mask: Tensor | None, length: int | None) -> Tensor:
    """The metric of every list. A list longer than `length` is cut into parts of about it, by turns: their mean."""
    parts = max(scores.shape[-1] // length, 1) if length else 1
    cuts = [
        (scores[..., k::parts], target[..., k::parts], None if mask is None else mask[..., k::parts])
        for k in range(parts)
    ]
    return torch.stack([metric(task, *cut, reduction="none") for cut in cuts]).nanmean(0)


class AdaptiveDecay:
    """Sets the weight decay of an optimizer, so that training does not run ahead of held-out rows.

    At times it compares the metric of the training batches with that of rows that were held out. If training is ahead
    by more than `gap`, the weight decay grows, otherwise it shrinks. The held-out rows need no better labels than the
    training rows. It fits every loss, not only those of this library.

    Args:
        optimizer: one with decoupled weight decay, as `torch.optim.AdamW`, or plain SGD. Groups of parameters whose
            weight decay is 0 stay as they are; any other number is replaced.
        held_out: a function that returns scores and target of the held-out rows, and perhaps a mask. It is called
            without a gradient.
        task: the metric that is compared; None: `AveragePrecision()`.
        gap: by how much training may be ahead.
        low: the least weight decay.
        high: the greatest weight decay.
        start: where between `low` and `high` to begin, from 0 to 1, on a scale of their logarithms.
        pace: how far the weight decay moves at a time, on the same scale.
        every: the number of steps from one look at the held-out rows to the next.
        dim: which dimension of scores is the list, in training and of the held-out rows: that of the loss.
        process_group: processes that train one network, so that they agree; None: each decides by itself.

    Call `step` once for each training step, before `optimizer.step()`. With `indexes`, `held_out` returns four parts:
    scores, target, mask or None, indexes. One list, and lists in another dimension than the last, are compared at one
    length: the longer one is cut into parts, because the metric of a short list is another quantity than that of a
    long one. Dropout and batch normalisation should be off for the held-out rows: call `network.eval()` and
    `network.train()` in `held_out`. After a break load network, optimizer and this, by `state_dict`.

    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(60, 20), torch.arange(60) % 3 == 0  # nothing to learn
    >>> network = torch.nn.Sequential(torch.nn.Linear(20, 1), torch.nn.Flatten(0))
    >>> optimizer = torch.optim.AdamW(network.parameters(), lr=0.05, weight_decay=1.0)
    >>> decay = AdaptiveDecay(optimizer, lambda: (network(x[40:]), y[40:]))
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     scores = network(x[:40])
    ...     torch.nn.functional.binary_cross_entropy_with_logits(scores, y[:40].float()).backward()
    ...     _ = decay.step(scores, y[:40])
    ...     optimizer.step()
    >>> print(f"{decay.decay:.1f}")
    7.0
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        held_out: Callable[[], tuple[Tensor, ...]],
        task: Task | None = None,
        *,
        gap: float = GAP,
        low: float = LOW,
        high: float = HIGH,
        start: float = START,
        pace: float = PACE,
        every: int = EVERY,
        dim: int = -1,
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
        self.every, self.dim, self.process_group = every, check_dim(dim), process_group
        self.steps = 0
        self._length: int | None = None
        self._places = check_decayed(optimizer, high)
        self._overfitting = Overfitting(1, gap, low, high, start, pace)
        self._set()

    @property
    def decay(self) -> float:
        """The weight decay now."""
        return self._overfitting.decay.item()

    @torch.no_grad()
    def step(
        self, scores: Tensor, target: Tensor, mask: Tensor | None = None, *, indexes: Tensor | None = None
    ) -> float:
        """Look at a training batch, set the weight decay, and return it."""
        self.steps += 1
        looks = self.steps % self.every == 0
        held = check_held_out(self.held_out()) if looks or self._length is None else None
        if held is not None:
            self._length = held[0].shape[self.dim]
        self._overfitting.trained(self._quality(scores.detach(), target, mask, indexes, self._length))
        if held is not None and looks:
            self._overfitting.look(self._quality(*held, scores.shape[self.dim]), self.process_group)
            if self._overfitting.looks == SILENT:
                self._warn_if_silent()
        self._set()
        return self.decay

    def _quality(
        self, scores: Tensor, target: Tensor, mask: Tensor | None, indexes: Tensor | None, length: int | None
    ) -> Tensor:
        """The mean over lists (1,), at one length where there is one."""
        if indexes is not None:
            return metric(self.task, scores, target, mask, indexes=indexes).reshape(1)
        if self.dim != -1:
            scores, target = scores.movedim(self.dim, -1), target.movedim(self.dim, -1)
            mask = None if mask is None else mask.movedim(self.dim, -1)
        length = length if scores.dim() == 1 or self.dim != -1 else None
        return quality_at_length(self.task, scores, target, mask, length).nanmean().reshape(1)

    def _warn_if_silent(self) -> None:
        now = self._overfitting
        if now.train.isnan().any() or now.held_out.isnan().any():
            who = "training batches" if now.train.isnan().any() else "rows held out"
            warnings.warn(
                f"weight decay cannot follow overfitting: the {who} have no list that counts. Most tasks need a "
                "positive and a negative.",
                TrainingWarning,
                stacklevel=3,
            )

    def _set(self) -> None:
        for place in self._places:  # an optimizer that loads a state gets new groups
            self.optimizer.param_groups[place]["weight_decay"] = self.decay

    def state_dict(self) -> dict[str, Any]:
        """All that changes, to go on after a break."""
        now = self._overfitting
        return {"steps": self.steps, "looks": now.looks} | {name: getattr(now, name).item() for name in STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        check_state(state, ("steps", "looks", *STATE))
        self.steps, self._overfitting.looks = state["steps"], state["looks"]
        for name in STATE:
            setattr(self._overfitting, name, torch.tensor([state[name]], dtype=torch.float64))
        self._set()

    def __repr__(self) -> str:
        now = self._overfitting
        known = {"decay": self.decay, "train": now.train.item(), "held_out": now.held_out.item()}
        return f"AdaptiveDecay({', '.join(f'{k}={v:.2g}' for k, v in known.items() if not math.isnan(v))})"


def _running_mean(before: Tensor, now: Tensor, kept: float) -> Tensor:
    """A running mean of each network; a value that is not a number does not count."""
    now = now.to(before)
    mean = torch.where(before.isnan(), now, kept * before + (1 - kept) * now)
    return mean.where(~now.isnan(), before)


def _mean_of_processes(ahead: Tensor, group: Any, device: torch.device) -> Tensor:
    """The mean over the processes that know; NaN if none does."""
    if group is None:
        return ahead
    known = torch.stack([ahead.nan_to_num(0.0), (~ahead.isnan()).double()]).to(device)
    torch.distributed.all_reduce(known, group=group)
    total, count = known.cpu()
    return torch.where(count > 0, total / count, math.nan)
