"""What `shim.unit` does once its job runs: everything that a shim does, with orders that come as signals.

Standard library only, as all of the shim.
"""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import suppress
from types import FrameType
from typing import Any

from gpuq_workers.shim import child, classify, lease, tree
from gpuq_workers.shim import error_patterns as endings
from gpuq_workers.shim.main import NOT_STARTED, Shim
from gpuq_workers.shim.record import OnceFile


class UnitShim(Shim):
    """The account of the services cannot write where the job can, so no order comes as a file.

    `begun` is the pid of the job's process, why there is none, or None if its lease does not let it start; `output` the pipe that
    it writes to; `strangers` are the children that we had before.
    """

    _end_within_s = 0.0  # PID 1 passes the exit code on

    def __init__(
        self,
        folder: str,
        order: dict[str, Any],
        begun: int | child.StartFailed | None,
        output: int,
        strangers: frozenset[bytes] | None,
    ) -> None:
        super().__init__(folder, OnceFile(folder, "exit.json"), order)
        self._begun, self._output, self._strangers = begun, output, strangers
        self._save_asked = False
        # As long as it is held, systemd-tmpfiles removes nothing in the folder, however old: tmpfiles.d(5).
        self._folder_lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._folder_lock, fcntl.LOCK_SH)

    def serve(self) -> int:
        """See Shim."""
        if self._begun is None:
            self._write_end(self._unstarted(self._lease.reason))
            return NOT_STARTED
        return super().serve()

    def _may_begin(self) -> bool:
        return True  # it has begun

    def _unstarted(self, reason: str) -> classify.JobEnd:
        """It is lost, as one whose lease ends. That it never started is not believed of what a job can write."""
        return classify.JobEnd(endings.LOST, NOT_STARTED, reason)

    def _keep_folder(self) -> None:
        """Nothing: the job cannot remove it, and its absence would start nothing."""

    def _start(self) -> None:
        assert self._begun is not None
        if isinstance(self._begun, child.StartFailed):
            raise self._begun
        self._main, self._started_uptime = self._begun, lease.uptime()

    def _listen(self) -> None:
        super()._listen()
        signal.signal(signal.SIGUSR1, self._on_save)
        signal.raise_signal(signal.SIGCHLD)  # the job may have ended before anything listened

    def _on_save(self, _number: int, _frame: FrameType | None) -> None:
        self._save_asked = True
        self._look_at = 0.0

    def _stop_order(self) -> tuple[str, bool] | None:
        return ("asked to save its work and make room", True) if self._save_asked else None

    def _has_left(self) -> bool:
        if self._exit_code is None:
            return True
        left = child.children()
        if left is None or self._strangers is None:
            # A look at every process, of which there may be thousands; the unit's private view of /proc does not show PAM's.
            return bool(tree.below(os.getpid()))
        return bool(left - self._strangers)

    def _press(self, now: float) -> None:
        # PID 1 has sent SIGTERM to every process. A second one ends many a program that saves its work at the first.
        if not self._signalled_to_end or now >= self._kill_at:
            super()._press(now)
