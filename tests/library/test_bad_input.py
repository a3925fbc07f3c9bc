"""Bad input gets an error that names it, says what was expected and got, and how to mend it."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from members import average_precision_loss

from directloss import (
    NDCG,
    AveragePrecision,
    AveragePrecisionLoss,
    CentralDirect,
    ClassesSampler,
    FMeasure,
    Hinge,
    IoU,
    NegativeDirect,
    PositiveDirect,
    PositivesSampler,
    PrecisionAtK,
    RecallAtK,
    RetrievalLoss,
    ScoreMemory,
    StructuredLoss,
    WarmUp,
    WindowDirect,
    ZeroOne,
    checks,
    diagnose,
    direct_loss,
    metric,
    structured_loss,
)
from directloss.families import TRUTH, UpdateSpec
from directloss.kernels import lists as kernels
from directloss.testing import check_task

S = torch.tensor([[0.5, -1.0, 2.0], [0.1, 0.2, 0.3]])
T = torch.tensor([[1, 0, 1], [0, 1, 0]])
ALL = torch.ones(2, 3, dtype=torch.bool)


def at(values, index, value):
    values = values.clone()
    values[index] = value
    return values


LISTS = {
    "nan": (at(S, (1, 2), math.nan), T, None, ValueError, r"scores must be finite.*; got nan at index \(1, 2\)"),
    "too large": (at(S.double(), (0, 1), 1.5e308), T, None, ValueError, r"at most 1e\+300 in magnitude; got 1.5e\+308"),
    "inf": (at(S, (0, 1), math.inf), T, None, ValueError, r"got inf at index \(0, 1\)"),
    "-inf": (at(S, (0, 1), -math.inf), T, ALL, ValueError, r"got -inf at index \(0, 1\).*mask=False"),
    "nan in float64": (at(S.double(), (0, 0), math.nan), T, None, ValueError, "got nan"),
    "inf in float16": (at(S.half(), (0, 0), math.inf), T, None, ValueError, "got inf"),
    "target 2": (S, at(T, (0, 2), 2), None, ValueError, r"target must hold only 0 and 1.*; got 2 at index \(0, 2\)"),
    "target 0.5": (S, at(T.float(), (1, 0), 0.5), None, ValueError, r"got 0.5 at index \(1, 0\).*target > 0.5"),
    "target -1": (S, at(T, (0, 0), -1), ALL, ValueError, "got -1"),
    "target nan": (S, at(T.float(), (0, 0), math.nan), None, ValueError, "got nan"),
    "target shape": (S, T[:, :2], None, ValueError, r"scores has shape \(2, 3\) but target has shape \(2, 2\)"),
    "target to broadcast": (S, T[0], None, ValueError, r"target has shape \(3,\).*expand target"),
    "mask shape": (S, T, ALL[0], ValueError, r"mask has shape \(3,\)"),
    "mask type": (S, T, ALL.int(), TypeError, r"mask must be bool.*got torch.int32.*mask.bool\(\)"),
    "integer scores": (T, T, None, TypeError, r"scores must be raw scores of a floating-point type; got torch.int64"),
    "complex target": (S, T.to(torch.complex64), None, TypeError, "target must be bool, int or float"),
    "no list": (S[0, 0], T[0, 0], None, ValueError, "at least one dimension"),
    "scores no tensor": ([0.5, 1.0], T, None, TypeError, "scores must be a tensor; got list.*torch.as_tensor"),
    "target no tensor": (S, [[1, 0, 1]], None, TypeError, "target must be a tensor; got list"),
    "mask no tensor": (S, T, [True], TypeError, "mask must be a tensor; got list"),
    "devices": (S, T.to("meta"), None, ValueError, "scores is on cpu but target on meta. Move them"),
}  # fmt: skip


@pytest.mark.parametrize("task", [AveragePrecision(), ZeroOne()], ids=str)
@pytest.mark.parametrize("case", LISTS)
def test_bad_lists_are_refused(case, task):
    scores, target, mask, error, message = LISTS[case]
    with pytest.raises(error, match=message):
        StructuredLoss(task, PositiveDirect(1.0))(scores, target, mask)
    for oracle in (task.infer, task.truth, lambda *lists: task.infer_augmented(lists[0], lists[1], 1.0, lists[2])):
        with pytest.raises(error, match=message):
            oracle(scores, target, mask)


def test_index_in_one_list_is_a_number():
    with pytest.raises(ValueError, match="at index 1\\."):
        AveragePrecisionLoss()(torch.tensor([0.0, math.nan]), torch.tensor([0, 1]))


@pytest.mark.parametrize("update", [PositiveDirect, NegativeDirect, CentralDirect, Hinge])
@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ValueError), (-1, ValueError), (math.nan, ValueError), (math.inf, ValueError), (1e-320, ValueError),
     (10**400, ValueError), ("1", TypeError), (True, TypeError), (None, TypeError), (torch.tensor(1), TypeError),
     (torch.tensor([1.0, 0.0]), ValueError), (torch.tensor([1.0, math.nan]), ValueError)],
)  # fmt: skip
def test_bad_strength_is_refused(update, value, error):
    name = "margin" if update is Hinge else "epsilon"
    with pytest.raises(error, match=f"{name} must be .* got"):
        update(value)


@pytest.mark.parametrize(
    ("weight", "error"),
    [(math.nan, ValueError), (math.inf, ValueError), (-math.inf, ValueError), ("1", TypeError),
     (torch.tensor(1), TypeError), (torch.tensor([1.0, math.inf]), ValueError)],
)  # fmt: skip
def test_bad_weight_is_refused(weight, error):
    for task in (AveragePrecision(), ZeroOne()):
        with pytest.raises(error, match="weight must be"):
            task.infer_augmented(S, T, weight)


@pytest.mark.parametrize("task", [AveragePrecision(), ZeroOne()], ids=str)
def test_strength_of_another_shape_than_the_batch_is_refused(task):
    with pytest.raises(ValueError, match=r"weight has shape \(3,\) but the batch of lists has shape \(2,\)"):
        StructuredLoss(task, PositiveDirect(torch.ones(3)))(S, T)
    with pytest.raises(ValueError, match=r"weight has shape \(2, 1\) but the batch of lists has shape \(2,\)"):
        task.infer_augmented(S, T, torch.ones(2, 1))


class Mine(NamedTuple):
    """An update whose spec is given."""

    spec: UpdateSpec


def test_a_list_in_the_shape_of_lists_of_one_item_is_refused_with_the_cure():
    scores, target = torch.zeros(8, 1), torch.ones(8, 1)
    with pytest.raises(ValueError, match=r"shape \(8, 1\): 8 lists of one item.*scores.squeeze\(-1\)"):
        AveragePrecisionLoss()(scores, target)
    assert AveragePrecisionLoss()(scores, target, torch.ones(8, 1, dtype=torch.bool)) == 0  # masked: on purpose
    assert AveragePrecisionLoss()(scores[:1], target[:1]) == 0  # a list of one in a batch of one
    assert StructuredLoss(ZeroOne(), PositiveDirect(1.0))(scores, target) > 0  # nothing is ranked here


@pytest.mark.parametrize("task", [AveragePrecision(), NDCG(), PrecisionAtK(), RecallAtK(), FMeasure(), IoU()], ids=repr)
def test_lists_of_one_item_are_refused_by_all_that_measure_lists(task):
    scores, target = torch.randn(8, 1, requires_grad=True), torch.ones(8, 1)
    for call in (
        StructuredLoss(task, PositiveDirect(1.0)),
        StructuredLoss(task, PositiveDirect(1.0), ignore_index=-1),
        WarmUp(StructuredLoss(task, PositiveDirect(1.0), ignore_index=-1), 1),
        partial(metric, task),
        partial(metric, task, ignore_index=-1),
        partial(diagnose, task),
        partial(StructuredLoss(task, PositiveDirect(1.0)), dim=1),
        partial(metric, task, dim=1),
    ):
        with pytest.raises(ValueError, match="8 lists of one item each"):
            call(scores, target)
    with pytest.raises(ValueError, match=r"target has shape \(8,\).* Pass scores.squeeze\(-1\)"):
        StructuredLoss(task, PositiveDirect(1.0))(scores, target.squeeze(-1))
    assert StructuredLoss(task, PositiveDirect(1.0))(scores[:0], target[:0]) == 0


def test_a_batch_of_one_sample_is_a_list_of_one_for_each_class():
    scores, target = torch.randn(1, 5, requires_grad=True), torch.tensor([[1, 0, 0, 1, 0]])
    for loss in (AveragePrecisionLoss(), AveragePrecisionLoss(ignore_index=-1)):
        assert loss(scores, target, dim=0) == 0
    assert metric(AveragePrecision(), scores, target, dim=0).isnan()
    assert AveragePrecisionLoss(ignore_index=torch.tensor(0))(scores, target) == 0  # a number, too
    one = RetrievalLoss()(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]), torch.randn(1, 3), torch.tensor([1]))
    assert one == 0


@pytest.mark.parametrize("target", [torch.tensor(True), torch.tensor(1), torch.tensor(1.0)])
def test_a_single_number_is_refused_with_the_cure(target):
    for call in (AveragePrecisionLoss(), partial(metric, AveragePrecision())):
        with pytest.raises(ValueError, match=r"got a single number.*write squeeze\(-1\) and not squeeze\(\)"):
            call(torch.tensor(1.0), target)


def test_two_scores_for_each_item_are_refused_with_the_cure():
    with pytest.raises(ValueError, match=r"pass scores\[..., 1\] - scores\[..., 0\]"):
        AveragePrecisionLoss()(torch.randn(6, 2), torch.ones(6))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dim": 5}, ValueError, r"dim must be from -2 to 1 for scores of shape \(4, 4\); got 5"),
        ({"dim": -3}, ValueError, "got -3"),
        ({"dim": "0"}, TypeError, "dim must be an integer; got '0'"),
        ({"dim": 0, "indexes": torch.zeros(4, 4, dtype=torch.long)}, ValueError, "pass dim or indexes, not both"),
        ({"ignore_index": "-1"}, TypeError, "ignore_index must be a number.*got '-1' of type str"),
    ],
)
def test_options_of_shapes_are_checked(options, error, words):
    scores, target = torch.randn(4, 4), torch.eye(4)
    for call in (average_precision_loss, partial(metric, AveragePrecision())):
        with pytest.raises(error, match=words):
            call(scores, target, **options)


@pytest.mark.parametrize("task", [AveragePrecision(), ZeroOne()], ids=str)
def test_a_spec_that_is_not_finite_is_refused(task):
    for spec in (UpdateSpec(math.inf, 0.0, 1.0), UpdateSpec(0.0, -math.inf, 1.0), UpdateSpec(0.0, TRUTH, math.nan)):
        with pytest.raises(ValueError, match="must be finite; got"):
            StructuredLoss(task, Mine(spec))(S, T)


def test_bad_reduction_is_refused():
    with pytest.raises(ValueError, match="reduction must be one of 'mean', 'sum', 'none'; got 'avg'"):
        AveragePrecisionLoss(reduction="avg")
    with pytest.raises(ValueError, match="reduction must be one of"):
        average_precision_loss(S, T, reduction="avg")
    with pytest.raises(ValueError, match="reduction must be one of"):
        direct_loss((S, 0.0), (S, 0.0), PositiveDirect(1.0), reduction="avg")


def test_bad_pairs_are_refused():
    score = torch.zeros(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"away must be a pair \(score, task loss\); got tensor"):
        direct_loss(torch.tensor([1.0, 2.0]), (score, 0.0), PositiveDirect(1.0))  # pyright: ignore
    with pytest.raises(TypeError, match=r"away must be a pair \(score, task loss\); got \("):
        direct_loss((score, 0.0, 1.0), (score, 0.0), PositiveDirect(1.0))
    with pytest.raises(TypeError, match=r"toward\[0\] must be a differentiable score"):
        direct_loss((score, 0.0), (1, 0.0), PositiveDirect(1.0))
    with pytest.raises(ValueError, match=r"away has a score of shape \(3,\) but a task loss of shape \(2,\)"):
        direct_loss((score, torch.zeros(2)), (score, 0.0), PositiveDirect(1.0))
    with pytest.raises(ValueError, match=r"away has scores of shape \(3,\) but toward of shape \(2,\)"):
        direct_loss((score, 0.0), (score[:2], 0.0), PositiveDirect(1.0))


def test_list_longer_than_a_kernel_can_number_is_refused(monkeypatch):
    monkeypatch.setattr(kernels, "LONGEST_LIST", 2)
    with pytest.raises(ValueError, match="a list may have at most 2 items; got 3"):
        AveragePrecisionLoss()(S, T)


@pytest.mark.parametrize("update", [1.0, PositiveDirect, None])
def test_what_is_no_update_is_refused_at_once(update):
    with pytest.raises(TypeError, match=r"update must be an instance such as PositiveDirect\(1.0\); got"):
        AveragePrecisionLoss(update)  # pyright: ignore


def test_what_is_no_task_is_refused_at_once():
    with pytest.raises(TypeError, match=r"task must be an instance such as AveragePrecision\(\); got"):
        StructuredLoss(AveragePrecision, PositiveDirect(1.0))  # pyright: ignore
    with pytest.raises(TypeError, match="task must be an instance"):
        structured_loss(AveragePrecision, PositiveDirect(1.0), S, T)  # pyright: ignore
    with pytest.raises(TypeError, match="task must be an instance"):
        StructuredLoss(PositiveDirect(1.0), AveragePrecision())  # pyright: ignore


def test_strength_is_kept_as_a_float():
    assert repr(PositiveDirect(2)) == "PositiveDirect(epsilon=2.0)"
    assert type(Hinge(3).margin) is float


NAN, INF = math.nan, math.inf
NUMBERS = {  # a check of one number: what it takes, and what it refuses
    "count": (partial(checks.check_count, "k"), [1, 2, np.int64(3)], [0, -1, True, 1.0, "1", None]),
    "number of 0 or more": (
        partial(checks.check_not_negative, "beta"), [0, 0.5, 1, 1e300, np.float32(2)], [-0.1, INF, NAN, True, "1"],
    ),
    "share": (partial(checks.check_share, "x"), [1e-9, 0.5, 1, 1.0], [0, 0.0, -0.1, 1.1, 2, NAN, "0.5", None]),
    "share or 0": (partial(checks.check_share, "x", zero=True), [0, 0.0, 0.5, 1], [-0.1, 1.1, 2, NAN, "0.5", None]),
    "steps": (checks.check_steps, [0, 1, np.int64(5)], [-1, True, 1.5, "1", None]),
    "rate": (partial(checks.check_rate, "x"), [1e-9, 0.5, 1, 7], [0, 0.0, -1, INF, NAN, True, "1", None]),
    "rate or 0": (partial(checks.check_rate, "x", zero=True), [0, 0.0, 0.5, 1], [-1, INF, NAN, False, "1", None]),
    "layers": (partial(checks.check_layers, "x"), [(), (64,), [3, 1]], [64, "64", None, (0,), (3, 1.5), [True]]),
    "strength": (
        partial(checks.check_positive, "epsilon"),
        [1e-99, 1, 1e99, np.float32(2), torch.tensor(1e-99, dtype=torch.float64), torch.tensor([1e-30, 1e30])],
        [1e-101, 1e101, torch.tensor([1.0, 1e101], dtype=torch.float64), torch.tensor(1e-101, dtype=torch.float64)],
    ),
    "weight": (checks.check_weight, [0, -1, 1e300, torch.tensor([-1.0])], [INF, -INF, NAN, True, "1", torch.tensor(1)]),
}  # fmt: skip


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_up_to_their_limits_are_taken_and_others_refused(case):
    check, taken, refused = NUMBERS[case]
    for value in taken:
        check(value)
    for value in refused:
        with pytest.raises((TypeError, ValueError), match="must be"):
            check(value)


def test_a_check_that_returns_a_number_returns_it_as_pythons_own():
    assert type(checks.check_steps(np.int64(5))) is int  # pyright: ignore
    assert type(checks.check_positive("epsilon", np.float32(2))) is float  # pyright: ignore
    assert type(checks.check_weight(-2)) is float


LIST, LABELS = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([1, 0, 0])
SLIPS = {
    "labels as a list": (lambda: AveragePrecisionLoss()(LIST, [1, 0, 0]), "target must be a tensor; got list"),
    "a flat list of labels": (
        lambda: AveragePrecisionLoss()(LIST, [1, 0, 0], indexes=LABELS),
        "target must be a tensor; got list",
    ),
    "a flat list as mask": (
        lambda: AveragePrecisionLoss()(LIST, LABELS, [True] * 3, indexes=LABELS),
        "mask must be a tensor; got list",
    ),
    "ids that are floats": (lambda: AveragePrecisionLoss()(LIST, LABELS, indexes=LIST), r"Pass indexes.long\(\)"),
    "a number as update": (lambda: AveragePrecisionLoss(0.1), r"Pass update=PositiveDirect\(0.1\)"),
    "an update as task": (lambda: RetrievalLoss(PositiveDirect(0.05)), r"Pass update=PositiveDirect"),
    "a class as task": (lambda: metric(AveragePrecision, LIST, LABELS), r"Pass AveragePrecision\(\)"),
    "a loss as task": (lambda: metric(AveragePrecisionLoss(), LIST, LABELS), "task must be an instance"),
    "a class to check": (lambda: check_task(AveragePrecision), r"Pass AveragePrecision\(\)"),
    "a class to warm up": (lambda: WarmUp(AveragePrecisionLoss, steps=1), r"Pass AveragePrecisionLoss\(\)"),
    "a class with a memory": (lambda: ScoreMemory(AveragePrecisionLoss, LABELS), r"Pass AveragePrecisionLoss\(\)"),
    "a task to warm up": (lambda: WarmUp(AveragePrecision(), steps=1), r"Pass AveragePrecisionLoss\(\)"),
    "labels in the place of a loss": (lambda: ScoreMemory(LABELS, LIST), "loss must be an instance"),
    "a class to diagnose": (lambda: diagnose(AveragePrecision, LIST, LABELS), "task must be an instance"),
    "a list to diagnose": (lambda: diagnose(AveragePrecision(), [0.5], LABELS), "scores must be a tensor"),
    "nothing to diagnose": (lambda: diagnose(AveragePrecision(), LIST, 0 * LABELS), "no list counts"),
    "a column as metric": (lambda: metric(AveragePrecision(), LIST[:, None], LABELS[:, None]), r"squeeze\(-1\)"),
    "a mask too long": (
        lambda: metric(AveragePrecision(), LIST, LABELS, torch.ones(4, dtype=torch.bool), indexes=LABELS),
        r"mask has shape \(4,\)",
    ),
    "too many epsilons": (
        lambda: AveragePrecisionLoss(PositiveDirect(torch.ones(2)))(LIST, LABELS),
        r"shape \(2,\) but the batch of lists has shape \(\). Pass an ε, margin",
    ),
    "weights as a list": (lambda: AveragePrecisionLoss()(S, T, weight=[1, 2]), "got list. Wrap it in torch.as_tensor"),
    "arrays to search": (lambda: RetrievalLoss()(S.numpy(), LABELS[:2]), "embeddings must be a tensor; got ndarray"),
    "labels of -1": (lambda: AveragePrecisionLoss()(LIST, LABELS - 1), "ignore_index="),
    "labels of -1 to remember": (
        lambda: ScoreMemory(AveragePrecisionLoss(), LABELS - 1)(LIST, torch.arange(3)),
        "target must hold only 0 and 1",
    ),
    "nan to remember": (
        lambda: ScoreMemory(AveragePrecisionLoss(), LABELS).remember(LIST / 0 * 0, torch.arange(3)),
        "scores must be finite",
    ),
    "swapped": (lambda: AveragePrecisionLoss()(LABELS.float(), LIST), "Are they swapped. Scores come first"),
    "swapped labels": (lambda: metric(AveragePrecision(), LABELS, LIST), "Are they swapped. Scores come first"),
    "integer scores": (lambda: AveragePrecisionLoss()(torch.arange(3), LABELS.float()), r"scores.float\(\)"),
    "a grade for a label": (lambda: AveragePrecisionLoss()(LABELS.float(), LABELS * 2), "Threshold it"),
    "ends of two shapes": (
        lambda: WindowDirect(torch.ones(2), torch.ones(3)),
        r"above has shape \(2,\) and below \(3,\)",
    ),
    "labels of nan": (
        lambda: ClassesSampler(torch.tensor([0.0, torch.nan]), 2, 2),
        "labels must be finite; got nan at index 1",
    ),
    "swapped grades": (lambda: metric(NDCG(), LABELS.float(), LIST - 3), "Are they swapped. Scores come first"),
    "sparse scores": (
        lambda: AveragePrecisionLoss()(S.to_sparse(), T),
        r"one of torch.sparse_coo. Pass scores.to_dense\(\)",
    ),
    "nested scores": (
        lambda: AveragePrecisionLoss()(torch.nested.nested_tensor(list(S), layout=torch.jagged), T),
        "a nested one. Pass flat lists, with indexes=",
    ),
    "an ignored value of another type": (
        lambda: AveragePrecisionLoss(ignore_index=-100)(LIST, torch.tensor([1, 0, 156], dtype=torch.uint8)),
        "target must hold only 0 and 1 where valid; got 156",
    ),
    "nan embeddings": (
        lambda: RetrievalLoss()(S / 0 * 0, LABELS[: len(S)]),
        r"^embeddings must be finite; got nan at index \(0, 0\)",
    ),
    "a column of labels": (lambda: PositivesSampler(LABELS[:, None], 4), r"shape \(samples,\)"),
    "labels that are none": (lambda: PositivesSampler(LABELS * 2, 4), "target must hold only 0 and 1"),
    "a batch of one": (lambda: PositivesSampler(LABELS, 1), "batch_size must be at least 2; got 1"),
    "a share that is none": (lambda: PositivesSampler(LABELS, 4, 2.0), "share must be a share"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_slips_of_newcomers_are_told_the_cure(slip):
    call, words = SLIPS[slip]
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_batches_have_positives_whatever_type_labels_have():
    for target in (LABELS, LABELS.float(), LABELS.bool()):
        items = next(iter(PositivesSampler(target, 8, 0.25, torch.Generator().manual_seed(0))))
        assert int((target[items] != 0).sum()) == 2
