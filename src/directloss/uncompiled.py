"""Runs a function outside of compiled graphs: ids say by their numbers which lists there are.

It is imported on first use: what keeps a function out of graphs takes two seconds to import.
"""

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["run_uncompiled"]


def _run(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return function(*arguments, **options)


run_uncompiled: Callable[..., Any] = torch.compiler.disable(_run)
