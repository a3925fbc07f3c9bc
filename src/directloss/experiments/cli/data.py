"""`directloss data`: check or fetch the data that experiments need."""

from pathlib import Path
from typing import Annotated

import typer

from ..data import DATA
from .terminal import console, handled, refuse, show_steps

__all__ = ["data"]


def data(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(DATA)}.")],
    root: Annotated[Path, typer.Option(help="Folder that holds the data, or will hold it.")],
) -> None:
    """Check data, or fetch it if it is not there yet."""
    if name not in DATA:
        raise refuse(f"There is no data {name!r}. There is: {', '.join(DATA)}.")
    with handled(), show_steps() as steps:
        text = DATA[name](root, steps)
    console.print(text, soft_wrap=True)
