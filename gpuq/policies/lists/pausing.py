"""Which devices does a job get whose residents stand still while it runs? Only where the limit `pauses` allows any.

A job goes where the fewest device-seconds stand still: its residents together hold no more devices than it asks for, and are
expected to run longer than it does. Otherwise waiting for them would be cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import inf

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.pauses import pausable_s, pause_needed_s
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import HostId
from gpuq.core.state.job import Job
from gpuq.policies.lists.size import Sizes


class PausingPass:
    """The rule during one pass."""

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context
        self._sizes = Sizes(context)

    def proposals(self, job: Job) -> Iterator[Proposal]:
        """The devices to give to the job, best first, until it has some."""
        if not self._pausable_s or job.host_count > 1:
            return
        device = next(iter(self._context.device_classes))
        needed_s = pause_needed_s(job, self._context.forecast_alone(job, device), self._context.limits)
        if needed_s is None or needed_s > max(self._pausable_s.values()):
            return
        for choice in self._choices(job, needed_s):
            yield Proposal(job, tuple(snapshot.device for snapshot in choice), pausing=True)
            if self._context.placed(job):
                return

    def _choices(self, job: Job, needed_s: float) -> Iterator[tuple[DeviceSnapshot, ...]]:
        """As many devices of one host as the job needs, for each host that has them; those first whose residents
        have most left."""
        found: list[tuple[float, DeviceSnapshot]] = []
        for snapshot in self._context.snapshots:
            allowed_s = min((self._allowed_s(job, one) for one in snapshot.residents), default=inf)
            if allowed_s >= needed_s and snapshot.reserved_for is None and not self._context.given(snapshot.device.id):
                found.append((allowed_s, snapshot))
        hosts: dict[HostId, list[DeviceSnapshot]] = {}
        for _, snapshot in sorted(found, key=lambda one: -one[0]):
            chosen = hosts.setdefault(snapshot.device.host, [])
            if self._context.judge_in_pause(job, snapshot.device.id).admitted:
                chosen.append(snapshot)
            if len(chosen) == job.device_count:
                if self._held(chosen) <= job.device_count:
                    yield tuple(chosen)
                hosts[snapshot.device.host] = []

    def _held(self, choice: Sequence[DeviceSnapshot]) -> int:
        """How many devices the residents of these hold, and the idle ones of these."""
        residents = {one.id: len(one.devices) for snapshot in choice for one in snapshot.residents}
        return sum(residents.values()) + sum(not snapshot.residents for snapshot in choice)

    def _allowed_s(self, job: Job, resident: Attempt) -> float:
        """For how long the resident may stand still; 0 if it will probably end before the job would."""
        allowed_s = self._pausable_s.get(resident.id, 0.0)
        if not allowed_s:
            return 0.0
        left, of_job = self._sizes.remaining_of_attempt(resident), self._sizes.remaining(job)
        if left is None or of_job is None:
            return allowed_s
        return allowed_s if left / len(resident.devices) > of_job / job.device_count else 0.0

    @cached_property
    def _pausable_s(self) -> dict[AttemptId, float]:
        context = self._context
        if not context.limits.pauses:
            return {}
        attempts = context.state.attempts.values()
        found = ((one.id, pausable_s(context.state, one, context.limits, context.now)) for one in attempts)
        return {attempt: seconds for attempt, seconds in found if seconds}
