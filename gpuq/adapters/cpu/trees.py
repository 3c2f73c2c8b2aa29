"""Process trees read from /proc: their memory, their CPU time, and how long their threads waited for a core.

Memory is anonymous plus shared memory (tmpfs, System V). Pages of files are left out, because processes share them and the kernel
can drop them. A single process is read from /proc/PID/status, in 12 microseconds. Forked processes share pages, so summing theirs
counts a shared page once per process. `smaps_rollup` divides it among its users, but takes milliseconds for a process of some
gigabytes and holds its memory lock meanwhile. So a tree of several large processes is read exactly when its processes change and
every few seconds, for at most half a percent of a core; in between, the difference found then is subtracted from the quick
values. Right after a change, the memory of such a tree may be only an estimate.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuq.adapters.process import ProcFiles, read_proc, tree

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_EXACT_EVERY_S = 5.0
_EXACT_COST_LIMIT = 0.005
_EXACT_ABOVE_BYTES = 16 * 2**20

_Key = tuple[int, int]
"""(pid, start ticks)."""


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """Bytes and CPU seconds of a tree; the seconds include reaped children.

    `memory_is_estimate`: its processes have changed and share pages, and how many is not known yet.
    """

    memory_bytes: int
    cpu_seconds: float
    memory_is_estimate: bool


class _Process(NamedTuple):
    """One look at a process: `pages` are resident, of all kinds; the CPU seconds include reaped children."""

    start_ticks: int
    pages: int
    memory_bytes: int
    cpu_seconds: float


@dataclass(slots=True)
class _Exact:
    """The latest exact reading of a tree. `shared`: bytes of each process's quick value that are counted for another one."""

    shared: dict[_Key, int] = field(default_factory=dict)
    read_at: float = -math.inf
    cost_s: float = 0.0


class Trees:
    """Reads trees, look by look. `cost_clock` measures what exact readings cost."""

    def __init__(self, cost_clock: Callable[[], float] = time.perf_counter) -> None:
        self._cost_clock = cost_clock
        self._files = ProcFiles()
        self._exact: dict[int, _Exact] = {}
        self._delays: dict[int, dict[int, int]] = {}
        # The processes of each tree and their threads, as the last `read` found them.
        self._found: dict[int, dict[int, list[str]]] = {}
        # Of each process that was read since the last `end_look`, and of each of the look before.
        self._processes: dict[int, _Process] = {}
        self._before: dict[int, _Process] = {}
        self._seen: set[int] = set()

    def read(self, root: int, at: float) -> TreeUsage | None:
        """The tree of the process `root` at monotonic time `at`; None if the root is gone."""
        here = self._found[root] = tree(root, self._files.read)
        found = {pid: process for pid in here if (process := self._process(pid)) is not None}
        if root not in found:
            return None
        self._seen.add(root)
        quick = {(pid, process.start_ticks): process.memory_bytes for pid, process in found.items()}
        seconds = sum(process.cpu_seconds for process in found.values())
        large = {key: bytes_ for key, bytes_ in quick.items() if bytes_ >= _EXACT_ABOVE_BYTES}
        if len(large) < 2:
            self._exact.pop(root, None)
            return TreeUsage(sum(quick.values()), seconds, memory_is_estimate=False)
        exact = self._exact_for(root, large, at)
        memory = sum(max(0, bytes_ - exact.shared.get(key, 0)) for key, bytes_ in quick.items())
        return TreeUsage(memory, seconds, memory_is_estimate=exact.shared.keys() != large.keys())

    def waited(self, root: int) -> tuple[float, float] | None:
        """Seconds since the last call in which the threads that the last `read` found were ready to run and had no core:
        (sum, largest of one thread).

        None at the first call, and where the kernel does not count it.
        """
        now = {
            int(thread): int(fields[1])
            for pid, threads in self._found.get(root, {}).items()
            for thread in threads
            if len(fields := self._files.read(f"/proc/{pid}/task/{thread}/schedstat").split()) == 3
        }
        before, self._delays[root] = self._delays.get(root), now
        if not before or not now:
            return None
        each = [max(0, delay - before.get(thread, 0)) / 1e9 for thread, delay in now.items()]
        return sum(each), max(each)

    def stop_waiting(self, root: int) -> None:
        """Discard the counters of `waited`: the time until its next call is not to be counted."""
        self._delays.pop(root, None)

    def end_look(self) -> None:
        """Discard the state of trees that were not read since the last call."""
        self._files.end_look()
        for kept in (self._exact, self._delays, self._found):
            for root in kept.keys() - self._seen:
                kept.pop(root)
        self._seen = set()
        self._before, self._processes = self._processes, {}

    def close(self) -> None:
        """Close the files that are kept open between looks."""
        self._files.close()

    def _process(self, pid: int) -> _Process | None:
        """The process now; None if it is gone. Its memory is taken from the last look if as many of its pages are resident."""
        fields = self._files.read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) < 22:
            return None
        start, pages = int(fields[19]), int(fields[21])
        own, of_children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        before = self._before.get(pid)
        if before is not None and (before.start_ticks, before.pages) == (start, pages):
            memory = before.memory_bytes
        else:
            status = self._files.read(f"/proc/{pid}/status")
            memory = _kilobytes(status, b"\nRssAnon:") + _kilobytes(status, b"\nRssShmem:")
        self._processes[pid] = process = _Process(start, pages, memory, (own + of_children) / _TICKS_PER_S)
        return process

    def _exact_for(self, root: int, large: dict[_Key, int], at: float) -> _Exact:
        """An exact reading of these processes; a new one if it is due and the cost limit allows it."""
        exact = self._exact.setdefault(root, _Exact())
        changed = exact.shared.keys() != large.keys()
        if at < exact.read_at + max(exact.cost_s / _EXACT_COST_LIMIT, 0.0 if changed else _EXACT_EVERY_S):
            return exact
        began = self._cost_clock()
        found = {key: _exact_bytes(key[0]) for key in large}
        shared = {key: max(0, large[key] - bytes_) for key, bytes_ in found.items() if bytes_ is not None}
        self._exact[root] = _Exact(shared, at, self._cost_clock() - began)
        return self._exact[root]


def _exact_bytes(pid: int) -> int | None:
    """Bytes of anonymous and shared memory, each shared page divided among its users; None if the kernel does not say."""
    rollup = read_proc(f"/proc/{pid}/smaps_rollup")
    if b"\nPss_Anon:" not in rollup:
        return None
    return _kilobytes(rollup, b"\nPss_Anon:") + _kilobytes(rollup, b"\nPss_Shmem:")


def _kilobytes(text: bytes, name: bytes) -> int:
    """The value of the line `name`, given in kB, in bytes; 0 without such a line, as in a process that is ending."""
    start = text.find(name)
    return int(text[start + len(name) : text.index(b"kB", start)]) * 1024 if start >= 0 else 0


KERNEL_COUNTS_WAITING = len(_own := read_proc("/proc/thread-self/schedstat").split()) == 3 and int(_own[2]) > 0
