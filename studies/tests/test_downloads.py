"""Downloads resume, are checked, and say what to do when they fail; archives cannot write where they should not."""

import contextlib
import gc
import hashlib
import io
import os
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from devkits import make_devkit
from directloss_studies.data import voc
from directloss_studies.harness import downloads
from directloss_studies.harness.downloads import DownloadError, download, unpack

BODY = np.random.default_rng(0).bytes(300_000)
MD5 = hashlib.md5(BODY).hexdigest()


class Server:
    """What is served, how, and which parts of it were asked for."""

    def __init__(self, address):
        self.address = address
        self.body = BODY
        self.ranges = []
        self.understands_ranges = True
        self.breaks_off_after = None
        self.stalls = False
        self.headers = {}
        self.released = threading.Event()

    def answer(self, handler):
        asked = handler.headers.get("Range")
        self.ranges.append(asked)
        start, headers = 0, {}
        if handler.path != "/file.tar":
            return handler.send_error(404)
        if asked and self.understands_ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.body):
                return handler.send_error(416)
            headers["Content-Range"] = f"bytes {start}-{len(self.body) - 1}/{len(self.body)}"
        handler.send_response(206 if headers else 200)
        headers = {"Content-Length": len(self.body) - start} | headers | self.headers
        for name, value in headers.items():
            if value is not None:
                handler.send_header(name, str(value))
        handler.end_headers()
        handler.wfile.write(self.body[start : self.breaks_off_after])
        if self.stalls:
            self.released.wait(10)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloads, "TIMEOUT", 10.0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with contextlib.suppress(ConnectionError):
                served.answer(self)

        def log_message(self, format, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        served = Server(f"http://127.0.0.1:{listener.server_port}/file.tar")
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        served.released.set()
        listener.shutdown()
        thread.join()
    gc.collect()  # a connection that was left open is found here, not in a later test


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "folder" / "file.tar"


@pytest.fixture
def part(path):
    path.parent.mkdir(parents=True)
    return path.with_name("file.tar.part")


def fetched(path):
    return path.read_bytes() == BODY and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("there", "ranges", "expected"),
    [
        (0, True, [None]),
        (100_000, True, ["bytes=100000-"]),
        (100_000, False, ["bytes=100000-"]),  # the server begins anew
        (len(BODY), True, ["bytes=300000-"]),
    ],
)
def test_a_file_is_fetched_or_its_part_continued(server, path, part, there, ranges, expected):
    server.understands_ranges = ranges
    part.write_bytes(BODY[:there])
    shares = []
    download(server.address, path, "md5", MD5, shares.append)
    assert fetched(path)
    assert server.ranges == expected
    assert shares == sorted(shares)
    assert shares[-1:] == [1.0] * (there < len(BODY))


def test_a_server_that_sends_another_range_is_not_trusted(server, path, part):
    server.headers = {"Content-Range": "bytes 7-9/10"}
    part.write_bytes(BODY[:100_000])
    with pytest.raises(DownloadError, match="has the wrong content"):
        download(server.address, path, "md5", MD5)
    assert not part.exists()
    server.headers = {}
    download(server.address, path, "md5", MD5)
    assert fetched(path)


@pytest.mark.parametrize("length", [None, "many", "-1"])
def test_a_length_that_is_missing_or_nonsense_does_not_matter(server, path, length):
    server.headers = {"Content-Length": length}
    download(server.address, path, "md5", MD5)
    assert fetched(path)


def test_a_wrong_digest_removes_the_part_and_says_so(server, path, part):
    server.body = BODY[:-1]
    with pytest.raises(DownloadError, match="It was removed; the same command fetches it again") as caught:
        download(server.address, path, "md5", MD5)
    assert (
        f"{part} has the wrong content: its md5 must begin with {MD5}; got {hashlib.md5(server.body).hexdigest()}"
        in str(caught.value)
    )
    assert list(path.parent.iterdir()) == []


def test_a_part_of_something_else_is_found_out_and_the_next_call_succeeds(server, path, part):
    part.write_bytes(b"something else")
    with pytest.raises(DownloadError, match="It was removed"):
        download(server.address, path, "md5", MD5)
    download(server.address, path, "md5", MD5)
    assert fetched(path)
    assert server.ranges == ["bytes=14-", None]


def test_an_address_that_is_not_there_is_named_and_where_to_put_the_file(server, path):
    address = server.address + ".gone"
    with pytest.raises(DownloadError) as caught:
        download(address, path, "md5", MD5)
    assert f"{address} could not be fetched (Not Found)" in str(caught.value)
    assert f"put it at {path}." in str(caught.value)
    assert list(path.parent.iterdir()) == []


def test_a_connection_that_breaks_off_keeps_the_part_and_the_next_call_finishes(server, path, part):
    server.breaks_off_after = 200_000
    with pytest.raises(
        DownloadError, match=r"the connection ended after 200000 of 300000 bytes.*continues where it stopped"
    ):
        download(server.address, path, "md5", MD5)
    assert part.read_bytes() == BODY[:200_000]
    assert not path.exists()
    server.breaks_off_after = None
    download(server.address, path, "md5", MD5)
    assert fetched(path)
    assert server.ranges == [None, "bytes=200000-"]


def test_a_server_that_falls_silent_is_left_and_the_next_call_finishes(server, path, part, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT", 0.3)
    monkeypatch.setattr(downloads, "CHUNK", 1000)
    server.breaks_off_after, server.stalls = 200_000, True
    with pytest.raises(DownloadError, match=f"{server.address} could not be fetched .*timed out"):
        download(server.address, path, "md5", MD5)
    kept = part.read_bytes()
    assert kept
    assert BODY.startswith(kept)
    server.breaks_off_after, server.stalls = None, False
    download(server.address, path, "md5", MD5)
    assert fetched(path)
    assert server.ranges == [None, f"bytes={len(kept)}-"]


def add(tar, name, kind=tarfile.REGTYPE, content=b"", link=""):
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname, member.mode = kind, len(content), link, 0o644
    tar.addfile(member, io.BytesIO(content))


@pytest.fixture
def archive(tmp_path):
    """A good archive, alone in a folder in which it is to be unpacked."""
    (tmp_path / "inside").mkdir()
    path = tmp_path / "inside" / "file.tar"
    with tarfile.open(path, "w") as tar:
        add(tar, "kit", tarfile.DIRTYPE)
        add(tar, "kit/a", content=b"aaa")
        add(tar, "kit/sub", tarfile.DIRTYPE)
        add(tar, "kit/sub/b", content=bytes(700))
    return path


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


GOOD = ["inside", "inside/file.tar", "inside/kit", "inside/kit/a", "inside/kit/sub", "inside/kit/sub/b"]
NOTHING = GOOD[:2]


def test_an_archive_is_unpacked(archive, tmp_path):
    shares = []
    unpack(archive, "kit", archive.parent, shares.append)
    assert everything_below(tmp_path) == GOOD
    assert (archive.parent / "kit" / "a").read_bytes() == b"aaa"
    assert (archive.parent / "kit" / "sub" / "b").read_bytes() == bytes(700)
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1


def test_what_a_killed_process_left_is_no_hindrance(archive, tmp_path):
    (archive.parent / ".kit.partial" / "kit").mkdir(parents=True)
    (archive.parent / ".kit.partial" / "kit" / "old").touch()
    unpack(archive, "kit", archive.parent)
    assert everything_below(tmp_path) == GOOD


EVIL = {
    "above": ("../evil", tarfile.REGTYPE, "", "evil"),
    "far above": ("../../evil", tarfile.REGTYPE, "", "evil"),
    "above by a detour": ("kit/sub/../../../evil", tarfile.REGTYPE, "", "evil"),
    "folder above": ("../evil", tarfile.DIRTYPE, "", "evil"),
    "link": ("kit/evil", tarfile.SYMTYPE, "../../..", "is not a plain file or folder"),
    "absolute link": ("kit/evil", tarfile.SYMTYPE, "/etc", "is not a plain file or folder"),
    "hard link": ("kit/evil", tarfile.LNKTYPE, "kit/a", "is not a plain file or folder"),
    "pipe": ("kit/evil", tarfile.FIFOTYPE, "", "is not a plain file or folder"),
    "character device": ("kit/evil", tarfile.CHRTYPE, "", "is not a plain file or folder"),
    "block device": ("kit/evil", tarfile.BLKTYPE, "", "is not a plain file or folder"),
}


@pytest.mark.parametrize("case", EVIL)
def test_an_archive_with_a_dangerous_member_leaves_nothing_behind(case, archive, tmp_path):
    name, kind, link, message = EVIL[case]
    with tarfile.open(archive, "a") as tar:
        add(tar, name, kind, link=link)
    with pytest.raises(DownloadError, match=f"{archive}.*{message}.*Nothing was unpacked"):
        unpack(archive, "kit", archive.parent)
    assert everything_below(tmp_path) == NOTHING


def test_an_absolute_path_does_not_lead_outside(archive, tmp_path):
    with tarfile.open(archive, "a") as tar:
        add(tar, str(tmp_path / "evil"), content=b"evil")
    with contextlib.suppress(DownloadError):
        unpack(archive, "kit", archive.parent)
    assert everything_below(tmp_path) in (GOOD, NOTHING)


def test_an_archive_is_unpacked_to_its_end_or_not_at_all(archive, tmp_path):
    whole = archive.read_bytes()
    with tarfile.open(archive) as tar:
        end = tar.getmembers()[-1].offset_data + 1024
    assert not any(whole[end:])
    for length in range(0, end + 512, 128):
        archive.write_bytes(whole[:length])
        with pytest.raises(DownloadError, match=f"{archive} cannot be unpacked: .*Nothing was unpacked"):
            unpack(archive, "kit", archive.parent)
        assert everything_below(tmp_path) == NOTHING
    archive.write_bytes(whole)
    unpack(archive, "kit", archive.parent)
    assert everything_below(tmp_path) == GOOD


def test_an_archive_with_a_damaged_header_is_refused(archive, tmp_path):
    with tarfile.open(archive) as tar:
        headers = [member.offset for member in tar]
    whole = archive.read_bytes()
    for place in headers:
        archive.write_bytes(whole[:place] + b"#" + whole[place + 1 :])
        with pytest.raises(DownloadError, match=f"{archive} cannot be unpacked: .*Nothing was unpacked"):
            unpack(archive, "kit", archive.parent)
        assert everything_below(tmp_path) == NOTHING


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", BODY[:5000], b"\x1f\x8b\x08" + BODY[:500]])
def test_what_is_no_archive_is_refused(content, archive, tmp_path):
    archive.write_bytes(content)
    with pytest.raises(DownloadError, match=f"{archive} cannot be unpacked"):
        unpack(archive, "kit", archive.parent)
    assert everything_below(tmp_path) == NOTHING


@pytest.mark.parametrize("member", ["other/a", "kit"])
def test_an_archive_without_the_folder_is_refused(member, archive, tmp_path):
    with tarfile.open(archive, "w") as tar:
        add(tar, member)
    with pytest.raises(DownloadError, match=f"{archive} does not hold a folder kit"):
        unpack(archive, "kit", archive.parent)
    assert everything_below(tmp_path) == NOTHING


@pytest.mark.parametrize("make", [os.mkdir, os.mknod], ids=["folder", "file"])
def test_what_is_there_already_stays(make, archive, tmp_path):
    make(archive.parent / "kit")
    with pytest.raises(DownloadError, match=f"{archive.parent / 'kit'} exists already; move it away first"):
        unpack(archive, "kit", archive.parent)
    assert everything_below(tmp_path) == [*NOTHING, "inside/kit"]


@pytest.fixture
def official(server, tmp_path, monkeypatch):
    """A tiny devkit in the place of the official archive; its bytes."""
    make_devkit(tmp_path / "made", 2)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(tmp_path / "made" / "VOCdevkit", "VOCdevkit")
    server.body = file.getvalue()
    monkeypatch.setattr(voc, "ARCHIVE", server.address)
    monkeypatch.setattr(voc, "ARCHIVE_MD5", hashlib.md5(server.body).hexdigest())
    return server.body


def fetch(root):
    said = []

    def say(text):
        said.append(text)
        return lambda share: None

    voc.fetch_voc2012(root, say)
    assert sorted(os.listdir(root)) == ["VOCdevkit", "file.tar"]
    assert len(voc.read_actions(root).paths) == 2
    return said


@pytest.mark.usefixtures("official")
def test_voc2012_is_fetched_and_unpacked(tmp_path):
    assert fetch(tmp_path / "root") == ["fetching VOC2012", "unpacking"]
    same = voc.read_actions(tmp_path / "made").provenance()
    assert voc.read_actions(tmp_path / "root").provenance() == same


def test_an_archive_that_lies_there_is_not_fetched_again(server, official, tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "file.tar").write_bytes(official)
    assert fetch(tmp_path / "root") == ["unpacking"]
    assert server.ranges == []


def test_an_archive_that_lies_there_and_is_not_the_official_one_is_named_and_stays(server, official, tmp_path):
    path = tmp_path / "root" / "file.tar"
    path.parent.mkdir()
    path.write_bytes(official[:-1])
    with pytest.raises(DownloadError, match=f"{path} has the wrong content"):
        fetch(tmp_path / "root")
    assert path.read_bytes() == official[:-1]
    assert os.listdir(path.parent) == ["file.tar"]
    assert server.ranges == []
