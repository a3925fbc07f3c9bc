"""A task's own module and function are `StructuredLoss` on it, with its options by name."""

import copy
import inspect
import pickle

import pytest
import torch

import directloss
from directloss import Hinge, StructuredLoss

DOORS = {name: getattr(directloss, name) for name in directloss.__all__ if name.endswith("Loss")}
for other in ("RetrievalLoss", "StructuredLoss"):
    DOORS.pop(other)
OPTIONS = {"NDCGLoss": {"k": 3}, "PartialAUCLoss": {"max_fpr": 0.4}, "PrecisionAtKLoss": {"k": 2},
           "FMeasureLoss": {"beta": 2.0}, "TverskyLoss": {"alpha": 0.3, "beta": 0.7}}  # fmt: skip


WORDS = {
    "AveragePrecisionLoss": "average_precision_loss", "FMeasureLoss": "f_measure_loss", "IoULoss": "iou_loss",
    "NDCGLoss": "ndcg_loss", "PartialAUCLoss": "partial_auc_loss", "PrecisionAtKLoss": "precision_at_k_loss",
    "ROCAUCLoss": "roc_auc_loss", "ReciprocalRankLoss": "reciprocal_rank_loss", "TverskyLoss": "tversky_loss",
}  # fmt: skip


@pytest.mark.parametrize("name", DOORS)
def test_module_and_function_are_the_structured_loss_of_the_task(name):
    door, options = DOORS[name], OPTIONS.get(name, {})
    scores = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    target = torch.rand(4, 9, generator=torch.Generator().manual_seed(1)) < 0.4
    mask = torch.rand(4, 9, generator=torch.Generator().manual_seed(2)) < 0.9
    task = getattr(directloss, name.removesuffix("Loss"))(**options)
    want = StructuredLoss(task, Hinge(0.5), "sum")(scores, target, mask)
    assert door(Hinge(0.5), "sum", **options)(scores, target, mask) == want
    function = getattr(directloss, WORDS[name])
    assert function(scores, target, update=Hinge(0.5), mask=mask, reduction="sum", **options) == want
    assert function(scores, target) == door()(scores, target)
    assert function.__name__ == WORDS[name]


@pytest.mark.parametrize("name", DOORS)
def test_modules_are_plain_classes_with_a_signature(name):
    door = DOORS[name]
    assert door.__name__ == name
    assert list(inspect.signature(door).parameters)[:2] == ["update", "reduction"]
    assert set(OPTIONS.get(name, {})) <= set(inspect.signature(door).parameters)
    for twin in (copy.deepcopy(door()), pickle.loads(pickle.dumps(door()))):
        assert repr(twin) == repr(door())
    assert repr(door()).startswith(f"{name}(task=")
    with pytest.raises(TypeError, match="colour"):
        door(colour=3)
