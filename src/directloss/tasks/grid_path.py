"""A path through a grid, from the first cell to the last: routing on a map, time warping, a border in an image.

Outputs: paths through cells (H, W) that go right and down, with 8 neighbours also diagonally right and down; y = 1 on
the path, else 0. Scores (..., H, W): the reward of a cell, so minus its cost: pass −costs. F = 2/n·Σ of the scores on
the path, n the most cells that a path has. L, by the task's `loss`:

- "hamming": the target is the true path, 0 and 1. L = the number of cells on one of the two paths only.
- "regret": the target holds the true costs of the cells. L = the true cost of the path above that of the best path.

Both are divided by their largest value of all paths, so L is 1 for the worst path. Both are linear in y: argmax
F + weight·L is the best path for shifted scores, which may have any sign, because no path has a cycle.

A mask is False for cells that no path may enter: walls, or padding to the right and below. The path ends where the last
row and the last column that have valid cells meet. Where all paths have one loss the problem does not count. Of equally
good paths one is taken, going back from the end: up wins over left, left over diagonal; features are not shared.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import check_binary, raise_at_first
from ..families.linear_loss import LinearLossTask
from ..task import Output, Problem

__all__ = ["GridPath", "PathTask"]

LOSSES = ("hamming", "regret")
ROUNDING = 1e-12  # the share of the costs by which paths of one cost may differ in float64


@cache
def kernels() -> ModuleType:
    """Loaded on first use: importing numba takes half a second."""
    return import_module("directloss.kernels.grid_path")


def array(values: Tensor, shape: tuple[int, ...]) -> NDArray[Any]:
    """As a kernel takes it."""
    return values.cpu().contiguous().numpy().reshape(shape)


def tensor(values: NDArray[Any], shape: torch.Size, scores: Tensor) -> Tensor:
    """What a kernel found, in the shape of the batch, beside the scores."""
    return torch.from_numpy(values.reshape(shape)).to(scores.device)


class PathTask(LinearLossTask):
    """What paths have in common: a subclass finds the best path, and has a field `loss`."""

    exchangeable = False
    loss: str

    @abstractmethod
    def find(self, scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """argmax <scores, y> over all paths, 0 where there is none, and whether there is one, in the batch's shape."""

    @abstractmethod
    def paths(self, scores: Tensor) -> Tensor:
        """Every path of one small problem, (K, …), float64."""

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}; got {self.loss!r}.")

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        """The cost of every part in L, and the best path, stacked in a last dimension."""
        if self.loss == "hamming":
            check_binary(scores, target, mask)
            costs = (1 - 2 * target.double()).where(mask, 0.0)
        else:
            costs = _check_costs(scores, target, mask)
        best, exists = self.find(-costs, mask)
        blocked = ~exists & mask.flatten(-self.event_dims).any(-1)
        raise_at_first(blocked, exists, "there must be a path through what the mask leaves", "Let it leave both ends.")
        if self.loss == "hamming":  # a path is the best one for its own costs
            wrong = (best != target.double()) & mask
            cure = "Pass the cells or edges of one path, from end to end; for true costs there is loss='regret'."
            raise_at_first(wrong, target, "target must be a path that the task has", cure)
        worst, _ = self.find(costs, mask)
        spread, total = (self._sum(each * costs.abs()) for each in ((worst - best) * costs.sign(), worst + best))
        spread = self._per_problem(spread.where(spread > ROUNDING * total, torch.inf), scores)
        return torch.stack([costs / spread, best], -1)

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        return target[..., 0].flatten(-self.event_dims).any(-1)

    def cost(self, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        costs, best = target.unbind(-1)
        return -self._sum(costs * best), costs

    def scale(self, target: Tensor, mask: Tensor) -> Tensor:
        batch = mask.shape[: mask.dim() - self.event_dims]
        if mask.numel() and mask.all():
            mask = mask[(0,) * len(batch)]  # one for all
        return (2 / self._sum(self.decode(mask.double(), mask)).clamp(min=1)).expand(batch)

    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        return self.find(scores, mask)[0]

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """Every path."""
        paths, target = self.paths(scores), target.double()
        wrong = (paths - target).abs() if self.loss == "hamming" else paths * target
        loss = self._sum(wrong)
        loss -= loss.min()
        if loss.max() < 1e-9:  # the problem does not count
            return Output(torch.zeros_like(paths), torch.zeros_like(loss))
        return Output(2 * paths / self._sum(paths).max(), loss / loss.max())

    def _sum(self, values: Tensor) -> Tensor:
        return values.flatten(-self.event_dims).sum(-1)


def _check_costs(scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    if target.shape != scores.shape:
        raise ValueError(
            f"scores has shape {tuple(scores.shape)} but target has shape {tuple(target.shape)}; for regret it holds "
            "the true costs, in the shape of scores."
        )
    if target.is_complex():
        raise TypeError(f"target must hold true costs, real numbers; got {target.dtype}. Pass target.real.")
    costs = target.double().where(mask, 0.0)
    raise_at_first(~(costs.abs() < 1e100), costs, "target must hold true costs, finite ones", "Mask a wall out.")
    return costs


@dataclass(frozen=True, repr=False)
class GridPath(PathTask):
    """Hamming distance or regret of a path through a grid. Every oracle is exact, O(H·W).

    >>> costs = torch.tensor([[1.0, 4.0, 9.0], [1.0, 2.0, 1.0], [5.0, 5.0, 1.0]])
    >>> path = torch.tensor([[1, 1, 1], [0, 0, 1], [0, 0, 1]])
    >>> GridPath(neighbours=4).infer(-costs, path).loss  # 4 cells are on one path only, 6 on the worst
    tensor(0.6667)
    >>> GridPath(neighbours=4, loss="regret").infer_augmented(-costs, costs, 10.0).loss  # the worst path: 16 against 6
    tensor(1.)
    """

    neighbours: int = 8
    loss: str = "hamming"

    event_dims = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours not in (4, 8):
            raise ValueError(f"neighbours must be 4 (right, down) or 8 (diagonal too); got {self.neighbours!r}.")

    def __repr__(self) -> str:
        return f"GridPath(neighbours={self.neighbours}, loss={self.loss!r})"

    def find(self, scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        y = np.zeros((scores.shape[:-2].numel(), *scores.shape[-2:]))
        exists = kernels().grid_path(array(scores, y.shape), array(mask, y.shape), self.neighbours == 8, y)
        return tensor(y, scores.shape, scores), tensor(exists, scores.shape[:-2], scores)

    def paths(self, scores: Tensor) -> Tensor:
        moves = [(0, 1), (1, 0), (1, 1)][: 2 if self.neighbours == 4 else 3]
        last = tuple(size - 1 for size in scores.shape)
        paths = []

        def go(path: list[tuple[int, int]]) -> None:
            (row, column) = path[-1]
            if (row, column) == last:
                paths.append(torch.zeros(scores.shape, dtype=torch.float64))
                paths[-1][tuple(zip(*path, strict=True))] = 1
            for down, right in moves:
                if row + down <= last[0] and column + right <= last[1]:
                    go([*path, (row + down, column + right)])

        go([(0, 0)])
        return torch.stack(paths)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        shape = tuple((1 + torch.randint(min(longest, 4), (2,), generator=generator)).tolist())
        scores, costs = torch.randn((2, *shape), generator=generator, dtype=torch.float64)
        mask = None
        if torch.rand((), generator=generator) < 0.5:
            mask = torch.rand(shape, generator=generator) < 0.8
            mask |= self.find(costs, torch.ones_like(mask))[0] > 0
        valid = torch.ones(shape, dtype=torch.bool) if mask is None else mask
        return Problem(scores, costs if self.loss == "regret" else self.find(costs, valid)[0], mask)
