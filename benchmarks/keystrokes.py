"""From a key to its echo: `gpuq run --pty cat` in a real terminal, through the command, the API and the job's shim."""

from __future__ import annotations

import os
import pty
import select
import time
from statistics import quantiles

from benchmarks.site import BIN, Gpuq
from benchmarks.table import Row

KEYS = 500
_PAUSE_S = 0.01
_WITHIN_S = 60.0


def run() -> list[Row]:
    """Median and 95th percentile over single keys with a pause between them."""
    # What else this machine does must not keep the job from starting.
    with Gpuq(devices_cpu_count=1, admission_utilization_pct=400, admission_memory_headroom=0.95) as gpuq:
        pid, keyboard = pty.fork()
        if pid == 0:
            os.execve(str(BIN / "gpuq"), ["gpuq", "run", "--pty", "--", "sh", "-c", "echo began; exec cat"], gpuq.env)
        try:
            _until(keyboard, b"began")
            milliseconds = [1000 * _echo(keyboard) for _ in range(KEYS)]
        finally:
            os.close(keyboard)
            os.waitpid(pid, 0)
    twentieths = quantiles(milliseconds, n=20)
    return [
        Row("a key of `gpuq run --pty` to its echo, median", twentieths[9], "ms", 10),
        Row("  95th percentile", twentieths[18], "ms"),
    ]


def _echo(keyboard: int) -> float:
    """Seconds from one key to its echo."""
    time.sleep(_PAUSE_S)
    began = time.perf_counter()
    os.write(keyboard, b"x")
    _until(keyboard, b"x")
    return time.perf_counter() - began


def _until(keyboard: int, text: bytes) -> None:
    shown, deadline = b"", time.monotonic() + _WITHIN_S
    while text not in shown:
        if not select.select([keyboard], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"{text!r} was not shown, but {shown!r}")
        shown += os.read(keyboard, 4096)
