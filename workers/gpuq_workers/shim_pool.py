"""Shims started ahead of time, each waiting on stdin for the folder of its attempt.

Starting an interpreter takes longer than everything else between an order and the job's first line, so one shim always waits.
If this process ends, its pipe closes and the waiting shim ends too; shims that serve an attempt continue.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from gpuq.adapters.process import Identity, identify

_ENDS_WITHIN_S = 2.0
_WARM_AFTER_S = 0.1
SHIM = Path(__file__).parent / "shim" / "main.py"
"""The program of a shim, as its command line names it."""


class WaitingShim:
    """A shim that has no attempt yet."""

    def __init__(self, log: Path) -> None:
        """Start it; its own error output goes to `log`. Raises OSError."""
        with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SHIM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd="/",
                env={},
                start_new_session=True,
            )
        identity = identify(self._process.pid)
        if identity is None:
            raise OSError("the shim ended at once")
        self.identity: Identity = identity

    def hand(self, folder: Path) -> None:
        """Give it its attempt. Raises OSError if it is gone."""
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), os.fsencode(folder) + b"\n")
        self.dismiss()

    def dismiss(self) -> None:
        """Close its stdin: a shim that has no attempt yet ends."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def end(self) -> None:
        """Dismiss it and wait for its end; only for one without an attempt."""
        self.dismiss()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def is_gone(self) -> bool:
        """Whether it has ended; if so, its exit status is read, so that it does not stay a zombie."""
        return self._process.poll() is not None


class ShimPool:
    """One waiting shim, and those that serve attempts and must be reaped. Safe to use from two threads."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._waiting: WaitingShim | None = None
        self._serving: list[WaitingShim] = []

    def warm(self) -> None:
        """Start a waiting shim if there is none, and reap those that have ended. Raises OSError."""
        with self._lock:
            self._serving = [shim for shim in self._serving if not shim.is_gone()]
            if self._waiting is None or self._waiting.is_gone():
                self._waiting = WaitingShim(self._log)

    def warm_soon(self) -> None:
        """The same after 0.1 s: an interpreter that starts now would slow down the job that has just been handed over."""
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(_WARM_AFTER_S, self._try_to_warm)
            self._timer.daemon = True
            self._timer.start()

    def take(self) -> WaitingShim:
        """A shim for one attempt. Raises OSError if none can be started."""
        with self._lock:
            self.warm()
            shim, self._waiting = self._waiting, None
            assert shim is not None
            self._serving.append(shim)
            return shim

    def close(self) -> None:
        """End the idle shim; those that supervise a job go on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        with self._lock:
            if self._waiting is not None:
                self._waiting.end()
                self._waiting = None

    def _try_to_warm(self) -> None:
        # Without a waiting shim, `take` starts one for the next attempt and raises what is wrong.
        with suppress(OSError):
            self.warm()
