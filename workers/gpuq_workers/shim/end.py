"""How an attempt ended, in gpuq's words: what is known of its end arrives, one `ending` with its exit code and a sentence leaves.

The evidence in the order of its weight: exit code 0 is a success, whatever was printed; the kernel's OOM killer; the exceptions
that the program ended with, or where there is none its last lines (`shim.text`, `shim.words`); the signal. The words are those of
`gpuq.core.state.attempt.JobEnd`; a test holds them together. Standard library only: this is part of the shim.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress

from gpuq_workers.shim.text import Said, read
from gpuq_workers.shim.words import (
    DEVICE_FAILED,
    DRIVER_ERROR,
    EXITED,
    HOST_OUT_OF_MEMORY,
    KILLED,
    OUT_OF_MEMORY,
    SAID,
    VANISHED,
    WORDS,
)

# A program that crashes gets one of these from the kernel for what it did; all others come from somebody.
_OWN_FAULT = frozenset(
    {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS}
    | {signal.SIGPIPE, signal.SIGALRM, signal.SIGXFSZ}
)
# Exit codes above 128 that shells and launchers hand on for a process that was killed under them.
_HANDED_ON = frozenset(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))
# The kernel kills in the moment in which it counts; a program that lost a process to it may take a while to give up.
_AT_ONCE_S, _LATELY_S = 2.0, 60.0
_LONGEST_QUOTE = 200


class JobEnd:
    """The three things that are said about an end."""

    def __init__(self, ending: str, exit_code: int | None, reason: str) -> None:
        self.ending = ending
        self.exit_code = exit_code
        self.reason = reason


class Evidence:
    """What is known of a process that nobody of ours ended.

    `exit_code` is 128+n for signal n; `signalled` tells a signal from an exit code that only looks like one. `tail` is the end of
    the output. `oom_kill_s` says how many seconds ago the kernel's OOM killer struck, None if it did not. `has_gpu` is None
    where that is not known: without one, it was the host's memory, and no driver was to serve it.
    """

    def __init__(
        self,
        exit_code: int,
        tail: bytes = b"",
        *,
        signalled: bool = False,
        oom_kill_s: float | None = None,
        has_gpu: bool | None = None,
    ) -> None:
        self.exit_code = exit_code
        self.tail = tail
        self.signalled = signalled
        self.oom_kill_s = oom_kill_s
        self.has_gpu = has_gpu


def classify(evidence: Evidence) -> JobEnd:
    """The ending of a process that nobody of ours ended. Never raises."""
    code = evidence.exit_code
    if code == 0:
        return JobEnd(EXITED, 0, "ended with exit code 0")
    if code == 128 + signal.SIGKILL and _within(evidence.oom_kill_s, _AT_ONCE_S):
        return JobEnd(HOST_OUT_OF_MEMORY, code, "the kernel killed it: the machine or its cgroup had no memory left")
    killed = _was_killed(evidence)
    said = read(evidence.tail)
    # Who was killed did not end by what had been printed before, unless it was printed in that moment.
    found = _complaint(said) if not killed or (said.raised and said.after == 0) else None
    if found is not None:
        return _of_words(evidence, *found)
    if not killed and _within(evidence.oom_kill_s, _LATELY_S) and _matching(VANISHED, said.raised):
        return JobEnd(HOST_OUT_OF_MEMORY, code, "the kernel killed one of its processes: no memory was left")
    last = b"" if killed else _last_exception(said)
    return JobEnd(KILLED if killed else EXITED, code, _describe(code) + (f": {_quote(last)}" if last else ""))


def exit_code_of(status: int) -> int:
    """128+n for signal n, else the exit code, from what waitpid gave."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _was_killed(evidence: Evidence) -> bool:
    if evidence.signalled:
        return evidence.exit_code - 128 not in _OWN_FAULT
    return evidence.exit_code in _HANDED_ON


def _of_words(evidence: Evidence, ending: str, line: bytes) -> JobEnd:
    code, quote = evidence.exit_code, _quote(line)
    if ending == KILLED:
        if _within(evidence.oom_kill_s, _LATELY_S):
            return JobEnd(HOST_OUT_OF_MEMORY, code, f"the kernel killed one of its processes for memory: {quote}")
        return JobEnd(KILLED, code, f"one of its processes was killed: {quote}")
    if evidence.has_gpu is False and ending in (DRIVER_ERROR, DEVICE_FAILED):
        return JobEnd(EXITED, code, f"{_describe(code)}: it looked for a GPU, but has none here: {quote}")
    if evidence.has_gpu is False and ending == OUT_OF_MEMORY:
        ending = HOST_OUT_OF_MEMORY
    return JobEnd(ending, code, f"{ending}: {quote}")


def _complaint(said: Said) -> tuple[str, bytes] | None:
    """The first row of the table that fits, and the line it fits."""
    for ending, where, pattern, _ in WORDS:
        line = _matching(pattern, said.raised)
        if line is None and where == SAID:
            line = _matching(pattern, said.lines)
        if line is not None:
            return ending, line
    return None


def _last_exception(said: Said) -> bytes:
    """The first line of the exception that it ended with, `ConnectionError: ...`; empty without one."""
    return said.raised[0].strip().partition(b"\n")[0].strip() if said.raised else b""


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
