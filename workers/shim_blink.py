"""Pause the whole job for a moment, when the worker service asks for it, and let it go on whoever is killed meanwhile.

`blink.json` (`id`, `seconds`, `until`) arrives in the attempt's folder; `blinked.json` leaves: the `id`, between which two
moments every thread of the job stood still, and `why_not` where it is not to be believed. Moments are CLOCK_MONOTONIC
seconds, which stand still while the machine is suspended.

A helper forked from the shim stops the tree and lets it go on. Should the helper be killed, the shim lets the job go on;
should the shim be killed, the helper sees its pipe close and does. What somebody else had stopped is not touched, and what
somebody else stops in the meantime stays stopped. Standard library only: this is part of the shim.

The budget is earned first: a pause comes after the job has run for `EARN` times its length, and as much after the last
one. So at any moment the pauses took less than 1 / (1 + EARN) of the job's time, under 1%. The shim keeps the account, since it
outlives everybody who might ask.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from workers import shim_tree

EARN = 100.0
LONGEST_S = 5.0
_STOPS_WITHIN_S, _LOOK_EVERY_S, _OVERDUE_AFTER_S = 0.3, 0.1, 1.0
_GROUPS = "/sys/fs/cgroup"
# What somebody sends who wants something of the job: it should not wait for its answer.
_CALLS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_ENDED = (b"Z", b"X", b"")
_STILL = (b"T", b"t", *_ENDED)
_HALTS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

Process = tuple[int, int]


def earned_at(began: float, ended: float, seconds: float) -> float:
    """When a pause of `seconds` is earned after the last one, or after the job's start (`began` and `ended` are that moment)."""
    return ended + EARN * max(ended - began, seconds)


class Blinks:
    """The blinks of one attempt as the shim sees them: one at a time, and none of them keeps the shim waiting."""

    def __init__(self, folder: str, allowed: bool, main: int) -> None:
        self._folder, self._allowed, self._main = folder, allowed, main
        self._helper = 0
        self._line = -1
        self._overdue_at = 0.0
        self._seen = -1
        self._began = self._ended = time.monotonic()

    def turn(self, may_begin: bool) -> None:
        """Begin the blink that is asked for, if any, and end a helper that hangs. Never raises."""
        if self._helper:
            if time.monotonic() > self._overdue_at:
                self._kill_helper()
            return
        if not self._allowed or not may_begin:
            return
        asked = _read(f"{self._folder}/blink.json")
        if asked is None or asked["id"] <= self._seen:
            return
        self._seen = asked["id"]
        why_not = self._why_not(asked, time.monotonic())
        if why_not is None:
            self._fork(asked)
        else:
            _answer(self._folder, asked["id"], None, why_not)

    def over(self, pid: int, status: int) -> None:
        """A child has ended. If it was the helper, its pause is on the account, and what it may have left stopped goes on."""
        if pid != self._helper:
            return
        self._close_line()
        self._helper = 0
        self._ended = time.monotonic()
        if status != 0:
            # It was killed: nobody knows whom it had stopped.
            for one in shim_tree.below(os.getpid()):
                shim_tree.send_signal(*one, signal.SIGCONT)
            _thaw(self._main)

    def end(self) -> None:
        """The job is wanted: it goes on now."""
        self._close_line()

    def _why_not(self, asked: dict[str, Any], now: float) -> str | None:
        if now > asked["until"]:
            return "the request came too late"
        if not 0 < asked["seconds"] <= LONGEST_S:
            return f"a pause lasts {LONGEST_S:g} s at most"
        if now < earned_at(self._began, self._ended, asked["seconds"]):
            return "the last pause, or the start, was too short a while ago"
        return None

    def _fork(self, asked: dict[str, Any]) -> None:
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        shim = os.getpid()
        self._began = time.monotonic()
        self._overdue_at = self._began + asked["seconds"] + _OVERDUE_AFTER_S
        try:
            self._helper = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            _answer(self._folder, asked["id"], None, "no process could be started for it")
            return
        if self._helper == 0:
            failed = 1
            try:
                os.close(theirs)
                _become_helper()
                _blink(shim, self._main, self._folder, asked, ours)
                failed = 0
            finally:
                os._exit(failed)
        os.close(ours)
        self._line = theirs

    def _close_line(self) -> None:
        if self._line >= 0:
            os.close(self._line)
            self._line = -1

    def _kill_helper(self) -> None:
        with suppress(OSError):
            os.kill(self._helper, signal.SIGKILL)  # our child, not yet waited for: the pid is still its own


# --- the helper ----------------------------------------------------------------------------------------------------


def _become_helper() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _blink(shim: int, main: int, folder: str, asked: dict[str, Any], line: int) -> None:
    """One pause from beginning to end; whatever happens in between, the job goes on at the end."""
    paused = _pause_for(shim, main)
    stood: tuple[float, float] | None = None
    why_not: str | None = None
    try:
        why_not = paused.stop()
        if why_not is None:
            began = time.monotonic()
            why_not = _wait(paused, began + asked["seconds"], line)
            stood = (began, time.monotonic())
    except OSError as error:
        why_not = f"it could not be paused: {error.strerror}"
    finally:
        paused.go_on()
    _answer(folder, asked["id"], stood, why_not)


def _wait(paused: Stopped | Frozen, until: float, line: int) -> str | None:
    """Let the time pass; why the pause ended early or was none."""
    poller = select.poll()
    poller.register(line, select.POLLIN | select.POLLHUP)
    while (left := until - time.monotonic()) > 0:
        if poller.poll(min(left, _LOOK_EVERY_S) * 1000):
            return "the job was wanted meanwhile"
        why_not = paused.look()
        if why_not is not None:
            return why_not
    return paused.look()


def _pause_for(shim: int, main: int) -> Stopped | Frozen:
    """The freezer where the job has a control group to itself, else signals."""
    group = _own_group(shim, main)
    if group is not None and os.access(f"{group}/cgroup.freeze", os.W_OK):
        return Frozen(shim, group)
    return Stopped(shim)


class Stopped:
    """The job's processes, stopped by a signal each."""

    def __init__(self, shim: int) -> None:
        self._shim = shim
        self.processes: list[Process] = []

    def stop(self) -> str | None:
        """Stop all of them, parents first; why that cannot be."""
        first = _tree(self._shim)
        if not first:
            return "the job has ended"
        why_not = next((reason for one in first if (reason := _busy(one[0]))), None)
        if why_not is not None:
            return why_not
        give_up_at = time.monotonic() + _STOPS_WITHIN_S
        while True:
            # Whoever was not stopped yet may have forked since the list was taken.
            new = [one for one in _tree(self._shim) if one not in self.processes]
            for one in new:
                self.processes.append(one)
                shim_tree.send_signal(*one, signal.SIGSTOP)
            if not new and all(_stands_still(pid) for pid, _ in self.processes):
                return None
            if time.monotonic() > give_up_at:
                return "not all of it stopped at once"
            time.sleep(0.002)

    def look(self) -> str | None:
        """Whether it still stands still, and nobody wants anything of it."""
        states = {pid: shim_tree.state(pid) for pid, _ in self.processes}
        if all(state in _ENDED for state in states.values()):
            return "the job ended meanwhile"
        if any(state not in _STILL for state in states.values()):
            return "somebody else let the job go on meanwhile"
        waits = [_pending(pid) for pid in states]
        if any(signals & _mask(_CALLS) for signals in waits):
            return "a signal came for the job meanwhile"
        return "somebody else stopped the job meanwhile" if any(s & _mask(_HALTS) for s in waits) else None

    def go_on(self) -> None:
        """Let all go on, children first, so that no parent hears of a stopped child; not those that somebody else stopped too.

        A stop signal to a stopped process stays pending until it goes on: that is how a stop of another's is seen.
        """
        for pid, ticks in reversed(self.processes):
            if not _pending(pid) & _mask(_HALTS):
                shim_tree.send_signal(pid, ticks, signal.SIGCONT)


class Frozen:
    """The job's control group, frozen. Stops and continuations of others go on beside that."""

    def __init__(self, shim: int, group: str) -> None:
        self._shim, self._group = shim, group

    def stop(self) -> str | None:
        """Freeze it; why that cannot be."""
        tree = _tree(self._shim)
        why_not = next((reason for one in tree if (reason := _busy(one[0]))), None)
        if why_not is not None or not tree:
            return why_not or "the job has ended"
        with open(f"{self._group}/cgroup.freeze", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("1")
        give_up_at = time.monotonic() + _STOPS_WITHIN_S
        while not self._is_frozen():
            if time.monotonic() > give_up_at:
                return "not all of it stopped at once"
            time.sleep(0.002)
        return None

    def look(self) -> str | None:
        """Whether it still stands still, and nobody wants anything of it."""
        tree = _tree(self._shim)
        if not tree:
            return "the job ended meanwhile"
        if any(_pending(pid) & _mask(_CALLS) for pid, _ in tree):
            return "a signal came for the job meanwhile"
        return None if self._is_frozen() else "somebody else let the job go on meanwhile"

    def go_on(self) -> None:
        """Thaw it."""
        with open(f"{self._group}/cgroup.freeze", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("0")

    def _is_frozen(self) -> bool:
        with open(f"{self._group}/cgroup.events", encoding="ascii") as file:  # noqa: PTH123
            return "frozen 1" in file.read()


def _tree(shim: int) -> list[Process]:
    """Who runs below the shim, without the helper and without those that have ended and wait to be read."""
    return [one for one in shim_tree.below(shim) if one[0] != os.getpid() and shim_tree.state(one[0]) not in _ENDED]


def _busy(pid: int) -> str | None:
    """Why this process is not to be paused now."""
    if shim_tree.state(pid) in (b"T", b"t"):
        return "somebody else has stopped it"
    if _pending(pid) & _mask(_CALLS):
        return "a signal waits for it"
    return "a debugger looks at it" if _status(pid).get(b"TracerPid", b"0") != b"0" else None


def _stands_still(pid: int) -> bool:
    """Whether every thread of the process is stopped, or gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return True
    return all(shim_tree.state(pid, int(thread)) in _STILL for thread in threads)


def _pending(pid: int) -> int:
    """The signals that wait for the process or its main thread, as a mask."""
    status = _status(pid)
    return int(status.get(b"SigPnd", b"0"), 16) | int(status.get(b"ShdPnd", b"0"), 16)


def _mask(numbers: tuple[signal.Signals, ...]) -> int:
    return sum(1 << (number - 1) for number in numbers)


def _status(pid: int) -> dict[bytes, bytes]:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            pairs = (line.partition(b":") for line in file)
            return {name: value.strip() for name, _, value in pairs}
    except OSError:
        return {}


def _own_group(shim: int, main: int) -> str | None:
    """The folder of the job's control group (version 2), if the shim is not in it; None where there is no such."""
    job, ours = _group_of(main), _group_of(shim)
    if job in (None, "/") or f"{ours}/".startswith(f"{job}/"):
        return None
    if any(not f"{_group_of(pid)}/".startswith(f"{job}/") for pid, _ in _tree(shim)):
        return None
    return f"{_GROUPS}{job}"


def _group_of(pid: int) -> str | None:
    with suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        return next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
    return None


def _thaw(main: int) -> None:
    group = _own_group(os.getpid(), main)
    if group is not None:
        with suppress(OSError):
            Frozen(os.getpid(), group).go_on()


# --- files ---------------------------------------------------------------------------------------------------------


def _read(path: str) -> dict[str, Any] | None:
    """The request; None while there is none, or none that makes sense."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            asked = json.load(file)
        return {"id": int(asked["id"]), "seconds": float(asked["seconds"]), "until": float(asked["until"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _answer(folder: str, number: int, stood: tuple[float, float] | None, why_not: str | None) -> None:
    """Say what came of it, whole or not at all. On a full disk nobody hears of it, and nothing is measured."""
    began, ended = stood or (None, None)
    with suppress(OSError):
        with open(f"{folder}/blinked.json.new", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump({"id": number, "began": began, "ended": ended, "why_not": why_not}, file)
        os.rename(f"{folder}/blinked.json.new", f"{folder}/blinked.json")  # noqa: PTH104
