"""The log of a service: fields are printed, repeated lines counted, files bounded, and last words can be read back."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuq.errors import BadSettings
from gpuq.logs import CountingHandler, FieldFormatter, last_words, report, shorten


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log = logging.getLogger("gpuq.test_logs")
    log.propagate = False
    yield log
    log.handlers.clear()
    log.propagate = True


def test_a_line_that_is_repeated_is_written_once_a_minute_with_its_count(log: logging.Logger) -> None:
    now, written = 0.0, io.StringIO()
    log.addHandler(CountingHandler(written, clock=lambda: now))
    for _ in range(960):
        log.warning("attempt %s: %s", 7, "No space left on device")
        log.error("attempt %s: %s", 7, "No space left on device")
        now += 0.0625
    log.warning("attempt %s: %s", 8, "No space left on device")
    log.warning("attempt %s: %s", 7, "No space left on device")

    lines = written.getvalue().splitlines()
    plain = "attempt 7: No space left on device"
    assert lines == [plain, plain, plain.replace("7", "8"), f"{plain} (and 959 times more in the last 60 s)"]


def test_fields_of_a_record_follow_its_sentence(log: logging.Logger) -> None:
    written = io.StringIO()
    handler = CountingHandler(written)
    handler.setFormatter(FieldFormatter())
    log.addHandler(handler)
    fields = {"action": "drop_event", "host": "node 2", "attempt": "7-1", "text": 'a="b"', "empty": "", "line": "a\nb"}
    log.warning("event of %s dropped", "node 2", extra=fields)

    (line,) = written.getvalue().splitlines()
    assert line[24:] == (
        "WARNING gpuq.test_logs: event of node 2 dropped "
        r'action=drop_event host="node 2" attempt=7-1 text="a=\"b\"" empty="" line="a\nb"'
    )


def test_fields_stand_before_the_traceback(log: logging.Logger) -> None:
    written = io.StringIO()
    handler = CountingHandler(written)
    handler.setFormatter(FieldFormatter())
    log.addHandler(handler)
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("task ended", extra={"action": "task_ended"})

    first, *rest = written.getvalue().splitlines()
    assert first[24:] == "ERROR gpuq.test_logs: task ended action=task_ended"
    assert (rest[0], rest[-1]) == ("Traceback (most recent call last):", "ValueError: x")


def test_other_handlers_get_the_record_as_it_was(log: logging.Logger) -> None:
    now, counted = 0.0, io.StringIO()
    seen: list[logging.LogRecord] = []
    log.addHandler(CountingHandler(counted, clock=lambda: now))
    other = logging.Handler()
    other.emit = seen.append  # type: ignore[method-assign]
    log.addHandler(other)
    for now in (0.0, 1.0, 100.0):  # noqa: B007  the handler's clock reads it
        log.warning("x %d", 1)
    assert [record.getMessage() for record in seen] == ["x 1"] * 3
    assert len(counted.getvalue().splitlines()) == 2


def test_shorten_empties_a_large_log_and_keeps_its_newest_part(tmp_path: Path) -> None:
    file = tmp_path / "worker.log"
    with file.open("ab") as writer:
        writer.write(b"".join(b"line %06d\n" % number for number in range(1000)))
        writer.flush()
        shorten(file, most_bytes=12_000)
        assert file.stat().st_size == 12_000, "it is not too large yet"
        writer.write(b"line 001000\n")
        writer.flush()

        shorten(file, most_bytes=12_000)
        writer.write(b"after\n")

    assert file.read_bytes() == b"after\n", "a process that has it open for appending writes on"
    kept = (tmp_path / "worker.log.1").read_text().splitlines()
    assert (len(kept), kept[-1]) == (1000, "line 001000")
    shorten(tmp_path / "absent.log")


def test_the_last_words_are_the_report_or_the_last_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    assert report(BadSettings("`port` is wrong.", fix="Correct it.")) == 2
    file.write_text("2026 INFO gpuq.x: started\n" + capsys.readouterr().err)
    assert last_words(file) == ("`port` is wrong.", "Correct it.")
    began = file.stat().st_size
    with file.open("a") as more:
        more.write("Traceback (most recent call last):\n  File x\nValueError: no\n\n")
    assert last_words(file, began) == ("ValueError: no", None)
    assert last_words(file, 10**6) == ("`port` is wrong.", "Correct it."), "shortened meanwhile"
    assert last_words(tmp_path / "absent") == ("It wrote nothing.", None)


def test_a_report_that_a_later_process_has_written_after_is_over(
    tmp_path: Path, log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the error of a start that failed an hour ago would be named as what is wrong now."""
    report(BadSettings("`port` is wrong.", fix="Correct it."))
    over = capsys.readouterr().err
    handler = CountingHandler(io.StringIO())
    handler.setFormatter(FieldFormatter())
    log.addHandler(handler)
    log.warning("Redis is away", extra={"action": "stream"})
    file = tmp_path / "log"
    file.write_text(f"{over}{handler.stream.getvalue()}")
    said, fix = last_words(file)
    assert (said.partition(" WARNING ")[2], fix) == ("gpuq.test_logs: Redis is away action=stream", None)
    file.write_text(f"{over}{handler.stream.getvalue()}{over}")
    assert last_words(file) == ("`port` is wrong.", "Correct it.")


def test_the_frame_around_a_group_of_exceptions_is_no_last_word(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text(
        "  +-+---------------- 1 ----------------\n    | OSError: [Errno 24] Too many open files\n    +----------\n"
    )
    assert last_words(file) == ("OSError: [Errno 24] Too many open files", None)
