"""The site: Sphinx reads the Markdown of this folder as GitHub shows it, and `api/*.rst` from docstrings.

`index.md` lists the pages, as links under headings. These become the navigation. The front page is README.md, and
three pages are files of the root, so nothing is written twice. Formulas become MathML, which browsers show without a
script. Nothing is loaded from a network.
"""

import inspect
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

import directloss

DOCS = Path(__file__).parent
ROOT = DOCS.parent
FROM_ROOT = {
    "index": "README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
}
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
html_extra_path = ["animation.html"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_show_copyright = False
pygments_dark_style = "github-dark"
html_copy_source = False
html_show_search_summary = False  # excerpts are fetched, which browsers refuse in a folder of files
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
    if page == "index":
        source[0] += "\n\n" + navigation()
    if page == "recipes/README":
        pages = sorted(path.stem for path in (DOCS / "recipes").glob("*.md") if path.stem != "README")
        source[0] += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```"


def open_pages(_: Sphinx, document: nodes.document) -> None:
    """Links to HTML files open them. Sphinx would offer them as files to save."""
    for link in document.findall(download_reference):
        if link["reftarget"].endswith("animation.html"):
            link.replace_self(nodes.reference("", "", *link.children, refuri="animation.html", internal=False))


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
    app.connect("autodoc-process-signature", signature)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
