"""Synthetic data (the paper's Figure 3a): nine methods learn to rank like a random network."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import NamedTuple

import torch

from .data.synthetic import ranked_by_teacher
from .harness import study as harness
from .harness.options import Options
from .harness.progress import Progress, no_progress
from .harness.study import Claim, Comparison, Figure, Study, Summary, Table
from .methods import PLAIN, PLAIN_NOTE
from .networks import Networks
from .report.figures import bars, curves_of, lines, slug
from .report.outcomes import Outcomes, Unit, difference_records, records
from .report.summary import choices_table, collect, methods_table, of_group, with_plain
from .report.takeaway import headline
from .sweep import Choice, Curves, Setting, choose, grid, sweep

__all__ = ["STUDY", "Config", "Result", "configs", "run", "summarise"]

METHODS = ("pos-AP", "neg-AP", "hinge-AP", "per-AP", "pos-01", "neg-01", "hinge-01", "per-01", "x-ent")
STRENGTHS: dict[str, tuple[float, ...]] = {
    "pos-AP": (0.1, 1.0, 10.0),
    "neg-AP": (0.001, 0.01, 0.1),
    "hinge-AP": (10.0, 100.0, 1000.0),
    "per-AP": (1.0, 1.0, 1.0),
    "pos-01": (0.1, 1.0, 10.0),
    "neg-01": (1.0, 10.0, 100.0),
    "hinge-01": (1.0, 10.0, 100.0),
    "per-01": (1.0, 1.0, 1.0),
    "x-ent": (1.0, 0.1, 0.01),
}
DEAD = "An iteration is dead if the gradient is zero at every score, so that nothing is learnt from it."
RATES = (0.01, 0.03, 0.1)
WIDTHS = (10, 10, 10, 10, 1)
BATCH = 512


class Variant(NamedTuple):
    """How the student starts, and the size of its batches."""

    start: str
    batch: int | None
    """None: all samples at once."""

    @property
    def batches(self) -> str:
        """The size of batches in words."""
        return "full batch" if self.batch is None else f"batches of {self.batch}"

    @property
    def name(self) -> str:
        """In tables and published records."""
        return f"{'N(0,1)' if self.start == 'normal' else 'He'}, {self.batches}"

    @property
    def figure(self) -> str:
        """The name of its figure."""
        return slug("synthetic", self.start, "start", self.batches)


VARIANTS = tuple(Variant(start, batch) for batch in (None, BATCH) for start in ("normal", "he"))


@dataclass(frozen=True)
class Config:
    """One method on one teacher, with all its settings."""

    method: str
    seed: int
    initialisation: str
    batch: int | None
    samples: int
    iterations: int
    settings: tuple[Setting, ...]

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.method}, {self.variant.name}, teacher {self.seed}"

    @property
    def variant(self) -> Variant:
        """What is varied beside method and teacher."""
        return Variant(self.initialisation, self.batch)


@dataclass(frozen=True)
class Result(Curves):
    """AP on the training and the test set."""


Run = harness.Run[Config, Result]


def configs(options: Options, source: None = None) -> list[Config]:
    """The paper preset takes about 45 minutes on two cores, the quick one about half a minute.

    The quick preset has the paper's start and full batches only, fewer samples and iterations, and only the smallest
    and the largest step size. It has the nine methods, all strengths and ten teachers.
    """
    if options.preset == "paper":
        samples, rates, variants, full, mini = 20_000, RATES, VARIANTS, 500, 2000
    else:
        samples, rates, variants, full, mini = 4000, RATES[::2], VARIANTS[:1], 150, 300
    ordered = sorted(variants, key=lambda variant: variant.start != "normal")  # the order of runs
    return [
        Config(
            method, seed, variant.start, variant.batch, samples, full if variant.batch is None else mini,
            grid(method, STRENGTHS[method], rates, (0.0, 0.1)),
        )
        for seed in range(options.seeds or 10)
        for variant in ordered
        for method in METHODS
    ]  # fmt: skip


def run(config: Config, progress: Progress = no_progress) -> Result:
    """Half of the data trains, half tests; teacher, student and batches have generators of their own."""
    teacher, student, batches = (torch.Generator().manual_seed(3 * config.seed + k) for k in range(3))
    inputs, target = ranked_by_teacher(config.samples, teacher)
    half = config.samples // 2
    return sweep(
        Result, config.method, config.settings,
        Networks(len(config.settings), WIDTHS, config.initialisation, student),
        {"train": (inputs[:half], target[:half]), "test": (inputs[half:], target[half:])},
        iterations=config.iterations, batch=config.batch, generator=batches, progress=progress,
    )  # fmt: skip


def _chosen(run: Run) -> Choice:
    return choose(run.result.train)


def _place(config: Config) -> tuple[str, float]:
    """Variant and noise: there is none."""
    return config.variant.name, 0.0


def summarise(runs: Sequence[Run]) -> Summary:
    """The setting of highest training AP at the end, for every run; its test AP at the end and on the way."""
    test = collect(with_plain(runs), _place, lambda run: _chosen(run).value(run.result.test))
    train = collect(runs, _place, lambda run: _chosen(run).value(run.result.train))
    dead = collect(runs, _place, lambda run: mean(run.result.dead))
    on_the_way = _by_iteration(runs)
    variants = [variant for variant in VARIANTS if any(run.config.variant == variant for run in runs)]
    flat = [
        *records("synthetic", "test_ap", test),
        *records("synthetic", "train_ap", train),
        *records("synthetic", "dead_gradients", dead),
        *difference_records("synthetic", test),
    ]
    for iteration, outcomes in on_the_way.items():
        flat += records("synthetic", f"test_ap@{iteration}", outcomes)
    spread = "± standard deviation over teachers."
    main = _table("Test AP at the end of training", test, (*METHODS, PLAIN), variants, f"Mean {spread} {PLAIN_NOTE}")
    shares = _table("Share of dead iterations", dead, METHODS, variants, f"{DEAD} Mean over settings, {spread}")
    title = "What was tried and chosen, by AP on the training set at the end of training"
    tables = [main, replace(shares, best=()), choices_table(title, runs, _chosen)]
    words = ""
    if variants:
        where = f"With clean labels ({variants[0].name})"
        words = headline(test, variants[0].name, 0.0, (*METHODS, PLAIN), where)
    return Summary(
        flat,
        list(_claims(test, variants)),
        tables,
        lambda: _figures(on_the_way, dead, variants),
        words,
        [main],
    )


def _by_iteration(runs: Iterable[Run]) -> dict[int, Outcomes]:
    """Test AP of the chosen setting at every checkpoint."""
    by_iteration: dict[int, Outcomes] = {}
    for run in runs:
        settings = _chosen(run).settings
        for place, iteration in enumerate(run.result.iterations):
            value = Choice(place, settings).value(run.result.test)
            at = by_iteration.setdefault(iteration, Outcomes())
            at.put(*_place(run.config), run.config.method, Unit(run.config.seed), value)
    return by_iteration


def _table(title: str, outcomes: Outcomes, methods: Sequence[str], variants: Sequence[Variant], note: str) -> Table:
    return methods_table(title, {of.name: of_group(outcomes, of.name) for of in variants}, methods, note)


def _figures(on_the_way: Mapping[int, Outcomes], dead: Outcomes, variants: Sequence[Variant]) -> list[Figure]:
    drawn = []
    for variant in variants:
        shown = curves_of(
            METHODS,
            lambda method, of=variant.name: {x: at.values(of, 0.0, method) for x, at in on_the_way.items()},
        )
        title = f"Test AP against iterations: {variant.name}"
        drawn.append(lines(variant.figure, title, shown, "iteration", "AP on test data"))
    groups = {
        variant.name: {method: mean(values) for method in METHODS if (values := dead.values(variant.name, 0.0, method))}
        for variant in variants
    }
    title = "Share of iterations without a gradient at any score, mean over settings and teachers"
    drawn.append(bars(slug("synthetic dead iterations"), title, groups, "share of dead iterations"))
    return drawn


def _claims(test: Outcomes, variants: Sequence[Variant]) -> Iterator[Claim]:
    def beats(variant: Variant, pairs: Iterable[tuple[str, str]]) -> list[Comparison]:
        return [test.compare(variant.name, 0.0, ours, other, f"{ours} − {other}") for ours, other in pairs]

    everybody = [("pos-AP", other) for other in METHODS if other != "pos-AP"]
    on_ap = [(f"{update}-AP", f"{update}-01") for update in ("pos", "neg", "hinge", "per")]
    for says, pairs in (
        ("pos-AP reaches a higher test AP than all other methods", everybody),
        ("Training on AP beats training on the 0-1 loss, update by update", on_ap),
        ("The positive update beats the negative one", [("pos-AP", "neg-AP")]),
    ):
        for variant in variants:
            yield Claim(says, variant.name, beats(variant, pairs))
    for other in ("x-ent", PLAIN):
        for batch in (None, BATCH):
            normal, he = Variant("normal", batch), Variant("he", batch)
            if normal in variants and he in variants:
                says = f"pos-AP gains more over {other} from the N(0,1) start than from He's"
                yield Claim(says, normal.batches, [_gain(test, other, normal, he)], "ours")


def _gain(test: Outcomes, other: str, normal: Variant, he: Variant) -> Comparison:
    """How much more pos-AP gains over another method from one start than from the other."""
    margins = Outcomes()
    for variant in (normal, he):
        ours, theirs = (test.units(variant.name, 0.0, method) for method in ("pos-AP", other))
        for unit in ours.keys() & theirs.keys():
            margins.put("gain", 0.0, variant.name, unit, ours[unit] - theirs[unit])
    return margins.compare("gain", 0.0, normal.name, he.name, "gain from N(0,1) − gain from He")


STUDY = Study[Options, None, Config, Result](
    name="synthetic",
    title="Synthetic data (Figure 3a)",
    about=(
        "A random ReLU network with four layers and N(0,1) weights, the teacher, scores 20,000 Gaussian points in ten "
        "dimensions (4,000 in the quick preset). The top 20 % are positive. Half of the points train, half test. A "
        "network of the same shape starts from other random weights and trains with each of the paper's nine methods. "
        "Every method has the same number of settings to choose from."
    ),
    version=1,
    configs=configs,
    run=run,
    summarise=summarise,
)
