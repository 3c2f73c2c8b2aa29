"""Job states, amounts and times as text, for `explanation` and the page. Verdicts have theirs in `gpuq.messages.verdicts`."""

from __future__ import annotations

from datetime import UTC, datetime

from gpuq.core.state.job import JobState

STATES: dict[JobState, str] = {
    JobState.PENDING: "It waits for the dispatcher to look at it.",
    JobState.HELD: "It is held; `gpuq release` lets it go on.",
    JobState.STARTING: "It is being started.",
    JobState.RUNNING: "It runs.",
    JobState.COMPLETING: "It is being stopped.",
    JobState.COMPLETED: "It completed.",
    JobState.FAILED: "It failed.",
    JobState.CANCELLED: "It was cancelled.",
    JobState.TIMEOUT: "It reached its time limit.",
    JobState.OUT_OF_MEMORY: "It ran out of memory.",
    JobState.PREEMPTED: "It was stopped for a job that goes before it.",
    JobState.NODE_FAIL: "Its host or its device went away.",
}


def memory(value: float | None) -> str:
    """Bytes on a screen: 1.5 GiB."""
    if value is None:
        return "–"
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit in ("B", "KiB") or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def duration(seconds: float | None) -> str:
    """Seconds on a screen: 45 s, 12:05 min, 3:02:11 h."""
    if seconds is None:
        return "–"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, second = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{second:02d} min"
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d} h"


def rfc3339(unix: float) -> str:
    """A moment in UTC, to the millisecond."""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rfc3339_or_none(unix: float | None) -> str | None:
    """The same for a moment that may be unknown."""
    return None if unix is None else rfc3339(unix)
