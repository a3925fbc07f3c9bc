"""A metric with a state equals `metric` of all that it saw, for every task and layout, in batches and processes."""

import importlib
import sys
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from processes import torchrun

from directloss import (
    NDCG,
    ROCAUC,
    AveragePrecision,
    FMeasure,
    GridPath,
    IoU,
    LinearChain,
    MulticlassZeroOne,
    metric,
)
from directloss.tasks import TASKS

pytest.importorskip("torchmetrics")
from torchmetrics import MetricCollection

from directloss.integrations.torchmetrics import TaskMetric

generator = torch.Generator().manual_seed(0)
SCORES = torch.randn(60, 3, generator=generator).half()
TARGET = torch.rand(60, 3, generator=generator) < 0.3
CUTS = 0, 7, 8, 8, 40, 60


def updated(found, *parts, **more):
    for start, end in pairwise(CUTS):
        found.update(*(part[start:end] for part in parts), **{name: part[start:end] for name, part in more.items()})
    return found


@pytest.mark.parametrize("task", [AveragePrecision(), ROCAUC(), NDCG(5), FMeasure(), IoU()], ids=repr)
def test_flat_batches_are_one_list(task):
    scores, target = SCORES[:, 0], TARGET[:, 0]
    torch.testing.assert_close(
        updated(TaskMetric(task), scores, target).compute(), metric(task, scores.float(), target)
    )
    mask = TARGET[:, 1]
    want = metric(task, scores.float(), target, mask)
    torch.testing.assert_close(updated(TaskMetric(task), scores, target, mask).compute(), want)
    ignored = target.long().masked_fill(~mask, -100)
    torch.testing.assert_close(updated(TaskMetric(task, ignore_index=-100), scores, ignored).compute(), want)


def test_columns_are_lists_in_parts_and_rows_are_whole_lists():
    task, scores = AveragePrecision(), SCORES.float()
    for dim in (0, 1, -1):
        want = metric(task, scores, TARGET, dim=dim)
        torch.testing.assert_close(updated(TaskMetric(task, dim=dim), SCORES, TARGET).compute(), want)
    with pytest.raises(ValueError, match="lists of one item each"):
        TaskMetric(task).update(SCORES[:, :1], TARGET[:, :1])


def test_ids_say_which_items_are_one_list_in_whatever_batch():
    ids = torch.randint(9, (60,), generator=generator)
    found = updated(TaskMetric(AveragePrecision()), SCORES[:, 0], TARGET[:, 0], indexes=ids)
    want = metric(AveragePrecision(), SCORES[:, 0].float(), TARGET[:, 0], indexes=ids)
    torch.testing.assert_close(found.compute(), want)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_the_mean_of_its_problems(name):
    task = TASKS[name]()
    problems = [task.random_problem(6, generator) for _ in range(8)]
    found = TaskMetric(task)
    for scores, target, mask in problems:
        found.update(scores[None], target[None], None if mask is None else mask[None])
    each = [metric(task, scores, target, mask) for scores, target, mask in problems]
    torch.testing.assert_close(found.compute(), torch.stack(each).nanmean(), equal_nan=True)


@pytest.mark.parametrize("task", [GridPath(), LinearChain(), MulticlassZeroOne()], ids=repr)
def test_one_problem_without_a_batch_is_no_part_of_a_list(task):
    scores, target, mask = task.random_problem(6, generator)
    found = TaskMetric(task)
    for _ in range(2):
        found.update(scores, target, mask)
    torch.testing.assert_close(found.compute(), metric(task, scores, target, mask), equal_nan=True)


def test_reset_forward_and_copies():
    found = TaskMetric(AveragePrecision())
    assert found(SCORES[:20, 0], TARGET[:20, 0]) == metric(AveragePrecision(), SCORES[:20, 0].float(), TARGET[:20, 0])
    found(SCORES[20:, 0], TARGET[20:, 0])
    assert deepcopy(found).compute() == found.compute()
    assert found.compute() == metric(AveragePrecision(), SCORES[:, 0].float(), TARGET[:, 0])
    assert found.state_dict() == {}
    found.reset()
    found.update(SCORES[:20, 0], torch.zeros(20))
    assert found.compute().isnan()


def test_metrics_of_a_collection_are_those_of_their_tasks():
    tasks = {"ap": AveragePrecision(), "auc": ROCAUC(), "two": NDCG(2)}
    same = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 0]])  # all are 1 in the first batch
    found = MetricCollection({name: TaskMetric(task) for name, task in tasks.items()})
    found.update(*same)
    updated(found, SCORES, TARGET)
    for name, value in found.compute().items():
        want = metric(tasks[name], torch.cat([same[0], SCORES]), torch.cat([same[1] > 0, TARGET]))
        torch.testing.assert_close(value, want.float())


def test_wrong_input_is_refused_with_the_batch_that_has_it():
    with pytest.raises(TypeError, match="task must be"):
        TaskMetric(AveragePrecision)
    found = TaskMetric(AveragePrecision())
    with pytest.raises(ValueError, match="scores must be finite"):
        found.update(torch.tensor([1.0, torch.nan]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="target must hold only 0 and 1"):
        found.update(torch.tensor([1.0, 2.0]), torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="indexes has shape"):
        found.update(torch.tensor([1.0, 2.0]), torch.tensor([0, 1]), indexes=torch.tensor([1]))


def test_without_torchmetrics_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "directloss.integrations.torchmetrics")
    with pytest.raises(ModuleNotFoundError, match="pip install torchmetrics"):
        importlib.import_module("directloss.integrations.torchmetrics")


@pytest.mark.slow
def test_processes_share_what_they_saw(tmp_path, monkeypatch):
    torchrun(monkeypatch, 2, Path(__file__).parent / "torchmetrics_worker.py", tmp_path)
    wants = {"flat": metric(AveragePrecision(), SCORES[:, 0].float(), TARGET[:, 0])}
    wants["rows"] = metric(AveragePrecision(), SCORES.float(), TARGET)
    wants["columns"] = metric(AveragePrecision(), SCORES.float(), TARGET, dim=0)
    wants["ids"] = metric(AveragePrecision(), SCORES[:, 0].float(), TARGET[:, 0], indexes=torch.arange(60) % 7)
    for process in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"{process}.pt"), wants)
