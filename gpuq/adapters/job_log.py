"""Read an attempt's output as one stream of bytes, although it is stored in several files.

`output.log` has the first half of the size limit; `output.log.OFFSET` are the latest segments, named by their begin in the whole
output. Output that was dropped between them is marked. The folder belongs to the job, which may put links or pipes there: every
file is opened relative to it and without following links.
"""

from __future__ import annotations

import heapq
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuq.home import Home, open_regular

_HEAD = "output.log"
_SEGMENT = re.compile(r"output\.log\.([0-9]{1,18})")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The shim keeps eight segments; a job may add any number of files with such names.
_MOST_SEGMENTS = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a log. `next_offset` is that of the next read; `dropped` counts deleted bytes before `data`."""

    data: bytes
    next_offset: int
    dropped: int = 0

    @property
    def marked(self) -> bytes:
        """The data, after a line that says how much was dropped."""
        if not self.dropped:
            return self.data
        return b"\n[gpuq: %d bytes of output were dropped here]\n" % self.dropped + self.data


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    size: int
    name: str


def read(attempts: Path, job: int, number: int, offset: int, limit: int) -> Chunk | None:
    """At most `limit` bytes from `offset` of the whole output on; an offset below 0 counts from its present end.

    An empty chunk: there is nothing more yet. None: this host has no log of the attempt. The shim makes the file before it starts
    the job.
    """
    with attempt_folder(attempts, job, number) as folder:
        pieces = _pieces(folder) if folder is not None else []
        if folder is None or not pieces:
            return None
        if offset < 0:
            offset = max(0, max(piece.start + piece.size for piece in pieces) + offset)
        for piece in pieces:
            if piece.start + piece.size <= offset:
                continue
            start = max(offset, piece.start)
            data = _bytes_of(folder, piece.name, start - piece.start, min(limit, piece.start + piece.size - start))
            if data:
                return Chunk(data, start + len(data), start - offset)
        return Chunk(b"", offset)


@contextmanager
def attempt_folder(attempts: Path, job: int, number: int) -> Iterator[int | None]:
    """A descriptor of the folder that the attempt's shim writes to; None if it does not exist or is no folder."""
    # That of an attempt that runs as its submitter comes first.
    folder = _opened(Home(attempts.parent).jobs, f"{job}-{number}")
    if folder is None:
        folder = _opened(attempts, f"{job}-{number}")
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


def _opened(root: Path, name: str) -> int | None:
    try:
        parent = os.open(root, _DIRECTORY)
    except OSError:
        return None
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError:
        return None
    finally:
        os.close(parent)


def _pieces(folder: int) -> list[_Piece]:
    """The regular files of the log, in order: the head and the latest segments."""
    with os.scandir(folder) as entries:
        segments = (found for entry in entries if (found := _SEGMENT.fullmatch(entry.name)))
        latest = heapq.nlargest(_MOST_SEGMENTS, ((int(segment[1]), segment[0]) for segment in segments))
    pieces = []
    for start, name in [*latest, (0, _HEAD)]:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(status.st_mode):
            pieces.append(_Piece(start, status.st_size, name))
    return sorted(pieces, key=lambda piece: piece.start)


def _bytes_of(folder: int, name: str, position: int, count: int) -> bytes:
    """Bytes of one file; empty if it was deleted meanwhile or is not a regular file."""
    try:
        file = open_regular(name, folder=folder)
    except OSError:
        return b""
    try:
        return os.pread(file, count, position)
    finally:
        os.close(file)
