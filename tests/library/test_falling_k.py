"""A k that falls over the training."""

import pytest

from directloss import falling_k


def test_k_falls_by_equal_factors_and_ends_at_its_value():
    ks = [falling_k(step, 101, 5000, 10) for step in range(101)]
    assert (ks[0], ks[50], ks[-1]) == (5000, round((5000 * 10) ** 0.5), 10)
    assert ks == sorted(ks, reverse=True)
    assert falling_k(300, 101, 5000, 10) == 10  # a longer training


def test_a_short_list_has_no_fall():
    assert [falling_k(step, 3, 4, 10) for step in range(3)] == [10, 10, 10]
    assert falling_k(0, 1, 50, 10) == 50


@pytest.mark.parametrize("change", [{"step": -1}, {"steps": 0}, {"start": 0}, {"end": 0}])
def test_counts_are_positive(change):
    (name,) = change
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        falling_k(**{"step": 0, "steps": 10, "start": 20, "end": 5, **change})
    with pytest.raises(TypeError, match=f"{name} must be an integer"):
        falling_k(**{"step": 0, "steps": 10, "start": 20, "end": 5, name: 1.5})
