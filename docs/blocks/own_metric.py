"""Each metric by its own loss."""

from functools import partial
from typing import Any

from .numbers import BLOCKS, as_table, block, error_cell, mean_cell, records_of
from .verdicts import claims_of, verdict_of

OWN_SETS = ("annthyroid", "lambdarank", "mammography", "MQ2007-agg")
QUERIES = ("lambdarank", "MQ2007-agg")
OWN_METRICS = ("AP", "AUC", "pAUC", "NDCG@10", "P@k", "F1")
OWN_ROWS = (
    *(f"direct {metric}" for metric in OWN_METRICS),
    *(f"direct {metric}, falling k" for metric in ("NDCG@10", "P@k")),
    *("BCE", "RankNet", "ListNet", "LambdaRank", "ApproxNDCG", "LambdaMART"),
)


def _own(name: str, method: str, metric: str) -> dict[str, Any] | None:
    return records_of("own-metric").get((name, method, 0.0, None, metric))


def _own_best(name: str, metric: str) -> str:
    """The row with the highest mean."""
    found = {method: record["mean"] for method in OWN_ROWS if (record := _own(name, method, f"test {metric}"))}
    return max(found, key=lambda method: found[method])


def _own_cell(name: str, method: str, metric: str) -> str:
    text = mean_cell("own-metric", name, method, metric=f"test {metric}")
    return f"**{text}**" if text != "–" and method == _own_best(name, metric) else text


def _own_gain(name: str, method: str, metric: str) -> str:
    """The loss on the metric minus a method ± standard error."""
    return error_cell("own-metric", (name, method, 0.0, None, f"own minus this {metric}"), "+")


def _own_table(name: str) -> str:
    rows = [
        [method, *(_own_cell(name, method, metric) for metric in OWN_METRICS)]
        for method in OWN_ROWS
        if _own(name, method, "test AP")
    ]
    return as_table(["trained on", *OWN_METRICS], rows)


@block
def own_metric_gains() -> str:
    """The loss on a metric minus cross-entropy, on that metric."""
    rows = [[name, *(_own_gain(name, "BCE", metric) for metric in OWN_METRICS)] for name in OWN_SETS]
    return as_table(["its own loss minus BCE", *OWN_METRICS], rows)


@block
def own_metric_falling() -> str:
    """The losses with a falling k minus those with a fixed one, cross-entropy and the loss on AP."""

    def shown(name: str, metric: str, other: str) -> str:
        return error_cell("own-metric", (name, other, 0.0, None, f"falling minus this {metric}"), "+")

    rows = [
        [f"{name}, {metric}", *(shown(name, metric, other) for other in (f"direct {metric}", "BCE", "direct AP"))]
        for name in OWN_SETS
        for metric in ("NDCG@10", "P@k")
    ]
    return as_table(["falling k minus", "fixed k", "BCE", "direct AP"], rows)


@block
def own_metric_rivals() -> str:
    """The losses on NDCG@10 and AP minus the usual losses of learning to rank."""
    rows = [
        [f"{name}, {metric}", *(_own_gain(name, method, metric) for method in OWN_ROWS[9:])]
        for name in OWN_SETS
        if name in QUERIES
        for metric in ("NDCG@10", "AP")
    ]
    return as_table(["its own loss minus", *OWN_ROWS[9:]], rows)


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
        rows.append([method, *(mean_cell("own-metric", name, method, metric="test F1 at 0") for name in OWN_SETS)])
    return as_table(["F1 at 0, trained on", *OWN_SETS], rows)


@block
def own_metric_dead() -> str:
    """The share of iterations without a gradient."""
    rows = []
    for method in OWN_ROWS[:8]:
        found = [_own(name, method, "dead_gradients") for name in OWN_SETS]
        rows.append([method, *(f"{100 * each['mean']:.0f} %" if each else "–" for each in found)])
    return as_table(["iterations without a gradient", *OWN_SETS], rows)


@block
def own_metric_verdicts() -> str:
    """Every claim, by set of data."""
    rows = [
        [says, *(verdict_of("own-metric", says, name) if name in judged.verdicts else "–" for name in OWN_SETS)]
        for says, judged in claims_of("own-metric").items()
    ]
    return as_table(["claim (comparisons)", *OWN_SETS], rows)


BLOCKS |= {f"own_metric_{name.partition('-')[0].lower()}": partial(_own_table, name) for name in OWN_SETS}
