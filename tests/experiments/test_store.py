"""Results on disk: whole or not at all, never trusted blindly, never overwritten silently."""

import dataclasses
import json
import os
import time

import pytest

from directloss.experiments import EXPERIMENTS
from directloss.experiments.harness.experiment import Run
from directloss.experiments.harness.files import write_whole
from directloss.experiments.harness.store import Store, plain

CONFIG = plain(EXPERIMENTS["separable"].configs("quick", 1)[0])
RUN = Run(CONFIG, {"test": [[0.5]]}, {"seconds": 1.0})


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "separable", "separable", 1)


def test_what_is_written_is_read_back(store):
    assert store.runs() == {}
    store.write(RUN)
    assert store.runs() == {store.path(CONFIG): RUN}
    assert [path.name for path in store.folder.iterdir()] == [store.path(CONFIG).name]


def test_every_configuration_and_version_has_its_own_place(store):
    configs = [plain(config) for config in EXPERIMENTS["separable"].configs("paper", None)]
    assert len({store.path(config) for config in configs}) == len(configs)
    assert Store(store.folder, "separable", 2).path(CONFIG) != store.path(CONFIG)
    assert Store(store.folder, "other", 1).path(CONFIG) != store.path(CONFIG)


def test_a_write_that_fails_leaves_what_was_there(store, monkeypatch):
    store.write(RUN)
    before = store.path(CONFIG).read_bytes()

    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store.write(dataclasses.replace(RUN, result={}))
    assert [path.read_bytes() for path in store.folder.iterdir()] == [before]


def damage_truncate(path):
    path.write_text(path.read_text()[:-20])


def damage_number(path):
    path.write_text(path.read_text().replace("0.5", "0.6"))


def damage_name(path):
    path.rename(path.with_name("pos-AP-0-0123456789abcdef.json"))


def damage_binary(path):
    path.write_bytes(b"\xff\xfe\x00garbage")


def damage_empty(path):
    path.write_text("")


def damage_foreign(path):
    path.write_text(json.dumps({"hello": "world"}))


def damage_list(path):
    path.write_text("[" * 100_000)


def damage_text(path):
    path.rename(path.with_name("notes.txt"))


def damage_partial(path):
    path.rename(path.with_name("film.partial"))
    os.utime(path.with_name("film.partial"), (0, 0))


def damage_folder(path):
    path.unlink()
    path.mkdir()


def damage_pipe(path):
    path.unlink()
    os.mkfifo(path)


def damage_link(path):
    path.unlink()
    path.symlink_to("/nowhere/at/all")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damage_truncate, "it is no JSON"),
        (damage_number, "its checksum is wrong"),
        (damage_name, "it belongs to another experiment or configuration"),
        (damage_binary, "it is no JSON"),
        (damage_empty, "it is no JSON"),
        (damage_foreign, "it is no result of a run"),
        (damage_list, "recursion"),
        (damage_text, "it is no result of a run"),
        (damage_partial, "it is no result of a run"),
        (damage_folder, "it is no result of a run"),
        (damage_pipe, "it is no result of a run"),
        (damage_link, "it is no result of a run"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_damaged_or_foreign_file_is_named_and_set_aside(store, damage, reason):
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
