"""Metric learning: does an embedding find more drawings of a character if it trains on AP? Beside the usual losses.

Omniglot: a small network learns characters of some alphabets, and is tested on alphabets that it never saw. Every loss
starts from the same weights, sees the same batches in the same order, and has as many settings.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, relu

from directloss import (
    AveragePrecision,
    AveragePrecisionAtK,
    ClassesSampler,
    HitAtK,
    PositiveDirect,
    RetrievalLoss,
    Task,
    metric,
)

from .data.omniglot import SIZE, Drawings, read_omniglot
from .harness import study as harness
from .harness.cache import Cache, key_of
from .harness.options import DataOptions
from .harness.progress import Progress, Steps, no_progress, no_steps
from .harness.study import Claim, Study, Summary, Table
from .report.outcomes import Outcomes, Unit, difference_records, records
from .report.summary import choices_table, methods_table, of_group
from .sweep import Choice, Curve, Setting, check_curves, choose, combinations

__all__ = ["BASELINES", "METHODS", "METRICS", "STUDY", "Config", "DrawingData", "Result", "configs", "prepare", "run"]

CACHE = Cache("directloss reproduce metric-learning --data DIR")
VERSION = 1  # see `key_of`
CHANNELS, WIDTH = (32, 64, 64), 64
RATES = (0.002, 0.006, 0.02)
CHARACTERS, PER_CLASS = 24, 4  # in a batch: characters, and drawings of each
BEND = 5.0  # δ of SupAP, in temperatures
METRICS = ("MAP@R", "recall@1", "mAP")


@dataclass(frozen=True)
class DrawingData:
    """Drawings: their name, and their key in the cache; empty for those that are made here."""

    name: str
    key: str


class Batch(NamedTuple):
    """Cosines of a batch that has as many drawings of each character: each drawing is a query."""

    positives: Tensor
    """(queries, other drawings of its character)."""
    negatives: Tensor
    """(queries, drawings of other characters)."""


class Method(NamedTuple):
    """A loss of embeddings of length 1 (drawings, WIDTH) and characters (drawings,), and what of it is tuned."""

    loss: Callable[[Tensor, Tensor, float], Tensor]
    strength: str
    strengths: tuple[float, ...]
    """Its usual value among them."""


@dataclass(frozen=True)
class Config:
    """One method on one split of the alphabets, with all settings."""

    method: str
    seed: int
    source: DrawingData
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.source.name}, {self.method}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """MAP@R on validation characters, and three metrics on test characters, by checkpoint (the end) and setting."""

    validation: Curve
    map_at_r: Curve
    recall: Curve
    map: Curve

    def check(self, config: Config) -> None:
        """Raise a ValueError unless all curves have all settings, from 0 to 1."""
        curves = {"validation": self.validation, "map_at_r": self.map_at_r, "recall": self.recall, "map": self.map}
        check_curves(curves, 1, len(config.settings), "a metric")


Run = harness.Run[Config, Result]


def cosines(embeddings: Tensor, labels: Tensor) -> Batch:
    """Of all pairs. Every label must be there as often."""
    same = labels.unsqueeze(1) == labels
    scores, count = embeddings @ embeddings.T, len(labels)
    itself = torch.eye(count, dtype=torch.bool)
    return Batch(scores[same & ~itself].view(count, -1), scores[~same].view(count, -1))


def smooth_ap(scores: Batch, temperature: float) -> Tensor:
    """Smooth-AP (Brown et al., ECCV 2020): a sigmoid of the difference stands for a step, in both ranks."""
    ahead = torch.sigmoid((scores.positives.unsqueeze(1) - scores.positives.unsqueeze(2)) / temperature)
    behind = torch.sigmoid((scores.negatives.unsqueeze(1) - scores.positives.unsqueeze(2)) / temperature)
    rank = ahead.sum(-1) + 0.5  # among positives; a drawing is ahead of itself by sigmoid(0)
    return 1 - (rank / (rank + behind.sum(-1))).mean()


def sup_ap(scores: Batch, temperature: float) -> Tensor:
    """SupAP of ROADMAP (Ramzi et al., NeurIPS 2021): no less than 1 − AP.

    The rank among positives is exact, and has no gradient. A negative counts by H⁻ of its lead over the positive: below
    0 a sigmoid; to δ the same plus ½; from there on a line. With temperature 0.01, its default, δ is 0.05 and the
    line's slope 100, as published; both follow the temperature.
    """
    rank = (scores.positives.unsqueeze(1) >= scores.positives.unsqueeze(2)).sum(-1)
    lead = (scores.negatives.unsqueeze(1) - scores.positives.unsqueeze(2)) / temperature
    behind = torch.sigmoid(lead.clamp(max=BEND)) + 0.5 * (lead > 0) + relu(lead - BEND)
    return 1 - (rank / (rank + behind.sum(-1))).mean()


def calibration(scores: Batch, low: float = 0.9, high: float = 0.6) -> Tensor:
    """What ROADMAP adds: cosines of positives below 0.9, and of negatives above 0.6; the means over such pairs."""
    return mean_above_zero(low - scores.positives) + mean_above_zero(scores.negatives - high)


def mean_above_zero(values: Tensor) -> Tensor:
    """The mean of the positive values, 0 if there is none: `AvgNonZeroReducer` of pytorch-metric-learning."""
    return relu(values).sum() / (values > 0).sum().clamp(min=1)


def distances(cosine: Tensor) -> Tensor:
    """Euclidean distances of vectors of length 1."""
    return (2 - 2 * cosine).clamp(min=1e-12).sqrt()


def contrastive(scores: Batch, margin: float) -> Tensor:
    """Distances of positives, and what those of negatives lack to the margin."""
    return mean_above_zero(distances(scores.positives)) + mean_above_zero(margin - distances(scores.negatives))


def triplet(scores: Batch, margin: float) -> Tensor:
    """All triplets of a batch whose negative is not farther than the positive by the margin."""
    gaps = distances(scores.positives).unsqueeze(2) - distances(scores.negatives).unsqueeze(1)
    return mean_above_zero(gaps + margin)


def direct(task: Task) -> Callable[[Tensor, Tensor, float], Tensor]:
    """The loss on a metric, with the update whose ε is the strength."""
    return lambda embeddings, labels, epsilon: RetrievalLoss(task, PositiveDirect(epsilon))(embeddings, labels)


def on_cosines(loss: Callable[[Batch, float], Tensor]) -> Callable[[Tensor, Tensor, float], Tensor]:
    """A loss of embeddings from one of cosines."""
    return lambda embeddings, labels, strength: loss(cosines(embeddings, labels), strength)


METHODS: dict[str, Method] = {
    "AP": Method(direct(AveragePrecision()), "ε", (0.1, 0.3)),
    "MAP@R": Method(direct(AveragePrecisionAtK(PER_CLASS - 1)), "ε", (0.1, 0.3)),
    "Smooth-AP": Method(on_cosines(smooth_ap), "temperature", (0.01, 0.1)),
    "SupAP": Method(on_cosines(sup_ap), "temperature", (0.01, 0.1)),
    "ROADMAP": Method(
        on_cosines(lambda scores, temperature: sup_ap(scores, temperature) + calibration(scores)),
        "temperature of SupAP",
        (0.01, 0.1),
    ),
    "contrastive": Method(on_cosines(contrastive), "margin", (0.5, 1.0)),
    "triplet": Method(on_cosines(triplet), "margin", (0.05, 0.2)),
}
BASELINES = ("untrained", "pixels")


class Network(nn.Module):
    """Three convolutions with batch normalisation and pooling, and a linear map to vectors of length 1."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for before, after in zip((1, *CHANNELS), CHANNELS, strict=False):
                layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
                layers += [nn.MaxPool2d(2)]
            side = SIZE // 2 ** len(CHANNELS)
            self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(CHANNELS[-1] * side**2, WIDTH))
        self.layers.to(memory_format=torch.channels_last)  # half of the time  # pyright: ignore[reportCallIssue]

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings (images, WIDTH) of bytes (images, SIZE, SIZE)."""
        inputs = images.unsqueeze(1).float().div(255).contiguous(memory_format=torch.channels_last)
        return normalize(self.layers(inputs), dim=-1)


class Images(NamedTuple):
    """Drawings as tensors."""

    images: Tensor
    characters: Tensor
    alphabets: Tensor


@cache
def load(data: DrawingData) -> Images:
    """From the cache; or made: lines from corner to corner, which move from drawing to drawing."""
    if data.key:
        return Images(*(torch.from_numpy(np.array(CACHE.array(_part(data.key, name)))) for name in Images._fields))
    generator = torch.Generator().manual_seed(0)
    characters = torch.arange(96).repeat_interleave(8)
    corners = 6 + 16 * torch.rand((96, 4, 2), generator=generator)[characters]
    shifts = 6 * torch.rand((len(characters), 1, 2), generator=generator) - 3
    corners = corners + shifts + torch.randn(corners.shape, generator=generator)
    along = torch.linspace(0, 1, 12).view(-1, 1, 1, 1)
    points = (corners[:, :-1] * (1 - along) + corners[:, 1:] * along).permute(1, 0, 2, 3).flatten(1, 2)
    pixels = torch.arange(float(SIZE))
    near = (-((points[:, :, :1] - pixels) ** 2) / 2, -((points[:, :, 1:] - pixels) ** 2) / 2)
    ink = (near[0].unsqueeze(3) + near[1].unsqueeze(2)).exp().amax(1)
    return Images((255 * ink).to(torch.uint8), characters, characters // 12)


def _part(key: str, name: str) -> str:
    return key_of(key=key, part=name)


def prepare(options: DataOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[DrawingData, list[str]]:
    """Read the drawings into the cache."""
    if options.data is None:
        if options.preset != "quick":
            raise ValueError(
                "Name the folder of the drawings: --data DIR. `directloss data omniglot --root DIR` gets it."
            )
        return DrawingData("made", ""), []
    drawings: Drawings = read_omniglot(options.data, steps)
    digest = hashlib.sha256(repr(drawings.names).encode())
    for array in drawings[:3]:
        digest.update(np.ascontiguousarray(array).tobytes())
    key = key_of(kind="metric learning", version=VERSION, drawings=digest.hexdigest())
    for name in Images._fields:
        CACHE.make_array(_part(key, name), lambda name=name: getattr(drawings, name))
    return DrawingData("Omniglot", key), []


def configs(options: DataOptions, source: DrawingData | None = None) -> list[Config]:
    """The paper preset takes about 40 minutes on one core, the quick one half a minute."""
    paper = options.preset == "paper"
    data = source or DrawingData(*(("Omniglot", "") if paper else ("made", "")))
    made = data.name == "made"

    def settings(method: str) -> tuple[Setting, ...]:
        strengths = METHODS[method].strengths if method in METHODS else (0.0, 1.0)
        return combinations(strengths, RATES[:1] if made else RATES, (0.0,))

    return [
        Config(method, seed, data, 20 if made else 200, settings(method))
        for seed in range(options.seeds or (5 if paper else 3))
        for method in (*METHODS, *BASELINES)
    ]


def split(images: Images, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Drawings for training, validation and tests.

    Half of the alphabets are for tests. Of the characters of the others a quarter validates, and the rest trains. Two
    seeds, the even one and the next, have halves that change places.
    """
    count = int(images.alphabets.max()) + 1
    generator = torch.Generator().manual_seed(seed // 2)
    first, second = torch.randperm(count, generator=generator).tensor_split(2)
    tested = torch.isin(images.alphabets, (first, second)[seed % 2])
    learned = images.characters[~tested].unique()
    order = learned[torch.randperm(len(learned), generator=torch.Generator().manual_seed(seed))]
    validates = torch.isin(images.characters, order[: len(order) // 4])
    training, validation, test = (
        part.nonzero().squeeze(1) for part in (~tested & ~validates, ~tested & validates, tested)
    )
    return training, validation, test


def batches_of(characters: Tensor, classes: int, seed: int) -> Iterator[list[int]]:
    """Batches without end: as many drawings of each of some characters."""
    generator = torch.Generator().manual_seed(seed)
    sampler = ClassesSampler(characters, classes * PER_CLASS, PER_CLASS, generator)
    while True:
        yield from sampler


@torch.no_grad()
def measure(embeddings: Tensor, characters: Tensor) -> list[float]:
    """Every metric of `METRICS`: each drawing is a query and ranks all others. R is how many others it should find."""
    same = characters.unsqueeze(1) == characters
    others = ~torch.eye(len(characters), dtype=torch.bool)
    r = int(same.sum(1).max()) - 1  # every character has as many drawings
    tasks = AveragePrecisionAtK(r), HitAtK(1), AveragePrecision()
    return [round(metric(task, embeddings @ embeddings.T, same, others).item(), 6) for task in tasks]


def train(config: Config, setting: Setting, images: Images, rows: Tensor, progress: Progress = no_progress) -> Network:
    """The network after training on some of the images. Step sizes fall linearly to zero."""
    network, loss = Network(config.seed), METHODS[config.method].loss
    optimizer = torch.optim.Adam(network.parameters(), setting.learning_rate)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / config.iterations)
    characters = images.characters[rows]
    batches = batches_of(characters, min(CHARACTERS, len(characters.unique()) // 2), config.seed)
    for step in range(config.iterations):
        items = torch.tensor(next(batches))
        optimizer.zero_grad()
        loss(network(images.images[rows[items]]), characters[items], setting.strength).backward()
        optimizer.step()
        falling.step()
        progress((step + 1) / config.iterations)
    return network


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train with every setting; measure on characters for validation and tests at the end."""
    images = load(config.source)
    rows, *held_out = split(images, config.seed)
    found: list[list[float]] = []
    count = len(config.settings)
    for setting in config.settings:
        if config.method in METHODS:
            done = len(found)
            network = train(config, setting, images, rows, lambda share, done=done: progress((done + share) / count))
        else:
            network = Network(config.seed)
        if config.method in METHODS or not found:  # a baseline is the same with every setting
            validation, test = (_measured(config.method, network.eval(), images, part) for part in held_out)
            found.append([validation[0], *test])
        else:
            found.append(found[0])
    progress(1.0)
    return Result(*((curve,) for curve in zip(*found, strict=True)))


@torch.no_grad()
def _measured(method: str, network: Network, images: Images, rows: Tensor) -> list[float]:
    some = images.images[rows]
    vectors = normalize(some.flatten(1).float(), dim=-1) if method == "pixels" else network(some)
    return measure(vectors, images.characters[rows])


def _chosen(run: Run) -> Choice:
    """The setting with the highest MAP@R on validation characters."""
    return choose(run.result.validation)


def summarise(runs: Sequence[Run]) -> Summary:
    """The three metrics on test characters, and the differences to the loss on AP."""
    found = {name: Outcomes() for name in METRICS}
    for run in runs:
        config, result = run.config, run.result
        for name, curve in zip(METRICS, (result.map_at_r, result.recall, result.map), strict=True):
            found[name].put(config.source.name, 0.0, config.method, Unit(config.seed), _chosen(run).value(curve))
    flat, tables, claims = [], [], []
    for name, outcomes in found.items():
        flat += records("metric-learning", f"test_{name}", outcomes)
        flat += [
            record._replace(metric=f"AP minus this, {name}")
            for record in difference_records("metric-learning", outcomes, "AP")
        ]
    for variant in dict.fromkeys(run.config.source.name for run in runs):
        columns = {name: of_group(outcomes, variant) for name, outcomes in found.items()}
        note = "Mean ± standard deviation over seeds, which are splits of the alphabets."
        tables.append(methods_table(f"{variant}: test characters", columns, (*METHODS, *BASELINES), note))
        claims += _claims(variant, found)
    chosen = choices_table(
        "What was tried and chosen, on validation characters", [run for run in runs if run.config.method in METHODS],
        _chosen, {name: method.strength for name, method in METHODS.items()},
    )  # fmt: skip
    return Summary(flat, claims, [*tables, chosen], headline=_headline(tables), overview=tables)


def _claims(variant: str, found: dict[str, Outcomes]) -> list[Claim]:
    smooth, pairs = ("Smooth-AP", "SupAP", "ROADMAP"), ("contrastive", "triplet")
    return [
        Claim(
            says, variant,
            [found[name].compare(variant, 0.0, "AP", other, f"AP − {other}") for other in others], "ours",
        )
        for name, says, others in (
            ("MAP@R", "A loss on AP has a higher MAP@R than the smooth losses on AP", smooth),
            ("MAP@R", "A loss on AP has a higher MAP@R than the losses on pairs and triplets", pairs),
            ("recall@1", "A loss on AP has a higher recall@1 than the smooth losses on AP", smooth),
            ("recall@1", "A loss on AP has a higher recall@1 than the losses on pairs and triplets", pairs),
            ("MAP@R", "A loss on AP raises the MAP@R of the untrained network and of pixels", BASELINES),
        )
    ]  # fmt: skip


def _headline(tables: Sequence[Table]) -> str:
    if not tables:
        return ""
    best = min((row for row, column in tables[0].best if column == 1), default=None)
    if best is None:
        return ""
    method, value, *_ = tables[0].rows[best]
    return f"{method} has the highest MAP@R on test characters ({value})."


STUDY = Study[DataOptions, DrawingData, Config, Result](
    name="metric-learning",
    title="Metric learning: drawings of characters that training did not see",
    about=(
        "Omniglot: 242 characters of eight alphabets, each drawn by twenty people. Half of the alphabets train a small "
        "convolutional network, the others test it: every drawing ranks all others by cosine, and should find those of "
        "its character. A quarter of the characters for training validates instead: it chooses step size and strength "
        "by MAP@R. All losses have the same start, the same batches and as many settings."
    ),
    version=1,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
    beside=BASELINES,
)
