"""README, docs, docstrings and examples are run, so that they cannot rot."""

import doctest
import importlib
import json
import pkgutil
import re
import runpy
from pathlib import Path

import pytest
import torch

import directloss
from benchmarks.speed import tables

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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
def test_examples_run(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS, extraglobs={"torch": torch})
    assert failed == 0


def test_readme_lists_the_tasks_and_updates_that_there_are():
    text = (ROOT / "README.md").read_text()
    for member in (*directloss.TASKS.values(), *directloss.UPDATES.values()):
        assert f"`{member.__name__}" in text


def test_tables_of_the_readme_are_those_of_the_results():
    text = (ROOT / "README.md").read_text()
    assert tables(json.loads((ROOT / "results" / "speed.json").read_text())) in text


def published():
    """What the published records say: means with their spread, and differences with their standard errors."""
    found = set()
    for name in ("synthetic", "label-noise", "separable", "actions", "detection", "detection-features"):
        for record in json.loads((ROOT / "results" / f"{name}.json").read_text()):
            if record["metric"].endswith("_minus_this"):
                found.add(f"{record['mean']:+.3f} ± {record['sd'] / record['n'] ** 0.5:.3f}".replace("-", "−"))
            elif record["sd"] is not None:
                found.add(f"{record['mean']:.3f} ± {record['sd']:.3f}")
    return found


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "docs" / "reproduction.md"], ids=lambda path: path.name)
def test_numbers_of_experiments_are_those_of_the_results(path):
    numbers = set(re.findall(r"[+−]?\d\.\d{3} ± \d\.\d{3}", path.read_text()))
    assert len(numbers) > 10
    assert numbers <= published()


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(path):
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), link
