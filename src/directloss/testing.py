"""Brute force: hold a task's oracle to all outputs of small problems, and to the laws every task must keep.

And the scale: at which ε a task answers.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from .checks import check_is_task
from .task import Output, Problem, Task

__all__ = ["Problem", "TaskError", "check_task", "typical_epsilon"]

TOLERANCE, SINGLE_TOLERANCE = 1e-9, 1e-6  # of an oracle that answers in float64, as expected, and in float32
ATTEMPTS = 20  # to draw a second problem of the same shape
SCALE_PROBLEMS = 12  # on which a scale is measured
USUAL_EPSILON = 0.1, 10.0


class TaskError(Exception):
    """A task breaks a law; the message says which, and for which scores, target and weight.

    >>> from directloss import AveragePrecision
    >>> class Forgetful(AveragePrecision):
    ...     def output(self, scores, target, weight, mask=None, groups=None):
    ...         return super().output(scores, target, 0.0, mask, groups)
    >>> try:
    ...     check_task(Forgetful())
    ... except TaskError as error:
    ...     print(str(error).split(",")[0])
    Forgetful.truth must have loss 0
    """


class _Trial(NamedTuple):
    scores: Tensor
    target: Tensor
    mask: Tensor | None
    weight: float
    tolerance: float
    """How far an oracle's numbers may be off."""

    def __str__(self) -> str:
        target = self.target.int() if self.target.dtype == torch.bool else self.target
        mask = f"\nmask = {self.mask.int().tolist()}" if self.mask is not None else ""
        return f"scores = {self.scores.tolist()}\ntarget = {target.tolist()}\nweight = {self.weight!r}{mask}"

    def objective(self, output: Output, weight: float) -> Tensor:
        """F + weight·L of one output or a stack of them."""
        dims = tuple(range(-self.scores.dim(), 0))
        return (output.features * self.scores).sum(dims) + weight * output.loss

    @property
    def slack(self) -> float:
        """How far an objective may be off."""
        return self.tolerance * (1 + self.scores.abs().max().item() + abs(self.weight))


def check_task(task: Task, *, problems: int = 200, longest: int = 5, items: int = 60, seed: int = 0) -> None:
    """Try a task on small random problems; raise a `TaskError` for the first law that it breaks.

    The laws are:

    - Features have the shape of scores, and losses that of the batch. Losses lie in [0, 1].
    - The truth has loss 0, and the score of an output with loss 0.
    - No output has a larger F + weight·L than the oracle's, and the oracle's is no larger than the largest.
    - A batch gives the same as its problems one by one, each with its own weight.
    - Masked items get no feature and, in lists, change nothing.
    - Permuting the items of a list permutes the features, if the task is exchangeable.

    Scores have ties and heavy tails. Weights have both signs and sizes from 1e-3 to 1e3. If the task has the method
    `outputs(scores, target)`, the oracle is compared with all outputs. Otherwise it is compared with the outputs that
    the oracle itself gives for other scores. This finds most mistakes, but not all.

    A task that keeps all laws may still not train, if F is so large or small beside L that ε = 1 changes nothing or
    everything. Then `check_task` warns, and names the typical ε of the task; see `typical_epsilon`.

    Args:
        task: an instance of your `Task`.
        problems: the number of random problems to try.
        longest: the longest list, passed to `task.random_problem`. The number of outputs grows fast: a list of 5 has
            up to 120 rankings.
        items: the size of the problems on which the scale is measured, passed to `task.random_problem`. Pass the
            length of the lists that you train with.
        seed: the same seed gives the same random problems.

    >>> from directloss import ROCAUC
    >>> check_task(ROCAUC())  # prints nothing: all laws hold
    """
    check_is_task(task)
    generator = torch.Generator().manual_seed(seed)
    default = torch.get_default_device().type == "cpu"
    with nullcontext() if default else torch.device("cpu"):  # every call in such a context takes longer
        for trial in _trials(task, problems, longest, generator):
            _check_losses(task, trial)
            _check_batch(task, trial, longest, generator)
            outputs = task.outputs(trial.scores, trial.target) if trial.mask is None else None
            exhaustive = outputs is not None
            _check_optimal(task, trial, outputs or _sampled_outputs(task, trial, generator), exhaustive)
            if trial.mask is not None:
                _check_masked_features(task, trial)
            elif trial.scores.dim() == 1 and trial.target.shape == trial.scores.shape:
                _check_padding(task, trial, generator)
                if task.exchangeable:
                    _check_permutation(task, trial, generator)
        _warn_of_scale(task, items, generator)


def typical_epsilon(task: Task, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """The ε at which the loss of y_direct is halfway between that of the prediction and the largest loss.

    With a far smaller ε both outputs of an update are the same, and nothing is trained. With a far larger one y_direct
    is the worst output, whatever the scores are.

    Args:
        task: e.g. `AveragePrecision()`, or a task of your own.
        scores: (..., items), for example of the validation set.
        target: (..., items), what the task takes.
        mask: (..., items), True where an item is valid.

    Returns one number for each list, (...). It is NaN if the list does not count, or its loss cannot grow.

    >>> from directloss import AveragePrecision
    >>> scores, target = torch.linspace(-2, 2, 100), torch.arange(100) % 7 == 0
    >>> typical_epsilon(AveragePrecision(), scores, target)
    tensor(1.9014, dtype=torch.float64)
    """
    scores = scores.detach()

    def loss(weight: Tensor) -> Tensor:
        return task.infer_augmented(scores, target, weight, mask).loss.double()

    start = task.infer(scores, target, mask).loss.double()
    top = loss(torch.full_like(start, 1e12))
    low, high = torch.full_like(start, -12.0), torch.full_like(start, 12.0)
    for _ in range(24):
        middle = (low + high) / 2
        reached = loss(10**middle) >= (start + top) / 2 - 1e-9
        low, high = low.where(reached, middle), middle.where(reached, high)
    return (10**high).where(top - start > 1e-6, torch.nan)


def _warn_of_scale(task: Task, items: int, generator: torch.Generator) -> None:
    """Say so where ε = 1 is far from where a task answers, in problems of some size with scores from N(0, 1)."""
    measured = []
    for _ in range(SCALE_PROBLEMS):
        problem = Problem(*task.random_problem(items, generator))
        scores = torch.randn(problem.scores.shape, generator=generator, dtype=torch.float64)
        measured.append(typical_epsilon(task, scores, problem.target, problem.mask))
    epsilons = torch.stack(measured)
    epsilons = epsilons[~epsilons.isnan()]
    if (
        len(epsilons) >= SCALE_PROBLEMS // 3
        and not USUAL_EPSILON[0] <= (typical := epsilons.median().item()) <= USUAL_EPSILON[1]
    ):
        few = "changes nothing in most problems" if typical > 1 else "goes to the worst output in most problems"
        warnings.warn(
            f"{task!r} keeps all laws, but its scale is unusual: with scores from N(0, 1) and up to {items} "
            f"items it has gone half the way to the largest loss at ε = {typical:.2g}, and ε = 1 {few}. Train with an "
            "ε of that size, see typical_epsilon, or multiply F by about its inverse (docs/extending.md, Scale).",
            stacklevel=3,
        )


def _trials(task: Task, count: int, longest: int, generator: torch.Generator) -> Iterator[_Trial]:
    def uniform() -> float:
        return torch.rand((), generator=generator).item()

    for number in range(count):
        normal, target, mask = Problem(*task.random_problem(longest, generator))
        normal = normal.double()
        scores = (
            normal,
            normal.round(),  # ties
            normal / torch.rand(normal.shape, generator=generator, dtype=torch.float64).clamp(min=1e-6),  # heavy tails
            normal * 10 ** (6 * uniform()),
        )[number % 4]
        sign = 1 if uniform() < 0.5 else -1
        prepared = task._prepare(scores, target, mask)
        single = torch.float32 in (answer.dtype for answer in task._solve(0.0, *prepared)[:2])
        tolerance = SINGLE_TOLERANCE if single else TOLERANCE
        yield _Trial(scores, target, mask, sign * 10 ** (6 * uniform() - 3), tolerance)


def _oracles(task: Task, weight: float | Tensor) -> dict[str, Callable[..., Output]]:
    return {
        "infer": task.infer,
        "infer_augmented": lambda scores, target, mask=None: task.infer_augmented(scores, target, weight, mask),
        "truth": task.truth,
    }


def _sampled_outputs(task: Task, trial: _Trial, generator: torch.Generator) -> Output:
    """Outputs for the same target that the oracle gives for other scores."""
    scores = torch.randn((64, *trial.scores.shape), generator=generator, dtype=torch.float64)
    target = trial.target.expand(64, *trial.target.shape)
    mask = trial.mask if trial.mask is None else trial.mask.expand(64, *trial.mask.shape)
    outputs = [
        task.infer(scores, target, mask),
        task.infer_augmented(scores, target, trial.weight, mask),
        task.infer_augmented(scores, target, -trial.weight, mask),
        task.truth(scores, target, mask),
    ]
    return Output(torch.cat([output.features for output in outputs]), torch.cat([output.loss for output in outputs]))


def _fail(task: Task, oracle: str, law: str, trial: _Trial) -> None:
    raise TaskError(f"{type(task).__name__}.{oracle} {law}\n{trial}")


def _check_losses(task: Task, trial: _Trial) -> None:
    for oracle, call in _oracles(task, trial.weight).items():
        got = call(trial.scores, trial.target, trial.mask)
        if got.features.shape != trial.scores.shape or got.loss.shape != ():
            shapes = f"features of shape {tuple(got.features.shape)} and a loss of shape {tuple(got.loss.shape)}"
            _fail(task, oracle, f"must give features of shape {tuple(trial.scores.shape)} and a loss of shape (), "
                  f"one value per problem, but gives {shapes}.", trial)  # fmt: skip
        loss = got.loss.item()
        if not got.features.isfinite().all():
            _fail(task, oracle, f"must give finite features, but gives {got.features.tolist()}.", trial)
        if not -TOLERANCE <= loss <= 1 + trial.tolerance:
            _fail(task, oracle, f"must give a loss in [0, 1], but gives {loss}.", trial)
        if oracle == "truth" and abs(loss) > TOLERANCE:
            _fail(task, oracle, f"must have loss 0, but has {loss}.", trial)


def _check_optimal(task: Task, trial: _Trial, outputs: Output, exhaustive: bool) -> None:
    oracles = _oracles(task, trial.weight)
    for oracle, weight in (("infer", 0.0), ("infer_augmented", trial.weight)):
        got = oracles[oracle](trial.scores, trial.target, trial.mask)
        loss, slack = got.loss.item(), trial.slack
        value = trial.objective(got, weight).item()
        values = trial.objective(outputs, weight)
        best = int(values.argmax())
        if value < values[best] - slack:
            _fail(task, oracle, f"is not optimal: its output has features {got.features.tolist()}, loss {loss} and F + "
                  f"{weight!r}·L = {value}, but the output with features {outputs.features[best].tolist()} and loss "
                  f"{outputs.loss[best].item()} reaches {values[best].item()}.", trial)  # fmt: skip
        if exhaustive and value > values[best] + slack:
            _fail(task, oracle, f"claims F + {weight!r}·L = {value}, with features {got.features.tolist()} and loss "
                  f"{loss}, but no output has more than {values[best].item()}.", trial)  # fmt: skip
        optimal = outputs.loss[values > values[best] - slack]
        unique = len(trial.scores.unique()) == trial.scores.numel() and optimal.max() - optimal.min() < TOLERANCE
        # with ties, a task has its own rule
        if exhaustive and unique and abs(loss - optimal[0].item()) > trial.tolerance:
            _fail(task, oracle, f"gives loss {loss}, but its output has loss {optimal[0].item()}.", trial)

    if exhaustive:
        truth = oracles["truth"](trial.scores, trial.target)
        value = trial.objective(truth, 0.0).item()
        right = trial.objective(outputs, 0.0)[outputs.loss.abs() <= TOLERANCE]
        if not (len(right) and right.min() - trial.slack <= value <= right.max() + trial.slack):
            _fail(task, "truth", f"has features {truth.features.tolist()} and F = {value}, but no output with loss 0 "
                  "has that.", trial)  # fmt: skip


def _differ(one: Output, other: Output, tolerance: float) -> bool:
    pairs = (one.features, other.features), (one.loss, other.loss)
    return not all(torch.allclose(a, b, rtol=0, atol=tolerance) for a, b in pairs)


def _check_batch(task: Task, trial: _Trial, longest: int, generator: torch.Generator) -> None:
    other = _another(task, trial, longest, generator)
    both = trial, other
    scores, target = (torch.stack([getattr(one, name) for one in both]) for name in ("scores", "target"))
    mask = None if trial.mask is None or other.mask is None else torch.stack([trial.mask, other.mask])
    weights = torch.tensor([[one.weight] for one in both], dtype=torch.float64)
    singles = [_oracles(task, one.weight) for one in both]
    for oracle, call in _oracles(task, weights).items():
        whole = call(scores.unsqueeze(1), target.unsqueeze(1), None if mask is None else mask.unsqueeze(1))
        if whole.features.shape != (2, 1, *trial.scores.shape) or whole.loss.shape != (2, 1):
            shapes = f"features of shape {tuple(whole.features.shape)} and losses of shape {tuple(whole.loss.shape)}"
            _fail(task, oracle, f"gives {shapes} for scores of shape {(2, 1, *trial.scores.shape)}.", trial)
        for k, one in enumerate(both):
            alone = singles[k][oracle](one.scores, one.target, one.mask)
            part = Output(whole.features[k, 0], whole.loss[k, 0])
            if _differ(part, alone, trial.tolerance):
                _fail(task, oracle, f"gives {part} for a problem in a batch but {alone} for the problem alone.", one)


def _another(task: Task, trial: _Trial, longest: int, generator: torch.Generator) -> _Trial:
    """A problem to stand beside another one in a batch, of the same shape: its weight, target and mask differ."""
    target, mask = trial.target, trial.mask
    for _ in range(ATTEMPTS):
        problem = Problem(*task.random_problem(longest, generator))
        masked = (problem.mask is None) == (mask is None)
        if masked and (problem.scores.shape, problem.target.shape) == (trial.scores.shape, target.shape):
            target, mask = problem.target, problem.mask
            break
    scores = torch.randn(trial.scores.shape, generator=generator, dtype=torch.float64)
    return trial._replace(scores=scores, target=target, mask=mask, weight=-trial.weight / 2)


def _check_masked_features(task: Task, trial: _Trial) -> None:
    if trial.mask is None:
        return
    masked = ~trial.mask
    for oracle, call in _oracles(task, trial.weight).items():
        features = call(trial.scores, trial.target, trial.mask).features
        if features[masked].any():
            _fail(task, oracle, f"gives masked items the features {features[masked].tolist()} instead of 0.", trial)


def _check_padding(task: Task, trial: _Trial, generator: torch.Generator) -> None:
    items = len(trial.scores)
    mask = torch.arange(items + 2) < items
    if task.exchangeable:
        mask = mask[torch.randperm(items + 2, generator=generator)]
    scores = torch.zeros(items + 2, dtype=torch.float64).masked_scatter(mask, trial.scores)
    target = torch.zeros(items + 2, dtype=trial.target.dtype).masked_scatter(mask, trial.target)
    for oracle, call in _oracles(task, trial.weight).items():
        alone = call(trial.scores, trial.target)
        padded = call(scores, target, mask)
        if padded.features[~mask].any():
            _fail(task, oracle, f"gives masked items the features {padded.features[~mask].tolist()} instead of 0 "
                  f"(mask = {mask.int().tolist()} around these items).", trial)  # fmt: skip
        if _differ(Output(padded.features[mask], padded.loss), alone, trial.tolerance):
            _fail(task, oracle, f"gives {padded} with masked items in between but {alone} without them "
                  f"(mask = {mask.int().tolist()} around these items).", trial)  # fmt: skip
    nothing = torch.zeros_like(mask)
    for oracle, call in _oracles(task, trial.weight).items():
        empty = call(torch.zeros_like(scores), torch.zeros_like(target), nothing)
        if empty.features.any() or empty.loss != 0:
            _fail(task, oracle, f"must give 0 for a wholly masked list, but gives {empty}.", trial)


def _check_permutation(task: Task, trial: _Trial, generator: torch.Generator) -> None:
    order = torch.randperm(len(trial.scores), generator=generator)
    for oracle, call in _oracles(task, trial.weight).items():
        straight = call(trial.scores, trial.target)
        permuted = call(trial.scores[order], trial.target[order])
        if _differ(Output(straight.features[order], straight.loss), permuted, trial.tolerance):
            _fail(task, oracle, f"depends on the order of the items: permuting them by {order.tolist()} gives "
                  f"{permuted} instead of {Output(straight.features[order], straight.loss)}.", trial)  # fmt: skip
