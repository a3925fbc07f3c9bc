"""Labels that people gave, and molecules."""

from statistics import fmean

from .numbers import as_table, block, records_of, select, with_error
from .regimes import ADAPTIVE, DECAYED, EARLY, ESTIMATORS, LONG, PLAIN, TOOLS

CIFAR = {"aggregate": "human aggregate", "random 1": "human random1", "worst": "human worst"}
COLUMNS = {
    "photos, right": ("cifar10n ", "symmetric"),
    **{f"photos, {words}": ("cifar10n ", kind) for words, kind in CIFAR.items()},
    "products, right": ("product", "symmetric"),
    "products, one answer": ("product", "human single"),
    "products, 14 columns, one answer": ("product14", "human single"),
    "tweets, one answer": ("tweets", "human single"),
    "molecules, right": ("hiv", "symmetric"),
}
"""The tables, by the beginning of their names, and the kind of labels."""
ROWS = {
    "x-ent, plain": ("x-ent", PLAIN, LONG),
    "x-ent, plain, stopped": ("x-ent", PLAIN, EARLY),
    **{f"{method}, decay 3, stopped": (method, DECAYED, EARLY) for method in ("x-ent", "GCE", "pos-AP")},
    **{
        f"{method}, adaptive, stopped": (method, ADAPTIVE, EARLY)
        for method in ("x-ent", "GCE", "symmetric x-ent", "ELR", "pairwise sigmoid", "pos-AP", "x-ent → pos-AP")
    },
    **{name: (name, TOOLS, LONG) for name in ESTIMATORS},
}


def _by_table(of: tuple[str, str, str], tables: str, kind: str) -> dict[str, float]:
    """Test AP by table, the mean over seeds."""
    method, protocol, length = of
    name = "human-labels" if protocol == PLAIN and tables.startswith("cifar") else "people"
    found = select(name, variant=f"{protocol}, {kind}, {length}", method=method, noise=0.0, metric="test_ap")
    return {
        key.class_: record["mean"]
        for key, record in found.items()
        if key.class_ and (key.class_ == tables or (tables.endswith(" ") and key.class_.startswith(tables)))
    }


@block
def people_results() -> str:
    """Means over tables of each kind; the highest of a column is bold."""
    means = {
        name: [fmean(found.values()) if (found := _by_table(of, *column)) else None for column in COLUMNS.values()]
        for name, of in ROWS.items()
    }
    best = [max(some[k] or 0.0 for some in means.values()) for k in range(len(COLUMNS))]
    rows = [
        [name, *("–" if value is None else f"**{value:.3f}**" if value == best[k] else f"{value:.3f}"
                 for k, value in enumerate(some))]
        for name, some in means.items() if any(some)
    ]  # fmt: skip
    return as_table(["test AP", *COLUMNS], rows)


@block
def people_gains() -> str:
    """pos-AP minus rivals on the photos, paired by class."""
    ours = ROWS["pos-AP, adaptive, stopped"]
    rows = []
    for rival in ("x-ent, adaptive, stopped", "GCE, adaptive, stopped", "x-ent, plain, stopped"):
        cells = []
        for column in ("photos, right", *(f"photos, {words}" for words in CIFAR)):
            mine, theirs = (_by_table(of, *COLUMNS[column]) for of in (ours, ROWS[rival]))
            shared = mine.keys() & theirs.keys()
            cells.append(with_error([mine[name] - theirs[name] for name in sorted(shared)], "+") if shared else "–")
        if set(cells) != {"–"}:
            rows.append([rival, *cells])
    return as_table(["pos-AP, adaptive, stopped, minus", "right", *CIFAR], rows)


@block
def human_labels_wrong() -> str:
    """Shares of wrong labels, by set of labels."""
    found = records_of("human-labels-shares")
    metrics = list(dict.fromkeys(metric for *_, metric in found))
    rows = [
        [words, *(f"{100 * found[kind, 'labels', 0.0, None, metric]['mean']:.1f} %" for metric in metrics)]
        for words, kind in CIFAR.items()
    ]
    return as_table(["labels", *metrics], rows)


@block
def answers_wrong() -> str:
    """Shares of wrong labels of the other tables."""
    rows = []
    for table, kind in (("product", "human single"), ("product", "human majority"), ("tweets", "human single")):
        mine = {key.metric: record for key, record in select("answer-shares", class_=table, variant=kind).items()}
        rows.append([
            f"{table}, {kind.removeprefix('human ')}",
            f"{mine['positives']['n']:,}",
            *(f"{100 * mine[name]['mean']:.1f} %"
              for name in ("positives", "wrong", "positives missed", "positive labels that are wrong")),
        ])  # fmt: skip
    return as_table(
        ["labels", "rows", "positives", "wrong", "positives missed", "positive labels that are wrong"], rows
    )


@block
def people_runs() -> str:
    """How many seeds there are."""
    parts = []
    for words, (tables, kind) in COLUMNS.items():
        prefix = tables if not tables.endswith(" ") else "cifar10n airplane"
        found = select("people", variant=f"{ADAPTIVE}, {kind}, {LONG}", method="x-ent", noise=0.0, class_=prefix)
        parts += [f"{words}: {record['n']}" for key, record in found.items() if key.metric == "test_ap"]
    return ", ".join(parts)
