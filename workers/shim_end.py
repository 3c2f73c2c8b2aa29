"""How an attempt ended, in gpuq's words: exit status, end of output and traces of the kernel's OOM killer arrive, one
`ending` with its exit code and a sentence leaves.

The words are those of `gpuq.core.attempt.Ending`; a test holds them together. Standard library only: this is part of the shim.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress

EXITED = "exited"
TIMED_OUT = "timed out"
OUT_OF_MEMORY = "out of memory"
STOPPED = "stopped"
NEVER_STARTED = "never started"
LOST = "lost"

# What PyTorch, TensorFlow, JAX, CuPy and the CUDA libraries print when a GPU has no memory left.
_GPU_OOM = re.compile(
    rb"CUDA out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    rb"|Resource exhausted: OOM|OOM when allocating"
)
# The last line of a Python traceback: MemoryError, numpy's _ArrayMemoryError and the like.
_HOST_OOM = re.compile(rb"^(?:[\w.]*\.)?\w*MemoryError\b.*$")
_LONGEST_QUOTE = 200


class Ending:
    """The three things that are said about an end."""

    def __init__(self, ending: str, exit_code: int | None, reason: str) -> None:
        self.ending = ending
        self.exit_code = exit_code
        self.reason = reason


def of_own_accord(exit_code: int, output_tail: bytes, killed_for_memory: bool) -> Ending:
    """The ending of a process that nobody stopped. `exit_code` is 128+n for signal n."""
    if exit_code == 0:
        return Ending(EXITED, 0, "ended with exit code 0")
    line = _memory_complaint(output_tail)
    if line is not None:
        return Ending(OUT_OF_MEMORY, exit_code, f"out of memory: {line}")
    if killed_for_memory and exit_code == 128 + signal.SIGKILL:
        return Ending(
            OUT_OF_MEMORY, exit_code, "the kernel killed it because the machine or its cgroup had no memory left"
        )
    return Ending(EXITED, exit_code, _describe(exit_code))


def exit_code_of(status: int) -> int:
    """128+n for signal n, else the exit code, from what waitpid gave."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


class OomWatch:
    """Notices that the kernel's OOM killer struck in the last few seconds, in our cgroup where that can be read."""

    def __init__(self) -> None:
        self._path = _events_file()
        self._before = self._count = self._read()

    def look(self) -> None:
        """Remember the counter; called every second or so."""
        self._before, self._count = self._count, self._read()

    def struck(self) -> bool:
        """Whether the counter rose since the look before the last."""
        now = self._read()
        return now is not None and self._before is not None and now > self._before

    def _read(self) -> int | None:
        with suppress(OSError, ValueError), open(self._path, "rb") as file:  # noqa: PTH123
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
        return None


def _events_file() -> str:
    with suppress(OSError), open("/proc/self/cgroup") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("0::"):
                path = f"/sys/fs/cgroup{line[3:].strip()}/memory.events"
                if os.path.exists(path):  # noqa: PTH110
                    return path
    return "/proc/vmstat"


def _memory_complaint(tail: bytes) -> str | None:
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    for line in reversed(lines):
        if _GPU_OOM.search(line):
            return _quote(line)
    if b"Traceback (most recent call last)" in tail:
        for line in reversed(lines[-5:]):
            if _HOST_OOM.match(line):
                return _quote(line)
    return None


def _quote(line: bytes) -> str:
    text = "".join(c if c.isprintable() else "?" for c in line.decode(errors="replace"))
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def _describe(exit_code: int) -> str:
    if exit_code > 128:
        with suppress(ValueError):
            return f"ended by signal {exit_code - 128} ({signal.Signals(exit_code - 128).name})"
    return f"ended with exit code {exit_code}"
