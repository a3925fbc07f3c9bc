"""Every branch of the kernels of rankings, counts and discounted gain, on problems small enough to know the answer.

The kernels run uncompiled here, each against its definition or against all outputs. Many problems are of whole numbers:
sums are then exact, and ties between scores and between outputs are common. `tests.mutation` led to these tests.
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import pytest
import torch
from members import predicted

from directloss.families import TRUTH, packed
from directloss.families.ranking import ByNegatives, ByRank, RankingTask
from directloss.kernels import counts, discounted_gain, groups, lists
from directloss.kernels import ranking as kernels
from directloss.update import UpdateSpec


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for module in (kernels, lists, counts, discounted_gain, groups):
        for name, value in vars(module).items():
            if hasattr(value, "py_func"):
                monkeypatch.setattr(module, name, value.py_func)
    monkeypatch.setattr(kernels, "_BLOCK_CELLS", 1)
    monkeypatch.setattr(packed, "CHUNK", 40)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # another thread would not have the next line
    with np.errstate(all="ignore"):
        yield


# --- rankings --------------------------------------------------------------------------------------------------------


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


def vectors(rng, P, M, whole):
    """u, φ and r of a metric: of all shapes, and of any sign, as only differences of φ count."""
    r = int(rng.integers(2))

    def numbers(size):
        return rng.integers(0, 4, size) * 1.0 if whole else rng.exponential(size=size)

    length = P + M if r else M + 1
    drops, u, places = numbers(length - 1), numbers(P), np.arange(length - 1)
    drops = [
        drops, -np.sort(-drops), np.sort(drops), np.ones(length - 1), drops * (rng.random(length - 1) < 0.4),
        drops * (places < rng.integers(length)), 1.0 * (places == rng.integers(length)),
    ][rng.integers(7)]  # fmt: skip
    u = [u, np.sort(u), -np.sort(-u), np.ones(P), u * (np.arange(P) == rng.integers(P))][rng.integers(5)]
    return u, rng.choice([-9.0, 0.0, 1.0]) + np.append(np.cumsum(drops[::-1])[::-1], 0.0), r


def problem(rng, P, M, whole=None):
    """Of any metric, and κ of any sign; of whole numbers if told so."""
    of_scores, of_metric = rng.random(2) < 0.5 if whole is None else (whole, whole)
    kappa = float(rng.choice([-1, 1]) * 2.0 ** rng.integers(-3, 4))
    scores = rng.integers(-3, 4, P + M) * 1.0 if of_scores else rng.normal(size=P + M)
    return Problem(-np.sort(-scores[:P]), -np.sort(-scores[P:]), *vectors(rng, P, M, of_metric), kappa)


def cut_of(phi):
    changes = np.flatnonzero(np.diff(phi))
    return int(changes[-1]) + 1 if changes.size else 0


def ways(some):
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
    return [way for way, is_exact in exact.items() if is_exact]


def check(some, above, best):
    a, b, u, phi, _, kappa = some
    assert (np.diff(above) >= 0).all()
    assert above.min() >= 0
    assert above.max() <= b.size
    size = np.abs(a).sum() + np.abs(b).sum() + abs(kappa) * u.sum() * np.abs(phi).max()
    assert worth(*some, above) == pytest.approx(best, rel=0, abs=1e-11 * size)


def solve(some, way, reach=np.inf):
    a, b, *rest = some
    above = np.full(a.size, -7, np.int32)
    kernels._solve(a, b, predicted(a, b), *rest, reach, way, cut_of(some.phi), above)
    return above


def test_every_way_attains_the_best_worth():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(350):
        P, M = rng.integers(1, 6, 2)
        some = problem(rng, P, M)
        best = worth(*some, staircases(P, M)).max()
        for way in ways(some):
            seen.add((way, some.kappa > 0))
            check(some, solve(some, way), best)
    assert len(seen) == 14


def test_the_only_row_that_counts_takes_the_others_along_in_the_best_way():
    rng = np.random.default_rng(25)
    for _ in range(200):
        P, M = rng.integers(1, 6, 2)
        some = problem(rng, P, M)._replace(u=2.0 * (np.arange(P) == rng.integers(P)))
        check(some, solve(some, kernels.ONE_ROW), worth(*some, staircases(P, M)).max())


def test_rows_or_columns_by_themselves_give_the_least_of_the_best_staircases():
    rng = np.random.default_rng(22)
    for _ in range(300):
        P, M = rng.integers(1, 6, 2)
        some = problem(rng, P, M, whole=True)
        worths = worth(*some, staircases(P, M))
        least = staircases(P, M)[worths == worths.max()].min(0)
        for way in {kernels.WALK, kernels.ROWS, kernels.COLUMNS}.intersection(ways(some)):
            assert solve(some, way).tolist() == least.tolist()


def test_every_way_attains_the_best_worth_in_parts_between_wide_gaps():
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
        for way in ways(some):
            check(some, solve(some, way, reach), best)


def small_numbers(rng):
    """A problem with few digits, that has many outputs nearly as good as the best."""
    P, M = rng.integers(2, 8), rng.integers(1, 5)
    near = rng.integers(-3, 4, P + M) / 4
    metric = *vectors(rng, P, M, whole=True), float(rng.choice([-0.25, 0.25]))
    return Problem(-np.sort(-near[:P]), -np.sort(-near[P:]), *metric)


def test_scores_far_from_zero_keep_their_differences():
    """Sums of these scores are not exact, sums of their differences are."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        some = small_numbers(rng)
        best = worth(*some, staircases(some.a.size, some.b.size)).max()
        away = some._replace(a=some.a + 2.0**50, b=some.b + 2.0**50)
        for way in ways(some):
            assert worth(*some, solve(away, way, 1e3)) == best


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
        for way in ways(some):
            assert worth(*near, solve(large, way, 1e3)) == pytest.approx(best, rel=0, abs=1e-7)


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
        kernels._solve_band(*some, low, high, above)
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
        some = problem(rng, P, M, whole=True)
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
        features, loss = task.output(scores, target, 0.0)
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
            features, loss = task.output(scores, target, weight)
            attained = (features @ scores).item() + (0.0 if weight is TRUTH else weight * loss.item())
            assert attained == pytest.approx(objective(task, a, b, weight), abs=1e-10 * (1 + unit))
        difference = task.output(scores, target, away)[0] - task.output(scores, target, toward)[0]
        assert found.gradient.numpy() == pytest.approx(0.5 * difference.numpy(), abs=1e-12)


# --- lists and groups ------------------------------------------------------------------------------------------------


def test_counts_of_an_output_are_sums_over_its_pairs():
    """A pair counts 1 for its positive if that stands above, −1 if below, nothing if they are tied."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        P, M = rng.integers(1, 6, 2)
        low, high = np.sort(np.sort(rng.integers(0, M + 1, (2, P))), 0).astype(np.int32)
        sign = int(rng.choice([-1, 1]))
        before, steps = rng.integers(-5, 6, P).astype(np.int32), rng.integers(-5, 6, M + 1).astype(np.int32)
        found, stepped = before.copy(), steps.copy()
        lists.count_output(low, high, sign, found, stepped)
        place = np.arange(M)
        pairs = 1 * (place >= high[:, None]) - 1 * (place < low[:, None])
        assert (found - before).tolist() == (sign * pairs.sum(1)).tolist()
        assert np.cumsum(stepped - steps)[:M].tolist() == (-sign * pairs.sum(0)).tolist()


def random_keys(rng, n):
    """Scores that are often tied, classes, and sorted keys of both."""
    scores, positive = rng.integers(-2, 3, n).astype(np.float32), rng.random(n) < 0.5
    keys = np.empty(n, np.int64)
    assert lists.pack(scores, positive, None, keys)
    return scores, positive, np.sort(keys)


def test_items_of_one_class_and_one_score_get_the_mean_of_their_counts():
    rng = np.random.default_rng(9)
    for _ in range(200):
        n = int(rng.integers(1, 9))
        scores, positive, keys = random_keys(rng, n)
        of_class = rng.integers(-9, 10, (2, n + 1)).astype(np.int32)
        ranked = keys & lists.LONGEST_LIST
        counted = np.empty(n)
        for kind in (0, 1):
            items = ranked[positive[ranked] == (kind == 0)]
            counted[items] = of_class[kind, : items.size]
        gradient = np.full(n, np.nan)
        lists._write_tied(keys, scores[ranked].astype(float), *of_class, 0.5, gradient)
        same = (scores[:, None] == scores) & (positive[:, None] == positive)
        assert gradient == pytest.approx(0.5 * (same * counted).sum(1) / same.sum(1))


@pytest.mark.parametrize("n", [1, 2, 5, 11, 255, 256, 257, 300])
@pytest.mark.parametrize("block", [1, 3, 256])
def test_groups_are_packed_as_lists_that_stand_apart(n, block):
    rng = np.random.default_rng(10)
    largest, least = np.finfo(np.float32).max, np.float32(1e-45)  # the least is subnormal
    special = np.array([0.0, -0.0, least, -least, largest, -largest, 1.0], np.float32)
    for number in range(12):
        low = int(rng.integers(-3, 4))
        scores, positive, _ = random_keys(rng, n)
        scores = scores if number % 4 else rng.choice(special, n)
        valid = None if number % 2 else rng.random(n) < 0.7
        ids = low + rng.integers(0, 4, n)
        sizes = np.bincount(ids - low, minlength=4)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        alone, whole = np.empty(n, np.int64), scores.copy()
        if number % 3 == 0:
            whole[rng.integers(n)] = rng.choice([np.inf, -np.inf, np.nan])
        finite = bool(np.isfinite(whole if valid is None else whole[valid]).all())
        order = np.argsort(ids, kind="stable")
        assert lists.pack(*(None if one is None else one[order] for one in (whole, positive, valid)), alone) == finite
        counts = np.zeros(4, np.int64)
        groups.count(ids, low, counts)
        assert counts.tolist() == sizes.tolist()
        begin, end = (starts[k] for k in np.sort(rng.integers(0, 5, 2)))
        masked = alone == np.iinfo(np.int64).max
        of_items = np.where(masked, alone, (alone & ~lists.LONGEST_LIST) | order)
        some_places, no_places = np.full(n, -7, np.int32), np.empty(0, np.int32)
        for first, last, places, want in (
            (0, n, None, of_items),
            (0, n, some_places, alone),
            (begin, end, no_places, alone),
            (begin, end, None, of_items),
        ):
            keys, free, buffer = np.full(last - first + 1, -7, np.int64), starts[:-1].copy(), np.empty(block, np.int64)
            found = lists.pack_groups(whole, positive, valid, ids, low, free, first, places, keys, buffer)
            assert found == finite
            assert keys[:-1].tolist() == want[first:last].tolist()
            assert free.tolist() == starts[1:].tolist()
        assert some_places.tolist() == np.argsort(order).tolist()
        for dtype in (np.float32, np.float64):
            found = np.empty(n, dtype)
            groups.gather(scores[order].astype(dtype), int(rng.integers(n + 1)), some_places, found)
            assert found.tolist() == scores.tolist()


def test_lists_are_numbered_by_their_ids():
    rng = np.random.default_rng(11)
    for _ in range(200):
        sizes = rng.integers(0, 4, int(rng.integers(1, 7)))
        numbers, starts = groups.number(sizes)
        present = np.flatnonzero(sizes)
        assert numbers[present].tolist() == list(range(present.size))
        assert starts.tolist() == [0, *np.cumsum(sizes[present])]


@pytest.mark.parametrize(
    "ids", [[5], [5, 5, 7], [7, 5, 7], [-3, 4, -3, 0], [2**62, -(2**63), 0], [2**63 - 1, -(2**63)]]
)
def test_lists_are_found_in_order_by_a_table_or_not_at_all(ids):
    low, numbers, starts = groups.find_lists(np.array(ids))
    if ids == sorted(ids):
        assert numbers.size == 0
        assert starts.tolist() == [k for k, one in enumerate(ids) if [one] != ids[k - 1 : k]] + [len(ids)]
    elif max(ids) - min(ids) > 4 * len(ids) + 1024:
        assert numbers.size == starts.size == 0
    else:
        assert low == min(ids)
        assert numbers[np.array(ids) - low].tolist() == [sorted(set(ids)).index(one) for one in ids]
        assert np.diff(starts).tolist() == [ids.count(one) for one in sorted(set(ids))]


@pytest.mark.parametrize("longest", [1, 3, 15, 16, 17, 33, 100, 1000, 2**20, 2**30])
def test_every_list_has_room_for_itself_and_little_more(longest):
    rng = np.random.default_rng(12)
    for number in range(30):
        lengths = rng.integers(1, longest + 1, int(rng.integers(1, 40)))
        lengths = lengths if number % 3 else np.full_like(lengths, longest)
        bounds, blocks = groups.stand(np.concatenate(([0], np.cumsum(lengths))))
        rooms = bounds[:, 1] - bounds[:, 0]
        if number % 3 == 0:
            assert rooms.tolist() == lengths.tolist()
        assert (rooms >= lengths).all()
        assert (rooms - lengths <= lengths / 8).all()
        assert set(rooms) <= set(lengths)
        inside = [row for start, many, room in blocks.tolist() for row in range(start, start + many * room, room)]
        assert inside == sorted(bounds[:, 0])  # rooms fill the blocks, and these stand one behind the other
        sizes = [room for _, many, room in blocks.tolist() for _ in range(many)]
        assert sizes == rooms[np.argsort(bounds[:, 0])].tolist()
        assert inside[0] == 0
        assert np.cumsum(sizes)[:-1].tolist() == inside[1:]
        assert len(set(blocks[:, 2])) == len(blocks)
        assert len(blocks) <= 8 * np.log2(longest) + 1


def test_lists_of_different_lengths_are_packed_one_by_one():
    rng = np.random.default_rng(13)
    for number in range(60):
        lengths = rng.integers(1, 40, int(rng.integers(1, 9)))
        starts = np.concatenate(([0], np.cumsum(lengths)))
        scores, positive, _ = random_keys(rng, int(starts[-1]))
        valid = None if number % 2 else rng.random(scores.size) < 0.7
        if number % 3 == 0:
            scores[rng.integers(scores.size)] = rng.choice([np.inf, -np.inf, np.nan])
        bounds, _ = groups.stand(starts)
        keys = np.full(bounds.max(), -7, np.int64)
        finite = lists.pack_lists(scores, positive, valid, starts, bounds, keys)
        assert finite == bool(np.isfinite(scores if valid is None else scores[valid]).all())
        alone = np.empty(scores.size, np.int64)
        lists.pack(scores, positive, valid, alone)
        for k, (first, last) in enumerate(bounds):
            rest = [lists._MASKED] * (last - first - lengths[k])
            assert keys[first:last].tolist() == [*alone[starts[k] : starts[k + 1]], *rest]


# --- counts ----------------------------------------------------------------------------------------------------------


def batch(rng, rows, N):
    """Scores, often tied or 0, those of a class often far from the others; classes, and a mask or None."""
    positive = rng.random((rows, N)) < rng.choice([0.0, 0.5, 1.0])
    scores = rng.integers(-3, 4, (rows, N)) / 2.0 if rng.random() < 0.5 else rng.normal(size=(rows, N))
    valid = None if rng.random() < 0.4 else rng.random((rows, N)) < 0.7
    return rng.choice([0.25, 1.0, 4.0]) * (scores + rng.choice([-2.0, 0.0, 2.0]) * positive), positive, valid


def all_of(valid, row, N):
    return np.ones(N, bool) if valid is None else valid[row]


def counted(scores, positive, valid):
    """By the kernel: sizes, and the score of the truth relative to the prediction."""
    sizes, truth = np.full((len(scores), 4), -7), np.full(len(scores), np.nan)
    counts.count(scores, positive, valid, sizes, truth)
    return sizes, truth


def test_items_are_counted_by_class_and_prediction():
    rng = np.random.default_rng(12)
    for _ in range(100):
        scores, positive, valid = batch(rng, 2, int(rng.integers(1, 7)))
        sizes, truth = counted(scores, positive, valid)
        for row, (s, t) in enumerate(zip(scores, positive, strict=True)):
            here = all_of(valid, row, s.size)
            selected = [(here & t).sum(), (here & ~t).sum(), (here & t & (s > 0)).sum(), (here & ~t & (s > 0)).sum()]
            assert sizes[row].tolist() == selected
            assert truth[row] == pytest.approx(s[here & t].sum() - s[here & (s > 0)].sum(), abs=1e-12)


def measure(tp, fp, P, alpha, beta):
    """T by its definition: 1 for nothing selected where nothing is positive."""
    if P == 0:
        return float(fp == 0)
    return tp / (tp + alpha * fp + beta * (P - tp)) if tp else 0.0


def all_selections(s, t, here, weight, alpha, beta):
    """The value of every selection of the largest of each class, relative to the scores that the prediction selects."""
    positives, negatives = -np.sort(-s[here & t]), -np.sort(-s[here & ~t])
    base = s[here & (s > 0)].sum()
    for tp in range(positives.size + 1):
        for fp in range(negatives.size + 1):
            value = positives[:tp].sum() + negatives[:fp].sum() - base
            yield tp, fp, value - weight * measure(tp, fp, positives.size, alpha, beta)


def tversky(scores, positive, valid, weights, alpha, beta):
    """The kernels in a row: thresholds and shares, relative sums, counts, and what they began with."""
    rows, N = scores.shape
    sizes, _ = counted(scores, positive, valid)
    near, outer, inner = np.full((rows, N + 2), np.nan), np.full(rows, -7), np.full(rows, -7)
    counts.collect(scores, positive, valid, weights, near, outer, inner)
    cuts, relative, chosen = np.full((rows, 2, 2), -7.0), np.full(rows, -7.0), np.full((rows, 2), -7)
    counts.tversky_cuts(near, outer, inner, sizes, weights, alpha, beta, cuts, relative, chosen)
    return cuts, relative, chosen


def test_cuts_attain_the_best_value():
    rng = np.random.default_rng(13)
    for number in range(300):
        scores, positive, valid = batch(rng, 3, int(rng.integers(1, 8)))
        weights = rng.choice([-1.0, 1.0], 3) * 2.0 ** rng.integers(-3, 5, 3)
        alpha, beta = [(0.5, 0.5), (1.0, 1.0), (0.25, 0.75), (2.0, 0.0), (0.3, 0.9), (0.0, 1.0)][number % 6]
        cuts, relative, chosen = tversky(scores, positive, valid, weights, alpha, beta)
        gradient = np.full(scores.shape, np.nan)
        counts.write(scores, positive, valid, cuts, None, np.ones(3), gradient)
        for row, (s, t, y) in enumerate(zip(scores, positive, gradient, strict=True)):
            here = all_of(valid, row, s.size)
            every = list(all_selections(s, t, here, weights[row], alpha, beta))
            tp, fp = chosen[row]
            value = relative[row] - weights[row] * measure(tp, fp, (here & t).sum(), alpha, beta)
            assert value == pytest.approx(max(value for *_, value in every), abs=1e-10)
            assert (y[t].sum(), y[~t].sum()) == pytest.approx((tp, fp))
            assert y @ s - s[here & (s > 0)].sum() == pytest.approx(relative[row], abs=1e-10)
            assert (y[~here] == 0).all()
            assert ((0 <= y) & (y <= 1)).all()


def test_list_without_a_weight_is_left_as_it_is():
    rng = np.random.default_rng(14)
    scores, positive = rng.normal(size=(3, 6)), rng.random((3, 6)) < 0.5
    cuts, relative, chosen = tversky(scores, positive, None, np.array([8.0, 0.0, -8.0]), 0.5, 0.5)
    assert (cuts[1] == -7).all()
    assert relative[1] == -7
    assert chosen[1].tolist() == [-7, -7]
    assert (chosen[[0, 2]] >= 0).all()


def test_items_that_may_change_sides_are_collected_in_order(monkeypatch):
    monkeypatch.setattr(counts, "SHORT", 6)
    rng = np.random.default_rng(15)
    for _ in range(100):
        scores, positive, valid = batch(rng, 4, int(rng.integers(1, counts.SHORT + 1)))
        weights = np.array([2.0, -2.0, 0.0, 1.0])
        near, outer, inner = np.full((4, scores.shape[1] + 2), np.nan), np.full(4, -7), np.full(4, -7)
        counts.collect(scores, positive, valid, weights, near, outer, inner)
        for row, (s, t) in enumerate(zip(scores, positive, strict=True)):
            here = all_of(valid, row, s.size) & (weights[row] != 0)
            first = t == (weights[row] > 0)
            dropped, added = near[row, : outer[row]], near[row, near.shape[1] - inner[row] :]
            assert dropped.tolist() == np.sort(s[here & first & (s > 0)]).tolist()
            assert added.tolist() == np.sort(-s[here & ~first & (s <= 0)]).tolist()


def test_cut_selects_a_share_of_what_lies_on_it():
    """By sign: of dropped scores those above are selected, of negated scores those below."""
    rng = np.random.default_rng(16)
    for _ in range(100):
        magnitudes = np.sort(rng.integers(0, 4, int(rng.integers(1, 7))) * 0.5)
        passed = int(rng.integers(0, magnitudes.size + 1))
        for sign, rest in ((1.0, magnitudes.size - passed), (-1.0, passed)):
            threshold, share = counts.cut(magnitudes, passed, sign)
            if passed == 0:
                assert (threshold, share) == (0.0, 0.0)
                continue
            scores = sign * magnitudes
            selected = (scores > threshold).sum() + share * (scores == threshold).sum()
            assert selected == pytest.approx(rest)
            assert threshold == sign * magnitudes[passed - 1]


def test_gradient_is_the_difference_of_two_selections():
    rng = np.random.default_rng(17)
    for number in range(100):
        scores, positive, valid = batch(rng, 2, 6)
        pair = rng.integers(-3, 4, (2, 2, 2, 2)) / 2.0
        factors, gradient = np.array([2.0, -0.5]), np.full(scores.shape, np.nan)
        counts.write(scores, positive, valid, pair[0], pair[1] if number % 2 else None, factors, gradient)
        for row, (s, t) in enumerate(zip(scores, positive, strict=True)):
            y = np.zeros((2, s.size))
            for output in range(1 + number % 2):
                threshold, share = pair[output, row, np.where(t, 0, 1)].T
                y[output] = np.where(s > threshold, 1.0, np.where(s == threshold, share, 0.0))
            expected = factors[row] * (y[0] - y[1]) * all_of(valid, row, s.size)
            assert gradient[row] == pytest.approx(expected)


def test_sums_of_the_largest_scores_are_relative_to_the_prediction():
    rng = np.random.default_rng(18)
    for _ in range(100):
        n = int(rng.integers(0, 7))
        ascending = np.sort(rng.integers(-3, 4, n) * 0.5)
        sums = np.full(n + 1, np.nan)
        above = counts.relative(ascending, sums)
        assert above == (ascending > 0).sum()
        largest = np.concatenate(([0.0], np.cumsum(ascending[::-1])))
        assert sums.tolist() == (largest - largest[above]).tolist()


def test_scores_far_away_do_not_spoil_relative_sums():
    sums = np.full(5, np.nan)
    assert counts.relative(np.array([-1e300, -0.1, 0.1, 1e300]), sums) == 2
    assert sums.tolist() == [-1e300, -0.1, 0.0, -0.1, -1e300]


def test_best_cell_is_the_first_of_the_largest():
    rng = np.random.default_rng(19)
    for _ in range(200):
        p, m = rng.integers(1, 5, 2)
        A, B, losses = (rng.integers(-3, 1, size) * 1.0 for size in (p, m, (p, m)))
        weight = float(rng.choice([-2, 0, 1]))
        values = A[:, None] + B + weight * losses
        place = np.unravel_index(values.argmax(), values.shape)
        assert counts.best_cell(A, B, losses, weight) == (values.max(), *place)
    losses[-1, -1] = np.nan
    assert np.isnan(counts.best_cell(A, B, losses, weight)[0])


# --- discounted gain -------------------------------------------------------------------------------------------------


def keyed(rng, N):
    """Scores and gains of two lists, the factors of the gains, and keys: many tied, many nearly; zeros of any sign."""
    whole = rng.random() < 0.5
    scores = (
        rng.integers(0, 3, (2, N)) * rng.choice([-1.0, 1.0], (2, N))
        if whole
        else 1 + rng.integers(-2, 3, (2, N)) * 2.0**-50
    )
    gains = rng.integers(0, 3, (2, N)) * (1.0 if whole else 2.0**-50)
    own, factors = float(rng.choice([1.0, -2.0])), rng.choice([-1.0, 0, 0.5], 2)
    return scores, gains, own, factors, own * scores - factors[:, None] * gains


def test_keys_fall_with_the_gain_and_masked_ones_are_least():
    rng = np.random.default_rng(20)
    for number in range(20):
        scores, gains, own, factors, expected = keyed(rng, 5)
        valid = rng.random((2, 5)) < 0.6 if number % 2 else None
        keys = np.full((2, 5), np.nan)
        discounted_gain.shift(scores, gains, valid, own, factors, keys)
        assert keys.tolist() == np.where(True if valid is None else valid, expected, -np.inf).tolist()


def test_items_get_the_mean_discount_of_the_ranks_that_they_share():
    """Whatever part of a key the integers hold: with 60 bits for the index they hold next to nothing of it."""
    rng = np.random.default_rng(21)
    for number in range(300):
        N = int(rng.integers(1, 8))
        scores, gains, own, factors, keys = keyed(rng, N)
        valid = rng.random((2, N)) < 0.7 if number % 2 else None
        least = np.array([rng.choice(row) for row in keys]) if number % 3 == 0 else None
        bits = int(rng.choice([3, 10, 40, 52, 60]))
        codes, kept = np.full((2, N + 1), -7, np.int64), np.full(2, -7)
        discounted_gain.pack(scores, gains, valid, own, factors, least, bits, codes, kept)
        discounts = -np.sort(-rng.random(int(rng.integers(1, N + 3))))
        sign, start = float(rng.choice([-1, 1])), rng.normal(size=(2, N))
        shares = start.copy()
        held = [all_of(valid, row, N) & (True if least is None else keys[row] >= least[row]) for row in (0, 1)]
        assert kept.tolist() == [some.sum() for some in held]
        for row in (0, 1):
            assert (codes[row, kept[row] :] == np.iinfo(np.int64).max).all()
            assert sorted(codes[row, : kept[row]] & 7) == np.flatnonzero(held[row]).tolist()
        codes = np.sort(codes)[:, : kept.max()]
        if bits <= 40 and (2 * keys % 1 == 0).all():  # the integers hold all of such keys
            assert all((np.diff(keys[row, codes[row, : kept[row]] & 7]) <= 0).all() for row in (0, 1))
        discounted_gain.place(codes, kept, scores, gains, own, factors, bits, discounts, sign, shares)
        behind = np.concatenate((discounts, np.zeros(N)))
        for row in (0, 1):
            for n in range(N):
                before = int((held[row] & (keys[row] > keys[row, n])).sum())
                tied = int((held[row] & (keys[row] == keys[row, n])).sum())
                mean = behind[before : before + tied].mean() if held[row][n] else 0.0
                assert shares[row, n] - start[row, n] == pytest.approx(sign * mean, abs=1e-12)


def test_dots_are_sums_of_products():
    one, other, sums = np.arange(6.0).reshape(2, 3), np.array([[1.0, -2.0, 4.0], [3.0, 0.5, 0.0]]), np.full(2, np.nan)
    discounted_gain.dots(one, other, sums)
    assert sums.tolist() == [6.0, 11.0]
