"""What a policy is: a function from the board of one pass to proposals, in the order it prefers them.

A policy may propose anything; the core has the last word: `admit` on who starts where, so that no policy can promise memory
twice, and on who may be stopped: only a job whose submitter allowed it. A policy that is a generator sees the board change
as its proposals are admitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device
from gpuq.core.state.job import Job


@dataclass(frozen=True, slots=True)
class Proposal:
    """This job on these devices of one host, all or nothing."""

    job: Job
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """Stop this attempt, so that `job` can have its devices; the stopped job waits again and keeps the work it saved."""

    attempt: AttemptId
    job: Job


class Policy(Protocol):
    """Proposes; never disposes."""

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """Proposals, best first."""
        ...


def propose_nothing(context: SchedulingContext) -> Iterator[Proposal | Eviction]:  # noqa: ARG001 - it is a policy
    """The policy of a gpuq that is about to end its jobs: nothing new starts."""
    return iter(())
