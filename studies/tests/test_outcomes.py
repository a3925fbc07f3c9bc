"""Outcomes: numbers under what they depend on, their means over classes, and paired comparisons."""

import pytest
from directloss_studies.report.outcomes import Outcomes, Unit, difference_records, records


def outcomes(values):
    """From (method, seed, class) to a value, all of one variant and noise."""
    found = Outcomes()
    for (method, seed, class_), value in values.items():
        found.put("v", 0.2, method, Unit(seed, class_), value)
    return found


@pytest.fixture
def two_classes():
    return outcomes(
        {
            (method, seed, of): base + seed + (10 if of == "cat" else 0)
            for method, base in (("pos-AP", 0.5), ("x-ent", 0.25))
            for seed in range(3)
            for of in ("car", "cat")
        }
    )


def test_comparison_is_paired_over_the_units_that_both_have():
    some = outcomes(
        {("a", 0, None): 1.0, ("a", 1, None): 3.0, ("a", 2, None): 5.0}
        | {("b", 1, None): 1.0, ("b", 2, None): 4.0, ("b", 9, None): 7.0}
    )
    found = some.compare("v", 0.2, "a", "b", "a − b")
    assert (found.name, found.differences, found.seeds) == ("a − b", (2.0, 1.0), 2)
    assert (found.mean, found.error) == (1.5, pytest.approx(0.5))
    assert some.compare("v", 0.3, "a", "b", "").differences == ()
    assert some.compare("v", 0.2, "a", "nobody", "").differences == ()


def test_a_pair_a_class_and_seed_and_nothing_if_one_is_missing(two_classes):
    classes = ("car", "cat")
    found = two_classes.compare("v", 0.2, "pos-AP", "x-ent", "", classes)
    assert (found.differences, found.seeds) == ((0.25,) * 6, 3)
    two_classes.put("v", 0.2, "x-ent", Unit(3, "car"), 1.0)
    assert two_classes.compare("v", 0.2, "pos-AP", "x-ent", "", classes).differences == ()
    assert len(two_classes.compare("v", 0.2, "pos-AP", "x-ent", "").differences) == 6


def test_means_over_classes_are_of_seeds_that_have_all(two_classes):
    two_classes.put("v", 0.2, "x-ent", Unit(3, "car"), 1.0)
    means = two_classes.means_over(("car", "cat"))
    assert means.units("v", 0.2, "x-ent") == {Unit(seed): 5.25 + seed for seed in range(3)}
    assert two_classes.of_class("car").units("v", 0.2, "x-ent") == {
        Unit(0): 0.25, Unit(1): 1.25, Unit(2): 2.25, Unit(3): 1.0,
    }  # fmt: skip


def test_records_have_mean_deviation_and_count(two_classes):
    (ours, theirs) = records("e", "test_ap", two_classes.of_class("car"))
    assert ours == ("e", "pos-AP", 0.2, "v", None, "test_ap", 1.5, 1.0, 3)
    assert theirs.mean == 1.25
    (difference,) = difference_records("e", two_classes)
    assert difference == ("e", "x-ent", 0.2, "v", None, "pos-AP_minus_this", 0.25, 0.0, 6)
    assert records("e", "m", outcomes({("a", 0, None): 1.0}))[0].sd is None
    few = outcomes({(method, seed, None): 1.0 for method in ("pos-AP", "x-ent") for seed in range(2)})
    assert difference_records("e", few) == []
