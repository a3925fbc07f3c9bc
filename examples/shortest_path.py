"""Shortest paths in graphs with cycles, where exact inference is not always possible, and how to say so.

Outputs: simple paths from source to sink. Scores (..., edges) are minus predicted costs, which must be 0 or more: let
the network end in −softplus. The target holds the true costs. L = the regret: the true cost of the path above that of
the best path, divided by the sum of all true costs. F = the sum of scores on the path. So argmax F + weight·L is the
shortest path for the costs −scores − weight·cost, and

- where they are all 0 or more, Dijkstra's algorithm finds it: for a weight below 0 always (`NegativeDirect`),
- where no cycle is negative, the Bellman–Ford algorithm does: a shortest walk loses nothing by leaving out cycles,
- else it is NP-hard (it could find a Hamiltonian path). This task then refuses, and says what helps.

In a directed acyclic graph every sign is easy: use `DAGPath`.
"""

import heapq
from collections.abc import Sequence

import torch
from torch import Tensor

from directloss import NegativeDirect, PositiveDirect, StructuredLoss
from directloss.families import LinearLossTask


def refuse(wrong: Tensor, values: Tensor, expected: str) -> None:
    """Raise an error about the first wrong value, if there is one."""
    if wrong.any():
        index = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"{expected}; got {values[index].item()} at index {', '.join(map(str, index))}.")


class ShortestPath(LinearLossTask):
    exchangeable = False

    def __init__(self, edges: Sequence[tuple[int, int]], source: int, sink: int) -> None:
        self.edges, self.source, self.sink = edges, source, sink
        self.out: dict[int, list[tuple[int, int]]] = {}
        for edge, (tail, head) in enumerate(edges):
            self.out.setdefault(tail, []).append((edge, head))

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        if not scores.shape == target.shape == (*scores.shape[:-1], len(self.edges)) or not mask.all():
            raise ValueError(
                f"scores and target must have shape (..., {len(self.edges)}), one number an edge, unmasked."
            )
        refuse(scores > 0, scores, "scores must be minus costs, 0 or less")
        refuse(~(target >= 0), target, "target must hold true costs, 0 or more")
        return target.double()

    def cost(self, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        cost = target / target.sum(-1, keepdim=True)
        return -(cost * self.decode(-cost, mask)).sum(-1), cost

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        return target.sum(-1) > 0

    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        y = torch.zeros_like(scores)
        for costs, chosen in zip(
            (-scores).reshape(-1, len(self.edges)).tolist(), y.view(-1, len(self.edges)), strict=True
        ):
            back = self.dijkstra(costs) if min(costs) >= 0 else self.bellman_ford(costs)
            if self.sink not in back:
                raise ValueError(f"there is no path from {self.source} to {self.sink}.")
            node = self.sink
            while node != self.source:
                chosen[back[node]] = 1
                node = self.edges[back[node]][0]
        return y

    def dijkstra(self, costs: Sequence[float]) -> dict[int, int]:
        """The last edge of the shortest path to every node."""
        best, back, done, heap = {self.source: 0.0}, {}, set(), [(0.0, self.source)]
        while heap:
            distance, node = heapq.heappop(heap)
            if node in done:
                continue
            done.add(node)
            for edge, head in self.out.get(node, ()):
                if distance + costs[edge] < best.get(head, float("inf")) and head not in done:
                    best[head], back[head] = distance + costs[edge], edge
                    heapq.heappush(heap, (best[head], head))
        return back

    def bellman_ford(self, costs: Sequence[float]) -> dict[int, int]:
        best, back = {self.source: 0.0}, {}
        slack = 1e-12 * sum(map(abs, costs))  # a cycle of cost 0 must not look negative
        for _ in range(1 + max(map(max, self.edges))):
            changed = False
            for edge, (tail, head) in enumerate(self.edges):
                if tail in best and best[tail] + costs[edge] < best.get(head, float("inf")) - slack:
                    best[head], back[head], changed = best[tail] + costs[edge], edge, True
            if not changed:
                return back
        raise ValueError(
            "the shifted costs have a negative cycle, for which the best path is NP-hard to find. Take NegativeDirect, "
            "whose costs stay 0 or more, or a smaller epsilon or margin."
        )


if __name__ == "__main__":
    ways = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 3), (1, 3)]
    task = ShortestPath(ways, source=0, sink=3)
    costs = torch.tensor([1.0, 1.0, 1.0, 1.0, 3.0, 2.0, 4.0])
    scores = -torch.tensor([1.0, 1.0, 3.0, 1.0, 2.0, 2.0, 2.0])
    scores.requires_grad_()
    StructuredLoss(task, NegativeDirect(epsilon=50.0))(scores, costs).backward()
    print(f"regret {task.infer(scores, costs).loss:.3f}, gradient {scores.grad}")
    try:
        StructuredLoss(task, PositiveDirect(epsilon=100.0))(scores, costs)
    except ValueError as error:
        print(error)
