"""Train the top of a backbone, or all of it, with one setting after the other.

A batch is the whole training set, or random boxes a share of which is labelled positive. It goes through the network in
chunks, so memory does not grow with it. Each box is mirrored at random.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn

from ..harness.progress import Progress
from ..sweep import Setting, average_precisions, checkpoints, losses
from ..trainers import Callback, fine_tune, stratified
from ..vision.backbones import Backbone
from ..vision.crops import normalised
from .config import Result

__all__ = ["Scorer", "tune"]

CHUNK = 16  # boxes that go through the network at once
SHARE = 0.25  # of boxes that are labelled positive in a batch, if it is not the whole set
FEW = 2  # checkpoints after the start where a batch is not the whole set


class Scorer(nn.Module):
    """A backbone with a linear head. It scores normalised crops if all of it trains, else maps of the trunk."""

    def __init__(self, backbone: Backbone, whole: bool) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.width, 1)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)
        self.whole = whole
        backbone.requires_grad_(whole)
        for part in backbone.of_top():
            part.requires_grad_(True)

    def forward(self, inputs: Tensor) -> Tensor:
        """(items,) scores."""
        maps = self.backbone.trunk(inputs) if self.whole else inputs
        return self.head(self.backbone.top(maps)).squeeze(-1)


def tune(
    method: str,
    settings: Sequence[Setting],
    backbone: Backbone,
    rows: Any,
    whole: bool,
    sets: dict[str, tuple[Tensor, Tensor]],
    iterations: int,
    seed: int,
    progress: Progress,
    batch: int | None = None,
    pixels: int | None = None,
) -> Result:
    """Train on sets["train"]; each set is the places of its boxes in `rows`, and their labels.

    `batch` and `pixels`: see `Config`.
    """
    moments = checkpoints(iterations) if batch is None else checkpoints(iterations, FEW)
    found = []
    dead = []
    for number, setting in enumerate(settings):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            one = _One(method, setting, Scorer(deepcopy(backbone), whole), rows, sets, seed, batch, pixels)

            def checkpoint(iteration: int, one: _One = one, number: int = number) -> None:
                if iteration in moments:
                    one.measure()
                progress((number + iteration / iterations) / len(settings))

            checkpoint(0)
            dead.append(round(one.train(iterations, checkpoint), 6))
        found.append(one.curves)
    curves = {
        name: tuple(
            tuple(curve[name][k] if k < len(curve[name]) else 0.0 for curve in found) for k in range(len(moments))
        )
        for name in sets
    }
    return Result(iterations=tuple(moments), dead=tuple(dead), **curves)


class _One:
    """One setting: its network, and its AP at the checkpoints so far."""

    def __init__(
        self,
        method: str,
        setting: Setting,
        network: Scorer,
        rows: Any,
        sets: dict[str, tuple[Tensor, Tensor]],
        seed: int,
        batch: int | None,
        pixels: int | None,
    ) -> None:
        self.method, self.setting, self.network, self.rows, self.sets = method, setting, network, rows, sets
        self.batch, self.pixels = batch, pixels
        self.draw = torch.Generator().manual_seed(seed)
        self.curves: dict[str, list[float]] = {name: [] for name in sets}

    def train(self, iterations: int, callback: Callback) -> float:
        of = losses(self.method, [self.setting])

        def loss(scores: Tensor, target: Tensor) -> Tensor:
            return of(scores.unsqueeze(0), target).squeeze(0)

        return fine_tune(
            self.network, self.network.head, self._batches(), loss,
            learning_rate=self.setting.learning_rate, weight_decay=self.setting.weight_decay,
            iterations=iterations, callback=callback,
        )  # fmt: skip

    def _batches(self) -> Iterator[tuple[Callable[[], Iterable[Tensor]], Tensor]]:
        places, target = self.sets["train"]
        everything = torch.arange(len(places))
        drawn = repeat(everything) if self.batch is None else stratified(target, self.batch, SHARE, self.draw)
        for items in drawn:  # positives first, so a chunk may hold one class: the statistics of batches must be frozen
            mirrored = torch.rand(len(items), generator=self.draw) < 0.5
            yield partial(self._chunks, places[items], mirrored), target[items]

    def measure(self) -> None:
        """Measure AP on all sets; boxes are not mirrored."""
        self.network.eval()
        scores: dict[int, Tensor] = {}  # sets may share boxes
        for name, (places, target) in self.sets.items():
            if id(places) not in scores:
                with torch.no_grad():
                    parts = [self.network(chunk) for chunk in self._chunks(places, torch.zeros(len(places)).bool())]
                scores[id(places)] = torch.cat(parts).unsqueeze(0)
            self.curves[name] += average_precisions(scores[id(places)], target)

    def _chunks(self, places: Tensor, mirrored: Tensor) -> Iterator[Tensor]:
        for these, flips in zip(places.split(CHUNK), mirrored.split(CHUNK), strict=True):
            if self.network.whole:
                crops = torch.stack([torch.from_numpy(self.rows[k].copy()) for k in these.tolist()])
                inputs = normalised(torch.where(flips.view(-1, 1, 1, 1), crops.flip(-1), crops))
                yield inputs if self.pixels is None else _shrunk(inputs, self.pixels)
            else:
                rows = [self.rows[k, int(flip)] for k, flip in zip(these.tolist(), flips.tolist(), strict=True)]
                yield torch.stack([torch.from_numpy(row.astype("float32")) for row in rows])


def _shrunk(inputs: Tensor, pixels: int) -> Tensor:
    return nn.functional.interpolate(inputs, size=(pixels, pixels), mode="bilinear", antialias=True)
