"""Record how the unit of an attempt ended: PID 1 runs this as the account of the services when the unit is over (`ExecStopPost`).

    python -I -S shim/unit_end.py ATTEMPT_DIR JOB_DIR

No process of gpuq need be alive. The exit status is PID 1's (SERVICE_RESULT, EXIT_CODE, EXIT_STATUS; systemd.exec(5)). The job
can write into JOB_DIR, so what its shim left there is only believed where it agrees: it may explain the exit status and cannot
change it. Standard library only, as all of the shim.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

if __name__ == "__main__":
    # Appended, so that no file beside ours shadows a module of the standard library.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))  # noqa: PTH100, PTH118, PTH120

from gpuq_workers.shim import error_patterns as endings
from gpuq_workers.shim.classify import JobEnd
from gpuq_workers.shim.record import LARGEST_ORDER_BYTES, OnceFile, read_json, storable

_EXPLAINED = frozenset(
    {endings.EXITED, endings.KILLED, endings.TIMED_OUT, endings.OUT_OF_MEMORY, endings.HOST_OUT_OF_MEMORY}
    | {endings.DRIVER_ERROR, endings.DEVICE_FAILED, endings.STOPPED, endings.LOST}
)
# Exit codes that systemd itself gives a process which it could not set up: systemd.exec(5).
_SYSTEMDS_OWN = range(200, 246)
# Those that concern the job's user alone, and what was refused.
_USERS = {
    216: "this host could not set the groups of its user",
    217: "this host does not know its user",
    224: "PAM refused a session to its user, whose account may have expired",
}
_NOT_EXECUTABLE = 126


def main(arguments: list[str]) -> int:
    """Write `exit.json` into the attempt's folder unless it is there. Returns 0."""
    folder, job = arguments
    with suppress(FileExistsError, FileNotFoundError):
        record = OnceFile(folder, "exit.json")
        end = end_of(os.environ, os.path.lexists(f"{folder}/stop.json"), job)
        record.publish(
            ending=end.ending,
            exit_code=end.exit_code,
            reason=storable(end.reason),
            at=time.time(),
            lasted_s=_lasted_s(f"{folder}/order.json"),
        )
    return 0


def end_of(environ: Mapping[str, str], ordered: bool, job: str) -> JobEnd:
    """The end by PID 1's words, explained by the shim's where both give one exit code. `ordered`: gpuq has stopped it."""
    code = _exit_code(environ.get("EXIT_CODE", ""), environ.get("EXIT_STATUS", ""))
    claimed = _claimed(f"{job}/exit.json")
    if claimed is not None and code is not None and claimed.exit_code == code:
        if ordered and claimed.ending in (endings.LOST, endings.STOPPED):
            return JobEnd(endings.STOPPED, code, "stopped by order")
        if ordered or claimed.ending != endings.STOPPED:
            return claimed
        return JobEnd(endings.EXITED, code, claimed.reason)
    if ordered:
        return JobEnd(endings.STOPPED, code, "stopped by order; it did not end in time and was killed")
    if environ.get("SERVICE_RESULT") == "oom-kill":
        return JobEnd(endings.HOST_OUT_OF_MEMORY, code, "the kernel killed it: its unit had no memory left")
    if environ.get("SERVICE_RESULT") == "timeout":
        return JobEnd(endings.TIMED_OUT, code, "it ran longer than its limit and was killed")
    if code is None:
        return JobEnd(endings.LOST, None, "its unit ended without an exit status")
    how = f"{environ.get('EXIT_CODE', '?')} {environ.get('EXIT_STATUS', '?')}"
    if code in _SYSTEMDS_OWN and environ.get("EXIT_CODE") == "exited" and not os.path.lexists(f"{job}/started.json"):
        why = _USERS.get(code, "its unit could not be set up")
        return JobEnd(endings.EXITED, _NOT_EXECUTABLE, f"{why} ({how}); `journalctl` on its host says more")
    return JobEnd(endings.KILLED, code, f"its supervisor, gpuq's shim process, was ended: {how}")


def _exit_code(how: str, status: str) -> int | None:
    """A shell's exit code of what PID 1 reports: `exited 3`, `killed TERM`, `dumped SEGV`; None if it reports nothing."""
    if how == "exited" and status.isdigit():
        return int(status) & 0xFF
    with suppress(KeyError):
        return 128 + signal.Signals[f"SIG{status}"]
    return None


def _claimed(path: str) -> JobEnd | None:
    """What the shim wrote, or the job in its place; None if that is no end."""
    try:
        found: Any = read_json(path)
        end = JobEnd(str(found["ending"]), int(found["exit_code"]), str(found["reason"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return end if end.ending in _EXPLAINED else None


def _lasted_s(order: str) -> float | None:
    """Seconds since the unit was asked for, which also count while the machine is suspended; None if that is not known."""
    try:
        began = float(read_json(order, LARGEST_ORDER_BYTES)["unit"]["uptime"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
