"""What the callbacks of all packages do with a loss: its warm-up, a weight decay, numbers for the log."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ..adaptive_decay import AdaptiveDecay
from ..checks import check_count, check_function
from ..diagnosis import diagnose
from ..layout import Arranged, arrange
from ..loss import StructuredLoss
from ..memory import ScoreMemory
from ..metric import metric
from ..perturbed import Perturbed
from ..retrieval import RetrievalLoss
from ..task import Task
from ..training import WarmUp

__all__ = ["LossObserver", "MakeDecay", "find_loss"]

MakeDecay = Callable[[torch.optim.Optimizer], AdaptiveDecay]
NAMES = "scores", "target", "mask"
LOSSES = WarmUp, ScoreMemory, Perturbed, StructuredLoss, RetrievalLoss


def find_loss(model: nn.Module) -> nn.Module:
    """The first loss of this library in a model; of a loss in another one, the outer one."""
    found = next((part for part in model.modules() if isinstance(part, LOSSES)), None)
    if found is None:
        raise ValueError("the model holds no loss of directloss. Write self.loss = …, or pass loss= to the callback.")
    return found


class LossObserver:
    """Looks at the calls of a loss in training. The methods are called by the hooks of a callback."""

    def __init__(self, decay: MakeDecay | None, diagnose_every: int | None) -> None:
        if decay is not None:
            check_function("decay", decay)
        if diagnose_every is not None:
            check_count("diagnose_every", diagnose_every)
        self.make_decay, self.diagnose_every = decay, diagnose_every
        self.decay: AdaptiveDecay | None = None
        self._warm_up: WarmUp | None = None
        self._structured: StructuredLoss | None = None
        self._optimizers: Sequence[torch.optim.Optimizer] = ()
        self._loaded: dict[str, Any] = {}
        self._call: dict[str, Any] = {}
        self._hook: Any = None
        self._diagnosed = 0

    def start(self, loss: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Before the first step, when the optimizers have their state."""
        self.stop()
        parts = list(loss.modules())
        self._optimizers, self._diagnosed = optimizers, 0
        self._warm_up = next((part for part in parts if isinstance(part, WarmUp)), None)
        others = any(isinstance(part, ScoreMemory | RetrievalLoss) for part in parts)  # not called on scores and target
        self._structured = next((part for part in parts if isinstance(part, StructuredLoss) and not others), None)
        if self.make_decay is not None:
            if others:
                raise TypeError(f"decay needs a loss on scores and target; got {type(loss).__name__}. Leave it out.")
            self.decay = self.make_decay(optimizers[0])
            dim = getattr(self._structured, "dim", -1)
            if dim != self.decay.dim:
                raise ValueError(f"the loss has dim={dim}. Pass it to the decay, too: AdaptiveDecay(…, dim={dim}).")
            if self._loaded:
                self.decay.load_state_dict(self._loaded)
        self._hook = loss.register_forward_pre_hook(self._remember, with_kwargs=True)

    def stop(self) -> None:
        """After the last step, also if it failed."""
        if self._hook is not None:
            self._hook.remove()
        self._hook, self._call = None, {}

    def begin(self, step: int) -> None:
        """Before a batch, after so many steps of the optimizer; micro-batches of one step have the same number.

        The number alone says where the warm-up is and whether it ends here, also if training goes on after a break.
        """
        if self._warm_up is not None:
            self._warm_up.step = step
            if 0 < step == self._warm_up.steps:
                for optimizer in self._optimizers:
                    optimizer.state.clear()

    def before_step(self) -> None:
        """Before a step of the optimizer: set its weight decay."""
        if self.decay is not None and self._call:
            scores, target, mask, groups = self._lists(self.decay.task, None)
            indexes = None if groups is None else torch.from_numpy(groups.numbers).to(scores.device)
            dim = self.decay.dim
            mask = None if mask is None else mask.movedim(-1, dim)
            self.decay.step(scores.movedim(-1, dim), target.movedim(-1, dim), mask, indexes=indexes)

    def measure(self, step: int) -> dict[str, float]:
        """The weight decay, the metric of the latest batch, and at times how ε suits it."""
        found = {} if self.decay is None else {"weight_decay": self.decay.decay}
        if self._structured is None or not self._call:
            return found
        task, epsilon = self._structured.task, getattr(self._structured.update, "epsilon", None)
        scores, target, mask, groups = self._lists(task, self._structured.process_group)
        indexes = None if groups is None else torch.from_numpy(groups.numbers).to(scores.device)
        found["train_metric"] = metric(task, scores, target, mask, indexes=indexes).item()
        due = self.diagnose_every is not None and step - self._diagnosed >= self.diagnose_every
        if due and groups is None and found["train_metric"] == found["train_metric"]:
            self._diagnosed = step
            tried = 1.0 if epsilon is None else torch.as_tensor(epsilon).double().mean().item()
            diagnosis = diagnose(task, scores, target, tried, mask)
            found["typical_epsilon"] = diagnosis.typical
            if epsilon is not None:
                found["epsilon_share"] = diagnosis.share.item()
        return found

    def state_dict(self) -> dict[str, Any]:
        """That of the weight decay: the warm-up needs no more than the number of the step."""
        return {} if self.decay is None else self.decay.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there at the next start."""
        self._loaded = state

    def _remember(self, _: nn.Module, given: tuple[Any, ...], options: dict[str, Any]) -> None:
        if torch.is_grad_enabled():
            call = dict(zip(NAMES, given, strict=False)) | options
            self._call = {name: part.detach() if torch.is_tensor(part) else part for name, part in call.items()}

    def _lists(self, task: Task, group: Any) -> Arranged:
        """The latest scores, target and mask, with the list in the last dimension."""
        scores, target = self._call["scores"], self._call["target"]
        mask, dim, indexes = (self._call.get(name) for name in ("mask", "dim", "indexes"))
        dim = getattr(self._structured, "dim", -1) if dim is None else dim
        ignored = getattr(self._structured, "ignore_index", None)
        return arrange(task, scores, target, mask, dim, indexes, ignored, group)
