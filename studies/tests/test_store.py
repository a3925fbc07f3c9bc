"""Results on disk: whole or not at all, never trusted blindly, never overwritten silently."""

import dataclasses
import json
import os
import time
from typing import Annotated

import pytest
from directloss_studies.harness.files import write_whole
from directloss_studies.harness.store import Store, _digest
from directloss_studies.harness.study import Provenance, Run
from directloss_studies.harness.typed import JsonName, decode, encode
from directloss_studies.registry import STUDIES
from directloss_studies.separable import Result

STUDY = STUDIES["separable"]
CONFIG = STUDY.configs(STUDY.options(seeds=1), None)[0]
SETTINGS = len(CONFIG.settings)
LOW, MIDDLE, HIGH = (((value,) * SETTINGS,) for value in (0.25, 0.5, 0.75))
RUN = Run(CONFIG, Result((300,), LOW, MIDDLE, (0.0,) * SETTINGS, HIGH), Provenance(1.0, torch="2"))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "separable", STUDY)


def test_what_is_written_is_read_back(store):
    assert store.runs() == {}
    store.write(RUN)
    assert store.runs() == {store.path(CONFIG): RUN}
    assert [path.name for path in store.folder.iterdir()] == [store.path(CONFIG).name]


def test_every_configuration_and_version_has_its_own_place(store):
    configs = STUDY.configs(STUDY.options(preset="paper"), None)
    assert len({store.path(config) for config in configs}) == len(configs)
    assert Store(store.folder, dataclasses.replace(STUDY, version=2)).path(CONFIG) != store.path(CONFIG)
    assert Store(store.folder, dataclasses.replace(STUDY, name="other")).path(CONFIG) != store.path(CONFIG)


def test_a_write_that_fails_leaves_what_was_there(store, monkeypatch):
    store.write(RUN)
    before = store.path(CONFIG).read_bytes()

    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store.write(dataclasses.replace(RUN, provenance=Provenance(2.0)))
    assert [path.read_bytes() for path in store.folder.iterdir()] == [before]


def replaced_by(make):
    def damage(path):
        path.unlink()
        make(path)

    return damage


DAMAGES = {
    "cut": (lambda path: path.write_text(path.read_text()[:-20]), "it is not JSON"),
    "a number changed": (lambda path: path.write_text(path.read_text().replace("0.5", "0.6")), "its checksum is wrong"),
    "renamed": (
        lambda path: path.rename(path.with_name("pos-AP-0-0123456789abcdef.json")),
        "it belongs to another study or configuration",
    ),
    "foreign": (lambda path: path.write_text('{"hello": "world"}'), "it is not the result of a run"),
    "deep": (lambda path: path.write_text("[" * 100_000), "recursion"),
    "text": (lambda path: path.rename(path.with_name("notes.txt")), "it is not the result of a run"),
    "folder": (replaced_by(os.mkdir), "it is not the result of a run"),
    "pipe": (replaced_by(os.mkfifo), "it is not the result of a run"),
    "link": (replaced_by(lambda path: path.symlink_to("/nowhere/at/all")), "it is not the result of a run"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_or_foreign_file_is_named_and_set_aside(store, case):
    damage, reason = DAMAGES[case]
    store.write(RUN)
    damage(store.path(CONFIG))
    (bad,) = store.folder.iterdir()
    status = bad.lstat()
    assert store.runs() == {}
    (text,) = store.set_aside
    assert str(bad) in text
    assert reason in text
    moved = (store.folder / "aside" / bad.name).lstat()
    assert (moved.st_ino, moved.st_size) == (status.st_ino, status.st_size)
    store.write(RUN)
    assert list(store.runs().values()) == [RUN]


def test_the_file_has_the_shape_that_earlier_ones_have(store):
    store.write(RUN)
    content = json.loads(store.path(CONFIG).read_text())
    assert list(content) == ["format", "experiment", "version", "config", "result", "made", "sha256"]
    assert content["config"]["settings"][0] == list(CONFIG.settings[0])
    assert store.path(CONFIG).name == "pos-AP-0-eb763fe818e0065e.json"


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        ("result", {"test": None}, "its result does not fit: test must be a list; got None"),
        ("result", {"test": [[True]]}, "test[0][0] must be a finite number; got True"),
        ("result", {"extra": 1}, "its result does not fit: it has an unknown key 'extra'"),
        (
            "result",
            {"test": []},
            f"its result does not fit: test must have 1 checkpoints with {SETTINGS} settings each",
        ),
        ("result", {"iterations": []}, f"dead must have {SETTINGS} settings, and iterations a checkpoint"),
        ("result", {"dead": []}, f"dead must have {SETTINGS} settings, and iterations a checkpoint"),
        ("result", {"test": [[1.5] * SETTINGS]}, "its result does not fit: test must be AP, from 0 to 1"),
        ("result", {"test": [[float("nan")]]}, "test[0][0] must be a finite number; got nan"),
        ("result", {"dead": [float("inf")]}, "dead[0] must be a finite number; got inf"),
        ("result", {"iterations": [2**63]}, "iterations[0] must be an integer; got 9223372036854775808"),
        ("config", {"seed": 10**9}, "its config does not fit: seed must be from 0 to 9999; got 1000000000"),
        ("made", {"seconds": "1"}, "its made does not fit: seconds must be a finite number; got '1'"),
        ("config", {"settings": [[1.0, 2.0, "a"]]}, "settings[0].weight_decay must be a finite number; got 'a'"),
    ],
)
def test_a_whole_file_that_does_not_fit_the_types_is_set_aside_with_the_reason(store, part, change, reason):
    content = {"format": 1, "experiment": "separable", "version": STUDY.version, **encode(RUN)}
    content[part] = {**content[part], **change}
    content["sha256"] = _digest(content)
    path = store._path(STUDY.version, content["config"])
    write_whole(path, json.dumps(content))
    assert store.runs() == {}
    (text,) = store.set_aside
    assert text.endswith(reason) or reason in text


@pytest.mark.parametrize("made", [None, {}, [], "", 1.5])
def test_a_run_that_does_not_say_how_it_was_made_is_set_aside(store, made):
    content = {"format": 1, "experiment": "separable", "version": STUDY.version, **encode(RUN), "made": made}
    write_whole(store.path(CONFIG), json.dumps({**content, "sha256": _digest(content)}))
    assert store.runs() == {}
    assert "its made does not fit: it " in store.set_aside[0]


def test_runs_of_another_version_are_counted_and_left_alone(store):
    other = Store(store.folder, dataclasses.replace(STUDY, version=STUDY.version + 1))
    other.write(RUN)
    store.write(RUN)
    assert list(store.runs().values()) == [RUN]
    assert (store.other_versions, store.set_aside) == (1, [])
    assert len(list(store.folder.iterdir())) == 2


def test_two_bad_files_of_one_name_are_both_kept(store):
    for text in ("one", "two"):
        write_whole(store.path(CONFIG), text)
        store.runs()
    assert sorted(path.read_text() for path in (store.folder / "aside").iterdir()) == ["one", "two"]


def test_a_file_that_cannot_be_moved_is_named_and_not_trusted(store):
    write_whole(store.folder / "aside", "in the way")
    write_whole(store.path(CONFIG), "{")
    assert store.runs() == {}
    (text,) = store.set_aside
    assert "is not counted, and could not be set aside" in text


def test_a_name_that_is_no_text_is_named_all_the_same(store):
    store.write(RUN)
    with open(os.fsencode(store.folder) + b"/\xff.json", "w"):
        pass
    assert list(store.runs().values()) == [RUN]
    (text,) = store.set_aside
    text.encode()


def test_partial_files_of_a_killed_process_are_ignored_and_later_removed(store):
    store.write(RUN)
    fresh, old = store.folder / ".a.json.1-00c0ffee.partial", store.folder / ".b.json.1-00c0ffee.partial"
    for path in (fresh, old):
        path.write_text("half")
    hour_ago = time.time() - 3600
    os.utime(old, (hour_ago, hour_ago))
    assert list(store.runs().values()) == [RUN]
    assert fresh.exists()
    assert not old.exists()
    assert not store.set_aside


@dataclasses.dataclass(frozen=True)
class Inner:
    held_out: Annotated[int, JsonName("held out")]
    maybe: float | None = None


@dataclasses.dataclass(frozen=True)
class Outer:
    pair: tuple[int, str]
    inner: Inner | None
    table: dict[str, tuple[Inner, ...]]
    flag: bool


OUTER = Outer((1, "a"), Inner(2, 0.5), {"x": (Inner(3),)}, True)
PLAIN = {
    "pair": [1, "a"],
    "inner": {"held out": 2, "maybe": 0.5},
    "table": {"x": [{"held out": 3, "maybe": None}]},
    "flag": True,
}


def test_dataclasses_go_to_plain_values_and_back():
    assert encode(OUTER) == PLAIN
    assert decode(Outer, json.loads(json.dumps(PLAIN))) == OUTER
    assert decode(Outer, {**PLAIN, "inner": None}).inner is None
    assert decode(Inner, {"held out": 3}) == Inner(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pair": [1]}, r"pair must be a list of 2; got \[1\]"),
        ({"pair": [1.5, "a"]}, r"pair\[0\] must be an integer; got 1.5"),
        ({"inner": []}, r"inner must be an object; got \[\]"),
        ({"inner": {"held_out": 2}}, "inner has an unknown key 'held_out'"),
        ({"inner": {}}, "inner lacks the key 'held out'"),
        ({"table": {"x": [{"held out": "3"}]}}, r"table\['x'\]\[0\].held out must be an integer; got '3'"),
        ({"table": []}, "table must be an object"),
        ({"flag": 1}, "flag must be true or false; got 1"),
        ({"flag": "x" * 100}, r"got 'x{56}\.\.\.$"),
    ],
)
def test_plain_values_that_do_not_fit_are_refused_with_their_place(change, message):
    with pytest.raises(ValueError, match=message):
        decode(Outer, {**PLAIN, **change})


def test_types_that_json_cannot_hold_are_refused():
    for kind in (int | str, set[int], list[int]):
        with pytest.raises(TypeError, match="JSON cannot be turned into"):
            decode(kind, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="JSON holds no set"):
        encode({1, 2})
