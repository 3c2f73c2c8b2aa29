"""Pauses of the whole job, requested by the worker service: for about a second to measure its partner alone, and longer so that
another job runs at full speed.

The worker writes `blink.json` (`id`, `seconds`, `until`) into the attempt's folder. The answer is `blinked.json`: the `id`, the
moments between which every thread of the job stood still, and `why_not` where the pause is not to be used. Moments are
CLOCK_MONOTONIC seconds, which stop while the machine is suspended.

For a longer pause the worker keeps a lease: `pause.json` (`id`, `until`), written again and again with a later `until`. The job
goes on when that moment has passed, so at once when the worker service is gone. `paused.json` has the `id`, `since` when the job
stands still (None: it does not), `total_s` of all its pauses before that, and `why_not` where the pause ended by itself.

A helper forked from the shim stops the process tree and resumes it. If the helper is killed, the shim resumes the job; if the
shim is killed, the helper sees its pipe close and resumes it. `shim.pause` does the stopping. Standard library only, as all of
the shim.

A blink needs a budget: the job must have run for `EARN` times the length of the pause since its start or its last pause. So
pauses take less than 1 / (1 + EARN) of its time at any moment, under 1%. The shim keeps the account, because it lives as long
as the attempt, which the worker service need not.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpuq_workers.shim import pause
from gpuq_workers.shim.record import VERSION, read_json, write_json

EARN = 100.0
LONGEST_S = 5.0
LONGEST_LEASE_S = 1.0
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
        self._seen = self._seen_lease = -1
        self._lease: dict[str, Any] | None = None
        self._began = self._ended = time.monotonic()

    def poll(self, may_begin: bool) -> None:
        """Begin the requested pause, if any, and kill a helper that hangs. Called several times a second; never raises."""
        if self._helper:
            if self._lease is not None:
                # A lease that has ended gives the helper the rest of that second.
                until = _lease_until(self._folder, self._lease["id"])
                self._overdue_at = max(self._overdue_at, until + _OVERDUE_AFTER_S)
            if time.monotonic() > self._overdue_at:
                with suppress(OSError):
                    os.kill(self._helper, signal.SIGKILL)  # our child, not yet waited for: the pid is still its own
            return
        if not may_begin:
            return
        lease = _read_lease(self._folder)
        if lease is not None and lease["id"] > self._seen_lease and time.monotonic() < lease["until"]:
            self._seen_lease = lease["id"]
            self._fork(lease)
            return
        request = _read(f"{self._folder}/blink.json") if self._allowed else None
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
            if self._lease is not None:
                _note_paused(self._folder, self._lease["id"], None, self._total_s(), "the pause was ended from outside")

    def _total_s(self) -> float:
        """Seconds of all pauses so far; that of one that is on, or was cut off, up to now."""
        paused = _read_paused(self._folder)
        since = paused["since"]
        return float(paused["total_s"] + (0.0 if since is None else max(0.0, time.monotonic() - since)))

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
            why_not = "no process could be started for it"
            if "seconds" in request:
                _answer(self._folder, request["id"], None, why_not)
            else:
                _note_paused(self._folder, request["id"], None, self._total_s(), why_not)
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
                hold = _blink if "seconds" in request else _stand_still
                hold(shim, self._main, self._folder, request, line)
                failed = 0
            finally:
                os._exit(failed)
        self._line, self._began = line, began
        self._lease = None if "seconds" in request else request
        self._overdue_at = began + request.get("seconds", LONGEST_LEASE_S) + _OVERDUE_AFTER_S


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
            end = began + request["seconds"]
            why_not = _wait(paused, lambda: end, line)
            stood = (began, time.monotonic())
    except OSError as error:
        why_not = f"it could not be paused: {error.strerror}"
    finally:
        paused.resume()
    _answer(folder, request["id"], stood, why_not)
    before = _read_paused(folder)
    if stood is not None:
        _note_paused(folder, before["id"], None, before["total_s"] + stood[1] - stood[0], before["why_not"])


def _stand_still(shim: int, main: int, folder: str, lease: dict[str, Any], line: int) -> None:
    """One pause for as long as the lease is renewed. The job is resumed whatever happens in between."""
    paused, total_s = pause.pause_of(shim, main), _read_paused(folder)["total_s"]
    began = time.monotonic()
    why_not: str | None = None
    try:
        why_not = paused.stop()
        if why_not is None:
            _note_paused(folder, lease["id"], began, total_s, None)
            why_not = _wait(paused, lambda: _lease_until(folder, lease["id"]), line)
    except OSError as error:
        why_not = f"it could not be paused: {error.strerror}"
    finally:
        paused.resume()
        _note_paused(folder, lease["id"], None, total_s + time.monotonic() - began, why_not)


def _wait(paused: pause.Stopped | pause.Frozen, until: Callable[[], float], line: int) -> str | None:
    """Wait until `until()`; return why the pause ended early or is not to be used, None for a good one."""
    poller = select.poll()
    poller.register(line, select.POLLIN | select.POLLHUP)
    while (left := until() - time.monotonic()) > 0:
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


def _read_lease(folder: str) -> dict[str, Any] | None:
    """The lease of a longer pause; None if there is none or it cannot be read."""
    try:
        lease = read_json(f"{folder}/pause.json")
        return {"id": int(lease["id"]), "until": float(lease["until"])}
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _lease_until(folder: str, number: int) -> float:
    """Until when the lease with this id lasts, `LONGEST_LEASE_S` from now at most; 0 if there is none."""
    lease = _read_lease(folder)
    return min(lease["until"], time.monotonic() + LONGEST_LEASE_S) if lease and lease["id"] == number else 0.0


def _read_paused(folder: str) -> dict[str, Any]:
    """What is written of longer pauses so far."""
    try:
        found = read_json(f"{folder}/paused.json")
        since = found["since"]
        return {
            "id": int(found["id"]),
            "since": None if since is None else float(since),
            "total_s": float(found["total_s"]),
            "why_not": found["why_not"],
        }
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {"id": 0, "since": None, "total_s": 0.0, "why_not": None}


def _note_paused(folder: str, number: int, since: float | None, total_s: float, why_not: str | None) -> None:
    with suppress(OSError):
        write_json(
            f"{folder}/paused.json",
            {"id": number, "since": since, "total_s": total_s, "why_not": why_not, "version": VERSION},
        )


def _answer(folder: str, number: int, stood: tuple[float, float] | None, why_not: str | None) -> None:
    """Write the answer atomically. Where it cannot be written there is none, and the pause is not used."""
    began, ended = stood or (None, None)
    with suppress(OSError):
        write_json(
            f"{folder}/blinked.json",
            {"id": number, "began": began, "ended": ended, "why_not": why_not, "version": VERSION},
        )
