"""Action classification on PASCAL VOC2012 (the paper's Table 1): AP of ten actions after training on flipped labels."""

from functools import lru_cache
from itertools import product

import torch
from torch import Tensor

from ..data.label_noise import flip_labels
from ..data.voc import ACTIONS, read_actions
from ..harness.progress import Progress, Steps, no_progress, no_steps
from ..harness.study import Study
from ..linear_models import LINEAR_MODELS, SHARES, fit
from ..methods import WARM
from ..networks import Classifiers
from ..sweep import Setting, average_precisions, combinations, first_biases, grid, sweep
from ..vision.backbones import BACKBONES, cache_weights, cached_backbone, find_weights, load_weights
from .config import OWN, TRAINED, ActionsOptions, Config, Result, Source
from .features import CACHE, cache_labels, compute, read_labels
from .fine_tuning import tune
from .own_features import cache_own_features
from .summary import COSTLY, PAPER, summarise

__all__ = ["STUDY", "configs", "prepare", "run"]

STRENGTHS: dict[str, tuple[float, ...]] = {
    "pos-AP": (0.1, 1.0, 10.0, 100.0),
    WARM: (0.1, 1.0, 10.0, 100.0),
    "hinge-AP": (1.0, 10.0, 100.0, 1000.0),
    "x-ent": (0.1, 1.0, 10.0, 100.0),
    "neg-AP": (0.001, 0.01, 0.1, 1.0),
    "central-AP": (0.1, 1.0, 10.0, 100.0),
    "GCE": (0.3, 0.5, 0.7, 1.0),
    COSTLY: (0.1, 1.0, 10.0, 100.0),
}
RATES = (0.003, 0.03, 0.3)
STEPS = (0.0003, 0.001)
"""Step sizes where the network trains."""
PIXELS = 160
"""The side of a crop where all of the network trains: half of the time of a crop of full size."""
DECAYS = (0.0, 0.1, 1.0, 10.0)
FITTED = combinations(SHARES, (0.0,), (0.01, 0.1, 1.0, 10.0, 100.0))
"""Settings of scikit-learn's classifiers."""
LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4)
THE_PAPERS = ("alexnet", "squeezenet")
"""The paper's backbone, and one of its accuracy. Their study has other methods and settings than that of all others."""
EARLIER = ("pos-AP", "hinge-AP", "x-ent", "neg-AP", "central-AP")
FIRST = ("x-ent", "GCE", "hinge-AP", "pos-AP", WARM)
STAGES = (
    ("linear", ("x-ent", "hinge-AP", "pos-AP")),
    ("linear", LINEAR_MODELS),
    ("linear", ("GCE", WARM)),
    ("linear", ("central-AP", "neg-AP")),
    ("linear", (COSTLY,)),
    ("averaged linear", FIRST),
)
"""Heads and methods of a study on features of today, in the order in which they run."""
HEADS = {"linear": (256, 1), "averaged linear": (256, 1), "mlp": (128, 16, 1)}
"""Widths of the layers of a head: components of the features, hidden units, one score."""
AVERAGING = 0.97
"""In the mean weights of an averaged head, each iteration counts this much of the next one."""
COMPONENTS = max(widths[0] for widths in HEADS.values())


def prepare(options: ActionsOptions, jobs: int = 0, steps: Steps = no_steps) -> tuple[Source, list[str]]:
    """Read the devkit, fetch weights if none are given, compute features that are not in the cache."""
    train, backbone = options.train, options.network()
    if train not in TRAINED:
        raise ValueError(f"--train {train!r} is unknown. What can train: {', '.join(TRAINED)}.")
    root = options.devkit()
    if options.features is not None:
        if train != "head" or options.weights or options.backbone:
            raise ValueError("--features takes the place of a backbone: it goes with a head, without its weights.")
        actions = read_actions(root)
        name = f"{OWN}{options.features.stem[:40]}"
        return Source(name, train, cache_own_features(options.features, actions), cache_labels(actions), ""), []
    weights = find_weights(backbone, options.weights, steps)
    missing = load_weights(BACKBONES[backbone](), weights)
    notes = (
        [f"{weights.name} lacks {', '.join(missing)}: these start at random."] if missing and train != "head" else []
    )
    actions = read_actions(root)
    provenance = actions.provenance(steps("reading images"))
    kind = TRAINED[train]
    features = compute(actions, kind, backbone, weights, provenance, steps(f"{kind} of {len(actions)} boxes"))
    return Source(backbone, train, features, cache_labels(actions), cache_weights(CACHE, weights)), notes


def configs(options: ActionsOptions, source: Source | None = None) -> list[Config]:
    """The configurations of the options on a source. Without a source they can only be counted."""
    if options.train != "head":
        return _fine_tuned(options, source)
    backbone = source.backbone if source else options.network()
    if backbone not in THE_PAPERS:
        return _of_today(options, source)
    everything = backbone == "squeezenet" or options.preset == "quick"  # else the methods of the paper
    if options.preset == "paper":
        actions, levels, decays = tuple(ACTIONS), LEVELS, DECAYS
        heads = tuple(HEADS) if everything else ("linear",)
    else:
        actions, levels, decays, heads = ("ridinghorse",), (0.0, 0.2), (0.0, 0.1), ("linear",)
    grids = {method: grid(method, STRENGTHS[method], RATES, decays) for method in EARLIER}
    fitted = dict.fromkeys(LINEAR_MODELS, FITTED)
    costly = {COSTLY: grid(COSTLY, STRENGTHS[COSTLY][:3], RATES[1:], (0.1,))}
    few = {method: grids[method] for method in PAPER}
    found = []
    for seed, action, head, noise in product(range(options.seeds or 3), actions, heads, levels):
        if head == "mlp":  # takes four times as long as a linear head
            chosen = few if noise in levels[::2] else {}
        else:
            chosen = grids | (costly if head == "linear" and noise in levels[::2] else {}) if everything else few
            chosen = chosen | fitted if head == "linear" else chosen
        for method, settings in chosen.items():
            found.append(Config(method, seed, noise, action, head, source, None, 300, settings))
    return found


def _of_today(options: ActionsOptions, source: Source | None) -> list[Config]:
    """All methods with as many settings; what is finished at any time is a comparison of some heads on some seeds."""
    paper = options.preset == "paper"
    actions, levels = (tuple(ACTIONS), LEVELS) if paper else (("ridinghorse",), (0.0, 0.2))
    return [
        Config(method, seed, noise, action, head, source, None, 300, _settings(method))
        for head, methods in (STAGES if paper else STAGES[:3])
        for seed in range(options.seeds or (5 if paper else 3))
        for action in actions
        for noise in levels
        for method in methods
        if method != COSTLY or noise in levels[::2]
    ]


def _settings(method: str) -> tuple[Setting, ...]:
    return FITTED if method in LINEAR_MODELS else grid(method, STRENGTHS[method], RATES, DECAYS)


def _fine_tuned(options: ActionsOptions, source: Source | None) -> list[Config]:
    """With fine-tuning. The paper preset is one action, as long as two cores can bear. The quick one is a trial."""
    if options.preset == "paper":
        action, levels, rates, seeds = "jumping", (0.0, 0.2), STEPS, 3
        items, iterations, batch, pixels = None, 60, 128, PIXELS if options.train == "all" else None
    else:
        action, levels, rates, seeds = "ridinghorse", (0.0,), (0.001,), 1
        items, iterations, batch, pixels = 64, 10, None, None
    settings = tuple(Setting(1.0, rate, 1e-4) for rate in rates)
    return [
        Config(method, seed, noise, action, "linear", source, items, iterations, settings, batch, pixels)
        for seed in range(options.seeds or seeds)
        for noise in levels
        for method in PAPER
    ]


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Train on flipped labels. Validation labels are used clean and flipped at the same rate; test labels are clean."""
    if config.source is None:
        raise ValueError("Name the data: directloss reproduce actions --root DEVKIT --weights FILE.")
    labels = read_labels(config.source.labels, config.action)
    thirds, generator = _thirds(config, labels)
    does = labels == 1
    noisy = {name: flip_labels(does[thirds[name]], config.noise, generator) for name in ("train", "validation")}
    targets = {
        "train": (thirds["train"], noisy["train"]),
        "validation": (thirds["validation"], does[thirds["validation"]]),
        "noisy_validation": (thirds["validation"], noisy["validation"]),
        "test": (thirds["test"], does[thirds["test"]]),
    }
    if config.source.train != "head":
        backbone = cached_backbone(CACHE, config.source.backbone, config.source.weights, config.seed)
        rows = CACHE.array(config.source.features)
        whole = config.source.train == "all"
        return tune(
            config.method, config.settings, backbone, rows, whole, targets, config.iterations, config.seed, progress,
            config.batch, config.pixels,
        )  # fmt: skip
    inputs = _components(config.source.features, tuple(thirds["train"].tolist()))
    wanted, *others = HEADS[config.head]
    parts = {name: inputs[places, :wanted] for name, places in thirds.items()}
    sets = {name: (parts[name.removeprefix("noisy_")], target) for name, (_, target) in targets.items()}
    widths = min(wanted, inputs.shape[1]), *others
    share = sets["train"][1].float().mean().item()
    biases = first_biases(config.method, config.settings, share)
    heads = Classifiers(widths, biases, torch.Generator().manual_seed(config.seed))
    if config.method in LINEAR_MODELS:
        return _fitted(config, heads, sets, progress)
    return sweep(
        Result, config.method, config.settings, heads, sets, iterations=config.iterations, optimizer="momentum",
        averaging=AVERAGING if config.head.startswith("averaged") else 0.0, progress=progress,
    )  # fmt: skip


def _fitted(config: Config, heads: Classifiers, sets: dict[str, tuple[Tensor, Tensor]], progress: Progress) -> Result:
    """Of scikit-learn's classifiers, which have no checkpoints but the last."""
    with torch.no_grad():
        heads.weights.copy_(fit(config.method, config.settings, *sets["train"], progress))
        curves = {name: (tuple(average_precisions(heads(rows), target)),) for name, (rows, target) in sets.items()}
    return Result(iterations=(config.iterations,), dead=(0.0,) * len(config.settings), **curves)


def _thirds(config: Config, labels: Tensor) -> tuple[dict[str, Tensor], torch.Generator]:
    """The listed boxes of the action, shuffled and cut into three parts; and the generator of the noise."""
    listed = labels.nonzero().squeeze(1)
    generator = torch.Generator().manual_seed(1000 * list(ACTIONS).index(config.action) + config.seed)
    order = listed[torch.randperm(len(listed), generator=generator)]
    names: list[str] = ["train", "validation", "test"]
    thirds = dict(zip(names, order.tensor_split(3), strict=True))
    if config.items is not None:
        for name, places in thirds.items():
            halves = (places[labels[places] == label][: config.items // 2] for label in (1, -1))
            thirds[name] = torch.cat(list(halves))
    return thirds, generator


@lru_cache(maxsize=2)
def _components(features: str, train: tuple[int, ...]) -> Tensor:
    """Features of all boxes in the coordinates in which the training set varies most; the mean of both mirror images.

    Gradient descent on a linear head is the same in rotated coordinates. So only the directions of least variance are
    lost, and training is several times faster. Nothing is learned here from validation or test boxes.
    """
    rows = torch.from_numpy(CACHE.array(features)[:].astype("float32")).mean(1)
    rows /= rows.norm(dim=1, keepdim=True).clamp_min(1e-6)
    rows -= rows[list(train)].mean(0)
    known = rows[list(train)]
    values, vectors = torch.linalg.eigh(known @ known.T)
    values, vectors = values.flip(0)[:COMPONENTS].clamp_min(1e-9), vectors.flip(1)[:, :COMPONENTS]
    found = rows @ (known.T @ (vectors / values.sqrt()))
    return found / (values.sum() / found[list(train)].numel()).sqrt()  # one scale for all coordinates


STUDY = Study(
    name="actions",
    title="VOC2012 action classification (Table 1)",
    about=(
        "Ten actions of people in PASCAL VOC2012, one task each: train and validation boxes shuffled and cut into "
        "thirds for training, validation and test, a share of the training labels flipped, 300 iterations with the "
        "whole training set as one batch, AP on clean test boxes."
    ),
    version=2,
    configs=configs,
    run=run,
    summarise=summarise,
    prepare=prepare,
)
