"""Processes in /proc: identities, descendants, and signals that cannot hit the wrong process.

A pid alone does not identify a process, because pids are reused. An identity is (boot id, pid, start ticks), and every signal
goes through a pidfd whose start ticks were checked. Standard library only. A process that cannot be read counts as gone.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
# Fields of /proc/PID/stat, counted after the command's closing bracket.
_STATE, _PARENT, _START_TICKS = 0, 1, 19
_EXEC_WITHIN_S = 1.0
# A list of /proc, such as that of a process's children, fills each page but for one entry, and no entry is half a page long. So
# what is shorter than that is all that there is.
_HALF_A_PAGE = 2048


class Identity(NamedTuple):
    """One process on one boot of this machine."""

    boot_id: str
    pid: int
    start_ticks: int


@lru_cache(maxsize=1)
def boot_id() -> str:
    """The id of this boot, from the kernel."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[_START_TICKS])


def identify(pid: int) -> Identity | None:
    """The identity of the process that has this pid now; None if there is none."""
    ticks = start_ticks(pid)
    return None if ticks is None else Identity(boot_id(), pid, ticks)


def is_alive(identity: Identity) -> bool:
    """Whether this process still runs. A zombie does not: it has ended and only waits to be reaped."""
    if identity.boot_id != boot_id():
        return False
    fields = _stat(identity.pid)
    if fields is None:
        # It is gone, or this process has no descriptor left to read /proc with; a wrong "gone" would end a job.
        return _has_process(identity.pid)
    return int(fields[_START_TICKS]) == identity.start_ticks and fields[_STATE] not in "ZX"


def is_stopped(identity: Identity) -> bool:
    """Whether this process stands still because of SIGSTOP or another stop signal."""
    fields = _stat(identity.pid) if identity.boot_id == boot_id() else None
    return fields is not None and int(fields[_START_TICKS]) == identity.start_ticks and fields[_STATE] == "T"


def _has_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def send_signal(identity: Identity, number: signal.Signals) -> bool:
    """Send a signal to this process and no successor of its pid; returns whether it was sent."""
    if identity.boot_id != boot_id():
        return False
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        # The pidfd pins the process. If the ticks agree after it was opened, it is not that of a later process with this pid.
        if start_ticks(identity.pid) != identity.start_ticks:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def descendants(pid: int) -> list[int]:
    """The pids of all processes below `pid`, parents before children, zombies included."""
    return list(tree(pid))[1:]


def tree(pid: int, read: Callable[[str], bytes] | None = None) -> dict[int, list[str]]:
    """The process and all below it, parents before children, zombies included; of each the ids of its threads.

    `read` reads a file of /proc, `read_proc` unless given.
    """
    by_parent: dict[int, list[int]] = {}
    if not kernel_lists_children():
        for other in all_pids():
            if (fields := _stat(other)) is not None:
                by_parent.setdefault(int(fields[_PARENT]), []).append(other)
    found = {}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        found[parent] = threads(parent)
        if kernel_lists_children():
            waiting += _children(parent, found[parent], read or read_proc)
        else:
            waiting += by_parent.get(parent, [])
    return found


def kill_tree(root: Identity, within_s: float = 5.0) -> bool:
    """SIGKILL the process and all below it, repeatedly; False if some still ran after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    doomed: set[Identity] = {root}
    while True:
        # Killing the root first would let its children be adopted by init, where they cannot be found any more.
        if is_alive(root):
            doomed.update(identities(descendants(root.pid)))
        alive = [one for one in doomed if is_alive(one)]
        if not alive:
            return True
        for one in alive:
            # Descendants may fork until they are killed, so each round lists them again, while their root still exists.
            doomed.update(identities(descendants(one.pid)))
        for one in doomed:
            send_signal(one, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)


def identities(pids: Iterable[int]) -> list[Identity]:
    """The identities of those of `pids` that still exist."""
    return [known for pid in pids if (known := identify(pid)) is not None]


def with_environment(wanted: Mapping[str, str]) -> list[Identity]:
    """Our own user's living processes that were started with all of `wanted` in their environment, except this one."""
    entries = {f"{name}={value}".encode() for name, value in wanted.items()}
    return _of_our_user(lambda pid: entries.issubset(started_with(pid)[0].split(b"\0")))


def with_open_file(path: Path, program: str) -> list[Identity]:
    """Our own user's living processes that have this file open, and `program` as a word of their command line."""
    # The kernel names an open file without symbolic links.
    name, word = os.path.realpath(path), os.fsencode(program)

    def has_it(pid: int) -> bool:
        if word not in (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0"):
            return False
        # The links are read and not followed: a file system that does not answer would stop this process too.
        return any(str(link.readlink()) == name for link in (_PROC / str(pid) / "fd").iterdir())

    return _of_our_user(has_it)


def _of_our_user(is_meant: Callable[[int], bool]) -> list[Identity]:
    """Our own user's living processes, except this one, for whose pid this is true; it may raise OSError."""
    found = []
    for pid in all_pids():
        known = identify(pid)
        with suppress(OSError):  # it has ended, or may not be inspected
            if known is None or pid == os.getpid() or (_PROC / str(pid)).stat().st_uid != os.getuid():
                continue
            if is_meant(pid) and is_alive(known):
                found.append(known)
    return found


def started_with(pid: int) -> tuple[bytes, bytes]:
    """The environment and the command line of the process, each word ended by a zero byte. Raises OSError if it may not be read.

    In the middle of an exec, which takes milliseconds on a busy machine, both are empty. A search for the processes that an
    ended job left must not miss one that is just starting, so this waits for the words, at most a second.
    """
    folder = _PROC / str(pid)
    deadline = time.monotonic() + _EXEC_WITHIN_S
    while True:
        words = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        if any(words) or not _has_executable(folder) or time.monotonic() > deadline:
            return words
        time.sleep(0.001)


def _has_executable(folder: Path) -> bool:
    """Whether the process of this folder in /proc runs a program: zombies and kernel threads have none."""
    try:
        (folder / "exe").readlink()
    except OSError:
        return False
    return True


def read_proc(path: str) -> bytes:
    """The content of a /proc file, empty if it is gone. Plain system calls, because it is called dozens of times a second."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return _content(descriptor)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    content = os.pread(descriptor, 65536, 0)
    # The kernel gives at most one page of a list at a time.
    part = content
    while len(part) >= _HALF_A_PAGE:
        part = os.pread(descriptor, 65536, len(content))
        content += part
    return content


class ProcFiles:
    """Reads files of /proc that are read again at each look, and keeps them open: to open one takes longer than to read it.

    An open file belongs to its process, so it never shows a later process with the same pid. At most `most` are kept open, a
    quarter of the descriptors that this process may have unless given; others are opened at each look.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4 if most is None else most
        self._open: dict[str, int] = {}
        self._read: set[str] = set()

    def read(self, path: str) -> bytes:
        """The content of the file, empty if it is gone."""
        descriptor = self._open.get(path)
        try:
            if descriptor is None:
                if len(self._open) >= self._most:
                    return read_proc(path)
                descriptor = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._read.add(path)
            return _content(descriptor)
        except OSError:
            self._close(path)
            return b""

    def end_look(self) -> None:
        """Close the files that were not read since the last call."""
        for path in self._open.keys() - self._read:
            self._close(path)
        self._read = set()

    def close(self) -> None:
        """Close all."""
        self._read = set()
        self.end_look()

    def _close(self, path: str) -> None:
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


def threads(pid: int) -> list[str]:
    """The ids of the process's threads; none if it is gone."""
    folder = f"/proc/{pid}/task"
    try:
        # One link for each thread. An only thread has the id of the process, since the first one stays until all have ended.
        return [str(pid)] if os.stat(folder).st_nlink == 3 else os.listdir(folder)  # noqa: PTH116, PTH208 - once a second
    except OSError:
        return []


@lru_cache(maxsize=1)
def kernel_lists_children() -> bool:
    """Whether this kernel has /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN)."""
    return (_PROC / f"self/task/{os.getpid()}/children").exists()


def _children(pid: int, of_threads: Iterable[str], read: Callable[[str], bytes]) -> list[int]:
    lists = [read(f"/proc/{pid}/task/{thread}/children") for thread in of_threads]
    return [int(child) for children in lists for child in children.split()]


def _stat(pid: int) -> list[str] | None:
    # The command's name is in brackets and may hold anything, brackets included.
    fields = read_proc(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()
    return fields or None


def all_pids() -> list[int]:
    """The pids of all processes."""
    return [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit()]
