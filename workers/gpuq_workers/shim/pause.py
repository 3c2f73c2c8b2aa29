"""Hold a job's whole process tree still, and resume it.

By the freezer where the job has a control group of its own, else by a stop signal to each process. Methods return None if all
is well, else a sentence: why the job is not to be paused, or why the pause no longer counts. A process that was stopped by
another program before is not paused, and one that another program stops meanwhile stays stopped. Standard library only, as all
of the shim.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from gpuq_workers.shim import tree

# On a busy machine a process waits for a core before it stops. Less than the time after which a helper that hangs is killed.
_STOPS_WITHIN_S = 0.7
_GROUPS = "/sys/fs/cgroup"


def _mask(*numbers: signal.Signals) -> int:
    return sum(1 << (number - 1) for number in numbers)


# Signals that ask the job for something: their sender should not wait until the pause is over.
_CALLS = _mask(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_HALTS = _mask(signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_HALTED = (b"T", b"t")
_ENDED = (b"Z", b"X", b"")
_STILL = (*_HALTED, *_ENDED)

Process = tuple[int, int]


def pause_of(shim: int, main: int) -> Stopped | Frozen:
    """The way to pause this job, before anything was done to it."""
    group = _own_group(shim, main)
    if group is not None and os.access(f"{group}/cgroup.freeze", os.W_OK):
        return Frozen(shim, group)
    return Stopped(shim)


def resume_all(shim: int, main: int) -> None:
    """Resume every process below the shim. For a helper that was killed and took with it the list of those it had stopped."""
    for one in tree.below(shim):
        tree.send_signal(*one, signal.SIGCONT)
    group = _own_group(shim, main)
    if group is not None:
        with suppress(OSError):
            Frozen(shim, group).resume()


class Stopped:
    """The job's processes, stopped by a signal each."""

    def __init__(self, shim: int) -> None:
        self._shim = shim
        self.processes: list[Process] = []

    def stop(self) -> str | None:
        """Stop all of them, parents first; None once every thread stands still, else why not."""
        why_not = _refusal(_tree(self._shim))
        if why_not is not None:
            return why_not
        give_up_at = time.monotonic() + _STOPS_WITHIN_S
        while True:
            # A process that was not yet stopped may have forked since the list was taken.
            new = [one for one in _tree(self._shim) if one not in self.processes]
            for one in new:
                self.processes.append(one)
                tree.send_signal(*one, signal.SIGSTOP)
            if not new and all(_stands_still(pid) for pid, _ in self.processes):
                return None
            if time.monotonic() > give_up_at:
                return "not all of it stopped at once"
            time.sleep(0.002)

    def look(self) -> str | None:
        """None while all stand still and no signal waits for them; else why the pause no longer counts."""
        states = {pid: tree.state(pid) for pid, _ in self.processes}
        if all(state in _ENDED for state in states.values()):
            return "the job ended meanwhile"
        if any(state not in _STILL for state in states.values()):
            return "another program resumed the job meanwhile"
        waits = [tree.pending(pid) for pid in states]
        if any(signals & _CALLS for signals in waits):
            return "a signal came for the job meanwhile"
        return "another program stopped the job meanwhile" if any(s & _HALTS for s in waits) else None

    def resume(self) -> None:
        """Resume all but those that another program stopped; children first, so that no parent is notified of a stopped child.

        A stop signal to a stopped process stays pending until it is resumed, which shows that another program sent one. To one
        that has not stopped, because it waits in the kernel, it is our own, and would stop the process later.
        """
        for pid, ticks in reversed(self.processes):
            if tree.state(pid) not in _HALTED or not tree.pending(pid) & _HALTS:
                tree.send_signal(pid, ticks, signal.SIGCONT)


class Frozen:
    """The job's control group, frozen. Stop and continue signals of other programs work independently of that."""

    def __init__(self, shim: int, group: str) -> None:
        self._shim, self._group = shim, group

    def stop(self) -> str | None:
        """Freeze the group; None once it is frozen, else why not."""
        why_not = _refusal(_tree(self._shim))
        if why_not is not None:
            return why_not
        self._write("1")
        give_up_at = time.monotonic() + _STOPS_WITHIN_S
        while not self._is_frozen():
            if time.monotonic() > give_up_at:
                return "not all of it stopped at once"
            time.sleep(0.002)
        return None

    def look(self) -> str | None:
        """None while all stand still and no signal waits for them; else why the pause no longer counts."""
        processes = _tree(self._shim)
        if not processes:
            return "the job ended meanwhile"
        if any(tree.pending(pid) & _CALLS for pid, _ in processes):
            return "a signal came for the job meanwhile"
        return None if self._is_frozen() else "another program resumed the job meanwhile"

    def resume(self) -> None:
        """Thaw the group."""
        self._write("0")

    def _write(self, frozen: str) -> None:
        with open(f"{self._group}/cgroup.freeze", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(frozen)

    def _is_frozen(self) -> bool:
        with open(f"{self._group}/cgroup.events", encoding="ascii") as file:  # noqa: PTH123
            return "frozen 1" in file.read()


def _refusal(processes: list[Process]) -> str | None:
    """Why these processes are not to be paused now; None if they may be."""
    if not processes:
        return "the job has ended"
    for pid, _ in processes:
        if tree.state(pid) in _HALTED:
            return "another program has stopped it"
        if tree.pending(pid) & _CALLS:
            return "a signal waits for it"
        if tree.is_traced(pid):
            return "a debugger is attached to it"
    return None


def _stands_still(pid: int) -> bool:
    """Whether every thread of the process is stopped, or gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return True
    return all(tree.state(pid, int(thread)) in _STILL for thread in threads)


def _tree(shim: int) -> list[Process]:
    """The processes below the shim, without this helper and without zombies."""
    return [one for one in tree.below(shim) if one[0] != os.getpid() and tree.state(one[0]) not in _ENDED]


def _own_group(shim: int, main: int) -> str | None:
    """The folder of the job's control group (version 2) if it holds all of the job and not the shim; else None."""
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
