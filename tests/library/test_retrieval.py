"""The metric of a search: what a loop over the queries gives, and what the loss trains on."""

import pytest
import torch
from torch.nn.functional import normalize

from directloss import (
    NDCG,
    AveragePrecision,
    AveragePrecisionAtK,
    HitAtK,
    PositiveDirect,
    RetrievalLoss,
    metric,
    retrieval,
    retrieval_metric,
)

GENERATOR = torch.Generator().manual_seed(0)
LABELS = torch.randint(6, (40,), generator=GENERATOR)
LABELS[0] = 99  # has no other sample
EMBEDDINGS = torch.randn(40, 5, generator=GENERATOR) + torch.nn.functional.one_hot(LABELS % 5, 5)
TASKS = AveragePrecision(), AveragePrecisionAtK(3), HitAtK(1), HitAtK(5), NDCG(10)


def one_by_one(task, queries, labels, items=None, known=None, similarity="cosine"):
    """Each query by itself."""
    values = []
    for number, (query, label) in enumerate(zip(queries, labels, strict=True)):
        others, theirs = (queries, labels) if items is None else (items, known)
        keep = torch.arange(len(others)) != (number if items is None else -1)
        others, theirs = others[keep], theirs[keep]
        if similarity == "cosine":
            query, others = normalize(query, dim=0), normalize(others, dim=1)
        values.append(metric(task, others @ query, theirs == label))
    return torch.stack(values)


@pytest.mark.parametrize("task", TASKS, ids=repr)
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_it_is_the_mean_over_queries(task, similarity):
    expected = one_by_one(task, EMBEDDINGS, LABELS, similarity=similarity)
    options = {"similarity": similarity}
    torch.testing.assert_close(
        retrieval_metric(task, EMBEDDINGS, LABELS, reduction="none", **options), expected, equal_nan=True
    )
    assert expected.isnan().sum() == 1
    torch.testing.assert_close(retrieval_metric(task, EMBEDDINGS, LABELS, **options), expected.nanmean())
    torch.testing.assert_close(
        retrieval_metric(task, EMBEDDINGS, LABELS, reduction="sum", **options), expected.nansum()
    )


def test_queries_rank_other_items():
    queries, items = EMBEDDINGS[:15], EMBEDDINGS[15:]
    found = retrieval_metric(AveragePrecision(), queries, LABELS[:15], items, LABELS[15:], reduction="none")
    expected = one_by_one(AveragePrecision(), queries, LABELS[:15], items, LABELS[15:])
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_a_few_queries_at_a_time_give_the_same(monkeypatch):
    whole = retrieval_metric(AveragePrecision(), EMBEDDINGS, LABELS, reduction="none")
    monkeypatch.setattr(retrieval, "CHUNK", 100)
    torch.testing.assert_close(
        retrieval_metric(AveragePrecision(), EMBEDDINGS, LABELS, reduction="none"), whole, equal_nan=True
    )


def test_the_loss_is_one_minus_it():
    expected = 1 - retrieval_metric(AveragePrecision(), EMBEDDINGS, LABELS)
    torch.testing.assert_close(RetrievalLoss(update=PositiveDirect(1e-9))(EMBEDDINGS, LABELS), expected)


def test_where_no_query_counts_it_is_nan():
    assert retrieval_metric(AveragePrecision(), EMBEDDINGS, torch.arange(40)).isnan()
    assert retrieval_metric(AveragePrecision(), EMBEDDINGS[:0], LABELS[:0]).isnan()
    assert retrieval_metric(AveragePrecision(), EMBEDDINGS[:3], LABELS[:3], EMBEDDINGS[:1], LABELS[:1]).isnan()


def test_it_keeps_no_graph_and_refuses_what_is_wrong():
    assert not retrieval_metric(AveragePrecision(), EMBEDDINGS.clone().requires_grad_(), LABELS).requires_grad
    with pytest.raises(TypeError, match="task must be an instance"):
        retrieval_metric(RetrievalLoss(), EMBEDDINGS, LABELS)
    with pytest.raises(ValueError, match="similarity must be"):
        retrieval_metric(AveragePrecision(), EMBEDDINGS, LABELS, similarity="l2")
    with pytest.raises(ValueError, match="come together"):
        retrieval_metric(AveragePrecision(), EMBEDDINGS, LABELS, EMBEDDINGS)
