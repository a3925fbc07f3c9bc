"""The site: Sphinx reads the Markdown of this folder as GitHub shows it, and `api/*.rst` from docstrings.

`index.md` lists the pages, as links under headings. These become the navigation. The front page is README.md, and
three pages are files of the root, so nothing is written twice. Formulas become MathML, which browsers show without a
script. Nothing is loaded from a network.
"""

import importlib
import inspect
import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import download_reference, index
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

import directloss

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

from docs.words import WORDS  # noqa: E402

FROM_ROOT = {
    "index": "README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
}
PAGES = {
    "animation.html": ("start.html", "← directloss: Start"),
    "tables.html": ("studies/tables.html", "← directloss: Leaderboard on real tables"),
}
"""HTML files that the site holds as they are, and where a link leads back."""
UNFRAMED = "if (top !== self) document.currentScript.previousElementSibling.remove();"
"""Within a page of the site no link leads back."""
LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")
OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]*)(#[^)]*)?\)")

project = "directloss"
author = "The directloss developers"
version = release = directloss.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = os.environ.get("DIRECTLOSS_NOTEBOOKS", "force")  # "off": while you write
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
add_module_names = False
copybutton_prompt_text = ">>> |\\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"directloss {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["animation.html", "../studies/results/tables.html"]  # of PAGES
html_math_renderer = "mathml"
html_show_sourcelink = False
html_show_copyright = False
pygments_dark_style = "github-dark"
html_copy_source = False
html_show_search_summary = False  # excerpts are fetched, which browsers refuse in a folder of files
html_search_scorer = str(DOCS / "scorer.js")
html_theme_options = {"navigation_with_keys": True}


def from_root(name: str) -> str:
    """A document of the root, with links as they are from this folder."""

    def moved(match: re.Match[str]) -> str:
        return match[1] + posixpath.relpath(match[2], "docs")

    return LINK.sub(moved, (ROOT / name).read_text())


def navigation() -> str:
    """The pages of index.md as tables of contents, one for each of its headings."""
    parts = []
    for section in (DOCS / "index.md").read_text().split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        entries = [
            f"{title} <{page}>" for title, page in re.findall(r"^- \[([^\]]+)\]\(([^)#]+)\)", text, re.MULTILINE)
        ]
        parts.append("\n".join([f"```{{toctree}}\n:hidden:\n:caption: {heading}\n", *entries, "```"]))
    return "\n\n".join(parts)


def member_of(name: str) -> Any:
    """What a dotted name is the name of."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def names(text: str) -> str:
    """The index of the API: a line for each name of the pages that it lists."""
    parts = [text.replace(".. toctree::", ".. toctree::\n   :hidden:")]
    for page in re.findall(r"^   (\w+)$", text, re.MULTILINE):
        source = (DOCS / "api" / f"{page}.rst").read_text()
        title = f":doc:`{page}`"
        lines = [title, "-" * len(title), ""]
        for kind, name, rest in re.findall(r"^\.\. (auto\w+|py:data):: (\S+)$\n(?:\n   (.*))?", source, re.MULTILINE):
            said = rest if kind == "py:data" else (inspect.getdoc(member_of(name)) or "").partition("\n\n")[0]
            lines.append(f"- `~{name}`: {' '.join(said.split())}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def inside(page: str, text: str) -> str:
    """Links to files outside of this folder lead to the page that shows the file, or to a copy that the site holds."""
    folder = posixpath.dirname(page)

    def moved(match: re.Match[str]) -> str:
        words, link, _ = match.groups()
        path = posixpath.normpath(posixpath.join("docs", folder, link))
        if path.startswith("docs/"):
            return match[0]
        if path in FROM_ROOT.values():
            shown = next(page for page, name in FROM_ROOT.items() if name == path)
            return f"[{words}]({posixpath.relpath(shown, folder)}.md)"
        return f"{{download}}`{words.replace('`', '')} <{link}>`" if (ROOT / path).is_file() else words

    return OUTSIDE.sub(moved, text)


def read(_: Sphinx, page: str, source: list[str]) -> None:
    """What Sphinx reads in place of a file of this folder."""
    if page in FROM_ROOT:
        source[0] = from_root(FROM_ROOT[page])
    source[0] = inside(page, source[0])
    if page == "api/index":
        source[0] = names(source[0])
    if page == "index":
        source[0] += "\n\n" + navigation()
    if page == "recipes/README":
        pages = sorted(path.stem for path in (DOCS / "recipes").glob("*.md") if path.stem != "README")
        source[0] += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```"


def open_pages(app: Sphinx, document: nodes.document) -> None:
    """Links to HTML files open them. Sphinx would offer them as files to save."""
    folder = posixpath.dirname(app.env.docname)
    for link in list(document.findall(download_reference)):
        file = posixpath.basename(link["reftarget"])
        if file in PAGES:
            address = posixpath.relpath(file, folder)
            link.replace_self(nodes.reference("", "", *link.children, refuri=address, internal=False))


def add_words(app: Sphinx, document: nodes.document) -> None:
    """Entries of the index, of which the search shows the sections first."""
    titles = document.findall(nodes.title)
    ids = {title.astext(): title.parent["ids"][0] for title in titles if isinstance(title.parent, nodes.section)}
    for place, words in WORDS.items():
        page, _, heading = place.partition("#")
        if page == app.env.docname:
            anchor = ids[heading] if heading else ""
            document += index(entries=[("single", word, anchor, "main", None) for word in words.split(", ")])


def lead_back(app: Sphinx, failed: Exception | None) -> None:
    """Pages that Sphinx does not make have a link back. In the repository they have none: there is no site."""
    if failed is None:
        for file, (address, words) in PAGES.items():
            page = app.outdir / file
            back = f'<body>\n<p><a href="{address}">{words}</a></p>\n<script>{UNFRAMED}</script>'
            page.write_text(page.read_text().replace("<body>", back, 1))


def signature(_: Sphinx, what: str, name: str, member: Any, *rest: Any) -> tuple[str, str] | None:
    """Of a class: what its constructor takes. Sphinx would show `Task.__new__`, which takes anything."""
    if what != "class":
        return None
    taken = inspect.signature(member)
    if all(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in taken.parameters.values()):
        return "()", ""
    return stringify_signature(taken, show_annotation=False, show_return_annotation=False), ""


def formula(translator: Any, node: nodes.Element) -> None:
    """A formula as MathML."""
    block = isinstance(node, nodes.math_block)
    tree = tex2mathml(node.astext(), as_block=block)
    translator.body.append(f'<div class="math">{tree}</div>' if block else str(tree))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", read)
    app.connect("doctree-read", open_pages)
    app.connect("doctree-read", add_words)
    app.connect("autodoc-process-signature", signature)
    app.connect("build-finished", lead_back)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
