"""What a loss says once where something is legal but surely wrong.

A loss looks at its first hundred training steps, and at every tenth of them closely. After that it looks no more.
"""

import warnings
from typing import Any

import numpy as np
from torch import Tensor

from .layout import Arranged

__all__ = ["Advice", "TrainingWarning"]

STEPS, EVERY = 100, 10
EMPTY = 30  # of the steps
TAUGHT = 0.01  # a loss above it should have a gradient


class TrainingWarning(UserWarning):
    """Training will not do what is wanted. It is given once by each loss.

    >>> import warnings
    >>> warnings.filterwarnings("ignore", category=TrainingWarning)  # silences all of them
    >>> warnings.filters.pop(0)[0]
    'ignore'
    """


class Advice:
    """Watches the training steps of one loss."""

    def __init__(self) -> None:
        self.steps = self.looks = self.empty = self.bounded = self.short = self.dead = self.longest = 0

    def watch(self, task: Any, lists: Arranged, values: Tensor, gradient: Tensor, counted: Tensor) -> None:
        """Look at a step, and say what the first hundred were like."""
        if self.steps >= STEPS:
            return
        self.steps += 1
        scores, mask = lists.scores.detach(), lists.mask
        if not counted.any():
            self.empty += 1
        elif self.steps % EVERY == 0 and scores.numel() > 1:
            longest = scores.shape[-1] if lists.groups is None else int(np.diff(lists.groups.starts).max(initial=0))
            self.longest = max(self.longest, longest)
            still = not gradient.any()
            self.looks += 1
            valid = scores if mask is None or mask.shape != scores.shape else scores[mask]
            low, high = valid.aminmax() if valid.numel() else (0.0, 0.0)
            self.bounded += bool(0 <= low < high <= 1)
            self.short += still and isinstance(getattr(task, "k", None), int) and task.k > longest
            self.dead += still and bool((values.detach()[counted] > TAUGHT).any())
        if self.steps == STEPS:
            self._say(task)

    def _say(self, task: Any) -> None:
        several = self.looks >= 3
        if self.empty >= EMPTY:
            _warn(
                f"in {self.empty} of the first {STEPS} steps no list counted, so they taught nothing: most tasks need "
                "a positive and a negative. Make batches larger, or draw them by directloss.PositivesSampler."
            )
        if several and self.bounded == self.looks:
            _warn(
                "all scores of the first steps lie between 0 and 1. If they come from a sigmoid or a softmax, pass the "
                "logits in their place: ε is measured in units of their differences."
            )
        if several and self.short == self.looks:
            _warn(
                f"{task!r} looks at the first {task.k} ranks, but lists have at most {self.longest} items, so that all "
                "rankings are equally good. Lower k."
            )
        if several and self.dead == self.looks:
            _warn(
                f"the loss of {task!r} is above 0, but its gradient was zero in the first steps. Look at "
                "print(directloss.diagnose(task, scores, target)): take an ε near the typical one. If there is none, "
                "the loss is the largest already: begin with a WarmUp, or take NegativeDirect."
            )


def _warn(text: str) -> None:
    warnings.warn(text, TrainingWarning, stacklevel=8)  # the line that calls the loss
