"""Classify how a job ended that gpuq did not stop: an ending, its exit code and a sentence.

The evidence by weight: exit code 0 is success, whatever was printed; then the kernel's OOM killer; then the exceptions that the
program ended with, or its last lines if there is none (`shim.output_tail`, `shim.error_patterns`); then the signal. The endings
are those of `gpuq.core.state.attempt.Ending`; a test compares both. Standard library only, as all of the shim.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress

from gpuq_workers.shim.error_patterns import (
    DEVICE_FAILED,
    DRIVER_ERROR,
    EXITED,
    HOST_OUT_OF_MEMORY,
    KILLED,
    LOST_PROCESS,
    OUT_OF_MEMORY,
    PATTERNS,
    PRINTED,
)
from gpuq_workers.shim.output_tail import OutputTail, read

# Signals that the kernel sends to a program for a fault of its own; all others were sent by another process.
_OWN_FAULTS = frozenset(
    {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS}
    | {signal.SIGPIPE, signal.SIGALRM, signal.SIGXFSZ}
)
# Exit codes with which shells and launchers report that a process below them was killed.
_PASSED_ON = frozenset(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))
# The kernel counts an OOM kill as it kills; a program that lost a worker process to it may take a while to give up.
_AT_ONCE_S, _LATELY_S = 2.0, 60.0
_LONGEST_QUOTE = 200
_ERROR = re.compile(
    rb"error\b|\bfail(?:ed|ure)?\b|\bcannot\b|\bcan't\b|\bcould not\b|\bunable\b|\bnot found\b|\bno\b|\binvalid\b|\bdenied\b"
    rb"|\bmissing\b|\brequired\b|\bunrecognized\b|\bunknown\b|\brefused\b|\bnot exist\b|\bfatal\b|\babort(?:ed|ing)?\b|\bmust\b",
    re.IGNORECASE,
)


class JobEnd:
    """An ending of `gpuq.core.state.attempt.Ending` as text, the exit code (None if nothing ran), and a sentence."""

    def __init__(self, ending: str, exit_code: int | None, reason: str) -> None:
        self.ending = ending
        self.exit_code = exit_code
        self.reason = reason


def classify(
    code: int,
    output: bytes = b"",
    *,
    signalled: bool = False,
    oom_kill_s: float | None = None,
    has_gpu: bool | None = None,
) -> JobEnd:
    """The ending of a process that gpuq did not stop. Never raises, whatever the end of its `output` holds.

    `code` is 128+n for signal n; `signalled` distinguishes a signal from an exit code above 128. `oom_kill_s` is how many seconds
    ago the kernel's OOM killer struck, None if it did not. `has_gpu` is None where that is not known; a job without a GPU can
    only have run out of the host's memory, and needs no driver.
    """
    if code == 0:
        return JobEnd(EXITED, 0, "ended with exit code 0")
    if code == 128 + signal.SIGKILL and _within(oom_kill_s, _AT_ONCE_S):
        return JobEnd(HOST_OUT_OF_MEMORY, code, "the kernel killed it: the machine or its cgroup had no memory left")
    killed = code - 128 not in _OWN_FAULTS if signalled else code in _PASSED_ON
    tail = read(output)
    # What a killed process printed earlier is not how it ended, unless an exception was the last thing it printed.
    found = _first_match(tail) if not killed or (tail.raised and tail.after == 0) else None
    if found is not None:
        ending, quote = found[0], _quote(found[1])
        if ending == KILLED:
            if _within(oom_kill_s, _LATELY_S):
                return JobEnd(HOST_OUT_OF_MEMORY, code, f"the kernel killed one of its processes for memory: {quote}")
            return JobEnd(KILLED, code, f"one of its processes was killed: {quote}")
        if has_gpu is False and ending in (DRIVER_ERROR, DEVICE_FAILED):
            return JobEnd(EXITED, code, f"{_describe(code)}: it looked for a GPU, but has none here: {quote}")
        if has_gpu is False and ending == OUT_OF_MEMORY:
            ending = HOST_OUT_OF_MEMORY
        return JobEnd(ending, code, f"{ending}: {quote}")
    if not killed and _within(oom_kill_s, _LATELY_S) and _matching(LOST_PROCESS, tail.raised):
        return JobEnd(HOST_OUT_OF_MEMORY, code, "the kernel killed one of its processes: no memory was left")
    last = b"" if killed else _said(tail)
    return JobEnd(KILLED if killed else EXITED, code, _describe(code) + (f": {_quote(last)}" if last else ""))


def _said(tail: OutputTail) -> bytes:
    """The first line of the exception that the program ended with, `ConnectionError: ...`; without one its last line, where that
    reads like an error, as those of argparse, `sys.exit("no data")`, shells and the compiler of Python do."""
    if tail.raised:
        return tail.raised[0].strip().partition(b"\n")[0].strip()
    last = tail.lines[0].strip() if tail.lines else b""
    return last if _ERROR.search(last) else b""


def exit_code_of(status: int) -> int:
    """The exit code of a status from waitpid; 128+n for signal n."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _first_match(tail: OutputTail) -> tuple[str, bytes] | None:
    """The ending of the first row of PATTERNS that matches, and the line it matches; None if none does."""
    for ending, where, pattern, _ in PATTERNS:
        line = _matching(pattern, tail.raised)
        if line is None and where == PRINTED:
            line = _matching(pattern, tail.lines)
        if line is not None:
            return ending, line
    return None


def _matching(pattern: bytes, texts: list[bytes]) -> bytes | None:
    for text in texts:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            begin, end = text.rfind(b"\n", 0, found.start()) + 1, text.find(b"\n", found.end())
            return text[begin : end if end >= 0 else len(text)].strip()
    return None


def _within(ago_s: float | None, limit_s: float) -> bool:
    return ago_s is not None and ago_s <= limit_s


def _quote(line: bytes) -> str:
    text = "".join(c if c.isprintable() else "?" for c in line[: 4 * _LONGEST_QUOTE].decode(errors="replace"))
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def _describe(exit_code: int) -> str:
    if exit_code > 128:
        with suppress(ValueError):
            return f"ended by signal {exit_code - 128} ({signal.Signals(exit_code - 128).name})"
    if exit_code == 124:
        return "ended with exit code 124, as `timeout` gives it"
    return f"ended with exit code {exit_code}"
