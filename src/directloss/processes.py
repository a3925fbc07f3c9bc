"""Modules that hold a process group, so that they can be copied and saved like others."""

from copy import deepcopy
from typing import Any, Self

import torch
from torch import nn

__all__ = ["GroupModule"]

_WORLD = "torch.distributed.group.WORLD"


class GroupModule(nn.Module):
    """A module with a `process_group`, which is a handle of this process: copies share it.

    A saved module remembers that its group is WORLD. Another group cannot be saved.
    """

    process_group: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = memo[id(self)] = type(self).__new__(type(self))
        memo[id(self.process_group)] = self.process_group
        copy.__dict__.update(deepcopy(self.__dict__, memo))
        return copy

    def __getstate__(self) -> dict[str, Any]:
        group = self.process_group
        if group is None:
            return self.__dict__
        if group is not torch.distributed.group.WORLD:
            raise TypeError(
                f"the process_group of {type(self).__name__} cannot be saved. Save the state_dict, or use "
                "torch.distributed.group.WORLD."
            )
        return {**self.__dict__, "process_group": _WORLD}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.process_group == _WORLD:  # None if torch.distributed is not started: then this process is the world
            self.process_group = torch.distributed.group.WORLD
