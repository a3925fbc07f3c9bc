"""A loss at noisy copies of the scores: smooth in them, as the expectation in the theorem of direct loss is."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .checks import check_count, check_kind, check_loss, check_rate, check_scores, check_tensors
from .layout import is_ignored
from .resumable import Resumable

__all__ = ["Perturbed"]

NOISES = "normal", "logistic", "gumbel"


class Perturbed(Resumable):
    """The mean of a loss over copies of the scores with noise.

    In `eval()` there is no noise. With `Perceptron` it is the perturbed Fenchel–Young loss: its gradient is the mean of
    the features of noisy predictions minus those of the truth. With `Hinge` on the regret of a path it is a smoothed
    SPO+.

    Args:
        loss: a loss on scores and a target, e.g. `AveragePrecisionLoss()`.
        noise: the standard deviation of normal noise, the scale of the other kinds.
        copies: the number of noisy copies.
        kind: "normal", "logistic" or "gumbel".
        relative: whether `noise` is in units of the standard deviation of all valid scores. If not, it is absolute.
        generator: for the random numbers; None uses torch's own.

    Call it as you call `loss`.

    >>> from directloss import AveragePrecisionLoss
    >>> loss = Perturbed(AveragePrecisionLoss(), noise=0.5, copies=20, generator=torch.Generator().manual_seed(0))
    >>> scores, target = torch.tensor([2.0, 1.0, 0.0], requires_grad=True), torch.tensor([0, 1, 1])
    >>> loss(scores, target), loss.eval()(scores, target)
    (tensor(0.4167, grad_fn=<...>), tensor(0.4167, grad_fn=<...>))
    """

    def __init__(
        self,
        loss: nn.Module,
        noise: float = 1.0,
        copies: int = 1,
        *,
        kind: str = "normal",
        relative: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.loss = check_loss(loss)
        check_rate("noise", noise, zero=True)
        check_count("copies", copies)
        self.noise, self.copies, self.kind = noise, copies, check_kind("kind", kind, NOISES)
        self.relative, self.generator = relative, generator

    def forward(self, scores: Tensor, target: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
        """The mean over noisy copies, or in `eval()` the loss itself."""
        if not self.training or not self.noise:
            return self.loss(scores, target, mask, **options)
        check_tensors(scores, target, mask)
        check_scores(scores, 1)
        noise = self.noise * self._draw(scores)
        if self.relative:
            noise = noise * self._spread(scores.detach(), target, mask)
        values = [self.loss(scores + one, target, mask, **options) for one in noise]
        return torch.stack(values).mean(0)

    @property
    def ignore_index(self) -> int | None:
        """The value of the target that the loss leaves out."""
        return getattr(self.loss, "ignore_index", None)

    @property
    def process_group(self) -> Any:
        """The processes of the loss."""
        return getattr(self.loss, "process_group", None)

    def _spread(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """The standard deviation of all valid scores."""
        if self.ignore_index is not None and target.shape == scores.shape:
            valid = ~is_ignored(target, self.ignore_index)
            mask = valid if mask is None else mask & valid
        if mask is not None and mask.dtype == torch.bool and mask.shape == scores.shape:
            scores = scores.where(mask, 0.0)
            count = mask.sum().clamp(min=1)
            centre = scores.sum() / count
            return (((scores - centre) * mask).square().sum() / count).sqrt()
        return scores.std(correction=0)

    if TYPE_CHECKING:  # torch's own says nothing of the arguments

        def __call__(self, scores: Tensor, target: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
            """`forward`, with the hooks of a module."""
            ...

    def _draw(self, scores: Tensor) -> Tensor:
        shape, device = (self.copies, *scores.shape), scores.device if self.generator is None else self.generator.device
        if self.kind == "normal":
            drawn = torch.randn(shape, dtype=scores.dtype, device=device, generator=self.generator)
            return drawn.to(scores.device)
        share = torch.rand(shape, dtype=torch.float64, device=device, generator=self.generator).clamp(1e-12, 1 - 1e-12)
        drawn = share.logit() if self.kind == "logistic" else -(-share.log()).log()
        return drawn.to(scores.device, scores.dtype)

    def extra_repr(self) -> str:
        """The noise."""
        return f"noise={self.noise}, copies={self.copies}, kind={self.kind!r}, relative={self.relative}"
