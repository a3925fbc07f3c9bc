"""What people install: one version everywhere, a wheel that works alone, a first call that says that it compiles."""

import logging
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import numba
import numpy as np
import pytest
from test_documents import blocks

import directloss
from directloss import kernels
from directloss.kernels.first_call import ANNOUNCEMENT, MESSAGE, Announcement

ROOT = Path(__file__).parent.parent


def test_version_changelog_and_citation_agree():
    newest = re.search(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = dict(re.findall(r"^(version|date-released): (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert newest
    assert newest[1] == cited["version"] == directloss.__version__
    assert newest[2] == cited.get("date-released", "unreleased")


def test_new_versions_are_pinned_for_every_package_of_an_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split()}
    for extra in ("docs", "experiments", "frameworks", "ray", "test"):
        for package in project["project"]["optional-dependencies"][extra]:
            assert re.split(r"[^\w-]", package)[0].lower() in pinned, package


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Source and wheel as `python -m build` makes them, checked by twine."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    files = sorted(str(path) for path in folder.iterdir())
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    return Path(next(file for file in files if file.endswith(".whl")))


def test_wheel_is_whole_and_its_description_needs_no_other_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert "directloss/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"directloss", f"directloss-{directloss.__version__}.dist-info"}
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "directloss").rglob("*.py")}
    assert sources <= set(names)
    description = metadata.partition("\n\n")[2]
    assert "](" not in description
    assert "<!--" not in description
    assert "StructuredLoss(AveragePrecision()" in description


def test_installed_wheel_runs_the_readme_and_the_command(wheel, tmp_path):
    """In a folder of its own. README needs none of the extras; the command does."""
    folder = tmp_path / "lib"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*install, str(wheel)], check=True)
    (tmp_path / "program.py").write_text(f"""{blocks(ROOT / "README.md")}
import directloss, runpy, sys
assert directloss.__file__.startswith({str(folder)!r}), directloss.__file__
assert not {{"matplotlib", "rich", "sklearn", "typer"}} & sys.modules.keys()
sys.argv = ["directloss", "--help"]
runpy.run_path({str(folder / "bin" / "directloss")!r}, run_name="__main__")
""")
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "1"}
    program = [sys.executable, "program.py"]
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0.400 [-0.5, 0.5, -0.5, 0.5]\n")
    assert "reproduce" in done.stdout


def _kernel():
    def double(numbers):
        return numbers * 2

    double.__module__ = "directloss.kernels.made_by_a_test"
    return numba.njit(double)


def test_a_long_compilation_is_announced_once(caplog, monkeypatch):
    from numba.core import event

    monkeypatch.setattr(ANNOUNCEMENT, "_said", True)  # the one that listens already
    caplog.set_level(logging.WARNING, "directloss")  # the code of docs/faq.md sets another, in the same process
    with event.install_listener("numba:compile", Announcement(patience=0.0)):
        for kind in (np.float64, np.int64):
            kernel = _kernel()
            kernel(np.ones(3, kind))
            time.sleep(0.01)
            kernel(np.ones(3, kind))
    assert [record.message for record in caplog.records if record.name == "directloss"] == [MESSAGE]


def test_a_short_compilation_is_not_announced_and_times_add_up(caplog, monkeypatch):
    from numba.core import event

    monkeypatch.setattr(ANNOUNCEMENT, "_said", True)
    listener = Announcement(patience=100.0)
    with event.install_listener("numba:compile", listener):
        _kernel()(np.ones(3))
        once = listener._left
        _kernel()(np.ones(3))
    assert listener._left < once < 100
    assert not caplog.records


def test_functions_of_others_compile_even_without_a_module(monkeypatch):
    import numba
    from numba.core import event

    monkeypatch.setattr(ANNOUNCEMENT, "_said", True)
    names = {"__name__": None}
    exec("def twice(x):\n    return 2 * x", names)
    with event.install_listener("numba:compile", Announcement(patience=0.0)):
        assert numba.njit(names["twice"])(3) == 6


def test_compiled_kernels_are_old_when_any_file_of_them_changed(tmp_path):
    """numba looks at the file of a kernel only, and not at those of the kernels that it calls."""
    shutil.copytree(Path(kernels.__file__).parent, tmp_path / "kernels", ignore=shutil.ignore_patterns("*.nb*", "_*_"))
    (tmp_path / "kernels" / "callee.py").write_text(CALLEE.format(1))
    (tmp_path / "kernels" / "caller.py").write_text(CALLER)
    command = [sys.executable, "-c", "from kernels.caller import caller; print(caller())"]
    for value in (1, 2):
        (tmp_path / "kernels" / "callee.py").write_text(CALLEE.format(value))
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout.split() == [str(value)], done.stderr


CALLEE = """from . import compiled
@compiled
def callee():
    return {}
"""
CALLER = """from . import compiled
from .callee import callee
@compiled
def caller():
    return callee()
"""
