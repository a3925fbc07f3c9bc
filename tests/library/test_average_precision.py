"""The oracles of average precision are exact: against enumeration, the paper's programme and scikit-learn."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from members import augment_down, augment_up, average_precision_loss, epsilons, lists
from sklearn.metrics import average_precision_score

from benchmarks.dynamic_programme import (
    average_precision_objective,
    average_precision_reference,
)
from directloss import AveragePrecision, NegativeDirect, Perceptron, PositiveDirect, metric
from directloss.update import UpdateSpec
from tests.fuzz import ANSWERS, KINDS, draw, fuzzed_tasks, laws, staircases

TASK = AveragePrecision()


@given(lists(longest=6), epsilons(), st.sampled_from([1, -1]))
@settings(max_examples=300)
def test_augmented_output_attains_enumerated_maximum(problem, epsilon, sign):
    scores, target = problem
    weight = sign * epsilon
    every = TASK.outputs(scores, target)
    best = ((every.features * scores).sum(-1) + weight * every.loss).max()
    output = TASK.infer_augmented(scores, target, weight)
    value = (output.features * scores).sum() + weight * output.loss
    assert abs(value - best) <= 1e-10 * (1 + scores.abs().max() + epsilon)


@given(lists(longest=6), epsilons(), st.sampled_from([1, -1]))
@settings(max_examples=200)
def test_reference_attains_enumerated_maximum(problem, epsilon, sign):
    scores, target = problem
    if target.all() or not target.any():
        return
    weight = sign * epsilon
    every = TASK.outputs(scores, target)
    best = ((every.features * scores).sum(-1) + weight * every.loss).max().item()
    a, b = descending(scores[target]), descending(scores[~target])
    value = average_precision_objective(a, b, average_precision_reference(a, b, weight), weight)
    assert value == pytest.approx(best, abs=1e-10 * (1 + scores.abs().max().item() + epsilon))


def descending(scores):
    return np.sort(np.asarray(scores, np.float64))[::-1].copy()


DISTRIBUTIONS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_cauchy(n),
    "tied": lambda rng, n: rng.integers(-3, 4, n).astype(float),
    "wide": lambda rng, n: 1e6 * rng.normal(size=n),
    "lognormal": lambda rng, n: np.exp(2 * rng.normal(size=n)),
    "constant": lambda rng, n: np.zeros(n),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("P", "M"), [(1, 700), (700, 1), (60, 400), (400, 60), (300, 300)])
def test_fast_oracle_attains_the_value_of_the_reference(P, M, sign):
    rng = np.random.default_rng(P)
    for positives in DISTRIBUTIONS.values():
        for negatives in DISTRIBUTIONS.values():
            for exponent in range(-3, 4):
                a = descending(positives(rng, P) - rng.integers(0, 4))
                b = descending(negatives(rng, M))
                epsilon = 10.0**exponent
                check_against_reference(a, b, sign * epsilon)


def check_against_reference(a, b, weight):
    above = np.empty(a.size, np.int32)
    if weight > 0:
        augment_up(a, b, weight * b.size / 2, above)
    else:
        augment_down(a, b, -weight * b.size / 2, above)
    assert (np.diff(above) >= 0).all()
    assert above.min() >= 0
    assert above.max() <= b.size
    best = average_precision_objective(a, b, average_precision_reference(a, b, weight), weight)
    value = average_precision_objective(a, b, above.astype(np.int64), weight)
    assert value == pytest.approx(best, abs=1e-10 * (np.abs(a).max() + np.abs(b).max() + abs(weight)))


HARD = {  # rows alone want other places than rows together: clamping alone leaves a band of about P·M cells
    "constant, lognormal": (0.5, lambda rng, n: np.zeros(n), lambda rng, n: np.exp(2 * rng.normal(size=n)), 10),
    "below, heavy": (0.2, lambda rng, n: np.full(n, -3.0), lambda rng, n: rng.standard_cauchy(n), 10),
    "below, two clusters": (
        0.5,
        lambda rng, n: rng.random(n) - 3,
        lambda rng, n: rng.normal(size=n) + 100 * (rng.random(n) < 0.5),
        100,
    ),
}


@pytest.mark.parametrize("case", HARD)
def test_negative_oracle_leaves_few_cells_to_the_dynamic_programme(case):
    share, positives, negatives, epsilon = HARD[case]
    rng = np.random.default_rng(0)
    P = int(20_000 * share)
    a, b = descending(positives(rng, P)), descending(negatives(rng, 20_000 - P))
    above = np.empty(P, np.int32)
    cells = augment_down(a, b, epsilon * b.size / 2, above)
    assert cells <= 32 * 20_000
    best = average_precision_objective(a, b, average_precision_reference(a, b, -epsilon), -epsilon)
    value = average_precision_objective(a, b, above.astype(np.int64), -epsilon)
    assert value == pytest.approx(best, abs=1e-10 * (np.abs(a).max() + np.abs(b).max() + epsilon))


@pytest.mark.parametrize("sign", [1, -1])
def test_long_list_attains_the_value_of_the_reference(sign):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=20_000)
    target = rng.random(20_000) < 0.2
    for epsilon in (1e-2, 1.0, 1e2):
        check_against_reference(descending(scores[target]), descending(scores[~target]), sign * epsilon)


@given(lists(longest=30))
@settings(max_examples=300)
def test_loss_of_prediction_is_that_of_scikit_learn(problem):
    scores, target = problem
    if target.all() or not target.any():
        return
    assert TASK.infer(scores, target).loss.item() == pytest.approx(
        1 - average_precision_score(target.numpy(), scores.numpy()), abs=1e-12
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_type_decides_like_float64(dtype):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((50, 30), generator=generator).to(dtype)
    target = torch.rand((50, 30), generator=generator) < 0.3
    for weight in (0.5, -0.5):
        half, double = (TASK.infer_augmented(s, target, weight) for s in (scores, scores.double()))
        torch.testing.assert_close(half.features, double.features.float())
        torch.testing.assert_close(half.loss, double.loss.float())


def test_float64_scores_that_float32_cannot_tell_apart_are_ranked_exactly():
    generator = torch.Generator().manual_seed(0)
    scores = 1 + 1e-12 * torch.randperm(200, generator=generator).double()
    target = torch.rand(200, generator=generator) < 0.4
    ranks = scores.argsort().argsort().double()
    assert len(scores.float().unique()) == 1
    torch.testing.assert_close(TASK.infer(scores, target), TASK.infer(ranks, target))
    torch.testing.assert_close(
        TASK.infer_augmented(scores * 1e12, target, 30.0).loss, TASK.infer_augmented(ranks, target, 30.0).loss
    )


def test_large_float64_scores_are_ranked_beyond_the_range_of_float32():
    scores = torch.tensor([1e200, -1e200, 3e200, 2e200, 0.0], dtype=torch.float64)
    target = torch.tensor([1, 0, 1, 0, 1])
    assert TASK.infer(scores, target).loss.item() == pytest.approx(
        1 - average_precision_score(target.numpy(), scores.numpy())
    )


def test_signed_zeros_tie():
    output = TASK.infer(torch.tensor([0.0, -0.0]), torch.tensor([1, 0]))
    assert output.features.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("scores", "target", "loss"),
    [
        ([3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0], 0.0),  # perfect
        ([0.0, 1.0, 2.0, 3.0], [1, 1, 0, 0], 1 - (1 / 3 + 2 / 4) / 2),  # reversed
        ([0.0, 1.0, 2.0, 3.0], [0, 0, 1, 0], 1 - 1 / 2),  # one positive
        ([0.0, 0.0, 0.0, 0.0], [1, 1, 0, 0], 1 - 2 / 4),  # all tied
        ([0.0, 1.0, 2.0, 3.0], [1, 1, 1, 1], 0.0),  # all positive
    ],
)
def test_known_answers(scores, target, loss):
    scores, target = torch.tensor(scores), torch.tensor(target)
    assert TASK.infer(scores, target).loss.item() == pytest.approx(loss)
    assert TASK.truth(scores, target).loss.item() == 0


@given(lists(longest=8), epsilons(), st.integers(-1000, 1000), st.sampled_from([PositiveDirect, NegativeDirect]))
def test_shifting_all_scores_changes_nothing(problem, epsilon, shift, update):
    scores, target = problem
    scores = scores.clamp(-1e3, 1e3).round(decimals=2)
    value, shifted = (average_precision_loss(s, target, update=update(epsilon)) for s in (scores, scores + shift))
    torch.testing.assert_close(value, shifted, rtol=0, atol=1e-9 / epsilon)


@pytest.mark.parametrize("update", [PositiveDirect(0.1), NegativeDirect(0.1)])
def test_one_huge_negative_drowns_nothing(update):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(400, generator=generator, dtype=torch.float64)
    target = torch.rand(400, generator=generator) < 0.3
    worst = int((~target).nonzero()[0])

    def gradient(size):
        changed = scores.clone()
        changed[worst] = size
        changed.requires_grad_()
        return torch.autograd.grad(average_precision_loss(changed, target, update=update), changed)

    for size in (1e12, 1e18, 1e30):
        torch.testing.assert_close(gradient(size), gradient(1e6))


@pytest.mark.parametrize("height", [1e6, 1e12, 1e15, 1e16, 1e18, 1e20, 1e30, 1e150])
def test_scores_far_apart_do_not_change_the_negative_argmax(height):
    for scores, target, epsilon, value in (
        ([height, 0, 0, 1e-3], [1, 1, 1, 0], 1e-2, 2 / 15),
        ([-height, -3, -4 * height, 0, -3 * height], [0, 1, 1, 0, 0], 2.7, 0.55),
    ):
        scores, target = torch.tensor(scores, dtype=torch.float64), torch.tensor(target)
        found = average_precision_loss(scores, target, update=NegativeDirect(epsilon)).item()
        assert found == pytest.approx(value)


@pytest.mark.parametrize("update", [PositiveDirect(1.0), NegativeDirect(1.0)], ids=str)
def test_a_common_offset_changes_nothing(update):
    generator = torch.Generator().manual_seed(0)
    scores = 100 * torch.randn(20_000, generator=generator, dtype=torch.float64)
    target = torch.rand(20_000, generator=generator) < 0.2
    want = average_precision_loss(scores, target, update=update).item()
    for offset in (1e6, 1e9, 1e12):
        got = average_precision_loss(scores + offset, target, update=update).item()
        assert got == pytest.approx(want, abs=1e-8)


@given(st.integers(0, 2**32), st.floats(-30, 30), st.floats(-30, 30))
@settings(max_examples=300)
def test_values_are_exact_at_any_magnitude(seed, spread, strength):
    """Against enumeration in exact arithmetic; scores and ε each from 1e-30 to 1e30, and of mixed sizes."""
    rng = np.random.default_rng(seed)
    items = rng.integers(2, 7)
    scores = rng.normal(size=items) * 10.0 ** (spread + rng.choice([0, 0, 3, 16], items))
    target = torch.from_numpy(rng.random(items) < 0.5)
    if target.all() or not target.any() or len(np.unique(scores)) < items:
        return
    epsilon = 10.0**strength
    exact = [Fraction(score) for score in scores]
    every = TASK.outputs(torch.from_numpy(scores), target)
    pairs = int(target.sum() * (~target).sum())
    worths = []
    for features, loss in zip(every.features.tolist(), every.loss.tolist(), strict=True):
        score = sum(round(feature * pairs) * value for feature, value in zip(features, exact, strict=True)) / pairs
        worths.append((score, Fraction(loss)))
    best = max(score for score, _ in worths)
    true = min(float(loss) for score, loss in worths if score == best)
    for sign, update in ((1, PositiveDirect), (-1, NegativeDirect)):
        augmented = max(score + sign * Fraction(epsilon) * loss for score, loss in worths)
        want = float(sign * (augmented - best) / Fraction(epsilon))
        value = average_precision_loss(torch.from_numpy(scores), target, update=update(epsilon)).item()
        assert value == pytest.approx(want, abs=1e-12)
        assert sign * (value - true) >= -1e-12


def test_small_value_of_the_perceptron_survives_large_scores():
    """Found by fuzz: the value is far smaller than the scores, and right to its last digits."""
    scores = torch.tensor([-9.01855, -9.01854998993133, 700.0, 700.0, 700.0], dtype=torch.float64)
    target = torch.tensor([1, 0, 1, 1, 1])
    value = average_precision_loss(scores, target, update=Perceptron()).item()
    assert value == pytest.approx((scores[1] - scores[0]).item() * 2 / 4, rel=1e-12)


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


@pytest.mark.parametrize(("near", "gap"), [(0.0, 1e-7), (-9e8, 2.0**-23)])
@pytest.mark.parametrize("weight", [2e-6, -2e-6])
def test_scores_far_away_do_not_drown_the_rest(near, gap, weight):
    """The value by enumeration, with scores as fractions."""
    scores = torch.tensor([9e8, 8e8, 7e8, near, near + gap], dtype=torch.float64)
    target = torch.tensor([1, 1, 1, 1, 0])
    features, losses, _ = TASK.outputs(scores, target)
    exact = [Fraction(score) for score in scores.tolist()]
    gained = [sum(round(4 * f) * s for f, s in zip(row, exact, strict=True)) for row in features.tolist()]  # P·M = 4
    best = max(gained)
    values = [float(gain - best) / 4 + weight * loss for gain, loss in zip(gained, losses.tolist(), strict=True)]
    found = TASK.contrast(scores, target, UpdateSpec(weight, 0.0, 1e6))
    assert found.value.item() == pytest.approx(1e6 * max(values), abs=1e-9)


@pytest.mark.parametrize("items", [200, 5_000])
def test_scores_that_differ_by_the_last_bit_of_float64_alone_are_ranked_and_augmented_exactly(items):
    """Short and long lists, both updates: gaps of 2^−52 beside scores of 1, an ε of a few gaps, against their ranks."""
    generator = torch.Generator().manual_seed(0)
    gaps = torch.randperm(items, generator=generator).double()
    target = torch.rand(items, generator=generator) < 0.3
    for update in (PositiveDirect, NegativeDirect):
        values = [
            average_precision_loss(scores, target, update=update(unit * items))
            for scores, unit in ((gaps, 1.0), (1 + 2.0**-52 * gaps, 2.0**-52))
        ]
        assert values[0] == pytest.approx(values[1].item(), abs=1e-12)


def test_graded_average_precision_is_a_weighted_mean_of_those_of_the_grades():
    """As docs/faq.md says; the right side is Robertson, Kanoulas and Yilmaz (2010)."""
    scores, grades, worth = torch.randn(40), torch.randint(4, (40,)), torch.tensor([1.0, 0.5, 2.0])
    levels = grades >= torch.arange(1, 4)[:, None]
    ours = metric(AveragePrecision(), scores.expand(3, -1), levels, weight=worth * levels.sum(1))
    ranked = grades[scores.argsort(descending=True)]
    both = torch.minimum(ranked[:, None], ranked[None])  # of two items, what they have in common
    common = torch.cat([torch.zeros(1), worth.cumsum(0)])[both].tril().sum(1)
    ideal = torch.cat([torch.zeros(1), worth.cumsum(0)])[ranked].sum()
    torch.testing.assert_close(ours, (common / torch.arange(1, 41)).sum() / ideal)
