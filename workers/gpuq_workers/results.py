"""Send the files that a job with `sync` made or changed, over a connection that the endpoint has asked for.

The endpoint first writes a line `{"match": patterns}`; a stream of files (`gpuq.files`) answers it. The folder belongs to the
job, which may change it at any time: no link is followed out of it, and only regular files with one name are sent.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from gpuq.files import BadStream, SentFile, content_sha256, is_name, last_line, matches, pieces_of
from gpuq.home import open_regular, read_regular
from gpuq.messages.launch import NOT_JSON
from gpuq_workers.sync import FOLDER, LISTING

_MOST_SENT = 100_000
_MOST_LEFT_OUT = 1000
_STALLED_S = 120.0
_LARGEST_REQUEST = 2**18
_LARGEST_LISTING = 16 * 2**20
# No file of a tree has a longer name, so none is deeper.
_LONGEST_PATH = 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
log = logging.getLogger(__name__)


def serve(connection: socket.socket, attempt: Path) -> None:
    """Answer one request for the files of this attempt, and close the connection. Never raises; blocks."""
    with connection:
        connection.settimeout(_STALLED_S)
        try:
            with connection.makefile("rb") as lines:
                patterns = [str(one) for one in json.loads(lines.readline(_LARGEST_REQUEST))["match"]]
            for piece in changed_files(attempt, patterns):
                connection.sendall(piece)
        except (OSError, ValueError, KeyError, TypeError, BadStream) as error:
            # The other side sees a stream without its end.
            log.info("the files of %s were not sent whole: %s", attempt.name, error, extra={"action": "results"})


def changed_files(attempt: Path, patterns: Sequence[str]) -> Iterator[bytes]:
    """The files below `files` in the folder of an attempt that match, and that were not sent to it, as a stream. Raises OSError,
    BadStream."""
    sent = _sent(attempt)
    count, left_out = 0, list[str]()
    for path, folder, name in _named(attempt / FOLDER):
        if not matches(path, patterns):
            continue
        file = _opened(name, folder) if is_name(path) else None
        if file is None or count == _MOST_SENT:
            if len(left_out) < _MOST_LEFT_OUT:
                left_out.append(path.encode("utf-8", "replace").decode())
            continue
        with os.fdopen(file, "rb") as content:
            size = os.fstat(file).st_size
            if sent.get(path, (None, ""))[0] == size and content_sha256(content) == sent[path][1]:
                continue
            content.seek(0)
            executable = bool(os.fstat(file).st_mode & 0o100)
            yield from pieces_of(SentFile(path, size, executable), content)
            count += 1
    yield last_line(count, left_out)


def _named(top: Path) -> Iterator[tuple[str, int, str]]:
    """(path below the top, a descriptor of its folder, the last part of the path) of all but the folders that are looked into.

    One folder is open at a time: a job may put hundreds into each other, and who reads slowly would keep them all open.
    """
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            folder = _folder(top, above)
        except OSError:
            if not above:
                raise
            continue  # the job has removed it, or put something else in its place
        try:
            inner = list[str]()
            for name in sorted(os.listdir(folder)):  # noqa: PTH208 - of a descriptor
                path = f"{above}{name}"
                if len(path) > _LONGEST_PATH or not _is_folder(name, folder):
                    yield path, folder, name
                elif name != "__pycache__":
                    inner.append(f"{path}/")
            waiting += reversed(inner)
        finally:
            os.close(folder)


def _folder(top: Path, path: str) -> int:
    """A descriptor of the folder at this path below the top. No link is followed. Raises OSError."""
    here = os.open(top, _DIRECTORY)
    for part in path.split("/")[:-1]:
        try:
            inner = os.open(part, _DIRECTORY, dir_fd=here)
        finally:
            os.close(here)
        here = inner
    return here


def _sent(attempt: Path) -> Mapping[str, tuple[int, str]]:
    """Name -> (size, SHA-256) of the files that the attempt began with; none if that cannot be read, the job may write it."""
    try:
        return msgspec.json.decode(read_regular(attempt / LISTING, _LARGEST_LISTING), type=dict[str, tuple[int, str]])
    except (OSError, *NOT_JSON):
        return {}


def _is_folder(name: str, folder: int) -> bool:
    """Whether it is a folder whose files are looked at: no link, and readable where it belongs to another user."""
    try:
        is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:  # a job that runs has removed it
        return False
    return is_folder and os.access(name, os.R_OK | os.X_OK, dir_fd=folder)


def _opened(name: str, folder: int) -> int | None:
    """A descriptor of a regular file that has this name alone; None for all else."""
    try:
        file = open_regular(name, folder=folder)
    except OSError:
        return None
    if os.fstat(file).st_nlink == 1:
        return file
    os.close(file)
    return None
