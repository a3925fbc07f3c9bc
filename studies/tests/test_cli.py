"""The command line, as people meet it: real processes, real signals and a real Ray where these are the point."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial, wraps
from pathlib import Path

import pytest
import short
from commands import call
from directloss_studies.registry import STUDIES

SEPARABLE = len(STUDIES["separable"].configs(STUDIES["separable"].options(seeds=1), None))
ENVIRONMENT = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}


@pytest.fixture(scope="module", autouse=True)
def short_runs():
    with pytest.MonkeyPatch.context() as patch:
        for name, configs in short.CONFIGS.items():
            patch.setitem(vars(STUDIES[name]), "configs", configs)
        yield


def command(*arguments):
    return [sys.executable, short.__file__, *map(str, arguments)]


def call_process(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


def without(module, *arguments):
    """The command where a package is not installed."""
    code = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv[0] = 'directloss'\n"
        "from directloss_studies.__main__ import main\nmain()"
    )
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


def files(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.glob("*.json"))}


def results(folder):
    """What the runs found, without how long they took."""
    return {path.name: re.sub(r'"(seconds|sha256)": [^,}]+', "", path.read_text()) for path in folder.glob("*.json")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a finished study, made by two processes."""
    out = tmp_path_factory.mktemp("runs")
    done = call_process("reproduce", "separable", "--seeds", 1, "--jobs", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_reproduce_prints_tables_and_writes_the_report(finished):
    out, printed = finished
    assert len(list((out / "separable" / "quick").glob("*.json"))) == SEPARABLE
    assert re.search(r"^ *pos-AP +\d\.\d{3} +\d\.\d{3} *$", printed, re.MULTILINE), "a short table, not Markdown"
    assert "too few runs to judge any claim: 1 seed" in printed
    assert "| pos-AP |" in (out / "report.md").read_text()
    assert max(map(len, printed.splitlines())) <= max(100, len(str(out)) * 2 + 60), "wider than the terminal"
    assert f"Report: {out}/report.html" in printed
    assert "<svg" in (out / "report.html").read_text()


def test_a_few_runs_in_this_process(tmp_path, monkeypatch):
    """The whole way of the command, in a second."""
    whole = STUDIES["separable"].configs
    few = wraps(whole)(lambda *arguments: list(whole(*arguments))[:2])
    monkeypatch.setitem(vars(STUDIES["separable"]), "configs", few)
    for words in ("2 of 2 runs to do, 1 at a time", "all 2 runs are in"):
        done = call("reproduce", "separable", "--seeds", 1, "--jobs", 1, "--out", tmp_path)
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
    assert "<svg" in (tmp_path / "report.html").read_text()


def copy_some(finished, out):
    """The finished runs without one of every method and model, so that the same command makes these again."""
    source, target = (folder / "separable" / "quick" for folder in (finished[0], out))
    shutil.copytree(source, target)
    found = {}
    for path in sorted(target.glob("*.json")):
        config = json.loads(path.read_text())["config"]
        found[config["method"], config["model"]] = path
    for path in found.values():
        path.unlink()
    assert 10 < len(found) < SEPARABLE / 2
    return len(found)


def test_numbers_do_not_depend_on_how_many_run_at_once(finished, tmp_path):
    left = copy_some(finished, tmp_path)
    alone = call("reproduce", "separable", "--seeds", 1, "--jobs", 1, "--out", tmp_path)
    assert alone.returncode == 0, alone.stderr
    assert f"{left} of {SEPARABLE} runs to do" in alone.stdout
    assert results(tmp_path / "separable" / "quick") == results(finished[0] / "separable" / "quick")


@pytest.mark.nightly
def test_ray_gives_the_same_numbers(finished, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: pip install ray")
    left = copy_some(finished, tmp_path)
    done = call_process("reproduce", "separable", "--seeds", 1, "--jobs", 2, "--backend", "ray", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{left} of {SEPARABLE} runs to do" in done.stdout
    assert results(tmp_path / "separable" / "quick") == results(finished[0] / "separable" / "quick")


def start(out, *arguments, **environment):
    """The command in a process group of its own, once it has finished four runs more; without workers: --jobs 1."""
    line = command("reproduce", "separable", "--seeds", 2, "--jobs", 2, "--out", out, *arguments)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    folder = out / "separable" / "quick"
    before = len(list(folder.glob("*.json")))
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job inherits deaf ears
    environment = ENVIRONMENT | environment
    process = subprocess.Popen(line, **pipes, env=environment, start_new_session=True, preexec_fn=listen)
    until = time.monotonic() + 200
    while len(list(folder.glob("*.json")) if folder.exists() else []) < before + 4:
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process, folder


@pytest.mark.nightly
def test_kill_loses_only_what_was_under_way_and_the_same_command_goes_on(finished, tmp_path):
    left = copy_some(finished, tmp_path)
    process, folder = start(tmp_path, "--jobs", 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = files(folder)
    assert SEPARABLE - left + 4 <= len(before) < 2 * SEPARABLE
    done = call("reproduce", "separable", "--seeds", 1, "--jobs", 1, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "set aside" not in done.stderr
    assert before.items() <= files(folder).items()
    expected = results(finished[0] / "separable" / "quick")
    assert expected.items() <= results(folder).items()


@pytest.mark.slow
def test_interrupt_ends_cleanly_and_says_what_is_kept(tmp_path):
    process, folder = start(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    (kept,) = re.findall(rf"Stopped. (\d+) of {2 * SEPARABLE} runs are in", errors)
    assert int(kept) == len(files(folder))
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.nightly
def test_workers_end_soon_after_their_parent_is_killed(tmp_path):
    process, _ = start(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)  # the workers hold its pipes open until they end


@pytest.mark.slow
@pytest.mark.nightly
def test_a_killed_worker_is_told_and_nothing_is_lost(tmp_path):
    process, folder = start(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [pid for pid in children if b"loky" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(int(workers[-1]), signal.SIGKILL)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "A process was killed" in told
    assert f"{len(files(folder))} of {2 * SEPARABLE} runs are in" in told
    assert "Traceback" not in told


def test_a_damaged_file_is_named_and_its_run_made_again(finished, tmp_path):
    folder = tmp_path / "separable" / "quick"
    folder.mkdir(parents=True)
    for path in (finished[0] / "separable" / "quick").glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    victim = min(folder.glob("*.json"))
    victim.write_text("{")
    done = call("reproduce", "separable", "--seeds", 1, "--jobs", 1, "--out", tmp_path)
    assert done.returncode == 0
    assert f"{victim} set aside as" in done.stderr
    assert f"1 of {SEPARABLE} runs to do" in done.stdout
    assert results(folder) == results(finished[0] / "separable" / "quick")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["reproduce", "nothing"],
            f"There is no study 'nothing'. There are: {', '.join(STUDIES)}.",
        ),
        (["reproduce", "separable", "--preset", "huge"], "separable has no preset 'huge'. It has: quick, paper."),
        (["reproduce", "separable", "--backend", "dask"], "There is no backend 'dask'. There are: loky, ray."),
        (["reproduce", "separable", "--address", "auto"], "Add --backend ray."),
        (["reproduce", "separable", "--out", __file__], "is a file. Name a folder."),
        (["reproduce", "separable", "--seeds", "0"], "--seeds"),
        (["reproduce", "separable", "--root", "."], "No such option: --root"),
        (["reproduce", "separable", "nothing"], "nothing"),
        (
            ["reproduce", "actions"],
            "The study needs data: add --root DIR. `directloss data voc2012 --root DIR` gets it.",
        ),
        (["reproduce", "actions", "--root", "/nowhere", "--weights", "w.npz"], "w.npz is missing."),
        (["reproduce", "actions", "--root", ".", "--backbone", "vgg"], "There is no backbone 'vgg'."),
        (["reproduce", "actions", "--root", ".", "--train", "tail"], "What can train: head, top, all."),
        (
            ["data", "mnist", "--root", "."],
            "There is no data 'mnist'. There is: voc2012, tables, answers, molecules, cranfield, omniglot, cifar10n.",
        ),
        (["report", "/nowhere/at/all"], "/nowhere/at/all is not a folder."),
        (["check", "directloss"], "'directloss' names no task. Write MODULE:TASK"),
        (["check", "./examples/top_item.py:TopItem"], "names no task. Write MODULE:TASK"),
        (["check", "a\0b:c"], "names no task. Write MODULE:TASK"),
        (["check", "examples/top_item.py:TopItem"], "There is no module 'examples/top_item.py'"),
        (["check", "directloss:Nothing"], "directloss has no 'Nothing'."),
        (["check", "directloss:Task"], "abstract"),
        (["check", "directloss:structured_loss"], "is not a Task"),
        (["report", ".", "--html", "page.md"], "--html page.md must end in .html"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value)[-30:] if isinstance(value, list) else "",
)
def test_bad_arguments_get_a_clear_message_and_exit_code_2_and_leave_no_folder(
    arguments, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    done = call(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_report_writes_page_numbers_and_figures_where_it_is_told(finished, tmp_path):
    page, flat, pictures = tmp_path / "a" / "page.html", tmp_path / "b" / "flat.json", tmp_path / "c"
    done = call("report", finished[0], "--html", page, "--json", flat, "--figures", pictures)
    assert done.returncode == 0, done.stderr
    assert page.read_text() == (finished[0] / "report.html").read_text()
    assert page.with_suffix(".md").read_text().count("| pos-AP |") > 4
    assert {record["experiment"] for record in json.loads(flat.read_text())} == {"separable"}
    names = [
        f"separable-{model}-{damage}.svg" for model in ("linear", "network") for damage in ("flipped", "overlapping")
    ]
    assert [path.name for path in sorted(pictures.iterdir())] == names
    assert all(path.read_text().startswith("<svg xmlns") for path in pictures.iterdir())


def test_report_of_an_empty_folder_says_how_to_fill_it(tmp_path):
    done = call("report", tmp_path)
    assert done.returncode == 2
    assert f"directloss reproduce synthetic --out {tmp_path}" in done.stderr


@pytest.mark.parametrize(
    "module", ["typer", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("joblib", "matplotlib")), "ray"]
)
@pytest.mark.slow
def test_a_missing_package_is_named_with_what_to_install(module, tmp_path):
    done = without(module, "reproduce", "separable", "--seeds", 1, "--backend", "ray", "--out", tmp_path / "new")
    assert done.returncode == 2
    said, _, packages = done.stderr.partition("pip install ")
    assert said.startswith(f"{module} is missing. ")
    assert "directloss" not in packages  # it may not be published where people look for it
    assert module in re.findall(r"[\w-]+", packages)
    assert not (tmp_path / "new").exists()


def test_numbers_of_two_presets_are_not_mixed(finished, tmp_path):
    shutil.copytree(finished[0] / "separable" / "quick", tmp_path / "separable" / "quick")
    shutil.copytree(finished[0] / "separable" / "quick", tmp_path / "separable" / "paper")
    done = call("report", tmp_path, "--json", tmp_path / "a.json")
    assert done.returncode == 2
    assert "Name one: --preset" in done.stderr
    assert call("report", tmp_path, "--json", tmp_path / "a.json", "--preset", "quick").returncode == 0
    assert (tmp_path / "a.json").exists()


def test_an_study_shows_only_its_own_options():
    common = {"--preset", "--seeds", "--out", "--jobs", "--backend", "--address", "--help"}
    vision = {"--root", "--weights", "--backbone"}
    own = {
        "actions": {*vision, "--features", "--train"},
        "own-metric": {"--data"},
        "warm-up": {"--data"},
        "score-memory": {"--data"},
        "text-search": {"--data"},
        "metric-learning": {"--data"},
        "tables": {"--data", "--noise", "--protocol"},
        "segmentation": {"--data", "--root"},
        "detection": {
            *vision,
            "--features",
            "--images",
            "--boxes",
            "--side",
            "--positive",
            "--negative",
            "--batch",
            "--hard",
        },
    }
    for names in ([name] for name in STUDIES):
        shown = call("reproduce", *names, "--help").stdout
        assert set(re.findall(r"^ +(--[a-z]+)", shown, re.MULTILINE)) == common | own.get(names[0], set())


def test_several_studies_share_one_command_and_one_report(finished, tmp_path):
    shown = call("reproduce", "separable", "actions", "--help").stdout
    assert "--train" in shown
    assert "--images" not in shown
    for preset in ("label-noise", "separable"):
        (tmp_path / preset).mkdir()
    shutil.copytree(finished[0] / "separable" / "quick", tmp_path / "separable" / "quick")
    done = call("reproduce", "separable", "label-noise", "--seeds", 1, "--jobs", 1, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Report: ") == 1
    page = (tmp_path / "report.html").read_text()
    for name in ("separable", "label-noise"):
        assert STUDIES[name].title.split("(")[0] in page.replace("&#x27;", "'")


def test_list_and_help_name_everything():
    listed = call("list").stdout
    for name in (*STUDIES, "average_precision", "zero_one", "positive_direct", "perceptron"):
        assert name in listed
    helped = call("--help").stdout
    for name in ("reproduce", "report", "data", "detect", "check", "list"):
        assert name in helped
    assert "bench" not in helped  # that is ./dev bench
    for name in STUDIES:
        assert name in call("reproduce", "--help").stdout


@pytest.mark.slow
def test_check_tries_a_task(tmp_path):
    done = call("check", "examples.top_item:TopItem")
    assert done.returncode == 0, done.stderr
    assert "every law holds" in done.stdout
    assert not done.stderr
    (tmp_path / "wrong.py").write_text(
        "from directloss import ROCAUC, AveragePrecision\n"
        "class Small(ROCAUC):\n"
        "    def scale(self, positives, negatives):\n"
        "        return 1e-4\n"
        "class Wrong(AveragePrecision):\n"
        "    def infer(self, scores, target, mask=None):\n"
        "        return super().infer(-scores, target, mask)\n"
    )
    line = [sys.executable, "-m", "directloss_studies", "check", "wrong:Small"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Small() keeps all laws, but its scale is unusual")
    line[-1] = "wrong:Wrong"
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "scores" in done.stderr
