"""Chains, alignments and paths: brute force, a Viterbi algorithm in plain PyTorch, masks, types and what is refused."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.peers import chain_loop, sequence_by_sequence, viterbi
from benchmarks.speed import chain_problem
from directloss import CentralDirect, Hinge, NegativeDirect, Perceptron, PositiveDirect, StructuredLoss, Task
from directloss.tasks.alignment import Alignment
from directloss.tasks.dag_path import DAGPath
from directloss.tasks.grid_path import GridPath
from directloss.tasks.linear_chain import LinearChain, edge_potentials
from directloss.testing import check_task
from examples.shortest_path import ShortestPath

GRID = tuple((4 * row + column, 4 * row + column + 1) for row in range(3) for column in range(3)) + tuple(
    (4 * row + column, 4 * row + column + 4) for row in range(2) for column in range(4)
)
TANGLED = ((3, 2), (3, 1), (1, 2), (2, 0), (1, 0), (3, 0), (2, 0), (4, 3))  # parallel edges, nodes out of order
UPDATES = [PositiveDirect(0.7), NegativeDirect(0.7), CentralDirect(0.7), Hinge(1.3), Perceptron()]


def chains(*batch: int):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((*batch, 5, 3, 3), generator=generator, dtype=torch.float64)
    return scores, torch.randint(3, (*batch, 6), generator=generator)


def alignments(*batch: int):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((*batch, 9, 4), generator=generator, dtype=torch.float64)
    starts = torch.rand((*batch, 8), generator=generator).argsort(-1)[..., :3].sort(-1).values + 1
    return scores, torch.cat([torch.zeros_like(starts[..., :1]), starts], -1)


def costs(*shape: int):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64)
    return scores, torch.rand(shape, generator=generator, dtype=torch.float64)


def paths(task, *shape: int):
    scores, random = costs(*shape)
    return scores, task.find(random, torch.ones_like(random, dtype=torch.bool))[0].long()


TASKS = {
    LinearChain(): chains,
    Alignment(): alignments,
    Alignment(tolerance=0): alignments,
    GridPath(): lambda *batch: paths(GridPath(), *batch, 4, 5),
    GridPath(neighbours=4): lambda *batch: paths(GridPath(neighbours=4), *batch, 4, 5),
    GridPath(loss="regret"): lambda *batch: costs(*batch, 4, 5),
    DAGPath(GRID): lambda *batch: paths(DAGPath(GRID), *batch, len(GRID)),
    DAGPath(GRID, loss="regret"): lambda *batch: costs(*batch, len(GRID)),
}
EVERY = pytest.mark.parametrize(("task", "problem"), TASKS.items(), ids=map(repr, TASKS))


def gradient(loss, scores, *rest):
    scores = scores.detach().requires_grad_()
    value = loss(scores, *rest)
    (grad,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), grad


MORE = [
    *TASKS,
    Alignment(tolerance=3),
    GridPath(neighbours=4, loss="regret"),
    DAGPath(),
    DAGPath(TANGLED),
    DAGPath(TANGLED, loss="regret"),
    DAGPath(TANGLED, loss="regret", source=3, sink=2),
]


@pytest.mark.parametrize("task", MORE, ids=repr)
def test_oracles_are_exact_by_brute_force(task):
    check_task(task, problems=20)


@EVERY
def test_every_task_compiles_is_mapped_and_keeps_types(task, problem):
    torch.compiler.reset()
    scores, target = problem(2, 3)
    loss = StructuredLoss(task, CentralDirect(0.7), reduction="none")
    want = gradient(loss, scores, target)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(gradient(compiled, scores, target), want)
    torch.testing.assert_close(torch.func.vmap(loss)(scores, target), want[0])
    torch.testing.assert_close(torch.func.vmap(task.infer)(scores, target), task.infer(scores, target))
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        value, grad = gradient(loss, scores.to(dtype), target)
        assert value.dtype == grad.dtype == dtype
        torch.testing.assert_close(value.double(), loss(scores.to(dtype).double(), target), rtol=1e-2, atol=1e-2)
    scores = scores.detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: loss(s, target), scores)


@EVERY
def test_a_batch_gives_what_its_problems_give_whatever_the_memory_looks_like(task, problem):
    scores, target = problem(2, 3)
    strengths = torch.tensor([[0.1, 1.0, 10.0], [0.3, 3.0, 30.0]], dtype=torch.float64)
    together = gradient(StructuredLoss(task, CentralDirect(strengths), reduction="none"), scores, target)
    for i in range(2):
        for j in range(3):
            alone = gradient(StructuredLoss(task, CentralDirect(strengths[i, j].item())), scores[i, j], target[i, j])
            torch.testing.assert_close((together[0][i, j], together[1][i, j]), alone)
    turned = gradient(StructuredLoss(task, CentralDirect(strengths.T), reduction="none"),
                      scores.transpose(0, 1), target.transpose(0, 1))  # fmt: skip
    torch.testing.assert_close((turned[0].T, turned[1].transpose(0, 1)), together)


@EVERY
def test_an_empty_batch_and_copies_work(task, problem):
    scores, target = problem(3)
    assert StructuredLoss(task, PositiveDirect(1.0))(scores[:0], target[:0]) == 0
    for twin in (copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        assert twin == task
        torch.testing.assert_close(twin.infer(scores, target), task.infer(scores, target))
    assert hash(task) == hash(copy.deepcopy(task))


@EVERY
def test_scores_that_are_not_finite_are_refused(task, problem):
    scores, target = problem(2)
    for bad in (torch.nan, torch.inf, -torch.inf, 1e301):
        wrong = scores.clone()
        wrong.flatten()[7] = bad
        for update in UPDATES:
            with pytest.raises(ValueError, match="scores must be finite"):
                StructuredLoss(task, update)(wrong, target)
        with pytest.raises(ValueError, match="scores must be finite"):
            task.truth(wrong, target)
    with pytest.raises(ValueError, match="scores must be finite"):
        task.infer(torch.full_like(scores, torch.inf, dtype=torch.float32), target)


HALF = {  # scores and target of a problem in three sizes; the truth's parts score N(1, 1), others N(0, 1)
    LinearChain(): [(10, 3), (100, 5), (400, 20)],
    Alignment(): [(30, 5), (300, 20), (300, 75)],
    GridPath(neighbours=4): [(5, 5), (12, 12), (30, 20)],
    GridPath(): [(5, 5), (12, 12), (30, 20)],
    GridPath(loss="regret"): [(5, 5), (12, 12), (30, 20)],
}


def sized(task, first: int, second: int):
    generator = torch.Generator().manual_seed(0)
    if isinstance(task, LinearChain):
        target = torch.randint(second, (8, first), generator=generator)
        unary = torch.randn((8, first, second), generator=generator)
        unary += torch.nn.functional.one_hot(target, second)
        return edge_potentials(unary, torch.zeros(second, second)), target
    scores = torch.randn((8, first, second), generator=generator)
    if isinstance(task, Alignment):
        starts = torch.rand((8, first - 1), generator=generator).argsort(-1)[:, : second - 1].sort(-1).values + 1
        target = torch.cat([torch.zeros_like(starts[:, :1]), starts], -1)
        return scores + task.truth(scores, target).features.sign(), target
    if task.loss == "regret":
        true = torch.randn((8, first, second), generator=generator)
        return scores - true, true
    target = task.find(torch.randn((8, first, second), generator=generator).double(), torch.ones(scores.shape) > 0)[0]
    return scores + target, target


@pytest.mark.parametrize(("task", "sizes"), HALF.items(), ids=repr)
def test_epsilon_is_in_units_of_scores_at_every_size(task: Task, sizes):
    """The ε at which half of the possible loss is reached lies between 0.5 and 4."""
    for size in sizes:
        scores, target = sized(task, *size)

        def loss(weight, scores=scores, target=target):
            return task.infer_augmented(scores, target, weight).loss.mean().item()

        goal = (loss(0.0) + loss(1e6)) / 2
        assert loss(0.5) < goal < loss(4.0), (size, [loss(x) for x in (0.0, 0.5, 1.0, 2.0, 4.0, 1e6)])


# --- linear chains


def test_chain_is_that_of_a_loop_in_torch():
    scores, target = chain_problem()
    scores, target = scores[:4], target[:4]
    loss = StructuredLoss(LinearChain(), PositiveDirect(1.0))
    want = gradient(chain_loop, scores, target)
    torch.testing.assert_close(gradient(loss, scores, target), want)
    torch.testing.assert_close(gradient(sequence_by_sequence, scores, target), want)
    path = viterbi(scores.double())
    features = torch.zeros_like(scores).flatten(-2)
    features.scatter_(-1, (path[:, :-1] * 20 + path[:, 1:]).unsqueeze(-1), 2 / 100)
    torch.testing.assert_close(LinearChain().infer(scores, target).features, features.view_as(scores))


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_fast_way_of_a_chain_is_that_of_the_family(seed):
    generator = torch.Generator().manual_seed(seed)
    edges, labels = (int(torch.randint(1, 8, (), generator=generator)) for _ in range(2))
    scores = torch.randn((2, 3, edges, labels, labels), generator=generator, dtype=torch.float64)
    target = torch.randint(labels, (2, 3, edges + 1), generator=generator)
    mask = torch.arange(edges) < torch.randint(edges + 1, (2, 3, 1), generator=generator)
    task, strengths = LinearChain(), 10 ** torch.randn((2, 3), generator=generator, dtype=torch.float64)
    for update in (PositiveDirect(strengths), NegativeDirect(0.3), CentralDirect(strengths), Hinge(2.0), Perceptron()):
        torch.testing.assert_close(
            task.contrast(scores, target, update.spec, mask), Task.contrast(task, scores, target, update.spec, mask)
        )
        torch.testing.assert_close(
            task.output(scores, target, update.spec.away, mask),
            Task.output(task, scores, target, update.spec.away, mask),
        )
        torch.testing.assert_close(task.truth(scores, target, mask).loss, torch.zeros(2, 3, dtype=torch.float64))


def test_masked_edges_of_a_chain_change_nothing():
    scores, target = chains()
    mask = torch.arange(5) < 3
    loss = StructuredLoss(LinearChain(), CentralDirect(0.7))
    want = gradient(loss, scores[:3], target[:4])
    padded = scores.clone()
    padded[3:] = torch.nan
    value, grad = gradient(loss, padded, torch.where(torch.arange(6) < 4, target, -100), mask)
    torch.testing.assert_close((value, grad[:3]), want)
    assert not grad[3:].any()
    assert not gradient(loss, padded, target, torch.zeros(5, dtype=torch.bool))[1].any()
    alone = StructuredLoss(LinearChain(), CentralDirect(0.7))(torch.zeros(0, 3, 3), torch.zeros(1).long())
    assert alone == 0  # a step without an edge


def test_equal_paths_of_a_chain_take_the_smallest_labels():
    features = LinearChain().infer(torch.zeros(3, 4, 4), torch.ones(4).long()).features
    assert features.nonzero().tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]


def test_edge_potentials_give_the_scores_of_labels_and_transitions():
    generator = torch.Generator().manual_seed(0)
    unary = torch.randn((2, 5, 3), generator=generator, requires_grad=True)
    pairwise = torch.randn((3, 3), generator=generator, requires_grad=True)
    path = torch.randint(3, (2, 5), generator=generator)
    scores = edge_potentials(unary, pairwise)
    features = LinearChain().truth(scores, path).features * 5 / 2
    plain = unary.gather(-1, path.unsqueeze(-1)).sum((-1, -2)) + pairwise[path[:, :-1], path[:, 1:]].sum(-1)
    torch.testing.assert_close((features * scores).sum((-1, -2, -3)), plain)
    StructuredLoss(LinearChain(), PositiveDirect(1.0))(scores, path).backward()
    assert unary.grad is not None
    assert pairwise.grad is not None


# --- alignments


def test_loss_of_an_alignment_counts_boundaries_off_by_more_than_the_tolerance():
    scores = torch.full((10, 4), -1.0)
    for start, end, segment in ((0, 2, 0), (2, 5, 1), (5, 6, 2), (6, 10, 3)):
        scores[start:end, segment] = 1.0
    target = torch.tensor([0, 2, 4, 9])  # off by 0, 1, 3
    losses = [Alignment(tolerance).infer(scores, target).loss.item() for tolerance in range(5)]
    assert losses == pytest.approx([2 / 3, 1 / 3, 1 / 3, 0, 0])


def test_masked_frames_and_segments_change_nothing():
    scores, target = alignments()
    loss = StructuredLoss(Alignment(), CentralDirect(0.7))
    want = gradient(loss, scores, target)
    padded = torch.full((12, 6), torch.nan, dtype=torch.float64)
    padded[:9, :4] = scores
    value, grad = gradient(loss, padded, torch.nn.functional.pad(target, (0, 2), value=-100), ~padded.isnan())
    torch.testing.assert_close((value, grad[:9, :4]), want)
    assert not grad[9:].any()
    assert not grad[:, 4:].any()


def test_equal_alignments_take_the_earliest_starts_and_one_segment_does_not_count():
    task = Alignment(tolerance=0)
    assert task.infer(torch.zeros(5, 3), torch.tensor([0, 1, 2])).loss == 0
    output = task.infer(torch.randn(5, 1), torch.tensor([0]))
    assert output.loss == 0
    assert not output.features.any()


# --- paths


def test_masked_cells_are_walls_or_padding():
    task = GridPath(neighbours=4, loss="regret")
    true = torch.tensor([[1.0, 1.0, 1.0], [1.0, 9.0, 1.0], [1.0, 5.0, 1.0]])
    scores = -true.flip(1)
    walls = torch.tensor([[1, 1, 1], [1, 0, 1], [1, 1, 1]]) > 0
    output = task.infer(scores, true.where(walls, torch.nan), walls)
    assert output.features.sign().tolist() in ([[1, 1, 1], [0, 0, 1], [0, 0, 1]], [[1, 0, 0], [1, 0, 0], [1, 1, 1]])
    padded = [torch.nn.functional.pad(each, (0, 2, 0, 1), value=torch.nan) for each in (scores, true)]
    inside = torch.nn.functional.pad(walls, (0, 2, 0, 1))
    again = task.infer(padded[0], padded[1], inside)
    torch.testing.assert_close((again.features[:3, :3], again.loss), (output.features, output.loss))
    assert not again.features[3:].any()
    with pytest.raises(ValueError, match="there must be a path"):
        task.infer(scores, true, torch.eye(3) > 0)
    assert GridPath(loss="regret").infer(scores, true, torch.eye(3) > 0).loss == 0  # the only path


def test_a_grid_is_a_graph():
    """Scores of cells are scores of the edges into them; the first cell is on every path."""
    edges = [((row, column), (row + down, column + right)) for row in range(4) for column in range(5)
             for down, right in ((0, 1), (1, 0), (1, 1)) if row + down < 4 and column + right < 5]  # fmt: skip
    graph = DAGPath([(5 * a + b, 5 * c + d) for (a, b), (c, d) in edges], loss="regret")
    heads = torch.tensor([5 * row + column for _, (row, column) in edges])
    scores, true = costs(6, 4, 5)
    for weight in (-3.0, -0.3, 0.0, 0.3, 3.0):
        grid = GridPath(loss="regret").infer_augmented(scores, true, weight)
        edgewise = graph.infer_augmented(scores.flatten(1)[:, heads], true.flatten(1)[:, heads], weight * 8 / 7)
        torch.testing.assert_close(grid.loss, edgewise.loss)  # at most 8 cells, 7 edges


def test_equal_paths_go_back_up_first():
    features = GridPath().infer(torch.zeros(3, 3), torch.eye(3)).features
    assert features.sign().tolist() == [[1, 1, 1], [0, 0, 1], [0, 0, 1]]
    target = torch.tensor([0, 1, 0, 1])
    assert DAGPath().infer(torch.zeros(4), target).features.sign().tolist() == [1, 0, 1, 0]


def test_regret_does_not_count_where_all_paths_cost_the_same():
    task = GridPath(neighbours=4, loss="regret")
    true = 0.1 * (torch.arange(4).unsqueeze(-1) + torch.arange(5)) ** 2.0  # equal for every path but for rounding
    output = task.infer(torch.randn(4, 5), true)
    assert output.loss == 0
    assert not output.features.any()


NINE, CHAIN, LABELS = torch.zeros(3, 3), torch.zeros(3, 2, 2), torch.zeros(4).long()


@pytest.mark.parametrize(
    ("task", "scores", "target", "mask", "message"),
    [
        (LinearChain(), torch.zeros(3, 2), LABELS, None, r"at least 3 dimensions.*\(3, 2\)"),
        (LinearChain(), torch.zeros(3, 2, 4), LABELS, None, r"\(..., steps − 1, labels, labels\); got \(3, 2, 4\)"),
        (LinearChain(), CHAIN, torch.zeros(3).long(), None, r"target of shape \(4,\)"),
        (LinearChain(), CHAIN, torch.tensor([0, 1, 2, 0]), None, "labels from 0 to 1; got 2 at index 2"),
        (LinearChain(), CHAIN, LABELS, torch.ones(4) > 0, r"mask must have shape \(3,\)"),
        (LinearChain(), CHAIN, LABELS, torch.tensor([1, 0, 1]) > 0, "mask must have no hole"),
        (Alignment(), NINE, torch.zeros(4).long(), None, r"need a target of shape \(3,\)"),
        (Alignment(), NINE, torch.tensor([1, 2, 3]), None, "the first is 0.*got 1 at index 0"),
        (Alignment(), NINE, torch.tensor([0, 2, 2]), None, "they rise.*got 2 at index 2"),
        (Alignment(), NINE, torch.tensor([0, 1, 3]), None, "all are frames; got 3 at index 2"),
        (Alignment(), torch.zeros(2, 3), torch.tensor([0, 1, 2]), None, "more segments than frames; got 3"),
        (Alignment(), NINE, torch.tensor([0, 1, 2]), torch.eye(3) > 0, "mask must be a block"),
        (GridPath(), NINE, torch.zeros(3, 3), None, "target must be a path"),
        (GridPath(neighbours=4), NINE, torch.eye(3), None, "target must be a path"),
        (GridPath(), NINE, torch.ones(3, 3), None, "target must be a path"),
        (GridPath(), NINE, torch.rand(3, 3) / 2 + 0.1, None, "only 0 and 1"),
        (GridPath(), NINE, torch.eye(2), None, r"\(3, 3\) but target has shape \(2, 2\)"),
        (GridPath(loss="regret"), NINE, torch.eye(2), None, "the true costs, in the shape of scores"),
        (GridPath(loss="regret"), NINE, torch.full((3, 3), torch.inf), None, "finite ones; got inf"),
        (DAGPath(), torch.zeros(3), torch.zeros(3), None, "each of the 4 edges; got shape"),
        (DAGPath(), torch.zeros(5), torch.zeros(5), None, "each of the 4 edges; got shape"),
        (DAGPath(), torch.zeros(4), torch.tensor([1, 1, 1, 1]), None, "target must be a path"),
    ],
)  # fmt: skip
def test_what_a_task_does_not_take_is_refused_in_words(task, scores, target, mask, message):
    with pytest.raises(ValueError, match=message):
        StructuredLoss(task, PositiveDirect(1.0))(scores, target, mask)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Alignment(tolerance=-1), "0 or more; got -1"),
        (lambda: Alignment(tolerance=0.5), "0 or more; got 0.5"),  # pyright: ignore[reportArgumentType]
        (lambda: GridPath(neighbours=6), "must be 4 .* or 8"),
        (lambda: GridPath(loss="area"), "'hamming', 'regret'; got 'area'"),
        (lambda: DAGPath(()), "edges must be pairs"),
        (lambda: DAGPath(((0, -1),)), "edges must be pairs"),
        (lambda: DAGPath(((0, 1), (1, 2), (2, 1), (2, 3))), "no cycle; got one at node 1"),
        (lambda: DAGPath(((0, 2), (1, 2))), r"source must be given .* nodes \[0, 1\]"),
        (lambda: DAGPath(((0, 1), (0, 2))), r"sink must be given .* nodes \[1, 2\]"),
    ],
)
def test_a_task_that_makes_no_sense_is_refused_when_it_is_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("task", [LinearChain(), Alignment()], ids=repr)
def test_labels_and_starts_are_whole_numbers(task):
    with pytest.raises(TypeError, match=r"integer type; got torch.float32. Pass target.long\(\)"):
        task.infer(torch.zeros(3, 2, 2) if task == LinearChain() else NINE, torch.zeros(4))


# --- graphs with cycles: the example


def simple_paths(edges, source: int, sink: int):
    found = []

    def go(node, seen, path):
        if node == sink:
            found.append(path)
            return
        for edge, (tail, head) in enumerate(edges):
            if tail == node and head not in seen:
                go(head, seen | {head}, [*path, edge])

    go(source, {source}, [])
    return torch.stack([torch.zeros(len(edges)).index_fill(0, torch.tensor(path), 1.0) for path in found]).double()


def test_shortest_paths_are_exact_or_refused():
    edges = [(tail, head) for tail in range(5) for head in range(5) if tail != head]
    task, every = ShortestPath(edges, 0, 4), simple_paths(edges, 0, 4)
    generator = torch.Generator().manual_seed(0)
    solved, refused = {-1: 0, 1: 0}, {-1: 0, 1: 0}
    for number in range(400):
        sign = 1 if number % 2 else -1
        scores = -torch.rand(len(edges), generator=generator, dtype=torch.float64)
        true = torch.rand(len(edges), generator=generator, dtype=torch.float64)
        weight = sign * 10 ** (3 * torch.rand((), generator=generator).item() - 1)
        losses = (every * true).sum(-1) / true.sum()
        losses -= losses.min()
        shifted = -scores - weight * true / true.sum()
        try:
            output = task.infer_augmented(scores, true, weight)
        except ValueError:
            with pytest.raises(ValueError, match="negative cycle"):
                task.infer_augmented(scores, true, weight)
            assert sign > 0
            assert shifted.min() < 0
            refused[sign] += 1
            continue
        solved[sign] += 1
        got = (output.features * scores).sum() + weight * output.loss
        assert got.item() == pytest.approx((every @ scores + weight * losses).max().item(), abs=1e-9)
    assert solved[-1] == 200
    assert min(solved[1], refused[1]) > 30


def test_shortest_path_takes_costs_of_zero_or_more_only():
    task = ShortestPath([(0, 1), (1, 0), (1, 2)], 0, 2)
    with pytest.raises(ValueError, match=r"scores must be minus costs, 0 or less; got 1\.0 at index 1"):
        task.infer(torch.tensor([-1.0, 1.0, 0.0]), torch.ones(3))
    with pytest.raises(ValueError, match="true costs, 0 or more"):
        task.infer(-torch.ones(3), -torch.ones(3))
    with pytest.raises(ValueError, match="there is no path from 0 to 3"):
        ShortestPath([(0, 1), (1, 0), (1, 2)], 0, 3).infer(-torch.ones(3), torch.ones(3))
