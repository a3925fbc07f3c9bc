"""Callbacks: the warm-up and its end, the weight decay, logs and checkpoints; in a loop, Lightning, the Trainer."""

import importlib
import json
import sys
import warnings
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from directloss import (
    AdaptiveDecay,
    AveragePrecision,
    AveragePrecisionLoss,
    Hinge,
    Perturbed,
    RetrievalLoss,
    ScoreMemory,
    WarmUp,
    diagnose,
    metric,
)
from directloss.integrations.observer import LossObserver, find_loss

generator = torch.Generator().manual_seed(0)
X = torch.randn(96, 4, generator=generator)
Y = X[:, 0] + torch.randn(96, generator=generator) > 0.5
HELD = X[64:], Y[64:]
WARM_UP, EVERY = 3, 2  # steps


def make_network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1), torch.nn.Flatten(0))


def make_decay(network, optimizer, **options):
    return AdaptiveDecay(optimizer, lambda: (network(HELD[0]), HELD[1]), every=EVERY, high=5.0, **options)


class Resets(torch.optim.AdamW):
    """Knows after how many of its steps it had no state."""

    def __init__(self, parameters, **options):
        super().__init__(parameters, **options)
        self.steps, self.fresh = 0, []

    def step(self, closure=None):
        with torch.enable_grad():
            value = None if closure is None else closure()
        if not self.state:
            self.fresh.append(self.steps)
        super().step()
        self.steps += 1
        return value


def by_hand(steps, size=16):
    """The parameters that a plain loop arrives at, and the weight decays of its steps."""
    network, loss = make_network(), AveragePrecisionLoss()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=1.0)
    decay, decays = make_decay(network, optimizer), []
    for step in range(steps):
        if step == WARM_UP:
            optimizer.state.clear()
        items = slice(size * step % 64, size * step % 64 + size)
        optimizer.zero_grad()
        scores, target = network(X[items]), Y[items]
        first = torch.nn.functional.binary_cross_entropy_with_logits(scores, target.float())
        (first if step < WARM_UP else loss(scores, target)).backward()
        decays.append(decay.step(scores, target))
        optimizer.step()
    return list(network.parameters()), decays


def test_an_observer_does_what_a_loop_does():
    network = make_network()
    loss = WarmUp(AveragePrecisionLoss(), WARM_UP)
    optimizer = Resets(network.parameters(), lr=0.01, weight_decay=1.0)
    observer = LossObserver(partial(make_decay, network), diagnose_every=4)
    observer.start(loss, [optimizer])
    found = []
    for step in range(8):
        items = slice(16 * step % 64, 16 * step % 64 + 16)
        observer.begin(step)
        optimizer.zero_grad()
        loss(network(X[items]), Y[items]).backward()
        scores = network(X[items]).detach()
        with torch.no_grad():
            loss(network(HELD[0]), HELD[1])  # validation is not looked at
        observer.before_step()
        optimizer.step()
        found.append(observer.measure(step + 1))
        assert found[-1]["train_metric"] == metric(AveragePrecision(), scores, Y[items])
    want, decays = by_hand(8)
    torch.testing.assert_close(list(network.parameters()), want, rtol=0, atol=0)
    assert [one["weight_decay"] for one in found] == decays
    assert [step for step, one in enumerate(found) if "typical_epsilon" in one] == [3, 7]
    diagnosis = diagnose(AveragePrecision(), scores, Y[items], 1.0)
    assert (found[-1]["epsilon_share"], found[-1]["typical_epsilon"]) == (diagnosis.share, diagnosis.typical)
    assert optimizer.fresh == [0, WARM_UP]
    observer.stop()
    loss(network(X), Y)
    assert observer.measure(9).keys() == {"weight_decay"}


@pytest.mark.parametrize(("steps", "started", "resets"), [(2, 2, 1), (2, 3, 0), (0, 0, 0)])
def test_the_optimizer_starts_anew_at_one_step_only(steps, started, resets):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([weight])
    weight.sum().backward()
    optimizer.step()
    observer = LossObserver(None, None)
    observer.start(WarmUp(AveragePrecisionLoss(), steps), [optimizer])
    observer.begin(started)
    assert len(optimizer.state) == 1 - resets


@pytest.mark.parametrize(
    ("loss", "options", "lists"),
    [
        (AveragePrecisionLoss(dim=0), {}, lambda x, y: metric(AveragePrecision(), x, y, dim=0)),
        (AveragePrecisionLoss(), {"dim": 0}, lambda x, y: metric(AveragePrecision(), x, y, dim=0)),
        (AveragePrecisionLoss(Hinge(), ignore_index=1), {}, lambda x, y: torch.tensor(torch.nan)),
        (Perturbed(AveragePrecisionLoss()), {}, lambda x, y: metric(AveragePrecision(), x, y)),
    ],
)
def test_lists_of_every_layout_are_measured(loss, options, lists):
    scores, target = X[:, :2].clone().requires_grad_(), torch.stack([Y, ~Y], 1).long()
    observer = LossObserver(None, 1)
    observer.start(loss, [])
    loss(target=target, scores=scores, **options) if not isinstance(loss, Perturbed) else loss(scores, target)
    found = observer.measure(1)
    assert found["train_metric"] == pytest.approx(lists(scores, target).item(), nan_ok=True)


def test_flat_lists_by_indexes_are_measured_and_take_an_adaptive_decay():
    weight, ids = torch.nn.Parameter(X[:, 0].clone()), torch.arange(96) % 5
    optimizer = torch.optim.AdamW([weight], weight_decay=1.0)
    held = (HELD[0][:, 0], HELD[1], None, torch.arange(len(HELD[1])) % 2)
    observer = LossObserver(lambda some: AdaptiveDecay(some, lambda: held, every=1), 1)
    loss = AveragePrecisionLoss()
    observer.start(loss, [optimizer])
    loss(weight, Y, indexes=ids)
    assert observer.measure(1)["train_metric"] == metric(AveragePrecision(), weight, Y, indexes=ids)
    for _ in range(5):
        observer.before_step()
    assert observer.decay is not None
    assert observer.decay.state_dict()["train"] == pytest.approx(observer.measure(1)["train_metric"])
    assert optimizer.param_groups[0]["weight_decay"] == observer.decay.decay != 1.0


def test_a_decay_has_the_dimension_of_the_loss():
    optimizer = torch.optim.AdamW([torch.nn.Parameter(X[:, 0].clone())], weight_decay=1.0)
    with pytest.raises(ValueError, match=r"the loss has dim=0\. Pass it to the decay, too: AdaptiveDecay\(…, dim=0\)"):
        LossObserver(lambda some: AdaptiveDecay(some, lambda: HELD), 1).start(AveragePrecisionLoss(dim=0), [optimizer])
    scores, target = X[:, :2].clone().requires_grad_(), torch.stack([Y, ~Y], 1)
    observer = LossObserver(lambda some: AdaptiveDecay(some, lambda: (X[:9, :2], target[:9]), dim=0), 1)
    loss = AveragePrecisionLoss(dim=0)
    observer.start(loss, [optimizer])
    loss(scores, target)
    observer.before_step()
    assert observer.decay is not None
    assert 0 < observer.decay.state_dict()["train"] < 1


def test_the_outer_loss_is_found_and_wrong_ones_are_refused():
    model = make_network()
    with pytest.raises(ValueError, match="the model holds no loss of directloss"):
        find_loss(model)
    model.loss = WarmUp(AveragePrecisionLoss(), 1)
    assert find_loss(model) is model.loss
    for loss in (ScoreMemory(AveragePrecisionLoss(), Y), RetrievalLoss()):
        with pytest.raises(TypeError, match="decay needs a loss on scores and target"):
            LossObserver(partial(make_decay, model), None).start(loss, [torch.optim.AdamW(model.parameters())])
    with pytest.raises(TypeError, match="decay must be a function"):
        LossObserver(1.0, None)
    with pytest.raises(ValueError, match="diagnose_every"):
        LossObserver(None, 0)


@pytest.mark.parametrize(
    ("module", "hidden", "command"),
    [
        ("lightning", ["pytorch_lightning", "lightning"], "pip install pytorch-lightning"),
        ("transformers", ["transformers"], r"pip install 'transformers\[torch\]'"),
    ],
)
def test_a_missing_package_is_named_with_its_command(module, hidden, command, monkeypatch):
    for name in hidden:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"directloss.integrations.{module}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=command):
        importlib.import_module(f"directloss.integrations.{module}")


def loader(size):
    return DataLoader(TensorDataset(X[:64], Y[:64]), batch_size=size)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Lightning has much to say
@pytest.mark.parametrize("stop", [1, 2])  # epochs; of two steps each, so before and behind the end of the warm-up
def test_lightning_goes_on_from_a_checkpoint_as_if_there_were_no_break(stop, tmp_path):
    pytest.importorskip("pytorch_lightning")
    from pytorch_lightning import LightningModule, Trainer

    from directloss.integrations.lightning import LossCallback

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.network, self.loss = make_network(), WarmUp(AveragePrecisionLoss(), WARM_UP)

        def training_step(self, batch, _):
            return self.loss(self.network(batch[0]), batch[1])

        def configure_optimizers(self):
            self.optimizer = Resets(self.parameters(), lr=0.01, weight_decay=1.0)
            return self.optimizer

    def fit(epochs, checkpoint=None):
        module = Module()
        callback = LossCallback(decay=partial(make_decay, module.network), diagnose_every=1)
        trainer = Trainer(
            accelerator="cpu", devices=1, max_epochs=epochs, accumulate_grad_batches=2, log_every_n_steps=1,
            callbacks=[callback], logger=False, enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False, default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(module, loader(16), ckpt_path=checkpoint)
        return trainer, module

    whole, module = fit(4)
    assert module.optimizer.fresh == [0, WARM_UP]
    assert {"train_metric", "weight_decay", "typical_epsilon", "epsilon_share"} <= whole.callback_metrics.keys()
    first, _ = fit(stop)
    first.save_checkpoint(tmp_path / "a.ckpt")
    saved = torch.load(tmp_path / "a.ckpt", weights_only=False)
    assert set(saved["state_dict"]) == {f"network.{name}" for name in make_network().state_dict()}
    second, again = fit(4, tmp_path / "a.ckpt")
    assert again.optimizer.fresh == ([WARM_UP - 2] if stop == 1 else [])
    torch.testing.assert_close(again.state_dict(), module.state_dict(), rtol=0, atol=0)
    assert (
        second.callback_metrics["weight_decay"]
        == whole.callback_metrics["weight_decay"]
        != make_decay(make_network(), Resets(make_network().parameters(), weight_decay=1.0)).decay
    )


@pytest.mark.slow
@pytest.mark.parametrize("stop", [2, 3, 4])  # steps: before the end of the warm-up, at it, behind it
def test_the_trainer_goes_on_from_a_checkpoint_as_if_there_were_no_break(stop, tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("transformers")
        from transformers import Trainer, TrainerCallback, TrainingArguments

        from directloss.integrations.transformers import LossCallback

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.network = make_network()

            def forward(self, inputs, labels=None):
                return {"logits": self.network(inputs)[:, None]}

        class Logger(TrainerCallback):
            """As one of TensorBoard."""

            def on_log(self, args, state, control, logs=None, **_):
                if "loss" in logs:
                    self.logs = dict(logs)

        def train(checkpoint=None):
            model = Model()
            arguments = TrainingArguments(
                str(tmp_path), per_device_train_batch_size=8, gradient_accumulation_steps=2, max_steps=8, use_cpu=True,
                save_steps=stop, logging_steps=2, train_sampling_strategy="sequential", dataloader_pin_memory=False,
                restore_callback_states_from_checkpoint=True, disable_tqdm=True,
            )  # fmt: skip
            optimizer = Resets(model.parameters(), lr=0.01, weight_decay=1.0)
            constant = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
            callback = LossCallback(
                WarmUp(AveragePrecisionLoss(), WARM_UP), decay=partial(make_decay, model.network), diagnose_every=1
            )
            logger = Logger()
            trainer = Trainer(
                model, arguments, compute_loss_func=callback.compute_loss, callbacks=[callback, logger],
                train_dataset=[{"inputs": x, "labels": int(y)} for x, y in zip(X[:64], Y[:64], strict=True)],
                optimizers=(optimizer, constant),
            )  # fmt: skip
            trainer.train(resume_from_checkpoint=checkpoint)
            return trainer, optimizer, logger.logs

        whole, optimizer, _ = train()
        assert optimizer.fresh == [0, WARM_UP]
        logged = [line for line in whole.state.log_history if "loss" in line]
        assert {"train_metric", "weight_decay", "typical_epsilon", "epsilon_share"} <= logged[-1].keys()
        checkpoint = tmp_path / f"checkpoint-{stop}"
        saved = json.loads((checkpoint / "trainer_state.json").read_text())
        assert saved["stateful_callbacks"]["directloss"]["attributes"]["steps"] == stop
        again, optimizer, seen = train(str(checkpoint))
        assert optimizer.fresh == ([WARM_UP - stop] if stop <= WARM_UP else [])
        torch.testing.assert_close(again.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)
        assert [line for line in again.state.log_history if "loss" in line][-1] == logged[-1]
        assert seen.items() <= logged[-1].items()
        assert "train_metric" in seen
