"""The losses that have a name of their own are `StructuredLoss` on their task, and say what they take."""

import copy
import inspect
import pickle

import pytest
import torch

from directloss import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    AveragePrecisionLoss,
    Hinge,
    IoU,
    IoULoss,
    NDCGLoss,
    PositiveDirect,
    ROCAUCLoss,
    StructuredLoss,
    structured_loss,
)

LOSSES = [
    (AveragePrecisionLoss, AveragePrecision, {}),
    (ROCAUCLoss, ROCAUC, {}),
    (NDCGLoss, NDCG, {"k": 3}),
    (IoULoss, IoU, {"count_empty": True}),
]
named = pytest.mark.parametrize(("kind", "task", "options"), LOSSES, ids=lambda value: getattr(value, "__name__", ""))


@named
def test_a_named_loss_is_the_structured_loss_of_its_task(kind, task, options):
    scores = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    target = torch.rand(4, 9, generator=torch.Generator().manual_seed(1)) < 0.4
    mask = torch.rand(4, 9, generator=torch.Generator().manual_seed(2)) < 0.9
    want = StructuredLoss(task(**options), Hinge(0.5), "sum")(scores, target, mask)
    assert kind(Hinge(0.5), "sum", **options)(scores, target, mask) == want
    assert structured_loss(task(**options), Hinge(0.5), scores, target, mask, "sum") == want
    assert kind()(scores, target) == StructuredLoss(task(), PositiveDirect(1.0))(scores, target)


@named
def test_a_named_loss_has_the_arguments_of_the_structured_loss_and_of_its_task(kind, task, options):
    of_all = list(inspect.signature(StructuredLoss).parameters)[1:]  # without the task
    of_task = list(inspect.signature(task).parameters)
    assert set(inspect.signature(kind).parameters) == {*of_all, *of_task}
    assert options.keys() <= set(of_task)
    for loss in (kind(), kind(dim=0, ignore_index=255, **options)):
        for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
            assert repr(twin) == repr(loss)
        assert repr(loss).startswith(f"{kind.__name__}(task=")
    with pytest.raises(TypeError, match="colour"):
        kind(colour=3)
