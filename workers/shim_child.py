"""Start the job's process exactly as ordered: its arguments, directory, environment and cores, and nothing else of ours.

An order arrives; a pid leaves, or StartFailed with the exit code a shell would give (127 not found, 126 not executable).
Standard library only: this is part of the shim.
"""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from typing import Any, NoReturn

from workers import shim_tree

_STAGES = ("cores", "cwd", "exec")


class StartFailed(Exception):
    """The process could not be started; nothing of it runs."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.reason = reason


def start(order: dict[str, Any], output: int) -> int:
    """Start the ordered command with stdout and stderr on `output`; its pid, once exec has succeeded. Raises StartFailed."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _become(order, output, parent, theirs)
    os.close(theirs)
    # The pipe closes by itself when exec succeeds; what comes through it is the stage and errno of a failure.
    with os.fdopen(ours, "rb") as pipe:
        fault = pipe.read()
    if fault:
        os.waitpid(pid, 0)
        stage, number = fault.decode().split()
        raise _explain(order, stage, int(number))
    return pid


def _become(order: dict[str, Any], output: int, parent: int, fault: int) -> NoReturn:
    stage = _STAGES[0]
    try:
        os.setsid()
        shim_tree.die_with(parent)
        _plain_signals()
        if order.get("cores"):
            os.sched_setaffinity(0, order["cores"])
        stage = _STAGES[1]
        os.chdir(order["cwd"])
        stage = _STAGES[2]
        _plain_files(output)
        os.execvpe(order["command"][0], order["command"], order["env"])  # noqa: S606 - no shell is meant
    except OSError as error:
        os.write(fault, f"{stage} {error.errno or errno.EINVAL}".encode())
    except BaseException:  # noqa: BLE001 - this is the job's process: whatever happened, our code must not go on in it
        os.write(fault, f"{stage} {errno.EINVAL}".encode())
    os._exit(126)


def _plain_signals() -> None:
    """Python ignores SIGPIPE and SIGXFSZ, and exec would hand that on."""
    for number in signal.valid_signals():
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _plain_files(output: int) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    # Every other descriptor of ours closes at exec: Python opens them all so.


def _explain(order: dict[str, Any], stage: str, number: int) -> StartFailed:
    program, why = order["command"][0], os.strerror(number)
    if stage == "cores":
        return StartFailed(126, f"it could not be pinned to cores {order['cores']}: {why}")
    if stage == "cwd":
        return StartFailed(126, f"its working directory {order['cwd']} cannot be entered: {why}")
    if number == errno.ENOENT:
        if os.path.exists(os.path.join(order["cwd"], program)):  # noqa: PTH110, PTH118
            return StartFailed(127, f"{program} exists, but the interpreter named in its first line does not")
        return StartFailed(127, f"{program} was not found")
    if number == errno.ENOEXEC:
        return StartFailed(126, f"{program} is not a program: it lacks a first line such as #!/usr/bin/env python3")
    return StartFailed(126, f"{program} cannot be executed: {why}")
