"""The kernels of counts and of discounted gain against their definitions, on lists small enough to try everything."""

import numpy as np
import pytest
from members import uncompile

from directloss.kernels import counts, discounted_gain


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    uncompile(monkeypatch, counts, discounted_gain)
    with np.errstate(all="ignore"):
        yield


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
        assert np.isnan(counts.best_cell(A, B, losses, 1.0)[0])


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
