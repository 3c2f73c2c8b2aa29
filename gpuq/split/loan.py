"""The idle cores of the host that are lent to this job, as its worker service writes them down; none outside of such a job.

A device's process that computes on lent cores is moved off them as soon as they are reclaimed, in the middle of a chunk: it ends
the chunk on the job's own cores, and takes no further one before cores are lent again.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Collection
from pathlib import Path

MOST_LENT = 4
_LOOK_EVERY_S = 0.02


def lent_cores(path: Path | None, now: float) -> tuple[int, ...]:
    """The cores that the file at `path` lends at this moment (CLOCK_MONOTONIC)."""
    if path is None:
        return ()
    try:
        loan = json.loads(path.read_bytes())
        return tuple(int(core) for core in loan["cores"]) if now < float(loan["until"]) else ()
    except (OSError, ValueError, TypeError, KeyError):
        return ()


def move(pid: int, cores: Collection[int]) -> None:
    """Let all threads of a process run on these cores only. What has ended meanwhile is left out."""
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread.name), cores)


class LoanFollower:
    """Keeps a process on the lent cores, and on this process's own ones while there are none."""

    def __init__(self, pid: int, path: Path | None = None) -> None:
        named = os.environ.get("GPUQ_LOAN")
        self._path = path or (Path(named) if named else None)
        self._pid, self._own = pid, os.sched_getaffinity(0)
        self._ended = threading.Event()
        self._cores: tuple[int, ...] = ()
        self._look()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @property
    def cores(self) -> tuple[int, ...]:
        """What is lent now."""
        return self._cores

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        cores = lent_cores(self._path, time.monotonic())
        if cores != self._cores:
            move(self._pid, cores or self._own)
            self._cores = cores

    def wait(self) -> None:
        """Wait for about the next look, or for the end."""
        self._ended.wait(_LOOK_EVERY_S)

    @property
    def has_ended(self) -> bool:
        """Whether the process is followed no more."""
        return self._ended.is_set()

    def end(self) -> None:
        """Follow it no more."""
        self._ended.set()
        self._thread.join()
