"""Write the numbers and verdicts of README.md and docs/ from the results, so that nobody copies one by hand.

A document holds blocks

    <!-- generated: NAME -->
    …
    <!-- end -->

on lines of their own, or within a line (not at its beginning, where Markdown ends a paragraph before a comment). The
function NAME of a module in docs/blocks makes what stands between the two comments.

    python -m docs.generate            # rewrite every block, say which documents changed
    python -m docs.generate --check    # change nothing; exit code 1 if a block is not what its function makes
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.blocks import BLOCKS, ROOT
from docs.blocks.choosing import diagnosed, rankings
from docs.blocks.detection import classes_of_both
from docs.blocks.regimes import bars

__all__ = ["BLOCKS", "FIGURES", "documents", "draw", "main", "problems", "rewritten"]

FIGURES = ROOT / "docs" / "figures"
BLOCK = re.compile(r"<!-- generated: (\w+) -->(.*?)<!-- end -->", re.DOTALL)
MARK = re.compile(r"<!-- (?:generated\b.*?|end) -->")
MEASURED = re.compile(r"\d\s*±\s*\d")
"""A mean with its spread: outside of blocks there may be none."""


def documents() -> list[Path]:
    """The documents that may hold blocks."""
    docs = ROOT / "docs"
    return [ROOT / "README.md", *sorted(docs.glob("*.md")), *sorted((docs / "studies").glob("*.md"))]


def _filled(match: re.Match[str]) -> str:
    name, old = match.groups()
    if name not in BLOCKS:
        raise ValueError(f"There is no block {name!r}. There are: {', '.join(BLOCKS)}.")
    edge = "\n" if "\n" in old else ""
    return f"<!-- generated: {name} -->{edge}{BLOCKS[name]()}{edge}<!-- end -->"


def rewritten(text: str) -> str:
    """The document with every block as its function makes it."""
    return BLOCK.sub(_filled, text)


def problems(text: str) -> list[str]:
    """What is wrong with a document: blocks not as made, marks without a partner, measured numbers outside a block."""
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match[1] not in BLOCKS:
            found.append(f"line {line}: there is no block {match[1]!r}")
        elif _filled(match) != match[0]:
            found.append(f"line {line}: block {match[1]!r} is not what the results say; run python -m docs.generate")
    outside = BLOCK.sub("", text)
    found += [f"{mark} has no partner" for mark in MARK.findall(outside)]
    found += [f"outside of a block: {line.strip()}" for line in outside.splitlines() if MEASURED.search(line)]
    return found


def draw(folder: Path = FIGURES) -> None:
    """The figures that `./dev docs` makes."""
    import matplotlib

    from docs import call_path, package_map

    (folder / "package-map.svg").write_text(package_map.draw())
    (folder / "call-path.svg").write_text(call_path.draw())
    matplotlib.use("svg")
    with matplotlib.rc_context({"svg.hashsalt": "directloss", "svg.fonttype": "none"}):
        rankings().savefig(folder / "y-direct-by-epsilon.svg", metadata={"Date": None})
    with matplotlib.rc_context({"svg.hashsalt": "directloss"}):
        bars().savefig(folder / "wrong-labels-by-loss-and-regularisation.svg", metadata={"Date": None})
        diagnosed().plot().savefig(folder / "diagnose.svg", metadata={"Date": None})
    (folder / "detection-by-class-paper-and-ours.svg").write_text(classes_of_both())


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the blocks of all documents, or check them."""
    parser = argparse.ArgumentParser(
        description="Write the numbers and verdicts of README.md and docs/ from the results."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something is not as made")
    check = parser.parse_args(arguments).check
    wrong = 0
    if not check:
        draw()
    for path in documents():
        text = path.read_text()
        new = text if check else rewritten(text)
        if new != text:
            path.write_text(new)
            print(f"{path.relative_to(ROOT)}: rewritten")
        for problem in problems(new):
            wrong += 1
            print(f"{path.relative_to(ROOT)}: {problem}", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
