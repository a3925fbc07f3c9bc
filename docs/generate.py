"""Write the numbers and verdicts of README.md and docs/ from results/, so that nobody copies one by hand.

A document holds blocks

    <!-- generated: NAME -->
    …
    <!-- end -->

on lines of their own, or within a line (not at its beginning, where Markdown ends a paragraph before a comment). The
function NAME of this file makes what stands between the two comments.

    python -m docs.generate            # rewrite every block, say which documents changed
    python -m docs.generate --check    # change nothing; exit code 1 if a block is not what its function makes
"""

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, NamedTuple

import numpy as np
import torch

from directloss import (
    TASKS,
    UPDATES,
    AveragePrecision,
    CentralDirect,
    CountTask,
    Diagnosis,
    Hinge,
    LinearLossTask,
    NegativeDirect,
    Perceptron,
    PositiveDirect,
    RankingTask,
    diagnose,
    explain,
)
from directloss.experiments.report.verdicts import Verdict
from directloss.experiments.report.verdicts import _together as judge_verdicts
from docs import paper

__all__ = ["BLOCKS", "documents", "main", "problems", "rewritten"]

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
BLOCK = re.compile(r"<!-- generated: (\w+) -->(.*?)<!-- end -->", re.DOTALL)
MARK = re.compile(r"<!-- (?:generated\b.*?|end) -->")
MEASURED = re.compile(r"\d\s*±\s*\d")
"""A mean with its spread: outside of blocks there may be none."""

BLOCKS: dict[str, Callable[[], str]] = {}
"""What makes each block."""


def block(function: Callable[[], str]) -> Callable[[], str]:
    """Let documents name this function."""
    BLOCKS[function.__name__] = function
    return function


def documents() -> list[Path]:
    """The documents that may hold blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _filled(match: re.Match[str]) -> str:
    name, old = match.groups()
    if name not in BLOCKS:
        raise ValueError(f"There is no block {name!r}. There are: {', '.join(BLOCKS)}.")
    edge = "\n" if "\n" in old else ""
    return f"<!-- generated: {name} -->{edge}{BLOCKS[name]()}{edge}<!-- end -->"


def rewritten(text: str) -> str:
    """The document with every block as its function makes it."""
    return BLOCK.sub(_filled, text)


def problems(text: str) -> list[str]:
    """What is wrong with a document: blocks not as made, marks without a partner, measured numbers outside a block."""
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match[1] not in BLOCKS:
            found.append(f"line {line}: there is no block {match[1]!r}")
        elif _filled(match) != match[0]:
            found.append(f"line {line}: block {match[1]!r} is not what results/ say; run python -m docs.generate")
    outside = BLOCK.sub("", text)
    found += [f"{mark} has no partner" for mark in MARK.findall(outside)]
    found += [f"outside of a block: {line.strip()}" for line in outside.splitlines() if MEASURED.search(line)]
    return found


# Numbers, and tables of them.

PLAIN = "plain x-ent"
"""Cross-entropy whose scores are not multiplied by a tuned scale; older results call it "x-ent, scale 1"."""

Key = tuple[str, str, float, str | None, str]


@cache
def _records(name: str) -> dict[Key, dict[str, Any]]:
    """The flat records of a file of results, by variant, method, noise, class and metric."""
    found = json.loads((RESULTS / f"{name}.json").read_text().replace('"x-ent, scale 1"', f'"{PLAIN}"'))
    keys = "variant", "method", "noise", "class", "metric"
    return {tuple(record[key] for key in keys): record for record in found}  # pyright: ignore[reportReturnType]


def _mean(
    name: str, variant: str, method: str, noise: float = 0.0, class_: str | None = None, metric: str = "test_ap"
) -> str:
    """Test AP, or another metric, ± standard deviation, or a dash where there was no run."""
    record = _records(name).get((variant, method, noise, class_, metric))
    if not record:
        return "–"
    return f"{record['mean']:.3f}" + (f" ± {record['sd']:.3f}" if record["n"] > 1 else "")


def _gain(name: str, variant: str, method: str, noise: float = 0.0, ours: str = "pos-AP") -> str:
    """Ours minus a method ± standard error, or a dash."""
    record = _records(name).get((variant, method, noise, None, f"{ours}_minus_this"))
    if not record:
        return "–"
    return f"{record['mean']:+.3f} ± {record['sd'] / record['n'] ** 0.5:.3f}".replace("-", "−")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    if any(not any(character.isdigit() for character in "".join(row[1:])) for row in rows):
        raise ValueError(f"A row without numbers under {header}: names in results/ have changed.")
    return "\n".join(lines)


def _levels(noises: Iterable[float]) -> list[str]:
    return [f"{noise:.0%}".replace("%", " %") for noise in noises]


# Verdicts, as the reports under results/ give them.

CLAIM = re.compile(r"\*\*(?P<says>.*) \((?P<source>[^()]*)\): [^:]*\*\*")
COMPARISON = re.compile(r"\| (?P<variant>.*?) \|.*\| (?P<verdict>holds|contradicted|undecided) \|")


class Judged(NamedTuple):
    """A claim of a report, and the verdicts on its comparisons."""

    study: str
    source: str
    verdicts: dict[str, list[Verdict]]
    """By variant."""


@cache
def _claims(report: str) -> dict[str, Judged]:
    """The claims of a report, by what they say."""
    found: dict[str, Judged] = {}
    study = ""
    for line in (RESULTS / f"{report}.md").read_text().splitlines():
        if line.startswith("## "):
            study = line.removeprefix("## ").removesuffix(", paper preset")
        elif match := CLAIM.fullmatch(line):
            found[match["says"]] = Judged(study, match["source"], {})
        elif match := COMPARISON.fullmatch(line):
            last = [*found.values()][-1]
            last.verdicts.setdefault(match["variant"], []).append(Verdict(match["verdict"]))
    return found


def _verdict(report: str, says: str, variant: str | None = None) -> str:
    """The verdict on a claim, of one variant or of all, and the number of comparisons of each kind."""
    by_variant = _claims(report)[says].verdicts
    verdicts = by_variant[variant] if variant else [each for some in by_variant.values() for each in some]
    together = judge_verdicts(verdicts)
    words = {Verdict.HOLDS: ("holds", "hold")}
    counts = [(verdicts.count(kind), words.get(kind, (kind, kind))) for kind in Verdict if kind in verdicts]
    if len(counts) == 1:
        return f"{together} ({len(verdicts)} of {len(verdicts)})"
    return f"{together} ({', '.join(f'{count} {names[count > 1]}' for count, names in counts)})"


def _verdict_table(corner: str, report: str, says: dict[str, str], variants: dict[str, str]) -> str:
    """One row a variant, one column a claim. Both dictionaries: from the words of results/ to those to show."""
    rows = [[shown, *(_verdict(report, claim, variant) for claim in says)] for variant, shown in variants.items()]
    return _table([corner, *says.values()], rows)


@block
def verdicts() -> str:
    """Every claim of every study."""
    rows = [
        [judged.study, says, judged.source, _verdict(report, says)]
        for report in ("report", "actions", "detection")
        for says, judged in _claims(report).items()
    ]
    return _table(["study", "claim", "who says it", "verdict (comparisons)"], rows)


NOISE = (0.0, 0.1, 0.2, 0.3, 0.4)
WITHSTANDS = "pos-AP withstands label noise better than {}"
RIVALS = ("x-ent", "hinge-AP")
THREE = ("x-ent", "hinge-AP", "pos-AP")
FOUR = ("x-ent", PLAIN, "hinge-AP", "pos-AP")


# VOC2012 actions.

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
    from directloss.experiments.actions.summary import PAPER

    rows = [[f"{method}, the paper", *(f"{row[noise]:.3f}" for noise in NOISE)] for method, row in PAPER.items()]
    networks = {
        "SqueezeNet": (*FOUR, "neg-AP", "central-AP", "Smooth-AP"),
        "AlexNet": FOUR,
    }
    for network, methods in networks.items():
        variant = f"{network.lower()}, linear head: {RULES[0]}"
        for method in methods:
            cells = (_mean("actions", variant, method, noise) for noise in NOISE)
            rows.append([f"{method}, {network}", *cells])
    return _table(["mean AP of ten actions; training labels flipped", *_levels(NOISE)], rows)


TODAY = "efficientnet-lite0, linear head"
TODAY_METHODS = ("x-ent", PLAIN, "GCE", "hinge-AP", "pos-AP")


def _today(rule: str, with_paper: bool) -> str:
    """Table 1 on EfficientNet-Lite0 by one rule of choosing; the best of a level in bold."""
    from directloss.experiments.actions.summary import PAPER

    rows = [["pos-AP, the paper", *(f"{PAPER['pos-AP'][noise]:.3f}" for noise in NOISE)]] if with_paper else []
    records = _records("actions-efficientnet")

    def value(method: str, noise: float) -> float:
        return records[f"{TODAY}: {rule}", method, noise, None, "test_ap"]["mean"]

    for method in TODAY_METHODS:
        cells = []
        for noise in NOISE:
            shown = _mean("actions-efficientnet", f"{TODAY}: {rule}", method, noise)
            best = max(value(other, noise) for other in TODAY_METHODS)
            cells.append(f"**{shown}**" if value(method, noise) == best else shown)
        rows.append([method, *cells])
    return _table([f"{rule}; training labels flipped", *_levels(NOISE)], rows)


@block
def actions_today() -> str:
    """EfficientNet-Lite0 by the paper's protocol, with the paper's pos-AP."""
    return _today(RULES[0], True)


@block
def actions_today_stopped() -> str:
    """The same, stopped early on wrong validation labels."""
    return _today("stopped early, noisy validation", False)


@block
def actions_today_gains() -> str:
    """pos-AP minus the others on EfficientNet-Lite0, paired, with 95 % intervals."""
    rows = [
        [f"{other}: {rule}", *(_gain("actions-efficientnet", f"{TODAY}: {rule}", other, noise) for noise in NOISE)]
        for rule in (RULES[0], "stopped early, noisy validation")
        for other in TODAY_METHODS
        if other not in ("pos-AP", PLAIN)
    ]
    return _table(["pos-AP minus", *_levels(NOISE)], rows)


@block
def actions_today_runs() -> str:
    """How many seeds there are."""
    record = _records("actions-efficientnet")[f"{TODAY}: {RULES[0]}", "pos-AP", 0.0, None, "test_ap"]
    return f"{record['n']} seeds"


@block
def actions_verdicts() -> str:
    """pos-AP against its two rivals under noise, for every head and rule."""
    variants = {f"{head}: {rule}": f"{shown}, {rule}" for head, shown in HEADS.items() for rule in RULES}
    return _verdict_table("pos-AP keeps more AP than", "actions", {WITHSTANDS.format(m): m for m in RIVALS}, variants)


@block
def actions_gains() -> str:
    """pos-AP against its two rivals, for every head and rule."""
    rows = [
        [f"{other}: {shown}, {rule}", *(_gain("actions", f"{head}: {rule}", other, noise) for noise in NOISE[1:])]
        for head, shown in HEADS.items()
        for rule in RULES
        for other in ("x-ent", "hinge-AP")
    ]
    return _table(["pos-AP minus", *_levels(NOISE[1:])], rows)


@block
def actions_gains_over_others() -> str:
    """pos-AP against the other methods, linear head on SqueezeNet."""
    head = "squeezenet, linear head"
    rows = [
        [f"{other}, {rule}", *(_gain("actions", f"{head}: {rule}", other, noise) for noise in NOISE)]
        for other in (PLAIN, "neg-AP", "central-AP", "Smooth-AP")
        for rule in RULES[:2]
    ]
    return _table(["pos-AP minus", *_levels(NOISE)], rows)


def _by_class(name: str, variant: str, noises: Sequence[float], theirs: paper.Numbers | None = None) -> str:
    """Methods and noise levels across; with `theirs` the paper's number stands in brackets."""
    classes = sorted({key[3] for key in _records(name) if key[0] == variant and key[3]})

    def cell(class_: str | None, noise: float, method: str) -> str:
        known = (theirs or {}).get((class_ or paper.MEAN, noise, method))
        return _mean(name, variant, method, noise, class_) + (f" ({known:.3f})" if known is not None else "")

    rows = [
        [class_ or "mean", *(cell(class_, noise, method) for noise in noises for method in THREE)]
        for class_ in (*classes, *([None] if name == "detection" else []))
    ]
    header = (f"{method}, {level}" for level in _levels(noises) for method in THREE)
    return _table(["class", *header], rows)


@cache
def _paper_classes() -> dict[tuple[str, float, str], float]:
    """The paper's Table 1 (Song et al., ICML 2016): AP by class, noise and method; "mean" is that of ten classes."""
    with open(RESULTS / "paper-actions.csv", newline="") as file:
        return {(row["class"], float(row["noise"]), row["method"]): float(row["ap"]) for row in csv.DictReader(file)}


COMPARED = {"squeezenet": "SqueezeNet"}
"""Backbones whose classes stand beside the paper's, linear head."""


def _ours(backbone: str) -> dict[tuple[str, float, str], float]:
    """Our AP under the same keys, linear head, the paper's protocol."""
    variant = f"{backbone}, linear head: {RULES[0]}"
    return {
        (key[3] or "mean", key[2], key[1]): record["mean"]
        for key, record in _records("actions").items()
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
        parts.append(_table([f"{_levels([noise])[0]} flipped", *header], rows))
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
    return _table(["rank correlation of the paper's numbers and ours", *_levels(NOISE)], rows)


def _classes_beside_the_paper() -> str:
    """AP of ten classes and three methods at three noise levels: the paper's across, ours up."""
    import matplotlib.style
    from matplotlib.figure import Figure

    from directloss.experiments.report.figures import LOOK, STYLES, finish

    paper, (backbone, shown) = _paper_classes(), next(iter(COMPARED.items()))
    ours = _ours(backbone)
    with matplotlib.style.context(["default", LOOK]):
        canvas = Figure(figsize=(9, 3.6), layout="constrained")
        for axes, noise in zip(canvas.subplots(1, 3, sharex=True, sharey=True), (0.0, 0.2, 0.4), strict=True):
            axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
            for method in THREE:
                colour, marker, _ = STYLES[method]
                x, y = ([table[name, noise, method] for name in _class_names()] for table in (paper, ours))
                axes.scatter(x, y, color=colour, marker=marker, s=24, alpha=0.8, label=method)
            axes.set(
                title=f"{_levels([noise])[0]} flipped", xlabel="AP of a class, the paper", xlim=(0, 1), ylim=(0, 1)
            )
        canvas.axes[0].set(ylabel=f"AP of the class, ours ({shown})")
        canvas.legend(*canvas.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
        return finish(canvas, "", "", "").svg


@block
def actions_classes() -> str:
    """Class by class, linear head on SqueezeNet, the paper's protocol."""
    return _by_class("actions", f"squeezenet, linear head: {RULES[0]}", (0.0, 0.2, 0.4))


@block
def actions_end_to_end() -> str:
    """Test AP before and after training a whole network, of each method."""
    found = {(key[1], key[4]): record["mean"] for key, record in _records("actions-end-to-end").items()}
    parts = (
        f"{method} from {found[method, 'test_ap_before']:.2f} to {found[method, 'test_ap']:.2f}"
        for method in ("pos-AP", "hinge-AP", "x-ent")
    )
    return ", ".join(parts)


# VOC2012 detection.

STUDY = "squeezenet, pooled, 500 images, 2000 boxes, batches of 512"
CHOICES = ("settings by class", "one setting for all classes")


@block
def detection_table_2() -> str:
    """The paper's Table 2 and ours, for both rules of choosing."""
    from directloss.experiments.detection.summary import PAPER

    rows = [
        [f"{method}, the paper", *(f"{row[noise]:.3f}" if noise in row else "–" for noise in (0.0, 0.2))]
        for method, row in PAPER.items()
    ]
    for choice in CHOICES:
        for method in FOUR:
            cells = (_mean("detection", f"{STUDY}: {choice}", method, noise) for noise in (0.0, 0.2))
            rows.append([f"{method}, SqueezeNet, {choice}", *cells])
    return _table(["mean AP of twenty classes; training labels flipped", *_levels((0.0, 0.2))], rows)


ALL_IMAGES = "efficientnet-lite0, pooled, all images, 2000 boxes searched at 300 pixels, batches of 512"


@block
def detection_all_images() -> str:
    """Table 2 on the paper's own lists; the rows with a given strength are the paper's settings."""
    name, levels = "detection-all-images", (0.0, 0.2)
    rows = [
        [f"{method}, {choice}", *(_mean(name, f"{ALL_IMAGES}: {choice}", method, noise) for noise in levels)]
        for choice in CHOICES
        for method in FOUR
    ]
    for method, strength, words in (("hinge-AP", "1", "margin 1"), ("pos-AP", "0.1", "ε 0.1")):
        variant = f"{ALL_IMAGES}: strength {strength}"
        rows.append([f"{method}, {words}", *(_mean(name, variant, method, noise) for noise in levels)])
    return _table(["mean AP of twenty classes; training labels flipped", *_levels(levels)], rows)


@block
def proposals_by_side() -> str:
    """What the search finds in smaller images, and in what time."""
    found = _study("proposals")
    first, *_ = found["sides"]
    rows = [
        [f"{of['side']} pixels", f"{100 * of['recall']:.1f} %", f"{of['boxes']:.0f}", f"{of['seconds']:.2f} s",
         f"{of['seconds'] / first['seconds']:.2f}×"]
        for of in found["sides"]
    ]  # fmt: skip
    header = [f"longer side; {found['images']} images, {found['objects']} objects", "objects found", "boxes an image"]
    return _table([*header, "time an image", "beside the first"], rows)


@block
def detection_gains() -> str:
    """pos-AP against its two rivals."""
    rows = [
        [f"{other}: SqueezeNet, {choice}", *(_gain("detection", f"{STUDY}: {choice}", other, k) for k in (0.0, 0.2))]
        for choice in CHOICES
        for other in ("x-ent", "hinge-AP")
    ]
    return _table(["pos-AP minus", *_levels((0.0, 0.2))], rows)


@block
def detection_strengths() -> str:
    """Every method where its strength is given."""
    rows = []
    for strength in ("0.001", "0.01", "0.1", "1", "10", "100", "1000", "10000"):
        variant = f"{STUDY}: strength {strength}"
        rows.append([strength, *(_mean("detection", variant, method, k) for k in (0.0, 0.2) for method in THREE)])
    words = dict(zip(THREE, ("scale", "margin", "ε"), strict=True))
    clean = (f"{method} ({words[method]}), 0 %" for method in THREE)
    return _table(["strength", *clean, *(f"{method}, 20 %" for method in THREE)], rows)


@block
def detection_classes() -> str:
    """Class by class, settings by class, with the paper's number in brackets."""
    return _by_class("detection", f"{STUDY}: {CHOICES[0]}", (0.0, 0.2), _paper_detection())


@cache
def _paper_detection() -> paper.Numbers:
    """The paper's Table 2."""
    return paper.read(RESULTS / "paper-detection.csv")


def _ap_of_both(choice: str, noise: float, method: str, classes: Sequence[str]) -> Any:
    """AP of classes: a row of the paper's, a row of ours."""
    theirs, records = _paper_detection(), _records("detection")
    keys = ((f"{STUDY}: {choice}", method, noise, None if of == paper.MEAN else of, "test_ap") for of in classes)
    return np.array([[theirs[of, noise, method] for of in classes], [records[key]["mean"] for key in keys]])


def _detection_correlations(choice: str) -> dict[str, float]:
    """Rank correlations of classes and of methods between the paper and ours."""
    classes = sorted({of for of, *_ in _paper_detection()} - {paper.MEAN})
    x_ent, hinge, pos = (_ap_of_both(choice, 0.0, method, classes) for method in THREE)
    noisy = _ap_of_both(choice, 0.2, "pos-AP", classes)
    columns = [(0.0, "x-ent"), (0.0, "hinge-AP"), (0.0, "pos-AP"), (0.2, "hinge-AP"), (0.2, "pos-AP")]
    means = np.concatenate([_ap_of_both(choice, *column, [paper.MEAN]) for column in columns], 1)
    one_by_one = (paper.spearman(*rows.T) for rows in np.stack([x_ent, hinge, pos]).transpose(2, 0, 1))
    return {
        "20 classes: AP of x-ent, 0 %": paper.spearman(*x_ent),
        "20 classes: AP of hinge-AP, 0 %": paper.spearman(*hinge),
        "20 classes: AP of pos-AP, 0 %": paper.spearman(*pos),
        "20 classes: AP of pos-AP, 20 %": paper.spearman(*noisy),
        "20 classes: share of its AP that pos-AP keeps at 20 %": paper.spearman(*(noisy / pos)),
        "20 classes: pos-AP minus x-ent, 0 %": paper.spearman(*(pos - x_ent)),
        "20 classes: pos-AP minus hinge-AP, 0 %": paper.spearman(*(pos - hinge)),
        "3 methods: mean AP, 0 %": paper.spearman(*means[:, :3]),
        "3 methods: AP of a class, 0 %, mean over the classes": mean(one_by_one),
        "5 methods and noise levels of the paper: mean AP": paper.spearman(*means),
    }


@block
def detection_ranks() -> str:
    """Rank correlations between the paper and ours, for both rules of choosing."""
    found = [_detection_correlations(choice) for choice in CHOICES]
    rows = [[name, *(f"{each[name]:.2f}".replace("-", "−") for each in found)] for name in found[0]]
    return _table(["rank correlation of the paper and ours", *CHOICES], rows)


def _detection_panels() -> str:
    """AP by class, the paper's and ours."""
    theirs, records = _paper_detection(), _records("detection")
    classes = sorted({class_ for class_, *_ in theirs} - {paper.MEAN}, key=lambda of: (-theirs[of, 0.0, "pos-AP"], of))
    panels = []
    for noise, method in ((0.0, "x-ent"), (0.0, "hinge-AP"), (0.0, "pos-AP"), (0.2, "pos-AP")):
        ours = {}
        for of in classes:
            record = records[f"{STUDY}: {CHOICES[0]}", method, noise, of, "test_ap"]
            ours[of] = record["mean"], record["sd"]
        title = f"{method}, {_levels([noise])[0]} flipped"
        panels.append(paper.Panel(title, method, {of: theirs[of, noise, method] for of in classes}, ours))
    return paper.draw(panels, classes)


def _features(backbone: str, kinds: Sequence[str]) -> str:
    """AP with two kinds of features, on few images."""
    variants = [
        (f"{backbone}, {kind}, 100 images, 300 boxes, batches of 512: {CHOICES[0]}", noise)
        for noise in (0.0, 0.2)
        for kind in kinds
    ]
    rows = [
        [method, *(_mean("detection-features", variant, method, noise) for variant, noise in variants)]
        for method in FOUR
    ]
    header = [f"{kind}, {noise} %" for noise in (0, 20) for kind in kinds]
    return _table(["mean AP of car, cat and person", *header], rows)


@block
def detection_features() -> str:
    """Warped crops against one map an image."""
    return _features("alexnet", ("warped", "pooled"))


@block
def detection_two_layers() -> str:
    """One layer, two, and two with hard negatives, on more images, all classes."""
    runs = _study("layers")["runs"]
    variants = (("one layer", "pooled", 0.0), ("two layers", "layers", 0.0), ("two, hard negatives", "layers", 0.5))
    columns = [(words, kind, hard, noise) for noise in (0.0, 0.2) for words, kind, hard in variants]
    keys = ("method", "features", "hard", "noise")
    rows = []
    for method in dict.fromkeys(one["method"] for one in runs):
        means = [
            mean(one["test_ap"] for one in runs if tuple(one[key] for key in keys) == (method, *column[1:]))
            for column in columns
        ]
        rows.append([method, *(f"{value:.3f}" for value in means)])
    return _table(
        ["mean AP of twenty classes", *(f"{words}, {100 * noise:.0f} %" for words, *_, noise in columns)], rows
    )


@block
def detection_layers() -> str:
    """Two layers against one."""
    return _features("efficientnet-lite0", ("layers", "pooled"))


# Synthetic data, label noise, separable data.

STARTS = ("N(0,1), full batch", "He, full batch", "N(0,1), batches of 512", "He, batches of 512")
TO_THE_END = "{} inputs, to the end, chosen on {}"


@block
def synthetic_gains() -> str:
    """pos-AP against every other method, by start and batch."""
    others = ("x-ent", PLAIN, "hinge-AP", "neg-AP", "hinge-01", "neg-01", "per-01", "pos-01", "per-AP")
    rows = [[other, *(_gain("synthetic", start, other) for start in STARTS)] for other in others]
    return _table(["pos-AP minus", *STARTS], rows)


@block
def synthetic_verdicts() -> str:
    """The claims on synthetic data, by start and batch."""
    says = {
        "pos-AP reaches a higher test AP than all other methods": "pos-AP beats all others",
        "Training on AP beats training on the 0-1 loss, update by update": "AP beats the 0-1 loss, update by update",
        "The positive update beats the negative one": "pos-AP beats neg-AP",
    }
    return _verdict_table("start and batch", "report", says, {start: start for start in STARTS})


@block
def synthetic_start_verdicts() -> str:
    """Whether the start matters for the gain over cross-entropy, by batch."""
    says = {f"pos-AP gains more over {m} from the N(0,1) start than from He's": f"over {m}" for m in ("x-ent", PLAIN)}
    batches = {batch: batch for batch in ("full batch", "batches of 512")}
    return _verdict_table("pos-AP gains more from the N(0,1) start", "report", says, batches)


@block
def synthetic_dead() -> str:
    """The share of iterations without a gradient, from the least variant to the most."""

    def shares(method: str) -> str:
        found = [
            record["mean"] for key, record in _records("synthetic").items() if key[1::3] == (method, "dead_gradients")
        ]
        low, high = (f"{100 * share:.0f}" for share in (min(found), max(found)))
        return f"{low} to {high} %" if low != high else f"{low} %"

    positive, negative, hinge = (shares(f"{update}-01") for update in ("pos", "neg", "hinge"))
    return f"{positive} of the iterations (by variant), against {negative} for neg-01 and {hinge} for hinge-01"


@block
def label_noise_gains() -> str:
    """pos-AP against other methods, by inputs and rule of choosing."""
    raw, standardised = (TO_THE_END.format(inputs, "noisy validation") for inputs in ("raw", "standardised"))
    training = TO_THE_END.format("raw", "training AP")
    lines = [
        *((other, raw, "raw inputs") for other in ("x-ent", PLAIN, "hinge-AP", "Smooth-AP", "neg-AP")),
        *((other, standardised, "standardised") for other in ("x-ent", PLAIN, "hinge-AP", "Smooth-AP")),
        ("x-ent", "raw inputs, stopped early, both on noisy validation", "raw inputs, stopped early"),
        *((other, training, "raw inputs, chosen on training AP") for other in ("x-ent", "hinge-AP")),
    ]
    rows = [
        [f"{other}, {shown}", *(_gain("label-noise", variant, other, noise) for noise in NOISE[1:])]
        for other, variant, shown in lines
    ]
    return _table(["pos-AP minus, 5 seeds", *_levels(NOISE[1:])], rows)


@block
def label_noise_verdicts() -> str:
    """pos-AP against its rivals, by inputs and rule of choosing."""
    variants = {
        f"{inputs} inputs, {rule} {labels}": f"{inputs} inputs, {shown}, chosen on {labels}"
        for inputs in ("raw", "standardised")
        for labels in ("noisy validation", "training AP")
        for rule, shown in (("to the end, chosen on", "to the end"), ("stopped early, both on", "stopped early"))
    }
    says = {WITHSTANDS.format(method): method for method in ("x-ent", PLAIN, "hinge-AP")}
    return _verdict_table("pos-AP keeps more AP than", "report", says, variants)


@block
def label_noise_kept() -> str:
    """What is left of test AP under noise, by inputs and rule of choosing."""
    raw, standardised = (TO_THE_END.format(inputs, "noisy validation") for inputs in ("raw", "standardised"))
    training = TO_THE_END.format("raw", "training AP")
    lines = [
        ("pos-AP", raw, "raw inputs"),
        (PLAIN, raw, "raw inputs"),
        ("x-ent", raw, "raw inputs"),
        ("x-ent", standardised, "standardised"),
        *((method, training, "raw inputs, chosen on training AP") for method in ("pos-AP", "hinge-AP", "x-ent")),
    ]
    rows = [
        [f"{method}, {shown}", *(_mean("label-noise", variant, method, noise) for noise in (0.2, 0.3))]
        for method, variant, shown in lines
    ]
    return _table(["test AP; training labels flipped", *_levels((0.2, 0.3))], rows)


@block
def separable_updates() -> str:
    """The negative and the positive update on separable data, clean and with flipped labels."""
    rows = [
        [f"{method}, {model}", *(_mean("separable", f"{model}, flipped", method, noise) for noise in (0.0, 0.2))]
        for model in ("linear", "network")
        for method in ("neg-AP", "pos-AP")
    ]
    return _table(["test AP; training labels flipped", *_levels((0.0, 0.2))], rows)


# Shortest paths.

DEGREES = (1, 4, 6, 8)


def _regrets(noise: float) -> str:
    """Regret by method and degree."""
    from directloss.experiments.paths import METHODS, WORDS

    def shown(degree: int, method: str) -> str:
        record = _records("paths")[f"degree {degree}", method, noise, None, "test_regret"]
        return f"{record['mean']:.3f} ± {record['sd']:.3f}"

    rows = [[WORDS.get(method, method), *(shown(degree, method) for degree in DEGREES)] for method in METHODS]
    return _table([f"regret; noise {noise:g}", *(f"degree {degree}" for degree in DEGREES)], rows)


@block
def paths_exact() -> str:
    """Regret of all methods, costs without noise."""
    return _regrets(0.0)


@block
def paths_noisy() -> str:
    """Regret of all methods, costs with noise."""
    return _regrets(0.5)


@block
def paths_pairs() -> str:
    """Paired differences of regret to the two known baselines ± standard error."""
    from directloss.experiments.paths import BASELINES, METHODS

    def shown(method: str, other: str, noise: float, degree: int) -> str:
        record = _records("paths")[f"degree {degree}", method, noise, None, f"this_minus_{other}"]
        return f"{record['mean']:+.3f} ± {record['sd'] / record['n'] ** 0.5:.3f}".replace("-", "−")

    rows = [
        [f"{method} − {other}, noise {noise:g}", *(shown(method, other, noise, degree) for degree in DEGREES)]
        for other in BASELINES
        for noise in (0.0, 0.5)
        for method in METHODS
        if method not in (other, "MSE")
    ]
    return _table(["difference of regret", *(f"degree {degree}" for degree in DEGREES)], rows)


@block
def paths_verdicts() -> str:
    """The claims on shortest paths."""
    rows = [[says, judged.source, _verdict("paths", says)] for says, judged in _claims("paths").items()]
    return _table(["claim", "who says it", "verdict (comparisons)"], rows)


@block
def separable_verdicts() -> str:
    """The claims on separable data, by variant."""
    rows = [
        [says, variant, _verdict("report", says, variant)]
        for says, judged in _claims("report").items()
        for variant in judged.verdicts
        if "negative update" in says
    ]
    return _table(["claim", "variant", "verdict (comparisons)"], rows)


# Each metric by its own loss.

OWN_SETS = ("mammography", "annthyroid", "lambdarank", "MQ2007-agg")
OWN_METRICS = ("AP", "AUC", "pAUC", "NDCG@10", "P@k", "F1")
OWN_ROWS = (
    *(f"direct {metric}" for metric in OWN_METRICS),
    *("BCE", "RankNet", "ListNet", "LambdaRank", "ApproxNDCG", "LambdaMART"),
)


def _own(name: str, method: str, metric: str) -> dict[str, Any] | None:
    return _records("own-metric").get((name, method, 0.0, None, metric))


def _own_best(name: str, metric: str) -> str:
    """The row with the highest mean."""
    found = {method: record["mean"] for method in OWN_ROWS if (record := _own(name, method, f"test {metric}"))}
    return max(found, key=lambda method: found[method])


def _own_cell(name: str, method: str, metric: str) -> str:
    record = _own(name, method, f"test {metric}")
    if record is None:
        return "–"
    text = f"{record['mean']:.3f} ± {record['sd']:.3f}"
    return f"**{text}**" if method == _own_best(name, metric) else text


def _own_gain(name: str, method: str, metric: str) -> str:
    """The loss on the metric minus a method ± standard error."""
    record = _own(name, method, f"own minus this {metric}")
    if record is None:
        return "–"
    return f"{record['mean']:+.3f} ± {record['sd'] / record['n'] ** 0.5:.3f}".replace("-", "−")


def _own_table(name: str) -> str:
    rows = [
        [method, *(_own_cell(name, method, metric) for metric in OWN_METRICS)]
        for method in OWN_ROWS
        if _own(name, method, "test AP")
    ]
    return _table(["trained on", *OWN_METRICS], rows)


@block
def own_metric_mammography() -> str:
    """Every method by every metric."""
    return _own_table("mammography")


@block
def own_metric_annthyroid() -> str:
    """Every method by every metric."""
    return _own_table("annthyroid")


@block
def own_metric_lambdarank() -> str:
    """Every method by every metric."""
    return _own_table("lambdarank")


@block
def own_metric_mq2007() -> str:
    """Every method by every metric."""
    return _own_table("MQ2007-agg")


@block
def own_metric_gains() -> str:
    """The loss on a metric minus cross-entropy, on that metric."""
    rows = [[name, *(_own_gain(name, "BCE", metric) for metric in OWN_METRICS)] for name in OWN_SETS]
    return _table(["its own loss minus BCE", *OWN_METRICS], rows)


@block
def own_metric_rivals() -> str:
    """The losses on NDCG@10 and AP minus the usual losses of learning to rank."""
    rows = [
        [f"{name}, {metric}", *(_own_gain(name, method, metric) for method in OWN_ROWS[7:])]
        for name in OWN_SETS[2:]
        for metric in ("NDCG@10", "AP")
    ]
    return _table(["its own loss minus", *OWN_ROWS[7:]], rows)


@block
def own_metric_winners() -> str:
    """How often the highest mean of a column belongs to the loss on that metric."""
    places = [(name, metric) for name in OWN_SETS for metric in OWN_METRICS]
    own = [f"{metric} on {name}" for name, metric in places if _own_best(name, metric) == f"direct {metric}"]
    listed = f" ({', '.join(own)})" if own else ""
    direct = sum(_own_best(name, metric).startswith("direct") for name, metric in places)
    return (
        f"in {len(own)} of {len(places)} columns{listed}; in {direct} of {len(places)} it belongs to a direct loss on "
        "some metric"
    )


@block
def own_metric_at_zero() -> str:
    """F1 where the sign of the score decides."""
    rows = []
    for method in ("direct F1", "BCE"):
        found = [_own(name, method, "test F1 at 0") for name in OWN_SETS]
        rows.append([method, *(f"{each['mean']:.3f} ± {each['sd']:.3f}" if each else "–" for each in found)])
    return _table(["F1 at 0, trained on", *OWN_SETS], rows)


@block
def own_metric_dead() -> str:
    """The share of iterations without a gradient."""
    rows = []
    for method in OWN_ROWS[:6]:
        found = [_own(name, method, "dead_gradients") for name in OWN_SETS]
        rows.append([method, *(f"{100 * each['mean']:.0f} %" if each else "–" for each in found)])
    return _table(["iterations without a gradient", *OWN_SETS], rows)


@block
def own_metric_verdicts() -> str:
    """Every claim, by set of data."""
    rows = [
        [says, *(_verdict("own-metric", says, name) if name in judged.verdicts else "–" for name in OWN_SETS)]
        for says, judged in _claims("own-metric").items()
    ]
    return _table(["claim (comparisons)", *OWN_SETS], rows)


# Tables.

TABLE_NOISES = (
    ("right labels", "symmetric", 0.0),
    ("20 % symmetric", "symmetric", 0.2),
    ("40 % symmetric", "symmetric", 0.4),
    ("50 % missing positives", "missing positives", 0.5),
    ("20 % near the boundary", "near the boundary", 0.2),
)


def _tables(
    length: str, kind: str, noise: float, metric: str = "test_ap", protocol: str = "untuned"
) -> dict[str, dict[str, Any]]:
    """The records over all tables, by method."""
    wanted = f"{protocol}, {kind}, {length}", noise, metric
    return {
        method: record
        for (variant, method, level, class_, of), record in _records("tables").items()
        if (variant, level, of) == wanted and (class_ is None or metric.startswith("worst"))
    }


def _tables_by_table(
    length: str, kind: str, noise: float, protocol: str = "untuned"
) -> dict[str, dict[str, dict[str, Any]]]:
    """The records of every method by table."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for (variant, method, level, name, metric), record in _records("tables").items():
        if (variant, level, metric) == (f"{protocol}, {kind}, {length}", noise, "test_ap") and name is not None:
            found.setdefault(method, {})[name] = record
    return found


def _tables_by_noise(length: str, protocol: str = "untuned") -> str:
    """Methods down, kinds of noise across; the highest mean of a network in bold."""
    columns = {
        words: found
        for words, kind, noise in TABLE_NOISES
        if (found := _tables(length, kind, noise, protocol=protocol))
    }
    rows = []
    best = {
        words: max(record["mean"] for method, record in found.items() if "GBM" not in method and "XGB" not in method)
        for words, found in columns.items()
    }
    for method in next(iter(columns.values())):
        cells = []
        for words, found in columns.items():
            text = f"{found[method]['mean']:.3f}" if method in found else "–"
            cells.append(f"**{text}**" if method in found and found[method]["mean"] == best[words] else text)
        rows.append([method, *cells])
    counted = ["number of tables", *(str(next(iter(found.values()))["n"]) for found in columns.values())]
    return _table(["method", *columns], [*rows, counted])


def _runs(protocol: str) -> str:
    parts = []
    for words, kind, noise in TABLE_NOISES:
        found = _tables_by_table("8×", kind, noise, protocol).get("x-ent", {})
        if found:
            parts.append(f"{words}: {len(found)} tables, {_seeds(found)}")
    return "; ".join(parts)


@block
def tables_runs() -> str:
    """What the results hold."""
    return _runs("untuned")


@block
def tables_tuned_runs() -> str:
    """What the results hold of tuned methods."""
    return _runs("tuned")


def _seeds(by_table: dict[str, dict[str, Any]]) -> str:
    seeds = sorted({record["n"] for record in by_table.values()})
    return f"{' or '.join(map(str, seeds))} seed{'s' * (seeds != [1])}"


@block
def tables_short() -> str:
    """The shortest training."""
    return _tables_by_noise("1×")


@block
def tables_long() -> str:
    """The longest training."""
    return _tables_by_noise("8×")


@block
def tables_early() -> str:
    """Stopped early."""
    return _tables_by_noise("stopped early")


@block
def tables_regularised() -> str:
    """The longest training, with weight decay and averaged weights."""
    return _tables_by_noise("8×", "regularised")


@block
def tables_tuned() -> str:
    """Tuned, the longest training."""
    return _tables_by_noise("8×", "tuned")


@block
def tables_tuned_early() -> str:
    """Tuned, stopped early."""
    return _tables_by_noise("stopped early", "tuned")


@block
def tables_lengths() -> str:
    """By training length, at the most flipped labels that there are."""
    words, kind, noise = [of for of in TABLE_NOISES[:3] if _tables("1×", *of[1:])][-1]
    columns = [_tables(length, kind, noise) for length in ("1×", "2×", "4×", "8×", "stopped early")]
    rows = [
        [method, *(f"{found[method]['mean']:.3f}" if method in found else "–" for found in columns)]
        for method in columns[0]
    ]
    return _table([words, "1×", "2×", "4×", "8×", "stopped early"], rows)


@block
def tables_against() -> str:
    """Mean rank, wins, ties and losses against cross-entropy, and the worst table, at 0 and 40 % flipped labels."""
    rows = []
    for words, kind, noise in (TABLE_NOISES[0], TABLE_NOISES[2]):
        ranks, by_table = _tables("8×", kind, noise, "mean_rank"), _tables_by_table("8×", kind, noise)
        gains = _tables("8×", kind, noise, "minus_x-ent")
        for method, worst in _tables("8×", kind, noise, "worst_minus_x-ent").items():
            mine = [record["mean"] - by_table["x-ent"][name]["mean"] for name, record in by_table[method].items()]
            won, lost = sum(gain > 0.005 for gain in mine), sum(gain < -0.005 for gain in mine)
            rows.append([
                words, method, f"{ranks[method]['mean']:.1f}" if method in ranks else "–",
                f"{gains[method]['mean']:+.3f}".replace("-", "−"), f"{won} / {len(mine) - won - lost} / {lost}",
                f"{worst['class']}: {worst['mean']:+.3f}".replace("-", "−"),
            ])  # fmt: skip
    header = ["8×", "method", "mean rank", "− x-ent", "won / tied / lost", "worst table − x-ent"]
    return _table(header, rows)


@block
def when_it_helps() -> str:
    """By kind of labels, and where something else is better; see tables.md."""
    methods = {
        "x-ent": "cross-entropy",
        "pos-AP": "`AveragePrecisionLoss`",
        "x-ent → pos-AP, ε = 4P/M": "… with a warm-up, ε = 4 × share of positives",
    }
    kinds = (
        ("right labels", "8×", 0.0, "symmetric", "untuned"),
        ("20 % flipped", "8×", 0.2, "symmetric", "untuned"),
        ("40 % flipped", "8×", 0.4, "symmetric", "untuned"),
        ("20 % near the boundary", "8×", 0.2, "near the boundary", "untuned"),
        ("[tuned](docs/tables.md#tuned-eight-tables), 20 % flipped", "stopped early", 0.2, "symmetric", "tuned"),
        ("tuned, 40 % flipped", "stopped early", 0.4, "symmetric", "tuned"),
    )
    columns, ahead = [], []
    for _, length, noise, kind, protocol in kinds:
        columns.append(found := {m: of["mean"] for m, of in _tables(length, kind, noise, protocol=protocol).items()})
        if kind == "symmetric" and noise and protocol == "untuned":
            best = max(found[method] for method in methods)
            better = {m: mean for m, mean in found.items() if mean > best and "oracle" not in m}
            ahead.append(f"at {noise:.0%} ".replace("%", " %") + ", ".join(f"{m} ({v:.3f})" for m, v in better.items()))
    rows = [[words, *(f"{found[method]:.3f}" for found in columns)] for method, words in methods.items()]
    first = []
    for noise in (0.2, 0.4):
        found = {m: of["mean"] for m, of in _tables("8×", "symmetric", noise, protocol="tuned").items()}
        networks = {
            m: mean for m, mean in found.items() if not m.endswith("(oracle)") and "GBM" not in m and "XGB" not in m
        }
        best = max(networks, key=lambda method: networks[method])
        first.append(f"{best} ({networks[best]:.3f}; cross-entropy {found['x-ent']:.3f}, ours {found['pos-AP']:.3f})")
    means, by_table = _tables("8×", "symmetric", 0.0), _tables_by_table("8×", "symmetric", 0.0)
    gains = {name: of["mean"] - by_table["x-ent"][name]["mean"] for name, of in by_table["pos-AP"].items()}
    won, lost = sum(gain > 0.005 for gain in gains.values()), sum(gain < -0.005 for gain in gains.values())
    worst = min(gains, key=lambda name: gains[name])
    return "\n".join((
        _table([f"mean AP, [{len(gains)} real tables](docs/tables.md)", *(kind[0] for kind in kinds)], rows),
        "",
        f"- **When it helps**: with flipped labels, much. With right labels, little: of {len(gains)} tables "
        f"({_seeds(by_table['pos-AP'])}) it wins on {won}, loses on {lost}, and ties on the others. A validation set "
        "to tune on and to stop by, even one with wrong labels, helps cross-entropy, too: see the last two columns, "
        "eight tables, stopped early.",
        f"- **When not**: on one table, {worst}, its AP is {-gains[worst]:.3f} lower than that of cross-entropy with "
        f"right labels. With them gradient boosting (LightGBM, {means['LightGBM logloss']['mean']:.3f}) beats all "
        f"networks. With labels flipped at random, after a long training, others are ahead: {'; '.join(ahead)}. "
        f"Tuned and trained to the end, {first[0]} at 20 % and {first[1]} at 40 % are first, and our lead over "
        "cross-entropy is not decided. With "
        "[labels that people gave](docs/tables.md#labels-that-people-gave) it is not ahead of cross-entropy. If you "
        "need probabilities, take cross-entropy.",
    ))  # fmt: skip


@block
def tables_seconds() -> str:
    """Of one training."""
    wanted = "untuned, 8×", "seconds"
    found = {
        method: record
        for (variant, method, _, _, metric), record in _records("tables").items()
        if (variant, metric) == wanted
    }
    return "; ".join(f"{method} {record['mean']:.2f}" for method, record in found.items())


HUMAN_LABELS = {
    "right labels": "symmetric",
    "aggregate": "human aggregate",
    "random 1": "human random1",
    "worst": "human worst",
}
HUMAN_METHODS = (
    "x-ent", "weighted x-ent", "GCE", "ELR", "pairwise sigmoid", "Smooth-AP", "hinge-AP", "pos-AP", "x-ent → pos-AP",
    "LightGBM logloss",
)  # fmt: skip


def _human(length: str) -> str:
    """Methods down, labels across; the highest mean of a network in bold."""
    found = _records("human-labels")

    def mean_of(method: str, kind: str) -> float | None:
        record = found.get((f"untuned, {kind}, {length}", method, 0.0, None, "test_ap"))
        return record["mean"] if record else None

    there = [method for method in HUMAN_METHODS if any(mean_of(method, kind) for kind in HUMAN_LABELS.values())]
    networks = [method for method in there if "GBM" not in method]
    best = {kind: max(mean_of(method, kind) or 0.0 for method in networks) for kind in HUMAN_LABELS.values()}
    rows = []
    for method in there:
        cells = [method]
        for kind in HUMAN_LABELS.values():
            value = mean_of(method, kind)
            text = "–" if value is None else f"{value:.3f}"
            cells.append(f"**{text}**" if value == best[kind] else text)
        rows.append(cells)
    return _table([length, *HUMAN_LABELS], rows)


@block
def human_labels_short() -> str:
    """The shortest training."""
    return _human("1×")


@block
def human_labels_long() -> str:
    """The longest training."""
    return _human("8×")


@block
def human_labels_against() -> str:
    """Minus cross-entropy, with the standard error over classes."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (variant, method, _, name, metric), record in _records("human-labels").items():
        if name is not None and metric == "test_ap":
            found.setdefault((variant, method), {})[name] = record["mean"]
    rows = []
    for method in HUMAN_METHODS[1:]:
        cells = []
        for kind in HUMAN_LABELS.values():
            mine, base = (found.get((f"untuned, {kind}, 8×", name), {}) for name in (method, "x-ent"))
            cells.append(_spread([value - base[name] for name, value in mine.items()], "+") if mine else "–")
        if set(cells) != {"–"}:
            rows.append([method, *cells])
    return _table(["8×, minus x-ent", *HUMAN_LABELS], rows)


@block
def human_labels_wrong() -> str:
    """Shares of wrong labels, by set of labels."""
    found = _records("human-labels-shares")
    metrics = list(dict.fromkeys(metric for *_, metric in found))
    rows = [
        [words, *(f"{100 * found[kind, 'labels', 0.0, None, metric]['mean']:.1f} %" for metric in metrics)]
        for words, kind in HUMAN_LABELS.items()
        if kind != "symmetric"
    ]
    return _table(["labels", *metrics], rows)


@block
def human_labels_runs() -> str:
    """What the results hold."""
    found = _records("human-labels")
    parts = []
    for words, kind in HUMAN_LABELS.items():
        wanted = f"untuned, {kind}, 8×", "x-ent", "test_ap"
        mine = {key[3]: r["n"] for key, r in found.items() if (key[0], key[1], key[4]) == wanted and key[3] is not None}
        seeds = sorted(set(mine.values()))
        if mine:
            parts.append(f"{words}: {len(mine)} classes, {' or '.join(map(str, seeds))} seed{'s' * (seeds != [1])}")
    return "; ".join(parts)


# Segmentation.

MASKS = {
    "shapes, right masks": ("shapes, wrong pixels", 0.0),
    "shapes, 20 % wrong pixels": ("shapes, wrong pixels", 0.2),
    "shapes, 20 % moved borders": ("shapes, moved borders", 0.2),
    "VOC2012, right masks": ("VOC2012, wrong pixels", 0.0),
    "VOC2012, 20 % wrong pixels": ("VOC2012, wrong pixels", 0.2),
    "VOC2012, 20 % moved borders": ("VOC2012, moved borders", 0.2),
}


def _segmentation(corner: str, rows: Iterable[str], rule: str, shown: Callable[[str, str, float], str]) -> str:
    """One column for every kind of data and of masks."""
    cells = [[row, *(shown(row, f"{variant}: {rule}", noise) for variant, noise in MASKS.values())] for row in rows]
    return _table([corner, *MASKS], cells)


def _segmentation_means(rule: str, metric: str = "test_iou") -> str:
    from directloss.experiments.segmentation.summary import METHODS

    def shown(method: str, variant: str, noise: float) -> str:
        return _mean("segmentation", variant, method, noise, metric=metric)

    return _segmentation("loss", METHODS, rule, shown)


@block
def segmentation_iou() -> str:
    """Mean IoU of clean test images."""
    return _segmentation_means("noisy validation")


@block
def segmentation_all_pixels() -> str:
    """IoU over the pixels of all test images."""
    return _segmentation_means("noisy validation", "test_iou_all_pixels")


@block
def segmentation_clean_validation() -> str:
    """The same where settings are chosen by right masks."""
    return _segmentation_means("clean validation")


@block
def segmentation_gains() -> str:
    """The positive and the central update against every other loss."""
    from directloss.experiments.segmentation.summary import METHODS, OURS

    pairs = {f"{ours} − {other}": (ours, other) for ours in OURS for other in METHODS if other not in OURS}
    pairs["central-IoU − pos-IoU"] = "central-IoU", "pos-IoU"

    def shown(row: str, variant: str, noise: float) -> str:
        ours, other = pairs[row]
        return _gain("segmentation", variant, other, noise, ours)

    return _segmentation("difference in IoU", pairs, "noisy validation", shown)


@block
def segmentation_verdicts() -> str:
    """Every claim on segmentation, by data."""
    says = _claims("segmentation")
    variants = list(dict.fromkeys(variant for judged in says.values() for variant in judged.verdicts))
    rows = [[claim, *(_verdict("segmentation", claim, variant) for variant in variants)] for claim in says]
    return _table(["claim (ours)", *variants], rows)


# The README's table of claims.


def _several(name: str, variant: str, methods: Sequence[str], noise: float = 0.0) -> str:
    return ", ".join(f"{method} {_mean(name, variant, method, noise)}" for method in methods)


@block
def claims() -> str:
    """What the paper claims, an example of our numbers, and the verdict."""
    noise = TO_THE_END.format("raw", "noisy validation")
    actions, detection = f"squeezenet, linear head: {RULES[0]}", f"{STUDY}: {CHOICES[0]}"
    three = ("pos-AP", "hinge-AP", "x-ent")
    collapse = "With 20 % flipped labels hinge-AP collapses: less than a tenth of its AP on clean labels is left"
    damaged = "With a tenth or more of the samples damaged, the negative update does worse than the positive one"
    rows = [
        [
            "Synthetic data: pos-AP is the best of nine methods (Figure 3a)",
            _several("synthetic", STARTS[0], ("pos-AP", "x-ent", "hinge-AP", "hinge-01")),
            _verdict("report", "pos-AP reaches a higher test AP than all other methods"),
        ],
        [
            "Flipped labels: pos-AP is better than x-ent (Figure 3b)",
            f"20 % flipped: {_several('label-noise', noise, ('pos-AP', 'x-ent'), 0.2)}",
            _verdict("report", WITHSTANDS.format("x-ent")),
        ],
        [
            "… than plain x-ent (our claim)",
            f"20 % flipped: {_several('label-noise', noise, ('pos-AP', PLAIN), 0.2)}",
            _verdict("report", WITHSTANDS.format(PLAIN)),
        ],
        [
            "… than hinge-AP",
            f"20 % flipped: {_several('label-noise', noise, ('pos-AP', 'hinge-AP'), 0.2)}",
            _verdict("report", WITHSTANDS.format("hinge-AP")),
        ],
        [
            "VOC2012 actions, flipped labels: pos-AP is better than x-ent (Table 1)",
            f"30 % flipped: {_several('actions', actions, ('pos-AP', 'x-ent'), 0.3)}",
            _verdict("actions", WITHSTANDS.format("x-ent")),
        ],
        [
            "… than hinge-AP",
            f"30 % flipped: {_several('actions', actions, ('pos-AP', 'hinge-AP'), 0.3)}",
            _verdict("actions", WITHSTANDS.format("hinge-AP")),
        ],
        [
            "VOC2012 detection: pos-AP beats hinge-AP, and both beat x-ent (Table 2)",
            _several("detection", detection, three),
            _verdict("detection", "On clean labels pos-AP is ahead of hinge-AP, and both of x-ent"),
        ],
        [
            "… with flipped labels, pos-AP beats hinge-AP",
            f"20 % flipped: {_several('detection', detection, three[:2], 0.2)}",
            _verdict("detection", "With 20 % flipped labels pos-AP is ahead of hinge-AP"),
        ],
        [
            "… with flipped labels, hinge-AP collapses",
            f"hinge-AP, clean {_mean('detection', detection, 'hinge-AP')}, "
            f"20 % flipped {_mean('detection', detection, 'hinge-AP', 0.2)}",
            _verdict("detection", collapse),
        ],
        [
            "Nearly separable data: neg-AP beats pos-AP on clean labels (Hazan et al., 2010)",
            _several("separable", "linear, flipped", ("neg-AP", "pos-AP")),
            _verdict("report", "On clean, separable data the negative update beats the positive one"),
        ],
        [
            "… and does worse where a tenth or more is damaged",
            f"20 % flipped: {_several('separable', 'linear, flipped', ('neg-AP', 'pos-AP'), 0.2)}",
            _verdict("report", damaged),
        ],
    ]
    return _table(["claim", "test AP, an example", "verdict (comparisons)"], rows)


@block
def claims_in_short() -> str:
    """The paper's main claims."""
    lines = claims().splitlines()
    return "\n".join([*lines[:4], *lines[5:9]])


# Tasks.


FAMILIES = {RankingTask: "ranking", CountTask: "counts", LinearLossTask: "linear"}


@block
def tasks() -> str:
    """Every task, from `TASKS` and its docstring."""
    lines = ["| task | task loss | family |", "|---|---|---|"]
    for member in TASKS.values():
        options = ", ".join(
            one.name
            for one in signature(member).parameters.values()
            if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        )
        said = (member.__doc__ or "").split("\n\n")[0].replace("\n    ", " ")
        sentences = re.split(r"(?<=[.;]) ", said)
        kept = " ".join(one for one in sentences if not re.search(r"exact|O\(", one)).rstrip(";.") + "."
        family = next((name for kind, name in FAMILIES.items() if issubclass(member, kind)), "its own")
        lines.append(f"| `{member.__name__}({options})` | {kept} | {family} |")
    return "\n".join(lines)


@block
def task_families() -> str:
    """The names of all tasks, by family: the short form of `tasks`."""
    members = list(TASKS.values())
    rows = {
        "rankings of positives and negatives": [one for one in members if issubclass(one, RankingTask)],
        "sets of items, masks": [one for one in members if issubclass(one, CountTask)],
    }
    rows["signs, classes, grades, the first k, sequences, paths"] = [
        one for one in members if not any(one in some for some in rows.values())
    ]
    lines = ["| outputs | tasks |", "|---|---|"]
    lines += [f"| {what} | {', '.join(f'`{one.__name__}`' for one in some)} |" for what, some in rows.items()]
    return "\n".join(lines)


@block
def updates() -> str:
    """Every update, from its docstring."""
    values = {
        PositiveDirect: "(max(F + εL) − max F)/ε",
        NegativeDirect: "(max F − max(F − εL))/ε",
        CentralDirect: "the mean of the two above",
        Hinge: "max(F + margin·L) − F(truth)",
        Perceptron: "max F − F(truth)",
    }
    lines = ["| update | away | toward | scale | value of the loss |", "|---|---|---|---|---|"]
    for member in UPDATES.values():
        said = re.match(r"away = (.*), toward = (.*), scale ([^\s:]*[^\s:.])", member.__doc__ or "")
        if not said:
            raise ValueError(f"The docstring of {member.__name__} does not begin with its row.")
        options = ", ".join(signature(member).parameters)
        lines.append(f"| `{member.__name__}({options})` | {' | '.join(said.groups())} | {values[member]} |")
    return "\n".join(lines)


@block
def ranking_ways() -> str:
    """Which way each ranking task takes, from `explain`."""
    positives, negatives = 200_000, 800_000
    lines = [f"| {positives:,} positives, {negatives:,} negatives | weight > 0 | weight < 0 |", "|---|---|---|"]
    for member in TASKS.values():
        if issubclass(member, RankingTask | CountTask):
            _, *ways = explain(member(), positives, negatives).splitlines()
            cells = [way.partition(": ")[2] for way in ways]
            lines.append(f"| `{member()!r}` | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


# Speed.


@block
def speed_tasks() -> str:
    """Time of every task."""
    from benchmarks.speed import task_table

    return task_table(_speed())


@block
def speed_chains() -> str:
    """Time of the linear chain."""
    from benchmarks.speed import chain_table

    return chain_table(_speed())


def _speed() -> dict[str, Any]:
    return json.loads((RESULTS / "speed.json").read_text())


@block
def speed_tables() -> str:
    """Time of one list, by its length."""
    from benchmarks.speed import tables

    return tables(_speed()).split("\n\n")[0]


@block
def speed_batches() -> str:
    """Time of many short lists and of one short list, and memory."""
    from benchmarks.speed import tables

    return tables(_speed()).split("\n\n")[1]


@block
def speed_machine() -> str:
    """What the benchmark ran on."""
    results = _speed()
    versions = ", ".join(f"{name} {results['versions'][name]}" for name in ("torch", "numpy", "numba"))
    return f"{results['machine']}; {versions}."


@block
def speed_in_a_line() -> str:
    """One sentence and its condition."""
    one = _speed()["one list"]["1000000"]
    ours, sort = one["pos-AP"], one["torch.sort"]
    return (
        f"The loss and its gradient for a list of a million items take {ours['milliseconds']:.0f} ms on two cores, and "
        f"`torch.sort` {sort['milliseconds']:.0f} ms. [All times](docs/speed.md), made by `./dev bench`."
    )


@block
def speed_in_words() -> str:
    """What the tables say."""
    results = _speed()
    lists = results["one list"]
    slower = [f"{lists[size]['neg-AP']['ratio']:.1f}" for size in ("100000", "1000000", "10000000")]
    growth = {
        name: lists["10000000"][name]["milliseconds"] / lists["1000000"][name]["milliseconds"]
        for name in ("pos-AP", "hinge-AP", "torch.sort", "neg-AP")
    }
    short = {
        name: [f"{1e3 * results['one list of 512'][name][key]:.0f}" for key in ("milliseconds", "least")]
        for name in ("pos-AP", "binary cross-entropy")
    }
    ours, entropy = short.values()
    sizes = [int(size) for size in lists]
    slow = [n for n in sizes if any(lists[str(n)][name]["ratio"] >= 1 for name in ("pos-AP", "hinge-AP"))]
    first = min(n for n in sizes if n > max(slow, default=0))
    fold = {name: f"{ratio:.1f}-fold" for name, ratio in growth.items()}
    return "\n".join(
        [
            f"From {first:,} items on, the positive update and the hinge take less time than `torch.sort` alone.",
            f"The negative update takes as long as {slower[0]} sorts at 100,000 items, {slower[1]} at a million and",
            f"{slower[2]} at ten million. From a million items to ten, time grows {fold['pos-AP']} for the positive",
            f"update, {fold['hinge-AP']} for the hinge, {fold['torch.sort']} for `torch.sort` and {fold['neg-AP']}",
            "for the negative update. On short lists the overhead of Python is most of the time: a list of 512 takes",
            f"{ours[0]} µs (quietest round: {ours[1]}), and binary cross-entropy takes {entropy[0]} µs ({entropy[1]}).",
        ]
    )


# Studies of training: a warm-up, and rankings of more than a mini-batch.


@cache
def _study(name: str) -> dict[str, Any]:
    """Settings and runs of a study under benchmarks/."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def _spread(values: Sequence[float], sign: str = "") -> str:
    """Mean ± standard error."""
    error = stdev(values) / len(values) ** 0.5
    return f"{mean(values):{sign}.3f} ± {error:.3f}".replace("-", "−")


WARM_KINDS = {"cold": "", "warm": ", warm-up", "warm, new optimizer": ", warm-up, new optimizer"}
"""How pos-AP starts, from the words of results/ to those to show."""
WARM_NOISES = (0.0, 0.2, 0.4)
STARTS_OF_RANKING = ("below", "above")


class Ended(NamedTuple):
    """How a training of the study of the warm-up ended, on clean test data."""

    ap: float
    wrong_way: bool
    """AUC is below one half."""
    poor: bool
    """AP is below half of that of cross-entropy from the same start."""


@cache
def _warm_runs() -> dict[tuple[Any, ...], dict[str, Any]]:
    """The runs by table, noise, learning rate, seed and kind; of those of which there is every kind."""
    keys = "table", "noise", "rate", "seed", "kind"
    runs = dict(sorted((tuple(run[key] for key in keys), run) for run in _study("warm_up")["runs"]))
    whole = [all((*key[:-1], kind) in runs for kind in ("x-ent", *WARM_KINDS)) for key in runs]
    return {key: run for (key, run), every in zip(runs.items(), whole, strict=True) if every}


def _ends(kind: str, epsilon: float, noise: float, start: str, table: str | None = None) -> list[Ended]:
    """All trainings of a kind with one ε from one kind of start."""
    of = STARTS_OF_RANKING.index(start)
    k = 0 if kind == "x-ent" else _study("warm_up")["settings"]["epsilons"].index(epsilon)
    found = []
    for key, run in _warm_runs().items():
        if key[1] == noise and key[4] == kind and table in (None, key[0]):
            plain = _warm_runs()[(*key[:-1], "x-ent")]["ap"][of][0]
            found.append(Ended(run["ap"][of][k], run["auc"][of][k] < 0.5, run["ap"][of][k] < plain / 2))
    return found


def _warm_table(corner: str, cell: Callable[..., str], kinds: Iterable[str]) -> str:
    """One row for every ε and kind, one column for every noise and start."""
    columns = [(noise, start) for noise in WARM_NOISES for start in STARTS_OF_RANKING]
    header = [f"{level}, {start} ½" for level in _levels(WARM_NOISES) for start in STARTS_OF_RANKING]
    rows = [["x-ent", *(cell("x-ent", 0.0, *column) for column in columns)]] if "x-ent" in kinds else []
    rows += [
        [f"ε = {epsilon:g}{WARM_KINDS[kind]}", *(cell(kind, epsilon, *column) for column in columns)]
        for epsilon in _study("warm_up")["settings"]["epsilons"]
        for kind in kinds
        if kind != "x-ent"
    ]
    return _table([corner, *header], rows)


def _recipes(part: str, noise: float) -> dict[str, dict[str, dict[str, float]]]:
    """Test AP at the longest training by recipe, average of weights and table: means over seeds."""
    runs = [run for run in _study("recipes")["runs"] if (run["part"], run["noise"]) == (part, noise)]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for recipe, averages in runs[0]["test_ap"].items():
        for average in averages:
            by_table: dict[str, list[float]] = {}
            for run in runs:
                by_table.setdefault(run["table"], []).append(run["test_ap"][recipe][average][-1])
            found.setdefault(recipe, {})[average] = {table: mean(values) for table, values in by_table.items()}
    return found


RECIPE_AVERAGES = ("last", "mean of 50")
RECIPE_NOISES = (0.0, 0.2, 0.4)


@block
def recipes_confirmed() -> str:
    """The few recipes on the tables that the search did not see, and how far each is below x-ent at worst."""
    rows = []
    found = {noise: _recipes("confirm", noise) for noise in RECIPE_NOISES}
    for recipe in found[0.0]:
        for average in RECIPE_AVERAGES:
            means, worst = [], []
            for noise in RECIPE_NOISES:
                ours, plain = found[noise][recipe][average], found[noise]["x-ent"]["last"]
                best = max(mean(each[one].values()) for each in found[noise].values() for one in RECIPE_AVERAGES)
                value = mean(ours.values())
                means.append(f"**{value:.3f}**" if value == best else f"{value:.3f}")
                lost, table = min((ours[table] - plain[table], table) for table in ours)
                worst.append("–" if (recipe, average) == ("x-ent", "last") else f"{lost:+.2f} ({table})")
            rows.append([recipe, average, *means, *worst])
    levels = [f"{noise:.0%} flipped".replace("%", " %") for noise in RECIPE_NOISES]
    return _table(["recipe", "weights", *levels, *(f"worst table, {level}" for level in levels)], rows)


@block
def recipes_searched() -> str:
    """All recipes on the ten tables of the search."""
    found = {noise: _recipes("search", noise) for noise in RECIPE_NOISES}
    rows = []
    for recipe in found[0.0]:
        cells = []
        for average in RECIPE_AVERAGES:
            cells += [f"{mean(found[noise][recipe][average].values()):.3f}" for noise in RECIPE_NOISES]
        rows.append([recipe, *cells])
    header = [f"{noise:.0%}, {average}".replace("%", " %") for average in RECIPE_AVERAGES for noise in RECIPE_NOISES]
    return _table(["recipe", *header], rows)


@block
def recipes_runs() -> str:
    """How many tables and seeds there are."""
    said = []
    for part in ("search", "confirm"):
        runs = [run for run in _study("recipes")["runs"] if run["part"] == part]
        tables = {run["table"] for run in runs}
        seeds = [
            f"{noise:.0%}: {len({run['seed'] for run in runs if run['noise'] == noise})}" for noise in RECIPE_NOISES
        ]
        said.append(f"{part}: {len(tables)} tables, seeds {', '.join(seeds)}".replace("%", " %"))
    return "; ".join(said)


@block
def estimator_tables() -> str:
    """Both estimators with their defaults on the tables that the search did not see, and the worst table of ours."""
    runs = _study("estimator-tables")["runs"]
    rows = []
    for name in runs[0]["test_ap"]:
        means, worst = [], []
        for noise in RECIPE_NOISES:
            tables: dict[str, list[tuple[float, float]]] = {}
            for run in (run for run in runs if run["noise"] == noise):
                tables.setdefault(run["table"], []).append((run["test_ap"][name], run["test_ap"]["MLPClassifier"]))
            values = {table: tuple(map(mean, zip(*pairs, strict=True))) for table, pairs in tables.items()}
            means.append(f"{mean(ours for ours, _ in values.values()):.3f}")
            lost, table = min((ours - theirs, table) for table, (ours, theirs) in values.items())
            worst.append("–" if name == "MLPClassifier" else f"{lost:+.2f} ({table})")
        rows.append([name, *means, *worst])
    levels = [f"{noise:.0%} flipped".replace("%", " %") for noise in RECIPE_NOISES]
    return _table(["estimator", *levels, *(f"worst table, {level}" for level in levels)], rows)


@block
def estimator_runs() -> str:
    """How many tables and seeds there are."""
    runs = _study("estimator-tables")["runs"]
    return f"{len({run['table'] for run in runs})} tables, {len({run['seed'] for run in runs})} seeds"


@block
def warm_up_failures() -> str:
    """Trainings that end with an AUC below one half, or with less than half of the AP of cross-entropy."""

    def cell(*which: Any) -> str:
        ends = _ends(*which)
        return f"{sum(end.wrong_way for end in ends)} / {sum(end.poor for end in ends)}"

    count = len(_ends("x-ent", 0.0, 0.0, "below"))
    return _warm_table(f"of {count} trainings; flipped labels, AUC of the start", cell, ["x-ent", *WARM_KINDS])


@block
def warm_up_ap() -> str:
    """Mean test AP."""

    def cell(*which: Any) -> str:
        return f"{mean(end.ap for end in _ends(*which)):.3f}"

    return _warm_table("mean test AP; flipped labels, AUC of the start", cell, ["x-ent", *WARM_KINDS])


@block
def warm_up_differences() -> str:
    """AP with a warm-up minus without, in pairs."""

    def cell(kind: str, *which: Any) -> str:
        pairs = zip(_ends(kind, *which), _ends("cold", *which), strict=True)
        return _spread([warm.ap - cold.ap for warm, cold in pairs], "+")

    return _warm_table("test AP minus that without warm-up", cell, [kind for kind in WARM_KINDS if kind != "cold"])


@block
def warm_up_tables() -> str:
    """Trainings of each table that failed in either way, at all noises and starts."""
    names = sorted({key[0] for key in _warm_runs()})

    def ends(kind: str, epsilon: float, name: str) -> list[Ended]:
        return [end for k in WARM_NOISES for start in STARTS_OF_RANKING for end in _ends(kind, epsilon, k, start, name)]

    rows = [
        [f"ε = {e:g}{shown}", *(str(sum(end.wrong_way or end.poor for end in ends(kind, e, name))) for name in names)]
        for e in _study("warm_up")["settings"]["epsilons"]
        for kind, shown in WARM_KINDS.items()
    ]
    header = [f"{name} (of {len(ends('cold', 1.0, name))})" for name in names]
    return _table(["failed in either way", *header], rows)


@block
def warm_up_rates() -> str:
    """How many trainings without a warm-up went the wrong way, by learning rate."""
    epsilons = _study("warm_up")["settings"]["epsilons"]
    found = {}
    for (*_, noise, rate, _, kind), run in _warm_runs().items():
        if kind == "cold" and noise == WARM_NOISES[-1]:
            found.setdefault(rate, []).extend(auc < 0.5 for auc in run["auc"][0])
    parts = [f"{sum(wrong)} of {len(wrong)} at learning rate {rate:g}" for rate, wrong in sorted(found.items())]
    return f"{' and '.join(parts)} (all {len(epsilons)} ε together)"


@block
def warm_up_command() -> str:
    """What was run."""
    runs = _warm_runs()
    rates = sorted({key[2] for key in runs})
    seeds = [f"{len({key[3] for key in runs if key[2] == rate})} seeds at learning rate {rate:g}" for rate in rates]
    trainings = sum(len(row) for run in runs.values() for row in run["ap"])
    return (
        f"`python -m benchmarks.warm_up`: {' and '.join(seeds)}, counted from 0, {trainings:,} trainings, in "
        "[warm_up.json](../results/warm_up.json)."
    )


MEMORY_METHODS = {  # from results/ to the words to show
    "x-ent": "x-ent",
    "batch": "pos-AP, plain batches",
    "two passes": "pos-AP, `accumulate`, 8 batches a step",
    "memory": "pos-AP, `ScoreMemory`",
}


def _memory_runs(table: str, noise: float, method: str) -> list[dict[str, Any]]:
    runs = _study("score_memory")["runs"]
    return [run for run in runs if (run["table"], run["noise"], run["method"]) == (table, noise, method)]


def _chosen(table: str, noise: float, method: str) -> list[dict[str, Any]]:
    """Of every seed the run whose learning rate is best on validation."""
    runs = _memory_runs(table, noise, method)
    seeds = sorted({run["seed"] for run in runs})
    return [max((run for run in runs if run["seed"] == seed), key=lambda run: run["validation"]) for seed in seeds]


def _memory_table(corner: str, cell: Callable[..., str], methods: Iterable[str]) -> str:
    columns = [(table, noise) for table in ("cover", "celeba") for noise in (0.0, 0.4)]
    header = [f"{table}, {_levels([noise])[0]}" for table, noise in columns]
    return _table([corner, *header], [[MEMORY_METHODS[m], *(cell(*column, m) for column in columns)] for m in methods])


def _memory_ap(table: str, noise: float, method: str) -> str:
    """Test AP ± standard error, of the learning rate chosen on validation."""
    return _spread([run["test"] for run in _chosen(table, noise, method)])


def _memory_gain(table: str, noise: float, method: str) -> str:
    """Test AP minus that of plain batches of the same size ± standard error, in pairs."""
    plain = "batch of 32" if method.endswith(" of 32") else "batch"
    if method == plain:
        return "–"
    pairs = zip(_chosen(table, noise, method), _chosen(table, noise, plain), strict=True)
    return _spread([this["test"] - other["test"] for this, other in pairs], "+")


def _memory_seconds(table: str, noise: float, method: str) -> str:
    return f"{median(run['seconds'] for run in _memory_runs(table, noise, method)):.1f}"


@block
def score_memory_ap() -> str:
    """Test AP in batches of 512."""
    seeds = len(_chosen("cover", 0.0, "memory"))
    return _memory_table(f"test AP, mean of {seeds} seeds; flipped labels", _memory_ap, MEMORY_METHODS)


@block
def score_memory_gains() -> str:
    """What is gained over plain batches of 512."""
    methods = [method for method in MEMORY_METHODS if method != "batch"]
    return _memory_table("test AP minus that of plain batches", _memory_gain, methods)


@block
def score_memory_seconds() -> str:
    """CPU seconds of a training in batches of 512."""
    return _memory_table("CPU seconds of a training, median", _memory_seconds, MEMORY_METHODS)


@block
def score_memory_small() -> str:
    """Test AP, gain and CPU seconds in batches of 32."""
    rows = [
        [
            table,
            MEMORY_METHODS[method],
            *(cell(table, 0.0, f"{method} of 32") for cell in (_memory_ap, _memory_gain, _memory_seconds)),
        ]
        for table in ("cover", "celeba")
        for method in ("x-ent", "batch", "memory")
    ]
    seeds = len(_chosen("cover", 0.0, "memory of 32"))
    return _table(["table", "", f"test AP, mean of {seeds} seeds", "minus plain batches", "CPU seconds"], rows)


# Choosing ε.

CHOSEN = {  # what a row is called: the report, and the heading of its table of chosen settings
    "synthetic, clean labels, by training AP": ("report", "What was tried and chosen, by AP on the training set"),
    "label noise, raw inputs, by noisy validation": ("report", "raw inputs, to the end, chosen on noisy validation"),
    "label noise, standardised, by noisy validation": (
        "report", "standardised inputs, to the end, chosen on noisy validation"
    ),
    "separable and damaged, by damaged validation": ("report", "What was tried and chosen, on validation data"),
    "actions, SqueezeNet, by clean validation": ("actions", "squeezenet, linear head: the paper's protocol"),
    "actions, AlexNet, by clean validation": ("actions", "alexnet, linear head: the paper's protocol"),
    "detection, by clean held-out images": ("detection", "Settings chosen: squeezenet"),
}  # fmt: skip


@block
def epsilon_chosen() -> str:
    """The share of runs for which each ε of pos-AP was chosen."""
    epsilons = ("0.001", "0.01", "0.1", "1", "10", "100", "1000")
    rows = []
    for name, (report, heading) in CHOSEN.items():
        lines = iter((RESULTS / f"{report}.md").read_text().splitlines())
        next(line for line in lines if line.startswith(("**What was tried", "**Settings chosen")) and heading in line)
        row = next(line for line in lines if line.startswith("| pos-AP | ε |"))
        runs = {epsilon: float(count) for epsilon, count in re.findall(r"([\d.]+): ([\d.]+)", row.split("|")[4])}
        shares = (f"{runs[e] / sum(runs.values()):.0%}".replace("%", " %") if e in runs else "–" for e in epsilons)
        rows.append([name, *shares])
    return _table(["ε", *epsilons], rows)


def _diagnosis(*epsilons: float) -> Diagnosis:
    """Of scores as a network may give them after some training."""
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(1000, generator=generator) < 0.1
    scores = torch.randn(1000, generator=generator) + 1.5 * target
    options: dict[str, Any] = {"epsilons": epsilons} if epsilons else {}
    return diagnose(AveragePrecision(), scores, target, **options)


@block
def diagnosis() -> str:
    """What `diagnose` prints."""
    return f"```text\n{_diagnosis(0.01, 0.1, 1.0, 10.0, 100.0)}\n```"


FIGURES = ROOT / "docs" / "figures"
RANKED = [2.2, 1.9, 1.7, 1.3, 1.2, 0.9, 0.6, 0.5, 0.1, -0.2, -0.3, -0.7, -1.0, -1.4]
RANKED_TARGET = [1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]


def draw(folder: Path = FIGURES) -> None:
    """The figures that `./dev docs` makes: classes beside the paper's, `diagnose`, y_direct by ε, the package's map."""
    import matplotlib

    from docs import house

    (folder / "house.svg").write_text(house.draw())
    (folder / "actions-classes-beside-the-paper.svg").write_text(_classes_beside_the_paper())
    matplotlib.use("svg")
    with matplotlib.rc_context({"svg.hashsalt": "directloss", "svg.fonttype": "none"}):
        _rankings().savefig(folder / "y-direct-by-epsilon.svg", metadata={"Date": None})
    with matplotlib.rc_context({"svg.hashsalt": "directloss"}):
        _diagnosis().plot().savefig(folder / "diagnose.svg", metadata={"Date": None})
    (folder / "detection-by-class-paper-and-ours.svg").write_text(_detection_panels())


def _rankings() -> Any:
    """A list as y_direct ranks it: a column for each ε, a line for each item."""
    import matplotlib.pyplot as plt

    scores, target = torch.tensor(RANKED, dtype=torch.float64), torch.tensor(RANKED_TARGET) == 1
    epsilons = torch.tensor([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0], dtype=torch.float64)
    shape = len(epsilons), len(scores)
    found = AveragePrecision().infer_augmented(scores.expand(shape), target.expand(shape), epsilons)
    P, M = int(target.sum()), int((~target).sum())
    others_above = torch.where(target, M - P * M * found.features, P - P * M * found.features) / 2
    own_above = torch.where(target, target.cumsum(0), (~target).cumsum(0)) - 1  # items of the class; RANKED is sorted
    places = 1 + own_above + others_above
    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for item, positive in enumerate(RANKED_TARGET):
        color = "tab:blue" if positive else "0.65"
        filled = color if positive else "white"
        axis.plot(places[:, item], "o-", markersize=8, color=color, markerfacecolor=filled, zorder=2 + positive)
    names = ["prediction", *(f"ε = {epsilon:g}" for epsilon in epsilons.tolist()[1:])]
    axis.set_xticks(
        range(len(names)), [f"{name}\nAP {1 - loss:.2f}" for name, loss in zip(names, found.loss, strict=True)]
    )
    axis.set(ylabel="rank", yticks=[1, 5, 10, 14])
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    return figure


@block
def speed_loops() -> str:
    """Flat lists, threads, a memory of scores, several processes."""
    from benchmarks.loops import table

    results = json.loads((RESULTS / "loops.json").read_text())
    return "\n\n".join(table(results, name) for name in results["tables"])


@block
def speed_estimator() -> str:
    """Time of the scikit-learn estimator."""
    from benchmarks.estimator import in_words

    return in_words(json.loads((RESULTS / "estimator.json").read_text()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the blocks of all documents, or check them."""
    parser = argparse.ArgumentParser(description="Write the numbers and verdicts of README.md and docs/ from results/.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something is not as made")
    check = parser.parse_args(arguments).check
    wrong = 0
    if not check:
        draw()
    for path in documents():
        text = path.read_text()
        new = text if check else rewritten(text)
        if new != text:
            path.write_text(new)
            print(f"{path.relative_to(ROOT)}: rewritten")
        for problem in problems(new):
            wrong += 1
            print(f"{path.relative_to(ROOT)}: {problem}", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
