"""Which devices are reserved in a pass, for which jobs, and how that changes.

The reservations themselves are part of the state. A pass begins with them, drops those that have lost their point, and may make
new ones; `decide` turns the difference into actions. There are two reasons for a reservation (see `ReservationReason`):

- A job has waited beyond its patience. As many devices of a host as it needs are drained: no other job joins them, and the job
  starts when the last resident has ended. One such reservation at a time keeps the cost of empty devices low, and suffices
  against starvation because jobs come to it in the policy's order.
- A policy has running jobs preempted for a waiting one. What they leave must not go to a third job in between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain

from gpuq.core.scheduling.admit import refusal
from gpuq.core.scheduling.bookings import BookedDevices
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.device_index import DeviceModel, device_model
from gpuq.core.scheduling.drain import devices_to_drain
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import EndReservation, Reserve
from gpuq.core.state.device import DeviceId
from gpuq.core.state.index import scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.reservation import Reservation, ReservationReason
from gpuq.core.state.state import State


class Reservations:
    """The reservations of one pass. `given` are the devices that jobs got in this pass; it grows as the pass goes on."""

    def __init__(
        self,
        state: State,
        cache: PassCache,
        limits: Limits,
        now: float,
        given: AbstractSet[DeviceId],
        booked: BookedDevices,
    ) -> None:
        self._booked = booked
        self._state, self._cache, self._limits, self._now, self._given = state, cache, limits, now, given
        self.by_job: dict[JobId, Reservation] = dict(state.reservations)
        # By owner, the seconds that a job must have waited at least.
        self.after_s: Mapping[str, float] = {}
        self._tried: set[JobId] = set()
        # Needs that no host can meet even when drained, so that each is looked at once in a pass.
        self._undrainable: set[object] = set()
        if self.by_job:
            self._review()

    @property
    def overdue(self) -> Reservation | None:
        """The reservation for a job that waited beyond its patience, if there is one."""
        return next((r for r in self.by_job.values() if r.reason is ReservationReason.OVERDUE), None)

    def is_open_to(self, job: Job, device: DeviceId) -> bool:
        """Whether the device is not reserved, or reserved for this job."""
        reservation = self._cache.device_index.reserved.get(device)
        return reservation is None or self._may_use(job, reservation)

    def could_serve(self, job: Job, device: DeviceId) -> bool:
        """Whether the job could start on the device once its residents have gone, as far as is known now."""
        if not self.is_open_to(job, device) or self._booked.refusal(job, device) is not None:
            return False
        snapshot = self._cache.device_index.snapshots[device]
        alone = self._cache.forecast_alone(job, snapshot.device)
        return refusal(job, alone, snapshot.emptied, self._limits) is None

    def note_not_started(self, job: Job) -> None:
        """The policy would start this job and no device admits it: once it is overdue, devices are reserved for it."""
        overdue = self.overdue
        if overdue is not None and self._may_use(job, overdue):
            self._tried.add(overdue.job)
        elif overdue is None and self._is_overdue(job):
            self._reserve_for_overdue(job)
            self._tried.add(job.id)

    def reserve_for_preemption(self, job: Job, devices: Collection[DeviceId]) -> None:
        """Reserve the devices that a policy makes room on for this job, unless they cannot be had together."""
        known = [self._state.devices[device] for device in dict.fromkeys(devices) if device in self._state.devices]
        if len(known) != len(devices) or len(known) != job.device_count or not job.spreads(known):
            return
        chosen = tuple(sorted(device.id for device in known))
        if all(device not in self._given and self.could_serve(job, device) for device in chosen):
            reserved = self._cache.device_index.reserved
            # Those of another job of its class, which is less urgent: it may use them, so it may have them.
            for overtaken in {reserved[device].job for device in chosen if device in reserved} - {job.id}:
                self._drop(overtaken)
            self._set(Reservation(job.id, chosen, ReservationReason.PREEMPTION))

    def update(self, placed: AbstractSet[JobId]) -> Iterator[EndReservation | Reserve]:
        """After the last proposal: drop the reservations that have lost their point, and return the actions that change those of
        the state into the rest. `placed` got their devices: a launch ends the reservation of its job by itself."""
        for reservation in list(self.by_job.values()):
            if reservation.reason is ReservationReason.OVERDUE:
                # A reservation for a job that the policy does not even try would keep devices empty for nothing.
                job = self._state.jobs[reservation.job]
                tried = job.id in self._tried or self._cache.was_put_off(scheduling_class(job))
                useless = not tried or self._comes_later(job)
            else:
                # The devices were empty, so the policy could start the job on them in this pass.
                useless = not any(self._state.residents.get(device) for device in reservation.devices)
            if useless or reservation.job in placed:
                self._drop(reservation.job)
        before = self._state.reservations
        yield from (EndReservation(job) for job in before if job not in self.by_job and job not in placed)
        yield from (Reserve(new) for job, new in self.by_job.items() if before.get(job) != new)

    def _may_use(self, job: Job, reservation: Reservation) -> bool:
        """Whether this job may have the devices of a reservation.

        Jobs of a scheduling class are interchangeable to admission, and a pass tries a class no further once one of its jobs was
        refused. So if only the overdue job itself could use its devices, another job of its class that the policy tries first
        would keep it from being tried.
        """
        if reservation.reason is ReservationReason.PREEMPTION:
            return job.id == reservation.job
        return scheduling_class(job) == scheduling_class(self._state.jobs[reservation.job])

    def _is_overdue(self, job: Job) -> bool:
        """Whether the job waited beyond its patience, and devices that are drained for it could serve it."""
        waited_s = self._now - job.waits_since
        if waited_s <= self._limits.patience_s or self._comes_later(job) or job.id in self.by_job:
            return False
        # By its own device-time, on the class of devices where that is shortest: a job that will hold devices for long may wait
        # for long.
        forecasts = (self._cache.forecast_alone(job, d) for d in self._cache.device_index.device_classes.values())
        durations = [forecast.duration_p50_s for forecast in forecasts if forecast.duration_p50_s is not None]
        if waited_s <= self._limits.patience_ratio * job.device_count * min(durations, default=0.0):
            return False
        return self._need(job) not in self._undrainable and self._cache.never_fits(job) is None

    def _comes_later(self, job: Job) -> bool:
        """Whether jobs of others come first until it has waited longer."""
        return self._now - job.waits_since < self.after_s.get(job.owner, 0.0)

    def _review(self) -> None:
        """Begin a pass: choose the devices of an overdue job again, and drop preemptions that were overtaken."""
        for job_id, reservation in list(self.by_job.items()):
            if reservation.reason is ReservationReason.OVERDUE:
                self._reserve_for_overdue(self._state.jobs[job_id])
            elif any(a.stopping is None for device in reservation.devices for a in self._state.residents_of(device)):
                # Something else than the jobs being stopped runs there, so the devices will not become empty.
                self._drop(job_id)

    def _reserve_for_overdue(self, job: Job) -> None:
        snapshots, own = self._cache.device_index.snapshots, self.by_job.get(job.id)
        with_room = (row[:count] for row, count in zip(self._emptied.values(), self._room_for(job), strict=True))
        near = (device for _, device in chain.from_iterable(with_room) if device not in self._given)
        devices = devices_to_drain(job, (snapshots[device] for device in near if self.could_serve(job, device)))
        if devices is not None:
            self._set(Reservation(job.id, devices, ReservationReason.OVERDUE))
        else:
            self._undrainable.add(self._need(job))
            if own is not None:
                self._drop(job.id)

    def _need(self, job: Job) -> object:
        """What decides on which devices the job could start once they are empty: where some are booked, its whole class."""
        need = (self._room_for(job), job.device_count, job.host_count, job.constraints)
        return (need, scheduling_class(job)) if self._cache.device_index.booked else need

    @cached_property
    def _emptied(self) -> dict[DeviceModel, list[tuple[int, DeviceId]]]:
        """By model, the usable devices with the bytes that foreign processes use there, the fewest first."""
        rows: defaultdict[DeviceModel, list[tuple[int, DeviceId]]] = defaultdict(list)
        for one in self._cache.device_index.snapshots.values():
            if one.unusable is None:
                rows[device_model(one.device)].append((one.emptied.committed_memory, one.device.id))
        return {model: sorted(row) for model, row in rows.items()}

    def _room_for(self, job: Job) -> tuple[int, ...]:
        """How many devices of each of these rows, its first ones, have room for the job once they are empty."""
        tolerated = self._cache.tolerated(job)
        return tuple(bisect_left(row, (tolerated[model] + 1, "")) for model, row in self._emptied.items())

    def _set(self, reservation: Reservation) -> None:
        self.by_job[reservation.job] = reservation
        self._cache.device_index.reserve(self.by_job.values())

    def _drop(self, job: JobId) -> None:
        del self.by_job[job]
        self._cache.device_index.reserve(self.by_job.values())
