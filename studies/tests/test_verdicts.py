"""Verdicts: each follows from where the 95 % interval lies, and from nothing else."""

import pytest
from directloss_studies.harness.study import Claim, Comparison
from directloss_studies.report.verdicts import (
    Verdict,
    blocks,
    counted,
    interval,
    judge,
    verdict,
)
from directloss_studies.report.words import counts_in_words
from scipy import stats

HOLDS, CONTRADICTED, UNDECIDED = Verdict.HOLDS, Verdict.CONTRADICTED, Verdict.UNDECIDED


def comparison(*differences, seeds=None):
    return Comparison("a − b", differences, len(differences) if seeds is None else seeds)


def shaped(of):
    """A comparison with this verdict."""
    return {
        HOLDS: comparison(1.0, 1.1, 0.9),
        CONTRADICTED: comparison(-1.0, -1.1, -0.9),
        UNDECIDED: comparison(1.0, -1.0, 0.5),
        Verdict.TOO_FEW: comparison(1.0, 1.1),
    }[of]


def claim(*verdicts, **more):
    return Claim("a is better than b", "here", [shaped(each) for each in verdicts], **more)


@pytest.mark.parametrize("count", [3, 4, 5, 10, 30])
def test_interval_is_that_of_a_paired_t_test(count):
    differences = [0.1 * ((7 * k) % 5) - 0.11 for k in range(count)]
    expected = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    assert interval(comparison(*differences)) == pytest.approx((expected.low, expected.high))


def test_verdict_turns_where_an_end_of_the_interval_crosses_zero():
    spread = (-0.1, 0.0, 0.1)
    reach = stats.t.ppf(0.975, 2) * 0.1 / 3**0.5
    for shift, expected in (
        (reach + 1e-9, HOLDS),
        (reach - 1e-9, UNDECIDED),
        (0.0, UNDECIDED),
        (1e-9 - reach, UNDECIDED),
        (-reach - 1e-9, CONTRADICTED),
    ):
        assert verdict(comparison(*(each + shift for each in spread))) is expected, shift


def test_differences_without_variance_decide_unless_they_are_zero():
    assert verdict(comparison(0.25, 0.25, 0.25)) is HOLDS
    assert verdict(comparison(-0.25, -0.25, -0.25)) is CONTRADICTED
    assert verdict(comparison(0.0, 0.0, 0.0)) is UNDECIDED
    assert interval(comparison(0.25, 0.25, 0.25)) == (0.25, 0.25)


@pytest.mark.parametrize("differences", [(), (1.0,), (1.0, 1.0)])
def test_fewer_than_three_seeds_decide_nothing(differences):
    assert interval(comparison(*differences)) is None
    assert verdict(comparison(*differences)) is Verdict.TOO_FEW
    assert judge(Claim("", "", [comparison(*differences)])) is Verdict.TOO_FEW


def test_many_pairs_of_two_seeds_decide_nothing():
    assert verdict(comparison(*[1.0, 1.1] * 10, seeds=2)) is Verdict.TOO_FEW
    assert verdict(comparison(*[1.0, 1.1] * 10, seeds=3)) is HOLDS


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([HOLDS], "holds"),
        ([HOLDS, HOLDS], "holds"),
        ([HOLDS, HOLDS, UNDECIDED], "holds in part"),
        ([HOLDS, UNDECIDED, UNDECIDED], "holds in part"),
        ([HOLDS, CONTRADICTED], "mixed"),
        ([HOLDS, UNDECIDED, CONTRADICTED], "mixed"),
        ([UNDECIDED], "undecided"),
        ([UNDECIDED, UNDECIDED], "undecided"),
        ([CONTRADICTED, UNDECIDED], "contradicted"),
        ([CONTRADICTED, CONTRADICTED], "contradicted"),
        ([HOLDS, Verdict.TOO_FEW], "too few runs to say"),
        ([CONTRADICTED, Verdict.TOO_FEW], "too few runs to say"),
        ([], "too few runs to say"),
    ],
)
def test_verdict_on_a_claim_follows_from_its_comparisons(verdicts, expected):
    assert judge(claim(*verdicts)) == expected
    assert judge([claim(*verdicts)]) == expected
    assert judge(claim(*verdicts[::-1])) == expected


def test_nothing_is_concluded_while_runs_are_missing():
    assert judge(claim(HOLDS, HOLDS, complete=False)) is Verdict.TOO_FEW
    assert judge([claim(HOLDS), claim(HOLDS, complete=False)]) is Verdict.TOO_FEW
    assert counted(claim(HOLDS, HOLDS, complete=False)) == {Verdict.TOO_FEW: 2}


def test_comparisons_are_counted_over_all_variants():
    found = counted([claim(UNDECIDED, HOLDS), claim(HOLDS, HOLDS, CONTRADICTED)])
    assert list(found.items()) == [(HOLDS, 3), (CONTRADICTED, 1), (UNDECIDED, 1)]
    assert counts_in_words(found) == "3 hold, 1 contradicted, 1 undecided"
    assert counts_in_words(counted(claim(HOLDS))) == "1 holds"
    assert counts_in_words(counted(claim())) == "1 with too few runs"


def test_claims_that_say_the_same_are_one_block():
    claims = [Claim("x", "one", []), Claim("y", "one", []), Claim("x", "two", []), Claim("x", "one", [], "ours")]
    assert [(block.says, block.source, [each.variant for each in block.claims]) for block in blocks(claims)] == [
        ("x", "the paper", ["one", "two"]),
        ("y", "the paper", ["one"]),
        ("x", "ours", ["one"]),
    ]
