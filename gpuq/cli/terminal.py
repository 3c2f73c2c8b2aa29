"""Work in a job's terminal from this one: what is typed goes there, what the job prints comes here, until the job ends.

The bytes of the job's output have offsets, those of its log. So after a break the client goes on where it was, and what it
missed at the end is read from the log. The frames are those of `gpuq_workers.shim.terminal`; a test compares both.
"""

from __future__ import annotations

import os
import re
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from gpuq.cli import console, messages
from gpuq.cli.channel import Channel, write_all
from gpuq.cli.client import HttpClient, Lost, Record
from gpuq.cli.verbs import follow
from gpuq.errors import Conflict, NotFound, Unreachable

HEADER, ATTACH, SIZE, OFFSETS = struct.Struct(">cH"), struct.Struct(">qHH"), struct.Struct(">HH"), struct.Struct(">QQ")
RECENT = -1
DETACHED = 0
_END_OF_INPUT = b"\x04"
_AWAY_S, _ENDS_WITHIN_S, _LOOK_EVERY_S, _NOTE_WAIT_AFTER_S = 60.0, 5.0, 0.1, 2.0
_PIECE = 32_768
# Questions of a program to its terminal. Asked again when old output is shown, the answers would be typed into the job.
_QUESTIONS = re.compile(
    rb"\x05|\x1bZ|\x1b\[[>=?]?[0-9;]*[cn]|\x1b\[\??[0-9;]*\$p|\x1b\[>[0-9]*q|\x1b\[\?u|\x1b\][0-9;]*;\?(?:\x07|\x1b\\)"
    rb"|\x1bP[$+]q[^\x1b]{0,200}\x1b\\"
)
# What a program that fills the screen may have left: the other screen, no cursor, mouse reports, marked pastes, colours.
_USUAL = b"\x1b[?1047l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b[0m"


class DetachKeys:
    """Finds Enter, ~, d in what is typed. `~~` after Enter is sent as one `~`; before another character the `~` is sent too."""

    def __init__(self) -> None:
        self._after_enter, self._held = True, False

    def read(self, typed: bytes) -> tuple[bytes, bool]:
        """(what goes to the job, whether the user detaches)."""
        passed = bytearray()
        for byte in typed:
            letter = bytes([byte])
            if self._held:
                self._held = False
                if letter == b"d":
                    return bytes(passed), True
                passed += b"~" if letter == b"~" else b"~" + letter
            elif self._after_enter and letter == b"~":
                self._held = True
                continue
            else:
                passed += letter
            self._after_enter = letter in b"\r\n"
        return bytes(passed), False


def work_in(connect: Callable[[], HttpClient], job_id: int, *, whole: bool) -> int:
    """Work in the job's terminal until it has ended; its exit code. After the keys for it, 0, and the job goes on.

    `whole`: show its output from the beginning, else only the recent part. Waits while the job does not run yet.
    """
    client, retry = connect(), follow.Retry()
    last, rest = None, 0 if whole else RECENT
    while True:
        job = retry(partial(wait_until_it_runs, client, job_id))
        attempt = job["attempt"]
        if last not in {None, attempt}:
            rest = 0  # another attempt begins with nothing
        last = attempt
        has_left = partial(retry, partial(_has_left, client, job_id, attempt, _ENDS_WITHIN_S))
        if job["state"] == "RUNNING":
            seat = _Seat(connect, job_id, rest)
            if _sit(seat, has_left):
                console.note(
                    f"\ngpuq: job {job_id} goes on. `gpuq attach {job_id}` goes back to it, `gpuq cancel {job_id}` ends it."
                )
                return DETACHED
            rest = seat.offset
        if attempt and rest != RECENT:
            rest = retry(partial(_print_log, client, job_id, attempt, rest))
        while not has_left():
            pass
        job = retry(partial(client.get, f"/api/v1/jobs/{job_id}"))
        if follow.settled(client, job):
            follow.note_end(job)
            return follow.exit_code(job)


def _sit(seat: _Seat, has_left: Callable[[], bool]) -> bool:
    """Whether the user has detached, with this terminal raw meanwhile; False if the job ended, perhaps while this connected."""
    try:
        with _raw_mode():
            return seat.sit()
    except Conflict:
        if not has_left():
            raise
        return False


def wait_until_it_runs(client: HttpClient, job_id: int) -> Record:
    """The job, once it runs or has ended for good. Writes a note about a longer wait."""
    began, noted, pause = time.monotonic(), False, 0.02
    while True:
        job: Record = client.get(f"/api/v1/jobs/{job_id}")
        if job["state"] == "RUNNING" or follow.settled(client, job):
            return job
        if not noted and time.monotonic() - began > _NOTE_WAIT_AFTER_S:
            noted = True
            why = messages.lines(job["verdict"])[0] if job.get("verdict") else job["state"]
            console.note(f"gpuq: job {job_id} waits: {why}")
        time.sleep(pause)
        pause = min(0.5, pause * 1.5)


def _has_left(client: HttpClient, job_id: int, attempt: int, within_s: float) -> bool:
    """Whether the job does not run in this attempt any more; waits for it so long."""
    until = time.monotonic() + within_s
    while True:
        job: Record = client.get(f"/api/v1/jobs/{job_id}")
        if job["state"] != "RUNNING" or job["attempt"] != attempt:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_EVERY_S)


def _print_log(client: HttpClient, job_id: int, attempt: int, offset: int) -> int:
    """Print what the log has from this offset on; the offset of what it may get later."""
    with suppress(NotFound):  # it was deleted, or never begun
        for chunk in client.stream(f"/api/v1/jobs/{job_id}/logs", offset=offset, attempt=attempt):
            write_all(sys.stdout.fileno(), chunk)
            offset += len(chunk)
    return offset


class _Seat:
    """This terminal at the job's. `offset` is that of the output which comes next."""

    def __init__(self, connect: Callable[[], HttpClient], job_id: int, offset: int) -> None:
        self._connect, self._job, self.offset = connect, job_id, offset
        self._keys, self._received = DetachKeys(), bytearray()
        self._reads = True
        self._hide_until = 0
        self._size = (0, 0)

    def sit(self) -> bool:
        """Copy until the job has ended the connection (False) or the user detaches (True). Raises the error of a first attempt to
        connect, and Unreachable if a lost connection does not come back within a minute."""
        channel: Channel | None = self._open()
        with _window_changes() as changes:
            while True:
                if channel is None:
                    return False
                try:
                    return self._copy(channel, changes)
                except Lost:
                    channel.close()
                    _note_here("the connection is lost; the job goes on. Connecting again.")
                    channel = self._open_again()

    def _open(self) -> Channel:
        channel = Channel(self._connect(), self._job, "terminal")
        self._received.clear()
        self._size = _size()
        channel.send(framed(b"A", ATTACH.pack(self.offset, *self._size)))
        return channel

    def _open_again(self) -> Channel | None:
        """The connection, once the endpoint is back; None if the job has ended meanwhile."""
        until = time.monotonic() + _AWAY_S
        while True:
            try:
                return self._open()
            except Conflict:
                return None
            except Unreachable:
                if time.monotonic() > until:
                    raise
                time.sleep(_LOOK_EVERY_S)

    def _copy(self, channel: Channel, changes: int) -> bool:
        poller = select.poll()
        poller.register(channel, select.POLLIN)
        poller.register(changes, select.POLLIN)
        if self._reads:
            poller.register(sys.stdin.fileno(), select.POLLIN)
        while True:
            ready = {channel.fileno()} if channel.has_more() else {descriptor for descriptor, _ in poller.poll()}
            if channel.fileno() in ready:
                data = channel.receive()
                if data is None:
                    return False
                self._show(data)
            if changes in ready:
                os.read(changes, 4096)
                if _size() != self._size:
                    self._size = _size()
                    channel.send(framed(b"R", SIZE.pack(*self._size)))
            if sys.stdin.fileno() in ready:
                typed = os.read(sys.stdin.fileno(), _PIECE)
                if not typed:
                    self._reads = False
                    poller.unregister(sys.stdin.fileno())
                passed, detached = self._keys.read(typed) if typed else (_END_OF_INPUT, False)
                if passed:
                    channel.send(framed(b"D", passed))
                if detached:
                    channel.close()
                    return True

    def _show(self, data: bytes) -> None:
        """Print what came. Raises Conflict if the shim refuses."""
        self._received += data
        shown = bytearray()
        for letter, body in frames(self._received):
            if letter == b"O":
                start, before = OFFSETS.unpack(body)
                self._hide_until = before if self.offset == RECENT else self._hide_until
                self.offset = start
            elif letter == b"D":
                shown += _QUESTIONS.sub(b"", body) if self.offset < self._hide_until else body
                self.offset += len(body)
            elif letter == b"E":
                raise Conflict(
                    f"Job {self._job} cannot be attached to: {body.decode(errors='replace')}", fix="Try again."
                )
        write_all(sys.stdout.fileno(), bytes(shown))


def framed(letter: bytes, body: bytes) -> bytes:
    """One frame."""
    return HEADER.pack(letter, len(body)) + body


def frames(received: bytearray) -> Iterator[tuple[bytes, bytes]]:
    """(letter, body) of the frames that have come in whole, which are taken away."""
    while len(received) >= HEADER.size:
        letter, length = HEADER.unpack_from(received)
        end = HEADER.size + length
        if len(received) < end:
            return
        body = bytes(received[HEADER.size : end])
        del received[:end]
        yield letter, body


# --- this terminal -------------------------------------------------------------------------------------------------


@contextmanager
def _raw_mode() -> Iterator[None]:
    """Every key goes to the job, Ctrl-C too. At the end the terminal is as before. Without a terminal nothing changes."""
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    if not os.isatty(keyboard):
        yield
        return
    before = termios.tcgetattr(keyboard)
    former = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setraw(keyboard, termios.TCSADRAIN)  # what was typed ahead is for the job
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        for number, handler in former.items():
            signal.signal(number, handler)
        if os.isatty(sys.stdout.fileno()):
            write_all(sys.stdout.fileno(), _USUAL)


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _window_changes() -> Iterator[int]:
    """A descriptor that can be read when the window's size may have changed."""
    ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        os.close(ours)
        os.close(theirs)


def _size() -> tuple[int, int]:
    """(rows, columns) of this terminal; 24 and 80 if it is none."""
    for descriptor in (sys.stdout.fileno(), sys.stdin.fileno()):
        try:
            size = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if size.lines and size.columns:
            return size.lines, size.columns
    return 24, 80


def _note_here(sentence: str) -> None:
    """A note while the terminal is raw, where a line begins with a carriage return only."""
    console.note(f"\r\ngpuq: {sentence}\r")
