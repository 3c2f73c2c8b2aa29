"""Worker events on disk until the dispatcher has committed them.

One file per event. Files are numbered from 1 without a gap; when the spool is empty, the counter file remembers the last one. A
file is written atomically and synced before its event is reported.

The dispatcher takes the events of a host in the order of their numbers, which are never used twice. A new spool of a known host,
whose old one was lost, begins at 1 again. So the number of an event is that of its file plus a base, which follows from the
dispatcher's count (`continue_after`) and is stored before the first event is sent.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpuq.core.state.events import Event
from gpuq.home import write_private
from gpuq.messages import codec, wire

_COUNTER, _BASE = "counter", "base"


class Spool:
    """The events of one host, in order. For one process at a time."""

    def __init__(self, folder: Path, host: str) -> None:
        """Read the events that an earlier process left. Raises OSError."""
        self._folder, self._host = folder, host
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pending: dict[int, wire.Spooled] = {}
        for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem)):
            self._pending[int(path.stem)] = msgspec.json.decode(path.read_bytes(), type=wire.Spooled)
        counted, base = _number_in(folder / _COUNTER), _number_in(folder / _BASE)
        self._last = max(counted or 0, *self._pending, 0)
        # A spool of the previous release has a counter and no base, and the numbers of its files are those of its events.
        self._base = 0 if base is None and counted is not None else base

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
        """The number of the oldest event that is still here, or of the next one."""
        return min(self._pending, default=self._last + 1) + (self._base or 0)

    def write(self, event: Event) -> int:
        """Write an event to disk and return its number. Raises OSError; then nothing was written and the number is still free."""
        name, body = codec.to_plain(event)
        message = wire.Spooled(self._host, self._last + 1, name, body)
        write_private(self._path(message.seq), msgspec.json.encode(message))
        self._pending[message.seq] = message
        self._last = message.seq
        return self.last

    def unacknowledged(self) -> list[wire.Spooled]:
        """The events that are not known to be committed, in order."""
        base = self._base or 0
        return [msgspec.structs.replace(message, seq=number + base) for number, message in self._pending.items()]

    def forget(self, upto: int) -> None:
        """Delete the events up to number `upto`, which are committed. Raises OSError."""
        done = [number for number in self._pending if number + (self._base or 0) <= upto]
        if not done:
            return
        # The counter first: a crash between the two must not let the numbering start again.
        write_private(self._folder / _COUNTER, str(self._last).encode())
        for number in done:
            self._path(number).unlink(missing_ok=True)
            del self._pending[number]

    def continue_after(self, committed: int) -> None:
        """Let the numbers of all events here follow `committed`, the dispatcher's count. Raises OSError."""
        base = committed + 1 - min(self._pending, default=self._last + 1)
        write_private(self._folder / _BASE, str(base).encode())
        self._base = base

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.json"


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
