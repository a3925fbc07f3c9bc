"""The Cranfield collection: 225 questions about aerodynamics, 1,400 abstracts, and how relevant each is to a question.

Cyril Cleverdon's experiments of the 1960s, in the files that the SMART project passed on. They name no licence, and
nothing of them is part of directloss. In the file of judgements, the number of a query is its position among the
queries, not the number that stands there; and 1 is the best grade and 4 the lowest. One document of each query has the
code −1, which the readme of the file does not explain. It is left out of the list of that query.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..harness.files import distrusted
from ..harness.progress import Steps
from .sources import Source, read_sources
from .tabular import TableError

__all__ = ["FILES", "LEFT_OUT", "Collection", "bm25", "check_cranfield", "read_cranfield"]

GITHUB = "https://raw.githubusercontent.com/noramtboraas/information-retrieval/4ea1b8e02da1db64b68b0364d50620b3c95528dc"
FILES = {
    name: Source(f"{GITHUB}/{name}", digest)
    for name, digest in (
        ("cran.all.1400", "fbb8935a93263ab6c9fadefb507fd7cd5e101e7fbeb31c12e6bff6dd501315e8"),
        ("cran.qry", "99578ceb88941ef89c14faf7c63c23776a376d8fba319b990f01d0c601d8b03f"),
        ("cranqrel", "a90f56082cd44db70bf2c21ebca39a1a34e37c82ccb5ddf1bcc64f18795234c7"),
    )
}
LEFT_OUT = -1
GRADES = {1: 4, 2: 3, 3: 2, 4: 1, -1: LEFT_OUT}  # from the codes of the file; 4 is a complete answer
FEW_WORDS = (
    " a an and are as at be been by can do does for from had has have how in is it its of on or that the there these "
    "this to was were what when which with "
)


class Collection(NamedTuple):
    """Texts, and the grade of each document for each query."""

    documents: list[str]
    queries: list[str]
    grades: NDArray[np.int8]
    """(queries, documents): 0 to 4, or `LEFT_OUT`."""


def check_cranfield(root: Path, steps: Steps) -> str:
    """Fetch the three files if they are not there, check and read them."""
    documents, queries, grades = read_cranfield(root, steps)
    return (
        f"{root} holds the Cranfield collection: {len(documents)} documents, {len(queries)} queries and "
        f"{(grades > 0).sum()} relevant pairs (no licence named)."
    )


def read_cranfield(root: Path, steps: Steps) -> Collection:
    """The collection of a folder."""
    texts = read_sources(root, FILES, steps("fetching the Cranfield collection"))
    with distrusted(f"The Cranfield collection in {root} cannot be read", TableError):
        return parse(*texts)


def parse(documents: str, queries: str, judgements: str) -> Collection:
    """Read the three files: abstracts, which repeat the titles; queries; lines of query, document and code."""
    abstracts = _entries(documents)
    if list(abstracts) != list(range(1, len(abstracts) + 1)):
        raise TableError("The documents must be numbered from 1 on.")
    questions = list(_entries(queries).values())
    grades = np.zeros((len(questions), len(abstracts)), np.int8)
    for line in filter(str.strip, judgements.splitlines()):
        query, document, code = map(int, line.split())
        if not (1 <= query <= len(questions) and 1 <= document <= len(abstracts) and code in GRADES):
            raise TableError(f"A judgement names no query, no document or no code: {line[:40]!r}.")
        grades[query - 1, document - 1] = GRADES[code]
    return Collection(list(abstracts.values()), questions, grades)


def _entries(text: str) -> dict[int, str]:
    """By number: what follows .W, on one line."""
    found = {}
    for part in re.split(r"^\.I", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n.W")
        found[int(head.split()[0])] = " ".join(body.split())
    return found


def bm25(collection: Collection, k1: float = 1.2, b: float = 0.75) -> NDArray[np.float32]:
    """(queries, documents): the scores of BM25 with the usual constants, without the commonest words."""
    counts = [Counter(_words(text)) for text in collection.documents]
    lengths = np.array([sum(each.values()) for each in counts])
    norm = k1 * (1 - b + b * lengths / lengths.mean())
    scores = np.zeros(collection.grades.shape)
    for row, query in zip(scores, collection.queries, strict=True):
        for word in _words(query):
            here = np.array([each[word] for each in counts])
            holding = (here > 0).sum()
            weight = np.log(1 + (len(counts) - holding + 0.5) / (holding + 0.5))
            row += weight * here * (k1 + 1) / (here + norm)
    return scores.astype(np.float32)


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if f" {word} " not in FEW_WORDS]
