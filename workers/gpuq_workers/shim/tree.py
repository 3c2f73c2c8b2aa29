"""The shim's view of its process tree: find all descendants, and signal them without hitting a process that reuses a pid.

The shim is a child subreaper, so processes that detach themselves (setsid, double fork) become its children and are found.
Standard library only, as all of the shim; `gpuq.adapters.process` does the same for the rest of gpuq.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make descendants whose parent dies our own children. Raises OSError."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def start_ticks(pid: int) -> int | None:
    """The process's start in clock ticks since boot; None if it is gone."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def state(pid: int, thread: int | None = None) -> bytes:
    """The kernel's letter for the state of the process or of that thread (T: stopped, Z: zombie); empty if it is gone."""
    fields = _stat(pid, thread)
    return b"" if fields is None else fields[0]


def below(root: int) -> list[tuple[int, int]]:
    """(pid, start ticks) of every living descendant of `root`."""
    children = _families()
    found = []
    waiting = [root]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found += mine
        waiting += [pid for pid, _ in mine]
    return found


def signal_listeners(root: int, number: int) -> int:
    """Signal the topmost descendants of `root` that have a handler for signal `number`; returns how many.

    A process without a handler, such as a shell around the script, would be killed. One below a process with a handler, such as
    a data loader of a training, inherited it and must not act on it as well.
    """
    children = _families()
    signalled = 0
    waiting = [root]
    while waiting:
        for pid, ticks in children.get(waiting.pop(), []):
            if handles(pid, number):
                send_signal(pid, ticks, number)
                send_signal(pid, ticks, signal.SIGCONT)  # a stopped process handles it only once it is resumed
                signalled += 1
            else:
                waiting.append(pid)
    return signalled


def send_signal(pid: int, ticks: int, number: int) -> None:
    """Signal the process that started at `ticks`; nothing happens if it is gone."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if start_ticks(pid) == ticks:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def command_line(pid: int) -> list[str]:
    """The words that the process was started with; none if it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return [os.fsdecode(word) for word in file.read().rstrip(b"\0").split(b"\0")]
    except OSError:
        return []


def handles(pid: int, number: int) -> bool:
    """Whether the process has a handler of its own for this signal."""
    return bool(int(_status(pid).get(b"SigCgt", b"0"), 16) >> (number - 1) & 1)


def pending(pid: int) -> int:
    """The mask of signals pending for the process or its main thread; 0 if it is gone."""
    status = _status(pid)
    return int(status.get(b"SigPnd", b"0"), 16) | int(status.get(b"ShdPnd", b"0"), 16)


def is_traced(pid: int) -> bool:
    """Whether a debugger is attached to the process."""
    return _status(pid).get(b"TracerPid", b"0") != b"0"


def _families() -> dict[int, list[tuple[int, int]]]:
    """Parent -> (pid, start ticks) of its children, for all processes."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs the shim start time and memory
        fields = _stat(int(name)) if name.isdigit() else None
        if fields is not None:
            children.setdefault(int(fields[1]), []).append((int(name), int(fields[19])))
    return children


def _status(pid: int) -> dict[bytes, bytes]:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            pairs = (line.partition(b":") for line in file)
            return {name: value.strip() for name, _, value in pairs}
    except OSError:
        return {}


def _stat(pid: int, thread: int | None = None) -> list[bytes] | None:
    path = f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat"
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return None
    # State, parent and so on, after the name in brackets, which may hold anything.
    return text[text.rindex(b")") + 2 :].split()
