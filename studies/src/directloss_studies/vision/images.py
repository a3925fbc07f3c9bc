"""Image files, read without trust."""

import io
import warnings
from pathlib import Path
from typing import Any

__all__ = ["ImageError", "decode_grey", "read_image", "read_palette"]


class ImageError(ValueError):
    """A file that is not a whole image."""


def read_image(path: Path) -> Any:
    """A Pillow image in RGB, fully decoded."""
    return _decoded(path, ("JPEG", "PNG")).convert("RGB")


def read_palette(path: Path) -> Any:
    """A Pillow image that holds a number a pixel, as masks do, fully decoded."""
    image = _decoded(path, ("PNG",))
    if image.mode not in ("P", "L"):
        raise ImageError(f"{path} must hold one number a pixel (mode P or L); got mode {image.mode}.")
    return image


def decode_grey(content: bytes, name: str) -> Any:
    """A Pillow image in shades of grey, fully decoded from the bytes of a PNG file. Errors call it by its name."""
    return _opened(io.BytesIO(content), name, ("PNG",)).convert("L")


def _decoded(path: Path, formats: tuple[str, ...]) -> Any:
    if not path.is_file():
        raise ImageError(f"{path} is {'not a file' if path.exists() else 'missing'}.")
    return _opened(path, str(path), formats)


def _opened(file: Path | io.BytesIO, name: str, formats: tuple[str, ...]) -> Any:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=formats) as image:
                image.load()
                return image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"{name} is not a whole image: {error}") from None
