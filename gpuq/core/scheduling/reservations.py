"""For whom devices are kept: one job at a time that has waited too long, so that nobody is starved, nor a gang.

Arrives: the state, what is known, the limits, who got a device in this pass. Leaves: which devices nobody else gets. What is kept
lasts over passes, in `known.kept`, for as long as the policy wants to start the job and cannot. `drain` says which devices.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from gpuq.core.scheduling.cache import PassCache, Reservation
from gpuq.core.scheduling.drain import drained
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import DeviceId
from gpuq.core.state.index import scheduling_class
from gpuq.core.state.job import Job
from gpuq.core.state.state import State

_NONE: frozenset[DeviceId] = frozenset()


class Reservations:
    """What is kept in one pass."""

    def __init__(
        self, state: State, cache: PassCache, limits: Limits, now: float, given: AbstractSet[DeviceId]
    ) -> None:
        self._state, self._cache, self._limits, self._now, self._given = state, cache, limits, now, given
        self._undrainable: set[tuple[int | None, int]] = set()
        self._uphold()
        self._wanted = False

    @property
    def devices(self) -> frozenset[DeviceId]:
        """What is kept, for whomever."""
        return self._cache.kept.devices if self._cache.kept else _NONE

    def is_for(self, job: Job) -> bool:
        """Whether what is kept is for this job, or one like it."""
        kept = self._cache.kept
        return kept is not None and kept.scheduling_class == scheduling_class(job)

    def from_job(self, job: Job) -> frozenset[DeviceId]:
        """What this job may not have."""
        return _NONE if self.is_for(job) else self.devices

    def want(self, job: Job) -> None:
        """The policy would start this job and cannot: after long enough, devices are kept for it."""
        if self.is_for(job):
            self._wanted = True
        elif self.is_overdue(job):
            self._keep_for(job)

    def is_overdue(self, job: Job) -> bool:
        """Whether devices are to be kept for this job: it waited too long, they are for nobody else, and some would do."""
        waited = self._now - job.submitted_at
        if self._cache.kept is not None or waited <= self._limits.patience_s or waited <= self._patience_s(job):
            return False
        return (job.declared_memory, job.device_count) not in self._undrainable and not self._cache.never_fits(job)

    def end(self) -> None:
        """The policy has proposed all it wants: nothing is kept for a job that it would not start."""
        if self._cache.kept is not None and not self._wanted:
            self._keep(None)

    def _patience_s(self, job: Job) -> float:
        """How long it is to wait before devices are kept for it, by its own device-time; by the sort that is quickest."""
        device_classes = self._cache.device_index.device_classes.values()
        foretold = (self._cache.forecast_alone(job, device).duration_p50_s for device in device_classes)
        known = [seconds for seconds in foretold if seconds is not None]
        return self._limits.patience_ratio * job.device_count * min(known, default=0.0)

    def _uphold(self) -> None:
        """Choose again what is kept, where anything changed: the same, unless other devices will be free sooner."""
        kept = self._cache.kept
        if kept is None:
            return
        job = self._state.index.waiting.get(kept.job)
        if job is None:
            self._keep(None)
        elif kept.turn != self._cache.device_index.turn:
            self._keep_for(job)

    def _keep_for(self, job: Job) -> None:
        snapshots = self._cache.device_index
        open_to_it = (snapshot for device, snapshot in snapshots.all.items() if device not in self._given)
        devices = drained(job, open_to_it)
        if not devices:
            self._undrainable.add((job.declared_memory, job.device_count))
        self._keep(Reservation(job.id, scheduling_class(job), devices, snapshots.turn) if devices else None)
        self._wanted = True

    def _keep(self, kept: Reservation | None) -> None:
        """Who could not have a device while it was kept looks at it again."""
        released = self.devices - (kept.devices if kept else _NONE)
        if released:
            self._cache.device_index.bump(sorted(released))
        self._cache.kept = replace(kept, turn=self._cache.device_index.turn) if kept else None
