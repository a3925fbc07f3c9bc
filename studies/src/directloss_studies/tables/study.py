"""Does it help me? Losses on real tables, with right and with wrong labels, measured by AP on right ones.

Every method trains the same network with the same budget on the same rows, labels and batches. Nobody has right labels
to tune on: settings, where they are chosen at all, are chosen on labels that are as wrong as those of training.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from ..data.tables import ADBENCH, PROTEIN
from ..harness.progress import Progress, Steps, no_progress, no_steps
from ..harness.study import Study
from ..sweep import Curve, Setting, average_precisions
from .boosting import TREES, boost, installed
from .config import (
    ADAPTIVE,
    DECAYED,
    HUMAN,
    LENGTHS,
    NETWORKS,
    NOISES,
    OFFICIAL,
    PLAIN,
    PROTOCOLS,
    TOOLS,
    TUNED,
    Config,
    Noise,
    Part,
    Result,
    Source,
    TableOptions,
    Tried,
)
from .objectives import METHODS
from .sets import LEARN, Boundary, find, name_of, noisy, split
from .summary import summarise
from .tools import TOOLS as ALL_TOOLS
from .tools import fit
from .training import Rows, train

__all__ = ["STUDY", "configs", "prepare", "run"]

STEPS, BATCH, RATE = 100, 512, 0.005
"""Of the shortest training."""
DECAY, AVERAGE = 3.0, 0.02
"""Of decayed methods AdamW's weight decay, and the share of the newest weights in averaged ones."""
RATES = (0.002, 0.005)
MORE_RATES = (0.0003, 0.001, 0.002, 0.005, 0.01, 0.03)
"""Of tuned methods with and without a strength."""
TREES_AT_ONCE, TREE_RATE, LEAVES = 50, 0.1, 31.0
TREE_RATES, TRIED_LEAVES = (0.03, 0.1), (4.0, 8.0, 31.0)
SEEDS = 5
FAIR_METHODS = ("x-ent", "weighted x-ent", "GCE", "symmetric x-ent", "ELR", "pairwise sigmoid", "Smooth-AP", "SOAP",
                "x-ent → hinge-AP", "pos-AP", "x-ent → pos-AP", "x-ent → central-AP")  # fmt: skip
"""Of decayed and of adaptive runs: all that win somewhere without decay, and none that knows the noise."""
QUICK_METHODS = ("x-ent", "GCE", "pairwise sigmoid", "pos-AP", "x-ent → pos-AP")
HUMAN_METHODS = ("x-ent", "weighted x-ent", "GCE", "ELR", "pairwise sigmoid", "Smooth-AP", "hinge-AP", "pos-AP",
                 "x-ent → pos-AP")  # fmt: skip
"""On tables with labels that people gave."""
AVERAGED, WITH_TREES = (DECAYED, ADAPTIVE), (PLAIN, TUNED)
QUICK_NOISES = NOISES[:2]
QUICK_TABLES = ("Cardiotocography", "mammography", "satellite", "SpamBase")
TUNED_TABLES = ("annthyroid", "breastw", "Cardiotocography", "cover", "magic.gamma", "mammography", "satellite",
                "SpamBase")  # fmt: skip


def prepare(options: TableOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[Source, list[str]]:
    """Read the tables into the cache. The quick preset takes scikit-learn's if it gets none."""
    if options.protocol not in PROTOCOLS:
        raise ValueError(f"--protocol must be one of {', '.join(PROTOCOLS)}; got {options.protocol!r}.")
    if not _noises(options):
        kinds = dict.fromkeys(noise.kind for noise in _noises(replace(options, noise=None)))
        raise ValueError(f"--noise must be one of {', '.join(kinds)}; got {options.noise!r}.")
    if options.data is None:
        if options.preset != "quick":
            raise ValueError(
                "Name the folder with the tables: --data DIR. `directloss data tables --root DIR` gets them."
            )
        parts, notes = tuple(Part(name, "") for name in LEARN), []
    else:
        parts, notes = find(options.data)
    groups, more = _groups(options)
    return Source(options.protocol, parts, groups), [*notes, *more]


def _groups(options: TableOptions) -> tuple[tuple[str, ...], list[str]]:
    """The groups of methods that can run, and notes on those that cannot."""
    if options.protocol == TOOLS:
        return tuple(ALL_TOOLS), []
    if options.preset == "quick" or options.protocol not in WITH_TREES:
        return (NETWORKS,), []
    trees, notes = installed()
    return (NETWORKS, *trees), notes


def configs(options: TableOptions, source: Source | None = None) -> list[Config]:
    """Seed by seed, and there noise by noise, so that what is finished can be compared."""
    quick, protocol = options.preset == "quick", options.protocol
    if source is None:
        names = LEARN if quick else map(name_of, (*ADBENCH, PROTEIN))
        source = Source(options.protocol, tuple(Part(name, "") for name in names), _groups(options)[0])
    parts = source.parts
    if wanted := QUICK_TABLES if quick else TUNED_TABLES if protocol == TUNED else ():
        parts = tuple(part for part in parts if part.name in wanted) or parts[: len(wanted)]
    if protocol == TOOLS:  # which know no lists
        parts = tuple(part for part in parts if part.name != name_of(PROTEIN))
    noises = _noises(options)
    names = QUICK_METHODS if quick else FAIR_METHODS if protocol in AVERAGED else tuple(METHODS)
    human = dict.fromkeys(noise for part in parts for noise in _given(part) if noise.given)
    found = []
    for seed in range(options.seeds or (3 if quick else SEEDS)):
        for noise in (*noises, *human):
            for part in (part for part in parts if noise in (_given(part) or noises)):
                for group in source.groups:
                    mine = Source(source.protocol, (part,), (group,))
                    of_part = HUMAN_METHODS if part.given and names == tuple(METHODS) else names
                    methods = of_part if group == NETWORKS else (group,)
                    tried = tuple(Tried(method, _settings(method, protocol)) for method in methods)
                    longest = LENGTHS[-1] * (STEPS if group == NETWORKS else TREES_AT_ONCE)
                    found.append(Config(group, seed, noise, mine, longest, BATCH, tried))
    return found


def _noises(options: TableOptions) -> tuple[Noise, ...]:
    """Which wrong labels are asked for; tuned methods have symmetric ones only."""
    if options.preset == "quick":
        known = QUICK_NOISES
    else:
        known = tuple(n for n in NOISES if options.protocol != TUNED or n.kind == "symmetric")
    return tuple(noise for noise in known if options.noise in (None, noise.kind))


def _given(part: Part) -> tuple[Noise, ...]:
    """Of a table with labels that people gave: right labels, and these. None of other tables."""
    return (NOISES[0], *(Noise(HUMAN + name, 0.0) for name in part.given)) if part.given else ()


def _settings(method: str, protocol: str) -> tuple[Setting, ...]:
    """One, or six: three strengths times two step sizes; or six step sizes where there is no strength."""
    tuned = protocol == TUNED
    if method in ALL_TOOLS:
        leaves, rates = (1.0,), (1.0,)
    elif method in TREES:
        leaves, rates = (TRIED_LEAVES, TREE_RATES) if tuned else ((LEAVES,), (TREE_RATE,))
    elif not tuned:
        leaves, rates = (METHODS[method].default,), (RATE,)
    elif METHODS[method].strength is None:
        leaves, rates = (METHODS[method].default,), MORE_RATES
    else:
        leaves, rates = METHODS[method].tried, RATES
    decay = {DECAYED: DECAY, ADAPTIVE: 1.0}.get(protocol, 0.0)
    return tuple(Setting(strength, rate, decay) for strength in leaves for rate in rates)


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train all methods of a group; take AP on noisy validation and clean test data at every length."""
    (part,) = config.source.parts
    of = split(part, config.seed)
    first = max(1, config.iterations // LENGTHS[-1])
    steps = first if config.method == NETWORKS else STEPS
    train_rows, validation, facts = noisy(part, of, config.noise, config.seed, Boundary(steps, config.batch, RATE))
    moments = [min(config.iterations, first * length) for length in LENGTHS]
    found: dict[str, dict[str, list[tuple[float, ...]]]] = {}

    def record(method: str, model: Callable[[Tensor], Tensor]) -> None:
        on_validation, on_test = model(validation.inputs), model(of.test.inputs)
        measured = {"validation": _mean_ap(on_validation, validation), "test": _mean_ap(on_test, of.test)}
        if of.test.lists is not None:
            measured |= _official(on_test, of.test)
        for metric, values in measured.items():
            found.setdefault(metric, {}).setdefault(method, []).append(values)

    if config.method == NETWORKS:
        seconds = train(
            train_rows, config.settings, facts, batch=config.batch, moments=moments, seed=config.seed, record=record,
            callback=lambda step: progress(step / config.iterations),
            average=AVERAGE if config.source.protocol in AVERAGED else 1.0,
            held_out=validation if config.source.protocol == ADAPTIVE else None,
        )  # fmt: skip
    else:
        ((method, settings),) = config.tried
        begin = time.process_time()
        if method in ALL_TOOLS:
            model = fit(method, train_rows, validation, config.seed)
            for _ in moments:  # it trains as long as it likes
                record(method, model)
        else:
            boost(method, train_rows, settings, moments, config.seed, record)
        seconds = {method: round((time.process_time() - begin) / len(settings), 4)}
        progress(1.0)
    curves = {metric: {method: tuple(rows) for method, rows in of.items()} for metric, of in found.items()}
    official = {metric: curves[metric] for metric in OFFICIAL if metric in curves}
    order = tuple(config.settings)
    return Result(
        tuple(moments), _ordered(curves["validation"], order), _ordered(curves["test"], order), official,
        {name: seconds[name] for name in order},
    )  # fmt: skip


def _ordered(curves: Mapping[str, Curve], order: tuple[str, ...]) -> dict[str, Curve]:
    return {name: curves[name] for name in order}


def _lists(scores: Tensor, rows: Rows) -> list[tuple[Tensor, Tensor]]:
    """Scores (networks, items) and target (items,) of every list that has a positive."""
    if rows.lists is None:
        return [(scores, rows.target)]
    places = [(rows.lists == number).nonzero().squeeze(1) for number in rows.lists.unique()]
    return [(scores[:, place], rows.target[place]) for place in places if rows.target[place].any()]


def _mean_ap(scores: Tensor, rows: Rows) -> tuple[float, ...]:
    """The mean over lists."""
    values = torch.tensor([average_precisions(*one) for one in _lists(scores, rows)], dtype=torch.float64)
    return tuple(round(value, 6) for value in values.mean(0).tolist())


def _official(scores: Tensor, rows: Rows) -> dict[str, tuple[float, ...]]:
    """KDD Cup 2004's: the share of lists whose first is positive, the mean rank of the last positive, squared error.

    Of equal scores the negative comes first. The squared error is that of sigmoids, its root over lists' means.
    """
    first, last, error = [], [], []
    for some, target in _lists(scores.nan_to_num(-1e30, 1e30, -1e30), rows):
        lowest = some[:, target].min(1, keepdim=True).values
        last.append((some[:, ~target] >= lowest).sum(1) + int(target.sum()))
        first.append(some[:, target].max(1).values > some[:, ~target].max(1).values)
        error.append((some.sigmoid() - target.to(some.dtype)).square().mean(1).sqrt())
    means = (torch.stack(each).double().mean(0).tolist() for each in (first, last, error))
    return {name: tuple(round(value, 6) for value in each) for name, each in zip(OFFICIAL, means, strict=True)}


STUDY = Study[TableOptions, Source, Config, Result](
    name="tables",
    title="Does it help me? Real tables with wrong labels",
    about=(
        "A network with two hidden layers of 64 trains by Adam (step size 0.005, batches of 512) on half of the rows "
        "of a table, with every loss, for 100 steps (length 1×) to 800 steps (8×). Labels of training and validation "
        "are made wrong: flipped at random, positives missed, or flipped near the boundary of a network that knows the "
        "right ones. AP is on test rows with right labels. Methods share rows, wrong labels, first weights and "
        "batches. Untuned methods have one setting for all tables. Decayed ones also have weight decay 3, that of "
        "adaptive ones follows overfitting; these are measured with averaged weights. Tuned ones have six settings, "
        "chosen on noisy validation labels. An arrow means: a tenth of the shortest training by cross-entropy, then "
        "the loss. Gradient boosting is another model. Tools are classifiers as they come, on training and validation "
        "rows."
    ),
    version=1,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
)
