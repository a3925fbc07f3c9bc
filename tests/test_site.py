"""The site works as a folder of files without a network and shows every public name. The animation is right."""

import ast
import doctest
import json
import re
import sys
import warnings
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
import torch

import directloss
import directloss.families
import directloss.sklearn
import directloss.tasks
import directloss.testing
import directloss.update
from directloss import AveragePrecision, AveragePrecisionLoss, PositiveDirect, metric

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
API = sorted((ROOT / "docs" / "api").glob("*.rst"))
ANIMATION = ROOT / "docs" / "animation.html"
MODULES = (
    directloss, directloss.families, directloss.tasks, directloss.testing, directloss.update, directloss.sklearn,
)  # fmt: skip
FIRST: dict[str, Any] = {}
"""Every public name, and the first module that has it: from there people import it."""
for module in MODULES:
    for public in module.__all__:
        FIRST.setdefault(public, module)
NAMES = [f"{module.__name__}.{name}" for name, module in FIRST.items()]
INTEGRATIONS = [  # read, not imported: that takes seconds
    f"directloss.integrations.{path.stem}.{name}"
    for path in sorted((ROOT / "src" / "directloss" / "integrations").glob("*.py"))
    if "pip install" in (text := path.read_text())
    for name in ast.literal_eval(text.partition("__all__ = ")[2].partition("\n")[0])
]


def test_a_name_is_the_same_in_all_modules_that_have_it():
    for module in MODULES:
        for name in module.__all__:
            assert getattr(module, name) is getattr(FIRST[name], name), f"{module.__name__}.{name}"


def test_every_public_name_is_on_one_page_of_the_reference():
    shown = re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", "\n".join(path.read_text() for path in API), re.MULTILINE)
    assert sorted(shown) == sorted(NAMES + INTEGRATIONS)
    assert len(INTEGRATIONS) == 3


@pytest.mark.parametrize("path", API, ids=lambda path: path.stem)
def test_examples_of_the_reference_run(path):
    failed, _ = doctest.testfile(str(path), module_relative=False, globs={"torch": torch})
    assert failed == 0


def test_every_public_class_and_function_has_an_example():
    examples = "\n".join(re.findall(r"^>>> .*", "\n".join(path.read_text() for path in API), re.MULTILINE))
    for name in NAMES:
        module, _, short = name.rpartition(".")
        member = getattr(sys.modules[module], short)
        if callable(member):
            assert ">>> " in (member.__doc__ or "") or re.search(rf"\b{short}\(", examples), name


def test_index_lists_every_page():
    docs = ROOT / "docs"
    listed = set(re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", (docs / "index.md").read_text(), re.MULTILINE))
    pages = {str(path.relative_to(docs)) for path in (*docs.glob("*.md"), *docs.glob("studies/*.md"))} - {"index.md"}
    notebooks = {f"notebooks/{path.name}" for path in (docs / "notebooks").glob("*.ipynb")}
    assert listed == pages | notebooks | {"recipes/README.md", "api/index.rst"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, notebooks executed; a warning is an error."""
    from sphinx.cmd.build import main

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Sphinx and its extensions, about each other
        patch.setenv("PYTHONPATH", str(ROOT / "src"))  # for the processes that run notebooks
        patch.setenv("OMP_NUM_THREADS", "1")
        said = folder / "warnings.txt"
        options = ["-b", "html", "-q", "-W", "--keep-going", "-w", str(said), "-d", str(folder / "doctrees")]
        code = main([*options, str(ROOT / "docs"), str(folder / "site")])
    assert code == 0, said.read_text()
    return folder / "site"


def test_links_lead_somewhere_and_nothing_is_loaded_from_a_network(site):
    pages = {path: path.read_text() for path in site.rglob("*.html") if "_downloads" not in path.parts}
    assert len(pages) > 40
    names = {path: set(re.findall(r' (?:id|name)="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        loaded = re.findall(r'<(?:script|img|iframe|link)\b[^>]*? (?:src|href)="([^"]+)"', text)
        assert not [address for address in loaded if re.match("(https?:)?//", address)], path
        for link in {unescape(link) for link in re.findall(r' (?:src|href)="([^"]+)"', text)}:
            if re.match(r"(https?|mailto|data|javascript):", link):
                continue
            file, _, part = link.partition("#")
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if part and target in names:
                assert unquote(part) in names[target], f"{path.relative_to(site)}: {link}"


def stored_outputs(path):
    """The cells of code of a notebook, with what is stored of each."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    return [("".join(cell["source"]), cell["outputs"]) for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_with_their_outputs(path):
    assert path.stat().st_size < 150_000
    text = path.read_text()
    assert not re.search(r'"execution_count": \d|"stderr"|"error"|iopub|Traceback|Warning', text)
    for source, outputs in stored_outputs(path):
        printed = "".join("".join(output.get("text", "")) for output in outputs)
        drawn = [kind for output in outputs for kind in output.get("data", ()) if kind.startswith("image/")]
        assert bool(printed) == bool(re.search(r"^ *print\(", source, re.MULTILINE)), source
        assert bool(drawn) == ("plt.show()" in source), source
        assert not re.search(r"/\w+/|\\\\|\d\d:\d\d", printed), printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_those_of_the_code(site, path):
    """Numbers may differ between machines."""
    shown = (site / "notebooks" / f"{path.stem}.html").read_text()
    assert "± 0." in shown
    executed = re.sub(r"\d", "#", unescape(re.sub(r"<[^>]+>", "", shown)))
    for _, outputs in stored_outputs(path):
        for output in outputs:
            for line in "".join(output.get("text", "")).splitlines():
                assert re.sub(r"\d", "#", line) in executed, f"{line}: run python -m docs.store_outputs"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_pages_fit_the_screen_and_search_finds(site, browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    complaints, requests = [], []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    for name in (str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} scrolls sideways"
    page.goto((site / "search.html").as_uri() + "?q=warm-up")
    page.wait_for_selector("ul.search li a")
    assert complaints == []
    assert all(address.startswith(("file:", "data:")) for address in requests)
    page.close()


SEARCHES = {
    "average precision": "start.html",
    "checkpoint": "faq.html#what-does-the-loss-leave-in-a-checkpoint-of-my-model",
    "class weights": "faq.html#my-classes-are-imbalanced",
    "cuda": "gpu.html",
    "ddp": "recipes/ddp.html",
    "early stopping": "recipes/wrong-labels.html",
    "focal loss": "faq.html#my-classes-are-imbalanced",
    "gpu": "gpu.html",
    "hard negatives": "faq.html#how-do-hard-negatives-come-in",
    "huggingface": "recipes/trainer.html",
    "imbalance": "faq.html#my-classes-are-imbalanced",
    "imbalanced": "faq.html#my-classes-are-imbalanced",
    "lightgbm": "faq.html#can-i-use-it-with-xgboost-or-lightgbm",
    "lightning": "recipes/lightning.html",
    "mAP": "recipes/multilabel.html",
    "metric learning": "recipes/metric-learning.html",
    "multi-label": "recipes/multilabel.html",
    "nan": "faq.html#i-get-an-error-about-nan",
    "ndcg": "api/tasks.html#directloss.NDCG",
    "noisy labels": "recipes/wrong-labels.html",
    "reranker": "recipes/reranker.html",
    "resume": "recipes/accelerate.html",
    "sentence-transformers": "recipes/sentence-transformers.html",
    "sklearn": "recipes/table.html",
    "slow": "speed.html",
    "weight decay": "recipes/wrong-labels.html",
}
"""What people type, and a page that must be among the first three results."""


def test_search_finds_the_words_of_people(site, browser):
    page = browser.new_page()
    for query, expected in SEARCHES.items():
        page.goto((site / "search.html").as_uri() + "?q=" + quote(query))
        page.wait_for_selector("ul.search li a")
        page.wait_for_function("/found/.test(document.getElementById('search-results').innerText)")
        links = page.eval_on_selector_all("ul.search li a", "links => links.map(link => link.getAttribute('href'))")
        if "faq.html#" in expected:
            assert "Questions and answers >" in page.inner_text("ul.search"), query
        assert expected in [re.sub(r"[?].*?(?=#|$)", "", link) for link in links[:3]], (query, links[:3])
    page.close()


def test_a_recipe_is_two_clicks_from_the_start(site):
    recipes = {path.name for path in (site / "recipes").glob("*.html")} - {"README.html"}
    for first in ("index", "start"):
        linked = set(re.findall(r'href="(?:recipes/)?([^"#]+\.html)', (site / f"{first}.html").read_text()))
        assert "recipes/README.html" in (site / f"{first}.html").read_text()
        assert recipes <= linked, first
    assert recipes <= set(re.findall(r'href="([^"#]+\.html)', (site / "recipes" / "README.html").read_text()))


def test_the_api_index_has_a_line_for_every_name(site):
    text = (site / "api" / "index.html").read_text()
    line = r'<li><p><a class="[^"]*" href="[^"]*#(directloss[^"]*)"[^>]*>.*?</a>: (.+?)</p>'
    lines = dict(re.findall(line, text, re.DOTALL))
    assert [name for name in NAMES + INTEGRATIONS if len(re.sub("<.*?>", "", lines.get(name, ""))) < 10] == []


def test_pages_of_their_own_lead_back_to_the_site(site, browser):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    for name, back in (("animation", "start"), ("tables", "studies/tables")):
        page.goto((site / f"{back}.html").as_uri())
        page.click(f'article a[href$="{name}.html"]')
        assert page.url == (site / f"{name}.html").as_uri()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click(f'a[href="{back}.html"]')
        assert page.url == (site / f"{back}.html").as_uri()
    page.close()


def test_animation_computes_what_the_library_computes(browser):
    assert len(ANIMATION.read_bytes()) < 60_000
    page = browser.new_page(viewport={"width": 400, "height": 800})
    complaints, requests = [], []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(ANIMATION.as_uri())
    x, labels, right, start, rate = page.evaluate("[X, LABELS, RIGHT, START, RATE]")
    x = torch.tensor([[*row, 1.0] for row in x], dtype=torch.float64)
    labels, right = torch.tensor(labels), torch.tensor(right)
    losses = {
        "theirs": lambda scores: torch.nn.functional.binary_cross_entropy_with_logits(scores, labels.double()),
        **{
            f"simulate({epsilon})": AveragePrecisionLoss(PositiveDirect(epsilon))
            for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0)
        },
    }
    for name, loss in losses.items():
        weights = torch.tensor(start, dtype=torch.float64)
        for state in page.evaluate(name)[:15]:
            scores = (x @ weights).requires_grad_()
            value = loss(scores) if name == "theirs" else loss(scores, labels)
            (gradient,) = torch.autograd.grad(value, scores)
            for found, expected in ((state["scores"], scores), (state["value"], value), (state["gradient"], gradient)):
                torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected.detach())
            for found, given in ((state["right"], right), (state["labelled"], labels)):
                assert found == pytest.approx(metric(AveragePrecision(), scores, given).item())
            weights = weights - rate * (gradient @ x)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert requests == [ANIMATION.as_uri()]
    assert complaints == []
    page.close()


def test_animation_is_played_and_stepped_by_keys(browser):
    page = browser.new_page()
    page.goto(ANIMATION.as_uri())
    page.focus("#step")
    page.keyboard.press("ArrowRight")
    assert page.text_content("#step-out") == "1"
    page.focus("#epsilon")
    page.keyboard.press("End")
    assert page.text_content("#epsilon-out") == "10"
    page.focus("#play")
    page.keyboard.press("Enter")
    page.wait_for_function("Number(document.getElementById('step').value) > 2")
    page.keyboard.press("Enter")
    assert page.text_content("#play") == "Play"
    page.close()
