"""The kernels of ranking metrics against all rankings of small lists, every algorithm and every branch.

They run uncompiled. Many problems are of integers: sums are then exact, and ties are common.
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import pytest
import torch
from members import predicted, uncompile

from directloss.families import TRUTH, ByNegatives, ByRank, RankingTask, UpdateSpec
from directloss.kernels import lists
from directloss.kernels import ranking as kernels


@pytest.fixture(autouse=True)
def small(monkeypatch):
    uncompile(monkeypatch, kernels, lists)
    monkeypatch.setattr(kernels, "_BLOCK_CELLS", 1)
    with np.errstate(all="ignore"):
        yield


class Problem(NamedTuple):
    """What a kernel gets: positives and negatives, descending, the metric u_i·φ[r·i + c], and κ."""

    a: np.ndarray
    b: np.ndarray
    u: np.ndarray
    phi: np.ndarray
    r: int
    kappa: float


@cache
def staircases(P, M):
    return np.array(list(combinations_with_replacement(range(M + 1), P)))


def worth(a, b, u, phi, r, kappa, above):
    """Σ_i f_i(c_i), up to a constant and a factor F + weight·L; above may be many staircases."""
    sums = np.concatenate(([0.0], np.cumsum(b)))
    return (sums[above] - above * a - kappa * u * phi[r * np.arange(a.size) + above]).sum(-1)


def vectors(rng, P, M, integer):
    """u, φ and r of a metric: of all shapes, and of any sign, as only differences of φ count."""
    r = int(rng.integers(2))

    def numbers(size):
        return rng.integers(0, 4, size) * 1.0 if integer else rng.exponential(size=size)

    length = P + M if r else M + 1
    drops, u, places = numbers(length - 1), numbers(P), np.arange(length - 1)
    drops = [
        drops, -np.sort(-drops), np.sort(drops), np.ones(length - 1), drops * (rng.random(length - 1) < 0.4),
        drops * (places < rng.integers(length)), 1.0 * (places == rng.integers(length)),
    ][rng.integers(7)]  # fmt: skip
    u = [u, np.sort(u), -np.sort(-u), np.ones(P), u * (np.arange(P) == rng.integers(P))][rng.integers(5)]
    return u, rng.choice([-9.0, 0.0, 1.0]) + np.append(np.cumsum(drops[::-1])[::-1], 0.0), r


def problem(rng, P, M, integer=None):
    """Of any metric, and κ of any sign; of integer numbers if told so."""
    of_scores, of_metric = rng.random(2) < 0.5 if integer is None else (integer, integer)
    kappa = float(rng.choice([-1, 1]) * 2.0 ** rng.integers(-3, 4))
    scores = rng.integers(-3, 4, P + M) * 1.0 if of_scores else rng.normal(size=P + M)
    return Problem(-np.sort(-scores[:P]), -np.sort(-scores[P:]), *vectors(rng, P, M, of_metric), kappa)


def cut_of(phi):
    changes = np.flatnonzero(np.diff(phi))
    return int(changes[-1]) + 1 if changes.size else 0


def exact_algorithms(some):
    """All that are exact, by docs/mathematics.md: D rises in i, or falls in c."""
    _, _, u, phi, r, kappa = some
    steps, weights = -np.diff(phi, 2) * np.sign(kappa), np.diff(u) * np.sign(kappa)
    columns = (steps <= 1e-12).all()
    rows = (weights >= 0).all() and (not r or (steps >= -1e-12).all())
    exact = {
        kernels.WALK: rows and columns,
        kernels.ROWS: rows,
        kernels.COLUMNS: columns,
        kernels.ONE_ROW: np.count_nonzero(u) == 1,
        kernels.CUT: r == 1 and cut_of(phi) > 0,
        kernels.BAND: True,
        kernels.TABLE: True,
    }
    return [algorithm for algorithm, is_exact in exact.items() if is_exact]


def check(some, above, best):
    a, b, u, phi, r, kappa = some
    assert (np.diff(above) >= 0).all()
    assert above.min() >= 0
    assert above.max() <= b.size
    size = np.abs(a).sum() + np.abs(b).sum() + abs(kappa) * u.sum() * np.abs(phi).max()
    found = worth(a, b, u, phi, r, kappa, above)
    assert found == pytest.approx(best, rel=0, abs=1e-11 * size)


def solve(some, algorithm, reach=np.inf):
    a, b, *rest = some
    above = np.full(a.size, -7, np.int32)
    kernels._solve(a, b, predicted(a, b), *rest, reach, algorithm, cut_of(some.phi), above)
    return above


def test_every_algorithm_attains_the_best_worth():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(350):
        P, M = rng.integers(1, 6, 2)
        some = problem(rng, P, M)
        best = worth(*some, staircases(P, M)).max()
        for algorithm in exact_algorithms(some):
            seen.add((algorithm, some.kappa > 0))
            check(some, solve(some, algorithm), best)
    assert len(seen) == 14


def test_the_only_row_that_counts_takes_the_others_along_best():
    rng = np.random.default_rng(25)
    for _ in range(200):
        P, M = rng.integers(1, 6, 2)
        some = problem(rng, P, M)._replace(u=2.0 * (np.arange(P) == rng.integers(P)))
        check(some, solve(some, kernels.ONE_ROW), worth(*some, staircases(P, M)).max())


def test_rows_or_columns_by_themselves_give_the_least_of_the_best_staircases():
    rng = np.random.default_rng(22)
    for _ in range(300):
        P, M = rng.integers(1, 6, 2)
        some = problem(rng, P, M, integer=True)
        worths = worth(*some, staircases(P, M))
        least = staircases(P, M)[worths == worths.max()].min(0)
        for algorithm in {kernels.WALK, kernels.ROWS, kernels.COLUMNS}.intersection(exact_algorithms(some)):
            assert solve(some, algorithm).tolist() == least.tolist()


def test_every_algorithm_attains_the_best_worth_in_parts_between_wide_gaps():
    """No pair is swapped across a gap that is wider than all of the loss is worth."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        P, M = rng.integers(1, 6, 2)
        a, b, u, phi, r, kappa = problem(rng, P, M)
        reach = abs(kappa) * (u * (phi[r * np.arange(P)] - phi[r * np.arange(P) + M])).sum()
        far = rng.integers(0, 3, P + M) * np.ceil(rng.choice([0.5, 1.0, 1.5]) * reach)
        a, b = -np.sort(-a - far[:P]), -np.sort(-b - far[P:])
        some = Problem(a, b, u, phi, r, kappa)
        best = worth(*some, staircases(P, M)).max()
        for algorithm in exact_algorithms(some):
            check(some, solve(some, algorithm, reach), best)


def small_numbers(rng):
    """A problem with few digits, that has many outputs nearly as good as the best."""
    P, M = rng.integers(2, 8), rng.integers(1, 5)
    near = rng.integers(-3, 4, P + M) / 4
    metric = *vectors(rng, P, M, integer=True), float(rng.choice([-0.25, 0.25]))
    return Problem(-np.sort(-near[:P]), -np.sort(-near[P:]), *metric)


def test_scores_far_from_zero_keep_their_differences():
    """Sums of these scores are not exact, sums of their differences are."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        some = small_numbers(rng)
        best = worth(*some, staircases(some.a.size, some.b.size)).max()
        away = some._replace(a=some.a + 2.0**50, b=some.b + 2.0**50)
        for algorithm in exact_algorithms(some):
            assert worth(*some, solve(away, algorithm, 1e3)) == best


def test_scores_far_away_do_not_spoil_the_rest():
    """Far above, or far below: no sum of all scores has a digit of the others."""
    rng = np.random.default_rng(23)
    for number in range(200):
        some = small_numbers(rng)
        side, size = (1.0, -1.0)[number % 2], rng.choice([0.0, 0.2, 0.5], 2)
        far = [rng.random(scores.size) < share for scores, share in zip(some[:2], size, strict=True)]
        near, large = (
            some._replace(a=np.where(far[0], unit, some.a), b=np.where(far[1], unit, some.b))
            for unit in (side * 1e4, side * 2.0**60)
        )
        near, large = (one._replace(a=-np.sort(-one.a), b=-np.sort(-one.b)) for one in (near, large))
        best = worth(*near, staircases(some.a.size, some.b.size)).max()
        for algorithm in exact_algorithms(some):
            assert worth(*near, solve(large, algorithm, 1e3)) == pytest.approx(best, rel=0, abs=1e-7)


def test_row_alone_ends_at_the_least_of_its_best_places():
    rng = np.random.default_rng(3)
    for _ in range(400):
        M = int(rng.integers(1, 8))
        b = -np.sort(-rng.integers(-3, 4, M) * 1.0)
        phi = -np.cumsum(rng.integers(0, 4, M + 1) * 1.0)
        kappa, u, score = float(rng.choice([-2, -1, 1, 2])), float(rng.integers(0, 3)), float(rng.integers(-3, 4))
        here = int((b > score).sum())
        edge = int(rng.integers(0, here + 1) if kappa < 0 else rng.integers(here, M + 1))
        start, stop = (edge, M) if kappa > 0 else (0, edge)
        values = worth(np.array([score]), b, np.array([u]), phi, 0, kappa, np.arange(start, stop + 1)[:, None])
        assert kernels._row_argmax(score, b, u, phi, kappa, start, stop) == start + values.argmax()


def best_in_band(a, b, u, phi, r, kappa, low, high):
    """The largest worth between two staircases, by a dynamic programme over rows and columns."""
    sums, c = np.concatenate(([0.0], np.cumsum(b))), np.arange(b.size + 1)
    best = np.zeros(b.size + 1)
    for i in range(a.size):
        best = np.maximum.accumulate(best) + sums - c * a[i] - kappa * u[i] * phi[r * i + c]
        best[(c < low[i]) | (c > high[i])] = -np.inf
    return best.max()


def test_band_cut_into_blocks_holds_the_best_worth():
    rng = np.random.default_rng(4)
    for number in range(60):
        P, M = int(rng.integers(12, 40)), int(rng.integers(1, 4))
        some = problem(rng, P, M)
        if number % 2:  # in no order, so that many rows end together
            some = some._replace(a=rng.permutation(some.a))
        unit = 2.0 ** rng.choice([-80, 0, 80])
        some = some._replace(a=unit * some.a, b=unit * some.b, kappa=unit * some.kappa)
        low, high = np.zeros(P, np.int32), np.full(P, M, np.int32)
        if number % 3:
            low, high = np.sort(np.sort(rng.integers(0, M + 1, (2, P))), 0).astype(np.int32)
        above = np.full(P, -7, np.int32)
        kernels.solve_band(*some, low, high, above)
        assert (low <= above).all()
        assert (above <= high).all()
        check(some, above, best_in_band(*some, low, high))


def clamped(a, b, u, phi, r, kappa, low, high):
    """A band cut back to the best places of single rows, once down and once up."""
    sums, places = np.concatenate(([0.0], np.cumsum(b))), np.arange(b.size + 1)
    rows = [sums - places * a[i] - kappa * u[i] * phi[r * i + places] for i in range(a.size)]
    low, high = low.copy(), high.copy()
    for i in range(a.size):
        start = max(low[i], high[i - 1]) if i else low[i]
        high[i] = start + rows[i][start : high[i] + 1].argmax()
    for i in reversed(range(a.size)):
        stop = min(high[i], low[i + 1]) if i + 1 < a.size else high[i]
        low[i] += rows[i][low[i] : stop + 1].argmax()
    return low, high


def test_clamped_band_holds_the_best_worth():
    """And nothing that single rows leave out."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        P, M = rng.integers(1, 7, 2)
        some = problem(rng, P, M, integer=True)
        low, high = predicted(some.a, some.b), predicted(some.a, some.b)
        if some.kappa > 0:
            high[:] = M
        else:
            low[:] = 0
        first, last = clamped(*some, low, high)
        cells = kernels._clamp(*some, low, high)
        assert cells == (high - low).sum()
        assert (first <= low).all()
        assert (low <= high).all()
        assert (high <= last).all()
        best = worth(*some, staircases(P, M)).max()
        assert best_in_band(*some, low, high) == pytest.approx(best, rel=0, abs=1e-9)


@dataclass(frozen=True, eq=False)
class Metric(RankingTask):
    """A metric of two vectors, for lists of one size."""

    u: np.ndarray
    phi: np.ndarray
    r: int

    def gain(self, positives, negatives):
        return (ByRank if self.r else ByNegatives)(self.u, self.phi)

    def scale(self, positives, negatives):
        return 3.0


def tied_loss(a, b, u, phi, r):
    """What the prediction loses: the mean over orders of tied items, or that of the best and the worst of them."""
    above = staircases(a.size, b.size)
    above = above[((predicted(a, b) <= above) & (above <= (b[:, None] >= a).sum(0))).all(1)]
    first = phi[r * np.arange(a.size)]
    losses = (u * (first - phi[r * np.arange(a.size) + above])).sum(1) / (u * first).sum()
    return losses.mean() if (u == u[0]).all() else (losses.min() + losses.max()) / 2


def listed(rng, a, b):
    """Scores and target of a list in any order."""
    order = rng.permutation(a.size + b.size)
    target = torch.tensor((np.arange(order.size) < a.size)[order])
    return torch.tensor(np.concatenate((a, b))[order]), target


def metrics(rng, problems):
    for _ in range(problems):
        P, M = (int(size) for size in rng.integers(1, 5, 2))
        a, b, u, phi, r, _ = problem(rng, P, M)
        if (u * phi[r * np.arange(P)]).sum() > 0 <= (u * phi[r * np.arange(P) + M]).sum():
            yield Metric(u, phi, r), a, b


def test_loss_of_a_prediction_with_ties_is_a_mean_over_orders():
    rng = np.random.default_rng(6)
    for task, a, b in metrics(rng, 200):
        scores, target = listed(rng, a, b)
        features, loss, _ = task.output(scores, target, 0.0)
        assert loss.item() == pytest.approx(tied_loss(a, b, task.u, task.phi, task.r), abs=1e-12)
        differ = target[:, None].double() - target.double()  # 1 for a positive and a negative
        pairs = differ * torch.sign((scores[:, None] - scores) * differ)
        assert features.numpy() == pytest.approx(pairs.sum(1).numpy() * 3.0 / (a.size * b.size), abs=1e-12)


def test_rounding_takes_no_loss_above_one():
    rng = np.random.default_rng(24)
    for _ in range(100):
        task = Metric(rng.random(5), np.append(-np.sort(-rng.random(2)), rng.choice([0.0, -1e-13])), 0)
        loss = task.output(torch.arange(7.0).double(), torch.arange(7) < 5, 0.0).loss.item()
        assert loss == pytest.approx(1.0)
        assert loss <= 1.0


def objective(task, a, b, weight):
    """The largest F + weight·L; that of the truth has no loss."""
    P, M = a.size, b.size
    above = staircases(P, M)
    of_negatives = P - 2 * (above[:, :, None] <= np.arange(M)).sum(1)
    score = 3.0 / (P * M) * ((M - 2 * above) @ a + of_negatives @ b)
    if weight is TRUTH:
        return score[0]
    first = task.phi[task.r * np.arange(P)]
    loss = 1 - (task.u * task.phi[task.r * np.arange(P) + above]).sum(1) / (task.u * first).sum()
    return (score + weight * loss).max()


def test_values_are_differences_of_the_best_objectives():
    rng = np.random.default_rng(7)
    for number, (task, a, b) in enumerate(metrics(rng, 200)):
        unit = 2.0 ** int(rng.choice([-1, 0, 1, 4]))
        away, toward = [(unit, TRUTH), (unit, -unit), (-unit, 4 * unit), (TRUTH, -unit)][number % 4]
        scores, target = listed(rng, a, b)
        found = task.contrast(scores, target, UpdateSpec(away, toward, 0.5))
        value = 0.5 * (objective(task, a, b, away) - objective(task, a, b, toward))
        assert found.value.item() == pytest.approx(value, abs=1e-10 * (1 + unit))
        for k in (0, 1):  # the gradient is that of this value: both outputs attain their objectives
            weight = (away, toward)[k]
            features, loss, _ = task.output(scores, target, weight)
            attained = (features @ scores).item() + (0.0 if weight is TRUTH else weight * loss.item())
            assert attained == pytest.approx(objective(task, a, b, weight), abs=1e-10 * (1 + unit))
        difference = task.output(scores, target, away)[0] - task.output(scores, target, toward)[0]
        assert found.gradient.numpy() == pytest.approx(0.5 * difference.numpy(), abs=1e-12)
