"""What networks train on: each metric by its direct loss, cross-entropy, and the usual losses of learning to rank.

An objective maps padded lists with scores (networks, lists, items) and strengths (networks,) to one value a network,
the mean over its lists. The strength is tuned beside the step size.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from directloss import NDCG, CentralDirect, PrecisionAtK, Task, falling_k, structured_loss

from .config import METRICS
from .lists import Padded

__all__ = ["DIRECT", "FALLING", "OTHERS", "Objective", "direct", "falling"]

DIRECT = {metric: f"direct {metric}" for metric in METRICS}
"""The method that trains on each metric."""
FALLING = {"NDCG@10": "direct NDCG@10, falling k", "P@k": "direct P@k, falling k"}
"""The same for metrics of few ranks, with a k that falls to that of the metric."""


@dataclass(frozen=True)
class Objective:
    """A loss with a strength for every network, and what the strength is."""

    loss: Callable[[Padded, Tensor], Tensor]
    strength: str


def direct(task: Task, graded: bool = False) -> Objective:
    """The direct loss of a task; its target is the grades, or whether an item is positive."""

    def loss(padded: Padded, strengths: Tensor) -> Tensor:
        target = (padded.grades if graded else padded.target).expand_as(padded.scores)
        epsilon = strengths.unsqueeze(-1).expand(padded.scores.shape[:2])
        mask = padded.mask.expand_as(padded.scores)
        return structured_loss(task, CentralDirect(epsilon), padded.scores, target, mask, "none").mean(-1)

    return Objective(loss, "ε")


def falling(metric: str, end: int, iterations: int) -> Objective:
    """The direct loss of a metric of few ranks, whose k falls from half of the longest list in the first batch.

    It counts its calls, so it serves one training.
    """
    step, start = 0, 0
    graded = metric.startswith("NDCG")

    def loss(padded: Padded, strengths: Tensor) -> Tensor:
        nonlocal step, start
        start = start or max(padded.mask.shape[-1] // 2, 1)
        k = falling_k(step, iterations, start, end)
        step += 1
        return direct(NDCG(k) if graded else PrecisionAtK(k), graded).loss(padded, strengths)

    return Objective(loss, "ε")


def _per_item(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over the valid items of every list, then over lists."""
    return ((values * mask).sum(-1) / mask.sum(-1)).mean(-1)


def _cross_entropy(padded: Padded, strengths: Tensor) -> Tensor:
    target = padded.target.to(padded.scores.dtype).expand_as(padded.scores)
    weights = 1 + (strengths.to(target.dtype)[:, None, None] - 1) * target
    values = nn.functional.binary_cross_entropy_with_logits(padded.scores, target, reduction="none")
    return _per_item(values * weights, padded.mask)


def _gains(grades: Tensor) -> Tensor:
    return 2.0**grades - 1


def _best_first(grades: Tensor, mask: Tensor, k: int) -> Tensor:
    """The highest DCG@k of every list."""
    gains = (_gains(grades) * mask).sort(-1, descending=True).values[:, :k]
    return (gains / torch.log2(torch.arange(gains.shape[1]) + 2.0)).sum(-1)


def _pairs(padded: Padded) -> tuple[Tensor, Tensor, Tensor]:
    """List, first and second item of all pairs of which the first has the higher grade."""
    above = padded.grades.unsqueeze(-1) > padded.grades.unsqueeze(-2)
    above &= padded.mask.unsqueeze(-2)  # the first is not masked: its grade would be 0
    rows, first, second = above.nonzero(as_tuple=True)
    return rows, first, second


def _mean_by_list(values: Tensor, rows: Tensor, lists: int) -> Tensor:
    """The mean over the lists of the means of their pairs; values (networks, pairs)."""
    count = rows.bincount(minlength=lists)
    return (values / count[rows]).sum(-1) / lists


def _ranknet(padded: Padded, strengths: Tensor) -> Tensor:
    """RankNet (Burges et al., 2005): logistic loss of the differences of all pairs, each multiplied by a scale."""
    rows, first, second = _pairs(padded)
    scale = strengths.to(padded.scores.dtype).unsqueeze(-1)
    differences = padded.scores[:, rows, first] - padded.scores[:, rows, second]
    return _mean_by_list(nn.functional.softplus(-scale * differences) / scale, rows, len(padded.mask))


def _lambdarank(padded: Padded, strengths: Tensor, k: int = 10) -> Tensor:
    """RankNet's pairs, each weighted by the change in NDCG@k if its two items changed places (Burges et al., 2006)."""
    rows, first, second = _pairs(padded)
    with torch.no_grad():
        order = padded.scores.masked_fill(~padded.mask, -torch.inf).argsort(dim=-1, descending=True, stable=True)
        ranks = order.argsort(-1)
        discounts = (1 / torch.log2(ranks + 2.0)) * (ranks < k)
        gains = _gains(padded.grades)
        change = (gains[rows, first] - gains[rows, second]) * (discounts[:, rows, first] - discounts[:, rows, second])
        weights = change.abs() / _best_first(padded.grades, padded.mask, k)[rows] * rows.bincount()[rows]
    scale = strengths.to(padded.scores.dtype).unsqueeze(-1)
    differences = padded.scores[:, rows, first] - padded.scores[:, rows, second]
    values = weights * nn.functional.softplus(-scale * differences) / scale
    return _mean_by_list(values, rows, len(padded.mask))


def _listnet(padded: Padded, strengths: Tensor) -> Tensor:
    """Cross-entropy of top-one probabilities (Cao et al., 2007); the strength divides the grades."""
    grades = padded.grades / strengths.to(padded.scores.dtype)[:, None, None]
    wanted = grades.masked_fill(~padded.mask, -torch.inf).softmax(-1)
    found = padded.scores.masked_fill(~padded.mask, -torch.inf).log_softmax(-1).masked_fill(~padded.mask, 0.0)
    return -(wanted * found).sum(-1).mean(-1)


def _approx_ndcg(padded: Padded, strengths: Tensor) -> Tensor:
    """ApproxNDCG (Qin, Liu and Li, 2010): NDCG of ranks that are sums of sigmoids; the strength is the temperature."""
    with_gain = (padded.grades > 0).unsqueeze(-1) & padded.mask.unsqueeze(-2)
    rows, first, second = with_gain.nonzero(as_tuple=True)
    temperature = strengths.to(padded.scores.dtype).unsqueeze(-1)
    above = torch.sigmoid((padded.scores[:, rows, second] - padded.scores[:, rows, first]) / temperature)
    flat = rows * padded.mask.shape[1] + first
    ranks = above.new_full((len(above), padded.mask.numel()), 0.5).index_add(1, flat, above)  # above itself by a half
    gains = _gains(padded.grades) * padded.mask
    found = (gains / torch.log2(1 + ranks.view_as(padded.scores))).sum(-1)
    return 1 - (found / _best_first(padded.grades, padded.mask, padded.mask.shape[1])).mean(-1)


OTHERS: dict[str, Objective] = {
    "BCE": Objective(_cross_entropy, "weight of positives"),
    "RankNet": Objective(_ranknet, "scale"),
    "ListNet": Objective(_listnet, "temperature"),
    "LambdaRank": Objective(_lambdarank, "scale"),
    "ApproxNDCG": Objective(_approx_ndcg, "temperature"),
}
"""Losses that are no direct loss."""
