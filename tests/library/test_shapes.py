"""The shapes that people have give what padded lists give: dimensions, ignored items, flat lists, weights, queries."""

from functools import partial

import numpy as np
import pytest
import torch
from members import LISTS, average_precision_loss
from sklearn.metrics import average_precision_score

from directloss import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    AveragePrecisionLoss,
    CentralDirect,
    FMeasure,
    Hinge,
    IoU,
    LinearChain,
    MulticlassZeroOne,
    NegativeDirect,
    Perturbed,
    PositiveDirect,
    RetrievalLoss,
    StructuredLoss,
    WarmUp,
    metric,
)
from directloss.checks import check_list_task
from directloss.groups import group, parts


def gradient(loss, scores, *arguments, **options):
    scores = scores.detach().requires_grad_()
    value = loss(scores, *arguments, **options)
    return value.detach(), torch.autograd.grad(value.sum(), scores)[0]


def ragged(lengths, seed=0, dtype=torch.float64):
    """Flat lists in a random order: scores, target, ids; and the same padded: scores, target, mask."""
    generator = torch.Generator().manual_seed(seed)
    n, longest = sum(lengths), max(lengths)
    ids = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    scores = torch.randn(n, generator=generator, dtype=torch.float64).to(dtype)
    target = torch.rand(n, generator=generator) < 0.4
    mask = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
    padded = torch.full(mask.shape, torch.nan, dtype=dtype).masked_scatter(mask, scores)
    labels = torch.zeros_like(mask).masked_scatter(mask, target)
    order = torch.randperm(n, generator=generator)
    return (scores[order], target[order], 7 * ids[order] - 30, order), (padded, labels, mask)


@pytest.mark.parametrize("task", LISTS, ids=repr)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("sort", [False, True])
def test_flat_lists_are_padded_lists(task, reduction, sort):
    (scores, target, indexes, order), padded = ragged([5, 1, 9, 5, 12, 2, 1, 33, 17])
    if sort:  # list by list
        back = order.argsort()
        scores, target, indexes, order = (one[back] for one in (scores, target, indexes, order))
    loss = StructuredLoss(task, CentralDirect(0.7), reduction)
    value, grad = gradient(loss, scores, target, indexes=indexes)
    want, want_grad = gradient(loss, *padded)
    torch.testing.assert_close(value, want)
    torch.testing.assert_close(grad, want_grad[padded[2]][order])
    quality = metric(task, scores, target, indexes=indexes)
    torch.testing.assert_close(quality, metric(task, *padded))


def test_flat_lists_take_masks_strengths_and_weights_and_other_shapes():
    (scores, target, indexes, _), _ = ragged([5, 9, 5, 12])
    mask = torch.rand(scores.shape, generator=torch.Generator().manual_seed(3)) < 0.8
    epsilon, weight = torch.tensor([0.1, 1.0, 2.0, 3.0], dtype=torch.float64), torch.tensor([1.0, 0.0, 2.0, 5.0])
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(epsilon))
    value, grad = gradient(loss, scores, target, mask, indexes=indexes, weight=weight)
    each = []
    for k, one in enumerate(indexes.unique()):
        chosen = indexes == one
        update = PositiveDirect(epsilon[k].item())
        each.append(average_precision_loss(scores[chosen], target[chosen], update=update, mask=mask[chosen]))
    torch.testing.assert_close(value, (torch.stack(each) * weight).sum() / weight.sum())
    shaped = [part.reshape(1, -1, 1) for part in (scores, target, mask, indexes)]
    again, shaped_grad = gradient(loss, *shaped[:3], indexes=shaped[3], weight=weight)
    assert again == value
    torch.testing.assert_close(shaped_grad.flatten(), grad)


def test_ids_may_be_any_integers_and_there_may_be_none():
    scores, target = torch.randn(6), torch.tensor([1, 0, 0, 1, 1, 0])
    far = torch.tensor([-(2**62), 2**62, -(2**62), 5, 5, 2**62])
    near = torch.tensor([0, 2, 0, 1, 1, 2])
    loss = AveragePrecisionLoss(reduction="none")
    assert torch.equal(loss(scores, target, indexes=far), loss(scores, target, indexes=near))
    nothing = gradient(
        AveragePrecisionLoss(), torch.zeros(0), torch.zeros(0), indexes=torch.zeros(0, dtype=torch.int32)
    )
    assert nothing[0] == 0
    assert loss(torch.zeros(0), torch.zeros(0), indexes=torch.zeros(0, dtype=torch.long)).shape == (0,)
    assert metric(ROCAUC(), torch.zeros(0), torch.zeros(0), indexes=torch.zeros(0, dtype=torch.long)).isnan()


@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True])
def test_flat_lists_in_any_order_have_the_very_numbers_of_a_batch(task, dtype, masked):
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(60, 17, generator=generator).mul(4).round().div(4).to(dtype)  # many ties
    target, mask = (torch.rand(60, 17, generator=generator) < share for share in (0.3, 0.8))
    order = torch.randperm(scores.numel(), generator=generator)
    ids = torch.arange(60).repeat_interleave(17)[order]
    loss = StructuredLoss(task, NegativeDirect(torch.linspace(0.1, 2.0, 60, dtype=torch.float64)), "none")
    want, want_grad = gradient(loss, scores, target, mask if masked else None)
    flat, labels, valid = (one.reshape(-1)[order] for one in (scores, target, mask))
    value, grad = gradient(loss, flat, labels, valid if masked else None, indexes=ids)
    assert torch.equal(value, want)
    assert torch.equal(grad, want_grad.reshape(-1)[order])


@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC(), FMeasure(), NDCG(3)], ids=repr)
@pytest.mark.parametrize("update", [PositiveDirect(1.0), NegativeDirect(1.0)], ids=repr)
def test_many_lists_are_solved_as_each_alone(task, update):
    """So many that they are solved in parts, in a batch and as flat lists of many lengths in any order."""
    lengths = [700] * 60 + [1, 2, 5, 40, 400, 701, 777] * 20 + [70_000]
    (scores, target, indexes, order), _ = ragged(lengths, dtype=torch.float32)
    back = order.argsort()
    items = scores[back].split(lengths), target[back].split(lengths)
    loss = StructuredLoss(task, update, "none")
    each = [gradient(loss, *one) for one in zip(*items, strict=True)]
    value, grad = gradient(loss, scores, target, indexes=indexes)
    assert torch.equal(value, torch.stack([one for one, _ in each]))
    assert torch.equal(grad[back], torch.cat([one for _, one in each]))
    batch = (torch.stack(parts[:60]).repeat(3, 1) for parts in items)  # 126,000 items
    value, grad = gradient(loss, *batch)
    assert torch.equal(value, torch.stack([one for one, _ in each[:60]]).repeat(3))
    assert torch.equal(grad, torch.stack([one for _, one in each[:60]]).repeat(3, 1))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_flat_lists_break_the_graph_of_a_compiler_and_are_right():
    (scores, target, indexes, _), _ = ragged([5, 9, 5, 12])
    loss = AveragePrecisionLoss()
    compiled = torch.compile(lambda s: 2 * loss(s, target, indexes=indexes), backend="aot_eager")
    torch.testing.assert_close(
        gradient(compiled, scores), gradient(lambda s: 2 * loss(s, target, indexes=indexes), scores)
    )


def test_flat_lists_cannot_be_mapped():
    (scores, target, indexes, _), _ = ragged([5, 9, 5, 12])
    loss = AveragePrecisionLoss()
    with pytest.raises(TypeError, match=r"cannot be traced or mapped\. Pad them"):
        torch.func.vmap(lambda one: loss(one, target, indexes=indexes))(scores.expand(3, -1))


@pytest.mark.parametrize("task", LISTS[:4], ids=repr)
def test_dim_is_the_dimension_of_the_list(task):
    generator = torch.Generator().manual_seed(0)
    scores, target = torch.randn(20, 4, generator=generator), torch.rand(20, 4, generator=generator) < 0.4
    mask = torch.rand(20, 4, generator=generator) < 0.9
    loss = StructuredLoss(task, Hinge(1.0))
    value, grad = gradient(loss, scores, target, mask, dim=0)
    want, want_grad = gradient(loss, scores.T, target.T, mask.T)
    assert value == want
    assert torch.equal(grad, want_grad.T)
    assert metric(task, scores, target, mask, dim=0) == metric(task, scores.T, target.T, mask.T)


@pytest.mark.parametrize("dim", [0, 1, -2, 2, -1])
def test_dim_may_be_any_of_several_counted_from_either_end(dim):
    generator = torch.Generator().manual_seed(0)
    scores, target = torch.randn(3, 7, 4, generator=generator), torch.rand(3, 7, 4, generator=generator) < 0.4
    want = average_precision_loss(scores.movedim(dim, -1), target.movedim(dim, -1))
    assert average_precision_loss(scores, target, dim=dim) == want


@pytest.mark.parametrize("weights", [[1.0, 2.0, 5.0, 3.0], [0.1, 0.2, 7.0, 0.0], [0.0, 0.0, 4.0, 0.0]])
def test_weights_of_lists_make_a_weighted_mean_of_those_that_count(weights):
    scores, target = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.arange(6).expand(4, 6) > 3
    target = target & (torch.arange(4) != 2).unsqueeze(1)  # the third list has no positives
    weight, each = torch.tensor(weights), average_precision_loss(scores, target, reduction="none")
    whole = weight[[0, 1, 3]].sum()
    want = (weight * each).sum() / whole if whole else torch.tensor(0.0)
    value, grad = gradient(AveragePrecisionLoss(), scores, target, weight=weight)
    torch.testing.assert_close(value, want)
    assert grad.isfinite().all()
    for k, alone in enumerate(each):  # the weight of a single list matters only if it is 0
        one = average_precision_loss(scores[k], target[k], weight=weight[k])
        torch.testing.assert_close(one, alone if weight[k] else torch.tensor(0.0))


def test_metric_is_the_mean_average_precision_of_scikit_learn():
    rng = np.random.default_rng(0)
    scores, target = rng.normal(size=(50, 6)), rng.random((50, 6)) < 0.3
    got = metric(AveragePrecision(), torch.tensor(scores), torch.tensor(target), dim=0)
    assert got.item() == pytest.approx(average_precision_score(target, scores, average="macro"))
    target[:, 2] = False  # a class without positives is left out
    kept = [0, 1, 3, 4, 5]
    got = metric(AveragePrecision(), torch.tensor(scores), torch.tensor(target), dim=0)
    assert got.item() == pytest.approx(average_precision_score(target[:, kept], scores[:, kept], average="macro"))


def test_ignored_items_are_masked_items():
    scores, target = torch.randn(3, 6), torch.tensor([[1, 0, -1, 0, 1, 0], [-1] * 6, [0, 1, 0, 0, -1, -1]])
    loss = AveragePrecisionLoss(ignore_index=-1)
    want = AveragePrecisionLoss()(scores, target.clamp(min=0), target >= 0)
    assert loss(scores, target) == want == average_precision_loss(scores, target, ignore_index=-1)
    assert repr(loss).endswith("ignore_index=-1)")
    mask = torch.tensor([True, True, True, False, True, False]).expand(3, 6)
    assert loss(scores, target, mask) == AveragePrecisionLoss()(scores, target.clamp(min=0), mask & (target >= 0))
    assert metric(AveragePrecision(), scores, target, ignore_index=-1) == metric(
        AveragePrecision(), scores, target.clamp(min=0), target >= 0
    )
    classes = StructuredLoss(MulticlassZeroOne(), PositiveDirect(1.0), ignore_index=-100)
    logits, labels = torch.randn(4, 5), torch.tensor([0, -100, 3, 2])
    kept = labels >= 0
    torch.testing.assert_close(classes(logits, labels), classes(logits[kept], labels[kept]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"indexes": torch.zeros(5)}, "tensor of integers"),
        ({"indexes": [0] * 6}, "tensor of integers.*got list"),
        ({"indexes": torch.zeros(5, dtype=torch.long)}, r"scores has shape \\(6,\\) but indexes has shape \\(5,\\)"),
        ({"weight": torch.ones(2)}, "one number for every list, of shape.*the lists of all processes"),
        ({"weight": 2.0}, "got float"),
        ({"weight": torch.tensor(-1.0)}, "at least 0; got -1.0"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(options, words):
    with pytest.raises((TypeError, ValueError), match=words.replace("\\\\", "\\")):
        average_precision_loss(torch.randn(6), torch.tensor([1, 0, 0, 1, 1, 0]), **options)


def test_the_metric_of_no_items_is_nan_and_has_the_type_of_all_others():
    for indexes in (None, torch.zeros(0, dtype=torch.long)):
        for dtype, wide in ((torch.half, torch.float32), (torch.float64, torch.float64)):
            found = metric(AveragePrecision(), torch.zeros(0, dtype=dtype), torch.zeros(0), indexes=indexes)
            assert found.isnan()
            assert found.dtype == wide


def test_ids_of_scores_with_one_column_too_many_are_refused_with_the_cure():
    with pytest.raises(ValueError, match=r"both must have one entry for every item. Pass scores.squeeze\(-1\)"):
        average_precision_loss(torch.randn(6, 1), torch.ones(6, 1), indexes=torch.zeros(6, dtype=torch.long))


def test_other_shapes_are_for_lists():
    chain = StructuredLoss(LinearChain(), PositiveDirect(1.0))
    scores, target = torch.randn(3, 2, 2), torch.tensor([0, 1, 0, 1])
    with pytest.raises(ValueError, match="dim is for tasks on lists"):
        chain(scores, target, dim=0)
    with pytest.raises(ValueError, match="indexes is for tasks on lists"):
        chain(scores, target, indexes=torch.zeros(3, 2, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="process_group is for tasks on lists"):
        StructuredLoss(LinearChain(), PositiveDirect(1.0), process_group=object())(scores, target)
    with pytest.raises(ValueError, match="Pass a mask"):
        StructuredLoss(LinearChain(), PositiveDirect(1.0), ignore_index=-1)(scores, target)


def test_lists_of_another_shape_need_both_one_dimension_and_one_target_an_item():
    with pytest.raises(ValueError, match="dim is for tasks on lists"):
        check_list_task("dim", AveragePrecision(), torch.zeros(2, 3), torch.zeros(2))
    with pytest.raises(ValueError, match="dim is for tasks on lists"):
        check_list_task("dim", IoU(event_dims=2), torch.zeros(2, 3), torch.zeros(2, 3))


def test_a_mask_elsewhere_and_complex_labels_are_refused():
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(1.0))
    with pytest.raises(ValueError, match="scores is on cpu but mask on meta"):
        loss(torch.randn(4), torch.tensor([1, 0, 1, 0]), torch.ones(4, dtype=torch.bool, device="meta"))
    with pytest.raises(TypeError, match=r"bool, int or float; got torch\.complex64"):
        StructuredLoss(NDCG(), PositiveDirect(1.0))(torch.randn(4), torch.zeros(4, dtype=torch.complex64))


def test_two_items_in_the_shape_of_two_lists_are_refused():
    with pytest.raises(ValueError, match="2 lists of one item"):
        AveragePrecisionLoss()(torch.zeros(2, 1), torch.ones(2, 1))


# ---- retrieval -------------------------------------------------------------------------------------------------------


def double_loop(embeddings, labels, items, known, same, similarity):
    """The mean over queries, one after the other, item by item."""
    values = []
    for q in range(len(embeddings)):
        scores, target = [], []
        for r in range(len(items)):
            if same and q == r:
                continue
            score = embeddings[q] @ items[r]
            if similarity == "cosine":
                score = score / (embeddings[q].norm() * items[r].norm())
            scores.append(score)
            target.append(bool(labels[q] == known[r]))
        if any(target) and not all(target):
            values.append(average_precision_loss(torch.stack(scores), torch.tensor(target), update=PositiveDirect(0.1)))
    return torch.stack(values).mean()


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("same", [True, False])
def test_retrieval_is_a_plain_double_loop(similarity, same):
    generator = torch.Generator().manual_seed(0)
    embeddings, labels = torch.randn(12, 4, generator=generator, dtype=torch.float64), torch.arange(12) % 5
    items, known = torch.randn(9, 4, generator=generator, dtype=torch.float64), torch.arange(9) % 4
    rest = () if same else (items, known)
    loss = RetrievalLoss(similarity=similarity)
    value, grad = gradient(loss, embeddings, labels, *rest)
    searched = (embeddings, labels) if same else (items, known)

    def loop(vectors):
        return double_loop(vectors, labels, vectors if same else items, searched[1], same, similarity)

    want, want_grad = gradient(loop, embeddings)
    torch.testing.assert_close(value, want)
    torch.testing.assert_close(grad, want_grad)


def test_retrieval_refuses_what_does_not_fit():
    loss = RetrievalLoss()
    vectors, labels = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
    for arguments, words in (
        ((vectors[0], labels), r"shape \(samples, dimensions\)"),
        ((vectors, labels[:3]), "one for each sample"),
        ((vectors, labels, vectors), "come together"),
        ((vectors, labels, vectors[:, :2], labels), "3 dimensions but ref_embeddings have 2"),
    ):
        with pytest.raises(ValueError, match=words):
            loss(*arguments)
    with pytest.raises(ValueError, match="'cosine' or 'dot'"):
        RetrievalLoss(similarity="euclidean")


@pytest.mark.parametrize("wrong", ["scores", "target"])
def test_a_wrong_value_is_named_by_its_place_in_what_was_passed(wrong):
    scores, target = torch.randn(6, 2), torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3)
    (scores if wrong == "scores" else target)[4, 1] = torch.nan
    for call in (average_precision_loss, partial(metric, AveragePrecision())):
        with pytest.raises(ValueError, match=rf"{wrong} must .*got nan at index \(4, 1\)"):
            call(scores, target, dim=0)
        with pytest.raises(ValueError, match=rf"{wrong} must .*got nan at index \(4, 1\)"):
            call(scores, target, mask=torch.ones_like(scores, dtype=torch.bool), dim=0)
    valid = torch.ones(6, 2, dtype=torch.bool)
    valid[4, 1] = False
    assert average_precision_loss(scores, target, mask=valid, dim=0).isfinite()


@pytest.mark.parametrize("task", LISTS, ids=repr)
def test_a_wrong_score_of_a_flat_list_is_named_by_its_place(task):
    (scores, target, indexes, _), _ = ragged([5, 9, 5, 12])
    scores[17] = torch.inf
    for call in (StructuredLoss(task, PositiveDirect(1.0)), partial(metric, task)):
        with pytest.raises(ValueError, match=r"scores must .*got inf at index 17"):
            call(scores, target, indexes=indexes)
        with pytest.raises(ValueError, match=r"scores must .*got inf at index \(0, 17\)"):
            call(scores[None], target[None], indexes=indexes[None])
    assert StructuredLoss(task, PositiveDirect(1.0))(scores, target, scores.isfinite(), indexes=indexes).isfinite()


@pytest.mark.parametrize(
    "ids",
    [[4], [3, 3, 5, 5, 5], [3, 5, 5, 9, 9, 9], [2, 2, 2, 9], [1, 2, 3], [9, 2, 2], [5, -1, 5, -1, 0], [0, 10**12, 0]],
)
def test_groups_are_those_of_a_dictionary(ids):
    want = {}
    for item, one in enumerate(ids):
        want.setdefault(one, []).append(item)
    found = group(torch.tensor(ids))
    lists = [pair for some in found.by_length(torch.device("cpu")) for pair in zip(*some, strict=True)]
    numbers = {one: number for number, one in enumerate(sorted(want))}
    assert {int(number): items.tolist() for number, items in lists} == {numbers[one]: want[one] for one in want}
    assert [len(items) for _, items in lists] == sorted(map(len, want.values()))
    assert found.numbers.tolist() == [numbers[one] for one in ids]
    assert found.starts[-1] == len(ids)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint64]
)
def test_ids_may_have_any_integer_type_and_be_as_far_apart_as_it_allows(dtype):
    low, high = (False, True) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    for near in (low, high - 1):
        found = group(torch.tensor([high, near, high, near, near], dtype=dtype))
        assert found.numbers.tolist() == [1, 0, 1, 0, 0]
        assert found.starts.tolist() == [0, 3, 5]
        assert found.order is not None
        assert found.order.tolist() == [1, 3, 4, 0, 2]


@pytest.mark.parametrize("longest", [1, 3, 17, 1000, 2**20])
def test_every_list_is_in_one_part_with_lists_of_about_its_length(longest):
    rng = np.random.default_rng(12)
    for most in (1, 50, 4 * longest):
        lengths = rng.integers(0, longest + 1, int(rng.integers(1, 40)))
        found = list(parts(lengths, most))
        assert sorted(np.concatenate([some for some, _ in found], dtype=int, casting="unsafe") if found else []) == (
            np.flatnonzero(lengths).tolist()
        )
        for some, length in found:
            assert lengths[some].max() == length <= lengths[some].min() * 9 / 8
            assert some.size == 1 or some.size * length <= most


@pytest.mark.parametrize("sort", [False, True])
def test_a_score_that_is_not_a_number_is_found_wherever_it_is_unless_it_is_masked(sort):
    (scores, target, indexes, order), _ = ragged([5, 1, 9, 5, 12, 2, 1, 7, 3])
    if sort:
        scores, target, indexes = (one[order.argsort()] for one in (scores, target, indexes))
    loss = StructuredLoss(ROCAUC(), PositiveDirect(1.0))
    for k in range(len(scores)):
        broken = scores.clone()
        broken[k] = torch.nan
        with pytest.raises(ValueError, match=rf"scores must be finite where valid.* at index {k}\."):
            loss(broken, target, indexes=indexes)
        assert loss(broken, target, ~broken.isnan(), indexes=indexes).isfinite()


@pytest.mark.parametrize(
    ("dtype", "ignored"),
    [(torch.float32, -1), (torch.float32, torch.nan), (torch.uint8, 255), (torch.int8, -128), (torch.int64, -100)],
)
def test_ignored_items_are_those_with_that_value_in_any_type(dtype, ignored):
    scores = torch.tensor([3.0, 2.0, 1.0, 0.0])
    target = torch.tensor([0, 1, 0, 1]).to(dtype)
    want = AveragePrecisionLoss()(scores[1:], target[1:])
    target[0] = ignored
    loss = AveragePrecisionLoss(ignore_index=ignored)
    assert loss(scores, target) == want
    assert Perturbed(loss, 1e-9)(scores, target) == want
    assert WarmUp(loss, 1)(scores.requires_grad_(), target).isfinite()


def test_a_value_that_the_type_of_the_target_has_not_ignores_nothing():
    scores, target = torch.tensor([3.0, 2.0, 1.0], requires_grad=True), torch.tensor([156, 1, 0], dtype=torch.uint8)
    loss = AveragePrecisionLoss(ignore_index=-100)
    for wrapped in (loss, WarmUp(loss, 1), Perturbed(loss)):
        with pytest.raises(ValueError, match="must hold only 0 and 1 where valid; got 156"):
            wrapped(scores, target)
