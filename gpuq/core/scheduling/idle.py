"""Jobs that hold devices and do not use them: they are warned, then opened to partners or stopped, if site and job allow it.

A host says how long an attempt has used none of its devices. What is not known is no idleness. The start of a job does not count,
because it loads data and compiles, and phases on the host's processor are bridged by the time before the warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuq.core.scheduling.limits import Range
from gpuq.core.state.actions import OpenToPartners, Stop, WarnIdle
from gpuq.core.state.attempt import Attempt, StopReason
from gpuq.core.state.job import Job, JobState, Sharing
from gpuq.core.state.state import State


@dataclass(frozen=True, slots=True)
class IdleLimits:
    """What happens to jobs that do not use their devices."""

    warn_after_s: Annotated[float, Range(at_least=0)] = 1800.0
    """A job that used none of its devices for so long is warned: a mark in the queue, and the notification `idle`. 0: none is."""
    action: Literal["none", "share", "stop"] = "none"
    """What is done with a job that was warned and still uses none, unless it was submitted with `--idle-ok`. `share`: others may
    join it, and only the memory that it holds is promised to it."""
    act_after_s: Annotated[float, Range(at_least=0)] = 1800.0
    """Seconds from the warning to the action."""
    start_grace_s: Annotated[float, Range(at_least=0)] = 600.0
    """The first seconds of a job do not count."""


IdleAction = WarnIdle | OpenToPartners | Stop
NEVER_IDLE = IdleLimits(warn_after_s=0.0)


def idle_actions(state: State, limits: IdleLimits, heard_within_s: float, now: float) -> Iterator[IdleAction]:
    """Warnings, and what follows for jobs that were warned. A report that is older than `heard_within_s` says nothing."""
    for job in _running(state) if limits.warn_after_s else ():
        attempts = state.attempts_of(job)
        idle_s = _idle_s(attempts, limits, heard_within_s, now)
        if idle_s is None or idle_s < limits.warn_after_s:
            continue
        warned_at = attempts[0].warned_at
        if warned_at is None or warned_at < now - idle_s:  # or it was before the last use
            yield WarnIdle(attempts[0].id, idle_s)
        elif not job.idle_ok and now - warned_at >= limits.act_after_s:
            if limits.action == "stop":
                yield from (Stop(attempt.id, StopReason.IDLE) for attempt in attempts)
            elif limits.action == "share":
                yield from _opening(job, attempts[0])


def _opening(job: Job, attempt: Attempt) -> Iterator[OpenToPartners]:
    """Of a job that has its devices to itself because it is not known. One that asked for that, or ran out of memory beside a
    partner, keeps them."""
    may_share = job.sharing is Sharing.AUTO and not job.alone and not attempt.shares and attempt.gang is None
    if may_share and attempt.live_memory is not None and attempt.live_memory <= min(attempt.promised):
        yield OpenToPartners(attempt.id, attempt.live_memory)


def _running(state: State) -> Iterator[Job]:
    """The jobs that run, with all their attempts, and are not being stopped."""
    for id_ in dict.fromkeys(attempt.job for attempt in state.attempts):
        job = state.jobs[id_]
        if job.state is JobState.RUNNING and not job.cancel_requested and id_ not in state.gang_ends:
            yield job


def _idle_s(attempts: Sequence[Attempt], limits: IdleLimits, heard_within_s: float, now: float) -> float | None:
    """For how long the attempts of a job have used no device; None while one does, or where that is not known."""
    spans = []
    for one in attempts:
        heard = one.last_reported is not None and now - one.last_reported <= heard_within_s
        if one.idle_s is None or one.started_at is None or one.stopping is not None or not heard:
            return None
        spans.append(min(one.idle_s, now - one.started_at - limits.start_grace_s))
    return min(spans, default=None)
