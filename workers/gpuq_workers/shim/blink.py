"""Pauses of the whole job for about a second, requested by the worker service to measure its partner alone.

The worker writes `blink.json` (`id`, `seconds`, `until`) into the attempt's folder. The answer is `blinked.json`: the `id`, the
moments between which every thread of the job stood still, and `why_not` where the pause is not to be used. Moments are
CLOCK_MONOTONIC seconds, which stop while the machine is suspended.

A helper forked from the shim stops the process tree and resumes it. If the helper is killed, the shim resumes the job; if the
shim is killed, the helper sees its pipe close and resumes it. `shim.pause` does the stopping. Standard library only, as all of
the shim.

A pause needs a budget: the job must have run for `EARN` times the length of the pause since its start or its last pause. So
pauses take less than 1 / (1 + EARN) of its time at any moment, under 1%. The shim keeps the account, because it lives as long
as the attempt, which the worker service need not.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from gpuq_workers.shim import pause
from gpuq_workers.shim.record import VERSION, read_json, write_json

EARN = 100.0
LONGEST_S = 5.0
_LOOK_EVERY_S, _OVERDUE_AFTER_S = 0.1, 1.0


def earned_at(began: float, ended: float, seconds: float) -> float:
    """When a pause of `seconds` may follow one from `began` to `ended`. Before the first, both are the job's start."""
    return ended + EARN * max(ended - began, seconds)


class Blinks:
    """The pauses of one attempt as the shim sees them: one at a time, and none of them blocks the shim."""

    def __init__(self, folder: str, allowed: bool, main: int) -> None:
        self._folder, self._allowed, self._main = folder, allowed, main
        self._helper = 0
        self._line = -1
        self._overdue_at = 0.0
        self._seen = -1
        self._began = self._ended = time.monotonic()

    def poll(self, may_begin: bool) -> None:
        """Begin the requested pause, if any, and kill a helper that hangs. Called several times a second; never raises."""
        if self._helper:
            if time.monotonic() > self._overdue_at:
                with suppress(OSError):
                    os.kill(self._helper, signal.SIGKILL)  # our child, not yet waited for: the pid is still its own
            return
        if not self._allowed or not may_begin:
            return
        request = _read(f"{self._folder}/blink.json")
        if request is None or request["id"] <= self._seen:
            return
        self._seen = request["id"]
        now, why_not = time.monotonic(), None
        if now > request["until"]:
            why_not = "the request came too late"
        elif not 0 < request["seconds"] <= LONGEST_S:
            why_not = f"a pause lasts {LONGEST_S:g} s at most"
        elif now < earned_at(self._began, self._ended, request["seconds"]):
            why_not = "the last pause, or the start, was too short a while ago"
        if why_not is None:
            self._fork(request)
        else:
            _answer(self._folder, request["id"], None, why_not)

    def over(self, pid: int, status: int) -> None:
        """Take note of a child that ended: if it was the helper, its pause is over; what it may have left stopped is resumed."""
        if pid != self._helper:
            return
        self.end()
        self._helper = 0
        self._ended = time.monotonic()
        if status != 0:
            pause.resume_all(os.getpid(), self._main)  # it was killed before it could do so

    def end(self) -> None:
        """End a pause now, because the job is to be stopped or to save its work: the helper notices the closed pipe."""
        if self._line >= 0:
            os.close(self._line)
            self._line = -1

    def _fork(self, request: dict[str, Any]) -> None:
        shim = os.getpid()
        began = time.monotonic()
        try:
            line, self._helper = _fork_on_a_line()
        except OSError:
            _answer(self._folder, request["id"], None, "no process could be started for it")
            return
        if self._helper == 0:
            failed = 1
            try:
                # The shim's handlers are not the helper's.
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                # A stop sends it to every process below the shim. This one ends by the closed pipe, after its answer.
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                _blink(shim, self._main, self._folder, request, line)
                failed = 0
            finally:
                os._exit(failed)
        self._line, self._began = line, began
        self._overdue_at = began + request["seconds"] + _OVERDUE_AFTER_S


def _fork_on_a_line() -> tuple[int, int]:
    """(own end of a pipe, pid of the child or 0 in the child). The child notices when the parent closes its end or dies."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError:
        os.close(ours)
        os.close(theirs)
        raise
    mine, other = (ours, theirs) if pid == 0 else (theirs, ours)
    os.close(other)
    return mine, pid


# --- the helper ----------------------------------------------------------------------------------------------------


def _blink(shim: int, main: int, folder: str, request: dict[str, Any], line: int) -> None:
    """One pause from beginning to end. The job is resumed whatever happens in between."""
    paused = pause.pause_of(shim, main)
    stood: tuple[float, float] | None = None
    why_not: str | None = None
    try:
        why_not = paused.stop()
        if why_not is None:
            began = time.monotonic()
            why_not = _wait(paused, began + request["seconds"], line)
            stood = (began, time.monotonic())
    except OSError as error:
        why_not = f"it could not be paused: {error.strerror}"
    finally:
        paused.resume()
    _answer(folder, request["id"], stood, why_not)


def _wait(paused: pause.Stopped | pause.Frozen, until: float, line: int) -> str | None:
    """Wait until `until`; return why the pause ended early or is not to be used, None for a good one."""
    poller = select.poll()
    poller.register(line, select.POLLIN | select.POLLHUP)
    while (left := until - time.monotonic()) > 0:
        if poller.poll(min(left, _LOOK_EVERY_S) * 1000):
            return "the job was to be stopped meanwhile"
        why_not = paused.look()
        if why_not is not None:
            return why_not
    return paused.look()


# --- files ---------------------------------------------------------------------------------------------------------


def _read(path: str) -> dict[str, Any] | None:
    """The request; None if there is none or it cannot be read."""
    try:
        request = read_json(path)
        return {"id": int(request["id"]), "seconds": float(request["seconds"]), "until": float(request["until"])}
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _answer(folder: str, number: int, stood: tuple[float, float] | None, why_not: str | None) -> None:
    """Write the answer atomically. Where it cannot be written there is none, and the pause is not used."""
    began, ended = stood or (None, None)
    with suppress(OSError):
        write_json(
            f"{folder}/blinked.json",
            {"id": number, "began": began, "ended": ended, "why_not": why_not, "version": VERSION},
        )
