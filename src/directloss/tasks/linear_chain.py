"""Labels of a sequence: a linear chain with edge potentials, as in tagging, named-entity recognition or speech.

Outputs: a label out of K for each of n steps. Scores (..., n − 1, K, K): scores[t, i, j] is the score of label i at
step t followed by label j at step t + 1; `edge_potentials` makes them from scores of labels and of transitions. Target
(..., n): the true labels. F = 2/n·Σ of the edges' scores. L = the share of wrong labels (Hamming), a sum over steps. So
argmax F + weight·L is the best path of a chain that gains weight/2 at every wrong label: the Viterbi algorithm's.

A mask (..., n − 1) is True for the edges that a sequence has, from the first on; it has one step more. A sequence
without an edge does not count. Of equally good paths the one with the smallest labels wins, decided from the last step
to the first; features of tied paths are not shared.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checks import LARGEST_SCORE, check_finite, check_problems, check_strength, raise_at_first
from ..families.linear_loss import LinearLossTask
from ..groups import Groups
from ..host import beside, to_host
from ..task import Contrast, Output, Problem
from ..update import TRUTH, Truth, UpdateSpec, Weight

__all__ = ["LinearChain", "edge_potentials"]


@cache
def _kernels() -> ModuleType:
    return import_module("directloss.kernels.linear_chain")  # on first use: importing numba takes half a second


def edge_potentials(unary: Tensor, pairwise: Tensor) -> Tensor:
    """Scores of edges (..., n − 1, K, K) from scores of labels (..., n, K) and of transitions (K, K).

    An edge takes the score of its second label, and the first edge that of its first label too.

    >>> edge_potentials(torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]]), torch.zeros(2, 2))
    tensor([[[ 11.,  21.],
             [ 12.,  22.]],
    <BLANKLINE>
            [[100., 200.],
             [100., 200.]]])
    """
    edges = pairwise + unary[..., 1:, None, :]
    first = edges[..., :1, :, :] + unary[..., :1, :, None]
    return torch.cat([first, edges[..., 1:, :, :]], -3)


@dataclass(frozen=True)
class LinearChain(LinearLossTask):
    """The share of wrong labels of a sequence. Every oracle is exact, O(n·K²).

    >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 1.0]]])  # three steps, two labels
    >>> target = torch.tensor([1, 1, 1])
    >>> LinearChain().infer(scores, target).loss  # 0, 0, 0 has the score 2.5, the truth only 2
    tensor(1.)
    >>> LinearChain().infer_augmented(scores, target, -0.5).loss  # which gains 0.75, or 0.25 a label
    tensor(0.)
    """

    event_dims = 3
    mask_dims = 1
    exchangeable = False

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        """Which labels are wrong, (..., n, K)."""
        labels = _check_labels(scores, target, mask)
        return labels.unsqueeze(-1) != torch.arange(scores.shape[-1], device=scores.device)

    def cost(self, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        wrong = target.double() / _steps(mask).sum(-1)[..., None, None]
        cost = edge_potentials(wrong, wrong.new_zeros(target.shape[-1:] * 2))
        return wrong.new_zeros(mask.shape[:-1]), cost * mask[..., None, None]

    def scale(self, target: Tensor, mask: Tensor) -> Tensor:
        return 2.0 / _steps(mask).sum(-1)

    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        chains = _Chains(scores, torch.zeros_like(_steps(mask), dtype=torch.int64), mask)
        (path,) = chains.paths(np.zeros(len(chains.edges)))
        return chains.tensor(chains.features((path, 1 / chains.share)))

    def contrast(
        self, scores: Tensor, target: Tensor, spec: UpdateSpec, mask: Tensor | None = None, groups: Groups | None = None
    ) -> Contrast:
        """As inherited, but paths stay labels: the gradient is the only array of the size of scores that is made."""
        chains = self._chains(scores, target, mask)
        weights: list[Any] = [weight if weight is TRUTH else chains.each("weight", weight) for weight in spec[:2]]
        scale: Any = chains.each("the scale of the update", spec.scale)
        away, toward = chains.paths(*weights)
        gradient = chains.features((away, scale), (toward, -scale))
        score = chains.score(away) - chains.score(toward)
        value = UpdateSpec(weights[0], weights[1], scale).value(score, chains.loss(away), chains.loss(toward))
        return Contrast(*map(chains.tensor, (gradient, value.astype(gradient.dtype), chains.edges > 0)))

    def output(
        self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None, groups: Groups | None = None
    ) -> Output:
        """One output, as `contrast` has two of them."""
        chains = self._chains(scores, target, mask)
        (path,) = chains.paths(weight if weight is TRUTH else chains.each("weight", weight))
        features = chains.features((path, np.ones(len(path))))
        loss = chains.loss(path).astype(features.dtype)
        return Output(*map(chains.tensor, (features, loss, chains.edges > 0)))

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """All K^n label sequences."""
        steps, labels = len(target), scores.shape[-1]
        paths = torch.tensor(list(product(range(labels), repeat=steps)))
        edges = torch.nn.functional.one_hot(paths[:, :-1] * labels + paths[:, 1:], labels**2)
        features = 2 / steps * edges.double().unflatten(-1, (labels, labels))
        return Output(features, (paths != target).double().mean(-1))

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        edges, labels = (1 + int(torch.randint(most, (), generator=generator)) for most in (max(longest - 1, 1), 3))
        scores = torch.randn((edges, labels, labels), generator=generator, dtype=torch.float64)
        target = torch.randint(labels, (edges + 1,), generator=generator)
        length = int(torch.randint(edges + 1, (), generator=generator))
        mask = torch.arange(edges) < length if torch.rand((), generator=generator) < 0.5 else None
        return Problem(scores, target, mask)

    def _chains(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> "_Chains":
        shape = check_problems(scores, target, mask, self.event_dims, self.mask_dims)
        mask = torch.ones(shape, dtype=torch.bool, device=scores.device) if mask is None else mask
        return _Chains(scores, _check_labels(scores, target, mask), mask)


class _Chains:
    """A batch of B chains with E edges each, of which some are valid, as NumPy arrays."""

    def __init__(self, scores: Tensor, labels: Tensor, mask: Tensor) -> None:
        self.given, self.mask = scores, mask
        scores, labels, mask = to_host(scores.detach(), labels, mask)
        host = scores.to(torch.promote_types(scores.dtype, torch.float32)).contiguous()
        self.scores = host.numpy().reshape(mask.shape[:-1].numel(), *scores.shape[-3:])  # [B, E, K, K]
        count, edges = self.scores.shape[:2]
        self.labels = labels.contiguous().numpy().reshape(count, edges + 1)
        self.valid = mask.contiguous().numpy().reshape(count, edges)
        self.edges = self.valid.sum(-1)  # [B]
        self.share = 2 / (self.edges + 1)  # of an edge in F

    def each(self, name: str, value: float | Tensor) -> NDArray[np.float64]:
        """One number per chain."""
        check_strength(name, value, self.mask.shape[:-1])
        numbers = value.cpu().double().numpy().reshape(-1) if isinstance(value, Tensor) else value
        return np.broadcast_to(np.asarray(numbers, np.float64), self.edges.shape)

    def paths(self, *weights: NDArray[np.float64] | Truth) -> list[NDArray[np.int64]]:
        """The labels of argmax F + weight·L for every weight, each [B, E + 1], 0 behind the last step."""
        halves = [weight / 2 for weight in weights if weight is not TRUTH]
        prices = np.array(halves).reshape(len(halves), len(self.edges))
        paths = np.zeros((len(halves), *self.labels.shape), np.int64)
        largest = LARGEST_SCORE if self.scores.dtype == np.float64 else float(np.finfo(np.float32).max)
        if not _kernels().linear_chain_paths(self.scores, self.edges, self.labels, prices, largest, paths):
            check_finite(self.given, self.mask[..., None, None])
        solved = iter(paths)
        return [self.labels if weight is TRUTH else next(solved) for weight in weights]

    def features(self, *terms: tuple[NDArray[np.int64], NDArray[np.float64]]) -> NDArray[Any]:
        """A sum of features of paths, each times one number per chain."""
        features = np.zeros_like(self.scores)
        for path, factor in terms:
            np.ravel(features)[self._places(path)] += np.where(self.valid, (factor * self.share)[:, None], 0.0)
        return features

    def score(self, path: NDArray[np.int64]) -> NDArray[np.float64]:
        """F of a path."""
        scores = np.ravel(self.scores)[self._places(path)].astype(np.float64)
        return self.share * np.where(self.valid, scores, 0.0).sum(-1)

    def loss(self, path: NDArray[np.int64]) -> NDArray[np.float64]:
        """L of a path."""
        wrong = (path != self.labels) & np.pad(self.valid, ((0, 0), (1, 0)), constant_values=True)
        return np.where(self.edges > 0, wrong.sum(-1) / (self.edges + 1), 0.0)

    def _places(self, path: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the edges of a path stand among all scores, [B, E]."""
        labels = self.scores.shape[-1]
        edge = np.arange(self.valid.size).reshape(self.valid.shape)
        return (edge * labels + path[:, :-1]) * labels + path[:, 1:]

    def tensor(self, values: NDArray[Any]) -> Tensor:
        """Values by chain, in the shape of the batch, on the device of the scores."""
        return beside(self.given, values.reshape((*self.mask.shape[:-1], *values.shape[1:])))[0]


def _steps(mask: Tensor) -> Tensor:
    """The steps that a sequence with these edges has, (..., n); the first one always."""
    return torch.cat([mask.new_ones((*mask.shape[:-1], 1)), mask], -1)


def _check_labels(scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """The labels of all steps, int64, 0 behind the last one."""
    labels, shape = scores.shape[-1], (*scores.shape[:-3], scores.shape[-3] + 1)
    if scores.shape[-2] != labels or labels == 0:
        raise ValueError(
            f"scores must have shape (..., steps − 1, labels, labels); got {tuple(scores.shape)}. Make them with "
            "edge_potentials(unary, pairwise)."
        )
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        raise TypeError(f"target must hold labels of an integer type; got {target.dtype}. Pass target.long().")
    if target.shape != shape:
        raise ValueError(
            f"scores of shape {tuple(scores.shape)} need a target of shape {shape}, one label a step; got "
            f"{tuple(target.shape)}. There is one step more than there are edges."
        )
    hole = mask[..., 1:] & ~mask[..., :-1]
    raise_at_first(hole, mask[..., 1:], "mask must have no hole: edges are valid from the first on", "Pad at the end.")
    steps = _steps(mask) & mask.any(-1, keepdim=True)
    wrong = steps & ((target < 0) | (target >= labels))
    raise_at_first(wrong, target, f"target must hold labels from 0 to {labels - 1}", "Mask the edges of padding out.")
    return target.long().where(steps, 0)
