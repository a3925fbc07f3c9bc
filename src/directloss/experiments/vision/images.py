"""Image files, read without trust."""

import warnings
from pathlib import Path
from typing import Any

__all__ = ["ImageError", "read_image"]


class ImageError(ValueError):
    """A file that is not a whole image."""


def read_image(path: Path) -> Any:
    """A Pillow image in RGB, fully decoded."""
    from PIL import Image

    if not path.is_file():
        raise ImageError(f"{path} is {'not a file' if path.exists() else 'missing'}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=("JPEG", "PNG")) as image:
                return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"{path} is not a whole image: {error}") from None
