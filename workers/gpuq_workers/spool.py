"""Worker events on disk until the dispatcher has committed them.

One file per event, named by its number. Numbers count up from 1 without a gap and are never used twice for one host; when the
spool is empty, the counter file remembers the last one. A file is written atomically and synced before its event is reported.
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
        """Read the events that an earlier process left. Raises OSError."""
        self._folder, self._host = folder, host
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pending: dict[int, wire.Spooled] = {}
        for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem)):
            self._pending[int(path.stem)] = msgspec.json.decode(path.read_bytes(), type=wire.Spooled)
        try:
            counted = int((folder / _COUNTER).read_bytes())
        except (FileNotFoundError, ValueError):
            counted = 0
        self._last = max(counted, *self._pending, 0)

    @property
    def last(self) -> int:
        """The newest number ever given; 0 before the first."""
        return self._last

    def write(self, event: Event) -> int:
        """Write an event to disk and return its number. Raises OSError; then nothing was written and the number is still free."""
        name, body = codec.to_plain(event)
        message = wire.Spooled(self._host, self._last + 1, name, body)
        write_private(self._path(message.seq), msgspec.json.encode(message))
        self._pending[message.seq] = message
        self._last = message.seq
        return message.seq

    def unacknowledged(self) -> list[wire.Spooled]:
        """The events that are not known to be committed, in order."""
        return list(self._pending.values())

    def forget(self, upto: int) -> None:
        """Delete the events up to number `upto`, which are committed. Raises OSError."""
        done = [seq for seq in self._pending if seq <= upto]
        if not done:
            return
        # The counter first: a crash between the two must not let the numbering start again.
        write_private(self._folder / _COUNTER, str(self._last).encode())
        for seq in done:
            self._path(seq).unlink(missing_ok=True)
            del self._pending[seq]

    def at_least(self, committed: int) -> None:
        """Continue the numbering after `committed`, the dispatcher's count, if this folder was lost. Raises OSError."""
        if committed > self._last and not self._pending:
            write_private(self._folder / _COUNTER, str(committed).encode())
            self._last = committed

    def _path(self, seq: int) -> Path:
        return self._folder / f"{seq:012d}.json"
