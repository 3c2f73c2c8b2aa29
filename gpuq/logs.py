"""What every service does with its log: one format, repeated lines counted instead of written, a bounded file.

Standard library only: each entry point starts through here.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpuq.errors import GpuqError
from gpuq.home import write_private

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_REPEAT_AFTER_S = 60.0
_TEXTS_REMEMBERED = 1000
LARGEST_LOG_BYTES = 8 * 2**20


def start_log() -> None:
    """Let this process log to standard error."""
    handler = CountingHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.basicConfig(handlers=[handler])  # libraries speak from WARNING on
    for ours in ("gpuq", "gpuq_workers"):
        logging.getLogger(ours).setLevel(logging.INFO)


def report(error: GpuqError) -> int:
    """Say on standard error why this process ends, and what to do; its exit code. `last_words` finds this in a log."""
    sys.stderr.write(f"gpuq: {error.message}\n  {error.fix}\n")
    return error.exit_code


class CountingHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes a line that is repeated at most once a minute, with the number of those left out.

    A full disk or a database that is away is found ten times a second, and would fill the disk with its own report.
    """

    def __init__(self, stream: object = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it."""
        text, now = record.getMessage(), self._clock()
        key = (record.name, record.levelno, text)
        at, left_out = self._seen.pop(key, (-_REPEAT_AFTER_S, 0))
        if now - at < _REPEAT_AFTER_S:
            self._seen[key] = (at, left_out + 1)
            return
        self._seen[key] = (now, 0)
        while len(self._seen) > _TEXTS_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        if left_out:
            # A copy: other handlers get the record as it is.
            record = copy.copy(record)
            record.msg, record.args = f"{text} (and {left_out} times more in the last {now - at:.0f} s)", ()
        super().emit(record)


def shorten(log: Path, most_bytes: int = LARGEST_LOG_BYTES) -> None:
    """Begin a log anew once it is larger than this; its newest part goes to `NAME.1`, in place of what was there.

    The processes that write to it keep their open file, so it must be open for appending. Lines that they write at
    this very moment may be lost.
    """
    try:
        if log.stat().st_size <= most_bytes:
            return
        with log.open("rb") as file:
            file.seek(-most_bytes, os.SEEK_END)
            newest = file.read(most_bytes)
        # First, so that there is room for the copy on a disk that is full.
        os.truncate(log, 0)
        write_private(log.with_name(f"{log.name}.1"), newest, durable=False)
    except OSError:
        return  # the next look tries again


def last_words(log: Path, since: int = 0) -> tuple[str, str | None]:
    """The last thing written behind byte `since`: a sentence, and the fix where `report` wrote one."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(since if since <= size else 0, size - 4096))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    said = [number for number, line in enumerate(lines) if line.startswith("gpuq: ")]
    if said:
        fix = lines[said[-1] + 1 : said[-1] + 2]
        return lines[said[-1]].removeprefix("gpuq: "), fix[0] if fix else None
    return (lines[-1], None) if lines else ("It wrote nothing.", None)
