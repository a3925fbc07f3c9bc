"""Precision by score: a monotone curve that is right on cases with known answers."""

import numpy as np
import pytest
from directloss_studies.vision.calibration import check_knots, fit_precision, precision_at
from sklearn.isotonic import IsotonicRegression


def fitted(scores, right):
    return fit_precision(np.asarray(scores, dtype=float), np.asarray(right, dtype=bool))


def precisions(knots, scores) -> list[float]:
    """At every score; there must be a knot."""
    return [value for score in scores.tolist() if (value := precision_at(knots, score)) is not None]


def random_case(random):
    count = int(random.integers(1, 60))
    scores = random.integers(-5, 6, count) / 4 if random.random() < 0.5 else random.normal(size=count)
    return scores, random.random(count) < 1 / (1 + np.exp(-2 * scores))


def test_it_is_isotonic_regression_with_a_wrong_detection_added_at_the_top():
    random = np.random.default_rng(0)
    for _ in range(200):
        scores, right = random_case(random)
        knots = fitted(scores, right)
        given = np.append(scores, scores.max()), np.append(right, False).astype(float)
        expected = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(*given)
        places = np.concatenate([scores, random.normal(size=20) * 3])
        np.testing.assert_allclose(precisions(knots, places), expected.predict(places), atol=1e-6)


def test_it_is_right_where_the_precision_is_known():
    scores = np.repeat([-1.0, 0.0, 1.0], 1000)
    right = np.concatenate([np.arange(1000) < hits for hits in (0, 300, 900)])
    knots = fitted(scores, right)
    assert [score for score, _ in knots] == [-1, 0, 1]
    for score, expected in ((-5, 0), (-1, 0), (0, 0.3), (0.5, 0.6), (1, 0.9), (7, 0.9)):
        assert precision_at(knots, score) == pytest.approx(expected, abs=2e-3)


def test_a_few_right_ones_at_the_top_are_not_certain():
    assert fitted([1, 2, 3], [0, 1, 1]) == ((1, 0), (2, 2 / 3), (3, 2 / 3))
    assert fitted([4], [1]) == ((4, 0.5),)
    assert fitted([1, 2], [1, 0]) == ((1, 1 / 3), (2, 1 / 3))  # a wrong one above it
    assert fitted([2, 2, 2], [1, 0, 1]) == ((2, 0.5),)


def test_order_does_not_matter_and_the_scale_of_scores_scales_the_knots():
    random = np.random.default_rng(2)
    scores, right = random.normal(size=40), random.random(40) < 0.4
    order = random.permutation(40)
    assert fitted(scores[order], right[order]) == fitted(scores, right)
    assert fitted(8 * scores, right) == tuple((8 * score, precision) for score, precision in fitted(scores, right))


@pytest.mark.parametrize(
    ("knots", "message"),
    [
        (((1, 0.5), (1, 0.6)), "rising scores"),
        (((2, 0.5), (1, 0.6)), "rising scores"),
        (((1, 0.5), (2, 0.4)), "never falls"),
        (((1, -0.1),), "from 0 to 1"),
        (((1, 0.1), (2, 1.1)), "from 0 to 1"),
        (((1, float("nan")),), "from 0 to 1"),
    ],
)
def test_a_curve_that_cannot_be_is_refused(knots, message):
    with pytest.raises(ValueError, match=message):
        check_knots(knots)
