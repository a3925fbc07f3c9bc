"""`directloss data`: check, fetch or convert the data that studies need."""

from pathlib import Path
from typing import Annotated

import typer

from ..data import CONVERTED, DATA
from .terminal import console, handled, refuse, show_steps

__all__ = ["data"]

NAMES = ", ".join((*DATA, *CONVERTED))
TAKERS = ", ".join(CONVERTED)


def data(
    name: Annotated[str, typer.Argument(help=f"One of: {NAMES}.")],
    root: Annotated[Path, typer.Option(help="Folder that holds the data, or will hold it.")],
    images: Annotated[Path | None, typer.Option(help=f"Folder with images; only for {TAKERS}.")] = None,
    labels: Annotated[Path | None, typer.Option(help=f"File with labels; only for {TAKERS}.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help=f"The network's weights; only for {TAKERS}. Default: fetch them.")
    ] = None,
) -> None:
    """Check data, or fetch it if it is not there yet."""
    if name not in (*DATA, *CONVERTED):
        raise refuse(f"There is no data {name!r}. There is: {NAMES}.")
    if name in DATA and (images or labels or weights):
        raise refuse(f"--images, --labels and --weights are only for {TAKERS}.")
    if name in CONVERTED and not (images and labels):
        raise refuse(f"{name} is made of files that you have: add --images FOLDER and --labels FILE.")
    with handled(), show_steps() as steps:
        given = images and labels and (images, labels, weights)
        text = CONVERTED[name](root, *given, steps) if given else DATA[name](root, steps)
    console.print(text, soft_wrap=True)
