"""The ranking family: every algorithm against all rankings, every metric against its textbook definition."""

import math
import re
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
import torch
from sklearn.metrics import ndcg_score, roc_auc_score

from directloss import CentralDirect, Hinge, NegativeDirect, PositiveDirect, StructuredLoss
from directloss.families import TRUTH, UpdateSpec
from directloss.families.ranking import ByNegatives, ByRank, RankingTask
from directloss.kernels import ranking as kernels
from directloss.tasks import AveragePrecision, BalancedError, ZeroOne
from directloss.tasks.ranking import (
    ROCAUC,
    AveragePrecisionAtK,
    BinaryDCG,
    HitAtK,
    LastRank,
    PartialAUC,
    PrecisionAtRecall,
    RankBiasedPrecision,
    RecallAtFPR,
    ReciprocalRank,
)
from directloss.testing import check_task
from tests.fuzz import broken_laws

ALGORITHMS = ["WALK", "ROWS", "COLUMNS", "ONE_ROW", "CUT", "BAND", "TABLE"]


@dataclass(frozen=True, eq=False)
class Vectors(RankingTask):
    """A metric of any two vectors, for lists of one size."""

    kind: type
    weights: np.ndarray
    discounts: np.ndarray

    def gain(self, positives, negatives):
        return self.kind(self.weights, self.discounts)


def random_metric(rng, P, M):
    """Vectors of all shapes: convex, concave, straight, cut, in steps; weights equal, sorted, of one positive only."""
    kind = (ByRank, ByNegatives)[rng.integers(2)]
    length = P + M if kind is ByRank else M + 1
    drops = rng.exponential(size=length - 1)
    match rng.integers(7):
        case 0:
            drops = -np.sort(-drops)
        case 1:
            drops = np.sort(drops)
        case 2:
            drops = np.ones(length - 1)
        case 3:
            drops *= rng.random(length - 1) < 0.3
        case 4:
            drops[rng.integers(length) :] = 0
        case 5:
            drops = np.where(np.arange(length - 1) == rng.integers(max(length - 1, 1)), 1.0, 0.0)
    weights = rng.exponential(size=P)
    match rng.integers(6):
        case 0:
            weights = np.sort(weights)
        case 1:
            weights = -np.sort(-weights)
        case 2:
            weights = np.ones(P)
        case 3:
            weights *= np.arange(P) == rng.integers(P)
        case 4:
            weights = np.floor(weights)
    tail = rng.exponential() * rng.integers(2)
    discounts = tail + np.append(np.cumsum(drops[::-1])[::-1], 0.0)
    metric = Vectors(kind, weights, discounts)
    best = weights @ (discounts[:P] if kind is ByRank else np.full(P, discounts[0]))
    return metric if best > 0 else random_metric(rng, P, M)


def random_scores(rng, size):
    scores = rng.normal(size=size)
    match rng.integers(5):
        case 0:
            return np.round(scores)
        case 1:
            return scores / rng.random(size)
        case 2:
            return scores * 10.0 ** rng.integers(-6, 7)
        case 3:
            return np.where(rng.random(size) < 0.2, scores * 1e9, scores)
    return scores


def all_rankings(task, P, M):
    """Features (positives first, sorted by score) and loss of every staircase, by the definition."""
    above = np.array(list(combinations_with_replacement(range(M + 1), P)))
    gain = task.gain(P, M)
    places = above + np.arange(P) * isinstance(gain, ByRank)
    gains = (np.asarray(gain.weights) * np.asarray(gain.discounts)[places]).sum(1)
    first = np.arange(P) * isinstance(gain, ByRank)
    loss = 1 - gains / (np.asarray(gain.weights) * np.asarray(gain.discounts)[first]).sum()
    of_negatives = P - 2 * (above[:, :, None] <= np.arange(M)).sum(1)
    features = np.concatenate((M - 2 * above, of_negatives), 1) * task.scale(P, M) / (P * M)
    return features, loss


def check_exact(task, a, b, weight):
    scores = np.concatenate((-np.sort(-a), -np.sort(-b)))
    target = torch.arange(scores.size) < a.size
    features, loss = all_rankings(task, a.size, b.size)
    got = task.infer_augmented(torch.tensor(scores), target, weight)
    value = got.features.numpy() @ scores + weight * got.loss.item()
    best = (features @ scores + weight * loss).max()
    slack = 1e-11 * (np.abs(scores).max() * task.scale(a.size, b.size) + abs(weight))
    assert abs(value - best) <= slack, (value, best, task, scores, weight)


def try_random_metrics(problems, seed):
    rng = np.random.default_rng(seed)
    seen = set()
    for _ in range(problems):
        P, M = rng.integers(1, 7, size=2)
        task = random_metric(rng, P, M)
        weight = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-3, 3))
        seen.add(task.plan(int(P), int(M)).algorithms[weight < 0])
        check_exact(task, random_scores(rng, P), random_scores(rng, M), weight)
    return seen


def test_random_metrics_are_exact():
    assert len(try_random_metrics(1_500, seed=0)) == 6  # every one but the band, which is for larger lists


def test_the_algorithm_does_not_depend_on_the_unit_of_the_discounts():
    rng = np.random.default_rng(6)
    for _ in range(100):
        P, M = rng.integers(1, 7, size=2)
        task = random_metric(rng, P, M)
        for unit in (2.0**-60, 2.0**60):
            other = Vectors(task.kind, task.weights, unit * task.discounts)
            assert other.plan(int(P), int(M)).algorithms == task.plan(int(P), int(M)).algorithms


def test_weights_in_no_order_allow_no_rows():
    discounts = np.array([9.0, 8.0, 5.0, 3.0, 2.0, 0.0])  # neither convex nor concave
    for weights in ([1.0, 3.0, 2.0], [3.0, 1.0, 2.0]):
        assert Vectors(ByNegatives, np.array(weights), discounts).plan(3, 5).algorithms == (
            kernels.TABLE,
            kernels.TABLE,
        )


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 3.0], [3.0, 1.0]])
def test_loss_of_tied_items_is_a_mean_over_their_orders(weights):
    task = Vectors(ByRank, np.array(weights), np.array([1.0, 0.7, 0.2, 0.1]))
    scores, target = torch.zeros(4, dtype=torch.float64), torch.tensor([1, 0, 1, 0])
    losses = task.outputs(scores, target).loss
    want = losses.mean() if weights[0] == weights[1] else (losses.min() + losses.max()) / 2
    torch.testing.assert_close(task.infer(scores, target).loss, want)


def solve(task, a, b, weight, algorithm):
    """The c_i that one algorithm finds."""
    found = task.plan(a.size, b.size)
    above, predicted = np.empty(a.size, np.int32), np.searchsorted(-b, -a).astype(np.int32)
    unit = weight / (2 * found.share)
    arguments = found.weights, found.discounts, found.by_rank, unit / found.best, abs(unit), algorithm, found.cut
    kernels._solve(a, b, predicted, *arguments, above)
    return above


def worth(task, a, b, above, weight):
    """F + weight·L of a ranking, outward from the prediction, in parts of PM/2."""
    sums = np.concatenate(([0.0], np.cumsum(b)))
    score = (sums[above] - above * a).sum() * 2 / (a.size * b.size) * task.scale(a.size, b.size)
    return score + weight * (1 - task._quality(above.tolist(), b.size))


@pytest.mark.parametrize("weight", [3.0, 0.3, -0.3, -3.0])
@pytest.mark.parametrize(
    "task",
    [AveragePrecision(), ROCAUC(), PartialAUC(0.2), BinaryDCG(), BinaryDCG(30), AveragePrecisionAtK(40), HitAtK(5),
     RecallAtFPR(0.1), RankBiasedPrecision(0.9), LastRank(), PrecisionAtRecall(0.4), ReciprocalRank()],
    ids=repr,
)  # fmt: skip
def test_the_chosen_algorithm_finds_what_a_table_finds_in_longer_lists(task, weight):
    rng = np.random.default_rng(7)
    for P, M in ((30, 90), (80, 60)):
        a, b = -np.sort(-rng.normal(0.7, 1, P)), -np.sort(-rng.normal(0, 1, M))
        algorithm = task.plan(P, M).algorithms[weight < 0]
        table, band, chosen = (
            worth(task, a, b, solve(task, a, b, weight, one), weight)
            for one in (kernels.TABLE, kernels.BAND, algorithm)
        )
        assert chosen == pytest.approx(table, abs=1e-10), ALGORITHMS[algorithm]
        assert band == pytest.approx(table, abs=1e-10)


def test_average_precision_of_the_family_is_that_of_its_own_kernel():
    @dataclass(frozen=True)
    class General(AveragePrecision):
        solve_keys = RankingTask.solve_keys

    rng = np.random.default_rng(5)
    for _ in range(300):
        n = int(rng.integers(2, 60))
        scores = torch.tensor(np.unique(random_scores(rng, n)))  # tied predictions have a rule of their own
        scores = scores[torch.randperm(len(scores))]
        target = torch.tensor(rng.random(len(scores)) < rng.uniform(0.1, 0.9))
        for weight in (0.0, float(10 ** rng.uniform(-2, 2)), float(-(10 ** rng.uniform(-2, 2)))):
            one, other = (task.infer_augmented(scores, target, weight) for task in (AveragePrecision(), General()))
            objectives = [(scores * found.features).sum() + weight * found.loss for found in (one, other)]
            slack = 1e-11 * (scores.abs().max() + abs(weight))
            assert abs(objectives[0] - objectives[1]) <= slack
        assert torch.equal(AveragePrecision().truth(scores, target).features, General().truth(scores, target).features)


# ---- the metrics, by their textbook definitions on labels from the top ----------------------------------------------


def discounted(y, discount, k=None):
    def total(z):
        return sum(one * discount(rank) for rank, one in enumerate(z[:k], 1))

    return total(y) / total(sorted(y, reverse=True))


def average_precision_at(y, k):
    precisions = [sum(y[: rank + 1]) / (rank + 1) for rank in range(min(k, len(y))) if y[rank]]
    return sum(precisions) / min(sum(y), k)


def partial_area(y, rate):
    P, M = sum(y), len(y) - sum(y)
    area, found, x = 0.0, 0, 0.0
    for one in y:
        if one:
            found += 1
        else:
            area += found / P * max(0.0, min(rate, x + 1 / M) - x)
            x += 1 / M
    return area / rate


def recall_at_fpr(y, rate):
    M = len(y) - sum(y)
    return max(sum(y[:n]) for n in range(len(y) + 1) if n - sum(y[:n]) <= rate * M) / sum(y)


def precision_at_recall(y, share):
    return next(sum(y[:n]) / n for n in range(1, len(y) + 1) if sum(y[:n]) >= share * sum(y) - 1e-9)


def rank_of_last(y):
    last = max(rank for rank, one in enumerate(y, 1) if one)
    return 1 - (last - sum(y)) / (len(y) - sum(y))


TEXTBOOK = [
    (AveragePrecision(), lambda y: average_precision_at(y, len(y))),
    *((AveragePrecisionAtK(k), lambda y, k=k: average_precision_at(y, k)) for k in (1, 2, 3, 10)),
    (ROCAUC(), lambda y: np.mean([one > other for one, other in combinations(y, 2) if one != other])),
    *((PartialAUC(rate), lambda y, rate=rate: partial_area(y, rate)) for rate in (0.1, 0.3, 0.77, 1.0)),
    *((RecallAtFPR(rate), lambda y, rate=rate: recall_at_fpr(y, rate)) for rate in (0, 0.3, 0.5, 1.0)),
    (ReciprocalRank(), lambda y: 1 / (1 + y.index(1))),
    *((HitAtK(k), lambda y, k=k: float(any(y[:k]))) for k in (1, 2, 4, 10)),
    *((PrecisionAtRecall(share), lambda y, share=share: precision_at_recall(y, share)) for share in (0.3, 0.5, 1.0)),
    *((BinaryDCG(k), lambda y, k=k: discounted(y, lambda rank: 1 / math.log2(1 + rank), k)) for k in (None, 1, 3, 10)),
    (RankBiasedPrecision(0.7), lambda y: discounted(y, lambda rank: 0.7 ** (rank - 1))),
    (LastRank(), rank_of_last),
]


@pytest.mark.parametrize(
    ("task", "textbook"), TEXTBOOK, ids=lambda value: repr(value) if isinstance(value, RankingTask) else ""
)
def test_the_loss_is_one_minus_the_metric_of_the_textbook(task, textbook):
    rng = np.random.default_rng(1)
    for _ in range(60):
        n = int(rng.integers(2, 9))
        scores, y = rng.permutation(n).astype(float), rng.random(n) < 0.5
        if y.all() or not y.any():
            continue
        labels = y[np.argsort(-scores)].astype(int).tolist()
        assert 1 - task.infer(torch.tensor(scores), torch.tensor(y)).loss.item() == pytest.approx(textbook(labels))


def test_roc_auc_and_binary_dcg_are_those_of_scikit_learn_ties_included():
    rng = np.random.default_rng(2)
    for k in (None, 1, 3):
        for _ in range(100):
            scores, y = rng.integers(0, 4, 12).astype(float), rng.permutation(np.arange(12) < rng.integers(1, 12))
            one, target = torch.tensor(scores), torch.tensor(y)
            assert 1 - ROCAUC().infer(one, target).loss.item() == pytest.approx(roc_auc_score(y, scores))
            expected = ndcg_score([y.astype(float)], [scores], k=k)
            assert 1 - BinaryDCG(k).infer(one, target).loss.item() == pytest.approx(expected)


def test_partial_auc_is_the_area_that_scikit_learn_standardises():
    rng = np.random.default_rng(4)
    for rate in (0.1, 0.37, 0.9):
        for _ in range(50):
            scores, y = rng.permutation(15).astype(float), rng.permutation(np.arange(15) < rng.integers(1, 15))
            area = 1 - PartialAUC(rate).infer(torch.tensor(scores), torch.tensor(y)).loss.item()
            standardised = (1 + (area - rate / 2) / (1 - rate / 2)) / 2
            assert roc_auc_score(y, scores, max_fpr=rate) == pytest.approx(standardised)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (lambda P, M: (np.ones(P), np.ones(P + M)), "must return ByRank"),
        (lambda P, M: ByRank(np.ones(P + 1), np.ones(P + M)), "must have 2 weights, one a positive; got shape"),
        (lambda P, M: ByRank(np.ones(P), np.ones(M + 1)), "must have 5 discounts, one a rank"),
        (lambda P, M: ByNegatives(np.ones(P), np.ones(P + M)), "must have 4 discounts, one for no negative"),
        (lambda P, M: ByRank(-np.ones(P), np.ones(P + M)), "weights of at least 0; got -1.0"),
        (lambda P, M: ByRank(np.ones(P), np.arange(P + M)), "never rise; got 0.0 and then 1.0 at index 1"),
        (lambda P, M: ByRank(np.ones(P), np.full(P + M, np.nan)), "finite discounts; got nan"),
        (lambda P, M: ByRank(np.zeros(P), np.ones(P + M)), "must be above 0 for the perfect ranking; got 0.0"),
        (lambda P, M: ByRank(np.full(P, 1e308), np.ones(P + M)), "must be above 0 for the perfect ranking; got inf"),
        (lambda P, M: ByRank(np.ones(P), 3.0 - np.arange(P + M)), "at least 0 for the worst ranking.*; got -1.0"),
        (lambda P, M: ByNegatives(np.ones(P), 2.0 - np.arange(M + 1)), "at least 0 for the worst ranking.*; got -2.0"),
        (lambda P, M: ByNegatives(np.ones(P), 1e-12 * (2.0 - np.arange(M + 1))), "at least 0 for the worst ranking"),
        (lambda P, M: ByRank(np.array([1.0, np.inf]), np.ones(P + M)), "finite weights; got inf"),
        (lambda P, M: ByRank(np.array([1.0, -2.0]), np.ones(P + M)), "weights of at least 0; got -2.0"),
    ],
)
def test_a_gain_that_is_invalid_is_refused_in_words(gain, words):
    class Wrong(RankingTask):
        def gain(self, positives, negatives):
            return gain(positives, negatives)

    with np.errstate(all="ignore"), pytest.raises((TypeError, ValueError), match=words):
        Wrong().infer(torch.arange(5.0), torch.tensor([1, 0, 1, 0, 0]))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), "2"])
def test_a_scale_that_is_invalid_is_refused(scale):
    class Wrong(ROCAUC):
        def scale(self, positives, negatives):
            return scale

    with pytest.raises(ValueError, match="must be a number above 0"):
        Wrong().infer(torch.arange(5.0), torch.tensor([1, 0, 1, 0, 0]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: HitAtK(0), "k must be"),
        (lambda: BinaryDCG(True), "k must be"),
        (lambda: AveragePrecisionAtK(2.5), "k must be"),  # pyright: ignore[reportArgumentType]
        (lambda: PartialAUC(0), "must be a share,"),
        (lambda: RecallAtFPR(1.5), "must be a share,"),
        (lambda: PrecisionAtRecall(float("nan")), "must be a share,"),
        (lambda: RankBiasedPrecision(0.0), "persistence"),
        (lambda: RankBiasedPrecision(1.5), "persistence"),
    ],
)
def test_a_parameter_out_of_range_is_refused_in_words(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_recall_without_any_false_positive_counts_those_above_the_first_negative():
    assert RecallAtFPR(0.0).infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([1, 0, 1])).loss == 0.5


# ---- what users see --------------------------------------------------------------------------------------------------


def test_explain_says_which_algorithm_each_sign_takes():
    assert ROCAUC().explain(100, 900).splitlines() == [
        "ROCAUC(), 100 positives, 900 negatives",
        "weight > 0: the best place of each positive, all in one pass, O(P + M): at most 1,000 steps",
        "weight < 0: the best place of each positive, all in one pass, O(P + M): at most 1,000 steps",
    ]
    for task, sizes, words in (
        (
            BinaryDCG(),
            (100, 900),
            ("each negative, by divide.*most 1,900 steps", "each positive, by divide.*most 6,400 steps"),
        ),
        (ReciprocalRank(), (100, 900), ("only positive that counts.*most 1,000 steps",) * 2),
        (AveragePrecisionAtK(50), (100, 900), ("over the first k = 50 ranks, .*most 2,325 steps",) * 2),
        (AveragePrecisionAtK(50), (2, 9), ("each negative, by divide.*most 17 steps", "k = 10 ranks, .*most 31 steps")),
        (
            Vectors(ByNegatives, np.arange(100.0), np.exp(-np.arange(901))),
            (100, 900),
            ("one pass.*most 1,000 steps", "bounds on the place.*most 90,000 steps"),
        ),
        (
            Vectors(ByNegatives, np.arange(5.0), np.exp(-np.arange(9))),
            (5, 8),
            ("one pass", "over all places.*most 40 steps"),
        ),
        (
            Vectors(ByRank, np.ones(10), (np.arange(30) < 4) * 1.0),
            (10, 20),
            ("positives in the first 4 ranks.*most 30 steps",) * 2,
        ),
    ):
        for line, word in zip(task.explain(*sizes).splitlines()[-2:], words, strict=True):
            assert re.search(word, line), line
    assert AveragePrecision().explain(10, 20).startswith("AveragePrecision(), 10 positives, 20 negatives\nweight > 0:")


def test_a_task_of_a_users_own_passes_every_check():
    class Enrichment(RankingTask):
        """The share of positives in the first fifth of the list, as drug discovery counts it."""

        def gain(self, positives, negatives):
            ranks = np.arange(positives + negatives)
            return ByRank(np.ones(positives), (ranks < max(1, len(ranks) // 5)).astype(float))

    check_task(Enrichment(), problems=60)


def test_values_stay_in_the_range_of_the_metric_where_the_score_is_scaled():
    """Found by fuzzing: a plain sum is exact enough for scores near ε in units of F, and F is 84 times larger here."""
    signs = [-1, -1, 1, 0, 1, 1, 0, 0, 1, 1, -1, 0, 0, -1, -1, 0, -1, 1, 0, 1, 1, 0, 1]
    target = torch.tensor([1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    scores = 1.385621513133715e-17 * torch.tensor(signs, dtype=torch.float64)
    assert broken_laws(AveragePrecisionAtK(1), scores, target, 4e-20) == {}


def test_items_with_nothing_to_gain_stay_where_the_prediction_has_them():
    """Behind a negative of 6e26 the recall counts nothing, and 1e7 and ε = 1e10 drown what parts 0 and −1e-24."""
    scores = torch.tensor([0.0, 11272192.0, -1.0e-24, 6.3e26], dtype=torch.float64)
    assert broken_laws(RecallAtFPR(0.0), scores, torch.tensor([0, 1, 1, 0]), 1e10) == {}
    features = RecallAtFPR(0.0).infer_augmented(scores, torch.tensor([0, 1, 1, 0]), 1e10).features
    assert features[0] == 0.0  # below the one positive, above the other


# ---- what every ranking task does ------------------------------------------------------------------------------------


TASKS = [AveragePrecision(), ROCAUC(), AveragePrecisionAtK(2)]
SCORES = torch.tensor([0.5, 2.0, -1.0, 0.3])
TARGET = torch.tensor([True, False, True, False])
each = pytest.mark.parametrize("task", TASKS, ids=repr)


@each
@pytest.mark.parametrize("weight", [-0.7, 0.0, 0.7, TRUTH])
def test_the_oracle_is_the_output(task, weight):
    scores, target = SCORES.expand(3, 4).cumsum(0), TARGET.expand(3, 4)
    given = weight if weight is TRUTH else weight * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    found = task.oracle(
        scores, target, given if given is TRUTH else given.unsqueeze(-1), torch.ones(3, 4, dtype=torch.bool)
    )
    want = task.output(scores, target, given)
    torch.testing.assert_close(found.features, want.features)
    torch.testing.assert_close(found.loss, want.loss)


@each
def test_a_list_counts_that_has_a_valid_item_of_both_classes(task):
    target = torch.tensor([[1, 1], [0, 0], [1, 0], [1, 0], [1, 0]]).bool()
    mask = torch.tensor([[1, 1], [1, 1], [1, 1], [1, 0], [0, 1]]).bool()
    assert task.is_scored(target, mask).tolist() == [False, False, True, False, False]
    assert task.output(torch.zeros(5, 2), target, 0.0, mask).counted.tolist() == [False, False, True, False, False]


@each
def test_an_item_that_is_masked_out_of_one_short_list_is_as_if_it_were_not_there(task):
    spec = PositiveDirect(1.0).spec
    mask = torch.tensor([True, True, True, False])
    found, want = task.contrast(SCORES, TARGET, spec, mask), task.contrast(SCORES[:3], TARGET[:3], spec)
    torch.testing.assert_close(found.value, want.value)
    torch.testing.assert_close(found.gradient[:3], want.gradient)


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_weights_below_zero_contrast_two_outputs(task, dtype):
    scores = SCORES.to(dtype)
    away, toward = (task.output(scores, TARGET, weight) for weight in (-0.5, -2.0))
    found = task.contrast(scores, TARGET, UpdateSpec(-0.5, -2.0, 3.0))
    torch.testing.assert_close(found.gradient, 3.0 * (away.features - toward.features).to(dtype))


@each
def test_a_weight_and_a_scale_that_are_not_finite_are_told_apart(task):
    nan = torch.tensor(float("nan"))
    with pytest.raises(ValueError, match="the scale of the update"):
        task.contrast(SCORES, TARGET, UpdateSpec(1.0, 0.0, nan))
    with pytest.raises(ValueError, match=r"^weight"):
        task.contrast(SCORES, TARGET, UpdateSpec(nan, 0.0, 1.0))


@each
def test_the_prediction_and_the_truth_are_among_all_outputs(task):
    scores = SCORES.double()
    listed = task.outputs(scores, TARGET)
    torch.testing.assert_close(listed.features.sum(-1), torch.zeros(24, dtype=torch.float64))
    for weight in (0.0, TRUTH):
        output = task.output(scores, TARGET, weight)
        (places,) = (listed.features - output.features).abs().amax(-1).lt(1e-12).nonzero(as_tuple=True)
        assert len(places) > 0
        torch.testing.assert_close(listed.loss[places[0]], output.loss)
    for labels in (TARGET | True, TARGET & False):
        assert not torch.cat([part.reshape(-1) for part in task.outputs(scores, labels)[:2]]).any()


@pytest.mark.parametrize("task", [*TASKS, ZeroOne(), BalancedError()], ids=repr)
@pytest.mark.parametrize("weight", [-1.5, -0.4, 0.4, 1.5])
def test_no_output_is_better_than_the_oracle(task, weight):
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        scores = torch.randn(5, generator=generator, dtype=torch.float64)
        target = torch.rand(5, generator=generator).argsort() < 2
        listed, found = task.outputs(scores, target), task.output(scores, target, torch.tensor(weight).double())
        best = (listed.features @ scores + weight * listed.loss).max()
        torch.testing.assert_close(found.features @ scores + weight * found.loss, best)


@each
@pytest.mark.parametrize(
    "update", [PositiveDirect(0.7), PositiveDirect(5.0), NegativeDirect(3.0), Hinge(1.3)], ids=repr
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tied_items_of_a_class_share_their_gradient_whatever_their_order(task, update, dtype):
    generator = torch.Generator().manual_seed(0)
    for items, levels in product((3, 4, 6, 9, 12), (1, 2, 3)):
        scores = torch.randint(levels, (items,), generator=generator).to(dtype)
        target = torch.arange(items) % 3 == 0
        scores += target if items % 2 else 0  # so that positives are tied at the top
        gradient = task.contrast(scores, target, update.spec).gradient
        order = torch.randperm(items, generator=generator)
        again = task.contrast(scores[order], target[order], update.spec).gradient
        torch.testing.assert_close(again, gradient[order], rtol=0, atol=0)
        torch.testing.assert_close(gradient.sum(), torch.zeros((), dtype=dtype), atol=1e-6, rtol=0)
        for positive in (True, False):
            for score in scores.unique():
                assert len(gradient[(target == positive) & (scores == score)].unique()) <= 1


def test_a_tied_pair_shares_what_its_two_orders_give():
    """Both negatives are tied; the positive update moves one of them, and each gets half of that."""
    scores, target = torch.tensor([0.0, 0.5, 0.5]), torch.tensor([True, False, False])
    task, spec = ROCAUC(), PositiveDirect(1.0).spec
    apart = [task.contrast(scores + torch.tensor([0.0, up, -up]), target, spec).gradient for up in (1e-6, -1e-6)]
    found = task.contrast(scores, target, spec).gradient
    torch.testing.assert_close(found, (apart[0] + apart[1]) / 2)


def test_a_recall_of_next_to_nothing_asks_for_the_first_positive():
    for target in ([1, 0, 1], [0, 1, 1], [0, 0, 1]):
        one, other = (
            task.infer(torch.tensor([2.0, 1.0, 0.0]), torch.tensor(target)).loss
            for task in (PrecisionAtRecall(1e-12), ReciprocalRank())
        )
        torch.testing.assert_close(one, other)


def test_a_share_of_positives_that_is_an_integer_but_for_rounding_is_one():
    target = torch.arange(52) != 7  # seven positives, a negative, the other positives, a negative
    target[-1] = False
    assert PrecisionAtRecall(0.14).infer(-torch.arange(52.0), target).loss == 0  # 0.14·50 is 7.000000000000001


@pytest.mark.parametrize("update", [PositiveDirect, NegativeDirect, CentralDirect])
def test_a_power_of_two_scales_nothing_but_the_gradient_where_discounts_get_tiny(update):
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(2500, generator=generator) < 0.2
    for levels in (1, 3):
        scores = torch.randint(levels, target.shape, generator=generator).double()
        gradients = []
        for scale in (1.0, 2.0**-60, 2.0**30):
            scaled = (scores * scale).requires_grad_()
            StructuredLoss(RankBiasedPrecision(0.7), update(scale))(scaled, target).backward()
            gradients.append(scaled.grad * scale)
        assert gradients[0].any()
        assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)


def test_a_task_whose_parameter_changes_is_another_metric():
    class Cut(RankingTask):
        def __init__(self, k):
            self.k = k

        def gain(self, positives, negatives):
            return ByRank([1] * positives, [1.0 if rank < self.k else 0.0 for rank in range(positives + negatives)])

    scores, target = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 0, 1])
    task = Cut(1)
    before = task.infer(scores, target).loss
    task.k = 2
    assert task.infer(scores, target).loss == Cut(2).infer(scores, target).loss != before
