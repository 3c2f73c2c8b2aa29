"""Files as one stream of bytes, and the names that they may have. Standard library only.

A stream has for each file a line of JSON, `{"name", "size", "executable"}`, and its content, and at the end a line
`{"end": number of files, "left_out": names}`. So it can hold nothing but regular files, and one that broke off is recognised.
Neither side believes what the other says: names are checked, and files are only made where there is none, below a folder,
following no link.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import IO, NoReturn, Protocol

PIECE = 2**18
MOST_FILES = 20_000
NAME = r"^(?!/)(?!(?:.*/)?(?:\.{0,2}|\.[gG][iI][tT])(?:/|$))[^\x00-\x1f\x7f]{1,1024}\Z"
"""The name of a file in a tree: relative, without `.`, `..`, `.git`, empty parts and control characters."""
_LONGEST_LINE = 2**20


class BadStream(ValueError):
    """A stream of files that broke off, or holds what is not allowed. Its text is a sentence without a full stop."""


@dataclass(frozen=True)
class SentFile:
    """What a stream says of a file ahead of its content; size in bytes."""

    name: str
    size: int
    executable: bool = False


@dataclass(frozen=True)
class ListedFile:
    """A file of a tree, with the SHA-256 of its content in hex."""

    name: str
    size: int
    sha256: str
    executable: bool = False


def is_name(name: str) -> bool:
    """Whether a file of a tree may have this name; see `NAME`."""
    import re

    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return re.match(NAME, name) is not None


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is this name, a folder above it, or a glob for it; without patterns, yes."""
    given = [pattern.removeprefix("./").rstrip("/") for pattern in patterns]
    return not given or any(name.startswith(f"{one}/") or fnmatchcase(name, one) for one in given)


def tree_id(files: Iterable[ListedFile]) -> str:
    """The id of a tree: SHA-256 over its files in order of their names."""
    listed = sorted(files, key=lambda file: file.name)
    lines = (f"{file.sha256} {file.size} {'x' if file.executable else '-'} {file.name}\n" for file in listed)
    return sha256("".join(lines).encode()).hexdigest()


def content_sha256(file: IO[bytes]) -> str:
    """The SHA-256 of what is left of a file."""
    digest = sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


def header(file: SentFile) -> bytes:
    """The line ahead of a file's content."""
    return json.dumps({"name": file.name, "size": file.size, "executable": file.executable}).encode() + b"\n"


def last_line(count: int, left_out: Iterable[str] = ()) -> bytes:
    """The line at the end of a stream of `count` files."""
    return json.dumps({"end": count, "left_out": list(left_out)}).encode() + b"\n"


def pieces_of(file: SentFile, content: IO[bytes]) -> Iterator[bytes]:
    """A file as a part of a stream. Raises BadStream if it has become shorter."""
    yield header(file)
    left = file.size
    while left:
        piece = content.read(min(PIECE, left))
        if not piece:
            raise BadStream(f"{file.name} became shorter while it was read")
        left -= len(piece)
        yield piece


class Target(Protocol):
    """What a content is written to."""

    def write(self, piece: bytes, /) -> object:
        """Take the next bytes."""
        ...

    def close(self) -> None:
        """No more will come; of a stream that broke off, less than was announced has."""
        ...


class Receiver:
    """Takes a stream in pieces of any size. `begin` gives what a content is written to, and it is closed at its end.

    Calls raise BadStream, and what `begin` and the files raise.
    """

    def __init__(self, begin: Callable[[SentFile], Target]) -> None:
        self.count = 0
        self.left_out: tuple[str, ...] = ()
        self._begin = begin
        self._line = bytearray()
        self._file: Target | None = None
        self._left = 0
        self._ended = False

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        at = 0
        while at < len(piece):
            if self._file is not None:
                part = piece[at : at + self._left]
                self._file.write(part)
                self._left -= len(part)
                at += len(part)
                self._close_full()
                continue
            newline = piece.find(b"\n", at)
            end = len(piece) if newline < 0 else newline
            self._line += piece[at:end]
            at = end + 1
            if len(self._line) > _LONGEST_LINE or self._ended:
                raise BadStream("the stream of files has a line that neither begins a file nor ends the stream")
            if newline >= 0:
                self._read(self._line)
                self._line.clear()

    def close(self) -> None:
        """The bytes are over. Raises BadStream unless the stream was whole."""
        self.abort()
        if not self._ended or self._line:
            raise BadStream("the stream of files broke off")

    def abort(self) -> None:
        """No more bytes are taken."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, line: bytearray) -> None:
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            given = None
        match given:
            case {"end": int(count), "left_out": list(names)} if count == self.count:
                self._ended, self.left_out = True, tuple(str(name) for name in names)
            case {"name": str(name), "size": int(size), "executable": bool(executable)} if size >= 0:
                if not is_name(name):
                    raise BadStream(f"a file of the stream has the name {name[:200]!r}, which leads elsewhere")
                self.count += 1
                self._file, self._left = self._begin(SentFile(name, size, executable)), size
                self._close_full()
            case _:
                raise BadStream("the stream of files has a line that neither begins a file nor ends the stream")

    def _close_full(self) -> None:
        if self._file is not None and not self._left:
            self._file.close()
            self._file = None


def receive(folder: Path, pieces: Iterable[bytes]) -> tuple[list[SentFile], tuple[str, ...]]:
    """Make the files of a stream in this folder; (the files, the names that were left out). Raises BadStream, OSError, and what
    `pieces` raises."""
    made: list[SentFile] = []

    def begin(file: SentFile) -> Target:
        made.append(file)
        return _new_file(folder, file)

    receiver = Receiver(begin)
    try:
        for piece in pieces:
            receiver.feed(piece)
        receiver.close()
    finally:
        receiver.abort()
    return made, receiver.left_out


def _new_file(folder: Path, file: SentFile) -> IO[bytes]:
    """A new file below the folder, with the folders that its name needs. Raises BadStream for a name that is taken, or that leads
    over a link."""
    *parts, last = file.name.split("/")
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = inner
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(last, flags, 0o777 if file.executable else 0o666, dir_fd=here), "wb")
    except (FileExistsError, NotADirectoryError) as error:
        raise BadStream(f"the stream of files has {file.name} twice, or as a file and as a folder") from error
    except OSError as error:
        _refuse_link(file.name, error)
    finally:
        os.close(here)


def _refuse_link(name: str, error: OSError) -> NoReturn:
    import errno

    if error.errno == errno.ELOOP:
        raise BadStream(f"{name} leads over a link") from error
    raise error
