"""What people install: one version everywhere, wheels that work alone, a first call that says that it compiles."""

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

import directloss_studies
import numba
import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_documents import blocks

import directloss
from directloss import kernels
from directloss.kernels.first_call import ANNOUNCEMENT, MESSAGE, Announcement

ROOT = Path(__file__).parent.parent
PACKAGES = {"directloss": ROOT, "directloss_studies": ROOT / "studies"}


def test_versions_changelog_and_citation_agree():
    newest = re.search(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = dict(re.findall(r"^(version|date-released): (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert newest
    assert newest[1] == cited["version"] == directloss.__version__ == directloss_studies.__version__
    assert newest[2] == cited.get("date-released", "unreleased")


def test_everything_that_dev_installs_is_pinned():
    pinned = {canonicalize_name(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text().split()}
    checked = 0
    for folder in PACKAGES.values():
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for wanted in (project["dependencies"], *project["optional-dependencies"].values()):
            for requirement in map(Requirement, wanted):
                if requirement.marker is None or requirement.marker.evaluate({"sys_platform": "linux"}):
                    checked += 1
                    assert canonicalize_name(requirement.name) in pinned | {"directloss"}, requirement
    assert checked > 30


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheel of each package, made as `python -m build` does from its source distribution, both checked by twine."""
    found = {}
    for name, folder in PACKAGES.items():
        out = tmp_path_factory.mktemp(name)
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(folder)]
        done = subprocess.run(build, capture_output=True, text=True, cwd=out)
        assert done.returncode == 0, done.stdout + done.stderr
        files = sorted(map(str, out.iterdir()))
        check = [sys.executable, "-m", "twine", "check", "--strict", *files]
        checked = subprocess.run(check, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
        (found[name],) = out.glob("*.whl")
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_holds_one_package_and_its_description_needs_no_other_file(name, wheels):
    with zipfile.ZipFile(wheels[name]) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(file).decode() for file in names if file.endswith("/METADATA"))
        licences = [archive.read(file) for file in names if file.endswith("/licenses/LICENSE")]
    assert {file.split("/")[0] for file in names} == {name, f"{name}-{directloss.__version__}.dist-info"}
    source = PACKAGES[name] / "src"
    files = (path for path in (source / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert {file for file in names if file.startswith(f"{name}/")} == {str(path.relative_to(source)) for path in files}
    assert licences == [(ROOT / "LICENSE").read_bytes()]
    description = metadata.partition("\n\n")[2]
    assert "](" not in description
    assert "<!--" not in description
    shown = {"directloss": "AdaptiveDecay(optimizer", "directloss_studies": "directloss list"}
    assert shown[name] in description


def install(folder, *wheels):
    """Install wheels without what they depend on, and return the environment of a process that finds them there."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*command, *map(str, wheels)], check=True)
    return {**os.environ, "PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "1"}


HIDE_THE_REPOSITORY = f"""import sys
sys.path[:] = [path for path in sys.path if not path.startswith({str(ROOT / "src")!r})
               and not path.startswith({str(ROOT / "studies")!r})]
"""


def test_the_library_alone_runs_the_readme_and_brings_no_command_and_no_study(wheels, tmp_path):
    folder = tmp_path / "lib"
    environment = install(folder, wheels["directloss"])
    assert not (folder / "bin").exists()
    assert not list(folder.glob("directloss_studies*"))
    (tmp_path / "program.py").write_text(f"""{HIDE_THE_REPOSITORY}{blocks(ROOT / "README.md")}
import directloss, importlib.util
assert directloss.__file__.startswith({str(folder)!r}), directloss.__file__
assert not {{"matplotlib", "rich", "sklearn", "typer"}} & sys.modules.keys()
for name in ("directloss_studies", "directloss.__main__", "directloss.experiments"):
    assert importlib.util.find_spec(name) is None, name
""")
    program = [sys.executable, "program.py"]
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) <= 1


def test_both_wheels_bring_the_command(wheels, tmp_path):
    folder = tmp_path / "lib"
    environment = install(folder, *wheels.values())
    (tmp_path / "program.py").write_text(f"""{HIDE_THE_REPOSITORY}
import runpy
try:
    runpy.run_path({str(folder / "bin" / "directloss")!r}, run_name="__main__")
finally:
    import directloss, directloss_studies
    for package in (directloss, directloss_studies):
        assert package.__file__.startswith({str(folder)!r}), package.__file__
""")

    def call(*arguments):
        program = [sys.executable, "program.py", *arguments]
        done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "reproduce" in call("--help")
    version = directloss.__version__
    assert call("--version") == f"directloss {version}\ndirectloss-studies {version}\n"


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
