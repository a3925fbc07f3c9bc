"""An adversary for the oracles: random lists of every awkward kind, each checked against an exact answer.

The tests try some thousand lists, the same ones every time. Wrong answers of earlier versions needed millions of lists,
or scores of 1e16 beside scores of 1. So this tries other lists in every run, for as long as one likes:

    python -m tests.fuzz --minutes 20             # or ./dev fuzz --minutes 20
    python -m tests.fuzz --minutes 20 --seed 7    # the same lists again

Lists come in batches of one shape. The exact answer comes from all rankings (up to seven items) or from a dynamic
programme over rows (up to 300). Both count what an output loses against the prediction, pair by pair: F(prediction) −
F(y) = 2/(PM)·Σ |a_i − b_j| over the pairs that y orders otherwise than the scores do. All terms have one sign, so
float64 gives this sum to its last digits at any magnitude. Samples are checked again in fractions, and by the paper's
dynamic programme.

The ways to an oracle, such as flat lists, other strides, threads and memories, are held to lists one by one: see
`tests/fuzz_layouts.py`.

A list that breaks a law is shrunk and printed as a test to paste into tests/library; the exit code is then 1.
"""

import argparse
import multiprocessing
import queue
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.dynamic_programme import average_precision_objective, average_precision_reference
from directloss import (
    ROCAUC,
    AveragePrecision,
    AveragePrecisionAtK,
    BinaryDCG,
    CentralDirect,
    Hinge,
    HitAtK,
    NegativeDirect,
    PartialAUC,
    Perceptron,
    PositiveDirect,
    RecallAtFPR,
    StructuredLoss,
    ZeroOne,
)
from directloss.families import ByRank, RankingTask
from directloss.task import Output, Task
from directloss.tasks import TASKS
from directloss.testing import TaskError, check_task
from tests.fuzz_layouts import list_tasks, try_layout

__all__ = ["Batch", "Failure", "Tally", "broken_laws", "fuzz", "main", "shrink"]

Array = NDArray[np.float64]

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-6, torch.bfloat16: 1e-6, torch.float16: 1e-6}  # answers: float32
LIMIT = {torch.float64: 1e36, torch.float32: 1e36, torch.bfloat16: 1e36, torch.float16: 6e4}  # of the scores drawn
STRENGTH = 1e30  # of ε, and 1 / STRENGTH
PROCESSES = 2
ENUMERATED = 7  # items of the longest list whose rankings are all tried
AVERAGE_PRECISION = AveragePrecision()


class Batch(NamedTuple):
    """Lists of one shape, with as many positives each."""

    task: Task
    scores: Tensor  # [B, n]
    target: Tensor  # [B, n] bool
    epsilon: Tensor  # [B] float64


class Answer(NamedTuple):
    """What is true of every list of a batch."""

    loss: Array  # [B] of the prediction
    features: Array  # [B, n] of the prediction
    truth: Array  # [B, n] features of the truth
    unit: float  # features are whole multiples of it, but for ties
    up: Array  # [B] max over y of L(y) − (F(prediction) − F(y))/ε
    down: Array  # [B] min over y of L(y) + (F(prediction) − F(y))/ε
    cost: Array  # [B] F(prediction) − F(truth)
    tied: NDArray[np.bool_]  # [B] a tie gives the prediction a loss by convention
    counted: bool


class Failure(NamedTuple):
    """A list and the law that it breaks."""

    law: str
    gap: float
    batch: Batch  # of one list
    kind: str = ""


class Tally:
    """Counts of lists, worst gaps, the first failure of each law, and the test that it makes."""

    def __init__(self) -> None:
        self.lists: Counter[str] = Counter()
        self.methods: Counter[str] = Counter()
        self.worst: dict[str, float] = {}
        self.wrong: Counter[str] = Counter()
        self.failures: dict[str, Failure] = {}
        self.tests: dict[str, str] = {}

    @property
    def total(self) -> int:
        """How many lists were checked."""
        return sum(self.lists.values())

    def add(self, other: "Tally") -> None:
        """Add what another process has found."""
        self.lists += other.lists
        self.methods += other.methods
        self.wrong += other.wrong
        for name, gap in other.worst.items():
            self.worst[name] = max(gap, self.worst.get(name, 0.0))
        for law, test in other.tests.items():
            self.tests.setdefault(law, test)

    def write_tests(self, known: set[str]) -> None:
        """Shrink the failures of laws that are not known to be broken, and write tests for them."""
        for law, failure in self.failures.items():
            if law not in known:
                known.add(law)
                self.tests[law] = as_test(shrink(failure))
        self.failures = {}


# --- exact answers ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def lost_gains(task: RankingTask, P: int, M: int) -> Array:
    """[P, M + 1] what each positive adds to the loss with so many negatives above it."""
    gain = task.gain(P, M)
    i, c = np.arange(P)[:, None], np.arange(M + 1)
    places = i + c if isinstance(gain, ByRank) else 0 * i + c
    gains = np.asarray(gain.weights, float)[:, None] * np.asarray(gain.discounts, float)[places]
    return (gains[:, :1] - gains) / gains[:, 0].sum()


@cache
def interleavings(P: int, M: int) -> tuple[Array, NDArray[np.int64]]:
    """All interleavings of P positives and M negatives: [K, PM] 1 where the positive stands above, and [K, P] the
    negatives above each positive.

    Each class stays in the order of its scores, which is best for any places of the positives.
    """
    above, counts = [], []
    for places in combinations(range(P + M), P):
        counts.append([place - i for i, place in enumerate(places)])
        above.append([1.0 if j >= c else 0.0 for c in counts[-1] for j in range(M)])
    return np.array(above), np.array(counts)


def enumerated(pairs: Array, epsilon: Array, task: RankingTask = AVERAGE_PRECISION) -> tuple[Array, Array]:
    """The best of all rankings: up and down of `Answer`, for pairs a_i − b_j [B, P, M]."""
    B, P, M = pairs.shape
    above, counts = interleavings(P, M)
    losses = lost_gains(task, P, M)[np.arange(P), counts].sum(1)
    flat = pairs.reshape(B, P * M)
    costs = np.maximum(flat, 0) @ (1 - above).T + np.maximum(-flat, 0) @ above.T
    costs *= 2 * task.scale(P, M) / (P * M) / epsilon[:, None]
    return (losses - costs).max(1), (losses + costs).min(1)


def staircases(pairs: Array, epsilon: Array, task: RankingTask = AVERAGE_PRECISION) -> tuple[Array, Array]:
    """The same by a dynamic programme over rows; each row's cost is summed outward from the prediction's place."""
    B, P, M = pairs.shape
    losses = lost_gains(task, P, M)
    up, down = np.zeros((B, M + 1)), np.zeros((B, M + 1))
    for i in range(P):
        cost = np.zeros((B, M + 1))
        cost[:, 1:] = np.maximum(pairs[:, i], 0).cumsum(1)
        cost[:, :-1] += np.maximum(-pairs[:, i], 0)[:, ::-1].cumsum(1)[:, ::-1]
        cost *= 2 * task.scale(P, M) / (P * M) / epsilon[:, None]
        up = np.maximum.accumulate(up, axis=1) + losses[i] - cost
        down = np.minimum.accumulate(down, axis=1) + losses[i] + cost
    return up.max(1), down.min(1)


def in_fractions(a: Array, b: Array, epsilon: float) -> tuple[float, float]:
    """The same for one list, positives [P] and negatives [M], without rounding."""
    P, M = a.size, b.size
    pairs = [[Fraction(x) - Fraction(y) for y in b.tolist()] for x in a.tolist()]
    ups, downs = [], []
    for places in combinations(range(P + M), P):
        cost, precision = Fraction(0), Fraction(0)
        for i, place in enumerate(places):
            c = place - i
            precision += Fraction(i + 1, i + 1 + c)
            cost += sum((x for x in pairs[i][:c] if x > 0), Fraction(0))
            cost -= sum((x for x in pairs[i][c:] if x < 0), Fraction(0))
        loss, cost = 1 - precision / P, cost * 2 / (P * M) / Fraction(epsilon)
        ups.append(loss - cost)
        downs.append(loss + cost)
    return float(max(ups)), float(min(downs))


def descending(x: Array) -> Array:
    """Rows sorted from the highest to the lowest."""
    return -np.sort(-x, axis=-1)


def ranking_answer(task: Any, scores: Array, target: NDArray[np.bool_], epsilon: Array) -> Answer:
    """For lists [B, n] with as many positives each."""
    B, n = scores.shape
    P = int(target[0].sum()) if B else 0
    M = n - P
    if P * M == 0:
        zero, none = np.zeros(B), np.zeros((B, n))
        return Answer(zero, none, none, 1.0, zero, zero, zero, np.zeros(B, bool), False)
    of_positives, of_negatives = scores[target].reshape(B, P), scores[~target].reshape(B, M)
    signs = np.sign(of_positives[:, :, None] - of_negatives[:, None, :])
    scale = task.scale(P, M)
    unit = scale / (P * M)
    features = np.empty((B, n))
    features[target] = signs.sum(2).ravel() * unit
    features[~target] = -signs.sum(1).ravel() * unit
    truth = np.where(target, scale / P, -scale / M)
    at_least = of_positives[:, None, :] >= of_positives[:, :, None]
    if isinstance(task, AveragePrecision):  # a tied group shares the precision at its end
        found, all_found = at_least.sum(2), (signs <= 0).sum(2)
        loss = 1 - (found / (found + all_found)).sum(1) / P
    else:
        above = np.sort((signs < 0).sum(2), axis=1)
        loss = lost_gains(task, P, M)[np.arange(P), above].sum(1)
        loss[(signs == 0).any((1, 2))] = np.nan  # tests/library/test_ranking.py knows the rules of ties
    pairs = descending(of_positives)[:, :, None] - descending(of_negatives)[:, None, :]
    up, down = (enumerated if n <= ENUMERATED else staircases)(pairs, epsilon, task)
    tied = (signs == 0).any((1, 2)) | (at_least.sum((1, 2)) > P * (P + 1) // 2)
    cost = 2 * np.maximum(-pairs, 0).sum((1, 2)) * unit
    return Answer(loss, features, truth, unit, up, down, cost, tied, True)


@cache
def all_signs(n: int) -> Array:
    """[2^n, n] of −1 and 1."""
    return np.array(list(product((-1.0, 1.0), repeat=n)))


def zero_one_answer(task: Any, scores: Array, target: NDArray[np.bool_], epsilon: Array) -> Answer:
    """For lists [B, n]: all signs of a short list, of a long one each item's."""
    n = scores.shape[1]
    right = np.where(target, 1.0, -1.0)
    of_right, of_wrong = (np.maximum(side * right * scores, 0) * 2 / n for side in (-1, 1))  # what each sign costs
    strength = epsilon[:, None]
    if n <= ENUMERATED:
        signs = all_signs(n)
        wrong = (right[:, None, :] != signs).astype(float)  # [B, 2^n, n]
        costs = (wrong * of_wrong[:, None, :] + (1 - wrong) * of_right[:, None, :]).sum(2) / strength
        up, down = (wrong.mean(2) - costs).max(1), (wrong.mean(2) + costs).min(1)
    else:
        up = np.maximum(1 / n - of_wrong / strength, -of_right / strength).sum(1)
        down = np.minimum(1 / n + of_wrong / strength, of_right / strength).sum(1)
    loss = (1 - np.sign(right * scores)).mean(1) / 2
    features, tied = np.sign(scores) / n, (scores == 0).any(1)
    return Answer(loss, features, right / n, 1.0 / n, up, down, of_right.sum(1), tied, True)


ANSWERS: dict[type[Task], Callable[[Any, Array, NDArray[np.bool_], Array], Answer]] = {
    RankingTask: ranking_answer,
    ZeroOne: zero_one_answer,
}  # of other tasks `check_task` knows the laws


def lost_score(scores: Array, features: Array, answer: Answer, ranking: bool) -> Array:
    """F(prediction) − F(output) [B], with its last digits, from the features of an output, in whole units.

    Of a ranking, by parts: what the items down to a gap count for, times that gap.
    """
    difference = (answer.features - features) / answer.unit
    if not ranking:
        return (np.rint(difference) * scores).sum(1) * answer.unit
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, 1)
    counts = np.take_along_axis(difference, order, 1).cumsum(1)[:, :-1]
    return (np.rint(counts) * (ranked[:, :-1] - ranked[:, 1:])).sum(1) * answer.unit


# --- laws ------------------------------------------------------------------------------------------------------------


def laws(batch: Batch, rng: Generator) -> dict[str, tuple[Array, float]]:
    """Every law: how far each list is off [B], and how far it may be. An error is one law broken by all lists."""
    try:
        return examine(batch, rng)
    except Exception as error:
        return {f"raises {type(error).__name__}: {str(error)[:80]}": (np.full(len(batch.scores), np.inf), 0.0)}


def examine(batch: Batch, rng: Generator) -> dict[str, tuple[Array, float]]:
    """`laws`, without that one."""
    task, scores, target, epsilon = batch
    found: dict[str, tuple[Array, float]] = {}
    tolerance = TOLERANCE[scores.dtype]
    close = 1e-12 if scores.dtype == torch.float64 else 1e-6

    def judge(law: str, gap: Any, allowed: float) -> None:
        gap = np.asarray(gap, np.float64)
        found[law] = np.where(np.isnan(gap), np.inf, gap), allowed

    def rounded(value: Array) -> Array:
        """As the answer holds it: a hinge of scores near the end of float32 may be infinite."""
        with np.errstate(over="ignore"):
            return value if scores.dtype == torch.float64 else value.astype(np.float32).astype(np.float64)

    ranking = isinstance(task, RankingTask)
    exact, strength = scores.double().numpy(), epsilon.numpy()
    answer = next(answer for kind, answer in ANSWERS.items() if isinstance(task, kind))(
        task, exact, target.numpy(), strength
    )
    weight = epsilon.clone()
    if (epsilon == epsilon[0]).all() and rng.random() < 0.5:
        weight = float(epsilon[0])
    outputs = {
        "infer": lambda *problem: task.infer(*problem),
        "F + εL": lambda s, t, m=None: task.infer_augmented(s, t, weight, m),
        "F − εL": lambda s, t, m=None: task.infer_augmented(s, t, -weight, m),
        "truth": lambda *problem: task.truth(*problem),
    }
    updates = {
        "PositiveDirect": PositiveDirect(weight),
        "NegativeDirect": NegativeDirect(weight),
        "CentralDirect": CentralDirect(weight),
        "Hinge": Hinge(weight),
        "Perceptron": Perceptron(),
    }
    mask = torch.ones_like(target) if scores.shape[1] == 1 or rng.random() < 0.2 else None
    solved = {oracle: call(scores, target, mask) for oracle, call in outputs.items()}
    features = {oracle: output.features.double().numpy() for oracle, output in solved.items()}
    losses = {oracle: output.loss.double().numpy() for oracle, output in solved.items()}

    # outputs
    size = max(1.0, task.scale(int(target[0].sum()), int((~target[0]).sum()))) if ranking and answer.counted else 1.0
    judge("features of infer", np.abs(features["infer"] - answer.features).max(1, initial=0) / size, close)
    judge("loss of infer", np.nan_to_num(np.abs(losses["infer"] - answer.loss)), close)
    judge("features of truth", np.abs(features["truth"] - answer.truth).max(1, initial=0) / size, close)
    judge("loss of truth", np.abs(losses["truth"]), 0.0)
    for oracle, best, sign in (("F + εL", answer.up, -1), ("F − εL", answer.down, 1)):
        lost = lost_score(exact, features[oracle], answer, ranking)
        judge(f"{oracle} attains the best objective", np.abs(losses[oracle] + sign * lost / strength - best), tolerance)
        judge(f"{oracle} has a loss in [0, 1]", np.abs(losses[oracle] - losses[oracle].clip(0, 1)), close)
        if ranking and answer.counted:
            judge(f"{oracle} has the loss of its features",
                  loss_mismatch(task, exact, target, features[oracle], losses[oracle]), 1e-6)  # fmt: skip

    # updates
    away = {"PositiveDirect": "F + εL", "NegativeDirect": "infer", "CentralDirect": "F + εL", "Hinge": "F + εL",
            "Perceptron": "infer"}  # fmt: skip
    toward = {"PositiveDirect": "infer", "NegativeDirect": "F − εL", "CentralDirect": "F − εL", "Hinge": "truth",
              "Perceptron": "truth"}  # fmt: skip
    hinge = strength * answer.up + answer.cost
    values = {"PositiveDirect": (answer.up, 1.0), "NegativeDirect": (answer.down, 1.0),
              "CentralDirect": ((answer.up + answer.down) / 2, 1.0), "Hinge": (hinge, strength + answer.cost),
              "Perceptron": (answer.cost, answer.cost)}  # fmt: skip
    contrasts = {update: task.contrast(scores, target, updates[update].spec, mask) for update in updates}
    for update, (gradient, value, counted) in contrasts.items():
        got = value.double().numpy()
        want, most = values[update]
        judge(f"value of {update}", np.where(got == rounded(want), 0, np.abs(got - want)) / (most + 1e-36), tolerance)
        scale = np.broadcast_to(np.asarray(updates[update].spec.scale, np.float64), strength.shape)[:, None]
        difference = scale * (features[away[update]] - features[toward[update]])
        off = np.abs(gradient.double().numpy() - difference) / scale / size
        judge(f"gradient of {update}", off.max(1, initial=0), close)
        judge(f"{update} counts a list", (counted.numpy() != answer.counted).astype(float), 0.0)
        if "Direct" in update:
            judge(f"value of {update} in [0, 1]", np.abs(got - got.clip(0, 1)), close)
            unique = ~answer.tied
            if update == "PositiveDirect":
                judge("bracket above", unique * np.maximum(losses["infer"] - got, 0), close)
            if update == "NegativeDirect":
                judge("bracket below", unique * np.maximum(got - losses["infer"], 0), close)

    # the order of the items and masked ones among them change nothing
    order, other_mask, other_scores, other_target = rearranged(batch, rng)
    for oracle, call in outputs.items():
        other = call(other_scores, other_target, other_mask)
        judge(f"order and mask: {oracle}", unlike(other, solved[oracle], order, scores.shape[1]), 0.0)
    update = list(updates)[int(rng.integers(len(updates)))]
    other = task.contrast(other_scores, other_target, updates[update].spec, other_mask)
    gradient, value, _ = contrasts[update]
    judge(f"order and mask: gradient of {update}", unlike(Output(other.gradient, value), Output(gradient, value), order,
                                                          scores.shape[1]), 0.0)  # fmt: skip
    most = values[update][1] + 1e-36
    off = (other.value - value).abs().double().where(other.value != value, 0).numpy()
    judge(f"order and mask: value of {update}", off / most, tolerance)

    # and the loss is the contrast
    if scores.dtype in (torch.float32, torch.float64):  # half precision rounds both
        leaf = scores.clone().requires_grad_()
        value_of_loss = StructuredLoss(task, updates[update], reduction="none")(leaf, target, mask)
        value_of_loss.sum().backward()
        assert leaf.grad is not None
        through = Output(leaf.grad, value_of_loss.detach())
        judge(f"loss of {update}", unlike(through, Output(gradient, value), None, 0), 0.0)
    return found


def loss_mismatch(task: Any, scores: Array, target: Tensor, features: Array, losses: Array) -> Array:
    """How far losses are from those of the rankings that the features describe; 0 where positives tie."""
    chosen = target.numpy()
    B, n = scores.shape
    P = int(chosen[0].sum())
    a, f = scores[chosen].reshape(B, P), features[chosen].reshape(B, P)
    order = np.argsort(-a, axis=1)
    ranked = np.take_along_axis(a, order, 1)
    above = (n - P) * (1 - P * np.take_along_axis(f, order, 1) / task.scale(P, n - P)) / 2
    distinct = (ranked[:, 1:] != ranked[:, :-1]).all(1)
    whole = np.rint(above)  # a ranking has whole numbers of negatives above a positive; features are float32
    steps = np.abs(above - whole).max(1)
    expected = lost_gains(task, P, n - P)[np.arange(P), whole.astype(int).clip(0, n - P)].sum(1)
    return distinct * np.maximum(np.abs(expected - losses), np.where(steps > 1e-3, 1, 0))


def rearranged(batch: Batch, rng: Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Every list in another order, with some masked items anywhere: where each item went to, mask, scores, target."""
    _, scores, target, _ = batch
    B, n = scores.shape
    extra = int(rng.integers(4))
    junk = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1.0], dtype=scores.dtype)
    masked = junk[torch.from_numpy(rng.integers(len(junk), size=(B, extra)))]
    order = torch.from_numpy(rng.permuted(np.tile(np.arange(n + extra), (B, 1)), axis=1))
    labels = torch.from_numpy(rng.random((B, extra)) < 0.5)
    other_scores = torch.empty((B, n + extra), dtype=scores.dtype).scatter_(1, order, torch.cat([scores, masked], 1))
    other_target = torch.empty((B, n + extra), dtype=torch.bool).scatter_(1, order, torch.cat([target, labels], 1))
    mask = torch.ones((B, n + extra), dtype=torch.bool).scatter_(1, order[:, n:], False)
    return order[:, :n], mask, other_scores, other_target


def unlike(one: Output, other: Output, order: Tensor | None, n: int) -> Array:
    """1.0 for lists whose features or losses differ in any bit that matters."""
    features = one.features if order is None else one.features.gather(1, order)
    same = (features == other.features).all(1) & (one.loss == other.loss)
    if order is not None and one.features.shape[1] > n:  # nothing on masked items
        same &= (one.features != 0).sum(1) == (features != 0).sum(1)
    return (~same).double().numpy()


def broken_laws(
    task: Task, scores: Tensor, target: Tensor, epsilon: float | Tensor, arrangements: int = 4
) -> dict[str, float]:
    """The laws that a list, or a batch of lists with as many positives each, breaks, and how far it is off."""
    scores, target = torch.atleast_2d(scores), torch.atleast_2d(target)
    strength = torch.as_tensor(epsilon, dtype=torch.float64).expand(len(scores)).clone()
    worst: dict[str, float] = {}
    for seed in range(arrangements):
        found = laws(Batch(task, scores, target != 0, strength), np.random.default_rng(seed))
        for law, (gap, allowed) in found.items():
            if gap.max() > allowed:
                worst[law] = max(float(gap.max()), worst.get(law, 0.0))
    return worst


# --- lists -----------------------------------------------------------------------------------------------------------


def _flat(rng: Generator, B: int, P: int, M: int, epsilon: Array) -> Array:
    """Objectives with many optima: negatives at the height where putting them above some positive is worth nothing."""
    kappa = epsilon[:, None] * M / 2
    i, c = rng.integers(1, P + 1, (B, M)), rng.integers(1, M + 1, (B, M))
    heights = -kappa * i / ((i + c - 1) * (i + c)) * rng.choice([-1, 1], (B, 1))
    steps = kappa * rng.integers(-1, 2, (B, P)) / 12
    return np.concatenate([steps, heights], 1)


def _clusters(rng: Generator, B: int, n: int) -> Array:
    centres = rng.normal(size=(B, 3)) * 10.0 ** rng.uniform(0, 18, (B, 3))
    return np.take_along_axis(centres, rng.integers(3, size=(B, n)), 1) + rng.normal(size=(B, n))


def _outlier(rng: Generator, B: int, n: int) -> Array:
    x = rng.normal(size=(B, n))
    x[np.arange(B), rng.integers(n, size=B)] = rng.choice([-1, 1], B) * 10.0 ** rng.uniform(3, 30, B)
    return x


def _nearly_sorted(rng: Generator, B: int, n: int) -> Array:
    return -np.arange(n) + rng.normal(size=(B, n)) * rng.choice([0.1, 1, 3], (B, 1))


KINDS: dict[str, Callable[[Generator, int, int], NDArray[Any]]] = {  # the positives are the first items
    "normal": lambda rng, B, n: rng.normal(size=(B, n)),
    "ties": lambda rng, B, n: rng.normal(size=(B, n)).round(),
    "many ties": lambda rng, B, n: rng.choice([-1.0, -0.0, 0.0, 1.0], (B, n)),
    "signed zeros": lambda rng, B, n: rng.choice([-0.0, 0.0], (B, n)),
    "constant": lambda rng, B, n: np.repeat(rng.normal(size=(B, 1)), n, 1),
    "heavy tails": lambda rng, B, n: rng.standard_cauchy((B, n)),
    "lognormal": lambda rng, B, n: np.exp(2 * rng.normal(size=(B, n))),
    "clusters": _clusters,
    "arithmetic": lambda rng, B, n: rng.permuted(np.tile(np.arange(n) * 0.1, (B, 1)), axis=1),
    "reversed": lambda rng, B, n: np.arange(n) + rng.normal(size=(B, n)) * rng.choice([0, 0.1, 1], (B, 1)),
    "nearly sorted": _nearly_sorted,
    "neighbours": lambda rng, B, n: 1 + rng.integers(8, size=(B, n)) * 2.0**-52,
    "magnitudes": lambda rng, B, n: rng.choice([-1, 1], (B, n)) * 10.0 ** rng.uniform(-30, 30, (B, n)),
    "outlier": _outlier,
    "flat": lambda rng, B, n: rng.normal(size=(B, n)),  # replaced, as it depends on ε
}
DTYPES = [torch.float64] * 4 + [torch.float32] * 2 + [torch.float16, torch.bfloat16]


def draw(rng: Generator, tasks: Sequence[Task], kinds: Sequence[str] = tuple(KINDS)) -> tuple[str, Batch]:
    """The next batch, and its kind."""
    size = rng.random()
    if size < 0.75:
        n, B = int(rng.integers(1, ENUMERATED + 1)), 1024
    elif size < 0.95:
        n, B = int(rng.integers(ENUMERATED + 1, 41)), 128
    else:
        n, B = int(rng.integers(41, 301)), 8
    shape = rng.random()
    P = 1 if shape < 0.15 else n - 1 if shape < 0.3 else int(rng.integers(0, n + 1))
    M = n - P
    kind = str(rng.choice(kinds))
    epsilon = 10.0 ** rng.uniform(-3, 3, B)
    x = KINDS[kind](rng, B, n)
    if kind == "flat" and P * M:
        x = _flat(rng, B, P, M, epsilon)
    change = rng.random()
    if change < 0.25:
        x, epsilon = ((value * 10.0 ** rng.uniform(-30, 30)) for value in (x, epsilon))
    elif change < 0.4:
        x = x + rng.choice([-1, 1]) * 10.0 ** rng.uniform(0, 15)
    dtype = DTYPES[int(rng.integers(len(DTYPES)))]
    scores = torch.from_numpy(np.ascontiguousarray(x)).clamp(-LIMIT[dtype], LIMIT[dtype]).to(dtype)
    spread = np.ptp(scores.double().numpy(), axis=1)
    strength = rng.random()
    if strength < 0.2:
        epsilon = 10.0 ** rng.uniform(-30, 30, B)
    elif strength < 0.7 and kind != "flat":
        epsilon = np.where(spread > 0, spread, 1) * 10.0 ** rng.uniform(-3, 2, B)
    if rng.random() < 0.2:
        epsilon = np.full(B, epsilon[0])
    target = torch.arange(n).expand(B, n) < P
    order = torch.from_numpy(rng.permuted(np.tile(np.arange(n), (B, 1)), axis=1))
    epsilon = torch.from_numpy(epsilon.clip(1 / STRENGTH, STRENGTH))
    return kind, Batch(tasks[int(rng.integers(len(tasks)))], scores.gather(1, order), target.gather(1, order), epsilon)


def check_the_answers(batch: Batch) -> None:
    """Hold the exact answer itself to fractions, and to the paper's programme where float64 is enough for it."""
    scores, target, strength = batch.scores.double().numpy()[0], batch.target.numpy()[0], float(batch.epsilon[0])
    a, b = descending(scores[target]), descending(scores[~target])
    if a.size * b.size == 0:
        return
    pairs = a[:, None] - b[None, :]
    up, down = (float(x[0]) for x in (enumerated if scores.size <= ENUMERATED else staircases)(
        pairs[None], np.array([strength])))  # fmt: skip
    if scores.size <= ENUMERATED:
        other = in_fractions(a, b, strength)
        allowed = 1e-12
    else:
        rows = (average_precision_reference(a, b, weight) for weight in (strength, -strength))
        best = [average_precision_objective(a, b, c, w) for c, w in zip(rows, (strength, -strength), strict=True)]
        top = np.abs(pairs).sum() / pairs.size  # F of the prediction
        other = (best[0] - top) / strength, (top - best[1]) / strength
        allowed = 1e-12 * (1 + 100 * np.abs(scores).max() / strength)
    if max(abs(up - other[0]), abs(down - other[1])) > allowed:
        raise AssertionError(f"the fuzzer's own answer is wrong: {(up, down)} instead of {other} for {batch}")


def fuzz(batches: Iterator[int], seed: int, tasks: Sequence[Task], tally: Tally) -> None:
    """Check one batch for each number, and write to the tally."""
    drawn = [task for task in tasks if isinstance(task, tuple(ANSWERS))]
    for number in batches:
        rng = np.random.default_rng((seed, number))
        kind, batch = draw(rng, drawn)
        n = batch.scores.shape[1]
        if number % 50 == 0:
            check_the_answers(batch._replace(**{name: getattr(batch, name)[:1] for name in Batch._fields[1:]}))
        found = laws(batch, rng)
        tally.lists[kind] += len(batch.scores)
        tally.methods["all outputs" if n <= ENUMERATED else "dynamic programme"] += len(batch.scores)
        wrong = np.zeros(len(batch.scores), bool)
        for law, (gap, allowed) in found.items():
            if allowed == 0.0:
                bad = gap > 0
            else:
                bad = gap > allowed
                kept = gap[~bad].max(initial=0.0)
                name = f"{'float64' if batch.scores.dtype == torch.float64 else 'float32'}, {law.split(' ')[0]}"
                tally.worst[name] = max(float(kept), tally.worst.get(name, 0.0))
            if bad.any() and law not in tally.failures:
                row = int(np.where(bad, gap, -1).argmax())
                one = batch._replace(**{name: getattr(batch, name)[row : row + 1] for name in Batch._fields[1:]})
                tally.failures[law] = Failure(law, float(gap[row]), one, kind)
            wrong |= bad
        if wrong.any():
            tally.wrong[kind] += int(wrong.sum())
        if number % 10 == 0 and (listed := list_tasks(tasks)):
            layout, error = try_layout(rng, listed)
            tally.lists["layouts"] += 1
            tally.methods[f"lists alone: {layout}"] += 1
            if error is not None:
                tally.wrong["layouts"] += 1
                tally.failures.setdefault(
                    error[:60], Failure(f"layout, batch {number}: {error}", np.inf, batch, "layout")
                )
        if number % 100 == 0:
            task = tasks[int(rng.integers(len(tasks)))]
            tally.lists["check_task"] += 50
            tally.methods["check_task"] += 50
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of scale
                    check_task(task, problems=50, seed=int(rng.integers(2**31)))
            except TaskError as error:
                tally.wrong["check_task"] += 1
                law = f"check_task: {error}"
                tally.failures.setdefault(law[:60], Failure(law, np.inf, batch, "check_task"))


# --- a failing list becomes a test -----------------------------------------------------------------------------------


def shrink(failure: Failure, seconds: float = 10.0) -> Failure:
    """The same law broken by a list with fewer items and rounder numbers, if there is one; the best in this time."""
    deadline = time.time() + seconds

    def breaks(batch: Batch) -> float | None:
        return broken_laws(*batch).get(failure.law)

    best, gap = failure.batch, breaks(failure.batch)
    if gap is None:
        return failure
    improved = True
    while improved:
        improved = False
        for smaller in simpler(best):
            if time.time() > deadline:
                break
            found = breaks(smaller)
            if found is not None:
                best, gap, improved = smaller, found, True
                break
    return failure._replace(batch=best, gap=gap)


def simpler(batch: Batch) -> Iterator[Batch]:
    """Lists a little simpler than this one."""
    task, scores, target, epsilon = batch
    n = scores.shape[1]
    for size in (n // 2, n // 4, 1):
        for start in range(0, n, size) if 0 < size < n else ():
            rest = torch.cat([torch.arange(start), torch.arange(min(start + size, n), n)])
            yield Batch(task, scores[:, rest], target[:, rest], epsilon)
    for digits in (1, 2, 3, 6):
        strength = torch.tensor([float(f"{epsilon.item():.{digits - 1}e}")], dtype=torch.float64)
        if len(repr(strength.item())) < len(repr(epsilon.item())):
            yield Batch(task, scores, target, strength)
        for k in range(n):
            number = scores[0, k].item()
            for rounder in (0.0, float(f"{number:.{digits - 1}e}")):
                other = scores.clone()
                other[0, k] = rounder
                if len(repr(other[0, k].item())) < len(repr(number)):
                    yield Batch(task, other, target, epsilon)


def as_test(failure: Failure) -> str:
    """A test function that fails as the list did."""
    if failure.law.startswith(("check_task", "layout")):
        return failure.law
    task, scores, target, epsilon = failure.batch
    dtype = str(scores.dtype)
    return f'''import torch

from tests.fuzz import broken_laws
from directloss import {type(task).__name__}


def test_fuzzed_list_keeps_every_law():
    """{failure.law}: off by {failure.gap:.3g} ({failure.kind})."""
    scores = torch.tensor({scores[0].tolist()}, dtype={dtype})
    target = torch.tensor({target[0].int().tolist()})
    assert broken_laws({task!r}, scores, target, {epsilon.item()!r}) == {{}}
'''


def fuzzed_tasks() -> list[Task]:
    """Every task, average precision most often, and options that matter in short lists."""
    short = [AveragePrecisionAtK(1), AveragePrecisionAtK(3), BinaryDCG(2), BinaryDCG(5), HitAtK(1), HitAtK(3)]
    rates = [PartialAUC(0.3), PartialAUC(0.8), RecallAtFPR(0.0), RecallAtFPR(0.4), ROCAUC()]
    return [*[AVERAGE_PRECISION] * 24, *[ZeroOne()] * 4, *short, *rates, *(task() for task in TASKS.values())]


# --- command line ----------------------------------------------------------------------------------------------------


def work(seed: int, first: int, step: int, seconds: float, stop: Any, results: Any) -> None:
    """Fuzz in a process of its own; put a tally every second or so, and None at the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells when to stop
    torch.set_num_threads(1)
    tasks = fuzzed_tasks()
    number, known = first, set[str]()
    deadline = time.time() + seconds  # from here on, as importing torch takes a while
    while not stop.is_set() and time.time() < deadline:
        tally, until = Tally(), time.time() + 1
        while time.time() < min(until, deadline) and not stop.is_set():
            fuzz(iter([number]), seed, tasks, tally)
            number += step
        tally.write_tests(known)
        results.put(tally)
    results.put(None)


def report(tally: Tally, command: str, seed: int, seconds: float) -> str:
    """What was tried and what was found."""
    lines = [f"command: {command} (seed {seed}, {seconds:.0f} s)", f"lists: {tally.total:,}"]
    lines += [f"  {count:>12,}  {kind}" for kind, count in sorted(tally.lists.items())]
    lines += ["checked against:"] + [f"  {count:>12,}  {name}" for name, count in sorted(tally.methods.items())]
    lines += ["largest differences that were within tolerance:"]
    lines += [f"  {gap:>12.1e}  {name}" for name, gap in sorted(tally.worst.items())]
    lines += [f"wrong: {sum(tally.wrong.values()):,} of {tally.total:,} lists"]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 1 if a list was wrong."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Check the oracles on random and structured lists.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (1)")
    parser.add_argument("--seed", type=int, help="draw the same lists again; else a random one, which is printed")
    parser.add_argument("--processes", type=int, default=PROCESSES, help=f"how many ({PROCESSES})")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    command = f"./dev fuzz --minutes {options.minutes:g} --seed {seed}"
    command += f" --processes {options.processes}" if options.processes != PROCESSES else ""
    print(f"fuzz: {command}", file=sys.stderr, flush=True)

    fuzz(iter(range(1, 41)), 0, fuzzed_tasks(), Tally())  # compiles, before the clock starts
    context = multiprocessing.get_context("spawn")
    stop, results = context.Event(), context.Queue()
    start = time.time()
    shared = (options.processes, 60 * options.minutes, stop, results)
    workers = [context.Process(target=work, args=(seed, k, *shared), daemon=True) for k in range(options.processes)]
    for worker in workers:
        worker.start()
    tally, running, printed = Tally(), len(workers), start
    while running:
        try:
            found = results.get(timeout=1)
            if found is None:
                running -= 1
            else:
                tally.add(found)
        except queue.Empty:
            running = sum(worker.is_alive() for worker in workers) if results.empty() else running
        except KeyboardInterrupt:
            stop.set()
        if time.time() > printed + 10:
            printed = time.time()
            print(f"fuzz: {tally.total:,} lists, {sum(tally.wrong.values())} wrong, {printed - start:.0f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
    for worker in workers:
        worker.join()
    crashed = any(worker.exitcode for worker in workers)
    print(report(tally, command, seed, time.time() - start))
    for test in tally.tests.values():
        print(f"\n{test}")
    if crashed:
        print("fuzz: a process crashed; see above", file=sys.stderr)
    return 1 if tally.wrong or crashed or not tally.total else 0


if __name__ == "__main__":
    sys.exit(main())
