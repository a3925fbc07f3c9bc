"""How lists become sorted keys, how items are grouped, and how counts of pairs become features."""

import numpy as np
import pytest
from members import uncompile

from directloss.kernels import lists


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    uncompile(monkeypatch, lists)
    with np.errstate(all="ignore"):
        yield


def packed(scores, positive, valid=None):
    """The keys of one list, and whether its valid scores are finite."""
    keys = np.full((1, scores.size), -7, np.int64)
    finite = lists.pack(scores, positive, valid, np.array([0, scores.size]), np.zeros(1, np.int64), keys)
    return keys[0], finite


def random_keys(rng, n):
    """Scores that are often tied, classes, and sorted keys of both."""
    scores, positive = rng.integers(-2, 3, n).astype(np.float32), rng.random(n) < 0.5
    keys, finite = packed(scores, positive)
    assert finite
    return scores, positive, np.sort(keys)


def test_keys_hold_the_scores_to_the_last_bit():
    """Of every sign and size; and in float64, among scores that float32 cannot tell apart."""
    tiny, large = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    scores = np.array([[0.0, -0.0, 1.0, -1.0, tiny, -tiny, large, -large, 1.5, -1.5, 3e-39, -3e-39]], np.float32)
    positive = np.arange(12)[None] % 3 == 0
    keys = packed(scores[0], positive[0])[0].reshape(1, 12)
    keys.sort()
    unpacked = np.empty(12)
    lists._unpack(keys[0], unpacked)
    assert unpacked.tolist() == sorted(scores[0].tolist(), reverse=True)
    ranked = keys[0] & lists.LONGEST_LIST
    assert scores[0][ranked].tolist() == unpacked.tolist()
    assert ((keys[0] >> lists.INDEX_BITS) & 1 == ~positive[0][ranked]).all()
    exact = scores[0].astype(np.float64) * (1 + np.arange(12) * 1e-12) + 1e-60 * np.arange(12)
    lists._unpack_exactly(keys[0], exact, unpacked)
    assert unpacked.tolist() == sorted(exact.tolist(), reverse=True)
    assert exact[keys[0] & lists.LONGEST_LIST].tolist() == unpacked.tolist()


def test_scores_that_float32_cannot_hold_are_told():
    scores, positive = np.array([1.0, np.inf, np.nan], np.float32), np.ones(3, bool)
    assert packed(scores[:1], positive[:1])[1]
    assert not packed(scores, positive)[1]
    assert not packed(scores, positive, np.array([True, True, False]))[1]
    keys, finite = packed(scores, positive, np.array([True, False, False]))
    assert finite
    assert (np.sort(keys)[1:] == lists._MASKED).all()


def test_lists_of_different_lengths_are_packed_as_each_alone():
    rng = np.random.default_rng(13)
    for number in range(60):
        lengths = rng.integers(0, 9, int(rng.integers(1, 9)))
        starts = np.concatenate(([0], np.cumsum(lengths)))
        scores, positive, _ = random_keys(rng, int(starts[-1]))
        valid = None if number % 2 else rng.random(scores.size) < 0.7
        which = rng.permutation(lengths.size)[: int(rng.integers(1, lengths.size + 1))]
        inside = np.isin(np.repeat(np.arange(lengths.size), lengths), which)
        if number % 3 == 0 and scores.size:
            scores[rng.integers(scores.size)] = rng.choice([np.inf, -np.inf, np.nan])
        keys = np.full((which.size, lengths.max() + 1), -7, np.int64)
        finite = lists.pack(scores, positive, valid, starts, which, keys)
        assert finite == np.isfinite(scores[inside if valid is None else inside & valid]).all()
        for k, row in zip(which, keys, strict=True):
            items = slice(starts[k], starts[k + 1])
            alone, _ = packed(scores[items], positive[items], None if valid is None else valid[items])
            assert row[: lengths[k]].tolist() == alone.tolist()
            assert (row[lengths[k] :] == lists._MASKED).all()


def test_items_are_sorted_by_id_and_those_of_one_id_stay_in_order():
    rng = np.random.default_rng(10)
    for _ in range(100):
        n, most = int(rng.integers(1, 12)), int(rng.integers(1, 6))
        ids = rng.integers(0, most, n)
        order, numbers = np.full((2, n), -7)
        starts = lists.sort_by_id(ids, most, order, numbers)
        assert order.tolist() == np.argsort(ids, kind="stable").tolist()
        present, places, sizes = np.unique(ids, return_inverse=True, return_counts=True)
        assert numbers.tolist() == places.tolist()
        assert starts.tolist() == [0, *np.cumsum(sizes)]
        assert present.size == starts.size - 1


def test_classes_are_counted_in_every_list():
    """Among them one of which nothing is valid."""
    negative = np.array([[0, 1, 1], [1, 1, 1], [0, 0, 1], [0, 0, 0]], np.int64) << lists.INDEX_BITS
    negative[2, 2] = negative[3] = lists._MASKED
    assert lists.count_all(negative).tolist() == [[1, 2], [0, 3], [2, 0], [0, 0]]
    assert lists.count_all(negative[:0]).shape == (0, 2)


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


@pytest.mark.parametrize("unit", [1e-9, 1e3])  # by parts, and as a plain sum
def test_a_closed_list_gives_features_and_the_difference_of_scores(unit):
    rng = np.random.default_rng(9)
    for _ in range(100):
        n = int(rng.integers(2, 9))
        scores, positive, keys = random_keys(rng, n)
        P = int(positive.sum())
        floats, integers = np.full((3, n), np.nan), np.full((4, n + 1), 99, np.int32)
        tied = lists.open_list(keys, None, floats, integers)
        assert tied == (len(set(scores.tolist())) < n)
        low, high = np.sort(np.sort(rng.integers(0, n - P + 1, (2, P))), 0).astype(np.int32)
        lists.count_output(low, low, 1, integers[2, :P], integers[3, : n - P + 1])
        lists.count_output(high, high, -1, integers[2, :P], integers[3, : n - P + 1])
        gradient, alone = np.full((2, n), np.nan)
        same = integers.copy()
        assert lists.close_list(keys, P, tied, False, unit, 0.5, 3.0, floats, same, alone) == 0
        score = lists.close_list(keys, P, tied, True, unit, 0.5, 3.0, floats, integers, gradient)
        assert alone.tolist() == gradient.tolist()
        assert gradient.sum() == pytest.approx(0, abs=1e-9)
        assert score == pytest.approx(gradient @ scores / 3.0, abs=1e-9)


def test_the_value_of_a_list_is_the_scaled_difference_of_two_objectives():
    numbers = np.array([[2.0, -1.0, 0.5, 3.0, 0.25, 0.75], [0.0, 1.0, 2.0, -1.0, 0.5, 0.125]])  # away, toward, scale, …
    values = np.full(2, np.nan)
    lists.write_values(numbers, values)
    assert values.tolist() == [0.5 * (3.0 + 2.0 * 0.25 + 0.75), 2.0 * (-1.0 - 0.125)]
