"""What an ε does to given scores: which items get a gradient, how large it is, how near values are to the metric."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .checks import check_epsilons, check_is_task, check_layout, check_tensors
from .task import Task
from .testing import typical_epsilon
from .update import NegativeDirect, PositiveDirect

__all__ = ["Diagnosis", "diagnose"]

EPSILONS = tuple(10.0 ** (k / 2) for k in range(-6, 7))


class Diagnosis(NamedTuple):
    """What `diagnose` returns: one number for each ε, as means over the lists that count.

    >>> from directloss import AveragePrecision
    >>> scores, target = torch.tensor([3.0, 2.0, 1.0]), torch.tensor([0, 1, 0])
    >>> diagnosis = diagnose(AveragePrecision(), scores, target, epsilons=(0.1, 9.0))
    >>> diagnosis.loss, diagnosis.share
    (0.5, tensor([0.0000, 0.6667], dtype=torch.float64))
    """

    epsilons: Tensor
    loss: float
    """The task loss of the prediction, 1 − the metric."""
    negative: Tensor
    """The value of the negative update: at most the loss."""
    positive: Tensor
    """The value of the positive update: at least the loss."""
    share: Tensor
    """The share of items that the positive update gives a gradient."""
    norm: Tensor
    """The norm of the positive update's gradient on the scores of a list."""
    typical: float
    """The ε at which half of the possible loss is reached, the median over lists; see `typical_epsilon`."""

    def __str__(self) -> str:
        lines = [f"task loss {self.loss:.3f}, typical ε {self.typical:.2g}", "     ε  negative  positive  share  norm"]
        for row in zip(self.epsilons, self.negative, self.positive, self.share, self.norm, strict=True):
            epsilon, negative, positive, share, norm = (value.item() for value in row)
            lines.append(f"{epsilon:6.3g}  {negative:8.3f}  {positive:8.3f}  {share:5.0%}  {norm:.2g}")
        return "\n".join(lines)

    def plot(self) -> Any:
        """A figure of the values, the share and the norm against ε; needs matplotlib."""
        plt = import_module("matplotlib.pyplot")

        figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(6, 5), layout="constrained")
        above.fill_between(self.epsilons, self.negative, self.positive, alpha=0.3, label="negative to positive value")
        above.axhline(self.loss, color="black", linewidth=1, label="task loss of the prediction")
        above.axvline(self.typical, color="grey", linestyle=":", label="typical ε")
        above.set(xscale="log", ylabel="loss", ylim=(0, 1))
        above.legend(frameon=False)
        below.plot(self.epsilons, self.share, "o-", label="share of items with a gradient")
        norm = self.norm / self.norm.max().clamp(min=1e-30)
        below.plot(self.epsilons, norm, "s--", label="norm of the gradient, over its largest")
        below.set(xlabel="ε", ylim=(0, 1.05))
        below.legend(frameon=False)
        return figure


def diagnose(
    task: Task, scores: Tensor, target: Tensor, epsilons: float | Sequence[float] = EPSILONS, mask: Tensor | None = None
) -> Diagnosis:
    """What each ε does to these scores: print the result, or look at its `plot`.

    Args:
        task: e.g. `AveragePrecision()`.
        scores: (..., items), for example of the validation set.
        target: (..., items), what the task takes.
        epsilons: which ε to try, one or several.
        mask: (..., items), True where an item is valid.

    Returns a `Diagnosis`, which says what the columns mean.

    >>> from directloss import AveragePrecision
    >>> scores, target = torch.linspace(2, -2, 100), torch.arange(100) % 7 == 0
    >>> print(diagnose(AveragePrecision(), scores, target, epsilons=(0.01, 1.0, 100.0)))
    task loss 0.775, typical ε 0.43
         ε  negative  positive  share  norm
      0.01     0.775     0.802     2%  0.22
         1     0.571     0.844    62%  0.028
       100     0.014     0.904   100%  0.0027
    """
    check_is_task(task)
    check_tensors(scores, target, mask)
    check_layout(task, scores, target, mask)
    epsilons = check_epsilons(epsilons)
    scores = scores.detach()
    predicted = task.infer(scores, target, mask)
    counted = predicted.counted
    if counted is None or not counted.any():
        raise ValueError(
            "no list counts, so there is nothing to measure: a list of 0 and 1 needs a positive and a negative. Pass "
            "more items."
        )
    event = tuple(range(-task.event_dims, 0))
    valid = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)

    def mean(values: Tensor) -> Tensor:
        return values.double()[counted].mean()

    rows = []
    for epsilon in epsilons:
        up = task.contrast(scores, target, PositiveDirect(epsilon).spec, mask)
        down = task.contrast(scores, target, NegativeDirect(epsilon).spec, mask)
        reached = (up.gradient != 0).sum(event) / valid.sum(event).clamp(min=1)
        norm = up.gradient.double().pow(2).sum(event).sqrt()
        rows.append(torch.stack([mean(part) for part in (down.value, up.value, reached, norm)]))
    negative, positive, share, norm = torch.stack(rows, 1)
    loss = mean(predicted.loss).item()
    typical = typical_epsilon(task, scores, target, mask)[counted].nanmedian().item()
    return Diagnosis(torch.tensor(epsilons, device=scores.device), loss, negative, positive, share, norm, typical)
