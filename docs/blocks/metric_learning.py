"""Metric learning: drawings of characters that training did not see."""

from .numbers import Key, as_table, block, error_cell, mean_cell, records_of, select
from .verdicts import claims_of, verdict_of

NAME, METRICS = "Omniglot", ("MAP@R", "recall@1", "mAP")
BASELINES = "untrained", "pixels"


def _methods() -> list[str]:
    return list(dict.fromkeys(key.method for key in select("metric-learning")))


def _mean(method: str, metric: str) -> float:
    return records_of("metric-learning")[Key(NAME, method, 0.0, None, f"test_{metric}")]["mean"]


def _ranked(metric: str) -> list[str]:
    """The losses, the highest mean first."""
    trained = [method for method in _methods() if method not in BASELINES]
    return sorted(trained, key=lambda method: -_mean(method, metric))


@block
def metric_learning_results() -> str:
    """Three metrics on test characters, the highest mean of a column in bold."""
    rows = []
    for method in _methods():
        cells = {metric: mean_cell("metric-learning", NAME, method, metric=f"test_{metric}") for metric in METRICS}
        marked = [f"**{cell}**" if _ranked(metric)[0] == method else cell for metric, cell in cells.items()]
        rows.append([method, *marked])
    return as_table(["trained with", *METRICS], rows)


@block
def metric_learning_differences() -> str:
    """The loss on AP minus the others, paired by split."""
    rows = [
        [
            method,
            *(
                error_cell("metric-learning", (NAME, method, 0.0, None, f"AP minus this, {metric}"), "+")
                for metric in METRICS
            ),
        ]
        for method in _methods()
        if method != "AP"
    ]
    return as_table(["", *(f"AP minus it, {metric}" for metric in METRICS)], rows)


@block
def metric_learning_verdicts() -> str:
    """Every claim."""
    rows = [[says, verdict_of("metric-learning", says)] for says in claims_of("metric-learning")]
    return as_table(["claim (comparisons)", "verdict"], rows)


@block
def metric_learning_splits() -> str:
    """How many splits there are."""
    return str(max(record["n"] for record in select("metric-learning").values()))


@block
def metric_learning_order() -> str:
    """The order of the losses, and how far they are from each other: in sentences."""
    said = []
    for metric in METRICS:
        ranked = _ranked(metric)
        order = ", ".join(f"{method} {_mean(method, metric):.3f}" for method in ranked)
        span = _mean(ranked[0], metric) - _mean(ranked[-1], metric)
        said.append(f"- **{metric}**: {order}. From first to last: {span:.3f}.")
    return "\n".join(said)
