"""Worker events on disk until the dispatcher has committed them, and for a day afterwards.

One file per event. Files are numbered from 1 without a gap; when the spool is empty, the counter file remembers the last one. A
file is written atomically and synced before its event is reported. What is committed moves to the folder `committed`: a database
that a replica without the last commits has replaced makes the dispatcher ask for it again.

The dispatcher takes the events of a host in the order of their numbers, which are never used twice. A new spool of a known host,
whose old one was lost, begins at 1 again. So the number of an event is that of its file plus a base, which follows from the
dispatcher's count (`continue_after`) and is stored before the first event is sent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from gpuq.core.state.events import Event
from gpuq.home import NotAFile, read_regular, write_private
from gpuq.messages import codec, wire

log = logging.getLogger(__name__)

_COUNTER, _BASE, _COMMITTED = "counter", "base", "committed"
_LARGEST_EVENT_BYTES = 2**20


def has_pending(folder: Path) -> bool:
    """Whether this spool has events that are not known to be committed. For a process that does not own the spool."""
    return any(True for _ in _numbered(folder))


def clear(folder: Path) -> None:
    """Remove the committed events and the numbering: the host has another name from now on. Raises OSError."""
    for path in (*folder.glob(f"{_COMMITTED}/*.json"), folder / _BASE, folder / _COUNTER):
        path.unlink(missing_ok=True)


class Spool:
    """The events of one host, in order. For one process at a time."""

    def __init__(self, folder: Path, host: str) -> None:
        """Read the events that an earlier process left. A file that cannot be read is set aside. Raises OSError."""
        self._folder, self._host = folder, host
        self._committed_folder = folder / _COMMITTED
        self._committed_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pending = dict(self._read_all(folder))
        self._committed = {number for number, _ in _numbered(self._committed_folder)} - self._pending.keys()
        counted, base = _number_in(folder / _COUNTER), _number_in(folder / _BASE)
        self._last = max(counted or 0, *self._pending, *self._committed, 0)
        # A spool of the previous release has a counter and no base, and the numbers of its files are those of its events.
        self._base = 0 if base is None and counted is not None else base
        self._find_first()

    @property
    def is_numbered(self) -> bool:
        """Whether the numbers of the events are certain. Until then none may be sent."""
        return self._base is not None

    @property
    def last(self) -> int:
        """The number of the newest event ever written; 0 before the first."""
        return self._last + (self._base or 0)

    @property
    def first(self) -> int:
        """The number of the oldest event from which on all are here, or of the next one."""
        return self._first + (self._base or 0)

    @property
    def committed(self) -> int:
        """The number up to which the dispatcher has committed the events, as far as it said so."""
        return min(self._pending, default=self._last + 1) - 1 + (self._base or 0)

    async def write(self, event: Event) -> int:
        """Write an event to disk and return its number; one at a time. Raises OSError; then nothing was written and the number is
        still free.

        A disk on which jobs save their work may take seconds for it. It takes them in a thread: reports and leases go on.
        """
        name, body = codec.to_plain(event)
        message = wire.Spooled(self._host, self._last + 1, name, body)
        self._make_folders_again()
        await asyncio.to_thread(write_private, self._path(message.seq), msgspec.json.encode(message))
        self._pending[message.seq] = message
        self._last = message.seq
        return self.last

    def unacknowledged(self) -> list[wire.Spooled]:
        """The events that are not known to be committed, in order."""
        base = self._base or 0
        return [msgspec.structs.replace(message, seq=number + base) for number, message in self._pending.items()]

    def forget(self, upto: int) -> None:
        """Send the events up to number `upto` no more: they are committed. Raises OSError."""
        done = [number for number in self._pending if number + (self._base or 0) <= upto]
        if not done:
            return
        self._make_folders_again()
        # The counter first: a crash between the two must not let the numbering start again. It need not be synced: until it is
        # surely on the disk, a day later, the names of the committed events tell the same.
        write_private(self._folder / _COUNTER, str(self._last).encode(), durable=False)
        for number in done:
            with suppress(FileNotFoundError):
                self._path(number).rename(self._committed_folder / self._path(number).name)
            self._committed.add(number)
            del self._pending[number]

    def send_again(self, after: int) -> None:
        """Send the events after this number again, as far as they are still here: the record lacks them. Raises OSError."""
        for number in sorted((n for n in self._committed if n + (self._base or 0) > after), reverse=True):
            with suppress(FileNotFoundError):
                (self._committed_folder / self._path(number).name).rename(self._path(number))
            self._committed.discard(number)
        self._pending = dict(self._read_all(self._folder))
        self._find_first()

    def prune(self, older_than_s: float, clock: Callable[[], float] = time.time) -> None:
        """Delete the committed events that were written longer ago than this. Raises OSError."""
        for number, path in _numbered(self._committed_folder):
            if clock() - path.stat().st_mtime > older_than_s:
                path.unlink()
                self._committed.discard(number)
        self._find_first()

    def continue_after(self, committed: int) -> None:
        """Let the numbers of all events here follow `committed`, the dispatcher's count. Raises OSError."""
        base = committed + 1 - min(self._pending, default=self._last + 1)
        if base != self._base:
            # What was committed under other numbers cannot be sent under these.
            for _, path in _numbered(self._committed_folder):
                path.unlink()
            self._committed.clear()
        self._make_folders_again()
        write_private(self._folder / _BASE, str(base).encode())
        self._base = base
        self._find_first()

    def _make_folders_again(self) -> None:
        # They may be removed while this process runs: without them no end of an attempt could be written down.
        if self._committed_folder.is_dir():
            return
        log.error("%s was removed; it is created again", self._folder, extra={"action": "make_spool"})
        # One by one: with `parents`, only the last one would get the mode.
        for folder in (self._folder, self._committed_folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        if self._base is not None:
            write_private(self._folder / _BASE, str(self._base).encode())

    def _find_first(self) -> None:
        here = self._pending.keys() | self._committed
        self._first = self._last + 1
        while self._first - 1 in here:
            self._first -= 1

    def _read_all(self, folder: Path) -> Iterator[tuple[int, wire.Spooled]]:
        for number, path in _numbered(folder):
            try:
                message = msgspec.json.decode(read_regular(path, _LARGEST_EVENT_BYTES), type=wire.Spooled)
            except (NotAFile, msgspec.MsgspecError, RecursionError) as error:
                # The dispatcher skips its number, and orders the end of its attempt to be sent again.
                log.error("%s cannot be read and is set aside: %s", path, error, extra={"action": "set_aside"})
                path.rename(path.with_name(f"{path.name}.{time.time_ns()}.aside"))
                continue
            yield number, msgspec.structs.replace(message, seq=number)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.json"


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """The files of events in this folder with their numbers, in order; what has another name is none."""
    found = [(int(path.stem), path) for path in folder.glob("*.json") if path.stem.isascii() and path.stem.isdigit()]
    return sorted(found)


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
