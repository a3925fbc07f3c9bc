"""Chains, alignments and paths against all outputs of small problems: kernels, oracles, random problems, refusals.

Kernels run uncompiled. Scores are small integers, so that sums are exact and ties are many. What lies outside a problem
is NaN or a number that would win.
"""

from itertools import combinations, pairwise, product
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from members import uncompile

from directloss import Task
from directloss.families import TRUTH, UpdateSpec
from directloss.kernels import alignment, grid_path, linear_chain
from directloss.tasks.alignment import Alignment
from directloss.tasks.dag_path import DAGPath
from directloss.tasks.grid_path import GridPath
from directloss.tasks.linear_chain import LinearChain


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    uncompile(monkeypatch, alignment, grid_path, linear_chain)
    with np.errstate(all="ignore"):
        yield


def unit(rng):
    """Any magnitude: sums stay exact."""
    return 2.0 ** int(rng.choice([-100, 0, 100]))


def levels(rng, shape, highest=2):
    """Whole numbers; those of the first problem would win in the next, if it read what is left of that."""
    numbers = rng.integers(-highest, highest + 1, shape) * 1.0
    numbers[0] += 50.0
    return numbers


def test_best_alignment_has_the_earliest_starts_of_all_that_are_best():
    rng = np.random.default_rng(0)
    for number in range(150):
        count, frames, segments = 4, int(rng.integers(1, 7)), int(rng.integers(1, 5))
        scores = levels(rng, (count, frames, segments), 1 + number % 3) * unit(rng)
        n = np.minimum(rng.integers(0, segments + 1, count), frames)
        t = rng.integers(n, frames + 1) * (n > 0)
        found = np.full((count, segments), -7)
        alignment.alignment_starts(scores, t, n, found)
        for b in range(count):
            every = [(0, *rest) for rest in combinations(range(1, t[b]), n[b] - 1)] if n[b] else [()]
            worths = [
                sum(scores[b, t0:t1, i].sum() for i, (t0, t1) in enumerate(pairwise((*starts, t[b]))))
                for starts in every
            ]
            best = np.array([starts for starts, worth in zip(every, worths, strict=True) if worth == max(worths)])
            assert found[b, : n[b]].tolist() == best.min(0).tolist()
            assert (found[b, n[b] :] == -7).all()


def walks(valid, diagonal):
    """Every path as the cells from the last to the first, in the order of preference going back."""
    rows, columns = np.flatnonzero(valid.any(1)), np.flatnonzero(valid.any(0))

    def back(cells):
        i, j = cells[-1]
        if i < 0 or j < 0 or not valid[i, j]:
            return
        if (i, j) == (0, 0):
            yield cells
            return
        for up, left in ((1, 0), (0, 1), (1, 1))[: 2 + diagonal]:
            yield from back([*cells, (i - up, j - left)])

    return list(back([(rows[-1], columns[-1])])) if rows.size else []


@pytest.mark.parametrize("diagonal", [False, True])
def test_best_path_of_a_grid_is_the_first_of_the_best_going_back(diagonal):
    rng = np.random.default_rng(1)
    seen = set()
    for number in range(150):
        shape = 3, int(rng.integers(1, 5)), int(rng.integers(1, 5))
        scores, valid = levels(rng, shape, 1 + number % 3) * unit(rng), rng.random(shape) < rng.choice([0.6, 0.9, 1.0])
        scores = np.where(valid, scores, rng.choice([np.nan, 1e99]))
        y = np.zeros(shape)
        found = grid_path.grid_path(scores, valid, diagonal, y)
        for b in range(3):
            want, every = np.zeros(shape[1:]), walks(valid[b], diagonal)
            worths = [sum(scores[b][cell] for cell in cells) for cells in every]
            if every:
                want[tuple(zip(*every[int(np.argmax(worths))], strict=True))] = 1.0
            assert found[b] == bool(every)
            assert y[b].tolist() == want.tolist()
            seen.add((bool(every), bool(valid[b].any())))
    assert seen == {(True, True), (False, True), (False, False)}
    for empty in ((2, 0, 3), (2, 3, 0), (0, 2, 2)):
        assert not grid_path.grid_path(np.zeros(empty), np.ones(empty, bool), diagonal, np.zeros(empty)).any()


def test_best_path_of_edges_is_the_first_of_the_best_going_back():
    rng = np.random.default_rng(2)
    for number in range(200):
        nodes, edges = int(rng.integers(2, 6)), int(rng.integers(1, 9))
        names = rng.permutation(nodes)  # a later place has a larger one, names have not
        ends = np.sort(np.array([rng.choice(nodes, 2, replace=False) for _ in range(edges)]), 1)
        order = np.argsort(ends[:, 0], kind="stable")
        tails, heads = names[ends].T
        source, sink = names[0], names[int(rng.integers(nodes))]
        scores, valid = levels(rng, (3, edges), 1 + number % 3) * unit(rng), rng.random((3, edges)) < 0.85
        y = np.zeros((3, edges))
        found = grid_path.dag_path(scores, valid, order, tails, heads, nodes, source, sink, y)

        def back(node, path, b, tails=tails, heads=heads, order=order, valid=valid, source=source):
            if node == source:
                yield path
            for edge in order[(heads[order] == node) & valid[b][order]]:
                yield from back(tails[edge], [*path, edge], b)

        for b in range(3):
            every, want = list(back(sink, [], b)), np.zeros(edges)
            if every:
                want[every[int(np.argmax([scores[b][path].sum() for path in every]))]] = 1.0
            assert found[b] == bool(every)
            assert y[b].tolist() == want.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_best_labels_of_a_chain_are_the_smallest_of_the_best_from_the_last_step_on(dtype):
    rng = np.random.default_rng(3)
    for number in range(60):
        most, labels, count = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 3
        scores = levels(rng, (count, most, labels, labels), 1 + number % 3).astype(dtype)
        edges = rng.integers(0, most + 1, count)
        scores[np.arange(most) >= edges[:, None]] = np.nan
        target = rng.integers(labels, size=(count, most + 1))
        prices = np.array([np.full(count, price) for price in (0.0, 0.5, -0.5)]) * rng.integers(1, 5, count)
        found = np.full((3, count, most + 1), -7)
        assert linear_chain.linear_chain_paths(scores, edges, target, prices, 100.0, found)
        for w, b in product(range(3), range(count)):
            every = [path[::-1] for path in product(range(labels), repeat=int(edges[b]) + 1)]
            worths = [
                sum(scores[b, t, i, j] for t, (i, j) in enumerate(pairwise(path)))
                + prices[w, b] * (np.array(path) != target[b, : len(path)]).sum()
                for path in every
            ]
            assert found[w, b, : edges[b] + 1].tolist() == list(every[int(np.argmax(worths))])
            assert (found[w, b, edges[b] + 1 :] == -7).all()


@pytest.mark.parametrize("wrong", [2.5, -2.5, np.inf, -np.inf, np.nan])
def test_a_chain_tells_scores_that_are_too_large(wrong):
    arrays = np.array([2, 1]), np.zeros((2, 4), np.int64), np.zeros((1, 2)), 2.0

    def solve(scores):
        return linear_chain.linear_chain_paths(scores, *arrays, np.zeros((1, 2, 4), np.int64))

    scores = np.zeros((2, 3, 2, 2))
    scores[0, 0], scores[1, 0] = 2.0, -2.0  # the largest itself is allowed
    scores[0, 2], scores[1, 1:] = wrong, wrong  # behind the last edge
    assert solve(scores) is True
    for place in product(range(2), range(2), range(2), range(2)):
        changed = scores.copy()
        changed[place] = wrong
        assert solve(changed) is (place[:2] == (1, 1))


def rows(features, losses):
    """Outputs as rows of numbers, in an order of their own."""
    table = np.column_stack([np.reshape(features, (len(losses), -1)), losses])
    return sorted(map(tuple, (table.round(9) + 0.0).tolist()))


def check_outputs(task, scores, target, features, losses):
    listed = task.outputs(scores, torch.as_tensor(target))
    assert listed.features.dtype == listed.loss.dtype == torch.float64
    assert listed.features.shape[1:] == scores.shape
    assert rows(listed.features.numpy(), listed.loss.numpy()) == rows(features, losses)


@pytest.mark.parametrize("tolerance", [0, 1, 2])
def test_outputs_of_an_alignment_are_all_cuts_of_the_frames(tolerance):
    for frames, segments in ((1, 1), (4, 1), (2, 2), (5, 2), (3, 3), (6, 3), (6, 4)):
        every = [labels for labels in product(range(segments), repeat=frames) if list(labels) == sorted(labels)]
        every = [labels for labels in every if len(set(labels)) == segments]
        starts = np.array([[labels.index(segment) for segment in range(segments)] for labels in every])
        assert len(every) == comb(frames - 1, segments - 1)
        boundaries = max(segments - 1, 1)
        features = np.eye(segments)[np.array(every)] * (segments > 1) * 2 / (boundaries * (tolerance + 1))
        for target in starts:
            losses = (np.abs(starts - target) > tolerance)[:, 1:].sum(1) / boundaries
            check_outputs(Alignment(tolerance), torch.zeros(frames, segments), target, features, losses)


def test_outputs_of_a_chain_are_all_sequences_of_labels():
    rng = np.random.default_rng(6)
    for edges, labels in ((1, 1), (1, 3), (2, 2), (3, 2), (2, 3)):
        target = rng.integers(labels, size=edges + 1)
        every = list(product(range(labels), repeat=edges + 1))
        features = np.zeros((len(every), edges, labels, labels))
        for k, path in enumerate(every):
            for t, (i, j) in enumerate(pairwise(path)):
                features[k, t, i, j] = 2 / (edges + 1)
        losses = (np.array(every) != target).mean(1)
        check_outputs(LinearChain(), torch.zeros(edges, labels, labels), target, features, losses)


def check_paths(make, every, rng):
    """The outputs of a task with these paths: with each of them as the target, with true costs, with equal ones."""
    flat, scores = every.reshape(len(every), -1), torch.zeros(every.shape[1:])
    longest = flat.sum(1).max()

    def check(task, target, losses):
        losses = losses - losses.min()
        counts = losses.max() > 0
        check_outputs(task, scores, target, 2 * every / longest * counts, losses / (losses.max() if counts else 1))

    for path in every:
        check(make("hamming"), path, np.abs(flat - path.reshape(-1)).sum(1))
    for costs in (rng.integers(-3, 4, every.shape[1:]), 1e-6 * rng.integers(0, 3, every.shape[1:])):
        check(make("regret"), costs, flat @ costs.reshape(-1))
    check(make("regret"), np.full(every.shape[1:], 1e-11), np.zeros(len(every)))


@pytest.mark.parametrize(("neighbours", "paths"), [(4, [1, 1, 1, 2, 6, 10]), (8, [1, 1, 1, 3, 13, 25])])
def test_outputs_of_a_grid_are_all_its_paths(neighbours, paths):
    rng = np.random.default_rng(7)
    for (height, width), number in zip(((1, 1), (1, 4), (3, 1), (2, 2), (3, 3), (3, 4)), paths, strict=True):
        found = walks(np.ones((height, width), bool), neighbours == 8)
        assert len(found) == number
        every = np.zeros((number, height, width))
        for k, cells in enumerate(found):
            every[(k, *zip(*cells, strict=True))] = 1.0
        check_paths(lambda loss: GridPath(neighbours, loss), every, rng)


EDGES = ((3, 2), (3, 1), (1, 2), (2, 0), (1, 0), (3, 0), (2, 0), (4, 3))  # two from 2 to 0


@pytest.mark.parametrize(
    ("ends", "paths"),
    [
        ((None, None), [[7, 0, 3], [7, 0, 6], [7, 1, 2, 3], [7, 1, 2, 6], [7, 1, 4], [7, 5]]),
        ((3, 2), [[0], [1, 2]]),
        ((1, None), [[2, 3], [2, 6], [4]]),
        ((None, 1), [[7, 1]]),
    ],
)
def test_outputs_of_edges_are_all_their_paths(ends, paths):
    every = np.zeros((len(paths), len(EDGES)))
    for k, path in enumerate(paths):
        every[k, path] = 1.0
    check_paths(lambda loss: DAGPath(EDGES, loss, *ends), every, np.random.default_rng(8))


def drawn(task, longest, number) -> Any:
    """Random problems without a mask, and with one."""
    generator = torch.Generator().manual_seed(0)
    problems = [task.random_problem(longest, generator) for _ in range(number)]
    for problem in problems[:40]:
        assert problem.scores.dtype == torch.float64
        task.infer(*problem)  # nothing is refused
    masked = [problem for problem in problems if problem.mask is not None]
    assert 0.2 < len(masked) / number < 0.8
    return [problem for problem in problems if problem.mask is None], masked


@pytest.mark.parametrize(("longest", "number"), [(1, 80), (2, 300), (5, 900)])
def test_random_alignments_have_every_size_and_every_target(longest, number):
    bare, masked = drawn(Alignment(), longest, number)
    sizes = {(t, n) for n in range(1, min(longest, 4) + 1) for t in range(n, longest + 4)}
    assert {tuple(problem.scores.shape) for problem in bare} == sizes
    for frames, segments in [size for size in sizes if sum(size) < 6]:
        found = {tuple(target.tolist()) for scores, target, _ in bare if scores.shape == (frames, segments)}
        assert found == {(0, *rest) for rest in combinations(range(1, frames), segments - 1)}
    blocks = {(int(mask.any(1).sum()), int(mask.any(0).sum())) for *_, mask in masked}
    assert blocks == sizes
    assert all((target == -1).equal(~mask.any(0)) for _, target, mask in masked)
    assert not all(mask.all() for *_, mask in masked)


@pytest.mark.parametrize(("longest", "number"), [(1, 200), (2, 200), (4, 500)])
def test_random_chains_have_every_size_and_every_target(longest, number):
    bare, masked = drawn(LinearChain(), longest, number)
    edges = range(1, max(longest - 1, 1) + 1)
    assert {tuple(problem.scores.shape) for problem in bare} == {(n, k, k) for n in edges for k in (1, 2, 3)}
    for k in (1, 2, 3):
        found = {tuple(target.tolist()) for scores, target, _ in bare if scores.shape == (1, k, k)}
        assert found == set(product(range(k), repeat=2))
    assert {(len(mask), int(mask.sum())) for *_, mask in masked} == {(n, m) for n in edges for m in range(n + 1)}


@pytest.mark.parametrize("neighbours", [4, 8])
@pytest.mark.parametrize("longest", [1, 3, 6])
def test_random_grids_have_every_shape_every_path_and_walls(neighbours, longest):
    bare, masked = drawn(GridPath(neighbours), longest, 50 * longest)
    sides = range(1, min(longest, 4) + 1)
    assert {tuple(problem.scores.shape) for problem in bare} == set(product(sides, sides))
    squares = {tuple(target.flatten().tolist()) for scores, target, _ in bare if scores.shape == (2, 2)}
    assert len(squares) == (0 if longest == 1 else 2 if neighbours == 4 else 3)
    if longest > 1:
        check_walls(masked)
        check_costs(GridPath(neighbours, "regret"), longest)


@pytest.mark.parametrize("task", [DAGPath(), DAGPath(EDGES)], ids=repr)
def test_random_edges_have_every_path_and_some_that_are_closed(task):
    bare, masked = drawn(task, 3, 150)
    found = {tuple(target.tolist()) for _, target, _ in bare}
    assert found == {tuple(path.tolist()) for path in task.paths(torch.zeros(len(task.edges)))}
    check_walls(masked)
    check_costs(DAGPath(task.edges, "regret"), 3)


def check_walls(problems):
    """The target's path is open, as is most of the rest, and some is not."""
    assert all(mask[target > 0].all() for _, target, mask in problems)
    rest = torch.cat([mask[target == 0] for _, target, mask in problems])
    assert 0.6 < rest.double().mean() < 0.95


def check_costs(task, longest):
    """True costs vary from part to part and are not the scores, and there are walls among them too."""
    bare, masked = drawn(task, longest, 40)
    for scores, costs, _ in bare + masked:
        assert len(torch.stack([scores, costs]).unique()) == 2 * costs.numel()
    assert not all(mask.all() for *_, mask in masked)


def every_chain(task, scores, target, mask):
    edges = int(mask.sum())
    if not edges:
        return torch.zeros(1, *scores.shape), torch.zeros(1)
    return task.outputs(scores[:edges], target[: edges + 1])[:2]


def every_alignment(task, scores, target, mask):
    frames, segments = int(mask.any(1).sum()), int(mask.any(0).sum())
    if segments < 2:
        return torch.zeros(1, *scores.shape), torch.zeros(1)
    return task.outputs(scores[:frames, :segments], target[:segments])[:2]


def every_path(task, scores, target, mask):
    found = [path for path in task.paths(scores) if mask[path > 0].all()]
    if not found:
        return torch.zeros(1, *scores.shape), torch.zeros(1)
    flat, true = torch.stack(found).flatten(1), target.double().where(mask, 0.0).flatten()
    losses = (flat - true).abs().sum(1) if task.loss == "hamming" else flat @ true
    losses -= losses.min()
    counts = losses.max() > 1e-9
    features = 2 * flat / flat.sum(1).max() * counts
    return features.unflatten(1, scores.shape), losses / losses.max() if counts else torch.zeros_like(losses)


def ragged(task, rng, count, shape):
    """Scores, targets and masks of some problems, the first of which has nothing in it, with NaN where masked."""
    mask, steps = np.zeros((count, *shape), bool), shape[-1]
    target = np.zeros((count, *shape))
    if isinstance(task, LinearChain):
        mask = np.arange(shape[0]) < rng.integers(0, shape[0] + 1, (count, 1))
        mask[0], mask[-1] = False, True
        target = rng.integers(steps, size=(count, shape[0] + 1))
        target[:, 1:][~mask], target[0] = -100, -100
    elif isinstance(task, Alignment):
        target = np.full((count, shape[1]), -100)
        for b in range(1, count):
            segments = shape[1] if b == count - 1 else int(rng.integers(1, shape[1] + 1))
            frames = shape[0] if b == count - 1 else int(rng.integers(segments, shape[0] + 1))
            mask[b, :frames, :segments] = True
            target[b, :segments] = 0, *np.sort(rng.choice(np.arange(1, frames), segments - 1, replace=False))
    else:
        every = task.paths(torch.zeros(shape)).numpy() > 0
        chosen = every[rng.integers(len(every), size=count)]
        mask[1:] = chosen[1:] | (rng.random(mask[1:].shape) < 0.7)
        mask[-1] = True
        target = chosen * 1.0 if task.loss == "hamming" else rng.integers(-3, 4, mask.shape) * 0.5
        target[~mask] = 0.0 if task.loss == "hamming" else np.nan
    scores = rng.normal(size=(count, *shape))
    scores[~mask] = np.nan
    return map(torch.as_tensor, (scores, target, mask))


RAGGED = {
    LinearChain(): ((3, 2, 2), every_chain),
    Alignment(0): ((5, 3), every_alignment),
    Alignment(1): ((6, 3), every_alignment),
    GridPath(4): ((3, 4), every_path),
    GridPath(8): ((3, 3), every_path),
    GridPath(8, "regret"): ((4, 3), every_path),
    DAGPath(EDGES): ((8,), every_path),
    DAGPath(EDGES, "regret"): ((8,), every_path),
}


@pytest.mark.parametrize("task", RAGGED, ids=repr)
def test_no_output_of_a_ragged_batch_is_better_than_its_oracle(task):
    rng = np.random.default_rng(9)
    shape, every = RAGGED[task]
    scores, target, mask = ragged(task, rng, 6, shape)
    listed = [every(task, *problem) for problem in zip(scores, target, mask, strict=True)]
    counts = [bool(losses.any()) for _, losses in listed]
    assert not counts[0]
    assert counts[-1]
    batch: Any = [part.unflatten(0, (2, 3)) for part in (scores, target, mask)]
    spec = UpdateSpec(2.0, torch.tensor([[0.3], [-0.3]], dtype=torch.float64).expand(2, 3), 1.0)
    assert task.contrast(*batch[:2], spec, batch[2]).counted.flatten().tolist() == counts
    spread = torch.tensor([0.3, -0.3, 1.0, -1.0, 4.0, -4.0], dtype=torch.float64)
    solver: Any
    for weight, solver in product((TRUTH, 0.0, 0.3, -4.0, spread.view(2, 3)), (type(task).output, Task.output)):
        output = solver(task, *batch[:2], weight, batch[2])
        for b, (features, losses) in enumerate(listed):
            found, loss = output.features.flatten(0, 1)[b], output.loss.flatten()[b]
            inside = found[tuple(map(slice, features.shape[1:]))]
            assert inside.abs().sum() == found.abs().sum()
            apart = (features - inside).abs().flatten(1).amax(1) + (losses - loss).abs()
            assert apart.min() < 1e-9  # it is an output, with its loss
            strength = weight.flatten()[b] if isinstance(weight, torch.Tensor) else weight
            room = scores[b].nan_to_num()[tuple(map(slice, features.shape[1:]))]
            worths = -losses if weight is TRUTH else (features * room).flatten(1).sum(1) + strength * losses
            assert worths[apart.argmin()] == pytest.approx(worths.max().item(), abs=1e-9)


def refuses(task, shape, target, mask=None):
    try:
        task.infer(torch.zeros(shape), torch.as_tensor(target), None if mask is None else torch.as_tensor(mask) > 0)
    except (TypeError, ValueError):
        return True
    return False


@pytest.mark.parametrize(("task", "shape"), [(Alignment(), (3, 2)), (LinearChain(), (1, 2, 2))], ids=repr)
def test_starts_and_labels_are_of_integer_types(task, shape):
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64):
        assert not refuses(task, shape, torch.tensor([0, 1], dtype=dtype))
    for dtype in (torch.bool, torch.float32, torch.complex64):
        assert refuses(task, shape, torch.tensor([0, 1], dtype=dtype))


def test_tolerances_are_integers_from_zero_on():
    assert [Alignment(tolerance).tolerance for tolerance in (0, 1)] == [0, 1]
    assert Alignment() == Alignment(1)
    wrong: Any
    for wrong in (True, False, -1, 1.0, None):
        with pytest.raises(ValueError, match="tolerance"):
            Alignment(wrong)


def test_starts_are_those_of_segments_with_a_frame_or_more():
    right = list(combinations(range(5), 3))
    for starts in product(range(-1, 6), repeat=3):
        assert refuses(Alignment(), (5, 3), starts) == (starts[0] != 0 or starts not in right)
    mask = np.zeros((5, 3))
    mask[:3, :2] = 1
    for starts in product(range(-1, 5), repeat=2):
        want = starts not in [(0, 1), (0, 2)]
        assert refuses(Alignment(), (5, 3), (*starts, 9), mask) == want
        pair = np.stack([mask, mask])
        assert refuses(Alignment(), (2, 5, 3), [(0, 1, -5), (*starts, 0)], pair) == want  # in the second problem
    for wrong in ((2, 5, 3), (5, 4), (3, 5), (5,)):
        assert refuses(Alignment(), wrong, [0, 1, 2])


def test_masks_of_alignments_are_blocks_with_a_frame_for_each_segment():
    for bits in product((0, 1), repeat=6):
        mask = np.array(bits).reshape(3, 2)
        frames, segments = mask.any(1).sum(), mask.any(0).sum()
        block = mask.sum() == mask[:frames, :segments].sum() == frames * segments
        assert refuses(Alignment(), (3, 2), [0, 1], mask) == (not block or (frames, segments) == (1, 2)), mask


def test_labels_are_those_that_the_scores_have():
    for labels in product(range(-1, 3), repeat=3):
        assert refuses(LinearChain(), (2, 2, 2), labels) == (not {0, 1}.issuperset(labels))
        assert refuses(LinearChain(), (2, 2, 2), labels, [1, 0]) == (not {0, 1}.issuperset(labels[:2]))
        assert not refuses(LinearChain(), (2, 2, 2), labels, [0, 0])
    assert not refuses(LinearChain(), (2, 1, 1), [0, 0, 0])
    for wrong in ((2, 0, 0), (2, 1, 2), (2, 2, 1), (1, 1, 1), (3, 1, 1), (1, 2, 1, 1)):
        assert refuses(LinearChain(), wrong, [0, 0, 0])


def test_masks_of_chains_have_no_hole():
    for bits in product((0, 1), repeat=4):
        assert refuses(LinearChain(), (4, 2, 2), [0] * 5, bits) == (list(bits) != sorted(bits, reverse=True))


def test_true_costs_are_real_numbers_below_1e100():
    task = GridPath(loss="regret")
    costs = torch.zeros(2, 2, dtype=torch.float64)
    for right in (9e99, -9e99):
        assert not refuses(task, (2, 2), costs.index_fill(0, torch.tensor(1), right))
    for wrong in (1e100, -1e100, torch.inf, torch.nan):
        costs[0, 1] = wrong
        assert refuses(task, (2, 2), costs)
        assert not refuses(task, (2, 2), costs, [[1, 0], [1, 1]])
    for other in (costs.new_zeros(2, 2).to(torch.complex64), torch.zeros(1, 2), torch.zeros(2, 2, 2)):
        assert refuses(task, (2, 2), other)


@pytest.mark.parametrize("neighbours", [4, 8])
def test_targets_of_grids_are_paths_and_masks_leave_one(neighbours):
    whole = [set(cells) for cells in walks(np.ones((2, 2), bool), neighbours == 8)]
    for bits in product((0, 1), repeat=4):
        cells = np.array(bits).reshape(2, 2)
        marked, left = set(zip(*np.nonzero(cells), strict=True)), walks(cells > 0, neighbours == 8)
        assert refuses(GridPath(neighbours), (2, 2), cells) == (marked not in whole)
        assert refuses(GridPath(neighbours), (2, 2), cells, cells) == (marked not in [set(), *map(set, left)])
        assert refuses(GridPath(neighbours, "regret"), (2, 2), torch.zeros(2, 2), cells) == (bool(marked) and not left)


def test_targets_of_edges_are_paths_and_masks_leave_one():
    upper, lower = (1, 0, 1, 0), (0, 1, 0, 1)
    for bits in product((0, 1), repeat=4):
        assert refuses(DAGPath(), (4,), bits) == (bits not in (upper, lower))
        leaves = any(all(np.array(bits) >= path) for path in (upper, lower))
        assert refuses(DAGPath(loss="regret"), (4,), torch.zeros(4), bits) == (any(bits) and not leaves)
        assert not refuses(DAGPath(), (6,), (*upper, 0, 0), [1, 1, 1, 1, 0, 0])
    for wrong in ((3,), (5,)):
        assert refuses(DAGPath(loss="regret"), wrong, torch.zeros(wrong))


def test_edges_have_no_cycle_one_source_and_one_sink():
    for wrong in ((), ((-1, 0),), ((0, 0),), ((0, 1), (1, 0)), ((0, 1), (2, 1)), ((0, 1), (0, 2))):
        with pytest.raises(ValueError, match="must"):
            DAGPath(wrong)
    for negative in ((0, -1), (-1, 0)):
        with pytest.raises(ValueError, match="edges must be pairs"):
            DAGPath(((1, 2), negative))
    assert DAGPath(((0, 1), (2, 1)), source=2).infer(torch.zeros(2), torch.tensor([0, 1])).loss == 0
    assert DAGPath(((0, 1), (0, 2)), sink=1).infer(torch.zeros(2), torch.tensor([1, 0])).loss == 0
    assert DAGPath(((0, 5),)).infer(torch.zeros(1), torch.tensor([1])).loss == 0  # numbers may be left out


def test_edges_may_be_given_as_lists_or_arrays():
    given = DAGPath(((0, 1), (0, 2), (1, 3), (2, 3)))
    edges: Any
    for edges in (given.edges, list(map(list, given.edges)), np.array(given.edges)):
        assert DAGPath(edges) == given == DAGPath()
        assert hash(DAGPath(edges)) == hash(given)


def test_parallel_edges_are_paths_of_one_edge():
    output = DAGPath(((0, 1), (0, 1))).infer(torch.tensor([1.0, 0.0]), torch.tensor([0, 1]))
    assert output.features.tolist() == [2.0, 0.0]
    assert output.loss == 1


@pytest.mark.parametrize("height", [1e-30, 1.0, 1e30])
def test_costs_that_differ_by_rounding_alone_do_not_count(height):
    """What edges cost is a difference of heights, so every path costs the same; then one costs a little more."""
    task, tails, heads = DAGPath(EDGES, "regret"), *torch.tensor(EDGES).T
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((50, len(EDGES)), generator=generator, dtype=torch.float64)
    heights = height * torch.randn((50, 5), generator=generator, dtype=torch.float64)
    costs = heights[:, tails] - heights[:, heads]
    assert not task.infer_augmented(scores, costs, 1.0).features.any()
    costs[:, 5] += 1e-9 * height
    assert (task.infer_augmented(scores, costs, 1e9).loss > 0.99).all()


def test_structures_have_an_order():
    assert not any(task.exchangeable for task in RAGGED)


def test_weights_and_scales_of_chains_are_numbers_one_for_each():
    scores, target, one = torch.zeros(2, 1, 2, 2), torch.zeros(2, 2).long(), torch.ones(2, dtype=torch.float64)
    assert LinearChain().contrast(scores, target, UpdateSpec(one, -one, one)).counted.all()
    for wrong in (torch.nan * one, torch.ones(3), torch.nan):
        with pytest.raises(ValueError, match="weight"):
            LinearChain().contrast(scores, target, UpdateSpec(wrong, 0.0, 1.0))
        with pytest.raises(ValueError, match="scale"):
            LinearChain().contrast(scores, target, UpdateSpec(1.0, 0.0, wrong))


@pytest.mark.parametrize(("dtype", "factor"), [(torch.float32, 1e37), (torch.float64, 1e299)])
def test_chains_of_large_scores_have_the_labels_of_small_ones(dtype, factor):
    scores = torch.randn((2, 3, 2, 2), generator=torch.Generator().manual_seed(0), dtype=dtype)
    target = torch.zeros(2, 4).long()
    small, large = (LinearChain().infer(each * scores, target).features for each in (1.0, factor))
    assert small.equal(large)
    assert small[:, :, 1].any()  # not the first labels everywhere


@pytest.mark.parametrize("task", RAGGED, ids=repr)
def test_an_update_is_the_same_in_any_unit_of_scores(task):
    scores, target, mask = ragged(task, np.random.default_rng(10), 20, RAGGED[task][0])
    want = task.contrast(scores, target, UpdateSpec(1.0, -0.5, 1.0), mask)
    for each in (2.0**-100, 2.0**100):
        found = task.contrast(scores * each, target, UpdateSpec(each, -0.5 * each, 1 / each), mask)
        assert found.value.equal(want.value)
        assert (found.gradient * each).equal(want.gradient)


def test_a_huge_weight_leaves_the_choice_among_right_alignments_to_the_scores():
    for start in (1, 2, 3):
        scores = torch.zeros(6, 2, dtype=torch.float64)
        scores[:start, 0], scores[start:, 1] = 1.0, 1.0
        found = Alignment(1).infer_augmented(scores, torch.tensor([0, 2]), -1e20)
        assert found.loss == 0
        assert found.features.sign().equal(scores)
