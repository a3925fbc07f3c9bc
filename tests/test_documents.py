"""README, docs, docstrings and examples are run, so that they cannot rot."""

import ast
import doctest
import importlib
import pkgutil
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from directloss_studies.detection.summary import PAPER
from scipy.stats import spearmanr

import directloss
from docs import generate, paper

ROOT = Path(__file__).parent.parent
DOCUMENTS = generate.documents()
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))  # test_recipes.py runs their code
OTHERS = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "studies/README.md")]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MODULES = [module.name for module in pkgutil.walk_packages(directloss.__path__, "directloss.")]


def blocks(path: Path) -> str:
    """The Python blocks of a document, as one program in which a comment after a line tells what it prints."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_code_in_documents_runs_and_prints_what_it_says(path, capsys):
    """A `print(...)` line ends in `# → what it prints`."""
    torch.manual_seed(0)
    source = blocks(path)
    exec(compile(source, str(path), "exec"), {"__name__": "document"})
    expected = [line.split("# → ")[1].strip() for line in source.splitlines() if "# → " in line]
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.slow
def test_examples_run(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS, extraglobs={"torch": torch})
    assert failed == 0


def test_readme_is_short_and_a_page_lists_the_tasks_and_updates_that_there_are():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100
    text = (ROOT / "docs" / "choosing.md").read_text()
    for member in (*directloss.tasks.TASKS.values(), *directloss.update.UPDATES.values()):
        assert f"`{member.__name__}" in text


@pytest.mark.parametrize("path", [*DOCUMENTS, *RECIPES], ids=lambda path: path.name)
def test_numbers_are_those_of_the_results(path):
    assert generate.problems(path.read_text()) == []


def test_figures_are_drawn_alike(tmp_path):
    generate.draw(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (generate.FIGURES / path.name).read_bytes(), f"{path.name}: run ./dev docs"


def test_rank_correlations_are_those_of_scipy():
    random = np.random.default_rng(0)
    for _ in range(50):
        first, second = random.integers(0, 6, (2, 12))
        assert paper.spearman(first, second) == pytest.approx(spearmanr(first, second)[0])
    assert np.isnan(paper.spearman([0, 0, 0], [1, 2, 3]))


def test_the_means_of_the_papers_table_2_are_those_of_its_classes_and_of_the_report():
    table = paper.read(ROOT / "studies" / "results" / "paper-detection.csv")
    assert len(table) == 5 * 21
    for noise, method in {key[1:] for key in table}:
        by_class = [ap for (of, *rest), ap in table.items() if of != paper.MEAN and rest == [noise, method]]
        assert table[paper.MEAN, noise, method] == pytest.approx(np.mean(by_class), abs=6e-4)
        assert table[paper.MEAN, noise, method] == PAPER[method][noise]


def test_all_generated_blocks_are_used_and_make_the_same_twice():
    used = {name for path in DOCUMENTS for name, _ in generate.BLOCK.findall(path.read_text())}
    assert used == generate.BLOCKS.keys()
    for path in DOCUMENTS:
        assert generate.rewritten(path.read_text()) == path.read_text()


def test_a_shifted_number_a_swapped_row_and_a_number_by_hand_are_found():
    text = (ROOT / "docs" / "studies" / "reproduction.md").read_text()
    rows = re.search(r"(\| Flipped labels: .*\n)(\|.*\n)", text)
    assert rows
    changes = {
        "0.930 ± 0.014": "0.931 ± 0.014",
        rows[0]: rows[2] + rows[1],
        "<!-- generated: actions_table_1 -->": "<!-- generated: nothing -->",
        "<!-- generated: claims -->\n": "",
        "## In short": "pos-AP reaches 0.683 ± 0.006.\n\n## In short",
    }
    for old, new in changes.items():
        assert text.count(old) >= 1, old
        assert generate.problems(text.replace(old, new, 1)) != [], old


@pytest.mark.parametrize("path", [*DOCUMENTS, *RECIPES, *OTHERS], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(path):
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), link


def quoted_by_the_page_of_errors():
    rows = re.findall(r"^\| (\*.+?\*) \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)
    return [words.lower() for row in rows for words in re.findall(r"\*(.+?)\*", row)]


def static(node):
    """The text of a string, with … where something is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(static, node.values))
    if isinstance(node, ast.BinOp):
        return static(node.left) + static(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "…"


def said_by_the_library():
    """The texts of all errors and warnings: arguments of what is raised, and of the functions that warn or raise."""
    for path in sorted((ROOT / "src" / "directloss").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call):
                continue
            place = 0 if isinstance(node, ast.Raise) else SPEAKERS.get(ast.unparse(call.func), len(call.args))
            text = static(call.args[place]) if place < len(call.args) else ""
            if len(re.sub("[^a-z]", "", text)) > 10:  # not of a template
                yield f"{path.name}:{call.lineno}", text


SPEAKERS = {"warnings.warn": 0, "_warn": 0, "raise_at_first": 2}
"""Functions that warn or raise, and which argument is the text."""


def test_the_page_of_errors_quotes_what_the_library_says():
    source = "".join(path.read_text() for path in (ROOT / "src" / "directloss").rglob("*.py"))
    said = re.sub(r'"\s*f?"', "", source).lower()  # strings that go on in the next line
    assert [words for words in quoted_by_the_page_of_errors() if words not in said] == []


def test_every_error_and_warning_is_on_the_page_of_errors():
    quoted = quoted_by_the_page_of_errors()
    messages = list(said_by_the_library())
    assert len(messages) > 140
    unknown = [(where, text) for where, text in messages if not any(words in text.lower() for words in quoted)]
    assert unknown == []
