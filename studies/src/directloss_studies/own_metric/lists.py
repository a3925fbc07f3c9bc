"""Lists of different lengths: items in one row for networks, padded lists for losses and metrics."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..trainers import passes

__all__ = ["Lists", "Padded"]


class Padded(NamedTuple):
    """Scores (networks, lists, items) and what they are compared with (lists, items)."""

    scores: Tensor
    grades: Tensor
    """Of relevance, 0 where masked."""
    target: Tensor
    """Whether an item is positive; False where masked."""
    mask: Tensor


class Lists:
    """Inputs (items, columns) and grades (items,), list after list; items of grade `positive` or above are positive."""

    def __init__(self, inputs: Tensor, grades: Tensor, sizes: Tensor, positive: int) -> None:
        self.inputs, self.grades, self.sizes, self.positive = inputs, grades, sizes, positive
        self.numbers = torch.repeat_interleave(sizes)
        """For every item the number of its list."""
        self.starts = sizes.cumsum(0) - sizes
        self.places = torch.arange(len(grades)) - self.starts[self.numbers]

    def __len__(self) -> int:
        return len(self.sizes)

    def items(self, lists: Tensor) -> Tensor:
        """The items of some lists, list after list."""
        sizes = self.sizes[lists]
        before = sizes.cumsum(0) - sizes
        return torch.repeat_interleave(self.starts[lists] - before, sizes) + torch.arange(int(sizes.sum()))

    def only(self, lists: Tensor) -> "Lists":
        """Some of the lists."""
        items = self.items(lists)
        return Lists(self.inputs[items], self.grades[items], self.sizes[lists], self.positive)

    def that_count(self) -> "Lists":
        """The lists that have a positive and a negative item."""
        positives = torch.zeros_like(self.sizes).index_add_(0, self.numbers, (self.grades >= self.positive).long())
        return self.only(((positives > 0) & (positives < self.sizes)).nonzero().squeeze(1))

    def batches(self, size: int | None, generator: torch.Generator) -> Iterator[Tensor | None]:
        """The items of random lists without end; None: all lists."""
        for lists in passes(len(self), size, generator):
            yield None if lists is None else self.items(lists)

    def pad(self, scores: Tensor, items: Tensor) -> Padded:
        """Scores (networks, items) of whole lists as padded lists. Gradients flow through."""
        _, rows = self.numbers[items].unique_consecutive(return_inverse=True)
        places = self.places[items]
        shape = int(rows[-1]) + 1, int(places.max()) + 1
        if shape[0] == 1:  # a table
            padded = scores.unsqueeze(1)
        else:
            padded = scores.new_zeros(len(scores), *shape).index_put(
                (torch.arange(len(scores))[:, None], rows, places), scores
            )
        grades, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
        grades[rows, places], mask[rows, places] = self.grades[items], True
        return Padded(padded, grades, (grades >= self.positive) & mask, mask)
