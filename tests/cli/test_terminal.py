"""The keys that detach, what is hidden when old output is shown again, and what is shown of the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuq.cli import terminal
from gpuq.cli.terminal import _QUESTIONS, DetachKeys, framed, frames
from tests.cli import samples


@pytest.mark.parametrize(
    ("typed", "passed", "detached"),
    [
        (b"\r~d", b"\r", True),
        (b"~d", b"", True),
        (b"x~d", b"x~d", False),
        (b"\r~~d", b"\r~d", False),
        (b"\r~x~d", b"\r~x~d", False),
        (b"ls\n~dmore", b"ls\n", True),
        (b"\r~\r~d", b"\r~\r", True),
    ],
)
def test_enter_tilde_d_detaches(typed: bytes, passed: bytes, detached: bool) -> None:
    assert DetachKeys().read(typed) == (passed, detached)
    keys, one_by_one, found = DetachKeys(), b"", False
    for byte in typed:
        given, found = keys.read(bytes([byte]))
        one_by_one += given
        if found:
            break
    assert (one_by_one, found) == (passed, detached)


def test_questions_of_old_output_are_not_asked_again() -> None:
    shown = b"a\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1H\x1b[?25l"
    asked = b"\x1b[6n\x1b[c\x1b[>0c\x1b[5n\x1b[?1049$p\x1b]11;?\x07\x1b]10;?\x1b\\\x1bP+q544e\x1b\\\x1b[>q\x1b[?u\x05"
    assert _QUESTIONS.sub(b"", shown + asked + shown) == shown + shown


def test_frames_that_come_in_parts() -> None:
    received, found = bytearray(), []
    for byte in framed(b"D", b"hello") + framed(b"E", b""):
        received.append(byte)
        found += list(frames(received))
    assert found == [(b"D", b"hello"), (b"E", b"")]


def test_a_job_that_waits_says_why_as_explain_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "_NOTE_WAIT_AFTER_S", -1)
    looks = iter([samples.job(48, verdict=samples.OVERLOAD), samples.running(48)])

    class Client:
        def get(self, _: str) -> dict[str, Any]:
            return next(looks)

    terminal.wait_until_it_runs(Client(), 48)  # type: ignore[arg-type]

    said = capsys.readouterr().err
    assert said.startswith("gpuq: job 48 waits: PredictedLoad on cpu0: ")
    assert "107%" in said


def test_a_job_that_is_being_stopped_shows_its_last_output_and_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["RUNNING", "COMPLETING", "COMPLETING", "CANCELLED", "CANCELLED", "CANCELLED"])
    log, shown = b"shown before, and the end", bytearray()

    class Client:
        def get(self, _: str) -> dict[str, Any]:
            return samples.running(48, state=next(states), attempt=1)

        def stream(self, _: str, *, offset: int, attempt: int) -> Iterator[bytes]:
            assert attempt == 1
            yield log[offset:]

    def sit(seat: Any, _: object) -> bool:
        seat.offset = len("shown before")
        return False

    monkeypatch.setattr(terminal, "_sit", sit)
    monkeypatch.setattr(terminal, "write_all", lambda _, data: shown.extend(data))
    assert terminal.work_in(Client, 48, whole=True) == 125  # type: ignore[arg-type]
    assert shown == b", and the end"
