"""At home in PyTorch: compile, transforms, types, autocast, workers, threads, copies, caches."""

import copy
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from members import MEMBERS, average_precision_loss
from torch.library import opcheck
from torch.utils.data import DataLoader, Dataset

from directloss import (
    AveragePrecision,
    AveragePrecisionAtK,
    AveragePrecisionLoss,
    DAGPath,
    MulticlassZeroOne,
    PartialAUC,
    PositiveDirect,
    RetrievalLoss,
    StructuredLoss,
    Task,
    Tversky,
    WarmUp,
    ZeroOne,
)
from directloss.autograd import _make, describe
from directloss.families import ByNegatives, ByRank, RankingTask
from directloss.tasks import TASKS

SOURCE = Path(__file__).parents[2] / "src"


def problem(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return scores.requires_grad_(), torch.rand(shape, generator=generator) < 0.4


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_compiles_into_one_graph_with_the_same_value_and_gradient(member, masked):
    torch.compiler.reset()
    loss = StructuredLoss(*member)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    scores, target = problem(3, 9)
    mask = torch.rand((3, 9), generator=torch.Generator().manual_seed(1)) < 0.8 if masked else None
    want, got = loss(scores, target, mask), compiled(scores, target, mask)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(torch.autograd.grad(got, scores), torch.autograd.grad(want, scores))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.slow
def test_compiles_a_training_step_with_inductor():
    torch.compiler.reset()
    layer = torch.nn.Linear(4, 1)
    loss = AveragePrecisionLoss()
    x, y = torch.randn(2, 20, 4), torch.rand(2, 20) < 0.5
    step = torch.compile(lambda x: loss(layer(x).squeeze(-1), y), fullgraph=True)
    want = torch.autograd.grad(loss(layer(x).squeeze(-1), y), layer.weight)
    torch.testing.assert_close(torch.autograd.grad(step(x), layer.weight), want)


def test_compiled_code_still_refuses_bad_input():
    torch.compiler.reset()
    compiled = torch.compile(average_precision_loss, fullgraph=True, backend="aot_eager")
    with pytest.raises(ValueError, match="finite"):
        compiled(torch.tensor([torch.nan, 1.0]), torch.tensor([1, 0]))


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning")
def test_traced_code_calls_the_operator_and_has_no_numbers_inside():
    loss = AveragePrecisionLoss()
    traced: Any = torch.jit.trace(lambda scores, target: loss(scores, target), problem(3, 9))
    scores, target = problem(3, 9, seed=1)
    want, got = loss(scores, target), traced(scores, target)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(torch.autograd.grad(got, scores), torch.autograd.grad(want, scores))


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_transforms_of_torch_func(member):
    loss = StructuredLoss(*member, reduction="sum")
    scores, target = problem(4, 3, 7)
    (want,) = torch.autograd.grad(loss(scores, target), scores)
    scores = scores.detach()
    torch.testing.assert_close(torch.func.grad(loss)(scores, target), want)
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(1, 1), out_dims=1)(scores, target)
    torch.testing.assert_close(each, want)
    shared = torch.func.vmap(loss, in_dims=(0, None))(scores, target[0])
    torch.testing.assert_close(shared, torch.stack([loss(s, target[0]) for s in scores]))
    mask = target | (scores > 0)
    masked = torch.func.vmap(loss)(scores, target, mask)
    torch.testing.assert_close(masked, torch.stack([loss(*row) for row in zip(scores, target, mask, strict=True)]))
    torch.testing.assert_close(torch.func.jacrev(loss)(scores, target), want)


STRIDES = {
    "contiguous": lambda tensor: tensor.contiguous(),
    "transposed": lambda tensor: tensor.movedim(0, -1).contiguous().movedim(-1, 0),
    "every second": lambda tensor: torch.stack([tensor, tensor], -1)[..., 0],
    "expanded": lambda tensor: tensor[:1].expand(tensor.shape),
    "no problem": lambda tensor: tensor[:0],
}


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("task", [kind() for kind in TASKS.values()], ids=str)
def test_operators_keep_the_rules_of_torch_library(task, strides):
    generator = torch.Generator().manual_seed(0)
    drawn = (task.random_problem(5, generator) for _ in range(100))
    scores, target, mask = next(one for one in drawn if one.scores.numel() > 3)
    valid = torch.ones(scores.shape[: task.mask_dims], dtype=torch.bool) if mask is None else mask
    scores, target, valid = (STRIDES[strides](torch.stack([tensor] * 3)) for tensor in (scores, target, valid))
    one, each = torch.tensor(1.0, dtype=torch.float64), torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    each = each[: len(scores)]
    checks = ("test_schema", "test_faketensor")
    for dtype in (torch.float32, torch.float64):
        given = scores.to(dtype), target, None if dtype is torch.float32 else valid
        for weights in ((one, each, one), (each, None, one)):
            opcheck(torch.ops.directloss.contrast.default, (*given, *weights, describe(task)), test_utils=checks)
        opcheck(torch.ops.directloss.output.default, (*given, None, describe(task)), test_utils=checks)


def test_the_operator_of_average_precision_passes_all_of_opcheck():
    scores, target = problem(3, 8)
    one = torch.tensor(1.0, dtype=torch.float64)
    given = scores.detach(), target, None
    opcheck(torch.ops.directloss.contrast.default, (*given, one, one, one, describe(AveragePrecision())))
    opcheck(torch.ops.directloss.output.default, (*given, None, describe(AveragePrecision())))


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_losses_take_scores_of_any_strides(backend):
    torch.compiler.reset()
    loss = AveragePrecisionLoss()
    compiled = torch.compile(loss, backend=backend)
    scores, target = problem(12, 4)
    for some, labels, dim in ((scores, target, 0), (scores.T, target.T, -1), (scores[::2], target[::2], 0)):
        some = some.detach().requires_grad_()
        (want,) = torch.autograd.grad(loss(some, labels, dim=dim), some)
        torch.testing.assert_close(torch.autograd.grad(compiled(some, labels, dim=dim), some)[0], want)


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning", "ignore:The .grad attribute")
def test_a_compiled_step_passes_through_the_end_of_a_warm_up():
    torch.compiler.reset()
    torch.manual_seed(0)
    layer, x, target = torch.nn.Linear(4, 3), torch.randn(20, 4), torch.rand(20, 3) < 0.3
    gradients = []
    for call in (lambda step: step, torch.compile):
        loss = WarmUp(AveragePrecisionLoss(dim=0), steps=12)  # more than there may be graphs of one function
        step = call(lambda x, target, loss=loss: loss(layer(x), target))
        gradients.append([torch.autograd.grad(step(x, target), layer.weight)[0] for _ in range(14)])
        assert loss.step == 12
    torch.testing.assert_close(*gradients)
    assert not torch.equal(gradients[0][0], gradients[0][13])


LOADED = """
import sys, torch, directloss
program = torch.export.load(sys.argv[1]).module()
print(program(torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])).item())
"""


def test_an_exported_loss_is_the_same_loss_in_another_process(tmp_path):
    class Step(torch.nn.Module):
        def __init__(self, task):
            super().__init__()
            self.loss = StructuredLoss(task, PositiveDirect(1.0))

        def forward(self, scores, target):
            return self.loss(scores, target)

    given = torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])
    wanted = []
    for task in (AveragePrecisionAtK(2), AveragePrecision()):
        step = Step(task)
        torch.export.save(torch.export.export(step, given), tmp_path / f"{len(wanted)}.pt2")
        wanted.append(step(*given).item())
    assert wanted[0] != wanted[1]
    for k, value in enumerate(wanted):
        assert float(python(LOADED, [str(tmp_path / f"{k}.pt2")])) == value

    class Local(type(AveragePrecision())):
        pass

    with pytest.raises(Exception, match=r"Local cannot be exported.*Define its class in a module"):
        torch.export.export(Step(Local()), given)


def test_graphs_of_several_parameters_and_of_classes_of_one_name_are_told_apart():
    torch.compiler.reset()
    scores, target = problem(3, 8)
    for alpha in (0.2, 0.3, 0.4):
        loss = StructuredLoss(Tversky(alpha, 0.5), PositiveDirect(1.0))
        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(scores, target), loss(scores, target))

    def made(power):
        def gain(self, positives, negatives):
            return ByRank([1.0] * positives, [power**rank for rank in range(positives + negatives)])

        return type("Made", (RankingTask,), {"gain": gain, "__module__": __name__, "__qualname__": "Made"})()

    tasks = [made(0.9), made(0.1)]
    for task in tasks:
        loss = StructuredLoss(task, PositiveDirect(1.0))
        torch.testing.assert_close(torch.func.vmap(loss)(scores, target).mean(), loss(scores, target))


class Own(PartialAUC):
    """A subclass of a dataclass, with a parameter that is no field."""

    def __init__(self, power):
        super().__init__(0.5)
        object.__setattr__(self, "power", power)

    def gain(self, positives, negatives):
        return ByNegatives([1.0] * positives, [self.power**c for c in range(negatives + 1)])


def test_a_subclass_with_more_than_fields_is_made_again_with_all_of_them():
    scores, target = problem(3, 8)
    for power in (0.9, 0.1):
        loss = StructuredLoss(Own(power), PositiveDirect(1.0))
        torch.testing.assert_close(torch.func.vmap(loss)(scores, target).mean(), loss(scores, target))
        assert _make(describe(loss.task)).power == power


@pytest.mark.parametrize(
    "task", [DAGPath(((0, 1), (1, 2), (0, 2))), MulticlassZeroOne(costs=((0.0, 1.0), (0.5, 0.0)))], ids=repr
)
def test_tasks_that_derive_arrays_are_made_again_from_their_parameters(task):
    again = _make(describe(task))
    assert again == task
    scores = torch.randn(3 if task.mask_dims is None and "DAG" in repr(task) else 2, dtype=torch.float64)
    target = torch.tensor([0, 0, 1]) if len(scores) == 3 else torch.tensor(1)
    for one, other in zip(again.infer(scores, target), task.infer(scores, target), strict=True):
        assert torch.equal(one, other)


def test_a_graph_of_a_task_that_is_gone_says_so():
    scores, target = problem(3, 8)
    for described, words in (("#123456", "task of another process"), ("os:system:{}", "needs the task system of the")):
        with pytest.raises(RuntimeError, match=words):
            torch.ops.directloss.output.default(scores, target, None, None, described)


def test_parameters_and_subclasses_of_tensors_may_be_flat_scores():
    class Named(torch.Tensor):
        pass

    scores, target, ids = torch.randn(12), torch.arange(12) % 2, torch.arange(12) // 4
    want = AveragePrecisionLoss()(scores, target, indexes=ids)
    for given in (torch.nn.Parameter(scores), scores.as_subclass(Named)):
        assert AveragePrecisionLoss()(given, target, indexes=ids) == want


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_value_and_gradient_have_the_type_of_the_scores(member, dtype):
    scores, target = problem(2, 9, dtype=dtype)
    value = StructuredLoss(*member)(scores, target)
    (grad,) = torch.autograd.grad(value, scores)
    assert value.dtype == grad.dtype == dtype
    double = scores.detach().double().requires_grad_()
    want = StructuredLoss(*member)(double, target)
    torch.testing.assert_close(value, want.to(dtype))
    torch.testing.assert_close(grad, torch.autograd.grad(want, double)[0].to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_gives_a_float32_loss_as_torch_does(dtype):
    layer = torch.nn.Linear(8, 1)
    x, target = torch.randn(30, 8), torch.rand(30) < 0.3
    with torch.autocast("cpu", dtype=dtype):
        scores = layer(x).squeeze(-1)
        assert scores.dtype == dtype
        value = average_precision_loss(scores, target)
        assert value.dtype == torch.nn.functional.binary_cross_entropy_with_logits(scores, target.float()).dtype
    (grad,) = torch.autograd.grad(2.0**10 * value, layer.weight)  # as a GradScaler would
    assert torch.isfinite(grad).all()
    assert grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_autocast_changes_neither_value_nor_gradient(member, dtype):
    scores, target = problem(4, 500, dtype=torch.float32)
    loss = StructuredLoss(*member)
    want = loss(scores, target)
    with torch.autocast("cpu", dtype=dtype):
        got = loss(scores, target)
    torch.testing.assert_close(got, want)
    scale = 65536.0  # where a GradScaler starts
    torch.testing.assert_close(torch.autograd.grad(scale * got, scores), torch.autograd.grad(scale * want, scores))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("searched", [False, True])
def test_autocast_does_not_round_similarities(dtype, searched):
    generator = torch.Generator().manual_seed(0)
    embeddings, others = (torch.randn(60, 4, generator=generator) + 9 for _ in range(2))  # cosines close together
    labels, loss = torch.arange(60) % 5, RetrievalLoss()
    references = (others, labels) if searched else ()
    embeddings.requires_grad_()
    want = loss(embeddings, labels, *references)
    with torch.autocast("cpu", dtype=dtype):
        got = loss(embeddings, labels, *references)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(torch.autograd.grad(got, embeddings), torch.autograd.grad(want, embeddings))


def test_tensors_without_data_get_a_loss_without_data():
    scores, target = problem(2, 9)
    assert AveragePrecisionLoss()(scores.detach().to("meta"), target.to("meta")).device.type == "meta"


def test_tensors_without_data_are_checked_as_others_are():
    scores, target = problem(2, 9)
    mask = torch.ones(9, dtype=torch.bool, device="meta")
    with pytest.raises(ValueError, match=r"mask has shape \(9,\)"):
        AveragePrecisionLoss()(scores.detach().to("meta"), target.to("meta"), mask)


@pytest.mark.parametrize("task", [AveragePrecision(), ZeroOne()], ids=str)
def test_outputs_can_be_mapped_and_values_of_each_list_have_the_type_of_the_scores(task):
    scores, target = problem(3, 9)
    torch.testing.assert_close(torch.func.vmap(task.infer)(scores, target), task.infer(scores, target))
    half = scores.detach().half().requires_grad_()
    values = StructuredLoss(task, PositiveDirect(1.0), reduction="none")(half, target)
    (grad,) = torch.autograd.grad(values.sum(), half)
    assert values.dtype == grad.dtype == torch.float16


def test_repr_shows_a_task_of_your_own():
    class Mine(Task):
        def oracle(self, scores, target, weight, mask):
            raise AssertionError

    assert repr(StructuredLoss(Mine(), PositiveDirect(1.0))).startswith("StructuredLoss(task=Mine(), ")


def test_small_gradients_survive_float16_under_a_scaled_loss():
    scores, target = problem(20_000, dtype=torch.float16)
    plain, scaled = (
        torch.autograd.grad(average_precision_loss(scores, target), scores, torch.tensor(scale, dtype=torch.float16))[0]
        for scale in (1.0, 1024.0)
    )
    (want,) = torch.autograd.grad(average_precision_loss(s := scores.detach().double().requires_grad_(), target), s)
    assert (plain == 0).sum() > (want == 0).sum()  # underflow without a scale
    torch.testing.assert_close(scaled, (1024 * want).half())


class Lists(Dataset):
    """A data set whose items are computed with the loss, in the worker."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        scores, target = problem(50, dtype=torch.float32, seed=index)
        return torch.autograd.grad(average_precision_loss(scores, target), scores)[0]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.nightly)])
def test_loss_works_in_data_loader_workers(method):
    want = torch.stack([Lists()[k] for k in range(4)])  # the parent has used the kernels before it forks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of fork beside threads
        loader = DataLoader(Lists(), batch_size=2, num_workers=2, multiprocessing_context=method)
        got = torch.cat(list(loader))
    torch.testing.assert_close(got, want)


def test_loss_works_in_several_threads_at_once():
    problems = [problem(2000, seed=k) for k in range(8)]
    loss = AveragePrecisionLoss()
    want = [torch.autograd.grad(loss(*p), p[0])[0] for p in problems]
    got = [None] * 8

    def work(k):
        for _ in range(5):
            (got[k],) = torch.autograd.grad(loss(*problems[k]), problems[k][0])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_losses_are_plain_modules(member):
    loss = StructuredLoss(*member, reduction="sum")
    assert loss.state_dict() == {}
    assert list(loss.parameters()) == []
    twin = copy.deepcopy(loss)
    assert (twin.task, twin.update, twin.reduction) == (loss.task, loss.update, loss.reduction)
    assert repr(loss) == f"StructuredLoss(task={member[0]}, update={member[1]}, reduction='sum')"
    scores, target = problem(9)
    assert twin.train()(scores, target) == loss.eval()(scores, target)


def test_repr_of_the_front_door():
    assert repr(AveragePrecisionLoss(PositiveDirect(2.0))) == (
        "AveragePrecisionLoss(task=AveragePrecision(), update=PositiveDirect(epsilon=2.0), reduction='mean')"
    )


def python(code: str, arguments: Sequence[str] = (), errors: bool = False, **environment: str) -> Any:
    """Run code in a fresh process and return what it prints, or the process with its errors, too."""
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done if errors else done.stdout


def test_import_is_silent_and_brings_neither_numba_nor_the_compiler_nor_an_extra():
    heavy = "numba", "sklearn", "matplotlib", "rich", "torch._dynamo"
    code = f"import sys, directloss; print([m for m in {heavy} if m in sys.modules])"
    assert python(code) == "[]\n"


CALL = """
import torch, directloss
print(directloss.AveragePrecisionLoss()(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1])).item())
from directloss.kernels.average_precision import average_precision_up as kernel
print(sum(kernel.stats.cache_hits.values()) if kernel.stats.cache_path else None)
"""


SMALL = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("kernels", {str(SOURCE / "directloss/kernels/__init__.py")!r})
kernels = importlib.util.module_from_spec(spec)  # without directloss, which imports torch
sys.modules["kernels"] = kernels
spec.loader.exec_module(kernels)
@kernels.compiled
def kernel(x):
    return x + 1
print(kernel(1), sum(kernel.stats.cache_hits.values()) if kernel.stats.cache_path else None)
"""


@pytest.mark.slow
def test_later_processes_take_the_kernels_from_the_cache(tmp_path):
    """A small kernel from an empty cache, which takes no time to compile; the real one from the cache that there is."""
    (tmp_path / "small.py").write_text(SMALL)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import small"
    assert [python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache")) for _ in range(2)] == ["2 0\n", "2 1\n"]
    average_precision_loss(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 1]))
    value, hits = python(CALL).split()
    assert hits == "1"
    assert float(value) == pytest.approx(5 / 12)


@pytest.mark.slow
def test_kernels_work_where_no_cache_can_be_written(tmp_path):
    (tmp_path / "small.py").write_text(SMALL)
    code = f"""
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []  # what numba finds where no directory can be written
import sys; sys.path.insert(0, {str(tmp_path)!r}); import small
from directloss.kernels.average_precision import average_precision_contrast as kernel
print(kernel.stats.cache_path)
from directloss.kernels import first_call
first_call.ANNOUNCEMENT._say()
"""
    done = python(code, errors=True)
    assert done.stdout == "2 None\nNone\n"
    assert "in every process: there is no folder" in done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr


@pytest.mark.slow
def test_a_damaged_cache_is_made_anew(tmp_path):
    (tmp_path / "small.py").write_text(SMALL)
    cache = tmp_path / "cache"
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import small"
    assert python(code, NUMBA_CACHE_DIR=str(cache)) == "2 0\n"
    for pattern in ("*.nbi", "*.nbc"):
        for damage in (b"", b"no pickle", None):
            for path in cache.rglob(pattern):
                path.write_bytes(path.read_bytes()[:-20] if damage is None else damage)
            assert python(code, NUMBA_CACHE_DIR=str(cache)) == "2 0\n", (pattern, damage)
            assert python(code, NUMBA_CACHE_DIR=str(cache)) == "2 1\n", (pattern, damage)
