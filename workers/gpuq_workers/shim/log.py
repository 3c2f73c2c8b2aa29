"""The output of one attempt in files of bounded total size.

`output.log` keeps the first half of the limit. What comes later goes to segments `output.log.OFFSET`, named by the offset of
their first byte in the whole output; old segments are deleted so that the latest half of the limit stays. Bytes are not
interpreted, so no line is too long and no encoding wrong. A full disk loses output; it never blocks or ends the job. Standard
library only, as all of the shim.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable

from gpuq_workers.shim.record import open_regular

_SEGMENTS = 8
# The tracebacks of eight ranks and their launcher's summary fit in.
_TAIL_BYTES = 65_536
_RETRY_AFTER_S = 1.0


class BoundedLog:
    """Takes bytes and never raises. `lost` is the number of bytes that could not be written, `fault` the reason."""

    def __init__(self, folder: str, limit_bytes: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = os.path.join(folder, "output.log")  # noqa: PTH118 - pathlib costs the shim start time and memory
        self._head_size = max(1, limit_bytes // 2)
        self._segment_size = max(1, (limit_bytes - self._head_size) // _SEGMENTS)
        self._monotonic = monotonic
        self._segments: deque[str] = deque()
        self._descriptor: int | None = None
        self._room = 0
        self._offset = 0
        self._retry_at = 0.0
        self._tail = bytearray()
        self.lost = 0
        self.fault: str | None = None

    @property
    def tail(self) -> bytes:
        """The last bytes of output, at most 64 KiB, whether or not they could be written."""
        return bytes(self._tail[-_TAIL_BYTES:])

    @property
    def end(self) -> int:
        """How many bytes of output there were."""
        return self._offset

    def since(self, offset: int) -> tuple[int, bytes]:
        """(offset, the output from there on): at `offset`, or where the oldest output begins that is still in memory."""
        start = max(offset, self._offset - len(self._tail))
        return start, bytes(self._tail[start - self._offset + len(self._tail) :])

    def begin(self) -> None:
        """Create the file, so that an empty log differs from a deleted one."""
        self._is_open()

    def write(self, data: bytes) -> None:
        """Append to the log; bytes that cannot be written are dropped and counted in `lost`."""
        self._tail += data[-_TAIL_BYTES:]
        if len(self._tail) > 2 * _TAIL_BYTES:  # rarely, because deleting from the front moves the rest
            del self._tail[:-_TAIL_BYTES]
        view = memoryview(data)
        while view:
            taken = 0
            if self._is_open():
                assert self._descriptor is not None
                try:
                    taken = os.write(self._descriptor, view[: self._room])
                    self._room -= taken
                except OSError as error:
                    self._fail(error)
            if not taken:
                taken = len(view)
                self.lost += taken
            self._offset += taken
            view = view[taken:]

    def close(self, note: str | None = None) -> None:
        """Append `note`, if given, and close the file."""
        if note is not None:
            self._retry_at = 0.0
            self.write(note.encode(errors="replace"))
        self._release()

    def _is_open(self) -> bool:
        """Whether there is a file with room in it; opens the next one where it can."""
        if self._descriptor is not None and self._room > 0:
            return True
        if self._monotonic() < self._retry_at:
            return False
        self._release()
        path, self._room = self._path, self._head_size
        try:
            if self._offset:
                path, self._room = f"{self._path}.{self._offset}", self._segment_size
                if len(self._segments) >= _SEGMENTS:
                    os.unlink(self._segments.popleft())  # noqa: PTH108
                self._segments.append(path)
            self._descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except (OSError, ValueError) as error:
            self._fail(error)
            return False
        return True

    def _fail(self, error: OSError | ValueError) -> None:
        # The next try opens a new segment under its true offset, so that a reader sees where something is missing.
        self.fault = error.strerror if isinstance(error, OSError) else str(error)
        self._retry_at = self._monotonic() + _RETRY_AFTER_S
        self._release()

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
