"""Omniglot: handwritten characters of several alphabets, each drawn once by each of twenty people.

Lake, Salakhutdinov and Tenenbaum, Science 2015 (MIT licence). The two small sets of training alphabets are read: eight
alphabets, since Greek and Latin are in both. Nothing of them is part of directloss.
"""

import io
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..harness.files import distrusted
from ..harness.progress import Progress, Steps
from ..vision.images import decode_grey
from .sources import Source, read_bytes
from .tabular import TableError

__all__ = ["FILES", "SIZE", "Drawings", "check_omniglot", "parse", "read_omniglot"]

GITHUB = "https://raw.githubusercontent.com/brendenlake/omniglot/057f034baf2ecb8530bc5710e5a23584d2a519cc/python"
FILES = {
    name: Source(f"{GITHUB}/{name}", digest)
    for name, digest in (
        ("images_background_small1.zip", "f38eb80f801274ac2b4dff5b24289016bfaba4a7d5bb50deebf27104ad6cb8a4"),
        ("images_background_small2.zip", "3ccaa407515a8778e5d0861875af38b17e418f301ad5bb3b5a6b65d901a41c7f"),
    )
}
SIZE = 28  # pixels of a side, of 105 in the files
MEMBER = re.compile(r"[^/]+/(?P<alphabet>[^/]+)/character(?P<character>\d{2})/\d{4}_(?P<drawer>\d{2})\.png")
MOST_MEMBERS, LARGEST_MEMBER, LARGEST_SIDE = 20_000, 1 << 14, 1024


class Drawings(NamedTuple):
    """Images, and what each shows; in the order of alphabets, characters and people."""

    images: NDArray[np.uint8]
    """(images, SIZE, SIZE): how much ink there is, from 0 to 255."""
    characters: NDArray[np.int64]
    """(images,): from 0 on; no character is in two alphabets."""
    alphabets: NDArray[np.int64]
    """(images,): places in `names`."""
    names: list[str]


def check_omniglot(root: Path, steps: Steps) -> str:
    """Fetch the two files if they are not there, check and read them."""
    drawings = read_omniglot(root, steps)
    return (
        f"{root} holds {len(drawings.images)} drawings of {drawings.characters.max() + 1} characters of "
        f"{len(drawings.names)} alphabets of Omniglot (MIT)."
    )


def read_omniglot(root: Path, steps: Steps) -> Drawings:
    """All drawings of the two files of a folder."""
    contents = read_bytes(root, FILES, steps("fetching Omniglot"))
    with distrusted(f"The files of Omniglot in {root} cannot be read", TableError):
        return parse(contents, steps("reading drawings"))


def parse(contents: list[bytes], progress: Progress) -> Drawings:
    """Read zip archives with a PNG file for each drawing. An alphabet that is in two of them is read once."""
    found: dict[tuple[str, int, int], NDArray[np.uint8]] = {}
    for done, content in enumerate(contents, 1):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) > MOST_MEMBERS:
                raise TableError(f"An archive has {len(members)} files, more than the {MOST_MEMBERS} that are read.")
            for member in members:
                match = MEMBER.fullmatch(member.filename)
                if not match or member.file_size > LARGEST_MEMBER:
                    raise TableError(f"No drawing of a character, or too large: {member.filename[:80]!r}.")
                place = match["alphabet"], int(match["character"]), int(match["drawer"])
                if place not in found:
                    found[place] = _ink(archive.read(member), member.filename)
        progress(done / len(contents))
    if not found:
        raise TableError("There is no drawing.")
    places = sorted(found)
    names = sorted({alphabet for alphabet, *_ in places})
    characters = sorted({place[:2] for place in places})
    return Drawings(
        np.stack([found[place] for place in places]),
        np.array([characters.index(place[:2]) for place in places]),
        np.array([names.index(alphabet) for alphabet, *_ in places]),
        names,
    )


def _ink(content: bytes, name: str) -> NDArray[np.uint8]:
    """Black on white becomes 255 on 0, and a pixel the mean of those that it covers."""
    from PIL import Image

    image = decode_grey(content, name)
    if max(image.size) > LARGEST_SIDE:
        raise TableError(f"A drawing has more than {LARGEST_SIDE} pixels a side: {name[:80]!r} has {image.size}.")
    return 255 - np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BOX))
