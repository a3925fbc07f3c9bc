"""What networks train on: the usual losses, losses for noisy labels, losses on rankings, and direct losses.

An objective is made once for a training, from what is known about it. It is then called with every step: scores of its
networks on one batch, and the labels of that batch. It returns one value a network. A network is a setting. The
strength is what a method tunes beside the step size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from directloss import ROCAUC, AveragePrecision, CentralDirect, Hinge, PositiveDirect, Task, Update, structured_loss

from ..methods import generalised_cross_entropy

__all__ = ["DIRECT", "METHODS", "ORACLES", "WARM", "Facts", "Method", "Objective", "Step"]


class Facts(NamedTuple):
    """What is known about a training."""

    rows: int
    """Of the training data."""
    share: float
    """Of its labels that are positive."""
    missed: float
    """The share of positive rows with a wrong label; only oracles use it."""
    invented: float
    """The share of negative rows with a wrong label; only oracles use it."""
    flipped: float
    """The share of all rows with a wrong label; only oracles use it."""
    warm_up: int
    """The number of first steps with cross-entropy, where a method has them."""


class Step(NamedTuple):
    """One batch."""

    scores: Tensor
    """(networks, items)"""
    target: Tensor
    """(items,): whether an item is labelled positive."""
    items: Tensor
    """(items,): their rows in the training data."""
    strengths: Tensor
    """(networks,)"""
    number: int
    """Of the step, from 0 on."""
    warm: Tensor
    """(networks,): whether a network warms up."""
    scaled: Tensor
    """(networks,): whether its strength is scaled."""

    @property
    def labels(self) -> Tensor:
        """The target as 0.0 and 1.0."""
        return self.target.to(self.scores.dtype)

    @property
    def column(self) -> Tensor:
        """The strengths as a column of the scores' type."""
        return self.strengths.to(self.scores.dtype).unsqueeze(1)


Objective = Callable[[Step], Tensor]
Maker = Callable[[Facts], Objective]


@dataclass(frozen=True)
class Method:
    """How an objective is made, what its strength is, the default, and what is tried when it is tuned."""

    make: Maker
    strength: str | None = None
    default: float = 1.0
    tried: tuple[float, ...] = ()
    networks: int = 1
    """That train for one setting; the first one is measured."""
    positives: float | None = None
    """The share of positives in its batches, if it draws its own."""
    warm: bool = False
    """Whether it begins with cross-entropy."""
    scaled: bool = False
    """Whether its strength is multiplied by the share of positives in a batch."""


def _entropies(step: Step, labels: Tensor | None = None) -> Tensor:
    """Cross-entropy of every item."""
    wanted = (step.labels if labels is None else labels).expand_as(step.scores)
    return nn.functional.binary_cross_entropy_with_logits(step.scores, wanted, reduction="none")


def _cross_entropy(step: Step) -> Tensor:
    return _entropies(step).mean(1)


def _weighted(facts: Facts) -> Objective:
    """Both classes weigh as much, to the power of the strength."""
    ratio = (1 - facts.share) / facts.share

    def loss(step: Step) -> Tensor:
        weights = 1 + (ratio**step.column - 1) * step.labels
        return (_entropies(step) * weights).mean(1)

    return loss


def _focal(step: Step) -> Tensor:
    """Focal loss (Lin et al., 2017), α = 1/4; the strength is γ."""
    entropies = _entropies(step)
    right = torch.exp(-entropies)
    return ((0.75 - 0.5 * step.labels) * (1 - right) ** step.column * entropies).mean(1)


def _label_smoothing(step: Step) -> Tensor:
    return _entropies(step, step.labels * (1 - step.column) + step.column / 2).mean(1)


def _generalised(step: Step) -> Tensor:
    """GCE; the strength is q."""
    return generalised_cross_entropy(step.scores, step.target, step.strengths)


def _symmetric(step: Step) -> Tensor:
    """Symmetric cross-entropy (Wang et al., 2019), log 0 = −4; the strength weighs the usual direction."""
    entropies = _entropies(step)
    return (step.column * entropies + 4 * (1 - torch.exp(-entropies))).mean(1)


def _forward(facts: Facts) -> Objective:
    """Forward correction (Patrini et al., 2017): the probability of the label that is seen. It knows the noise."""

    def loss(step: Step) -> Tensor:
        p = step.scores.sigmoid()
        seen = (p * (1 - facts.missed) + (1 - p) * facts.invented).clamp(1e-6, 1 - 1e-6)
        return -torch.where(step.target, seen.log(), (1 - seen).log()).mean(1)

    return loss


def _early_learning(facts: Facts) -> Objective:
    """ELR (Liu et al., 2020): predictions keep near a running mean of themselves; the strength is λ, β = 0.7."""
    means: list[Tensor] = []

    def loss(step: Step) -> Tensor:
        if not means:
            means.extend(step.scores.new_zeros(2, len(step.scores), facts.rows))
        p = step.scores.sigmoid().clamp(1e-4, 1 - 1e-4)
        agreement = torch.zeros_like(p)
        for mean, probability in zip(means, (1 - p, p), strict=True):
            mean[:, step.items] = 0.7 * mean[:, step.items] + 0.3 * probability.detach()
            agreement = agreement + mean[:, step.items] * probability
        return (_entropies(step) + step.column * torch.log1p(-agreement)).mean(1)

    return loss


def _co_teaching(facts: Facts) -> Objective:
    """Co-teaching (Han et al., 2018): each of two networks learns from the items on which the other has a small loss.

    The share that is left out grows to the share of flipped labels, which it knows, times the strength.
    """

    def loss(step: Step) -> Tensor:
        entropies = _entropies(step)
        half = len(entropies) // 2
        grown = min(1.0, (step.number + 1) / max(facts.warm_up, 1))
        kept = 1 - (step.strengths[:half] * facts.flipped * grown).clamp(max=0.9)
        count = (kept * step.scores.shape[1]).ceil().long().repeat(2).unsqueeze(1)
        small = entropies.detach().argsort(dim=1).argsort(dim=1) < count
        peers = small.roll(half, 0).to(entropies.dtype)
        return (entropies * peers).sum(1) / count.squeeze(1)

    return loss


def _pairs(step: Step) -> Tensor:
    """Differences (networks, positives, negatives)."""
    positives, negatives = step.scores[:, step.target], step.scores[:, ~step.target]
    return positives.unsqueeze(2) - negatives.unsqueeze(1)


def _pairwise_logistic(step: Step) -> Tensor:
    scale = step.column.unsqueeze(2)
    return (nn.functional.softplus(-scale * _pairs(step)) / scale).mean((1, 2))


def _pairwise_sigmoid(step: Step) -> Tensor:
    return torch.sigmoid(-step.column.unsqueeze(2) * _pairs(step)).mean((1, 2))


def _smooth_ap(step: Step) -> Tensor:
    """Smooth-AP (Brown et al., 2020): ranks are sums of sigmoids; the strength is the temperature."""
    above = step.scores.unsqueeze(1) - step.scores[:, step.target].unsqueeze(2)
    above = torch.sigmoid(above / step.column.unsqueeze(2))
    rank, among = above.sum(2), above[:, :, step.target].sum(2)
    return 1 - ((among + 0.5) / (rank + 0.5)).mean(1)  # an item is above itself by sigmoid(0)


def _soap(facts: Facts) -> Objective:
    """SOAP (Qi et al., 2021) as in LibAUC's APLoss: sigmoids of scores, squared hinge, running means of both sums.

    The strength is the margin; γ = 0.9. Half of a batch is positive, as with LibAUC's sampler.
    """
    means: list[Tensor] = []

    def loss(step: Step) -> Tensor:
        if not means:
            means.extend(step.scores.new_zeros(2, len(step.scores), facts.rows))
        p = step.scores.sigmoid()
        differences = step.column.unsqueeze(2) - (p[:, step.target].unsqueeze(2) - p.unsqueeze(1))
        surrogate = differences.clamp(min=0) ** 2
        labels, places = step.labels, step.items[step.target]
        with torch.no_grad():
            for mean, now in zip(means, (surrogate.mean(2), (surrogate * labels).mean(2)), strict=True):
                mean[:, places] = 0.1 * mean[:, places] + 0.9 * now
            everything, positive = (mean[:, places].unsqueeze(2) for mean in means)
            weights = (positive - everything * labels) / everything.clamp(min=1e-12) ** 2
        return (weights * surrogate).mean((1, 2))

    return loss


def _direct(task: Task, update: Callable[[Tensor], Update]) -> Maker:
    """A direct loss or hinge on the batch as one list; the strength is ε or the margin, times P/M where scaled."""

    def make(facts: Facts) -> Objective:
        def loss(step: Step) -> Tensor:
            strengths = step.strengths * torch.where(step.scaled, step.target.double().mean(), 1.0)
            target = step.target.expand_as(step.scores)
            values = structured_loss(task, update(strengths), step.scores, target, reduction="none")
            return values if step.number >= facts.warm_up else torch.where(step.warm, _cross_entropy(step), values)

        return loss

    return make


EPSILONS = (0.1, 1.0, 10.0)


def _always(objective: Objective) -> Maker:
    return lambda facts: objective


def _directs() -> dict[str, Method]:
    kinds: Sequence[tuple[str, Task, Callable[[Tensor], Update], str]] = (
        ("hinge-AP", AveragePrecision(), Hinge, "margin"),
        ("pos-AP", AveragePrecision(), PositiveDirect, "ε"),
        ("central-AP", AveragePrecision(), CentralDirect, "ε"),
        ("pos-AUC", ROCAUC(), PositiveDirect, "ε"),
    )
    found = {}
    for name, task, update, strength in kinds:
        plain = Method(_direct(task, update), strength, 1.0, EPSILONS)
        found[name], found[WARM + name] = plain, replace(plain, warm=True)
        if name == "pos-AP":
            scaled = replace(plain, strength="ε·M/P", default=4.0, tried=(1.0, 4.0, 16.0), warm=True, scaled=True)
            found[f"{WARM}pos-AP, ε = 4P/M"] = scaled
    return found


WARM = "x-ent → "
"""How the names of methods begin that warm up by cross-entropy."""
DIRECT = _directs()
"""Losses of this library."""
METHODS: dict[str, Method] = {
    "x-ent": Method(_always(_cross_entropy)),
    "weighted x-ent": Method(_weighted, "power of the weight", 1.0, (0.25, 0.5, 1.0)),
    "focal": Method(_always(_focal), "γ", 2.0, (0.5, 2.0, 5.0)),
    "label smoothing": Method(_always(_label_smoothing), "share", 0.1, (0.05, 0.1, 0.3)),
    "GCE": Method(_always(_generalised), "q", 0.7, (0.3, 0.7, 1.0)),
    "symmetric x-ent": Method(_always(_symmetric), "weight of x-ent", 0.1, (0.1, 1.0, 6.0)),
    "forward (oracle)": Method(_forward),
    "ELR": Method(_early_learning, "λ", 3.0, (1.0, 3.0, 7.0)),
    "co-teaching (oracle)": Method(_co_teaching, "share of the noise", 1.0, (0.5, 1.0, 1.5), networks=2),
    "pairwise logistic": Method(_always(_pairwise_logistic), "scale", 1.0, (0.1, 1.0, 10.0)),
    "pairwise sigmoid": Method(_always(_pairwise_sigmoid), "scale", 1.0, (0.1, 1.0, 10.0)),
    "Smooth-AP": Method(_always(_smooth_ap), "temperature", 1.0, (0.1, 1.0, 10.0)),
    "SOAP": Method(_soap, "margin", 1.0, (0.3, 1.0, 3.0), positives=0.5),
    **DIRECT,
}
"""All methods, by name."""
ORACLES = tuple(name for name in METHODS if name.endswith("(oracle)"))
"""Methods that know the rate of the noise."""
