"""Real tables: every loss with the same regularisation and the same stopping, and what a user would take instead."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any

from .numbers import BLOCKS, Key, as_table, block, select, with_error

__all__ = ["COLUMNS", "OURS", "bars", "by_table", "shown"]

COLUMNS = (
    ("right labels", "symmetric", 0.0),
    ("20 % flipped", "symmetric", 0.2),
    ("40 % flipped", "symmetric", 0.4),
    ("half of the positives missing", "missing positives", 0.5),
    ("20 % flipped near the boundary", "near the boundary", 0.2),
)
PLAIN, DECAYED, ADAPTIVE, TOOLS = "untuned", "decayed", "adaptive", "tools"
LONG, EARLY = "8×", "stopped early"
REGIMES = {
    "plain": (PLAIN, LONG), "plain, stopped": (PLAIN, EARLY), "decay 3": (DECAYED, LONG),
    "decay 3, stopped": (DECAYED, EARLY), "adaptive": (ADAPTIVE, LONG), "adaptive, stopped": (ADAPTIVE, EARLY),
}  # fmt: skip
OURS = "pos-AP", ADAPTIVE, EARLY
METHODS = ("x-ent", "weighted x-ent", "GCE", "symmetric x-ent", "ELR", "pairwise sigmoid", "Smooth-AP", "SOAP",
           "x-ent → hinge-AP", "pos-AP", "x-ent → pos-AP", "x-ent → central-AP")  # fmt: skip
DIRECT = tuple(method for method in METHODS if method.endswith(("hinge-AP", "pos-AP", "central-AP")))
TREES, ESTIMATORS = (
    ("LightGBM logloss",),
    ("LogisticRegression", "MLPClassifier", "LGBMClassifier", "DirectLossClassifier"),
)


def by_table(method: str, protocol: str, length: str, kind: str, noise: float) -> dict[str, float]:
    """Test AP of every table, the mean over seeds."""
    name = "tables" if protocol == PLAIN else "regimes"
    variant = f"{protocol}, {kind}, {length}"
    found = select(name, variant=variant, method=method, noise=noise, metric="test_ap")
    return {key.class_: record["mean"] for key, record in found.items() if key.class_ is not None}


def _mean(method: str, protocol: str, length: str, kind: str, noise: float) -> float | None:
    """Over all tables."""
    name = "tables" if protocol == PLAIN else "regimes"
    found = select(name, variant=f"{protocol}, {kind}, {length}", method=method, noise=noise, metric="test_ap")
    return next((record["mean"] for key, record in found.items() if key.class_ is None), None)


def shown(rows: Mapping[str, tuple[str, str, str]], corner: str) -> str:
    """A table of means: a row is a method in a regime; the highest of a column is bold."""
    means = {name: [_mean(*of, kind, noise) for _, kind, noise in COLUMNS] for name, of in rows.items()}
    best = [max((some[k] or 0.0 for some in means.values()), default=0.0) for k in range(len(COLUMNS))]
    cells = [
        [name, *("–" if value is None else f"**{value:.3f}**" if value == best[k] else f"{value:.3f}"
                 for k, value in enumerate(some)),
         "–" if None in some else f"{fmean(value or 0.0 for value in some):.3f}"]
        for name, some in means.items()
    ]  # fmt: skip
    return as_table([corner, *(words for words, *_ in COLUMNS), "mean"], cells)


@block
def regimes_short() -> str:
    """What people do, what they could do, and what we do."""
    rows = {
        "cross-entropy, as most people train it": ("x-ent", PLAIN, LONG),
        "the same, stopped early": ("x-ent", PLAIN, EARLY),
        "cross-entropy, decay 3, stopped early": ("x-ent", DECAYED, EARLY),
        "cross-entropy, adaptive decay, stopped early": ("x-ent", ADAPTIVE, EARLY),
        "symmetric cross-entropy, adaptive decay, stopped early": ("symmetric x-ent", ADAPTIVE, EARLY),
        "pos-AP, adaptive decay, stopped early": OURS,
        "LightGBM, stopped early": ("LightGBM logloss", PLAIN, EARLY),
    }
    return shown(rows, "mean test AP of 29 tables")


@block
def regimes_estimators() -> str:
    """Classifiers as they come."""
    return shown({name: (name, TOOLS, LONG) for name in ESTIMATORS}, "28 tables of one list, one seed")


def _rivals() -> dict[str, tuple[str, str, str]]:
    """What is not ours: all other losses in all regimes, and gradient boosting stopped early."""
    found = {
        f"{method}, {regime}": (method, *of)
        for method in METHODS if method not in DIRECT
        for regime, of in REGIMES.items()
    }  # fmt: skip
    return found | {"LightGBM, stopped": ("LightGBM logloss", PLAIN, EARLY)}


@block
def regimes_first() -> str:
    """By kind of labels: the best rival, ours, paired differences to it and to cross-entropy, and the worst table."""
    rows = []
    for words, kind, noise in COLUMNS:
        mine = by_table(*OURS, kind, noise)
        means = {name: _mean(*of, kind, noise) for name, of in _rivals().items()}
        rival = max(means, key=lambda name: means[name] or 0.0)
        theirs, fair = by_table(*_rivals()[rival], kind, noise), by_table("x-ent", ADAPTIVE, EARLY, kind, noise)
        if not theirs:  # tables.json has early stopping by mean only
            continue
        gains = {name: mine[name] - theirs[name] for name in mine}
        worst = min(gains, key=lambda name: gains[name])
        rows.append([
            words, f"{rival} {fmean(theirs.values()):.3f}", f"{fmean(mine.values()):.3f}",
            with_error(list(gains.values()), "+"), with_error([mine[name] - fair[name] for name in mine], "+"),
            f"{worst} {gains[worst]:+.3f}".replace("-", "−"),
        ])  # fmt: skip
    header = [
        "labels",
        "the best rival",
        "pos-AP, adaptive, stopped",
        "− the rival",
        "− x-ent, adaptive, stopped",
        "worst table",
    ]
    return as_table(header, rows)


BARS: dict[
    str, tuple[tuple[str, str, str], str]
] = {  # what the figure shows: rows of records, and a colour (Okabe and Ito's)
    "cross-entropy, as most people train it": (("x-ent", PLAIN, LONG), "#BBBBBB"),
    "cross-entropy, adaptive decay, stopped early": (("x-ent", ADAPTIVE, EARLY), "#009E73"),
    "LightGBM, stopped early": (("LightGBM logloss", PLAIN, EARLY), "#56B4E9"),
    "pos-AP, adaptive decay, stopped early": (OURS, "#0072B2"),
    "DirectLossClassifier, as it comes": (("DirectLossClassifier", TOOLS, LONG), "#E69F00"),
}


def _of_shared(of: tuple[str, str, str], kind: str, noise: float) -> float:
    """The mean over the tables that the estimators have too."""
    shared = by_table(ESTIMATORS[-1], TOOLS, LONG, kind, noise)
    return fmean(value for table, value in by_table(*of, kind, noise).items() if table in shared)


def bars() -> Any:
    """Mean test AP by kind of labels."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.4, 4.0), layout="constrained")
    width = 0.8 / len(BARS)
    for place, (name, (of, color)) in enumerate(BARS.items()):
        values = [_of_shared(of, kind, noise) for _, kind, noise in COLUMNS]
        at = [k + (place - (len(BARS) - 1) / 2) * width for k in range(len(COLUMNS))]
        drawn = axis.bar(at, values, width, label=name, color=color)
        axis.bar_label(drawn, [f"{value:.2f}".lstrip("0") for value in values], fontsize=7, padding=1)
    axis.set_xticks(range(len(COLUMNS)), [words.replace(" positives", "\npositives").replace(" near", "\nnear")
                                          for words, *_ in COLUMNS])  # fmt: skip
    axis.set(ylabel="test AP, mean of 28 tables", ylim=(0, 0.95))
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return figure


def _of_regime(regime: str) -> str:
    protocol, length = REGIMES[regime]
    return shown({method: (method, protocol, length) for method in METHODS}, regime)


@block
def regimes_runs() -> str:
    """How many tables and seeds there are of each regime."""
    parts = []
    for protocol, method in ((DECAYED, "x-ent"), (ADAPTIVE, "x-ent"), (TOOLS, "DirectLossClassifier")):
        each = []
        for words, kind, noise in COLUMNS:
            variant = f"{protocol}, {kind}, {LONG}"
            found = select("regimes", variant=variant, method=method, noise=noise, metric="test_ap")
            seeds = sorted({record["n"] for key, record in found.items() if key.class_ is not None})
            tables = sum(key.class_ is not None for key in found)
            each.append(f"{words} {tables} tables × {'–'.join(map(str, seeds))} seeds")
        parts.append(f"{protocol}: " + ", ".join(each))
    return "; ".join(parts)


@block
def choose_this_if() -> str:
    """Where the loss wins and where something else does, in six lines; the strongest rivals stand in them."""

    def ap(method: str, protocol: str, length: str, column: int) -> str:
        return f"{_of_shared((method, protocol, length), *COLUMNS[column][1:]):.3f}"

    def tool(name: str, column: int) -> str:
        return ap(name, TOOLS, LONG, column)

    fair, right, flipped = ("x-ent", ADAPTIVE, EARLY), 0, 2
    return "\n".join((
        "**Choose this if**",
        "",
        "- training labels may be wrong. With 40 % flipped, AP is",
        f"  {tool('DirectLossClassifier', flipped)} with our estimator,",
        f"  {tool('LogisticRegression', flipped)} with logistic regression,",
        f"  {tool('LGBMClassifier', flipped)} with LightGBM; in a loop,",
        f"  {ap(*OURS, flipped)} with our loss and decay, {ap(*fair, flipped)} with cross-entropy and our decay,",
        f"  {ap('symmetric x-ent', ADAPTIVE, EARLY, flipped)} with symmetric cross-entropy and our decay;",
        "- your metric is AP, NDCG, recall at a rate, IoU, … or two vectors of your own: inference is exact;",
        "- you want a loss that is just a loss: your network, your loop, batches without positives, many processes.",
        "",
        "**Choose something else if**",
        "",
        f"- the data are a table with right labels: LightGBM ({tool('LGBMClassifier', right)}) and our estimator",
        f"  ({tool('DirectLossClassifier', right)}) are level;",
        "- you keep your loss. Our weight decay, averaging and stopping take cross-entropy with 40 % flipped from",
        f"  {ap('x-ent', PLAIN, LONG, flipped)} to {ap(*fair, flipped)};",
        "- you predict [masks](docs/studies/segmentation.md) or [paths](docs/studies/paths.md), where Dice and SPO+",
        "  are hard to beat, or you need probabilities from a loop.",
    ))  # fmt: skip


@block
def adaptive_search() -> str:
    """Constants of `AdaptiveDecay` and fixed decays, on the ten tables of the search."""
    found = select("adaptive-decay-search")
    variants = dict.fromkeys(key.variant.rpartition(", ")[0].rpartition(", ")[0] for key in found)
    rows = []
    for method in ("pos-AP", "x-ent"):
        for variant in variants:
            values = [
                found[Key(f"{variant}, {kind}, {EARLY}", method, noise, None, "test_ap")]["mean"]
                for _, kind, noise in COLUMNS
            ]
            rows.append([method, variant, *(f"{value:.3f}" for value in values), f"{fmean(values):.3f}"])
    return as_table(["stopped early", "", *(words for words, *_ in COLUMNS), "mean"], rows)


BLOCKS |= {f"regimes_{regime.replace(', ', '_').replace(' ', '_')}": partial(_of_regime, regime) for regime in REGIMES}
