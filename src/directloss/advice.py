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
        self.steps = self.looks = self.empty = self.bounded = self.short = self.dead = 0

    def watch(self, task: Any, lists: Arranged, values: Tensor, gradient: Tensor, counted: Tensor) -> None:
        """Look at a step, and say what the first hundred were like."""
        if self.steps >= STEPS:
            return
        self.steps += 1
        scores = lists.scores.detach()
        longest = scores.shape[-1] if lists.groups is None else int(np.diff(lists.groups.starts).max(initial=0))
        if not counted.any():
            self.empty += 1
        elif self.steps % EVERY == 0 and scores.numel() > 1:
            self.looks += 1
            low, high = scores.aminmax()
            self.bounded += bool(low >= 0 and high <= 1 and high > low)
            self.short += getattr(task, "k", None) is not None and task.k > longest
            self.dead += bool((values.detach()[counted] > TAUGHT).any() and not gradient.any())
        if self.steps == STEPS:
            self._say(task, longest)

    def _say(self, task: Any, longest: int) -> None:
        several = self.looks >= 3
        if self.empty >= EMPTY:
            _warn(
                f"in {self.empty} of the first {STEPS} steps no list had a positive and a negative, so they taught "
                "nothing. Draw batches by directloss.PositivesSampler(target, batch_size), or make them larger."
            )
        if several and self.bounded == self.looks:
            _warn(
                "all scores of the first steps lie between 0 and 1. If they come from a sigmoid or a softmax, pass the "
                "logits in their place: ε is measured in units of their differences."
            )
        if several and self.short == self.looks:
            _warn(f"{task!r} looks at the first {task.k} ranks, but lists have at most {longest} items. Lower k.")
        if several and self.dead == self.looks:
            _warn(
                f"the loss of {task!r} is above 0, but its gradient was zero in the first steps. Look at "
                "print(directloss.diagnose(task, scores, target)), and take an ε near the typical one."
            )


def _warn(text: str) -> None:
    warnings.warn(text, TrainingWarning, stacklevel=8)  # the line that calls the loss
