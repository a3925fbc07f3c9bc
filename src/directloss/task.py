"""What is predicted and what it costs: the contract of a task.

Scores `s` come from a network. A structured output `y` has a score linear in them, F(s, y) = <s, features(y)>, and a
task loss L(y) in [0, 1] against the target. Training needs three kinds of outputs: the prediction argmax F, the
loss-augmented prediction argmax F + weight·L, and the ground truth. A subclass of `Task` writes one method that finds
them all, its oracle; the rest of the library follows from it.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from .autograd import number, register, run_output
from .checks import check_binary, check_finite, check_problems, check_strength, check_weight
from .groups import Groups
from .update import TRUTH, Truth, UpdateSpec, Weight

DERIVED = "_described", "_number", "_plans", "_scales"
"""What a task does not hand on to its copies."""

__all__ = ["Contrast", "Output", "Problem", "Task"]


class Output(NamedTuple):
    """A structured output for every problem of a batch.

    >>> from directloss import AveragePrecision
    >>> output = AveragePrecision().infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1]))
    >>> output.features, output.loss
    (tensor([ 1.0000, -0.5000, -0.5000]), tensor(0.4167))
    """

    features: Tensor
    """dF/dscores: the shape of scores, zero where masked."""
    loss: Tensor
    """The task loss against the target: the shape of the batch dimensions."""
    counted: Tensor | None = None
    """Which problems count, in the shape of the batch dimensions; an oracle need not say so."""


class Contrast(NamedTuple):
    """What an update makes of two outputs."""

    gradient: Tensor
    """scale·(features(away) − features(toward)): the shape of scores."""
    value: Tensor
    """What it is the gradient of: the shape of the batch dimensions."""
    counted: Tensor
    """Which problems enter a mean: the shape of the batch dimensions, bool."""


class Problem(NamedTuple):
    """Scores and target of one small problem, for `check_task`.

    >>> Problem(torch.tensor([2.0, 1.0]), torch.tensor([0, 1])).mask is None
    True
    """

    scores: Tensor
    target: Tensor
    mask: Tensor | None = None


class Task(ABC):
    """What is predicted and what it costs: a set of outputs, and an oracle that finds the best one.

    The last `event_dims` dimensions of scores are one problem, such as one list. The leading ones are a batch of
    problems. `mask` is True where an item is valid. A subclass writes `oracle`, and `check_target` if its target is not
    0 and 1. `check_task` tests it. The other methods are inherited: `infer`, `infer_augmented` and `truth` check their
    input and call the oracle. Losses call `contrast`.

    A problem that does not count (see `is_scored`) gives exactly 0 and no gradient, and is left out of means.

    >>> class TopItem(Task):  # pick one item; L = 1 if it is a negative
    ...     def oracle(self, scores, target, weight, mask):
    ...         values = 1.0 * target if isinstance(weight, Truth) else scores + weight * ~target
    ...         values = values.masked_fill(~mask, -torch.inf)
    ...         best = (values == values.amax(-1, keepdim=True)) & mask
    ...         features = best / best.sum(-1, keepdim=True)
    ...         return Output(features, (features * ~target).sum(-1))
    >>> task, scores, target = TopItem(), torch.tensor([1.2, 0.9, 0.5]), torch.tensor([1, 0, 0])
    >>> task.infer(scores, target).features, task.infer_augmented(scores, target, 1.0).features
    (tensor([1., 0., 0.]), tensor([0., 1., 0.]))
    """

    event_dims: int = 1
    """The dimensions of one problem: 1 for a list, 2 for a grid or a sequence × label, 3 for edge potentials."""
    mask_dims: int | None = None
    """How many of these, from the first on, a mask has; None: all of them."""
    exchangeable: bool = True
    """Whether permuting the items of a list permutes the features; not so for sequences or paths."""
    lists_of_one: bool = False
    """Whether scores (n, 1) have the mean loss of one list of n. If not, losses refuse them without a mask."""
    binary: bool = False
    """Whether the target must be 0 or 1 for each item; a wrong one is then refused in the shape that the user has."""
    _described: str | None = None
    _number: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        register(cls)

    def __new__(cls, *arguments: Any, **options: Any) -> Self:  # noqa: D102
        self = super().__new__(cls)
        if not torch.compiler.is_compiling():
            object.__setattr__(self, "_number", number(self))  # subclasses may be frozen dataclasses
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in DERIVED}  # its own

    @abstractmethod
    def oracle(self, scores: Tensor, target: Tensor, weight: Tensor | Truth, mask: Tensor) -> Output:
        """argmax F + weight·L, for every problem of a batch; a weight of 0 asks for the prediction.

        Args:
            scores: float64, checked, 0 where masked.
            target: what `check_target` made of it.
            weight: `TRUTH` asks for the ground truth; else float64, one number for each problem, of either sign, in a
                shape that broadcasts against scores: (..., 1) for lists.
            mask: bool, of the shape of scores, or of its first dimensions (see `mask_dims`).

        All of them are copies, so the oracle may write to them.
        """

    def check_target(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        """Raise an error for a wrong target, and return what the oracle takes. Masked items may have any value.

        This one is for a target of 0 and 1 in the shape of scores: it returns bool, False where masked.
        """
        check_binary(scores, target, mask)
        return (target != 0) & mask

    def is_scored(self, target: Tensor, mask: Tensor) -> Tensor:
        """Which problems count, in the shape of the batch: here, those with a valid item.

        Gets the target as `check_target` made it.
        """
        dims = self.event_dims if self.mask_dims is None else self.mask_dims
        return mask.any(_last(dims)) if dims else mask.clone()

    def outputs(self, scores: Tensor, target: Tensor) -> Output | None:
        """Every output of one small problem, stacked as features (K, …) and loss (K,): what `check_task` enumerates.

        Optional; may look at the shape of scores, not at its numbers. Without it `check_task` compares with the
        outputs that the oracle itself gives for other scores.
        """
        return None

    def random_problem(self, longest: int, generator: torch.Generator) -> Problem:
        """A small random problem for `check_task`, up to `longest` items long. This one: a list with 0 and 1.

        Scores may be any numbers: `check_task` also tries ties, heavy tails and large ranges.
        """
        items = 1 + int(torch.randint(longest, (), generator=generator))
        share = torch.rand((), generator=generator)
        scores = torch.randn(items, generator=generator, dtype=torch.float64)
        return Problem(scores, torch.rand(items, generator=generator) < share)

    def infer(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        """The prediction y_w = argmax F, with its loss against the target."""
        return Output(*run_output(self, scores, target, 0.0, mask))

    def infer_augmented(
        self, scores: Tensor, target: Tensor, weight: float | Tensor, mask: Tensor | None = None
    ) -> Output:
        """argmax F + weight·L, for a weight of either sign: one number, or a tensor with one for each problem."""
        return Output(*run_output(self, scores, target, check_weight(weight), mask))

    def truth(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Output:
        """The ground truth."""
        return Output(*run_output(self, scores, target, TRUTH, mask))

    def contrast(
        self, scores: Tensor, target: Tensor, spec: UpdateSpec, mask: Tensor | None = None, groups: Groups | None = None
    ) -> Contrast:
        """Contrast the two outputs of an update. With groups, scores are flat and the lists are theirs."""
        if groups is not None:
            return Contrast(*self._each_length(self.contrast, scores, target, spec, mask, groups))
        dtype = torch.promote_types(scores.dtype, torch.float32)
        scores, target, mask, counted = self._prepare(scores, target, mask)
        away, toward = (self._solve(weight, scores, target, mask, counted) for weight in (spec.away, spec.toward))
        features = away.features - toward.features
        score = (scores * features).sum(_last(self.event_dims))
        check_strength("the scale of the update", spec.scale, counted.shape)
        value = spec.value(score, away.loss, toward.loss)
        gradient = self._per_problem(spec.scale, scores) * features
        return Contrast(gradient.to(dtype), value.to(dtype), counted)

    def output(
        self, scores: Tensor, target: Tensor, weight: Weight, mask: Tensor | None = None, groups: Groups | None = None
    ) -> Output:
        """One output, as `contrast` has two of them."""
        if groups is not None:
            return Output(*self._each_length(self.output, scores, target, weight, mask, groups))
        dtype = torch.promote_types(scores.dtype, torch.float32)
        scores, target, mask, counted = self._prepare(scores, target, mask)
        output = self._solve(weight, scores, target, mask, counted)
        return Output(output.features.to(dtype), output.loss.to(dtype), counted)

    def _each_length(
        self, solve: Any, scores: Tensor, target: Tensor, spec: UpdateSpec | Weight, mask: Tensor | None, groups: Groups
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What `solve` finds for flat scores, lists of one length together."""
        check_finite(scores, mask)  # here, where an error names the place that the user knows
        if self.binary:
            check_binary(scores, target, mask)
        features = torch.zeros_like(scores, dtype=torch.promote_types(scores.dtype, torch.float32))
        value = features.new_zeros(groups.starts.size - 1)
        counted = torch.zeros_like(value, dtype=torch.bool)
        for lists, items in groups.by_length(scores.device):
            valid = torch.ones_like(items, dtype=torch.bool) if mask is None else mask[items]
            each = (
                UpdateSpec(*(_of(number, lists) for number in spec))
                if isinstance(spec, UpdateSpec)
                else _of(spec, lists)
            )
            features[items], value[lists], counted[lists] = solve(scores[items], target[items], each, valid)
        return features, value, counted

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _prepare(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Checked scores, target and mask as the oracle takes them, and which problems count."""
        shape = check_problems(scores, target, mask, self.event_dims, self.mask_dims)
        mask = torch.ones(shape, dtype=torch.bool, device=scores.device) if mask is None else mask
        valid = mask.reshape(*shape, *[1] * (scores.dim() - len(shape)))
        check_finite(scores, valid)
        target = self.check_target(scores, target, mask)
        return scores.double().where(valid, 0.0), target, mask, self.is_scored(target, mask)

    def _solve(self, weight: Weight, scores: Tensor, target: Tensor, mask: Tensor, counted: Tensor) -> Output:
        if weight is not TRUTH:
            check_strength("weight", weight, counted.shape)
            weight = self._per_problem(weight, scores)
        if not counted.any():  # an oracle need not know about empty lists
            return Output(torch.zeros_like(scores), torch.zeros_like(counted, dtype=scores.dtype))
        features, loss, *_ = self.oracle(scores.clone(), target.clone(), weight, mask.clone())
        if not counted.all():
            features = features.where(self._per_problem(counted, scores, torch.bool), 0.0)
            loss = loss.where(counted, 0.0)
        return Output(features, loss)

    def _per_problem(self, value: float | Tensor, scores: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """One number per problem, in a shape that broadcasts against scores."""
        batch = scores.shape[: scores.dim() - self.event_dims]
        value = torch.as_tensor(value, dtype=dtype, device=scores.device).expand(batch)
        return value.reshape(*batch, *[1] * self.event_dims)


def _of(number: Any, lists: Tensor) -> Any:
    """The numbers of some lists, if each has its own."""
    return number[lists] if isinstance(number, Tensor) and number.dim() else number


def _last(dims: int) -> tuple[int, ...]:
    return tuple(range(-dims, 0))
