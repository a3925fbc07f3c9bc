"""Downloads that resume and are checked, and archives that are unpacked safely."""

import contextlib
import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

from .progress import Progress, no_progress

__all__ = ["DownloadError", "check", "download", "unpack"]

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte


class DownloadError(RuntimeError):
    """A file that could not be fetched, or whose content is wrong."""


def check(path: Path, algorithm: str, digest: str) -> None:
    """Raise an error unless a file's hexadecimal digest begins with `digest`."""
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if not found.startswith(digest):
        raise DownloadError(f"{path} has the wrong content: its {algorithm} must begin with {digest}; got {found}.")


def download(address: str, path: Path, algorithm: str, digest: str, progress: Progress = no_progress) -> None:
    """Fetch a file; an earlier attempt is continued. The file gets its name only if its digest is right."""
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _fetch(address, part, progress)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(
            f"{address} could not be fetched ({reason}). The same command continues where it stopped; "
            f"or fetch it with another tool and put it at {path}."
        ) from None
    try:
        check(part, algorithm, digest)
    except DownloadError as error:
        part.unlink()
        raise DownloadError(f"{error} It was removed; the same command fetches it again.") from None
    os.replace(part, path)


def _fetch(address: str, part: Path, progress: Progress) -> None:
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:  # all bytes are there
            return
        raise
    with answer:
        resumes = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        done = start if resumes else 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length and length.isdecimal() else None
        with open(part, "ab" if resumes else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                if total:
                    progress(done / total)
        if total is not None and done < total:
            raise OSError(f"the connection ended after {done} of {total} bytes")


def unpack(archive: Path, member: str, folder: Path, progress: Progress = no_progress) -> None:
    """Unpack `member` of a tar archive to `folder / member`, which appears whole or not at all.

    Only plain files and folders are accepted, and only inside of the folder.
    """
    target = folder / member
    if target.exists():
        raise DownloadError(f"{target} exists already; move it away first.")
    partial = folder / f".{member}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with tarfile.open(archive, "r:") as tar:
            size = archive.stat().st_size
            for found in tar:
                if not (found.isfile() or found.isdir()):
                    raise DownloadError(
                        f"{archive}: {found.name!r} is not a plain file or folder. Nothing was unpacked."
                    )
                tar.extract(found, partial, filter="data")
                progress(min(found.offset / size, 1.0))
            with open(archive, "rb") as file:  # tarfile reads a damaged or missing header as the end
                file.seek(tar.offset)
                if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                    raise tarfile.ReadError("it is damaged or cut short")
        if not (partial / member).is_dir():
            raise DownloadError(f"{archive} does not hold a folder {member}.")
        os.replace(partial / member, target)
    except (tarfile.TarError, EOFError) as error:
        raise DownloadError(f"{archive} cannot be unpacked: {error}. Nothing was unpacked.") from None
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(partial)
