"""Brute force: hold a task's oracles to all outputs of small lists, and to the laws every task must keep."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from .task import Output, Task

__all__ = ["TaskError", "check_task"]

TOLERANCE = 1e-9


def _tolerance(output: Output) -> float:
    """How far an oracle's numbers may be off: float64 is expected, float32 tolerated."""
    return TOLERANCE if output.features.dtype == output.loss.dtype == torch.float64 else 1e-6


class TaskError(Exception):
    """A task breaks a law; the message says which, and for which scores and target."""


class _Problem(NamedTuple):
    scores: Tensor  # (items,)
    target: Tensor  # (items,)
    weight: float

    def __str__(self) -> str:
        return f"scores = {self.scores.tolist()}\ntarget = {self.target.int().tolist()}\nweight = {self.weight!r}"

    def objective(self, output: Output, weight: float) -> Tensor:
        """F + weight·L of one output or a stack of them."""
        return (output.features.double() * self.scores).sum(-1) + weight * output.loss.double()

    def slack(self, output: Output) -> float:
        """How far the objective of an output may be off."""
        return _tolerance(output) * (1 + self.scores.abs().max().item() + abs(self.weight))


def check_task(task: Task, *, problems: int = 200, longest: int = 5, seed: int = 0) -> None:
    """Try a task on random small lists; raise `TaskError` on the first law it breaks, in words.

    The laws: features have the shape of scores and losses that of the batch; losses lie in [0, 1]; the truth has loss 0
    and the score of such an output; no output beats an oracle's, and no oracle claims more than any output has; a batch
    gives what its lists give; masked items change nothing and get no feature; permuting the items permutes the features
    (where the task is exchangeable). Scores come with ties and heavy tails, weights with both signs, from 1e-3 to 1e3.

    "No output" means all of `task.outputs(target)` where the task has that method. Otherwise it means those outputs
    that the oracles themselves give for other scores, which finds most mistakes but not all.

    Args:
        task: an instance of your `Task`.
        problems: how many random lists to try.
        longest: the longest list. Output spaces grow fast: a list of 5 has up to 120 rankings.
        seed: of the random lists; the same seed gives the same lists.
    """
    generator = torch.Generator().manual_seed(seed)
    for problem in _problems(problems, longest, generator):
        _check_losses(task, problem)
        _check_batch(task, problem, generator)
        outputs = task.outputs(problem.target)
        exhaustive = outputs is not None
        _check_optimal(task, problem, outputs or _sampled_outputs(task, problem, generator), exhaustive)
        _check_mask(task, problem, generator)
        if task.exchangeable:
            _check_permutation(task, problem, generator)


def _problems(count: int, longest: int, generator: torch.Generator) -> Iterator[_Problem]:
    def uniform() -> float:
        return torch.rand((), generator=generator).item()

    for number in range(count):
        items = 1 + int(uniform() * longest)
        normal = torch.randn(items, generator=generator, dtype=torch.float64)
        scores = (
            normal,
            normal.round(),  # ties
            normal / torch.rand(items, generator=generator, dtype=torch.float64).clamp(min=1e-6),  # heavy tails
            normal * 10 ** (6 * uniform()),
        )[number % 4]
        target = torch.rand(items, generator=generator) < uniform()
        sign = 1 if uniform() < 0.5 else -1
        yield _Problem(scores, target, sign * 10 ** (6 * uniform() - 3))


def _oracles(task: Task, weight: float) -> dict[str, Callable[..., Output]]:
    return {
        "infer": lambda scores, target, mask=None: task.infer(scores, target, mask),
        "infer_augmented": lambda scores, target, mask=None: task.infer_augmented(scores, target, weight, mask),
        "truth": lambda scores, target, mask=None: task.truth(scores, target, mask),
    }


def _sampled_outputs(task: Task, problem: _Problem, generator: torch.Generator) -> Output:
    """Outputs for the same target that the oracles give for other scores."""
    scores = torch.randn((64, len(problem.target)), generator=generator, dtype=torch.float64)
    target = problem.target.expand_as(scores)
    found = [
        task.infer(scores, target),
        task.infer_augmented(scores, target, problem.weight),
        task.infer_augmented(scores, target, -problem.weight),
        task.truth(scores, target),
    ]
    return Output(torch.cat([output.features for output in found]), torch.cat([output.loss for output in found]))


def _fail(task: Task, oracle: str, law: str, problem: _Problem) -> None:
    raise TaskError(f"{type(task).__name__}.{oracle} {law}\n{problem}")


def _check_losses(task: Task, problem: _Problem) -> None:
    for oracle, call in _oracles(task, problem.weight).items():
        got = call(problem.scores, problem.target)
        if got.features.shape != problem.scores.shape or got.loss.shape != ():
            shapes = f"features of shape {tuple(got.features.shape)} and a loss of shape {tuple(got.loss.shape)}"
            _fail(task, oracle, f"must give features of shape {tuple(problem.scores.shape)} and a loss of shape (), "
                  f"one value per list, but gives {shapes}.", problem)  # fmt: skip
        loss = got.loss.item()
        if not got.features.isfinite().all():
            _fail(task, oracle, f"must give finite features, but gives {got.features.tolist()}.", problem)
        if not -TOLERANCE <= loss <= 1 + _tolerance(got):
            _fail(task, oracle, f"must give a loss in [0, 1], but gives {loss}.", problem)
        if oracle == "truth" and abs(loss) > TOLERANCE:
            _fail(task, oracle, f"must have loss 0, but has {loss}.", problem)


def _check_optimal(task: Task, problem: _Problem, outputs: Output, exhaustive: bool) -> None:
    oracles = _oracles(task, problem.weight)
    for oracle, weight in (("infer", 0.0), ("infer_augmented", problem.weight)):
        got = oracles[oracle](problem.scores, problem.target)
        loss, slack = got.loss.item(), problem.slack(got)
        value = problem.objective(got, weight).item()
        values = problem.objective(outputs, weight)
        best = int(values.argmax())
        if value < values[best] - slack:
            _fail(task, oracle, f"is not optimal: its output has features {got.features.tolist()}, loss {loss} and F + "
                  f"{weight!r}·L = {value}, but the output with features {outputs.features[best].tolist()} and loss "
                  f"{outputs.loss[best].item()} reaches {values[best].item()}.", problem)  # fmt: skip
        if exhaustive and value > values[best] + slack:
            _fail(task, oracle, f"claims F + {weight!r}·L = {value}, with features {got.features.tolist()} and loss "
                  f"{loss}, but no output has more than {values[best].item()}.", problem)  # fmt: skip
        optimal = outputs.loss[values > values[best] - slack]
        unique = len(problem.scores.unique()) == len(problem.scores) and optimal.max() - optimal.min() < TOLERANCE
        if (
            exhaustive and unique and abs(loss - optimal[0].item()) > _tolerance(got)
        ):  # with ties, a task has its own rule
            _fail(task, oracle, f"gives loss {loss}, but its output has loss {optimal[0].item()}.", problem)

    if exhaustive:
        truth = oracles["truth"](problem.scores, problem.target)
        value = problem.objective(truth, 0.0).item()
        right = problem.objective(outputs, 0.0)[outputs.loss.abs() <= TOLERANCE]
        slack = problem.slack(truth)
        if not (len(right) and right.min() - slack <= value <= right.max() + slack):
            _fail(task, "truth", f"has features {truth.features.tolist()} and F = {value}, but no output with loss 0 "
                  "has that.", problem)  # fmt: skip


def _differ(one: Output, other: Output) -> bool:
    atol = _tolerance(one)
    return not (
        torch.allclose(one.features, other.features, rtol=0, atol=atol)
        and torch.allclose(one.loss, other.loss, rtol=0, atol=atol)
    )


def _check_batch(task: Task, problem: _Problem, generator: torch.Generator) -> None:
    scores = torch.stack([problem.scores, torch.randn(problem.scores.shape, generator=generator, dtype=torch.float64)])
    target = torch.stack([problem.target, torch.rand(problem.target.shape, generator=generator) < 0.5])
    for oracle, call in _oracles(task, problem.weight).items():
        whole = call(scores.unsqueeze(1), target.unsqueeze(1))
        if whole.features.shape != (2, 1, len(problem.scores)) or whole.loss.shape != (2, 1):
            shapes = f"features of shape {tuple(whole.features.shape)} and losses of shape {tuple(whole.loss.shape)}"
            _fail(task, oracle, f"gives {shapes} for scores of shape {(2, 1, len(problem.scores))}.", problem)
        for k in range(2):
            alone = call(scores[k], target[k])
            part = Output(whole.features[k, 0], whole.loss[k, 0])
            if _differ(part, alone):
                _fail(task, oracle, f"gives {part} for a list in a batch but {alone} for the list alone.",
                      _Problem(scores[k], target[k], problem.weight))  # fmt: skip


def _check_mask(task: Task, problem: _Problem, generator: torch.Generator) -> None:
    items = len(problem.scores)
    mask = torch.arange(items + 2) < items
    if task.exchangeable:
        mask = mask[torch.randperm(items + 2, generator=generator)]
    scores = torch.zeros(items + 2, dtype=torch.float64).masked_scatter(mask, problem.scores)
    target = torch.zeros(items + 2, dtype=torch.bool).masked_scatter(mask, problem.target)
    for oracle, call in _oracles(task, problem.weight).items():
        alone = call(problem.scores, problem.target)
        padded = call(scores, target, mask)
        if padded.features[~mask].any():
            _fail(task, oracle, f"gives masked items the features {padded.features[~mask].tolist()} instead of 0 "
                  f"(mask = {mask.int().tolist()} around these items).", problem)  # fmt: skip
        if _differ(Output(padded.features[mask], padded.loss), alone):
            _fail(task, oracle, f"gives {padded} with masked items in between but {alone} without them "
                  f"(mask = {mask.int().tolist()} around these items).", problem)  # fmt: skip
    nothing = torch.zeros_like(mask)
    for oracle, call in _oracles(task, problem.weight).items():
        empty = call(torch.zeros_like(scores), torch.zeros_like(target), nothing)
        if empty.features.any() or empty.loss != 0:
            _fail(task, oracle, f"must give 0 for a wholly masked list, but gives {empty}.", problem)


def _check_permutation(task: Task, problem: _Problem, generator: torch.Generator) -> None:
    order = torch.randperm(len(problem.scores), generator=generator)
    for oracle, call in _oracles(task, problem.weight).items():
        straight = call(problem.scores, problem.target)
        permuted = call(problem.scores[order], problem.target[order])
        if _differ(Output(straight.features[order], straight.loss), permuted):
            _fail(task, oracle, f"depends on the order of the items: permuting them by {order.tolist()} gives "
                  f"{permuted} instead of {Output(straight.features[order], straight.loss)}.", problem)  # fmt: skip
