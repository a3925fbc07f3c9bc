"""Several processes that rank together get the value and the gradient of one process with all the items."""

import pytest
import torch
from distributed_worker import CASES, KINDS, data, loss_of, memory_run, model, shard, work

from directloss import AveragePrecision, LinearChain, PositiveDirect, StructuredLoss


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
    import torch._dynamo  # DistributedDataParallel does; here once for all processes, as the kernels

    for case in CASES:
        alone(case, torch.arange(40))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GLOO_SOCKET_IFNAME", "lo")
        start = torch.multiprocessing.get_context("fork").Process  # tests/test_recipes.py starts processes by torchrun
        processes = [start(target=work, args=(str(folder), process, 4), daemon=True) for process in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
    assert [process.exitcode for process in processes] == [0] * 4
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


def test_a_group_needs_torch_distributed_to_be_started_and_lists():
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(1.0), process_group="world")
    with pytest.raises(RuntimeError, match=r"to be started.*torchrun"):
        loss(torch.randn(4), torch.tensor([1, 0, 1, 0]))
    chain = StructuredLoss(LinearChain(), PositiveDirect(1.0), process_group="world")
    with pytest.raises(ValueError, match="process_group is for tasks on lists"):
        chain(torch.randn(3, 2, 2), torch.tensor([0, 1, 0, 1]))
