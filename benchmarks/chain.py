"""Time of the loss of a linear chain beside the same loss written in PyTorch, with a loop over the steps.

`python -m benchmarks.chain` prints it: forward plus backward, positive update, 32 sequences of 100 steps, 20 labels.
The loop runs in two forms: over the steps of all sequences at once, and over the steps of one sequence after the other.
"""

import statistics
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.speed import seconds, with_backward
from directloss import PositiveDirect, StructuredLoss
from directloss.tasks.linear_chain import LinearChain

SEQUENCES, STEPS, LABELS = 32, 100, 20
EPSILON = 1.0
ROUNDS = 7


def viterbi(scores: Tensor) -> Tensor:
    """The labels (..., steps) of the best paths for scores of edges (..., steps − 1, labels, labels)."""
    value = torch.zeros_like(scores[..., 0, 0, :])
    back = []
    for edge in scores.unbind(-3):
        value, before = (value.unsqueeze(-1) + edge).max(-2)
        back.append(before)
    path = [value.argmax(-1, keepdim=True)]
    for before in reversed(back):
        path.append(before.gather(-1, path[-1]))
    return torch.cat(path[::-1], -1)


def loop_loss(scores: Tensor, target: Tensor) -> Tensor:
    """The positive update's loss of a batch of sequences in PyTorch operations: its mean."""
    steps, labels = target.shape[-1], scores.shape[-1]

    def score(path: Tensor) -> Tensor:
        edges = (path[..., :-1] * labels + path[..., 1:]).unsqueeze(-1)
        return 2 / steps * scores.flatten(-2).gather(-1, edges).sum((-1, -2))

    with torch.no_grad():
        wrong = (torch.arange(labels) != target.unsqueeze(-1)) * (EPSILON / 2)
        shifted = scores + wrong[..., 1:, None, :]
        shifted[..., 0, :, :] += wrong[..., 0, :, None]
        away, toward = viterbi(shifted), viterbi(scores)
    loss = (away != target).float().mean(-1)
    return ((score(away) + EPSILON * loss - score(toward)) / EPSILON).mean()


def sequence_by_sequence(scores: Tensor, target: Tensor) -> Tensor:
    """`loop_loss`, one sequence after the other."""
    return torch.stack([loop_loss(each, labels) for each, labels in zip(scores, target, strict=True)]).mean()


def problem() -> tuple[Tensor, Tensor]:
    """Scores and target."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((SEQUENCES, STEPS - 1, LABELS, LABELS), generator=generator)
    return scores, torch.randint(LABELS, (SEQUENCES, STEPS), generator=generator)


WAYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "LinearChain": StructuredLoss(LinearChain(), PositiveDirect(EPSILON)),
    "loop over steps, all sequences at once": loop_loss,
    "loop over sequences and steps": sequence_by_sequence,
}


def chain_seconds(rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of forward plus backward, the median over rounds in which all take their turn."""
    calls = {name: with_backward(loss, *problem()) for name, loss in WAYS.items()}
    taken = [{name: seconds(call) for name, call in calls.items()} for _ in range(rounds)]
    return {name: statistics.median(each[name] for each in taken) for name in WAYS}


if __name__ == "__main__":
    found = chain_seconds()
    for name, taken in found.items():
        print(f"{name}: {1e3 * taken:.1f} ms, {taken / found['LinearChain']:.1f} times LinearChain")
