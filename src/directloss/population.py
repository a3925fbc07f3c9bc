"""Small networks that train side by side on folds of the rows of a table, so that the rows held out can choose one.

A member is an architecture with a step size and a weight decay. Each member has one network for each fold, which trains
on all other rows. What a member is worth is the mean over folds of the task's metric on the rows held out. Members
of one architecture are one batched network: their step is one matrix product, one loss, one step of AdamW.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from .adaptive_decay import GAP, HIGH, LOW, PACE, START, Overfitting, quality_at_length
from .loss import StructuredLoss
from .metric import metric

__all__ = ["MOST_LISTS", "Candidate", "Mean", "Member", "Population", "batches", "linear", "steps_of"]

MOST_LISTS = 4  # of the length of a batch: rows held out that decay looks at if it follows overfitting


class Member(NamedTuple):
    """What distinguishes networks of one fold."""

    hidden: tuple[int, ...]
    learning_rate: float
    weight_decay: float | str
    """A number, or "adaptive": it follows overfitting."""


class Candidate(NamedTuple):
    """A member after some epochs, and the mean over folds of its metric on rows held out."""

    hidden: tuple[int, ...]
    weight_decay: float | str
    epochs: float
    quality: float


class Mean(nn.Module):
    """The mean of the scores of several networks."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, inputs: Tensor) -> Tensor:
        """Score rows (rows, features)."""
        return torch.stack([network(inputs) for network in self.networks]).mean(0)


class Population:
    """Networks of some members, one for each fold, and how they train.

    Args:
        members: those of one architecture stand together.
        features: columns of a row.
        folds: networks of a member.
        loss: with `reduction="none"`.
        average: the model is the mean of the weights after about so many last steps.
        generator: draws the first weights; members of one architecture share them.
        device: where they train.
    """

    def __init__(
        self,
        members: Sequence[Member],
        features: int,
        folds: int,
        loss: StructuredLoss,
        average: int,
        generator: torch.Generator,
        device: torch.device | str,
    ) -> None:
        self.members, self.folds, self.loss = list(members), folds, loss
        self.stacks = [
            _Stack(hidden, list(some), features, folds, average, generator, device)
            for hidden, some in groupby(members, key=lambda member: member.hidden)
        ]
        self.steps = 0

    @torch.no_grad()
    def load(self, networks: Sequence[nn.Module]) -> None:
        """Begin the networks of the first architecture with these, fold by fold and there member by member."""
        stack = self.stacks[0]
        for place, some in enumerate(zip(*(one.parameters() for one in networks), strict=True)):
            stacked = torch.stack(some).to(stack.means[place])
            for weights in (stack.weights[place], stack.means[place]):
                weights.copy_(stacked.view_as(weights))

    def step(self, inputs: Tensor, target: Tensor, warm: bool) -> float:
        """Train on a batch of every fold: inputs (folds, rows, features), target (folds, rows). Return the mean loss.

        With `warm` the loss is cross-entropy that gives both classes the same weight. Raises a FloatingPointError if
        no network has finite scores any more.
        """
        self.steps += 1
        values = torch.cat([stack.step(inputs, target, None if warm else self.loss) for stack in self.stacks])
        if not values.isfinite().any():
            raise FloatingPointError
        return values.nanmean().item()

    def forget(self) -> None:
        """Forget the moments of AdamW: the gradients of a warm-up are of another size."""
        for stack in self.stacks:
            stack.forget()

    def look(self, inputs: Tensor, target: Tensor, length: int) -> None:
        """Let weight decay follow overfitting; inputs and target of rows held out are compared at this length."""
        for stack in self.stacks:
            stack.look(inputs, target, self.loss, length)

    @torch.no_grad()
    def qualities(self, inputs: Tensor, target: Tensor) -> list[tuple[Member, float]]:
        """What every member is worth on the rows held out of each fold: inputs (folds, rows, features)."""
        parts: list[float] = []
        for stack in self.stacks:
            scores = stack.scores(inputs)
            values = metric(self.loss.task, scores.nan_to_num(0.0, 0.0, 0.0), stack.spread(target), reduction="none")
            values = values.where(scores.isfinite().all(1), -math.inf)
            parts += values.view(self.folds, -1).nanmean(0).tolist()
        return list(zip(self.members, parts, strict=True))

    @torch.no_grad()
    def network(self, member: int, inputs: Tensor | None = None) -> tuple[nn.Module, Tensor]:
        """The networks of a member as one module, with averaged weights; and the scores of rows held out, by fold.

        Scores of each fold are brought to mean 0 and standard deviation 1 on its rows held out: their inputs.
        """
        for stack in self.stacks:
            if member < len(stack.members):
                return stack.network(member, inputs)
            member -= len(stack.members)
        raise IndexError(member)


class _Stack:
    """The networks of the members of one architecture: network f·members + m is that of fold f and member m."""

    def __init__(
        self,
        hidden: tuple[int, ...],
        members: list[Member],
        features: int,
        folds: int,
        average: int,
        generator: torch.Generator,
        device: torch.device | str,
    ) -> None:
        self.members, self.folds, self.average = members, folds, average
        self.widths = list(pairwise([features, *hidden, 1]))
        count = folds * len(members)
        self.weights: list[Tensor] = []
        for inputs, outputs in self.widths:
            for shape in ((outputs, inputs), (outputs, 1)):
                drawn = torch.empty(shape, device="cpu", dtype=torch.float32)
                drawn.uniform_(-(inputs**-0.5), inputs**-0.5, generator=generator)
                self.weights.append(drawn.to(device).repeat(count, 1, 1).requires_grad_())
        self.means = [weight.detach().clone() for weight in self.weights]
        self.firsts, self.seconds = ([torch.zeros_like(weight) for weight in self.means] for _ in range(2))
        self.rates = self._of_each([member.learning_rate for member in members])
        self.decays = self._of_each(
            [0.0 if member.weight_decay == "adaptive" else float(member.weight_decay) for member in members]
        )
        self.follows = [member.weight_decay == "adaptive" for member in members] * folds
        self.overfitting = Overfitting(count, GAP, LOW, HIGH, START, PACE)
        self.steps = self.moments = 0
        if any(self.follows):
            self._set_decay()

    def _of_each(self, values: list[float]) -> Tensor:
        return torch.tensor(values * self.folds, device=self.means[0].device, dtype=torch.float32)[:, None, None]

    def spread(self, target: Tensor) -> Tensor:
        """The target of each network, from that of each fold."""
        return target.repeat_interleave(len(self.members), 0)

    def step(self, inputs: Tensor, target: Tensor, loss: StructuredLoss | None) -> Tensor:
        with torch.enable_grad():
            scores = self._forward(self.weights, inputs)
            finite = scores.detach().isfinite().all(1)
            seen, target = scores.where(finite[:, None], 0.0), self.spread(target)
            values = _balanced_cross_entropy(seen, target) if loss is None else loss(seen, target)
            gradients = torch.autograd.grad(values.sum(), self.weights)
        with torch.no_grad():
            if loss is not None and any(self.follows):
                self.overfitting.trained(metric(loss.task, seen.detach(), target, reduction="none"))
            self._adamw(gradients, finite[:, None, None])
        return values.detach().where(finite, math.nan)

    def _adamw(self, gradients: Sequence[Tensor], finite: Tensor) -> None:
        """One step, and one of the mean weights: the plain mean at first, so that a few steps count too."""
        self.steps += 1
        self.moments += 1
        shares = 1 - 0.9**self.moments, 1 - 0.999**self.moments
        parts = zip(self.weights, self.means, gradients, self.firsts, self.seconds, strict=True)
        for place, (weight, mean, gradient, first, second) in enumerate(parts):
            first.lerp_(gradient, 0.1)
            second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            move = (first / shares[0]) / ((second / shares[1]).sqrt_() + 1e-8)
            if place % 2 == 0:  # biases do not decay
                move += self.decays * weight
            weight.sub_((self.rates * move).where(finite, 0.0))
            mean.lerp_(weight, 1 / min(self.steps, self.average))

    def forget(self) -> None:
        self.moments = 0
        for moment in (*self.firsts, *self.seconds):
            moment.zero_()

    @torch.no_grad()
    def look(self, inputs: Tensor, target: Tensor, loss: StructuredLoss, length: int) -> None:
        if any(self.follows):
            scores = self._forward(self.weights, inputs).nan_to_num(0.0, 0.0, 0.0)
            self.overfitting.look(quality_at_length(loss.task, scores, self.spread(target), None, length))
            self._set_decay()

    def _set_decay(self) -> None:
        follows = torch.tensor(self.follows, device=self.decays.device)
        decays = self.overfitting.decay.to(self.decays)
        self.decays = torch.where(follows, decays, self.decays[:, 0, 0])[:, None, None]

    def scores(self, inputs: Tensor) -> Tensor:
        """By averaged weights: (networks, rows)."""
        return self._forward(self.means, inputs)

    def _forward(self, weights: Sequence[Tensor], inputs: Tensor) -> Tensor:
        """From inputs (folds, rows, features) to scores (networks, rows)."""
        count, outputs = len(weights[0]), weights[0].shape[1]
        hidden = weights[0].reshape(self.folds, -1, weights[0].shape[2]) @ inputs.transpose(1, 2)
        hidden = hidden.view(count, outputs, -1) + weights[1]
        for weight, bias in zip(weights[2::2], weights[3::2], strict=True):
            hidden = torch.baddbmm(bias, weight, hidden.relu())
        return hidden.squeeze(1)

    def network(self, member: int, inputs: Tensor | None) -> tuple[nn.Module, Tensor]:
        places, scores = list(range(member, len(self.means[0]), len(self.members))), torch.empty(0)
        weights = [mean[places].clone() for mean in self.means]
        if inputs is not None:
            scores = self.scores(inputs)[places]
            mean, spread = scores.mean(1, keepdim=True), scores.std(1, correction=0, keepdim=True)
            spread = spread.where(spread > 0, 1.0)
            weights[-2], weights[-1] = (one / spread[:, None] for one in (weights[-2], weights[-1] - mean[:, None]))
            scores = (scores - mean) / spread
        if len(self.widths) == 1:  # the mean of linear models is a linear model
            weights = [weight.mean(0, keepdim=True) for weight in weights]
        networks = [self._one([weight[k] for weight in weights]) for k in range(len(weights[0]))]
        return networks[0] if len(networks) == 1 else Mean(networks), scores

    def _one(self, weights: list[Tensor]) -> nn.Sequential:
        layers: list[nn.Module] = []
        for weight, bias in zip(weights[::2], weights[1::2], strict=True):
            layers += [linear(weight, bias.squeeze(1)), nn.ReLU()]
        return nn.Sequential(*layers[:-1], nn.Flatten(0))


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A layer with these weights."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta", dtype=torch.float32).to_empty(device="cpu")
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


def _balanced_cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each network that gives both classes the same weight; every batch has both."""
    labels = target.to(scores.dtype)
    ratio = (1 - labels).sum(1, keepdim=True) / labels.sum(1, keepdim=True)
    return binary_cross_entropy_with_logits(scores, labels, pos_weight=ratio, reduction="none").mean(1)


def batches(classes: Sequence[Sequence[Tensor]], size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches without end, one row a fold (folds, rows): `classes` has the rows of both classes of every fold.

    Every batch has its share of both classes, at least one row of each. All rows of a fold come once in an epoch, but
    for a rest that is left out; a class of fewer rows than an epoch has batches repeats them.
    """
    steps = steps_of(classes, size)
    shares = [max(1, min(len(fold[k]) for fold in classes) // steps) for k in (0, 1)]
    while True:
        parts = []
        for fold in classes:
            drawn = [_repeated(rows, steps * share, generator) for rows, share in zip(fold, shares, strict=True)]
            parts.append(torch.cat([some.view(steps, -1) for some in drawn], 1))
        yield from torch.stack(parts, 1)


def steps_of(classes: Sequence[Sequence[Tensor]], size: int) -> int:
    """Batches of an epoch."""
    return math.ceil(min(sum(map(len, fold)) for fold in classes) / size)


def _repeated(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """So many rows, in random order, all of them before one comes again."""
    passes = math.ceil(count / len(rows))
    orders = [rows[torch.randperm(len(rows), generator=generator, device="cpu")] for _ in range(passes)]
    return torch.cat(orders)[:count]
