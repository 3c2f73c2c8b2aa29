"""Everything that gpuq does, in the imperative. Actions are frozen values.

Actions are applied to the state before they are performed: memory is promised at once and nothing launches twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.job import JobId
from gpuq.core.state.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Launch:
    """Start this attempt on its devices, all or nothing."""

    attempt: Attempt
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SetPendingReason:
    """Let these jobs wait, for this reason. Only sent when the reason is new."""

    jobs: tuple[JobId, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Stop:
    """End this attempt, its whole process tree, politely first."""

    attempt: AttemptId
    reason: StopReason


@dataclass(frozen=True, slots=True)
class Revoke:
    """Never start this attempt, if you have not: its host does not report it. A running one is left alone."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class Requeue:
    """Put an ended job back among the waiting, alone on a device from now on if `alone`."""

    job: JobId
    alone: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Archive:
    """This job has ended for good: it leaves the state and stays in the record."""

    job: JobId


Action = Launch | SetPendingReason | Stop | Revoke | Requeue | Archive
