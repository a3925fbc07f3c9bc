"""Text search: a sentence model trained on its metric."""

from .numbers import as_table, block, error_cell, mean_cell, select
from .verdicts import claims_of, verdict_of

NAME, METRICS = "Cranfield", ("NDCG@10", "MAP", "MRR")
OURS = (
    ("NDCG", "NDCG@10"),
    ("NDCG, all documents", "NDCG@10"),
    ("NDCG of all ranks, all documents", "NDCG@10"),
    ("AP, all documents", "MAP"),
)
USUAL = "ListNet", "LambdaLoss", "RankNet", "MultipleNegatives", "softmax"


def _methods() -> list[str]:
    return list(dict.fromkeys(key.method for key in select("text-search")))


def _best(metric: str) -> str:
    means = {
        key.method: record["mean"] for key, record in select("text-search").items() if key.metric == f"test_{metric}"
    }
    return max(means, key=lambda method: means[method])


@block
def text_search_results() -> str:
    """Three metrics on test queries, the highest mean of a column in bold."""
    rows = []
    for method in _methods():
        cells = [mean_cell("text-search", NAME, method, metric=f"test_{metric}") for metric in METRICS]
        rows.append(
            [
                method,
                *(
                    f"**{cell}**" if _best(metric) == method else cell
                    for cell, metric in zip(cells, METRICS, strict=True)
                ),
            ]
        )
    return as_table(["trained with", *METRICS], rows)


@block
def text_search_differences() -> str:
    """The losses on NDCG and AP minus the others, paired by fold."""
    rows = []
    for method in _methods():
        cells = [
            error_cell("text-search", (NAME, method, 0.0, None, f"{ours} minus this, {metric}"), "+")
            for ours, metric in OURS
        ]
        if not method.startswith(("NDCG", "AP")):
            rows.append([method, *cells])
    return as_table(["", *(f"{ours} − it, {metric}" for ours, metric in OURS)], rows)


@block
def text_search_verdicts() -> str:
    """Every claim."""
    rows = [[says, verdict_of("text-search", says)] for says in claims_of("text-search")]
    return as_table(["claim (comparisons)", "verdict"], rows)


@block
def text_search_says() -> str:
    """Who is ahead, and by how much: in sentences."""
    records, said = select("text-search"), []
    for metric, loss in (("NDCG@10", "NDCG"), ("MAP", "AP")):
        means = {key.method: record["mean"] for key, record in records.items() if key.metric == f"test_{metric}"}
        usual = {method: means[method] for method in means if method.startswith(USUAL)}
        best = max(usual, key=lambda method: usual[method])
        ours = ", ".join(
            f"the loss on {loss}{where} {means[loss + where] - means[best]:+.3f}".replace("-", "−")
            for where in ("", ", all documents", " of all ranks, all documents")
            if loss + where in means
        )
        said.append(
            f"- **{metric}**: {_best(metric)} has the highest mean, {max(means.values()):.3f}; the untuned model has "
            f"{means['untuned']:.3f}, BM25 {means['BM25']:.3f}. Of the usual losses, {best} is best, with "
            f"{means[best]:.3f}. Beside it: {ours}."
        )
    return "\n".join(said)
