"""Each metric by its own loss, measured by every metric: does training on a metric win on that metric?

The paper trains on AP and says that the framework is general. Here networks train on six metrics by direct loss and on
the usual losses, and every one is measured by all six.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from directloss import NDCG, ROCAUC, AveragePrecision, FMeasure, PartialAUC, PrecisionAtK, Task

from ..harness.options import DataOptions
from ..harness.progress import Progress, Steps, no_progress, no_steps
from ..harness.study import Study
from ..networks import Heads
from ..sweep import Setting, combinations
from ..trainers import train
from .boosting import MISSING, Model, boost, is_installed
from .config import AT_ZERO, METRICS, Config, Part, Result, Source
from .lists import Lists
from .metrics import measure
from .objectives import DIRECT, FALLING, OTHERS, Objective, direct, falling
from .sets import MADE, SETS, Set, find, split
from .summary import BOOSTED, summarise

__all__ = ["STUDY", "configs", "prepare", "run"]

FIRST_SEED = 10
"""Version 1 of the study had the seeds from 0 to 4."""
EPSILONS = (1.0, 10.0, 100.0)
STRENGTHS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys((*DIRECT.values(), *FALLING.values()), EPSILONS),
    "BCE": (1.0, 3.0, 10.0),
    "RankNet": (0.01, 0.1, 1.0),
    "ListNet": (0.3, 1.0, 3.0),
    "LambdaRank": (0.01, 0.1, 1.0),
    "ApproxNDCG": (0.1, 1.0, 10.0),
    BOOSTED: (2.0, 4.0, 8.0),
}
RATES = (0.01, 0.03, 0.1)
TREE_RATES = (0.05, 0.1, 0.2)
DECAYS = (0.0, 1.0)
TREE_DECAYS = (0.0, 10.0)
RANKING = ("RankNet", "ListNet", "LambdaRank", "ApproxNDCG", BOOSTED)
"""Methods that need lists: they are tried on queries only."""
QUICK = ("annthyroid", "lambdarank", *MADE)
"""The sets of the quick preset."""
CHECKPOINTS = 10


def prepare(options: DataOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[Source, list[str]]:
    """Read the data into the cache. The quick preset makes its own if it gets none."""
    if options.data is None:
        if options.preset != "quick":
            raise ValueError(
                "Name the folder with the data: --data DIR. docs/studies/own-metric.md says what it holds."
            )
        return Source(tuple(Part(name, "") for name in MADE)), []
    source, notes = find(options.data)
    if options.preset == "paper" and not is_installed():
        notes.append(f"{MISSING} Its runs will fail; the others do not need it.")
    return source, notes


def configs(options: DataOptions, source: Source | None = None) -> list[Config]:
    """The paper preset takes about twenty minutes on one core, the quick one less than a minute.

    Small sets come first, and each is a source of its own: a stopped run has whole sets, and one more changes none.
    """
    paper = options.preset == "paper"
    every, iterations, seeds = (1, 300, 5) if paper else (2, 60, 3)
    sources = (
        {part.name: Source((part,)) for part in source.parts} if source else dict.fromkeys(SETS if paper else MADE)
    )
    methods = [method for method in STRENGTHS if paper or method != BOOSTED]  # quick needs no more packages
    found = []
    for name in sources if paper else (name for name in sources if name in QUICK):
        of = (SETS | MADE)[name]
        for seed in range(FIRST_SEED, FIRST_SEED + (options.seeds or seeds)):
            for method in methods:
                if method not in RANKING or not of.is_table:
                    found.append(Config(method, seed, name, sources[name], iterations, _grid(method, every)))
    return found


def _grid(method: str, every: int) -> tuple[Setting, ...]:
    rates, decays = (TREE_RATES, TREE_DECAYS) if method == BOOSTED else (RATES, DECAYS)
    return combinations(STRENGTHS[method][::every], rates[::every], decays[::every])


def _tasks(of: Set) -> dict[str, Task]:
    """The metrics as tasks."""
    found = AveragePrecision(), ROCAUC(), PartialAUC(of.max_fpr), NDCG(10), PrecisionAtK(of.k), FMeasure()
    return dict(zip(METRICS, found, strict=True))


def objective(of: Set, method: str, iterations: int) -> Objective:
    """What a method trains on, on a set of data."""
    for metric, name in FALLING.items():
        if method == name:
            return falling(metric, 10 if metric.startswith("NDCG") else of.k, iterations)
    for metric, name in DIRECT.items():
        if method == name:
            return direct(_tasks(of)[metric], graded=metric.startswith("NDCG"))
    return OTHERS[method]


@lru_cache(maxsize=2)
def _parts(name: str, key: str, seed: int) -> tuple[Lists, Lists, Lists]:
    return split((SETS | MADE)[name], key, seed)


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train with all settings side by side; take every metric at ten checkpoints."""
    if config.source is None:
        raise ValueError("Name the folder with the data: directloss reproduce own-metric --data DIR.")
    of = (SETS | MADE)[config.data]
    train_lists, validation, test = _parts(config.data, config.source.key(config.data), config.seed)
    tasks = {name: task for name, task in _tasks(of).items() if name != "F1"}
    found: list[list[dict[str, tuple[float, ...]]]] = []
    step = max(1, config.iterations // CHECKPOINTS)
    moments = sorted({*range(step, config.iterations + 1, step), config.iterations})

    def record(model: Model) -> None:
        first, second = (each.pad(model(each.inputs), torch.arange(len(each.grades))) for each in (validation, test))
        measured = measure(first, second, tasks)
        found.append([{name: _rounded(values) for name, values in each.items()} for each in measured])

    if config.method == BOOSTED:
        boost(train_lists, config.settings, moments, config.seed, record, progress)
        dead = torch.zeros(len(config.settings))
    else:
        dead = _train(config, of, train_lists, moments, record, progress)
    curves = ({name: tuple(each[part][name] for each in found) for name in (*METRICS, AT_ZERO)} for part in range(2))
    return Result(tuple(moments), *curves, dead=_rounded(dead))


def _rounded(values: Tensor) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in values.clamp(0, 1).tolist())


def _train(
    config: Config,
    of: Set,
    lists: Lists,
    moments: Sequence[int],
    record: Callable[[Model], None],
    progress: Progress,
) -> Tensor:
    """Train a network with every setting; return the shares of iterations without a gradient."""
    generator = torch.Generator().manual_seed(1000 + config.seed)
    networks = Heads(len(config.settings), (lists.inputs.shape[1], *of.hidden, 1), "he", generator)
    networks.decayed = torch.arange(len(networks.sizes)).repeat_interleave(torch.tensor(networks.sizes)) % 2 == 0
    strengths, rates, decays = (
        torch.tensor(column, dtype=torch.float64) for column in zip(*config.settings, strict=True)
    )
    loss = objective(of, config.method, config.iterations).loss

    def callback(iteration: int) -> None:
        if iteration in moments:
            with torch.no_grad():
                record(networks)
        progress(iteration / config.iterations)

    return train(
        networks, lambda scores, items: loss(lists.pad(scores, items), strengths), lists.inputs,
        torch.arange(len(lists.grades)), learning_rates=rates.float(), weight_decays=decays.float(),
        iterations=config.iterations, batches=lists.batches(of.batch, generator), callback=callback,
    )  # fmt: skip


STUDY = Study[DataOptions, Source, Config, Result](
    name="own-metric",
    title="Each metric by its own loss",
    about=(
        "Networks train on six metrics by direct loss (central update), on cross-entropy, and on queries also on the "
        "usual losses of learning to rank; LambdaMART is LightGBM's boosted trees. With a falling k, "
        "the k of NDCG@10 or P@k falls from half of the list. All are measured by all six "
        "metrics. Two tables with few positives are cut into thirds, two sets of queries into three fifths, one and "
        "one. Every method has as many settings. Setting and checkpoint are chosen on validation data by the metric of "
        "the column."
    ),
    version=2,
    first_seed=FIRST_SEED,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
)
