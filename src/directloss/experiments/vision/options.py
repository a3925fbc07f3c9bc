"""Options of experiments on VOC2012 with a backbone: where the devkit and the weights are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..harness.options import Option, Options
from .backbones import BACKBONES

__all__ = ["VisionOptions"]


@dataclass(frozen=True, kw_only=True)
class VisionOptions(Options):
    """What experiments on VOC2012 take."""

    root: Annotated[Path | None, Option("Folder of the VOC2012 devkit; needed.", metavar="DEVKIT")] = None
    weights: Annotated[
        Path | None,
        Option("Weights of the backbone, .pth or .npz; without it they are fetched or installed.", metavar="FILE"),
    ] = None
    backbone: Annotated[str, Option(f"One of: {', '.join(BACKBONES)}.")] = "squeezenet"

    def devkit(self) -> Path:
        """The folder of the devkit; an error if none was given."""
        if self.root is None:
            raise ValueError("The experiment needs data: add --root DIR. `directloss data voc2012 --root DIR` gets it.")
        return self.root
