"""A callback for the Trainer of Hugging Face: `LossCallback`. It needs transformers."""

from typing import Any

import torch
from torch import Tensor, nn

from ..checks import check_loss
from ..layout import is_ignored
from .observer import LossObserver, MakeDecay

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "directloss.integrations.transformers needs transformers; install it with: pip install 'transformers[torch]'",
        name=error.name,
    ) from error

__all__ = ["LossCallback"]

KEY = "directloss"  # of the state in trainer_state.json
IGNORED = -100  # the Trainer does not count such labels


class LossCallback(TrainerCallback):
    """Does for a loss in a `Trainer` what a loop of your own would do.

    - The steps of its `WarmUp` are those of the optimizer, not micro-batches. After them the optimizer starts anew:
      `optimizer.state.clear()`. A training that goes on from a checkpoint goes on with the warm-up, too.
    - With `decay` the weight decay follows overfitting. Its state is in the checkpoints of the `Trainer`, in
      `trainer_state.json`. `TrainingArguments` needs a `weight_decay` above 0.
    - It adds `train_metric`, the metric of the training batch, and `weight_decay` to what the `Trainer` logs. Callbacks
      of loggers such as TensorBoard come first and do not see it, unless you put this one before them:
      `trainer.callback_handler.callbacks.insert(0, callback)`, in the place of `callbacks=[callback]`.

    Args:
        loss: the loss of scores and labels.
        decay: makes the `AdaptiveDecay` of the optimizer, when training starts:
            `lambda optimizer: AdaptiveDecay(optimizer, lambda: (model(**held).logits.squeeze(-1), held_labels))`.
        diagnose_every: how many steps apart to log `typical_epsilon` and `epsilon_share`, see `diagnose`; None: never.

    For a model that gives one logit for each row, as one with `num_labels=1`, write
    `Trainer(…, compute_loss_func=callback.compute_loss, callbacks=[callback])`.

    >>> from directloss import AveragePrecisionLoss, WarmUp
    >>> callback = LossCallback(WarmUp(AveragePrecisionLoss(), steps=100))
    >>> labels, logits = torch.tensor([0, 1, 0]), torch.tensor([[2.0], [1.0], [0.0]])
    >>> callback.compute_loss({"logits": logits}, labels, num_items_in_batch=6)  # half of the step
    tensor(0.2500)
    """

    def __init__(self, loss: nn.Module, *, decay: MakeDecay | None = None, diagnose_every: int | None = None) -> None:
        self.loss = check_loss(loss)
        self._observer = LossObserver(decay, diagnose_every)

    def compute_loss(self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """The loss of a micro-batch, times its share of the labels of the step: the `Trainer` adds them up."""
        scores = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        value = self.loss(scores.squeeze(-1), labels)
        if num_items_in_batch is None:
            return value
        return value * (~is_ignored(labels, IGNORED)).sum() / torch.as_tensor(num_items_in_batch).clamp(min=1)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        """Find the state of a checkpoint; the optimizer has its own."""
        saved: Any = state.stateful_callbacks or {}  # its declared type is another one
        self._observer.load_state_dict(saved.get(KEY, {}).get("attributes", {}))
        self._observer.start(self.loss, [parts["optimizer"]])

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        """Set the step of the warm-up."""
        self._observer.begin(state.global_step)

    on_substep_end = on_step_begin  # before the next micro-batch

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        """Set the weight decay, and leave its state where the Trainer saves it."""
        self._observer.before_step()
        saved: Any = state.stateful_callbacks
        if saved is not None and (found := self._observer.state_dict()):
            saved[KEY] = {"args": {}, "attributes": found}

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **parts: Any
    ) -> None:
        """Add to the log of training."""
        if logs is not None and "loss" in logs:
            found = self._observer.measure(state.global_step)
            logs.update(found)
            state.log_history[-1].update(found)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        """Leave the loss."""
        self._observer.stop()
