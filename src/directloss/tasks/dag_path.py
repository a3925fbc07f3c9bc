"""A path through a directed acyclic graph: a shortest route, a plan, a segmentation.

Outputs: paths from the source to the sink of a graph that the task is made with; y = 1 on the edges of the path, else
0. Scores (..., edges): the reward of every edge, in the order of the task's edges, so minus its cost: pass −costs.
F = 2/n·Σ of the scores on the path, n the most edges that a path has. L is the Hamming distance to the path that the
target has, or the regret under the costs that it holds, exactly as in `GridPath`.

A mask is False for edges that no path may take, and for padding behind the last edge. Where all paths have one loss the
problem does not count. Of equally good ways into a node the first one wins, in topological order of where they come
from; features are not shared. Graphs with cycles are another problem, NP-hard for shifted scores in general: see
examples/shortest_path.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..task import Problem
from .grid_path import PathTask, array, kernels, tensor

__all__ = ["DAGPath"]

DIAMOND = ((0, 1), (0, 2), (1, 3), (2, 3))


class _Graph(NamedTuple):
    order: NDArray[np.int64]  # of the edges: those into a node come before those out of it
    tails: NDArray[np.int64]
    heads: NDArray[np.int64]
    nodes: int
    source: int
    sink: int


@dataclass(frozen=True, repr=False)
class DAGPath(PathTask):
    """Hamming distance or regret of a path through a directed acyclic graph. Every oracle is exact, O(edges).

    Args:
        edges: pairs (tail, head) of nodes, which are numbers from 0 on; here four edges on two ways from 0 to 3.
        loss: "hamming" or "regret".
        source: where paths start; None: at the only node without an edge into it.
        sink: where they end; None: at the only node without an edge out of it.

    >>> task = DAGPath(edges=((0, 1), (0, 2), (1, 3), (2, 3)), loss="regret")
    >>> scores, costs = torch.tensor([0.0, 1.0, 0.0, 0.0]), torch.tensor([1.0, 2.0, 1.0, 2.0])
    >>> task.infer(scores, costs).features  # the way through node 2, the worse one
    tensor([0., 1., 0., 1.])
    >>> task.infer_augmented(scores, costs, -2.0).loss  # F is 1 larger on that way, L is 1
    tensor(0.)
    """

    edges: Sequence[tuple[int, int]] = DIAMOND
    loss: str = "hamming"
    source: int | None = None
    sink: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", tuple((int(tail), int(head)) for tail, head in self.edges))
        _ = self._graph  # refuse what is none now

    def __repr__(self) -> str:
        return f"DAGPath({len(self.edges)} edges, loss={self.loss!r})"

    @cached_property
    def _graph(self) -> _Graph:
        if not self.edges or min(map(min, self.edges)) < 0:
            raise ValueError(f"edges must be pairs of nodes, numbers from 0 on; got {self.edges!r}.")
        tails, heads = (np.array(ends) for ends in zip(*self.edges, strict=True))
        nodes = 1 + int(max(tails.max(), heads.max()))
        into = np.bincount(heads, minlength=nodes)
        ready, order = [node for node in range(nodes) if not into[node]], []
        for node in ready:
            for edge in np.flatnonzero(tails == node).tolist():
                order.append(edge)
                into[heads[edge]] -= 1
                if not into[heads[edge]]:
                    ready.append(int(heads[edge]))
        if len(order) < len(self.edges):
            raise ValueError(
                f"edges must have no cycle; got one at node {int(np.argmax(into > 0))}. With cycles exact "
                "inference is NP-hard in general; examples/shortest_path.py solves what can be solved."
            )
        ends = [
            _end(name, given, sorted(set(these) - set(others)))
            for name, given, these, others in (
                ("source", self.source, tails.tolist(), heads.tolist()),
                ("sink", self.sink, heads.tolist(), tails.tolist()),
            )
        ]
        return _Graph(np.array(order), tails, heads, nodes, *ends)

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        edges = len(self.edges)
        if scores.shape[-1] < edges or mask[..., edges:].any():
            raise ValueError(
                f"scores must have one number for each of the {edges} edges; got shape {tuple(scores.shape)}. Mask "
                "padding behind the last edge out."
            )
        return super().check_target(scores, target, mask)

    def find(self, scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        y = np.zeros((scores.shape[:-1].numel(), scores.shape[-1]))
        exists = kernels().dag_path(array(scores, y.shape), array(mask, y.shape), *self._graph, y)
        return tensor(y, scores.shape, scores), tensor(exists, scores.shape[:-1], scores)

    def paths(self, scores: Tensor) -> Tensor:
        paths = []

        def go(node: int, path: list[int]) -> None:
            if node == self._graph.sink:
                paths.append(torch.zeros(scores.shape, dtype=torch.float64))
                paths[-1][path] = 1
                return
            for edge, (tail, head) in enumerate(self.edges):
                if tail == node:
                    go(head, [*path, edge])

        go(self._graph.source, [])
        return torch.stack(paths)

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        scores, costs = torch.randn((2, len(self.edges)), generator=generator, dtype=torch.float64)
        valid = torch.ones_like(scores, dtype=torch.bool)
        way, _ = self.find(costs, valid)
        target = costs if self.loss == "regret" else way
        if torch.rand((), generator=generator) < 0.5:
            return Problem(scores, target)
        return Problem(scores, target, (torch.rand(scores.shape, generator=generator) < 0.8) | (way > 0))


def _end(name: str, given: int | None, candidates: list[int]) -> int:
    if given is not None:
        return given
    if len(candidates) != 1:
        raise ValueError(f"{name} must be given where the graph has several; got None for the nodes {candidates}.")
    return candidates[0]
