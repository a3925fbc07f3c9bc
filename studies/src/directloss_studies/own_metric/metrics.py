"""What is measured: every metric of padded lists, one number a network, the mean over lists."""

from collections.abc import Mapping

import torch
from torch import Tensor

from directloss import NDCG, PrecisionAtK, Task

from .config import AT_ZERO
from .lists import Padded

__all__ = ["measure"]

THRESHOLDS = 100


def measure(validation: Padded, test: Padded, tasks: Mapping[str, Task]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Every metric on validation and on test data.

    F1 takes the threshold that is best on validation data, one for all lists; "F1 at 0" takes 0. A network whose scores
    are no longer finite gets 0.
    """
    finite = validation.scores.isfinite().all((1, 2)) & test.scores.isfinite().all((1, 2))
    validation, test = (
        each._replace(scores=each.scores.where(finite[:, None, None], 0.0)) for each in (validation, test)
    )
    threshold = _threshold(validation)

    def values(padded: Padded) -> dict[str, Tensor]:
        found = {name: _value(task, padded) for name, task in tasks.items()}
        found |= {"F1": _f1(padded, threshold), AT_ZERO: _f1(padded, torch.zeros_like(threshold))}
        return {name: value.double().where(finite, 0.0) for name, value in found.items()}

    return values(validation), values(test)


def _value(task: Task, padded: Padded) -> Tensor:
    target = (padded.grades if isinstance(task, NDCG) else padded.target).expand_as(padded.scores)
    loss = task.infer(padded.scores, target, padded.mask.expand_as(padded.scores)).loss
    best = 1.0
    if isinstance(task, PrecisionAtK):  # its loss is the distance to the best precision that there is
        best = padded.target.sum(-1).clamp(max=task.k) / task.k
    return (best - loss).mean(-1)


def _threshold(padded: Padded) -> Tensor:
    """For every network the score with the highest F1 among those of positives, or among a hundred of these.

    Between the scores of two positives F1 is highest at the upper one, so no other thresholds need to be tried.
    """
    positives = padded.scores[:, padded.target].sort(-1).values
    places = torch.linspace(0, positives.shape[1] - 1, min(THRESHOLDS, positives.shape[1])).round().long()
    candidates = positives[:, places]
    values = torch.stack([_f1(padded, threshold) for threshold in candidates.T], dim=1)
    return candidates.gather(1, values.argmax(1, keepdim=True)).squeeze(1)


def _f1(padded: Padded, threshold: Tensor) -> Tensor:
    selected = (padded.scores >= threshold[:, None, None]) & padded.mask
    right = (selected & padded.target).sum(-1)
    return (2 * right / (selected.sum(-1) + padded.target.sum(-1))).mean(-1)
