"""Embeddings that are searched: every sample is a query, and ranks the others by similarity."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .autograd import remember_description
from .checks import check_embeddings, check_is_task, check_parts, check_reduction, check_similarity
from .group_module import GroupModule
from .loss import is_autocast, structured_loss
from .metric import metric
from .task import Task
from .tasks import AveragePrecision
from .update import PositiveDirect, Update

__all__ = ["RetrievalLoss", "retrieval_metric"]

CHUNK = 1 << 24  # similarities that are in memory at once


class RetrievalLoss(GroupModule):
    """A loss that trains embeddings on a metric of retrieval: samples with the query's label are its positives.

    Args:
        task: a task on lists of 0 and 1; the mean of average precisions over queries is mAP.
        update: which update. Cosine similarities differ by about 0.1, so ε is smaller than for scores.
        similarity: "cosine" or "dot".
        reduction: "mean" over the queries that count, "sum", or "none" for one value for each query.
        process_group: processes whose embeddings are all queries, and are all searched; see `StructuredLoss`.

    Call it with embeddings (queries, dimensions) and labels (queries,). Each query ranks all others. With
    ref_embeddings (items, dimensions) and ref_labels (items,) each query ranks these items instead. A query without a
    positive or without a negative does not count.

    >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.5, 0.5]], requires_grad=True)
    >>> value = RetrievalLoss()(embeddings, torch.tensor([0, 1, 1, 0]))
    >>> value
    tensor(0.5833, grad_fn=<...>)
    """

    def __init__(
        self,
        task: Task = AveragePrecision(),
        update: Update = PositiveDirect(0.1),
        similarity: str = "cosine",
        reduction: str = "mean",
        *,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        check_parts(task, update)
        remember_description(task)
        self.task = task
        self.update = update
        self.similarity = check_similarity(similarity)
        self.reduction = check_reduction(reduction)
        self.process_group = process_group

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_embeddings: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss of all queries."""
        check_embeddings(embeddings, labels, ref_embeddings, ref_labels)
        if is_autocast(embeddings):
            with torch.autocast(embeddings.device.type, enabled=False):  # similarities in half precision are often tied
                dtype = torch.promote_types(embeddings.dtype, torch.float32)
                searched = None if ref_embeddings is None else ref_embeddings.to(dtype)
                return self(embeddings.to(dtype), labels, searched, ref_labels)
        if self.process_group is not None:
            embeddings, labels = _gather(self.process_group, embeddings, labels)
            if ref_embeddings is not None and ref_labels is not None:
                ref_embeddings, ref_labels = _gather(self.process_group, ref_embeddings, ref_labels)
        lists = _Lists(embeddings, labels, ref_embeddings, ref_labels, self.similarity)
        return structured_loss(self.task, self.update, *lists.of(slice(None)), self.reduction)

    if TYPE_CHECKING:  # torch's own says nothing of the arguments

        def __call__(
            self,
            embeddings: Tensor,
            labels: Tensor,
            ref_embeddings: Tensor | None = None,
            ref_labels: Tensor | None = None,
        ) -> Tensor:
            """`forward`, with the hooks of a module."""
            ...

    def extra_repr(self) -> str:
        """What it is made of."""
        return f"task={self.task}, update={self.update}, similarity={self.similarity!r}, reduction={self.reduction!r}"


@torch.no_grad()
def retrieval_metric(
    task: Task,
    embeddings: Tensor,
    labels: Tensor,
    ref_embeddings: Tensor | None = None,
    ref_labels: Tensor | None = None,
    similarity: str = "cosine",
    reduction: str = "mean",
) -> Tensor:
    """The metric of a search, for validation: what `RetrievalLoss` trains on, of all samples.

    The arguments are those of `RetrievalLoss`, and so is what a query ranks. Similarities are computed for some queries
    at a time. A query without a positive or without a negative does not count; with reduction="none" it is NaN.

    - `AveragePrecision()`: mAP. `AveragePrecisionAtK(R)`: MAP@R, where every class has R other samples.
    - `HitAtK(k)`: recall@k of retrieval, the share of queries with a positive among the first k.
    - `NDCG(k)`, `ReciprocalRank()`: as they say.

    >>> from directloss import HitAtK
    >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.5, 0.5]])
    >>> retrieval_metric(HitAtK(1), embeddings, torch.tensor([0, 1, 1, 0]))
    tensor(0.)
    >>> retrieval_metric(AveragePrecision(), embeddings, torch.tensor([0, 1, 1, 0]), reduction="none")
    tensor([0.5000, 0.3333, 0.5000, 0.3333])
    """
    check_is_task(task)
    check_similarity(similarity)
    check_embeddings(embeddings, labels, ref_embeddings, ref_labels)
    check_reduction(reduction)
    lists = _Lists(embeddings, labels, ref_embeddings, ref_labels, similarity)
    queries = max(CHUNK // max(len(lists.items), 1), 1)
    parts = range(0, len(embeddings), queries)
    values = [metric(task, *lists.of(slice(first, first + queries)), "none") for first in parts]
    found = torch.cat(values) if values else embeddings.new_empty(0)
    if reduction == "none":
        return found
    return found.nanmean() if reduction == "mean" else found.nansum()


class _Lists:
    """What queries rank."""

    def __init__(
        self, embeddings: Tensor, labels: Tensor, others: Tensor | None, known: Tensor | None, similarity: str
    ) -> None:
        self.themselves = others is None or known is None
        self.queries, self.labels = embeddings, labels
        self.items, self.known = (embeddings, labels) if others is None or known is None else (others, known)
        if similarity == "cosine":
            self.queries = nn.functional.normalize(embeddings, dim=-1)
            self.items = self.queries if self.themselves else nn.functional.normalize(self.items, dim=-1)

    def of(self, some: slice) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scores, target and mask of some queries."""
        queries, mask, device = self.queries[some], None, self.queries.device
        if self.themselves:
            numbers = torch.arange(len(self.queries), device=device)
            mask = numbers[some].unsqueeze(1) != numbers
        elif len(self.items) == 1:  # lists of one item on purpose: none of them counts
            mask = torch.ones(len(queries), 1, dtype=torch.bool, device=device)
        return queries @ self.items.T, self.labels[some].unsqueeze(1) == self.known, mask


def _gather(group: Any, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The samples of all processes."""
    from .distributed import gather

    (vectors,) = gather(group, embeddings.T)
    _, known = gather(group, embeddings.detach()[:, 0], labels)
    return vectors.T, known
