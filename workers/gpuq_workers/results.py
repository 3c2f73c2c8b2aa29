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
    count, left_out = 0, []
    for parent, folders, names, descriptor in os.fwalk(attempt / FOLDER, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        above = os.path.relpath(parent, attempt / FOLDER)
        for name in sorted([*names, *(one for one in folders if not _is_seen(one, descriptor))]):
            path = name if above == "." else f"{above}/{name}"
            if not matches(path, patterns):
                continue
            file = _opened(name, descriptor) if is_name(path) else None
            if file is None or count == _MOST_SENT:
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
    yield last_line(count, left_out[:_MOST_LEFT_OUT])


def _sent(attempt: Path) -> Mapping[str, tuple[int, str]]:
    """Name -> (size, SHA-256) of the files that the attempt began with; none if that cannot be read, the job may write it."""
    try:
        return msgspec.json.decode(read_regular(attempt / LISTING, _LARGEST_LISTING), type=dict[str, tuple[int, str]])
    except (OSError, *NOT_JSON):
        return {}


def _is_seen(name: str, folder: int) -> bool:
    """Whether it is a folder whose files are looked at: no link, and readable where it belongs to another user."""
    try:
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:  # a job that runs has removed it
        return False
    return not is_link and os.access(name, os.R_OK | os.X_OK, dir_fd=folder)


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
