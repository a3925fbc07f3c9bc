"""What the kernels of average precision must get right in lists that random numbers seldom give."""

from itertools import permutations, product

import numpy as np
import pytest
import torch
from members import average_precision_loss

from benchmarks.dynamic_programme import average_precision_objective, average_precision_reference
from directloss import AveragePrecision, NegativeDirect, PositiveDirect
from directloss.kernels import average_precision as kernels
from tests.fuzz import ANSWERS, KINDS, draw, fuzzed_tasks, laws, staircases

TASK = AveragePrecision()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_list_keeps_every_law(kind):
    """All batches of a fuzzing run with a fixed seed: exact values, brackets, gradients, order of the input, masks."""
    tasks = [task for task in fuzzed_tasks() if isinstance(task, tuple(ANSWERS))]
    for number in range(16):
        rng = np.random.default_rng((0, number))
        _, batch = draw(rng, tasks, [kind])
        for law, (gap, allowed) in laws(batch, rng).items():
            assert gap.max() <= allowed, f"{law}, batch {number}"


@pytest.mark.parametrize("weight", [0.0, 0.4, -0.4])
@pytest.mark.parametrize("target", [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 0]])
def test_items_of_one_class_and_score_get_one_feature(target, weight):
    """In every order of the input, the same feature: for lists in which an augmented ranking parts equal items."""
    target = torch.tensor(target)
    orders = torch.tensor(list(permutations(range(5))))
    for scores in ([0.0, 0.0, 0.0, 0.1, 0.1], [0.3, 0.3, 0.0, 0.0, 0.0], [0.0, 0.1, 0.1, 0.1, 0.1]):
        scores = torch.tensor(scores)
        features = TASK.infer_augmented(scores[orders], target[orders], weight).features
        first = TASK.infer_augmented(scores, target, weight).features
        assert (features == first[orders]).all()
        for one, other in product(range(5), repeat=2):
            if target[one] == target[other] and scores[one] == scores[other]:
                assert first[one] == first[other]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weight", [0.0, 1.0, -1.0])
def test_the_sign_of_a_zero_changes_nothing(dtype, weight):
    target = torch.tensor([1, 0, 1, 0])
    signs = torch.tensor(list(product([0.0, -0.0], repeat=4)), dtype=dtype)
    output = TASK.infer_augmented(signs, target.expand(16, 4), weight)
    assert (output.features == output.features[0]).all()
    assert (output.loss == output.loss[0]).all()


def narrowed(a, b, epsilon, detail, rounds=1):
    """How much worse the best ranking of the narrowed band is than the best of all."""
    low, high = np.zeros(a.size, np.int32), np.array([(b > value).sum() for value in a], np.int32)
    sums, kappa = np.concatenate(([0.0], np.cumsum(b))), epsilon * b.size / 2
    above = np.empty(a.size, np.int32)
    for _ in range(rounds):
        kernels._narrow(a, b, sums, kappa, low, high, detail)
    kernels._solve_band(a, b, kappa, low, high, np.empty(b.size + 1), above)
    best = average_precision_objective(a, b, average_precision_reference(a, b, -epsilon), -epsilon)
    return best - average_precision_objective(a, b, above.astype(np.int64), -epsilon)


STEEP_THEN_FLAT = [  # the best end lies in a segment with a larger bump than the next one has
    ([-0.2], [20.0, 10.0, 8.0, 4.0, 0.03, 0.02], 3.0),
    (
        [-0.0058, -0.015, -0.015, -0.018, -0.02, -0.034, -0.034, -0.034, -0.038],
        [4.1, 1.4, 0.0031, 0.0011, 0.00056],
        0.3,
    ),
    ([-2.35] * 12, [60.5, 48.4, 24.2, 12.1, 0.00272, 0.00136], 19.8),
]


@pytest.mark.parametrize(("a", "b", "epsilon"), STEEP_THEN_FLAT)
def test_narrowing_counts_the_larger_bump_beside_an_edge(a, b, epsilon):
    assert narrowed(np.array(a), np.array(b), epsilon, detail=3) <= 1e-12


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_narrowing_leaves_room_for_rounding(offset):
    """Among arithmetic sequences many bounds equal what they are compared with."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        P, M = rng.integers(5, 40), rng.integers(5, 60)
        a, b = np.full(P, -1.0) + offset, np.arange(M)[::-1] + offset
        epsilon = 10.0 ** rng.uniform(-1, 3)
        gap = narrowed(a, b, epsilon, int(rng.integers(0, 9)), int(rng.integers(1, 4)))
        assert gap <= 1e-10 * (1 + offset + M + epsilon)


def test_recentring_cuts_at_wide_gaps_only():
    a, b = np.array([1e20, 3.0, 1.0, -1e17]), np.array([2e20, 2.0, 0.0, -1e17 - 16])
    near_a, near_b, low = np.empty(4), np.empty(4), np.full(4, -7, np.int32)
    kernels._recentre(a, b, 10.0, near_a, near_b, low)
    assert low.tolist() == [1, 1, 1, 3]  # a row stays behind the negatives of the parts before it
    assert near_a.tolist() == [0.0, 1.5, -0.5, 0.0]
    assert near_b.tolist() == [0.0, 0.5, -1.5, 0.0]
    kernels._recentre(a, b, 1e30, near_a, near_b, low)
    assert low.tolist() == [0, 0, 0, 0]
    assert (near_a == a - 0.5 * (b[0] + b[-1])).all()


def exact(scores, target, epsilon):
    a, b = (-np.sort(-np.asarray(scores)[np.asarray(target) == label]) for label in (1, 0))
    up, down = staircases((a[:, None] - b)[None], np.array([epsilon]))
    return up[0], down[0]


@pytest.mark.parametrize("depth", [1e3, 1e12, 1e16, 1e20, 1e30])
@pytest.mark.parametrize("place", ["positive", "negative"])
@pytest.mark.parametrize("side", [-1, 1])
def test_one_far_item_leaves_the_values_of_the_others(depth, place, side):
    """A far item must not drown the sums by which the other ones are placed, in either oracle."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(3, 30))
        scores, target = rng.normal(size=n), rng.integers(0, 2, n)
        target[:2] = 0, 1
        scores, target = np.append(scores, side * depth), np.append(target, int(place == "positive"))
        epsilon = 10.0 ** rng.uniform(-1, 2)
        up, down = exact(scores, target, epsilon)
        s, t = torch.from_numpy(scores), torch.from_numpy(target)
        assert average_precision_loss(s, t, update=PositiveDirect(epsilon)).item() == pytest.approx(up, abs=1e-12)
        assert average_precision_loss(s, t, update=NegativeDirect(epsilon)).item() == pytest.approx(down, abs=1e-12)


@pytest.mark.parametrize("far", [1e3, 1e12, 1e16, 1e20])
def test_negatives_far_above_a_positive_are_placed_among_the_others_all_the_same(far):
    """Rows at 6 and rows near −far are open together, so the negative at 0 passes the far ones before it is placed."""
    spacing = max(2.0, np.spacing(far))
    scale = spacing / 2
    scores = torch.tensor([6 * scale] * 4 + [spacing - far] * 5 + [0.0, -far], dtype=torch.float64)
    target = torch.tensor([1] * 9 + [0] * 2)
    up, _ = exact(scores.numpy(), target.numpy(), 20 * scale)
    value = average_precision_loss(scores, target, update=PositiveDirect(20 * scale)).item()
    assert value == pytest.approx(up, abs=1e-12)
