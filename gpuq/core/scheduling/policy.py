"""What a policy is: a function from the scheduling context of one pass to proposals, best first.

A policy may propose anything, because `decide` checks every proposal: `admit` must allow each launch, so no policy can promise
memory twice, and only a running job whose submitter allowed preemption is stopped. A policy that is a generator sees the context
change as its proposals are granted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.job import Job


@dataclass(frozen=True, slots=True)
class Proposal:
    """This job on these devices of one host, all or nothing. `pausing`: the residents of the devices stand still meanwhile;
    `trial`: to try pairs that are refused only because too little was measured."""

    job: Job
    devices: tuple[Device, ...]
    pausing: bool = False
    trial: bool = False


@dataclass(frozen=True, slots=True)
class Eviction:
    """Stop this attempt to make room for `job`. The stopped job waits again and keeps the work it saved.

    `devices` are reserved for `job` until it has been tried on them: the devices of this attempt, and for a job that needs
    several those of other evictions and idle ones. Empty: nothing is reserved, and the first job in the queue gets them.
    """

    attempt: AttemptId
    job: Job
    devices: tuple[DeviceId, ...] = ()


class Policy(Protocol):
    """Proposes launches and preemptions; `decide` grants or refuses them."""

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """Proposals, best first."""
        ...


def propose_nothing(context: SchedulingContext) -> Iterator[Proposal | Eviction]:  # noqa: ARG001 - it is a policy
    """The policy of a paused dispatcher: no job starts."""
    return iter(())
