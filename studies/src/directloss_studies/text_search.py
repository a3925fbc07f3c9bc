"""Text search: does a sentence model find more if it trains on the metric? Beside the usual losses of such models.

MiniLM (all-MiniLM-L6-v2) on the Cranfield collection. Its last layer trains for queries, and a linear map for queries
and documents; what comes before is computed once. Every loss starts from the same weights, sees the same queries in the
same order, and has the same step sizes.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid, normalize
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from directloss import NDCG, AveragePrecision, PositiveDirect, ReciprocalRank, StructuredLoss, metric

from .data.cranfield import LEFT_OUT, bm25, read_cranfield
from .data.sentences import SentenceModel
from .harness import study as harness
from .harness.cache import Cache, key_of
from .harness.options import DataOptions
from .harness.progress import Progress, Steps, no_progress, no_steps
from .harness.study import Claim, Study, Summary, Table
from .report.outcomes import Outcomes, Unit, difference_records, records
from .report.summary import choices_table, methods_table, of_group
from .sweep import Choice, Curve, Setting, check_curves, choose
from .trainers import passes

__all__ = ["BASELINES", "METHODS", "STUDY", "Config", "Result", "TextData", "configs", "prepare", "run", "summarise"]

CACHE = Cache("directloss reproduce text-search --data DIR")
VERSION = 1  # see `key_of`
NOWHERE = -1e4  # the score of a document that is left out of a list: its probability is 0
SCALE = 20.0  # scores are cosines times this, in every loss: the default of MultipleNegativesRankingLoss
LIST, NEGATIVES, BATCH, FOLDS, CHECKPOINTS, QUERY_TOKENS = 64, 4, 16, 5, 2, 32
METRICS = {"NDCG@10": NDCG(10), "MAP": AveragePrecision(), "MRR": ReciprocalRank()}
ALL = ", all documents"


@dataclass(frozen=True)
class TextData:
    """A collection: its name, and its key in the cache; empty for one that is made here."""

    name: str
    key: str


class Search(NamedTuple):
    """What is searched, and what the last layer takes."""

    documents: Tensor
    """(documents, width): vectors of length 1."""
    states: Tensor
    """(queries, tokens, width), before the last layer."""
    tokens: Tensor
    """(queries, tokens): whether there is one."""
    grades: Tensor
    """(queries, documents): 0 to 4, or `LEFT_OUT`."""
    words: Tensor
    """(queries, documents): the scores of BM25."""
    layer: Tensor
    """The parameters of the last layer, as one vector."""


@dataclass(frozen=True)
class Config:
    """One method on one fold of the queries, with all step sizes."""

    method: str
    seed: int
    source: TextData
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.source.name}, {self.method}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """NDCG@10 on validation queries, and three metrics on test queries, by checkpoint and setting."""

    validation: Curve
    ndcg: Curve
    map: Curve
    mrr: Curve

    def check(self, config: Config) -> None:
        """Raise a ValueError unless all curves have all checkpoints and settings, from 0 to 1."""
        curves = {"validation": self.validation, "ndcg": self.ndcg, "map": self.map, "mrr": self.mrr}
        check_curves(curves, len(self.validation), len(config.settings), "a metric")


Run = harness.Run[Config, Result]
Loss = Callable[[Tensor, Tensor], Tensor]


def list_net(scores: Tensor, grades: Tensor) -> Tensor:
    """ListNet as sentence-transformers has it; scores and grades are (queries, documents)."""
    return cross_entropy(scores, grades.softmax(-1))


def rank_net(scores: Tensor, grades: Tensor) -> Tensor:
    """The mean over all pairs of different grades, in bits."""
    right = grades.unsqueeze(-1) > grades.unsqueeze(-2)
    return -logsigmoid(scores.unsqueeze(-1) - scores.unsqueeze(-2))[right].mean() / np.log(2)


def lambda_loss(scores: Tensor, grades: Tensor) -> Tensor:
    """LambdaLoss with the weights NDCG-Loss2++, the default of sentence-transformers."""
    scores, order = scores.sort(descending=True)
    best, grades = grades.sort(descending=True)[0], grades.gather(-1, order)
    ranks = torch.arange(1.0, scores.shape[-1] + 1)
    discount = torch.log2(1 + ranks)
    gain = (2**grades - 1) / ((2**best - 1) / discount).sum(-1, keepdim=True).clamp(min=1e-10)
    apart = (ranks.unsqueeze(-1) - ranks).abs()
    by_distance = (1 / torch.log2(1 + apart.clamp(min=1)) - 1 / torch.log2(2 + apart)).abs() * (apart > 0)
    by_rank = (1 / discount.unsqueeze(-1) - 1 / discount).abs()
    weights = (10 * by_distance + by_rank) * (gain.unsqueeze(-1) - gain.unsqueeze(-2)).abs()
    right = grades.unsqueeze(-1) > grades.unsqueeze(-2)
    return -(weights * logsigmoid(scores.unsqueeze(-1) - scores.unsqueeze(-2)))[right].mean() / np.log(2)


def softmax(scores: Tensor, grades: Tensor) -> Tensor:
    """Cross-entropy between the softmax of the scores and shares in proportion to grades."""
    return cross_entropy(scores, grades / grades.sum(-1, keepdim=True))


def direct(task: NDCG | AveragePrecision) -> Loss:
    """A loss on NDCG or on AP; documents that are left out have the score `NOWHERE`."""
    loss = StructuredLoss(task, PositiveDirect(1.0))
    return lambda scores, grades: loss(scores, grades if isinstance(task, NDCG) else grades > 0, scores > NOWHERE)


MNR = "MultipleNegativesRanking"
METHODS: dict[str, Loss] = {
    "NDCG": direct(NDCG(10)),
    "AP": direct(AveragePrecision()),
    "ListNet": list_net,
    "LambdaLoss": lambda_loss,
    "RankNet": rank_net,
    MNR: softmax,
    f"NDCG{ALL}": direct(NDCG(10)),
    f"NDCG of all ranks{ALL}": direct(NDCG()),
    f"AP{ALL}": direct(AveragePrecision()),
    f"softmax{ALL}": softmax,
}
"""What trains: on lists of relevant documents and hard negatives, on those of a batch (MNR), or on all documents."""
BASELINES = ("untuned", "BM25")


class Model(nn.Module):
    """The last layer for queries, and a linear map for queries and documents, which begins as the identity."""

    def __init__(self, search: Search) -> None:
        super().__init__()
        width = search.documents.shape[-1]
        with torch.random.fork_rng(devices=[]):  # what is drawn is replaced
            self.layer = nn.TransformerEncoderLayer(width, width // 32, 4 * width, 0.0, "gelu", 1e-12, batch_first=True)
            self.map = nn.Linear(width, width, bias=False)
        vector_to_parameters(search.layer.clone(), self.layer.parameters())
        nn.init.eye_(self.map.weight)

    def forward(self, search: Search, queries: Tensor, documents: Tensor | None = None) -> Tensor:
        """Cosines (queries, documents); by default with all documents."""
        tokens = search.tokens[queries]
        tokens = tokens[:, : int(tokens.sum(1).max())]
        out = self.layer(search.states[queries][:, : tokens.shape[1]], src_key_padding_mask=~tokens)
        means = (out * tokens.unsqueeze(-1)).sum(1)  # their length does not matter
        vectors = search.documents if documents is None else search.documents[documents]
        return normalize(self.map(means), dim=-1) @ normalize(self.map(vectors), dim=-1).mT


@cache
def load(data: TextData) -> Search:
    """From the cache; or made: queries that lie near to some documents once they are turned."""
    if data.key:
        return Search(*(torch.from_numpy(np.array(CACHE.array(_part(data.key, name)))) for name in Search._fields))
    generator = torch.Generator().manual_seed(0)
    topics, turn = torch.randn((12, 32), generator=generator), torch.randn((32, 32), generator=generator) / 8
    of_document, of_query = (torch.randint(12, (count,), generator=generator) for count in (150, 60))
    documents = normalize(topics[of_document] + torch.randn((150, 32), generator=generator), dim=-1)
    states = (topics + topics @ turn)[of_query].unsqueeze(1) + torch.randn((60, 5, 32), generator=generator)
    near = (documents @ normalize(topics, dim=-1).T)[:, of_query].T
    grades = ((of_query.unsqueeze(1) == of_document) * (1 + (near > 0.7).int() + (near > 0.8).int())).to(torch.int8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(32, 1, 128, 0.0, "gelu", 1e-12, batch_first=True)
    flat = parameters_to_vector(layer.parameters()).detach()
    return Search(documents, states, torch.ones(60, 5, dtype=torch.bool), grades, near, flat)


def _part(key: str, name: str) -> str:
    return key_of(key=key, part=name)


def prepare(options: DataOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[TextData, list[str]]:
    """Read the collection, and compute what does not train: vectors of documents and states of queries."""
    if options.data is None:
        if options.preset != "quick":
            raise ValueError(
                "Name the folder of the collection: --data DIR. `directloss data cranfield --root DIR` gets it."
            )
        return TextData("made", ""), []
    collection, model = read_cranfield(options.data, steps), SentenceModel()
    texts = hashlib.sha256(repr(collection[:2]).encode() + collection.grades.tobytes()).hexdigest()
    key = key_of(kind="text search", version=VERSION, texts=texts)
    vectors_of = steps("vectors of documents")
    with torch.inference_mode():
        states, tokens = model.before_last(collection.queries, QUERY_TOKENS)
        layer = parameters_to_vector(model.last_layer().parameters())
    made = {
        "documents": lambda: model(collection.documents, vectors_of),
        "states": states.numpy,
        "tokens": tokens.numpy,
        "grades": lambda: collection.grades,
        "words": lambda: bm25(collection),
        "layer": layer.detach().numpy,
    }
    for name, make in made.items():
        CACHE.make_array(_part(key, name), make)
    return TextData("Cranfield", key), []


def configs(options: DataOptions, source: TextData | None = None) -> list[Config]:
    """The paper preset takes about ten minutes on one core, the quick one less than a minute."""
    paper = options.preset == "paper"
    data = source or TextData(*(("Cranfield", "") if paper else ("made", "")))
    settings = tuple(Setting(1.0, rate, 0.0) for rate in ((3e-5, 1e-4, 3e-4) if data.name != "made" else (1e-3, 3e-3)))
    return [
        Config(method, seed, data, 24 if paper else 20, settings)
        for seed in range(options.seeds or (FOLDS if paper else 3))
        for method in (*METHODS, *BASELINES)
    ]


def split(queries: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries for training, validation and tests: three fifths, one and one. Five seeds test every query once."""
    order = torch.randperm(queries, generator=torch.Generator().manual_seed(seed // FOLDS))
    folds = [*order.chunk(FOLDS)]
    folds = folds[seed % FOLDS :] + folds[: seed % FOLDS]
    return torch.cat(folds[2:]), folds[1], folds[0]


@torch.no_grad()
def measure(scores: Tensor, grades: Tensor) -> list[float]:
    """Every metric of `METRICS`, over all documents."""
    mask = grades != LEFT_OUT
    target = {name: grades.clamp(min=0) if name == "NDCG@10" else grades > 0 for name in METRICS}
    return [round(metric(task, scores, target[name], mask).item(), 6) for name, task in METRICS.items()]


def hard_lists(search: Search, model: Model) -> Tensor:
    """(queries, LIST): documents with a grade, and then those that the untuned model finds most similar."""
    with torch.no_grad():
        cosines = model(search, torch.arange(len(search.grades)))
    order = search.grades.float() * 4 + cosines  # −1 is last
    return order.topk(LIST).indices


@cache
def lists_of(data: TextData) -> Tensor:
    """`hard_lists` of the untuned model."""
    return hard_lists(load(data), Model(load(data)))


def loss_of(
    method: str, search: Search, model: Model, queries: Tensor, lists: Tensor, generator: torch.Generator
) -> Tensor:
    """The loss of a batch of queries."""
    grades = search.grades[queries].float()
    if method == MNR:  # one document with a grade each, and some hard negatives; those of a batch are for all queries
        listed = grades.gather(1, lists[queries])
        draw = torch.rand(listed.shape, generator=generator)
        positives = (draw * (listed > 0)).argmax(1, keepdim=True)
        negatives = (draw * (listed == 0)).topk(NEGATIVES).indices
        candidates = lists[queries].gather(1, torch.cat([positives, negatives], 1)).T.flatten()
        own = torch.eye(len(queries), len(candidates))
        wrong = (grades[:, candidates] != 0) & (own == 0)  # another document with a grade is no negative
        return METHODS[method]((SCALE * model(search, queries, candidates)).masked_fill(wrong, NOWHERE), own)
    scores = SCALE * model(search, queries)
    if method.endswith(ALL):
        scores = scores.masked_fill(grades == LEFT_OUT, NOWHERE)
        return METHODS[method](scores, grades.clamp(min=0))
    return METHODS[method](scores.gather(1, lists[queries]), grades.gather(1, lists[queries]))


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train with every step size; measure on validation and test queries on the way."""
    search, lists = load(config.source), lists_of(config.source)
    training, *held_out = split(len(search.grades), config.seed)
    curves: list[list[list[float]]] = []  # by setting and checkpoint: validation NDCG@10, and every metric on test
    every = max(1, config.iterations // CHECKPOINTS)
    for setting in config.settings:
        model = Model(search)
        optimizer = torch.optim.AdamW(model.parameters(), setting.learning_rate, weight_decay=setting.weight_decay)
        generator = torch.Generator().manual_seed(config.seed)
        batches = passes(len(training), BATCH, torch.Generator().manual_seed(config.seed))
        curve = []
        for step in range(config.iterations + 1):
            if step and config.method in METHODS:
                optimizer.zero_grad()
                loss_of(config.method, search, model, training[next(batches)], lists, generator).backward()
                optimizer.step()
            if step % every == 0:
                trains = config.method in METHODS
                curve.append(_measured(config.method, search, model, held_out) if trains or not curve else curve[-1])
            done = len(curves) * (config.iterations + 1) + step + 1
            progress(done / len(config.settings) / (config.iterations + 1))
        curves.append(curve)
    by_curve = np.array(curves).transpose(2, 1, 0)
    return Result(*(tuple(map(tuple, curve.tolist())) for curve in by_curve))


@torch.no_grad()
def _measured(method: str, search: Search, model: Model, held_out: Sequence[Tensor]) -> list[float]:
    found = []
    for queries in held_out:
        scores = search.words[queries] if method == "BM25" else model(search, queries)
        found.append(measure(scores, search.grades[queries]))
    return [found[0][0], *found[1]]


def _chosen(run: Run) -> Choice:
    """The step size and the checkpoint with the highest NDCG@10 on validation queries."""
    return choose(run.result.validation, early_stopping=True)


def summarise(runs: Sequence[Run]) -> Summary:
    """The three metrics on test queries, and the differences to the losses on NDCG and AP."""
    found = {name: Outcomes() for name in METRICS}
    for run in runs:
        for name, curve in zip(METRICS, (run.result.ndcg, run.result.map, run.result.mrr), strict=True):
            config = run.config
            found[name].put(config.source.name, 0.0, config.method, Unit(config.seed), _chosen(run).value(curve))
    flat, tables, claims = [], [], []
    for name, outcomes in found.items():
        flat += records("text-search", f"test_{name}", outcomes)
        for ours in (method for method in METHODS if method.startswith(("NDCG", "AP"))):
            flat += [
                record._replace(metric=f"{ours} minus this, {name}")
                for record in difference_records("text-search", outcomes, ours)
            ]
    for variant in dict.fromkeys(run.config.source.name for run in runs):
        columns = {name: of_group(outcomes, variant) for name, outcomes in found.items()}
        note = "Mean ± standard deviation over seeds, which are folds of the queries."
        tables.append(methods_table(f"{variant}: test queries", columns, (*METHODS, *BASELINES), note))
        claims += _claims(variant, found)
    chosen = choices_table(
        "What was tried and chosen, on validation queries", [run for run in runs if run.config.method in METHODS],
        _chosen, dict.fromkeys(METHODS),
    )  # fmt: skip
    return Summary(flat, claims, [*tables, chosen], headline=_headline(tables), overview=tables)


def _claims(variant: str, found: dict[str, Outcomes]) -> list[Claim]:
    usual, claims = ("ListNet", "LambdaLoss", "RankNet", MNR), []
    for ours, name in (("NDCG", "NDCG@10"), ("AP", "MAP")):
        for says, method, others in (
            (f"A loss on {ours} has a higher {name} than the usual losses", ours, usual),
            (
                f"On all documents, a loss on {ours} has a higher {name} than the softmax",
                ours + ALL,
                (f"softmax{ALL}",),
            ),
            (f"On all documents, a loss on {ours} has a higher {name} than the usual losses", ours + ALL, usual),
            (f"A loss on {ours} on all documents raises the {name} of the untuned model", ours + ALL, ("untuned",)),
        ):
            compared = [found[name].compare(variant, 0.0, method, other, f"{method} − {other}") for other in others]
            claims.append(Claim(says, variant, compared, "ours"))
    return claims


def _headline(tables: Sequence[Table]) -> str:
    if not tables:
        return ""
    best = min((row for row, column in tables[0].best if column == 1), default=None)
    if best is None:
        return ""
    method, ndcg, *_ = tables[0].rows[best]
    return f"{method} has the highest NDCG@10 on test queries ({ndcg})."


STUDY = Study[DataOptions, TextData, Config, Result](
    name="text-search",
    title="Text search: a sentence model trained on its metric",
    about=(
        "MiniLM on the Cranfield collection: 225 queries, 1,400 documents, grades from 1 to 4. The last layer trains "
        "for queries, and a linear map for queries and documents, with AdamW in batches of 16 queries. Three fifths of "
        "the queries train, one fifth chooses step size and checkpoint by NDCG@10, one fifth tests. Lists have the "
        "relevant documents of a query and hard negatives, 64 together; with “all documents” a query ranks all."
    ),
    version=1,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
    beside=BASELINES,
)
