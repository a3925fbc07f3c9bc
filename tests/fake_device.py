"""A device without hardware: its tensors are tensors of the host behind a wall, and what crosses the wall is counted.

    python -m tests.fake_device      # prints, for each case, the crossings of one training step

Needs a torch that takes a backend written in Python. It is registered for the whole process, so tests start a new one.
"""

import json
from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

import directloss.host
from directloss import NDCG, AveragePrecision, LinearChain, PositiveDirect, StructuredLoss

crossings: Counter[str] = Counter()
"""Copies to the host and back, and how often the host waits."""
pinned: list[Tensor] = []
"""What the library took for memory that the device can reach."""


class Stream:
    def synchronize(self) -> None:
        crossings["waits"] += 1


class Module(_DummyBackendModule):
    def current_stream(self, device: Any = None) -> Stream:
        return Stream()


def _pin(tensor: Tensor) -> Tensor:
    pinned.append(torch.empty(tensor.shape, dtype=tensor.dtype))
    return pinned[-1]


behind: dict[int, tuple[Tensor, Tensor]] = {}
"""By the address of a storage: the tensor on the device, kept alive, and that on the host which has its numbers."""


def _fake(raw: Tensor) -> Tensor:
    tensor = torch._C._acc.create_empty_tensor(raw.shape, raw.dtype)  # pyright: ignore
    behind[tensor.untyped_storage()._cdata] = tensor, raw
    return tensor


def _raw(one: Any) -> Any:
    if not isinstance(one, Tensor) or one.is_cpu:
        return one
    return behind[one.untyped_storage()._cdata][1]


def _run(operation: Any, *arguments: Any, **options: Any) -> Any:
    """Every operation of the device, on the host."""
    name = operation.name()
    if name == "aten::_copy_from":
        source, into, *later = arguments
        down = into.is_cpu
        if down or source.is_cpu:
            crossings["to the host" if down else "to the device"] += 1
            if not any(later):
                crossings["waits"] += 1
            elif all((into if down else source) is not one for one in pinned):
                crossings["not pinned"] += 1
        _raw(into).copy_(_raw(source))
        return into
    if name in ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::is_nonzero"):
        crossings["waits"] += 1
    given = pytree.tree_leaves(arguments)
    known = {id(_raw(one)): one for one in given if isinstance(one, Tensor)}
    arguments, options = pytree.tree_map(_raw, (arguments, options))
    if options.get("device") is not None:
        options["device"] = torch.device("cpu")
    return pytree.tree_map(
        lambda one: known[id(one)] if id(one) in known else _fake(one) if isinstance(one, Tensor) else one,
        operation(*arguments, **options),
    )


def count(step: Any) -> dict[str, int]:
    crossings.clear()
    step()
    return dict(crossings)


def main() -> None:
    _setup_privateuseone_for_python_backend("fake", Module())
    library = torch.library.Library("_", "IMPL")
    library.fallback(_run, "PrivateUse1")
    aten = torch.library.Library("aten", "IMPL")  # lives as long as what is registered
    aten.impl("abs", partial(_run, torch.ops.aten.abs.default), "PrivateUse1")
    directloss.host.ASYNCHRONOUS.add("fake")
    directloss.host._pinned = _pin
    device, generator = torch.device("fake"), torch.Generator().manual_seed(0)
    scores, target = torch.randn(64, 16, generator=generator), torch.rand(64, 16, generator=generator) < 0.3
    ids = torch.arange(1024).flip(0) // 16
    loss = StructuredLoss(AveragePrecision(), PositiveDirect(1.0))
    cases: dict[str, tuple[Any, tuple[Tensor, ...], dict[str, Any]]] = {
        "one list": (loss, (scores[0], target[0]), {}),
        "a batch": (loss, (scores, target), {}),
        "a batch with a mask": (loss, (scores, target, scores < 1.5), {}),
        "labels of int64": (loss, (scores, target.long()), {}),
        "grades": (StructuredLoss(NDCG(), PositiveDirect(1.0)), (scores, target.long() * 2), {}),
        "multi-label": (loss, (scores, target), {"dim": 0}),
        "multi-label, labels of int64": (loss, (scores, target.long()), {"dim": 0}),
        "indexes": (loss, (scores.reshape(-1), target.reshape(-1)), {"indexes": ids}),
        "sequences": (
            StructuredLoss(LinearChain(), PositiveDirect(1.0)),
            (scores.reshape(4, 4, 8, 8), torch.randint(8, (4, 5), generator=generator)),
            {},
        ),
    }
    found = {}
    for name, (criterion, tensors, options) in cases.items():
        criterion._advice.steps = 100  # a loss looks at its first steps more closely
        expected = tensors[0].clone().requires_grad_()
        value = criterion(expected, *tensors[1:], **options)
        value.backward()
        there = [tensor.to(device) for tensor in tensors]
        on_device = {key: one.to(device) if isinstance(one, Tensor) else one for key, one in options.items()}
        there[0].requires_grad_()
        result: list[Tensor] = []
        crossed = count(lambda: result.append(criterion(*there, **on_device)))  # noqa: B023
        back = count(lambda: result[0].backward())  # noqa: B023
        assert there[0].grad is not None
        assert expected.grad is not None
        assert result[0].device == there[0].grad.device == there[0].device
        found[name] = crossed | {
            "backward": sum(back.values()),
            "equal": result[0].item() == value.item() and torch.equal(there[0].grad.cpu(), expected.grad),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
