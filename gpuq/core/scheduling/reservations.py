"""Which devices are reserved in a pass, for which jobs, and how that changes.

The reservations themselves are part of the state. A pass begins with them, drops those that have lost their point, and may make
new ones; `decide` turns the difference into actions. There are two reasons for a reservation (see `ReservationReason`):

- A job has waited beyond its patience. As many devices of a host as it needs are drained: no other job joins them, and the job
  starts when the last resident has ended. Jobs that could use the same devices have them reserved one after the other, in the
  policy's order: that keeps the cost of empty devices low, and suffices against starvation. A job that waits for a long drain
  holds up no other, though: another has further devices drained if it would have to wait beyond its patience once more, and has
  those that are reserved if it will be done with them first.
- A policy has running jobs preempted for a waiting one. What they leave must not go to a third job in between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from itertools import chain
from math import inf

from gpuq.core.scheduling.admit import refusal
from gpuq.core.scheduling.bookings import BookedDevices
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.device_index import DeviceModel, device_model
from gpuq.core.scheduling.drain import devices_to_drain, is_clearly_less, known_remaining_s, remaining_s
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.patience import is_beyond_patience, longest_s, own_patience_s
from gpuq.core.state.actions import EndReservation, Reserve
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.device import DeviceId
from gpuq.core.state.index import scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.reservation import Reservation, ReservationReason
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule


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
        self._dropped: set[JobId] = set()
        # Needs for which nothing was reserved in this pass, so that each is looked at once.
        self._turned_down: set[object] = set()
        # The overdue jobs that were tried in this pass and have nothing reserved.
        self._in_line: list[Job] = []
        self._servers: dict[object, AbstractSet[DeviceId]] = {}
        if self.by_job:
            self._review()

    @property
    def overdue(self) -> list[Reservation]:
        """The reservations for jobs that waited beyond their patience."""
        return [r for r in self.by_job.values() if r.reason is ReservationReason.OVERDUE]

    def is_open_to(self, job: Job, device: DeviceId) -> bool:
        """Whether the device is not reserved, or reserved for this job."""
        reservation = self._cache.device_index.reserved.get(device)
        return reservation is None or self._may_use(job, reservation)

    def could_serve(self, job: Job, device: DeviceId) -> bool:
        """Whether the job could start on the device once its residents have gone, as far as is known now."""
        return self.is_open_to(job, device) and self._would_admit(job, device)

    def devices_free_in_s(self, job: Job) -> float | None:
        """In how many seconds the devices that the job would have drained are empty at the earliest, as far as is known; None
        where there are none on which it could start."""
        best = self._best(job)
        if best is None:
            return None
        residents = self._residents(best)
        known = (known_remaining_s(one, self._state.jobs[one.id.job], self._now) or 0.0 for one in residents)
        return max(known, default=0.0)

    def note_not_started(self, job: Job) -> None:
        """The policy would start this job and no device admits it: once it is overdue, it has devices reserved in its turn."""
        usable = next((reservation for reservation in self.overdue if self._may_use(job, reservation)), None)
        if usable is not None:
            self._tried.add(usable.job)
        elif self._is_overdue(job):
            self._reserve_in_turn(job)

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

    def end_by_launch(self, job: JobId) -> None:
        """The job got devices, so those that were reserved for it are no more."""
        if job in self.by_job:
            self._drop(job)

    def update(self, placed: AbstractSet[JobId]) -> Iterator[EndReservation | Reserve]:
        """After the last proposal: drop the reservations that have lost their point, and return the actions that change those of
        the state into the rest. `placed` got their devices: a launch ends the reservation of its job by itself."""
        for reservation in list(self.by_job.values()):
            if reservation.reason is ReservationReason.OVERDUE:
                # A reservation for a job that the policy does not even try would keep devices empty for nothing.
                job = self._state.jobs[reservation.job]
                tried = job.id in self._tried or self._cache.was_put_off(scheduling_class(job))
                useless = not tried or self._comes_later(job) or len(reservation.devices) < job.device_count
            else:
                # Once the devices are empty, the policy could start the job on them in this pass.
                snapshots = self._cache.device_index.snapshots
                useless = all(snapshots[device].is_empty for device in reservation.devices)
            if useless or reservation.job in placed:
                self._drop(reservation.job)
        before, after = self._state.reservations, self.by_job
        for job_id, old in before.items():
            # One that was dropped and made again first lets its devices go: another may have got them.
            if job_id not in placed and (job_id not in after or (job_id in self._dropped and after[job_id] != old)):
                yield EndReservation(job_id)
        yield from (Reserve(new) for job_id, new in after.items() if before.get(job_id) != new)

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
        """Whether the job waited beyond its patience, and nothing says yet that devices are not reserved for such jobs now."""
        if self._now - job.waits_since <= self._limits.patience_s or self._comes_later(job) or job.id in self.by_job:
            return False
        if self._need(job) in self._turned_down or self._cache.never_fits(job) is not None:
            return False
        return is_beyond_patience(job, self._cache, self._limits, self._now)

    def _comes_later(self, job: Job) -> bool:
        """Whether jobs of others come first until it has waited longer."""
        return self._now - job.waits_since < self.after_s.get(job.owner, 0.0)

    def _review(self) -> None:
        """Begin a pass: choose the devices of overdue jobs again, and drop preemptions that were overtaken."""
        for job_id, reservation in sorted(self.by_job.items()):
            if reservation.reason is ReservationReason.OVERDUE:
                job = self._state.jobs[job_id]
                pool = {device for device in self._pool(job) if self.is_open_to(job, device)}
                devices = self._drain(job, pool)
                if devices is None:
                    self._drop(job_id)
                elif not pool.issuperset(reservation.devices) or self._are_nearer(devices, reservation.devices):
                    self._set(Reservation(job_id, devices, ReservationReason.OVERDUE))
            elif not all(map(self._is_being_freed, reservation.devices)):
                self._drop(job_id)

    def _are_nearer(self, devices: Collection[DeviceId], reserved: Collection[DeviceId]) -> bool:
        """Whether devices are nearer to being empty than those that are reserved: clearly sooner, and fewer attempts have to end.
        On open devices new attempts start, and the longer an attempt has run, the longer it is expected to run on. So
        by the times alone the reservation would move from host to host, and start again each time."""
        fewer = len(self._residents(devices)) < len(self._residents(reserved))
        return fewer and is_clearly_less(self._drained_in_s(devices), self._drained_in_s(reserved))

    def _residents(self, devices: Iterable[DeviceId]) -> Collection[Attempt]:
        return {a.id: a for device in devices for a in self._state.residents_of(device)}.values()

    def _is_being_freed(self, device: DeviceId) -> bool:
        """Whether nothing runs there but jobs that are being stopped, and it can be used then. Their ends are not heard of while
        the host is silent. A host that starts no jobs tries again within a minute."""
        if any(resident.stopping is None for resident in self._state.residents_of(device)):
            return False
        return self._cache.device_index.snapshots[device].unusable in {None, Rule.NO_STARTS}

    def _reserve_in_turn(self, job: Job) -> None:
        """Reserve devices for an overdue job, unless others that could use the same ones have their turn before it."""
        rivals = [rival for rival in self.overdue if self._are_rivals(job, rival)]
        devices = None
        if all(is_clearly_less(self._least_patience_s(job), self._drained_in_s(rival.devices)) for rival in rivals):
            pool = self._pool(job)
            if self._drain(job, pool) is None:
                # Without those given in this pass it would have none, and jobs behind it would fill what was drained for it.
                pool = self._pool(job, with_given=True)
            devices = self._further_devices(job, pool, rivals) or self._devices_meanwhile(job, pool, rivals)
        if devices is None:
            self._turned_down.add(self._need(job))
            self._in_line.append(job)
            return
        for rival in rivals:
            self._give_up(rival, devices)
        self._set(Reservation(job.id, devices, ReservationReason.OVERDUE))
        self._tried.add(job.id)

    def _are_rivals(self, job: Job, reservation: Reservation) -> bool:
        """Whether the job could use devices that are reserved, and wait for."""
        if not self._given.isdisjoint(reservation.devices):
            return False
        return any(self._would_admit(job, device) for device in reservation.devices)

    def _least_patience_s(self, job: Job) -> float:
        """How long the drain of a rival has to take at least: most jobs that wait for their turn need no further look."""
        lasts_s = longest_s(job, self._cache)
        return min(
            own_patience_s(job, self._cache, self._limits), self._limits.patience_s if lasts_s is None else lasts_s
        )

    def _further_devices(
        self, job: Job, pool: AbstractSet[DeviceId], rivals: Iterable[Reservation]
    ) -> tuple[DeviceId, ...] | None:
        """Devices that are not reserved, where those that are would keep the job waiting for clearly longer than its patience;
        None where there are too few."""
        devices = self._drain(job, (device for device in pool if self.is_open_to(job, device)))
        if devices is None or not self._ends_before_those_in_line(job, pool, devices):
            return None
        waits_s = self._drained_in_s(devices) + own_patience_s(job, self._cache, self._limits)
        long = all(is_clearly_less(waits_s, self._drained_in_s(rival.devices)) for rival in rivals)
        return devices if long else None

    def _devices_meanwhile(
        self, job: Job, pool: AbstractSet[DeviceId], rivals: Iterable[Reservation]
    ) -> tuple[DeviceId, ...] | None:
        """Devices that the job will have left again before the jobs they are reserved for could start; None if there are none."""
        lasts_s = longest_s(job, self._cache)

        def patience_s(rival: Reservation) -> float:
            """How long the drain of a rival has to take so that the job may have its devices before."""
            if lasts_s is not None:
                return lasts_s
            # It could take longer than the drain, so it has to come first in the policy's order as well.
            return inf if rival.job in self._tried else self._limits.patience_s

        patient = [rival for rival in rivals if is_clearly_less(patience_s(rival), self._drained_in_s(rival.devices))]
        taken = {device for reservation in patient for device in reservation.devices}
        devices = self._drain(job, (device for device in pool if device in taken or self.is_open_to(job, device)))
        if devices is None or not self._ends_before_those_in_line(job, pool, devices):
            return None
        drained_s = self._drained_in_s(devices)
        ends_s = ((drained_s + patience_s(rival), self._drained_in_s(rival.devices)) for rival in rivals)
        return devices if all(is_clearly_less(done_s, least_s) for done_s, least_s in ends_s) else None

    def _ends_before_those_in_line(self, job: Job, pool: AbstractSet[DeviceId], devices: Collection[DeviceId]) -> bool:
        """Whether it delays no job that was tried before it and waits for its turn."""
        ahead = [
            best for other in self._in_line if not pool.isdisjoint(self._pool(other)) if (best := self._best(other))
        ]
        if not all(self._given.isdisjoint(best) for best in ahead):
            return False  # when these will be free is known in the next pass
        lasts_s = longest_s(job, self._cache) if ahead else None
        done_s = inf if lasts_s is None else self._drained_in_s(devices) + lasts_s
        return all(is_clearly_less(done_s, self._drained_in_s(best)) for best in ahead)

    def _best(self, job: Job) -> tuple[DeviceId, ...] | None:
        """The devices that the job would have drained if no others were; some may have been given in this pass."""
        return self._drain(job, self._pool(job, with_given=True))

    def _drained_in_s(self, devices: Iterable[DeviceId]) -> float:
        """In how many seconds these devices are expected to be empty."""
        return max(map(self._remaining_s, self._residents(devices)), default=0.0)

    def _remaining_s(self, attempt: Attempt) -> float:
        return remaining_s(attempt, self._state.jobs[attempt.id.job], self._now)

    def _drain(self, job: Job, devices: Iterable[DeviceId]) -> tuple[DeviceId, ...] | None:
        snapshots = self._cache.device_index.snapshots
        return devices_to_drain(job, (snapshots[device] for device in devices), self._remaining_s)

    def _pool(self, job: Job, *, with_given: bool = False) -> AbstractSet[DeviceId]:
        """The devices that could serve the job once they are empty, those that are reserved for other overdue jobs too."""
        reserved = self._cache.device_index.reserved
        return {
            device
            for device in self._servers_of(job)
            if (with_given or device not in self._given)
            and (
                device not in reserved
                or reserved[device].reason is ReservationReason.OVERDUE
                or reserved[device].job == job.id
            )
        }

    def _servers_of(self, job: Job) -> AbstractSet[DeviceId]:
        """The devices that could serve the job once they are empty, reserved or not. Looked up once in a pass for each need."""
        need = self._need(job)
        found = self._servers.get(need)
        if found is None:
            with_room = (row[:count] for row, count in zip(self._emptied.values(), self._room_for(job), strict=True))
            devices = (device for _, device in chain.from_iterable(with_room))
            found = self._servers[need] = frozenset(one for one in devices if self._would_admit(job, one))
        return found

    def _would_admit(self, job: Job, device: DeviceId) -> bool:
        if self._booked.refusal(job, device) is not None:
            return False
        snapshot = self._cache.device_index.snapshots[device]
        alone = self._cache.forecast_alone(job, snapshot.device)
        return refusal(job, alone, snapshot.emptied, self._limits) is None

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
        # The last made comes last: it may have devices that others have let go.
        self.by_job.pop(reservation.job, None)
        self.by_job[reservation.job] = reservation
        self._cache.device_index.reserve(self.by_job.values())

    def _give_up(self, reservation: Reservation, devices: Collection[DeviceId]) -> None:
        """Let another job have these devices. The others stay closed until the end of the pass, as to all tried before in it."""
        left = tuple(device for device in reservation.devices if device not in devices)
        if not left:
            self._drop(reservation.job)
        elif len(left) < len(reservation.devices):
            self._set(replace(reservation, devices=left))

    def _drop(self, job: JobId) -> None:
        del self.by_job[job]
        self._dropped.add(job)
        self._cache.device_index.reserve(self.by_job.values())
