"""Embeddings that are searched: every sample is a query, and ranks the others by similarity."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .autograd import remember_description
from .checks import check_embeddings, check_parts, check_reduction, check_similarity
from .group_module import GroupModule
from .loss import is_autocast, structured_loss
from .task import Task
from .tasks import AveragePrecision
from .update import PositiveDirect, Update

__all__ = ["RetrievalLoss"]


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
        queries = items = embeddings
        known = labels
        mask = None
        if ref_embeddings is None or ref_labels is None:
            mask = ~torch.eye(len(embeddings), dtype=torch.bool, device=embeddings.device)
        else:
            items, known = ref_embeddings, ref_labels
            if len(items) == 1:  # lists of one item on purpose: none of them counts
                mask = torch.ones(len(embeddings), 1, dtype=torch.bool, device=embeddings.device)
        if self.similarity == "cosine":
            queries = nn.functional.normalize(queries, dim=-1)
            items = queries if items is embeddings else nn.functional.normalize(items, dim=-1)
        target = labels.unsqueeze(1) == known.unsqueeze(0)
        return structured_loss(self.task, self.update, queries @ items.T, target, mask, self.reduction)

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


def _gather(group: Any, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The samples of all processes."""
    from .distributed import gather

    (vectors,) = gather(group, embeddings.T)
    _, known = gather(group, embeddings.detach()[:, 0], labels)
    return vectors.T, known
