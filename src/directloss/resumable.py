"""The base of losses that may hold a warm-up: their own state has its step, that of a model that holds them has not."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

__all__ = ["Resumable"]


class Resumable(nn.Module):
    """A module whose `state_dict` has the step of every warm-up in it, unless a larger module asks for its own."""

    counts_steps = False

    def _counting(self) -> dict[str, Any]:
        """The warm-ups, by the names of their steps."""
        parts = {name: part for name, part in self.named_modules() if getattr(part, "counts_steps", False)}
        return {f"{name}.step".removeprefix("."): part for name, part in parts.items()}

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Any]:
        """What torch's has, and the steps so far if no larger module calls it."""
        state = super().state_dict(*args, **options)
        if not args and not options.get("prefix") and options.get("destination") is None:
            for name, part in self._counting().items():
                state[name] = torch.tensor(part.step, device="cpu")  # a tensor: safetensors saves nothing else
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Go on after so many steps."""
        state, counting = dict(state_dict), self._counting()
        missing = [name for name in counting if name not in state]
        if strict and missing:
            raise RuntimeError(
                f"the state has no {missing[0]!r}, the number of warm-up steps so far; got {list(state)}. Load what "
                "state_dict() of this loss returned, or pass strict=False."
            )
        for name, part in counting.items():
            part.step = int(state.pop(name, part.step))
        return super().load_state_dict(state, strict=strict, assign=assign)
