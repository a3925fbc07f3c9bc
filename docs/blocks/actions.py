"""VOC2012 actions."""

import csv
from collections.abc import Sequence
from functools import cache
from statistics import mean
from typing import Any

from directloss_studies.methods import WARM

from docs import paper

from .numbers import PLAIN, RESULTS, as_table, block, gain_cell, in_percent, mean_cell, records_of
from .verdicts import FOUR, NOISE, RIVALS, THREE, WITHSTANDS, verdict_table

__all__ = ["LINEAR", "RULES", "TODAY", "by_class", "classes_beside_the_paper"]

RULES = (
    "the paper's protocol",
    "stopped early, clean validation",
    "stopped early, noisy validation",
    "to the end, noisy validation",
)
HEADS = {
    "squeezenet, linear head": "SqueezeNet, linear",
    "squeezenet, averaged linear head": "SqueezeNet, linear, averaged",
    "squeezenet, mlp head": "SqueezeNet, MLP",
    "alexnet, linear head": "AlexNet, linear",
}


@block
def actions_table_1() -> str:
    """The paper's Table 1 and ours."""
    from directloss_studies.actions.summary import PAPER

    rows = [[f"{method}, the paper", *(f"{row[noise]:.3f}" for noise in NOISE)] for method, row in PAPER.items()]
    networks = {
        "SqueezeNet": (*FOUR, "neg-AP", "central-AP", "Smooth-AP"),
        "AlexNet": FOUR,
    }
    for network, methods in networks.items():
        variant = f"{network.lower()}, linear head: {RULES[0]}"
        for method in methods:
            cells = (mean_cell("actions", variant, method, noise) for noise in NOISE)
            rows.append([f"{method}, {network}", *cells])
    return as_table(["mean AP of ten actions; training labels flipped", *in_percent(NOISE)], rows)


TODAY = "actions-efficientnet"
"""The file of results on a backbone of today."""
TODAY_HEADS = {
    f"efficientnet-lite0, {head} head": words
    for head, words in (("linear", "linear"), ("averaged linear", "linear, averaged"), ("mlp", "MLP"))
}
LINEAR, *OTHER_HEADS = TODAY_HEADS
TODAY_METHODS = ("x-ent", PLAIN, "GCE", "hinge-AP", "pos-AP", WARM)
LINEAR_METHODS = (*TODAY_METHODS, "central-AP", "neg-AP", "Smooth-AP")
SHOWN_RULES = (RULES[0], RULES[2])


def _today(heads: Sequence[str], rule: str, methods: Sequence[str], with_paper: bool = False) -> str:
    """Table 1 on EfficientNet-Lite0 by one rule of choosing; the best of a head and level in bold."""
    from directloss_studies.actions.summary import PAPER

    rows = [["pos-AP, the paper", *(f"{PAPER['pos-AP'][noise]:.3f}" for noise in NOISE)]] if with_paper else []
    for head in heads:
        values = {
            (method, noise): records_of(TODAY)[f"{head}: {rule}", method, noise, None, "test_ap"]["mean"]
            for method in methods
            for noise in NOISE
        }
        for method in methods:
            cells = []
            for noise in NOISE:
                shown = mean_cell(TODAY, f"{head}: {rule}", method, noise)
                best = max(values[other, noise] for other in methods)
                cells.append(f"**{shown}**" if values[method, noise] == best else shown)
            rows.append([method if head == LINEAR else f"{method}, {TODAY_HEADS[head]}", *cells])
    return as_table([f"{rule}; training labels flipped", *in_percent(NOISE)], rows)


@block
def actions_today() -> str:
    """EfficientNet-Lite0 by the paper's protocol, linear head, with the paper's pos-AP."""
    return _today([LINEAR], RULES[0], LINEAR_METHODS, with_paper=True)


@block
def actions_today_stopped() -> str:
    """The same, stopped early on wrong validation labels."""
    return _today([LINEAR], RULES[2], LINEAR_METHODS)


@block
def actions_today_heads() -> str:
    """Averaged and MLP heads by the paper's protocol."""
    return _today(OTHER_HEADS, RULES[0], TODAY_METHODS)


@block
def actions_today_heads_stopped() -> str:
    """The same, stopped early on wrong validation labels."""
    return _today(OTHER_HEADS, RULES[2], TODAY_METHODS)


@block
def actions_today_gains() -> str:
    """pos-AP minus the others on EfficientNet-Lite0, paired, with standard errors."""
    rows = [
        [f"{other}: {TODAY_HEADS[head]}, {rule}", *(gain_cell(TODAY, f"{head}: {rule}", other, k) for k in NOISE)]
        for rule in SHOWN_RULES
        for head in TODAY_HEADS
        for other in (LINEAR_METHODS if head == LINEAR else TODAY_METHODS)
        if other not in ("pos-AP", PLAIN)
    ]
    return as_table(["pos-AP minus", *in_percent(NOISE)], rows)


@block
def actions_today_runs() -> str:
    """How many seeds there are."""
    return f"{records_of(TODAY)[f'{LINEAR}: {RULES[0]}', 'pos-AP', 0.0, None, 'test_ap']['n']} seeds"


@block
def actions_today_verdicts() -> str:
    """pos-AP against its rivals and the paper on EfficientNet-Lite0, for every head and rule."""
    variants = {f"{head}: {rule}": f"{words}, {rule}" for head, words in TODAY_HEADS.items() for rule in RULES}
    says = {WITHSTANDS.format(m): f"pos-AP keeps more AP than {m}" for m in RIVALS}
    says["pos-AP is ahead of every other method from 20 % on"] = "it is first from 20 % on"
    says["pos-AP reaches the paper's own pos-AP at every noise level"] = "it reaches the paper's"
    return verdict_table("head and rule", TODAY, says, variants)


@block
def actions_verdicts() -> str:
    """pos-AP against its two rivals under noise, for every head and rule."""
    variants = {f"{head}: {rule}": f"{shown}, {rule}" for head, shown in HEADS.items() for rule in RULES}
    return verdict_table("pos-AP keeps more AP than", "actions", {WITHSTANDS.format(m): m for m in RIVALS}, variants)


@block
def actions_gains() -> str:
    """pos-AP against its two rivals, for every head and rule."""
    rows = [
        [f"{other}: {shown}, {rule}", *(gain_cell("actions", f"{head}: {rule}", other, noise) for noise in NOISE[1:])]
        for head, shown in HEADS.items()
        for rule in RULES
        for other in ("x-ent", "hinge-AP")
    ]
    return as_table(["pos-AP minus", *in_percent(NOISE[1:])], rows)


@block
def actions_gains_over_others() -> str:
    """pos-AP against the other methods, linear head on SqueezeNet."""
    head = "squeezenet, linear head"
    rows = [
        [f"{other}, {rule}", *(gain_cell("actions", f"{head}: {rule}", other, noise) for noise in NOISE)]
        for other in (PLAIN, "neg-AP", "central-AP", "Smooth-AP")
        for rule in RULES[:2]
    ]
    return as_table(["pos-AP minus", *in_percent(NOISE)], rows)


def by_class(name: str, variant: str, noises: Sequence[float], theirs: paper.Numbers | None = None) -> str:
    """Methods and noise levels across; with `theirs` the paper's number stands in brackets."""
    classes = sorted({key[3] for key in records_of(name) if key[0] == variant and key[3]})

    def cell(class_: str | None, noise: float, method: str) -> str:
        known = (theirs or {}).get((class_ or paper.MEAN, noise, method))
        return mean_cell(name, variant, method, noise, class_) + (f" ({known:.3f})" if known is not None else "")

    rows = [
        [class_ or "mean", *(cell(class_, noise, method) for noise in noises for method in THREE)]
        for class_ in (*classes, *([None] if theirs else []))
    ]
    header = (f"{method}, {level}" for level in in_percent(noises) for method in THREE)
    return as_table(["class", *header], rows)


@cache
def _paper_classes() -> dict[tuple[str, float, str], float]:
    """The paper's Table 1 (Song et al., ICML 2016): AP by class, noise and method; "mean" is that of ten classes."""
    with open(RESULTS / "paper-actions.csv", newline="") as file:
        return {(row["class"], float(row["noise"]), row["method"]): float(row["ap"]) for row in csv.DictReader(file)}


COMPARED = {"squeezenet": "SqueezeNet", "efficientnet-lite0": "EfficientNet-Lite0"}
"""Backbones whose classes stand beside the paper's, linear head."""


def _ours(backbone: str) -> dict[tuple[str, float, str], float]:
    """Our AP under the same keys, linear head, the paper's protocol."""
    variant = f"{backbone}, linear head: {RULES[0]}"
    return {
        (key[3] or "mean", key[2], key[1]): record["mean"]
        for key, record in records_of("actions" if backbone == "squeezenet" else TODAY).items()
        if key[0] == variant and key[4] == "test_ap"
    }


def _class_names() -> list[str]:
    return [name for name in dict.fromkeys(key[0] for key in _paper_classes()) if name != "mean"]


@block
def actions_beside_the_paper() -> str:
    """The paper's AP and ours, class by class."""
    columns = [_paper_classes(), *map(_ours, COMPARED)]
    header = [f"{method}, {who}" for method in THREE for who in ("paper", *COMPARED.values())]
    parts = []
    for noise in (0.0, 0.2, 0.4):
        rows = [
            [name, *(f"{column[name, noise, method]:.3f}" for method in THREE for column in columns)]
            for name in (*_class_names(), "mean")
        ]
        parts.append(as_table([f"{in_percent([noise])[0]} flipped", *header], rows))
    return "\n\n".join(parts)


@block
def actions_ranks() -> str:
    """Spearman's rank correlation of classes and of methods, between the paper and us."""
    from scipy import stats

    spearman: Any = stats.spearmanr
    classes = _class_names()
    rows = []
    for backbone, shown in COMPARED.items():
        tables = _paper_classes(), _ours(backbone)

        def classes_by(noise: float, method: str, other: str | None = None, tables: Any = tables) -> float:
            """By AP of a method, or by its gain over another."""
            lists = [
                [table[name, noise, method] - (table[name, noise, other] if other else 0) for name in classes]
                for table in tables
            ]
            return spearman(*lists).statistic

        def methods_of(noise: float, name: str, tables: Any = tables) -> float:
            return spearman(*([table[name, noise, method] for method in THREE] for table in tables)).statistic

        numbers = {f"ten classes by AP of {method}": [classes_by(k, method) for k in NOISE] for method in THREE}
        for other in RIVALS:
            numbers[f"ten classes by gain of pos-AP over {other}"] = [classes_by(k, "pos-AP", other) for k in NOISE]
        numbers["three methods by mean AP"] = [methods_of(k, "mean") for k in NOISE]
        numbers["three methods, mean over classes"] = [mean(methods_of(k, name) for name in classes) for k in NOISE]
        for what, values in numbers.items():
            rows.append([f"{what}, {shown}", *(f"{value:+.2f}".replace("-", "−") for value in values)])
    return as_table(["rank correlation of the paper's numbers and ours", *in_percent(NOISE)], rows)


def classes_beside_the_paper() -> str:
    """AP of ten classes and three methods at three noise levels: the paper's across, ours up, a row for a backbone."""
    import matplotlib.style
    from directloss_studies.report.figures import LOOK, STYLES, finish
    from matplotlib.figure import Figure

    theirs = _paper_classes()
    with matplotlib.style.context(["default", LOOK]):
        canvas = Figure(figsize=(9, 6.6), layout="constrained")
        panels = canvas.subplots(len(COMPARED), 3, sharex=True, sharey=True)
        for row, (backbone, shown) in zip(panels, COMPARED.items(), strict=True):
            ours = _ours(backbone)
            for axes, noise in zip(row, (0.0, 0.2, 0.4), strict=True):
                axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
                for method in THREE:
                    colour, marker, _ = STYLES[method]
                    x, y = ([table[name, noise, method] for name in _class_names()] for table in (theirs, ours))
                    axes.scatter(x, y, color=colour, marker=marker, s=24, alpha=0.8, label=method)
                axes.set(title=f"{in_percent([noise])[0]} flipped", xlim=(0, 1), ylim=(0, 1))
            row[0].set(ylabel=f"AP of the class, ours ({shown})")
        for axes in panels[-1]:
            axes.set(xlabel="AP of a class, the paper")
        canvas.legend(*canvas.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
        return finish(canvas, "", "", "").svg


@block
def actions_classes() -> str:
    """Class by class, linear head on SqueezeNet, the paper's protocol."""
    return by_class("actions", f"squeezenet, linear head: {RULES[0]}", (0.0, 0.2, 0.4))


WHOLE = "efficientnet-lite0, fine-tuned: all"


@block
def actions_end_to_end() -> str:
    """Test AP of one action where the whole network trains, beside the paper's and that of a frozen network."""
    levels, action = (0.0, 0.2), "jumping"
    theirs = _paper_classes()
    rows = [[f"{method}, the paper", *(f"{theirs[action, noise, method]:.3f}" for noise in levels)] for method in THREE]
    for name, variant, words in (
        ("actions-end-to-end", f"{WHOLE}: {RULES[0]}", "to the end"),
        ("actions-end-to-end", f"{WHOLE}: {RULES[2]}", RULES[2]),
        (TODAY, f"{LINEAR}: {RULES[0]}", "frozen network, linear head, the paper's protocol"),
    ):
        rows += [[f"{m}, {words}", *(mean_cell(name, variant, m, k, action) for k in levels)] for m in THREE]
    return as_table([f"AP of {action}; training labels flipped", *in_percent(levels)], rows)


@block
def actions_end_to_end_gains() -> str:
    """pos-AP minus its rivals where the whole network trains, paired by seed."""
    rows = [
        [f"{m}: {words}", *(gain_cell("actions-end-to-end", f"{WHOLE}: {rule}", m, k) for k in (0.0, 0.2))]
        for rule, words in ((RULES[0], "to the end"), (RULES[2], RULES[2]))
        for m in RIVALS
    ]
    return as_table(["pos-AP minus", *in_percent((0.0, 0.2))], rows)
