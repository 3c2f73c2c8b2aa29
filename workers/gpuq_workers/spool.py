"""Worker events on disk until the dispatcher has committed them: events arrive, numbered wire messages leave.

One file per event, named by its number; numbers count up from 1 without a gap and are never used twice for one host, also
when the spool is empty: then the counter file remembers. A file is there whole or not at all, and on the disk before
anyone is told of it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpuq.core.state.events import Event
from gpuq.home import write_private
from gpuq.messages import codec, wire

_COUNTER = "counter"


class Spool:
    """The events of one host, in order. For one process at a time."""

    def __init__(self, folder: Path, host: str) -> None:
        """Take up what an earlier process left. Raises OSError."""
        self._folder, self._host = folder, host
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pending: dict[int, wire.Spooled] = {}
        for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem)):
            self._pending[int(path.stem)] = msgspec.json.decode(path.read_bytes(), type=wire.Spooled)
        self._last = max(self._counter(), *self._pending, 0)

    @property
    def last(self) -> int:
        """The newest number ever given; 0 before the first."""
        return self._last

    def write(self, event: Event) -> int:
        """Keep an event; its number. Raises OSError, then nothing was kept and the number is still free."""
        name, body = codec.to_plain(event)
        message = wire.Spooled(self._host, self._last + 1, name, body)
        write_private(self._path(message.seq), msgspec.json.encode(message))
        self._pending[message.seq] = message
        self._last = message.seq
        return message.seq

    def unacknowledged(self) -> list[wire.Spooled]:
        """The events that are kept, in order."""
        return list(self._pending.values())

    def forget(self, upto: int) -> None:
        """Events up to this number are committed. Raises OSError."""
        done = [seq for seq in self._pending if seq <= upto]
        if not done:
            return
        # First, so that no crash in between can make a number start again.
        write_private(self._folder / _COUNTER, str(self._last).encode())
        for seq in done:
            self._path(seq).unlink(missing_ok=True)
            del self._pending[seq]

    def at_least(self, committed: int) -> None:
        """The dispatcher knows of events up to `committed`: should this folder have been lost, go on from there."""
        if committed > self._last and not self._pending:
            write_private(self._folder / _COUNTER, str(committed).encode())
            self._last = committed

    def _path(self, seq: int) -> Path:
        return self._folder / f"{seq:012d}.json"

    def _counter(self) -> int:
        try:
            return int((self._folder / _COUNTER).read_bytes())
        except (FileNotFoundError, ValueError):
            return 0
