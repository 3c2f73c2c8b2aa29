"""The log of every gpuq process: one line format, repeated lines counted, files of bounded size.

A line is `TIME LEVEL LOGGER: sentence key=value …`. The sentence is for people; the fields, taken from `extra=` of the logging
call, are for `grep` and log collectors. Standard library only, because each entry point imports this before anything else.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpuq.errors import GpuqError
from gpuq.home import write_private

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What every record has; all other attributes came with `extra=`.
_STANDARD_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_BEGINS_A_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ [A-Z]+ ")
_REPEAT_AFTER_S = 60.0
_TEXTS_REMEMBERED = 1000
LARGEST_LOG_BYTES = 8 * 2**20


def start_log() -> None:
    """Log to standard error: gpuq's own loggers from INFO on, libraries from WARNING on."""
    handler = CountingHandler()
    handler.setFormatter(FieldFormatter())
    logging.basicConfig(handlers=[handler])
    for ours in ("gpuq", "gpuq_workers"):
        logging.getLogger(ours).setLevel(logging.INFO)


def report(error: GpuqError) -> int:
    """Write the error and its fix to standard error, where `last_words` finds them again; return its exit code."""
    sys.stderr.write(f"gpuq: {error.message}\n  {error.fix}\n")
    return error.exit_code


class FieldFormatter(logging.Formatter):
    """The line format, with the fields of `extra=` after the sentence as in logfmt: `action=drop_event host=node2`.

    A value with spaces, quotes or control characters is written as a JSON string. A traceback follows on its own lines.
    """

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        """The first line: `Formatter.format` appends the traceback to what this returns."""
        fields = [f"{name}={_value(v)}" for name, v in record.__dict__.items() if name not in _STANDARD_ATTRIBUTES]
        return " ".join([super().formatMessage(record), *fields])


def _value(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and text and not set(text) & set(' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)


class CountingHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes a repeated line at most once a minute, with the number of repetitions that were left out.

    A full disk or a lost database is met ten times a second; without this the reports about it would fill the disk.
    """

    def __init__(self, stream: object = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        # (logger, level, sentence) -> (when it was last written, repetitions since), least recently written first.
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
            # Other handlers share this record and must see it unchanged.
            record = copy.copy(record)
            record.msg, record.args = f"{text} (and {left_out} times more in the last {now - at:.0f} s)", ()
        super().emit(record)


def shorten(log: Path, most_bytes: int = LARGEST_LOG_BYTES) -> None:
    """Empty a log that is larger than `most_bytes`; its newest `most_bytes` replace the file `NAME.1`. Never raises OSError.

    The processes that write to it keep their open file, so they must have opened it for appending. Lines that they write
    between the copy and the truncation are lost.
    """
    try:
        if log.stat().st_size <= most_bytes:
            return
        with log.open("rb") as file:
            file.seek(-most_bytes, os.SEEK_END)
            newest = file.read(most_bytes)
        # Truncated before the copy is written, so that a full disk has room for the copy.
        os.truncate(log, 0)
        write_private(log.with_name(f"{log.name}.1"), newest, durable=False)
    except OSError:
        return  # the caller comes back every few seconds


def last_words(log: Path, since: int = 0) -> tuple[str, str | None]:
    """What a process wrote last, behind byte `since` of its log: a sentence, and the fix if `report` wrote it.

    A report is the last that its process says. So what the log's own format shows after it is of a later process, and counts.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            # A log that is shorter than `since` was shortened meanwhile: all of it is new.
            file.seek(max(since if since <= size else 0, size - 4096))
            text = file.read().decode(errors="replace")
    except OSError:
        text = ""
    # The traceback of an exception group has frames of these.
    lines = [line for line in (raw.strip(" \t+-|") for raw in text.splitlines()) if line]
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith("gpuq: "):
            fix = lines[number + 1 : number + 2]
            return lines[number].removeprefix("gpuq: "), fix[0] if fix else None
        if _BEGINS_A_LINE.match(lines[number]):
            break
    return (lines[-1], None) if lines else ("It wrote nothing.", None)
