"""A task on sequences: a linear chain with edge potentials, as in named-entity recognition or speech.

Outputs: a label out of K for each of n steps. Scores (..., n − 1, K, K): scores[t, i, j] is the score of label i at
step t followed by label j; fold scores of single labels into them. Target (..., n): the true labels. A mask
(..., n − 1) is True for the edges that a sequence has, from the first on. F = 2/n·Σ of the edges' scores. L = the share
of wrong labels. That is a sum over steps, so F + weight·L is the score of a chain whose edges also pay for their
labels. The Viterbi algorithm finds its argmax.
"""

from itertools import product

import torch
from torch import Tensor

from directloss import TRUTH, Output, PositiveDirect, Problem, StructuredLoss, Task, check_task
from directloss.checks import refuse_first


class LinearChain(Task):
    event_dims = 3
    mask_dims = 1
    exchangeable = False

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        steps, labels = scores.shape[-3] + 1, scores.shape[-1]
        expected = (*scores.shape[:-3], steps)
        if target.shape != expected or target.is_floating_point() or scores.shape[-2] != labels:
            raise ValueError(
                f"scores (..., steps − 1, K, K) need an integer target of shape {expected}; got scores of shape "
                f"{tuple(scores.shape)}, target of shape {tuple(target.shape)} and type {target.dtype}."
            )
        refuse_first(mask[..., 1:] & ~mask[..., :-1], mask[..., 1:], "mask must have no hole", "Pad at the end.")
        valid = torch.cat([mask[..., :1], mask], -1)
        wrong = valid & ((target < 0) | (target >= labels))
        refuse_first(wrong, target, f"target must hold labels from 0 to {labels - 1}", "Mask padding out.")
        return target.long().where(valid, 0)

    def oracle(self, scores: Tensor, target: Tensor, weight, mask: Tensor) -> Output:
        labels = scores.shape[-1]
        steps = mask.sum(-1) + 1
        if weight is TRUTH:
            path = target
        else:
            wrong = torch.arange(labels) != target.unsqueeze(-1)  # (..., n, K)
            cost = wrong[..., 1:, None, :] + torch.zeros_like(scores)  # an edge pays for its second label,
            cost[..., 0, :, :] += wrong[..., 0, :, None]  # the first one for both
            path = _viterbi(scores + weight / 2 * cost, mask)
        valid = torch.cat([mask[..., :1], mask], -1)
        chosen = torch.nn.functional.one_hot(path[..., :-1] * labels + path[..., 1:], labels**2) * mask.unsqueeze(-1)
        features = chosen.double().unflatten(-1, (labels, labels)) * 2 / steps[..., None, None, None]
        return Output(features, ((path != target) & valid).sum(-1) / steps.double())

    def outputs(self, scores: Tensor, target: Tensor) -> Output:
        """All K^n label sequences."""
        steps, labels = len(target), scores.shape[-1]
        paths = torch.tensor(list(product(range(labels), repeat=steps)))
        edges = torch.nn.functional.one_hot(paths[:, :-1] * labels + paths[:, 1:], labels**2)
        features = 2 / steps * edges.double().unflatten(-1, (labels, labels))
        return Output(features, (paths != target).double().mean(-1))

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        edges, labels = 1 + int(torch.randint(longest - 1, (), generator=generator)), 2
        scores = torch.randn((edges, labels, labels), generator=generator, dtype=torch.float64)
        target = torch.randint(labels, (edges + 1,), generator=generator)
        length = 1 + int(torch.randint(edges, (), generator=generator))
        mask = torch.arange(edges) < length if torch.rand((), generator=generator) < 0.5 else None
        return Problem(scores, target, mask)


def _viterbi(scores: Tensor, mask: Tensor) -> Tensor:
    """The labels of the best path; behind the last valid edge they stay as they are."""
    value = torch.zeros_like(scores[..., 0, 0, :])
    back = []
    for t in range(scores.shape[-3]):
        best, before = (value.unsqueeze(-1) + scores[..., t, :, :]).max(-2)
        here = mask[..., t, None]
        value = best.where(here, value)
        back.append(before.where(here, torch.arange(value.shape[-1])))
    path = [value.argmax(-1, keepdim=True)]
    for before in reversed(back):
        path.append(before.gather(-1, path[-1]))
    return torch.cat(path[::-1], -1)


if __name__ == "__main__":
    check_task(LinearChain())
    torch.manual_seed(0)
    loss = StructuredLoss(LinearChain(), PositiveDirect(epsilon=1.0))
    scores = torch.randn(2, 5, 3, 3, requires_grad=True)  # two sequences of six steps, three labels
    target = torch.randint(3, (2, 6))
    value = loss(scores, target)
    value.backward()
    error = LinearChain().infer(scores, target).loss
    print(f"share of wrong labels {[round(share, 2) for share in error.tolist()]}, loss {value:.3f}")
