"""The base of modules that hold a process group, so that they can be copied and saved like others."""

from copy import deepcopy
from typing import Any, Self

import torch
from torch import nn

__all__ = ["GroupModule"]

_WORLD = "torch.distributed.group.WORLD"


class GroupModule(nn.Module):
    """A module with a `process_group`. Copies share the group. Pickling works if it is WORLD or None."""

    process_group: Any = None

    def __copy__(self) -> Self:
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = memo[id(self)] = type(self).__new__(type(self))
        memo[id(self.process_group)] = self.process_group
        copy.__dict__.update(deepcopy(self.__dict__, memo))
        return copy

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is None:
            return self.__dict__
        if self.process_group is not torch.distributed.group.WORLD:
            raise TypeError(
                f"the process_group of {type(self).__name__} cannot be saved. Save the state_dict. Only "
                "torch.distributed.group.WORLD can be saved, before destroy_process_group."
            )
        return {**self.__dict__, "process_group": _WORLD}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.process_group == _WORLD:  # None if torch.distributed is not started: then this process is the world
            self.process_group = torch.distributed.group.WORLD
