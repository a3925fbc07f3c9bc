"""What to take away: each sentence follows from the numbers."""

from directloss_studies.harness.study import Claim, Comparison
from directloss_studies.report.outcomes import Outcomes, Unit
from directloss_studies.report.takeaway import headline, takeaway

HOLDS, NOT, OPEN = (1.0, 1.1, 0.9), (-1.0, -1.1, -0.9), (1.0, -1.0, 0.5)


def claim(says, *comparisons, **more):
    return Claim(says, "here", [Comparison("a − b", each, len(each)) for each in comparisons], **more)


def outcomes(**methods):
    found = Outcomes()
    for method, values in methods.items():
        for seed, value in enumerate(values):
            found.put("v", 0.2, method.replace("_", "-"), Unit(seed), value)
    return found


METHODS = ("pos-AP", "hinge-AP", "x-ent")


def test_headline_names_the_best_method_and_its_lead_over_cross_entropy():
    some = outcomes(pos_AP=[0.9, 0.8, 0.85], x_ent=[0.7, 0.62, 0.63])
    assert headline(some, "v", 0.2, METHODS, "With noise") == (
        "With noise, pos-AP has the highest test AP (0.850), +0.200 against x-ent (95 % interval +0.150 to +0.250)."
    )


def test_headline_is_honest_where_another_method_is_best():
    some = outcomes(pos_AP=[0.8] * 3, hinge_AP=[0.9] * 3, x_ent=[0.7] * 3)
    assert headline(some, "v", 0.2, METHODS, "With noise") == (
        "With noise, hinge-AP has the highest test AP (0.900), +0.200 against x-ent (95 % interval +0.200 to +0.200); "
        "pos-AP has 0.800, +0.100 against x-ent (95 % interval +0.100 to +0.100)."
    )
    some = outcomes(pos_AP=[0.6] * 3, x_ent=[0.7] * 3)
    assert headline(some, "v", 0.2, METHODS, "Here") == (
        "Here, x-ent has the highest test AP (0.700); pos-AP has 0.600, −0.100 against x-ent "
        "(95 % interval −0.100 to −0.100)."
    )


def test_headline_of_one_seed_has_no_interval_and_of_one_method_there_is_none():
    some = outcomes(pos_AP=[0.9], x_ent=[0.7])
    expected = "Here, pos-AP has the highest test AP (0.900), +0.200 against x-ent."
    assert headline(some, "v", 0.2, METHODS, "Here") == expected
    assert headline(outcomes(pos_AP=[0.9]), "v", 0.2, METHODS, "Here") == ""
    assert headline(Outcomes(), "v", 0.2, METHODS, "Here") == ""


def test_three_sentences_say_what_holds_and_what_is_open():
    claims = [claim("A beats B", HOLDS), claim("A beats C", NOT, OPEN), claim("A beats D", HOLDS, OPEN)]
    assert takeaway("First.", claims, 3, 0) == [
        "First.",
        "Of 3 claims, 1 holds (A beats B), 1 holds in part (A beats D) and 1 is contradicted (A beats C).",
        "With 3 seeds, 2 of 5 comparisons are undecided: their intervals contain zero.",
    ]
    assert takeaway("", [claim("A beats B", HOLDS)], 3, 0) == [
        "The claim holds (A beats B).",
        "With 3 seeds, the only comparison is decided.",
    ]


def test_variants_of_a_claim_count_as_one_and_many_are_not_named():
    claims = [claim("A beats B", HOLDS), claim("A beats B", OPEN)]
    assert takeaway("", claims, 3, 0)[0] == "The claim holds in part (A beats B)."
    claims = [claim(f"A beats {k}", HOLDS) for k in range(4)]
    assert takeaway("", claims, 3, 0) == ["Of 4 claims, 4 hold.", "With 3 seeds, all 4 comparisons are decided."]


def test_nothing_is_concluded_from_too_few_runs():
    one_seed = [claim("A beats B", (1.0,))]
    assert takeaway("First.", one_seed, 1, 0) == [
        "First.",
        "There are too few runs to judge any claim: 1 seed, and at least three are needed.",
    ]
    unfinished = [claim("A beats B", HOLDS, complete=False)]
    assert takeaway("", unfinished, 3, 1) == ["1 run is missing, so nothing is concluded yet."]
    assert takeaway("", [], 0, 0) == []
