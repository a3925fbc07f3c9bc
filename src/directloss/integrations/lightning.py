"""A callback for PyTorch Lightning: `LossCallback`. It needs pytorch-lightning or lightning."""

from typing import TYPE_CHECKING, Any

from torch import nn

from .observer import LossObserver, MakeDecay, find_loss

if TYPE_CHECKING:
    from pytorch_lightning import Callback, LightningModule, Trainer
else:
    try:
        from pytorch_lightning import Callback
    except ModuleNotFoundError:
        try:
            from lightning.pytorch import Callback
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "directloss.integrations.lightning needs PyTorch Lightning; install it with: "
                "pip install pytorch-lightning",
                name=error.name,
            ) from error

__all__ = ["LossCallback"]


class LossCallback(Callback):
    """Does for a loss in a `LightningModule` what a loop of your own would do.

    - The steps of its `WarmUp` are those of the optimizer, not micro-batches. After them the optimizer starts anew:
      `optimizer.state.clear()`. A training that goes on from a checkpoint goes on with the warm-up, too.
    - With `decay` the weight decay follows overfitting. Its state is in the checkpoints of the `Trainer`.
    - Every `log_every_n_steps` of the `Trainer` it logs `train_metric`, the metric of the training batch, and
      `weight_decay`.

    Args:
        loss: the loss; None: the first one that the module holds, e.g. `self.loss`.
        decay: makes the `AdaptiveDecay` of the first optimizer, when training starts:
            `lambda optimizer: AdaptiveDecay(optimizer, lambda: (model(held_x), held_y))`.
        diagnose_every: how many steps apart to log `typical_epsilon` and `epsilon_share`, see `diagnose`; None: never.

    It is for automatic optimization. Every `fit` begins with the warm-up, unless it goes on from a checkpoint. Pass it
    to the trainer: `Trainer(callbacks=[callback])`.

    >>> callback = LossCallback(diagnose_every=100)
    """

    def __init__(
        self, loss: nn.Module | None = None, *, decay: MakeDecay | None = None, diagnose_every: int | None = None
    ) -> None:
        self.loss = loss
        self._observer = LossObserver(decay, diagnose_every)
        self._stepped = False

    def on_train_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Find the loss; the optimizers have their state."""
        self._observer.start(find_loss(pl_module) if self.loss is None else self.loss, trainer.optimizers)

    def on_train_batch_start(
        self, trainer: "Trainer", pl_module: "LightningModule", batch: Any, batch_idx: int
    ) -> None:
        """Set the step of the warm-up."""
        self._observer.begin(trainer.global_step)
        self._stepped = False

    def on_before_optimizer_step(self, trainer: "Trainer", pl_module: "LightningModule", optimizer: Any) -> None:
        """Set the weight decay."""
        self._observer.before_step()
        self._stepped = True

    def on_train_batch_end(
        self, trainer: "Trainer", pl_module: "LightningModule", outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log."""
        every = getattr(trainer, "log_every_n_steps", 0)
        if self._stepped and every and trainer.global_step % every == 0:
            pl_module.log_dict(self._observer.measure(trainer.global_step))

    def teardown(self, trainer: "Trainer", pl_module: "LightningModule", stage: str) -> None:
        """Leave the loss."""
        self._observer.stop()

    def state_dict(self) -> dict[str, Any]:
        """That of the weight decay."""
        return self._observer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self._observer.load_state_dict(state_dict)
