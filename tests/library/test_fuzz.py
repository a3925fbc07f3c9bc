"""The fuzzer passes what is right and finds what is wrong."""

import numpy as np
import pytest
import torch

from directloss import AveragePrecision, ZeroOne
from tests.fuzz import (
    ENUMERATED,
    Tally,
    broken_laws,
    draw,
    enumerated,
    fuzz,
    fuzzed_tasks,
    in_fractions,
    main,
    staircases,
)
from tests.fuzz_layouts import LAYOUTS, list_tasks

TASK = AveragePrecision()


class Heavier(AveragePrecision):
    """Wrong: takes more weight than it is told to."""

    def output(self, scores, target, weight, mask=None, groups=None):
        return super().output(scores, target, weight * 1.5 if isinstance(weight, torch.Tensor) else weight, mask)


class Forgetful(AveragePrecision):
    """Wrong: looks at the order of the input."""

    def output(self, scores, target, weight, mask=None, groups=None):
        return super().output(scores + 1e-3 * torch.arange(scores.shape[-1]), target, weight, mask)


class Raising(ZeroOne):
    """Wrong: fails on some lists."""

    def oracle(self, scores, target, weight, mask):
        if scores.shape[-1] == 3:
            raise ZeroDivisionError
        return super().oracle(scores, target, weight, mask)


def tally_of(tasks, batches=20):
    tally = Tally()
    fuzz(iter(range(1, 1 + batches)), 0, tasks, tally)
    return tally


def test_right_oracles_pass():
    tally = tally_of(fuzzed_tasks(), 60)
    assert tally.total > 5_000
    assert not tally.wrong
    assert not tally.failures


@pytest.mark.parametrize("task", [Heavier, Forgetful, Raising])
def test_a_wrong_oracle_is_found_and_becomes_a_small_test(task):
    tally = tally_of([task()])
    assert sum(tally.wrong.values()) > 0
    law = next(iter(tally.failures))
    tally.failures = {law: tally.failures[law]}
    tally.write_tests(set())
    (test,) = tally.tests.values()
    test = test.replace(f"from directloss import {task.__name__}\n", "")
    with pytest.raises(AssertionError):
        run(test, {task.__name__: task})
    run(test, {task.__name__: task.__base__})  # the right task passes it
    numbers = test.split("torch.tensor(")[1].split("]")[0]
    assert numbers.count(",") <= 4


def run(test, names):
    exec(test, names)
    names["test_fuzzed_list_keeps_every_law"]()


def test_same_seed_gives_the_same_lists():
    for number in range(5):
        one, other = (draw(np.random.default_rng((3, number)), [TASK]) for _ in range(2))
        assert one[0] == other[0]
        assert torch.equal(one[1].scores, other[1].scores)
        assert torch.equal(one[1].epsilon, other[1].epsilon)


def test_exact_answers_agree_with_fractions_and_with_each_other():
    rng = np.random.default_rng(0)
    for _ in range(50):
        P, M = rng.integers(1, ENUMERATED // 2 + 1, 2)
        a, b = (-np.sort(-rng.normal(size=n) * 10.0 ** rng.uniform(-30, 30, n)) for n in (P, M))
        epsilon = 10.0 ** rng.uniform(-30, 30)
        pairs, strength = (a[:, None] - b)[None], np.array([epsilon])
        want = in_fractions(a, b, epsilon)
        assert np.concatenate(enumerated(pairs, strength)) == pytest.approx(want, abs=1e-14)
        assert np.concatenate(staircases(pairs, strength)) == pytest.approx(want, abs=1e-14)


def test_a_list_that_keeps_every_law_breaks_none():
    assert broken_laws(TASK, torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1]), 0.5) == {}


@pytest.mark.slow
def test_command_prints_its_counts(capsys):
    assert main(["--minutes", "0.02", "--seed", "5", "--processes", "1"]) == 0
    captured = capsys.readouterr()
    assert "./dev fuzz --minutes 0.02 --seed 5" in captured.out
    assert "wrong: 0 of" in captured.out


def test_every_layout_gives_what_lists_give_alone():
    rng, listed = np.random.default_rng(0), list_tasks(fuzzed_tasks())
    assert len(listed) > 50
    for name, way in LAYOUTS.items():
        for task in listed[::3]:
            way(rng, task)
        assert name == way.__name__


def test_a_layout_that_goes_wrong_is_found():
    class Positional(AveragePrecision):
        """Wrong where lists lie one behind the other: looks at the place of an item among all of them."""

        def contrast(self, scores, target, spec, mask=None, groups=None):
            bias = 0.5 * torch.arange(scores.numel()).reshape(scores.shape)
            return super().contrast(scores + bias, target, spec, mask, groups)

    tally = Tally()
    fuzz(iter(range(10, 600, 10)), 0, [Positional()], tally)
    assert tally.wrong["layouts"] > 10
    tally.failures = {law: failure for law, failure in tally.failures.items() if failure.kind == "layout"}
    tally.write_tests(set())
    assert tally.tests
    assert all(text.startswith("layout, batch") for text in tally.tests.values())
