"""The command line where the system fails it: full disks, folders in the way, odd paths, closed streams, signals."""

import errno
import os
import pwd
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial, wraps

import pytest
from commands import call
from directloss_studies.harness.study import Summary
from directloss_studies.registry import STUDIES
from test_cli import start
from test_report import fill, invented

SEPARABLE = STUDIES["separable"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Two runs that take no time, and a report without figures."""
    whole, run = SEPARABLE.configs, SEPARABLE.run
    few = wraps(whole)(lambda *arguments: list(whole(*arguments))[:2])
    monkeypatch.setitem(vars(SEPARABLE), "configs", few)
    made_up = wraps(run)(lambda config, _: invented(SEPARABLE, config, random.Random(0)))
    monkeypatch.setitem(vars(SEPARABLE), "run", made_up)
    monkeypatch.setitem(vars(SEPARABLE), "summarise", lambda runs: Summary())
    monkeypatch.setattr("directloss_studies.cli.reproduce._compile", lambda: None)


def reproduce(out):
    return call("reproduce", "separable", "--seeds", 1, "--jobs", 1, "--out", out)


def refused(done, *words):
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert "Errno" not in done.stderr
    for word in words:
        assert str(word) in done.stderr
    return done


@pytest.fixture
def runs(tmp_path):
    return fill(tmp_path / "runs", "quick", 1, ["separable"])


def never(*arguments):
    raise AssertionError("a run was started")


def test_an_out_folder_that_cannot_be_made_is_named_before_any_run(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(SEPARABLE), "run", never)
    (tmp_path / "file").write_text("")
    refused(reproduce(tmp_path / "file" / "under"), tmp_path / "file", "Not a directory. Name a folder.")
    refused(reproduce("/proc/directloss"), "/proc/directloss")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "separable").write_text("")
    refused(reproduce(tmp_path / "out"), tmp_path / "out" / "separable", "Name a folder.")


def test_an_out_folder_that_cannot_be_written_is_named_before_any_run(tmp_path, monkeypatch):
    def read_only(**arguments):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments["dir"] / "tmp1234"))

    monkeypatch.setitem(vars(SEPARABLE), "run", never)
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    done = refused(reproduce(tmp_path), "Read-only file system. Name a folder that you may write to.")
    assert done.stderr.startswith(f"{tmp_path}: ")


def test_a_folder_in_the_place_of_the_report_is_named_before_any_run(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(SEPARABLE), "run", never)
    (tmp_path / "report.md").mkdir()
    refused(reproduce(tmp_path), tmp_path / "report.md", "Is a directory. Name a file.")


def test_a_disk_that_fills_up_is_a_sentence_and_finished_runs_stay(tmp_path, monkeypatch):
    rest, fsync = [1], os.fsync

    def full(descriptor):
        if not rest:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest.pop()
        fsync(descriptor)

    folder, temporary = tmp_path / "separable" / "quick", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(os, "fsync", full)
    done = refused(reproduce(tmp_path), "No space left on device. Free some space, or name another folder.")
    assert f"1 of 2 runs are in {folder}; the same command continues." in done.stderr
    assert [path.suffix for path in folder.iterdir()] == [".json"]
    assert done.stderr.count(str(folder)) == 2, "the file is named"
    assert ".partial" not in done.stderr
    assert list(temporary.iterdir()) == []
    monkeypatch.setattr(os, "fsync", fsync)
    assert "1 of 2 runs to do" in reproduce(tmp_path).stdout


@pytest.mark.parametrize("option", ["--json", "--html", "--figures"])
def test_a_report_that_cannot_be_written_is_named_before_work(option, runs, tmp_path, monkeypatch):
    monkeypatch.setattr("directloss_studies.cli.report.html", never)
    (tmp_path / "file").write_text("")
    refused(call("report", runs, option, tmp_path / "file" / "a.html"), tmp_path / "file", "Name a folder.")
    (tmp_path / "folder.html").mkdir()
    if option != "--figures":
        refused(call("report", runs, option, tmp_path / "folder.html"), tmp_path / "folder.html", "Name a file.")


@pytest.mark.parametrize("name", ["x[/b]", "run [new]", "[red]x", ":smile:", "[link=x]"])
def test_user_text_is_printed_as_it_is(name, tmp_path):
    out = tmp_path / name
    for words in ("2 of 2 runs to do, 1 at a time", f"all 2 runs are in {out}/separable/quick already."):
        done = reproduce(out)
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
    done = call("report", out, "--json", out / f"{name}.json")
    assert done.returncode == 0, done.stderr
    for words in (f"Report: {out}/report.html (all tables as Markdown: {out}/report.md)", f"Numbers: {out}/{name}."):
        assert words in done.stdout
    refused(call("report", tmp_path / f"{name}-"), f"{tmp_path / name}- is not a folder.")


def test_what_a_newer_directloss_wrote_stays_and_is_named(runs):
    folder = runs / "separable" / "quick"
    for path in folder.glob("*.json"):
        path.write_text('{"format": 2}')
    before = sorted(folder.iterdir())
    done = call("report", runs)
    assert done.returncode == 0, done.stderr
    assert f"{before[0]} is not counted, and stays where it is: a newer directloss wrote it" in done.stderr
    assert f"{before[0]} is not counted, and stays" in (runs / "report.md").read_text()
    done = reproduce(runs)
    assert done.returncode == 0, done.stderr
    assert f"{before[0]} is not counted, and stays where it is: a newer directloss wrote it" in done.stderr
    assert "to do" not in done.stdout, "it would replace them"
    assert sorted(folder.iterdir()) == before
    assert {path.read_text() for path in before} == {'{"format": 2}'}


@pytest.mark.parametrize("command", [reproduce, lambda out: call("report", out)], ids=["reproduce", "report"])
def test_a_symbolic_link_that_leads_files_away_is_refused(command, runs, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    folder = runs / "separable" / "quick"
    (folder / "aside").symlink_to(tmp_path / "elsewhere")
    (folder / "holiday.jpg").write_bytes(b"jpeg")
    refused(command(runs), folder / "aside", "is a symbolic link. Nothing was moved. Remove the link.")
    assert (folder / "holiday.jpg").exists()


def test_control_characters_do_not_reach_the_terminal(runs, monkeypatch):
    def fail(config, progress):
        raise ValueError("\x1b]0;title\x07 \x9b2J \u202e")

    (runs / "separable" / "quick" / "\x1b[2J.txt").write_text("")
    done = call("report", runs)
    assert done.returncode == 0, done.stderr
    assert r"\x1b[2J.txt set aside" in done.stderr
    monkeypatch.setitem(vars(SEPARABLE), "run", fail)
    out = runs / "\x1b[31mred"
    failed = reproduce(out)
    assert r"ValueError: \x1b]0;title\x07 \x9b2J \u202e" in failed.stderr
    assert str(out).replace("\x1b", r"\x1b") in failed.stderr
    for text in (done.stdout, done.stderr, failed.stdout, failed.stderr):
        assert text.replace("\n", "").isprintable()


def test_without_a_home_the_cache_folder_is_asked_for(tmp_path, monkeypatch):
    def no_entry(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    for name in ("HOME", "XDG_CACHE_HOME", "DIRECTLOSS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    line = ["reproduce", "actions", "--root", tmp_path, "--backbone", "squeezenet"]  # whose weights go to the cache
    refused(call(*line), "HOME is not set", "Set DIRECTLOSS_CACHE to a folder.")
    assert reproduce(tmp_path).returncode == 0


def test_sigterm_removes_temporary_folders(tmp_path, monkeypatch):
    def terminated(config, progress):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setitem(vars(SEPARABLE), "run", terminated)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = reproduce(tmp_path / "out")
    assert done.returncode == 143
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
@pytest.mark.nightly
def test_sigterm_ends_workers(tmp_path):
    process, folder = start(tmp_path / "out", TMPDIR=str(tmp_path))
    assert list(tmp_path.glob("directloss-*"))
    os.kill(process.pid, signal.SIGTERM)
    _, told = process.communicate(timeout=60)  # the workers hold its pipes open until they end
    assert process.returncode == 143
    assert "Traceback" not in told
    assert not list(tmp_path.glob("directloss-*"))
    assert len(list(folder.glob("*.json"))) >= 4


def test_ctrl_c_while_packages_are_imported_is_quiet(tmp_path):
    # short sleeps: a signal that comes right before a sleep is noticed after it
    (tmp_path / "torch.py").write_text(
        "import time\nprint('importing', flush=True)\nwhile True:\n    time.sleep(0.1)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', 'src')}"}
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    line = [sys.executable, "-m", "directloss_studies", "list"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdout=pipe, stderr=pipe, env=environment, preexec_fn=listen) as process:
        assert process.stdout
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130


@pytest.mark.slow
@pytest.mark.parametrize(
    ("closed", "code"),
    [
        (">&- 2>&-", 0),
        *(pytest.param(closed, 0, marks=pytest.mark.nightly) for closed in (">&-", "2>&-")),
        ("| head -1", 0),
        (">/dev/full", 2),
    ],
)
def test_a_stream_that_is_closed_or_full_gives_no_traceback(closed, code):
    line = ["bash", "-c", f"{shlex.quote(sys.executable)} -m directloss_studies list {closed}"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == code
    expected = "No space left on device. Free some space, or name another folder.\n" if code else ""
    assert done.stderr == expected
