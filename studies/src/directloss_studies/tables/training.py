"""Networks of many methods and settings that train side by side on the same batches."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from directloss import AdaptiveDecay

from ..networks import Heads, Networks
from ..sweep import Setting
from ..trainers import OPTIMIZERS, passes, stratified
from .objectives import METHODS, Facts, Objective, Step

__all__ = ["Rows", "train"]

HIDDEN = (64, 64)


class Rows(NamedTuple):
    """Data: inputs (rows, columns), target (rows,), the list of every row, and labels people gave, if there are any."""

    inputs: Tensor
    target: Tensor
    lists: Tensor | None = None
    given: Tensor | None = None
    """(rows, sets of labels)."""


class _Part(NamedTuple):
    """Networks whose loss is one call: those of one method, or of methods that differ in options only."""

    loss: Objective
    rows: slice
    measured: dict[str, slice]


def _batches(data: Rows, size: int, positives: float | None, generator: torch.Generator) -> Iterator[Tensor]:
    """Rows of every step: a whole list; or a random part of a table, with a share of positives if one is given."""
    if data.lists is not None:
        places = [torch.nonzero(data.lists == number).squeeze(1) for number in data.lists.unique()]
        for number in passes(len(places), 1, generator):
            yield places[0 if number is None else int(number)]
    elif positives is not None:
        yield from stratified(data.target, min(size, len(data.target)), positives, generator)
    for items in passes(len(data.target), size, generator):
        yield torch.arange(len(data.target)) if items is None else items


def train(
    data: Rows,
    methods: dict[str, tuple[Setting, ...]],
    facts: Facts,
    *,
    batch: int,
    moments: Sequence[int],
    seed: int,
    record: Callable[[str, Callable[[Tensor], Tensor]], None],
    callback: Callable[[int], object] = lambda step: None,
    average: float = 1.0,
    held_out: Rows | None = None,
) -> dict[str, float]:
    """Train a network for every method and setting, to the last of the moments; return seconds a training by method.

    All begin with the same weights and see the same batches, except methods that draw their own. At every moment
    `record` is called for each method with what scores inputs: (items, columns) to (settings, items). A network whose
    scores are no longer finite stays as it is. The time of the networks is shared out among them; that of a loss is
    its own. Networks are measured with averaged weights, whose newest ones count for the share `average`, or more in
    the first steps: 1 is no average. With `held_out` the weight decay of every network follows its overfitting.
    """
    shares = {METHODS[name].positives for name in methods} if data.lists is None else {None}
    seconds: dict[str, float] = {}
    done = 0
    for share in sorted(shares, key=str):
        mine = {n: s for n, s in methods.items() if len(shares) == 1 or METHODS[n].positives == share}
        generator = torch.Generator().manual_seed(seed)
        group = _Group(data, mine, facts, _batches(data, batch, share, generator), seed, average, held_out)
        for number in range(moments[-1]):
            group.step(number)
            if number + 1 in moments:
                for name, model in group.models():
                    record(name, model)
            done += 1
            callback(done // len(shares))
        seconds |= group.seconds()
    return seconds


class _Adaptive:
    """The library's `AdaptiveDecay` for each of several networks; each has an optimizer that only holds its decay."""

    def __init__(self, networks: Networks, held_out: Rows) -> None:
        self.networks, self.rows = networks, held_out
        self.places = None if held_out.lists is None else _padded(held_out.lists)
        self.scores: Tensor | None = None
        count = len(networks.weights)
        holders = [torch.optim.AdamW([torch.zeros(1)], lr=0.0, weight_decay=1.0) for _ in range(count)]
        self.each = [AdaptiveDecay(holder, lambda k=k: self._held_out(k)) for k, holder in enumerate(holders)]

    def step(self, scores: Tensor, target: Tensor) -> Tensor:
        """The weight decay (networks, 1) of this step."""
        self.scores = None
        return torch.tensor([[one.step(row, target)] for one, row in zip(self.each, scores, strict=True)])

    def _held_out(self, k: int) -> tuple[Tensor, ...]:
        """Scores by the network now, target, and for lists a mask; all networks are scored at once."""
        if self.scores is None:
            scores = torch.cat([self.networks(chunk) for chunk in self.rows.inputs.split(4096)], dim=1)
            self.scores = scores.nan_to_num(0.0, 0.0, 0.0)
        if self.places is None:
            return self.scores[k], self.rows.target
        return self.scores[k][self.places], self.rows.target[self.places], self.places >= 0


def _padded(lists: Tensor) -> Tensor:
    """The rows of every list (lists, rows), −1 where there is none."""
    return nn.utils.rnn.pad_sequence(
        [(lists == one).nonzero().squeeze(1) for one in lists.unique()], batch_first=True, padding_value=-1
    )


class _Group:
    """Networks that see the same batches."""

    def __init__(
        self,
        data: Rows,
        methods: dict[str, tuple[Setting, ...]],
        facts: Facts,
        batches: Iterator[Tensor],
        seed: int,
        average: float,
        held_out: Rows | None = None,
    ) -> None:
        self.data, self.batches, self.average = data, batches, average
        self.shared = 0.0
        self.parts: list[_Part] = []
        strengths: list[float] = []
        rates: list[float] = []
        decays: list[float] = []
        partners: list[int] = []
        warm: list[bool] = []
        scaled: list[bool] = []
        for make, some in groupby(methods, key=lambda name: METHODS[name].make):
            begin, measured = len(rates), dict[str, slice]()
            for name in some:
                of, settings = METHODS[name], methods[name]
                measured[name] = slice(len(rates), len(rates) + len(settings))
                partners += range(len(rates) + len(settings), len(rates) + of.networks * len(settings))
                for setting in settings * of.networks:
                    strengths.append(setting.strength)
                    rates.append(setting.learning_rate)
                    decays.append(setting.weight_decay)
                    warm.append(of.warm)
                    scaled.append(of.scaled)
            self.parts.append(_Part(make(facts), slice(begin, len(rates)), measured))
        self.times = [0.0] * len(self.parts)
        self.warm, self.scaled = torch.tensor(warm), torch.tensor(scaled)
        self.strengths = torch.tensor(strengths, dtype=torch.float64)
        self.rates = torch.tensor(rates).unsqueeze(1)
        widths = (data.inputs.shape[1], *HIDDEN, 1)
        generator = torch.Generator().manual_seed(seed)
        self.networks: Networks = Heads(len(rates), widths, "he", generator)
        if partners:  # two networks that teach each other must differ
            with torch.no_grad():
                self.networks.weights[partners] = Heads(1, widths, "he", generator).weights
        self.adam = OPTIMIZERS["adamw"](self.networks.weights)
        self.decay = torch.tensor(decays).unsqueeze(1)
        self.averaged = self.networks.weights.detach().clone()
        self.adaptive = None if held_out is None else _Adaptive(self.networks, held_out)

    def step(self, number: int) -> None:
        """One step of Adam for all networks."""
        begin = time.process_time()
        items = next(self.batches)
        target, weights = self.data.target[items], self.networks.weights
        scores = self.networks(self.data.inputs[items])
        finite = scores.detach().isfinite().all(dim=1, keepdim=True)
        seen = scores.detach().where(finite, 0.0)
        at_scores = torch.zeros_like(seen)
        in_losses = 0.0
        if target.any() and not target.all():
            for place, (loss, rows, _) in enumerate(self.parts):
                start = time.process_time()
                mine = seen[rows].requires_grad_()
                of_rows = self.strengths[rows], number, self.warm[rows], self.scaled[rows]
                value = loss(Step(mine, target, items, *of_rows))
                (at_scores[rows],) = torch.autograd.grad(value.sum(), mine)
                self.times[place] += (taken := time.process_time() - start)
                in_losses += taken
        (gradient,) = torch.autograd.grad(scores, weights, at_scores)
        if self.adaptive is not None:
            self.decay = self.adaptive.step(seen, target)
        with torch.no_grad():
            weights.sub_((self.rates * self.adam(gradient, self.decay)).where(finite, 0.0))
            self.averaged.lerp_(weights, max(self.average, 1 / (number + 1)))
        self.shared += time.process_time() - begin - in_losses

    def models(self) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
        """Every method, and what scores inputs by its networks."""
        scored: dict[int, Tensor] = {}

        def scores(inputs: Tensor) -> Tensor:
            if id(inputs) not in scored:
                with torch.no_grad():
                    weights = {"weights": self.averaged}
                    parts = [functional_call(self.networks, weights, chunk) for chunk in inputs.split(4096)]
                    scored[id(inputs)] = torch.cat(parts, dim=1)
            return scored[id(inputs)]

        for part in self.parts:
            for name, measured in part.measured.items():
                yield name, lambda inputs, measured=measured: scores(inputs)[measured]

    def seconds(self) -> dict[str, float]:
        """Of one training, by method: the mean over its settings. Methods in one call share its time."""
        each = self.shared / len(self.rates)
        found = {}
        for part, time_of in zip(self.parts, self.times, strict=True):
            trainings = sum(measured.stop - measured.start for measured in part.measured.values())
            for name in part.measured:
                found[name] = round(each * METHODS[name].networks + time_of / trainings, 4)
        return found
