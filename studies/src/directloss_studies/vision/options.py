"""Options of studies on VOC2012 with a backbone: where the devkit and the weights are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..harness.options import Option, Options
from .backbones import BACKBONES, Packaged, default_backbone

__all__ = ["VisionOptions"]


@dataclass(frozen=True, kw_only=True)
class VisionOptions(Options):
    """What studies on VOC2012 take."""

    root: Annotated[Path | None, Option("Folder of the VOC2012 devkit; needed.", metavar="DEVKIT")] = None
    weights: Annotated[
        Path | None,
        Option("Weights of the backbone, .pth or .npz; without it they are fetched or installed.", metavar="FILE"),
    ] = None
    backbone: Annotated[
        str,
        Option(f"One of: {', '.join(BACKBONES)}; without it the last, if its weights are installed, else squeezenet."),
    ] = ""

    def network(self) -> str:
        """The name of the backbone. Weights that are given without a name are taken for SqueezeNet's."""
        return self.backbone or ("squeezenet" if self.weights else default_backbone())

    def hidden(self) -> set[str]:
        """Packaged weights need not be named."""
        network = BACKBONES.get(self.network())
        return {"weights"} if network is not None and isinstance(network.official, Packaged) else set()

    def devkit(self) -> Path:
        """The folder of the devkit; an error if none was given."""
        if self.root is None:
            raise ValueError("The study needs data: add --root DIR. `directloss data voc2012 --root DIR` gets it.")
        return self.root
