"""The kernels of average precision on lists small enough to know the answer, every branch of them.

They run uncompiled, with constants so small that short lists are cut into windows, segments and blocks.
"""

from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from members import augment_down, augment_up, epsilons, lists, predicted, uncompile

from benchmarks.dynamic_programme import average_precision_objective, average_precision_reference
from directloss import AveragePrecision
from directloss.kernels import average_precision as kernels
from directloss.kernels import lists as list_kernels
from directloss.kernels import ranking
from tests.fuzz import KINDS, Batch, draw, laws

TASK = AveragePrecision()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    uncompile(monkeypatch, kernels, ranking, list_kernels)
    for name, value in {"_WINDOW": 3, "_SHORT": 5, "_DETAIL": 1, "_BLOCK_EDGES": 6}.items():
        monkeypatch.setattr(kernels, name, value)
    monkeypatch.setattr(ranking, "_BLOCK_CELLS", 1)
    with np.errstate(all="ignore"):
        yield


def wide(rng):
    """Positives and negatives, descending, and κ: most of them leave rows that want other places than rows together."""
    P, M = int(rng.integers(1, 25)), int(rng.integers(1, 13))
    a = rng.choice([np.zeros(P), -rng.random(P), rng.normal(size=P) - 1, np.full(P, -1.0)][int(rng.integers(4))], P)
    kind = rng.integers(6)
    b = [
        np.exp(2 * rng.normal(size=M)),
        rng.normal(size=M) + 30 * (rng.random(M) < 0.5),
        np.arange(M) * 1.0,
        rng.integers(0, 3, M) * 1.0,
        np.abs(rng.standard_cauchy(M)),
        rng.normal(size=M),
    ][kind]
    return -np.sort(-a), -np.sort(-b), 10.0 ** rng.uniform(-1.5, 2.5) * M / 2


def worth(a, b, kappa, above):
    """Σ_i f_i(c_i), up to a factor what a ranking gains over the truth; for a weight below 0."""
    rank = np.arange(1, a.size + 1)
    sums = np.concatenate(([0.0], np.cumsum(b)))
    return (sums[above] - above * a - kappa * above / (rank + above)).sum()


def best_worth(a, b, kappa):
    """The largest `worth`, by a dynamic programme over rows and columns."""
    sums, c = np.concatenate(([0.0], np.cumsum(b))), np.arange(b.size + 1)
    best = np.zeros(b.size + 1)
    for i in range(a.size):
        best = np.maximum.accumulate(best) + sums - c * a[i] - kappa * c / (i + 1 + c)
    return best.max()


def solve_band(a, b, kappa, low, high):
    """The best staircase of a band, by the dynamic programme."""
    above, ranks = np.full(a.size, -7, np.int32), np.arange(1.0, a.size + 1)
    ranking.solve_band(a, b, ranks, 1 / np.arange(1.0, a.size + b.size + 1), 1, -kappa, low, high, above)
    return above


def band(a, b):
    """The band of the prediction, and sums of b."""
    high = np.array([(b > value).sum() for value in a], np.int32)
    return np.zeros(a.size, np.int32), high, np.concatenate(([0.0], np.cumsum(b)))


def check(a, b, kappa, above):
    assert (np.diff(above) >= 0).all()
    assert above.min() >= 0
    assert above.max() <= b.size
    size = np.abs(a).sum() + np.abs(b).sum() + abs(kappa)
    assert worth(a, b, kappa, above) == pytest.approx(best_worth(a, b, kappa), rel=0, abs=1e-10 * size)


def test_oracles_attain_the_best_worth():
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b, kappa = wide(rng)
        above = np.full(a.size, -7, np.int32)
        assert 0 <= augment_down(a, b, kappa, above) <= 2 * (a.size + b.size) * 4
        check(a, b, kappa, above)
        augment_up(a, b, kappa, above)
        check(a, b, -kappa, above)


def humped(rng):
    """Positives, negatives and κ for which rows alone end far down and then further and further up."""
    P, M, kappa = int(rng.integers(4, 31)), int(rng.integers(2, 13)), 10.0 ** rng.uniform(-1, 2)
    a = rng.choice([0.0, 0.002]) * rng.normal(size=P)
    a[: int(rng.choice([0, 0, rng.integers(P)]))] -= 0.2
    b = -(1 + rng.choice([0.0, 0.3]) * rng.random(M)) / rng.uniform(4, 40)
    return -np.sort(-a) * kappa, -np.sort(-b) * kappa, kappa


def test_rows_that_want_the_same_negatives_share_them_best():
    rng = np.random.default_rng(8)
    for _ in range(150):
        a, b, kappa = humped(rng)
        above = np.full(a.size, -7, np.int32)
        augment_up(a, b, kappa, above)
        check(a, b, -kappa, above)


@pytest.mark.parametrize(("score", "places"), [(-0.45, [0, 0]), (-0.4, [1, 1])])
def test_last_row_does_not_follow_the_one_above_it_where_both_lose(score, places):
    """Alone, the first row wants the negative below −κ/3 and the second does not: D_1 + D_2 = 2b + 5κ/6 decides."""
    above = np.full(2, -7, np.int32)
    augment_up(np.zeros(2), np.array([score]), 1.0, above)
    assert above.tolist() == places


@pytest.mark.parametrize("weight", [0.3, 1.0, 2.0])
def test_output_of_a_list_is_that_of_its_rows(weight):
    rng = np.random.default_rng(12)
    for _ in range(25):
        a, b, kappa = humped(rng)
        P, M = a.size, b.size
        scores = torch.from_numpy(np.concatenate([a, b]) * weight * M / 2 / kappa).float()
        a, b = scores[:P].double().numpy(), scores[P:].double().numpy()
        above = np.full(P, -7, np.int32)
        augment_up(a, b, weight * M / 2, above)
        found = TASK.infer_augmented(scores, torch.arange(P + M) < P, weight)
        i, below = np.arange(1, P + 1), (above[:, None] <= np.arange(M)).sum(0)
        score = ((M - 2 * above) * a).sum() - ((2 * below - P) * b).sum()
        assert float(found.loss) == pytest.approx(1 - (i / (i + above)).mean(), abs=1e-6)
        assert P * M * float(found.features @ scores) == pytest.approx(score, abs=1e-5 * P * M * np.abs(b).max())


def test_negative_may_stay_above_the_last_rows_that_it_stands_above():
    """Though rows in between do not want it, and the first rows do: they want it less."""
    a = np.array([0.0, 0.0, 0.0, -0.907, -0.907, -1.221, -1.2237, -1.2475])
    above = np.full(a.size, -7, np.int32)
    b = np.array([-0.3998, -0.401, -0.9996])
    augment_up(a, b, 1.0, above)
    check(a, b, -1.0, above)


@pytest.mark.parametrize("detail", [0, 1, 2, 3])
def test_narrowed_band_holds_the_best_worth(detail):
    rng = np.random.default_rng(detail)
    for _ in range(80):
        a, b, kappa = wide(rng)
        low, high, sums = band(a, b)
        for _ in range(2):
            before = low.copy(), high.copy()
            cells = kernels._narrow(a, b, sums, kappa, low, high, detail)
            assert cells == (high - low).sum()
            assert (low <= high).all()
            assert (np.diff(high) >= 0).all() or (np.diff(before[1]) < 0).any()
            assert (np.diff(low) >= 0).all()
        check(a, b, kappa, solve_band(a, b, kappa, low, high))


CLOSE = [  # positives, negatives and how often, κ, whether the band is clamped, detail
    ((0, -2), (28.3, 4, 0.2, 0.1), (8, 1, 4, 8), 270.37, False, 3),
    ((0,) * 6, (5.6, 1.9, 0.1), (7, 1, 7), 56.14, False, 3),
    ((0,) * 3, (27.5, 6.5, 1.2, 0.1), (6, 1, 1, 7), 195.22, False, 2),
    ((0,) * 3, (1.1, 0.5, 0.1), (6, 7, 3), 11.62, False, 2),
    ((0,), (5.2, 0.5, 0.1), (6, 8, 2), 36.39, False, 2),
    ((0,), (24.3, 3.2, 1.4), (8, 1, 1), 165.93, False, 2),
    ((0,) * 2, (6.5, 3.5, 0.5), (8, 1, 1), 56.7, False, 2),
    ((0,) * 6, (13, 4, 2), (8, 1, 8), 146.1, False, 3),
    ((0, 0, -1), (4.8, 0.9, 0.1), (7, 1, 8), 40.37, False, 3),
    ((0,) * 3, (3.1, 0.5, 0.1), (6, 5, 9), 24.33, True, 2),
    ((0,) * 6, (12, 7, 2), (3, 1, 13), 82.59, True, 1),
]


@pytest.mark.parametrize("example", CLOSE)
def test_narrowing_keeps_a_best_place_beside_an_edge_that_is_nearly_as_good(example):
    scores, levels, widths, kappa, clamped, detail = example
    a, b = np.array(scores, float), np.repeat(np.array(levels, float), widths)
    low, high, sums = band(a, b)
    if clamped:
        kernels._clamp(a, b, sums, kappa, low, high)
    kernels._narrow(a, b, sums, kappa, low, high, detail)
    check(a, b, kappa, solve_band(a, b, kappa, low, high))


def narrowed(a, b, epsilon, detail, rounds=1):
    """How much worse the best ranking of the narrowed band is than the best of all."""
    low, high = np.zeros(a.size, np.int32), np.array([(b > value).sum() for value in a], np.int32)
    sums, kappa = np.concatenate(([0.0], np.cumsum(b))), epsilon * b.size / 2
    for _ in range(rounds):
        kernels._narrow(a, b, sums, kappa, low, high, detail)
        assert (low <= high).all()
    above = solve_band(a, b, kappa, low, high)
    best = average_precision_objective(a, b, average_precision_reference(a, b, -epsilon), -epsilon)
    return abs(best - average_precision_objective(a, b, above.astype(np.int64), -epsilon))


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


@given(lists(longest=40), epsilons(), st.integers(0, 8), st.integers(1, 3))
@settings(max_examples=300)
def test_narrowing_keeps_an_optimal_staircase(problem, epsilon, detail, rounds):
    """On bands so small that the default path would leave them to the dynamic programme."""
    scores, target = problem
    if target.all() or not target.any():
        return
    a, b = (-np.sort(-scores[one].numpy()) for one in (target, ~target))
    gap = narrowed(a, b, epsilon, detail, rounds)
    assert gap <= 1e-10 * (np.abs(a).max() + np.abs(b).max() + epsilon)


def test_band_between_two_best_outputs_is_left_to_the_dynamic_programme():
    """Both rows end at 1 or both at 4. The first alone prefers 4, the second 1, and no bound can tell which."""
    a, b = np.zeros(2), np.array([100.0, 19.0, 19.0, 19.0])
    above = np.full(2, -7, np.int32)
    assert augment_down(a, b, 180.0, above) == 6
    check(a, b, 180.0, above)


HARD = [  # positives, negatives
    lambda rng: (np.zeros(40), np.exp(2 * rng.normal(size=40))),
    lambda rng: (np.full(40, -3.0), rng.standard_cauchy(40)),
    lambda rng: (rng.random(40) - 3, rng.normal(size=40) + 100 * (rng.random(40) < 0.5)),
]


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 30.0])
def test_narrowing_closes_the_band_from_both_sides(epsilon):
    for number, hard in enumerate(HARD):
        a, b = (-np.sort(-scores) for scores in hard(np.random.default_rng(number)))
        above = np.full(a.size, -7, np.int32)
        assert augment_down(a, b, epsilon * 20, above) <= 2 * (a.size + b.size) * 4
        unit = 2.0 ** (60 * (1 - number))  # bounds are right in any unit
        a, b, kappa = a * unit, b * unit, epsilon * 20 * unit
        low, high, sums = band(a, b)
        cells = (high - low).sum()
        rest = kernels._narrow(a, b, sums, kappa, low, high, 8)
        assert 2 * rest < 1.2 * cells
        assert kernels._narrow(a, b, sums, kappa, low, high, 32) == 0


def test_segments_bound_what_lies_above_their_chords():
    rng = np.random.default_rng(10)
    for number in range(60):
        P, M = int(rng.integers(1, 9)), int(rng.integers(2, 30))
        b = -np.sort(-rng.normal(size=M)) if number % 2 else np.where(np.arange(M) < M // 2, 1.0, 0.0)
        low = np.sort(rng.integers(0, M, P)).astype(np.int32)
        high = np.maximum.accumulate(rng.integers(low + 1, M + 1)).astype(np.int32)
        edges, bumps = np.empty(high[-1] - low[0] + 1, np.int32), np.empty(high[-1] - low[0] + 1)
        left, right = np.empty(P, np.int32), np.empty(P, np.int32)
        count = kernels._cut_columns(b, low, high, int(rng.integers(4)), edges, bumps, left, right)
        assert (edges[0], edges[count]) == (low[0], high[-1])
        assert (edges[left] <= low).all()
        assert (low < edges[left + 1]).all()
        assert (edges[right - 1] < high).all()
        assert (high <= edges[right]).all()
        sums = np.concatenate(([0.0], np.cumsum(b)))
        for k in range(count):
            c = np.arange(edges[k], edges[k + 1] + 1)
            chord = np.interp(c, c[[0, -1]], sums[c[[0, -1]]])
            assert (sums[c] - chord).max() <= bumps[k] + 1e-12


def test_falls_too_large_for_numbers_leave_the_band_open():
    a, b = np.full(6, -1e308), np.array([1e308, 1e308, 0.0, 0.0, -9e307])
    low, high, sums = band(a, b)
    assert kernels._narrow(a, b, sums, 1e307, low, high, 3) == 30


def test_leap_is_the_root_to_the_last_digits():
    """Also where one part of it is far smaller than the other: g·t² − 2·h·t − m."""
    with localcontext(prec=60):
        for g, h, m in product((1e-9, 1e-3, 1.0, 1e6), (-1e6, -3.0, -1e-3, 0.0, 1e-3, 3.0, 1e6), (0.0, 1e-9, 1.0, 1e6)):
            exact = (Decimal(h) + (Decimal(h) ** 2 + Decimal(g) * Decimal(m)).sqrt()) / Decimal(g)
            if exact:
                assert kernels._leap(g, h, m) == pytest.approx(float(exact), rel=1e-12), (g, h, m)


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


def test_parts_between_wide_gaps_lie_around_zero():
    """So that sums of their scores keep the digits that matter; and rows stay behind the parts before theirs."""
    rng = np.random.default_rng(11)
    for _ in range(200):
        P, M = int(rng.integers(1, 7)), int(rng.integers(1, 7))
        scores = rng.choice([1e3, 1e9, -1e6]) + rng.choice([0.0, 50.0, -50.0], P + M) + rng.normal(size=P + M)
        a, b = -np.sort(-scores[:P]), -np.sort(-scores[P:])
        reach = rng.choice([0.1, 1.0, 10.0, 1000.0])
        near_a, near_b, low = np.full(P, np.nan), np.full(M, np.nan), np.full(P, -7, np.int32)
        kernels._recentre(a, b, reach, near_a, near_b, low)
        ranked = -np.sort(-scores)
        part = np.cumsum(-np.diff(ranked, prepend=ranked[0]) > reach)  # of each item
        of_a, of_b = (part[np.searchsorted(-ranked, -some)] for some in (a, b))
        assert low.tolist() == [(of_b < k).sum() for k in of_a]
        for k in range(part[-1] + 1):
            near = np.concatenate((near_a[of_a == k], near_b[of_b == k]))
            exact = np.concatenate((a[of_a == k], b[of_b == k]))
            assert near - near[0] == pytest.approx(exact - exact[0], abs=1e-6)
            assert near.max() + near.min() == pytest.approx(0.0, abs=1e-6)


def test_clamped_band_holds_the_best_worth():
    rng = np.random.default_rng(5)
    for _ in range(200):
        a, b, kappa = wide(rng)
        low, high, sums = band(a, b)
        cells = kernels._clamp(a, b, sums, kappa, low, high)
        assert cells == (high - low).sum()
        check_clamped(a, b, kappa, low, high)
        check(a, b, kappa, solve_band(a, b, kappa, low, high))


def check_clamped(a, b, kappa, low, high):
    """Each row of the prediction's band ends at its best place not before, or not behind, the next row's end."""
    _, ends, sums = band(a, b)
    places, c = np.arange(a.size), np.arange(b.size + 1)
    rows = sums - c * a[:, None] - kappa * c / (places[:, None] + 1 + c)
    for order, edges in ((places, high), (places[::-1], low)):
        edge = 0 if edges is high else b.size
        for i in order:
            first, last = (min(edge, ends[i]), ends[i]) if edges is high else (0, min(edge, high[i]))
            assert first <= edges[i] <= last
            values = rows[i, first : last + 1]
            assert rows[i, edges[i]] == pytest.approx(values.max(), abs=1e-9 * (1 + np.abs(values).max()))
            edge = edges[i]


def test_row_alone_ends_where_its_sum_is_largest():
    rng = np.random.default_rng(6)
    for _ in range(300):
        _, b, kappa = wide(rng)
        a, i = rng.normal() - 1, float(rng.integers(1, 13))
        if rng.random() < 0.5:  # steps that gain next to nothing
            c = rng.integers(1, 13, b.size)
            b = -np.sort(-a - kappa * i / ((i + c - 1) * (i + c)) * rng.choice([0.95, 1.0, 1.05], b.size))
        b = b[b > a]
        if b.size == 0:
            continue
        start = int(rng.integers(b.size))
        stop = int(rng.integers(start, b.size)) + 1
        sums, c = np.concatenate(([0.0], np.cumsum(b))), np.arange(b.size + 1)
        values = (sums - a * c - kappa * c / (i + c))[start : stop + 1]
        place = kernels._row_argmax(a, i, b, sums, kappa, start, stop)
        assert start <= place <= stop
        assert values[place - start] == pytest.approx(values.max(), abs=1e-9 * (1 + np.abs(values).max()))


@pytest.mark.parametrize("kind", ["normal", "heavy", "steps", "humps"])
def test_leaps_in_long_rows_pass_no_better_place(kind):
    """Rows with two hills, a far one and a near one, of about the same height: a leap too long misses one of them."""
    rng = np.random.default_rng(9)
    for _ in range(150):
        M, i = int(rng.integers(20, 400)), float(rng.integers(1, 200))
        c = np.arange(1, M + 1)
        slope = i / ((i + c - 1) * (i + c))
        kappa = 10.0 ** rng.uniform(0, 4)
        b = {
            "normal": np.abs(rng.normal(size=M)),
            "heavy": np.abs(rng.standard_cauchy(M)),
            "steps": rng.integers(0, 4, M) * 1.0,
            "humps": kappa * slope[int(rng.integers(M))] * (1 + 0.3 * rng.normal(size=M)),
        }[kind]
        b = -np.sort(-np.maximum(b, 1e-6))
        if kind != "humps":
            kappa = float(b[:].sum() / (M / (i + M)) * rng.uniform(0.3, 2))
        sums, places = np.concatenate(([0.0], np.cumsum(b))), np.arange(M + 1)
        values = sums - kappa * places / (i + places)
        for start, end in ((0, M), (M, 0), (M // 3, M), (M, M // 3)):
            place = kernels._row_argmax(0.0, i, b, sums, kappa, start, end)
            inside = values[min(start, end) : max(start, end) + 1]
            assert min(start, end) <= place <= max(start, end)
            assert values[place] >= inside.max() - 1e-11 * (1 + sums[-1] + kappa)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_list_keeps_every_law(kind):
    for number in range(8):
        rng = np.random.default_rng((1, number))
        _, batch = draw(rng, [TASK], [kind])
        few = 6 if batch.scores.shape[1] < 8 else 1
        batch = Batch(TASK, batch.scores[:few, :40], batch.target[:few, :40], batch.epsilon[:few])
        for law, (gap, allowed) in laws(batch, rng).items():
            assert gap.max() <= allowed, f"{law}, batch {number}"


def test_rows_alone_end_where_moving_on_gains_nothing():
    """In no row more than one place before the row above: K(i + 1, c − 1) > K(i, c)."""
    rng = np.random.default_rng(7)
    for number in range(300):
        a, b, kappa = wide(rng)
        b = b - rng.choice([0.0, 1.0, b.max()])
        i, c = np.arange(1, a.size + 1)[:, None], np.arange(1, b.size + 1)
        rising = (b - a[:, None]) * ((i + c - 1.0) * (i + c)) + kappa * i > 0
        above = np.full(a.size, -7, np.int32)
        staircase = kernels._place_rows(a, b, kappa, predicted(a, b), above)
        assert above.tolist() == rising.sum(1).tolist(), number
        assert staircase == (np.diff(above) >= 0).all()
        assert np.diff(above, prepend=0).min() >= -1
    for negatives in (2, 3, 6):  # fewer than a window, few, many: D_1(1) = 0, and there is no move for nothing
        above = np.full(1, -7, np.int32)
        kernels._place_rows(np.zeros(1), np.full(negatives, -1.0), 2.0, np.zeros(1, np.int32), above)
        assert above.tolist() == [0]


@pytest.mark.parametrize("short", [5, 100])
def test_rows_alone_end_at_their_place_far_behind_the_windows_too(short, monkeypatch):
    """Whether the search starts at the row above or at the prediction; four windows are 12 places."""
    monkeypatch.setattr(kernels, "_SHORT", short)
    rng = np.random.default_rng(12)
    furthest = 0
    for _ in range(100):
        P, M = int(rng.integers(1, 9)), int(rng.integers(13, 60))
        a, b = -np.sort(-rng.normal(size=P)), -np.sort(-rng.normal(size=M) - rng.choice([0.0, 3.0]))
        kappa = 10.0 ** rng.uniform(-1, 3)
        i, c = np.arange(1, P + 1)[:, None], np.arange(1, M + 1)
        rising = (b - a[:, None]) * ((i + c - 1.0) * (i + c)) + kappa * i > 0
        above = np.full(P, -7, np.int32)
        assert kernels._place_rows(a, b, kappa, predicted(a, b), above) == (np.diff(rising.sum(1)) >= 0).all()
        assert above.tolist() == rising.sum(1).tolist()
        furthest += ((above - (predicted(a, b) if short > M else 0) > 12) & (above < M)).sum()
    assert furthest > 20
