"""Several processes that rank together get the value and the gradient of one process with all the items."""

from pathlib import Path

import pytest
import torch
from distributed_worker import CASES, KINDS, data, loss_of, memory_run, model, shard
from processes import torchrun

from directloss import AveragePrecision, AveragePrecisionLoss, LinearChain, PositiveDirect, StructuredLoss


def alone(case, items):
    x, target, ids = data()
    network = model()
    value = loss_of(case, None)(network(x[items]), target[items], ids[items])
    value.backward()
    return value.detach(), [parameter.grad for parameter in network.parameters()]


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    """What each of four processes found, in groups of two, three and four."""
    folder = tmp_path_factory.mktemp("processes")
    for case in CASES:  # kernels are compiled here, once for all processes
        alone(case, torch.arange(40))
    AveragePrecisionLoss()(torch.randn(6), torch.arange(6) % 2)
    with pytest.MonkeyPatch.context() as patched:
        torchrun(patched, 4, Path(__file__).parent / "distributed_worker.py", folder)
    return [torch.load(folder / f"{process}.pt") for process in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3, 4])
def test_processes_rank_together_and_share_the_gradient(ranked, processes):
    x, _, _ = data()
    for case in CASES:
        for kind in KINDS:
            items = torch.cat([shard(len(x), process, processes, kind) for process in range(processes)])
            assert sorted(items.tolist()) == list(range(len(x)))
            want, grads = alone(case, items)
            for found in ranked[:processes]:
                value, got = found[processes, case, kind]
                torch.testing.assert_close(value, want, rtol=0, atol=1e-6)
                torch.testing.assert_close(got, grads, rtol=0, atol=1e-6)
    for found in ranked[processes:]:
        assert found[processes, "outside"].startswith("this process is not in process_group")
    remembered = memory_run(model(), None, 0, 1)
    for found in ranked[:processes]:
        torch.testing.assert_close(found[processes, "memory"], remembered, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3, 4])
def test_processes_may_differ_in_types_and_get_one_error_if_they_may_not(ranked, processes):
    found = [one[processes, "different"] for one in ranked[:processes]]
    for name in ("target", "half", "ids", "small ids", "mask", "no items", "labels", "large labels"):
        values = [one[name] for one in found]
        assert all(isinstance(value, torch.Tensor) and value == values[0] > 0 for value in values), name
    for name, words in (
        ("some ids", "Only a mask may be None in some processes: pass indexes in all"),
        ("complex", "must be bool, integer or floating-point; one of them passed another type"),
        ("complex ids", "must be bool, integer or floating-point; one of them passed another type"),
        ("batches", "all processes must hold parts of the same lists; they hold 4 items in lists (2, 3), 4 items"),
        ("one list in the wrong shape", "lists of one item each"),
    ):
        assert all(words in one[name] for one in found), name


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3, 4])
def test_processes_agree_on_the_weight_decay_also_if_one_does_not_know(ranked, processes):
    first, *others = (one[processes, "decays"] for one in ranked[:processes])
    assert first[-1] > first[0]  # on the mean over those who know, training is ahead
    assert all(other == first for other in others)


@pytest.mark.slow
def test_copies_of_a_module_share_its_group_and_a_saved_one_remembers_the_world(ranked):
    for processes, saved in ((2, "cannot be saved. Save the state_dict"), (4, [True] * 3)):
        for one in ranked[:processes]:
            found = one[processes, "copies"]
            assert found["copy"] == found["deepcopy"] == [True] * 3
            assert found["saved"] == saved if processes == 4 else saved in found["saved"]


def test_a_group_needs_torch_distributed_to_be_started_and_lists():
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(1.0), process_group="world")
    with pytest.raises(RuntimeError, match=r"to be started.*torchrun"):
        loss(torch.randn(4), torch.tensor([1, 0, 1, 0]))
    chain = StructuredLoss(LinearChain(), PositiveDirect(1.0), process_group="world")
    with pytest.raises(ValueError, match="process_group is for tasks on lists"):
        chain(torch.randn(3, 2, 2), torch.tensor([0, 1, 0, 1]))
