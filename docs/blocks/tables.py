"""Real tables."""

from functools import partial
from typing import Any

from .numbers import BLOCKS, as_table, block, records_of, rows_of_means, select, with_error

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
    found = select("tables", variant=f"{protocol}, {kind}, {length}", noise=noise, metric=metric)
    return {key.method: record for key, record in found.items() if key.class_ is None or metric.startswith("worst")}


def _by_table(name: str, variant: str, noise: float) -> dict[str, dict[str, dict[str, Any]]]:
    """The records of every method by table."""
    by_method: dict[str, dict[str, dict[str, Any]]] = {}
    for key, record in select(name, variant=variant, noise=noise, metric="test_ap").items():
        if key.class_ is not None:
            by_method.setdefault(key.method, {})[key.class_] = record
    return by_method


def _tables_by_table(length: str, kind: str, noise: float, protocol: str = "untuned") -> Any:
    return _by_table("tables", f"{protocol}, {kind}, {length}", noise)


def _is_network(method: str) -> bool:
    return "GBM" not in method and "XGB" not in method


def _means(records: dict[str, dict[str, Any]]) -> dict[str, float]:
    return {method: record["mean"] for method, record in records.items()}


def _tables_by_noise(length: str, protocol: str = "untuned") -> str:
    """Methods down, kinds of noise across; the highest mean of a network in bold."""
    columns = {
        words: found
        for words, kind, noise in TABLE_NOISES
        if (found := _tables(length, kind, noise, protocol=protocol))
    }
    means = {words: _means(found) for words, found in columns.items()}
    rows = rows_of_means(means, next(iter(columns.values())), _is_network)
    counted = ["number of tables", *(str(next(iter(found.values()))["n"]) for found in columns.values())]
    return as_table(["method", *columns], [*rows, counted])


def _runs(protocol: str) -> str:
    parts = []
    for words, kind, noise in TABLE_NOISES:
        found = _tables_by_table("8×", kind, noise, protocol).get("x-ent", {})
        if found:
            parts.append(f"{words}: {len(found)} tables, {_seeds(found)}")
    return "; ".join(parts)


def _seeds(by_table: dict[str, dict[str, Any]]) -> str:
    seeds = sorted({record["n"] for record in by_table.values()})
    return f"{' or '.join(map(str, seeds))} seed{'s' * (seeds != [1])}"


@block
def tables_lengths() -> str:
    """By training length, at the most flipped labels that there are."""
    words, kind, noise = [of for of in TABLE_NOISES[:3] if _tables("1×", *of[1:])][-1]
    columns = {length: _means(_tables(length, kind, noise)) for length in ("1×", "2×", "4×", "8×", "stopped early")}
    return as_table([words, *columns], rows_of_means(columns, columns["1×"]))


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
    return as_table(header, rows)


@block
def choose_this_if() -> str:
    """Where the loss wins and where something else does, in six lines; the strongest rivals stand in them."""
    long = {noise: _means(_tables("8×", "symmetric", noise)) for noise in (0.0, 0.2, 0.4)}
    tuned = {noise: _means(_tables("stopped early", "symmetric", noise, protocol="tuned")) for noise in (0.2, 0.4)}
    missing = _means(_tables("8×", "missing positives", 0.5))
    by_table = _tables_by_table("8×", "symmetric", 0.0)
    gains = {name: of["mean"] - by_table["x-ent"][name]["mean"] for name, of in by_table["pos-AP"].items()}
    won, lost = sum(gain > 0.005 for gain in gains.values()), sum(gain < -0.005 for gain in gains.values())
    ours, theirs = "pos-AP", "x-ent"
    ahead = {
        noise: ", ".join(
            f"{method} {mean:.3f}"
            for method, mean in sorted(long[noise].items(), key=lambda one: -one[1])
            if mean > long[noise][ours] and "oracle" not in method and "→" not in method
        )
        for noise in (0.2, 0.4)
    }
    pairs = {noise: f"{found[ours]:.3f}, {theirs} {found[theirs]:.3f}" for noise, found in tuned.items()}
    return "\n".join((
        "**Choose this if**",
        "",
        f"- training labels may be wrong: AP {pairs[0.2]} with 20 % flipped;",
        f"  {pairs[0.4]} with 40 % (eight tables, both tuned and stopped early);",
        "- your metric is AP, NDCG, recall at a rate, IoU, … or two vectors of your own: inference is exact;",
        "- you cannot change network, data or optimizer, only the loss.",
        "",
        "**Choose something else if**",
        "",
        f"- labels are right: of {len(gains)} tables it wins {won} and loses {lost} against {theirs}, and LightGBM",
        f"  ({long[0.0]['LightGBM logloss']:.3f}) beats all networks ({long[0.0][ours]:.3f});",
        "- only the best will do after a long training on flipped labels:",
        f"  {ahead[0.2]} at 20 % ({ours} {long[0.2][ours]:.3f});",
        f"  {ahead[0.4]} at 40 % ({ours} {long[0.4][ours]:.3f});",
        f"- half of the positives are missing ({missing[ours]:.3f}, {theirs} {missing[theirs]:.3f}); photos have",
        "  labels [from people](docs/studies/tables.md#labels-that-people-gave) (it is behind); or you",
        "  need probabilities.",
    ))  # fmt: skip


@block
def tables_seconds() -> str:
    """Of one training."""
    found = select("tables", variant="untuned, 8×", metric="seconds")
    return "; ".join(f"{key.method} {record['mean']:.2f}" for key, record in found.items())


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
    columns = {
        words: _means({
            key.method: record
            for key, record in select("human-labels", variant=f"untuned, {kind}, {length}", metric="test_ap").items()
            if key.class_ is None
        })
        for words, kind in HUMAN_LABELS.items()
    }  # fmt: skip
    there = [method for method in HUMAN_METHODS if any(method in means for means in columns.values())]
    return as_table([length, *columns], rows_of_means(columns, there, _is_network))


@block
def human_labels_against() -> str:
    """Minus cross-entropy, with the standard error over classes."""
    found = {kind: _by_table("human-labels", f"untuned, {kind}, 8×", 0.0) for kind in HUMAN_LABELS.values()}
    rows = []
    for method in HUMAN_METHODS[1:]:
        cells = []
        for by_method in found.values():
            mine, base = (_means(by_method.get(name, {})) for name in (method, "x-ent"))
            cells.append(with_error([value - base[name] for name, value in mine.items()], "+") if mine else "–")
        if set(cells) != {"–"}:
            rows.append([method, *cells])
    return as_table(["8×, minus x-ent", *HUMAN_LABELS], rows)


@block
def human_labels_wrong() -> str:
    """Shares of wrong labels, by set of labels."""
    found = records_of("human-labels-shares")
    metrics = list(dict.fromkeys(metric for *_, metric in found))
    rows = [
        [words, *(f"{100 * found[kind, 'labels', 0.0, None, metric]['mean']:.1f} %" for metric in metrics)]
        for words, kind in HUMAN_LABELS.items()
        if kind != "symmetric"
    ]
    return as_table(["labels", *metrics], rows)


@block
def human_labels_runs() -> str:
    """What the results hold."""
    parts = []
    for words, kind in HUMAN_LABELS.items():
        if mine := _by_table("human-labels", f"untuned, {kind}, 8×", 0.0).get("x-ent"):
            parts.append(f"{words}: {len(mine)} classes, {_seeds(mine)}")
    return "; ".join(parts)


BLOCKS |= {
    "tables_short": partial(_tables_by_noise, "1×"),
    "tables_long": partial(_tables_by_noise, "8×"),
    "tables_early": partial(_tables_by_noise, "stopped early"),
    "tables_regularised": partial(_tables_by_noise, "8×", "regularised"),
    "tables_tuned": partial(_tables_by_noise, "8×", "tuned"),
    "tables_tuned_early": partial(_tables_by_noise, "stopped early", "tuned"),
    "tables_runs": partial(_runs, "untuned"),
    "tables_tuned_runs": partial(_runs, "tuned"),
    "human_labels_short": partial(_human, "1×"),
    "human_labels_long": partial(_human, "8×"),
}
