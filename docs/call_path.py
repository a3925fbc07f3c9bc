"""The path of a call, as docs/figures/call-path.svg: the functions between a loss and the kernel that solves it.

It is traced, not written down: `draw` calls `AveragePrecisionLoss()` and looks at the stack where the kernel is called.
"""

import inspect
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from directloss import AveragePrecisionLoss
from directloss.kernels import average_precision as kernels

__all__ = ["draw", "steps"]

SOURCE = Path(kernels.__file__).parent.parent
WIDTH, HEIGHT, STEP = 760, 40, 62
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2330}.name{font-weight:600}.note{fill:#5b6b85}"
    "rect{fill:#eef2f9;stroke:#5b6b85;rx:5}rect.kernel{fill:#dbe7fb}.back{fill:#fff;stroke:none}"
    "path{fill:none;stroke:#5b6b85;stroke-width:1.5}"
)


class Step(NamedTuple):
    """A function on the path."""

    name: str
    file: str
    does: str


def steps() -> list[Step]:
    """From the call of a loss down to the kernel."""
    name, stack = "average_precision_up", []
    kernel: Any = getattr(kernels, name)

    def watched(*arguments: Any) -> Any:
        stack.extend(_stack(sys._getframe(1)))
        return kernel(*arguments)

    setattr(kernels, name, watched)
    try:
        AveragePrecisionLoss()(torch.tensor([2.0, 1.0, 0.0], requires_grad=True), torch.tensor([0, 1, 1]))
    finally:
        setattr(kernels, name, kernel)
    path = [_step(frame.f_code.co_qualname, Path(frame.f_code.co_filename), _function(frame)) for frame in stack]
    return [*path, _step(name, SOURCE / "kernels" / "average_precision.py", kernel.py_func)]


def _stack(frame: FrameType | None) -> list[FrameType]:
    """The frames of the library, from the outermost on."""
    frames: list[FrameType] = []
    while frame is not None:
        if SOURCE in Path(frame.f_code.co_filename).parents:
            frames.insert(0, frame)
        frame = frame.f_back
    return frames


def _function(frame: FrameType) -> Any:
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    return frame.f_globals[name] if owner is None else getattr(type(owner), name)


def _step(name: str, file: Path, function: Any) -> Step:
    said = inspect.getdoc(function) or ""
    return Step(name, file.relative_to(SOURCE).as_posix(), said.split("\n\n")[0].replace("\n", " "))


def draw() -> str:
    """One box a function, in the order of the calls."""
    path = steps()
    tall = STEP * len(path) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}"><style>{STYLE}</style>',
        f'<rect class="back" width="{WIDTH}" height="{tall}"/>',
        *_boxes(path),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _boxes(path: list[Step]) -> Iterator[str]:
    for k, step in enumerate(path):
        y, last = 8 + k * STEP, k == len(path) - 1
        kind = ' class="kernel"' if last else ""
        yield f'<rect{kind} x="8" y="{y}" width="{WIDTH - 16}" height="{HEIGHT}"/>'
        yield f'<text class="name" x="18" y="{y + 17}">{escape(step.name)}</text>'
        yield f'<text class="note" text-anchor="end" x="{WIDTH - 18}" y="{y + 17}">{escape(step.file)}</text>'
        yield f'<text x="18" y="{y + 33}">{escape(step.does)}</text>'
        if not last:
            yield f'<path d="M40,{y + HEIGHT}v{STEP - HEIGHT}m-5,-8l5,8l5,-8"/>'
