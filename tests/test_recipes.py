"""Recipes run as they stand, against the packages that they are about, and what they say of these packages is so."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import torchrun
from recipes_worker import PAGES, RECIPES
from test_documents import blocks

from directloss import AveragePrecision, AveragePrecisionLoss, PositiveDirect, RetrievalLoss, metric

WORKER = Path(__file__).parent / "recipes_worker.py"
WARNINGS = {  # of other packages, which a reader may ignore
    "lightning": [r"`isinstance\(treespec, LeafSpec\)` is deprecated", ".* does not have many workers"],
    "trainer": ["'pin_memory' argument is set as true but no accelerator is found"],
}
SLOW = {
    "accelerate",
    "lightning",
    "reranker",
    "sentence-transformers",
    "skorch",
    "trainer",
}  # their packages take seconds to import


RUN_HERE = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW))
    for path in sorted(RECIPES.glob("*.md"))
    if path.stem not in ("README", "ddp")
]


def run(path, until="\0"):
    """The names that a page defines; until: the line before which to stop."""
    names: dict[str, Any] = {"__name__": "document"}
    with warnings.catch_warnings():
        for message in WARNINGS.get(path.stem, []):
            warnings.filterwarnings("ignore", message=message)
        exec(compile(blocks(path).partition(until)[0], str(path), "exec"), names)
    return names


def expected(path):
    return [line.split("# → ")[1].strip() for line in blocks(path).splitlines() if "# → " in line]


@pytest.mark.parametrize("path", RUN_HERE)
def test_recipe_prints_what_it_says(path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the Trainer makes a folder for its output
    run(path)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("{")] == expected(path)  # the Trainer prints dictionaries


@pytest.mark.slow
def test_recipes_run_in_two_processes_and_rank_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the Trainer makes a folder for its output
    torchrun(monkeypatch, 2, WORKER, tmp_path)
    first, second = (json.loads((tmp_path / f"{process}.json").read_text()) for process in range(2))
    for page in PAGES:
        printed, processes, warm_up = first[page]
        assert printed == expected(RECIPES / f"{page}.md")
        assert processes == second[page][1] == 2
        assert warm_up == second[page][2]
        assert warm_up is None or warm_up > 0


def test_every_recipe_is_short_and_one_click_from_the_index_and_the_readme():
    pages = {path.name for path in RECIPES.glob("*.md")} - {"README.md"}
    index, readme = ((folder / "README.md").read_text() for folder in (RECIPES, RECIPES.parents[1]))
    assert len(pages) >= 9
    for page in pages:
        assert f"]({page})" in index
        assert f"](docs/recipes/{page})" in readme
        assert len((RECIPES / page).read_text().splitlines()) <= 55


@pytest.mark.slow
def test_trainer_adds_up_what_compute_loss_func_gives_and_the_recipe_makes_a_mean_of_it(tmp_path, monkeypatch, capsys):
    from transformers import BertForSequenceClassification, Trainer, TrainingArguments

    from directloss.integrations.transformers import LossCallback

    monkeypatch.chdir(tmp_path)
    names = run(RECIPES / "trainer.md", until="trainer.train()")
    arguments = TrainingArguments(
        per_device_train_batch_size=120, gradient_accumulation_steps=2, max_steps=1, learning_rate=1.0, optim="sgd",
        lr_scheduler_type="constant", max_grad_norm=0.0, use_cpu=True, save_strategy="no", dataloader_pin_memory=False,
    )  # fmt: skip
    callback = LossCallback(names["loss"])
    names["config"].update({"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    seen = []  # number of items and gradient of each micro-batch

    def ranking(outputs, labels):
        value = names["loss"](outputs["logits"].squeeze(-1), labels)
        seen.append((len(labels), torch.autograd.grad(value, parameters, retain_graph=True)))
        return value

    def from_page(outputs, labels, num_items_in_batch):
        ranking(outputs, labels)
        return callback.compute_loss(outputs, labels, num_items_in_batch)

    def unscaled(outputs, labels, num_items_in_batch):
        return ranking(outputs, labels)

    for compute_loss, weights in ((from_page, [0.6, 0.4]), (unscaled, [1.0, 1.0])):
        model = BertForSequenceClassification(names["config"])
        parameters = list(model.parameters())
        before = [parameter.detach().clone() for parameter in parameters]
        seen.clear()
        Trainer(model, arguments, train_dataset=names["rows"][:200], compute_loss_func=compute_loss).train()
        assert [items for items, _ in seen] == [120, 80]
        for k, (old, new) in enumerate(zip(before, parameters, strict=True)):
            step = sum(weight * gradient[k] for weight, (_, gradient) in zip(weights, seen, strict=True))
            torch.testing.assert_close(old - new.detach(), step)


def test_metric_learning_ranks_what_miners_choose_and_else_what_retrieval_ranks():
    from pytorch_metric_learning.losses import CrossBatchMemory
    from pytorch_metric_learning.miners import MultiSimilarityMiner
    from pytorch_metric_learning.reducers import MeanReducer

    ranking = run(RECIPES / "metric-learning.md", until="torch.manual_seed")["RankingLoss"](reducer=MeanReducer())
    generator = torch.Generator().manual_seed(0)
    embeddings, more = (torch.randn((12, 3), generator=generator).requires_grad_() for _ in range(2))
    labels, other = torch.arange(12) % 4, torch.arange(12) % 3
    torch.testing.assert_close(ranking(embeddings, labels), RetrievalLoss()(embeddings, labels))
    expected = RetrievalLoss(reduction="none")(embeddings, labels, more, other)  # 0 for a query without a positive
    torch.testing.assert_close(ranking(embeddings, labels, None, more, other), expected.mean())

    miner = MultiSimilarityMiner()
    anchors, positives, others, negatives = pairs = miner(embeddings, labels)
    assert 0 < len(others) < 12 * 9  # not all
    unit = torch.nn.functional.normalize(embeddings, dim=-1)
    lists = [(positives[anchors == k], negatives[others == k]) for k in range(12)]
    values = [
        AveragePrecisionLoss(PositiveDirect(0.1))(
            unit[k] @ unit[torch.cat(some)].T, torch.arange(len(torch.cat(some))) < len(some[0])
        )
        for k, some in enumerate(lists)
        if len(some[0])
    ]
    found = ranking(embeddings, labels, pairs)
    torch.testing.assert_close(found, sum(values) / 12)
    first = CrossBatchMemory(ranking, 3, 24, miner=miner)(embeddings, labels)  # the memory holds this batch only
    torch.testing.assert_close(first, found)


@pytest.mark.slow
def test_a_sigmoid_ties_large_scores():
    from torchmetrics.functional.classification import binary_average_precision

    scores, target = torch.tensor([30.0, 40.0]), torch.tensor([0, 1])
    assert metric(AveragePrecision(), scores, target) == 1
    assert binary_average_precision(scores, target) == 0.5
