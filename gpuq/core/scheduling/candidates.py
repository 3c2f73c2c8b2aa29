"""Which devices may a job have, and in which order are they tried?

Idle devices come first, then shared ones, the least used first. A cheap test by memory and utilisation leaves out most devices;
`admit` judges the others. Judgements are kept in the `PassCache`, and a class of jobs that no device admitted looks only at the
devices that changed since. Both only save time: the candidates are the same without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from math import inf

from gpuq.core.scheduling.admit import DeviceSnapshot, load_limit, may_share, needed_memory
from gpuq.core.scheduling.bookings import BookedDevices
from gpuq.core.scheduling.cache import ClassConclusions, PassCache, SharingNeeds
from gpuq.core.scheduling.device_index import Entry, device_model
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.reservations import Reservations
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.index import DeviceClass, SchedulingClass, device_class, scheduling_class
from gpuq.core.state.job import Job

# Where at most one shared device in so many has enough memory, sorting those few is cheaper than passing over the others.
_FEW = 8
# Beside the residents of so many devices per candidate wanted a job may be tried that all of them refuse.
_TRIALS_PER_CANDIDATE = 4

Choice = tuple[DeviceSnapshot, ...]


@dataclass(slots=True)
class _Row:
    """Entries of the device index in their order, but for devices that were among the first `given` of this pass."""

    entries: Sequence[Entry]
    given: int = 0


class Candidates:
    """The candidates of one pass. `given` are the devices that jobs got in this pass; `admits` judges a job on a device. Jobs of
    classes that were tried before the last pass was cut short are tried on idle devices only."""

    def __init__(
        self,
        cache: PassCache,
        limits: Limits,
        reservations: Reservations,
        booked: BookedDevices,
        given: AbstractSet[DeviceId],
        admits: Callable[[Job, DeviceId], bool],
    ) -> None:
        self._cache, self._limits, self._reservations, self._given = cache, limits, reservations, given
        self._booked, self._tried = booked, cache.tried or frozenset[SchedulingClass]()
        self._judge = admits
        self._index = cache.device_index
        self._open = _Row(self._index.idle), _Row(self._index.shareable)
        self._rows_since: dict[tuple[int, int], tuple[_Row, _Row]] = {}

    def none_is_new(self, conclusions: ClassConclusions) -> bool:
        """Whether no device admitted these jobs at the last look, and none can have become a candidate since."""
        return conclusions.exhausted_at is not None and conclusions.exhausted_at >= self._index.opened

    def choices(self, job: Job) -> Iterator[Choice]:
        """What admits this job, best first: each choice is as many devices as the job needs, of as many hosts.

        For a job on one device at most `candidates_per_job` idle and as many shared ones.
        """
        conclusions = self._cache.of(job)
        if self.none_is_new(conclusions):
            return
        yield from self._gangs(job, conclusions) if job.device_count > 1 else self._singles(job, conclusions)

    def best(self, job: Job) -> Choice | None:
        """The first devices that pass the cheap test, idle ones first, whether they admit the job or not."""
        conclusions = self._cache.of(job)
        if job.device_count == 1:
            idle = (snapshot for snapshot in self._available(job, self._open[0]) if _fits_idle(job, snapshot))
            found = next(chain(idle, self._shared_that_fit(job, conclusions, self._open[1])), None)
            return None if found is None else (found,)
        gang: list[DeviceSnapshot] = []
        for host in self._hosts(job, None):
            usable = list(self._usable(job, conclusions, host))[: job.per_host]
            if len(usable) == job.per_host:
                gang += usable
            if len(gang) == job.device_count:
                return tuple(gang)
        return None

    def occupied(self, job: Job, taken: Iterable[DeviceId]) -> DeviceSnapshot | None:
        """A device with residents, to say why it refuses the job: the least used shareable one, else the first of `taken`."""
        shareable = (entry[-1] for entry in self._index.shareable[:1])
        allowed, least = self._allowed(job), job.declared_memory or 0
        for device in chain(shareable, taken):
            snapshot = self._index.snapshots[device]
            may_ever = device in allowed and snapshot.device.total_memory >= least
            if may_ever and device not in self._given and self._reservations.is_open_to(job, device):
                return snapshot
        return None

    def booked(self, job: Job) -> DeviceSnapshot | None:
        """The first open device that only a booking of another user keeps from the job."""
        allowed = self._allowed(job)
        for row in (self._index.idle, self._index.shareable) if self._index.booked else ():
            for *_, device in row:
                if device in allowed and device not in self._given and self._booked.refusal(job, device) is not None:
                    return self._index.snapshots[device]
        return None

    def reserved(self, job: Job, would_admit: Callable[[DeviceId], bool]) -> DeviceSnapshot | None:
        """The first device that only a reservation for another job keeps from the job; for a job on several devices, only where
        with such ones its host would have enough."""
        by_host: defaultdict[HostId, list[DeviceSnapshot]] = defaultdict(list)
        for device in self._index.reserved:
            is_free = device not in self._given and device in self._allowed(job)
            if is_free and not self._reservations.is_open_to(job, device) and would_admit(device):
                snapshot = self._index.snapshots[device]
                if job.per_host == 1:
                    return snapshot
                by_host[snapshot.device.host].append(snapshot)
        for host, devices in by_host.items():
            lacking = job.per_host - len(devices)
            if lacking <= 0 or len(list(islice(self._usable(job, self._cache.of(job), host), lacking))) == lacking:
                return devices[0]
        return None

    def bookings_may_change(self, job: Job, device: DeviceId | None = None) -> bool:
        """Whether bookings may later give the job another answer, on this device or on any that it may have."""
        devices = self._index.booked if device is None else (device,)
        return any(one in self._allowed(job) and self._booked.may_change(job, one) for one in devices)

    def is_too_small(self, job: Job, device: DeviceId) -> bool:
        """Whether the job is known to need more memory than the device has, by more than on other devices."""
        lacking = self._cache.lacking(job)
        return bool(lacking) and device_model(self._index.snapshots[device].device) in lacking

    def shareable(self, job: Job) -> Iterator[DeviceSnapshot]:
        """All shared devices that pass the cheap test for a job on one device, the least used first."""
        return self._with_forecasts(job, self._shared_that_fit(job, self._cache.of(job), self._open[1]))

    def shared_places(self, job: Job) -> Iterator[list[DeviceSnapshot]]:
        """Groups of devices that pass the cheap test, of which the job might have as many as it needs: for a job on one device
        each shared one alone, else all of a host. As many as a search may look at."""
        conclusions = self._cache.of(job)
        if job.device_count == 1:
            most = _TRIALS_PER_CANDIDATE * self._limits.candidates_per_job
            found = islice(self._shared_that_fit(job, conclusions, self._open[1]), most)
            yield from ([snapshot] for snapshot in self._with_forecasts(job, found))
        elif self._sharing_needs(job, conclusions):
            hosts = self._hosts(job, None)[: self._limits.candidates_per_job]
            yield from (list(self._usable(job, conclusions, host)) for host in hosts)

    def _admits(self, job: Job, conclusions: ClassConclusions, device: DeviceId) -> bool:
        judged = conclusions.judged.get(device)
        if judged is not None and self._index.changed[device] <= judged[0]:
            return judged[1]
        admitted = self._judge(job, device)
        conclusions.judged[device] = self._index.revision, admitted
        return admitted

    # --- jobs on one device ------------------------------------------------------------------------------------------

    def _singles(self, job: Job, conclusions: ClassConclusions) -> Iterator[Choice]:
        found, idle_only = False, scheduling_class(job) in self._tried
        idle, shared = self._rows(conclusions)
        rows = [self._idle_that_fit(job, idle)]
        if not idle_only:
            rows.append(self._with_forecasts(job, self._shared_that_fit(job, conclusions, shared)))
        for snapshots in rows:
            admitted = (one for one in snapshots if self._admits(job, conclusions, one.device.id))
            for snapshot in islice(admitted, self._limits.candidates_per_job):
                found = True
                yield (snapshot,)
        if not found and not idle_only:
            self._note_exhausted(conclusions)

    def _note_exhausted(self, conclusions: ClassConclusions) -> None:
        """No device admits these jobs now."""
        conclusions.exhausted_at = self._index.revision
        conclusions.judged.clear()  # not needed again until these devices change

    def _with_forecasts(self, job: Job, snapshots: Iterator[DeviceSnapshot]) -> Iterator[DeviceSnapshot]:
        """The same devices. Of the next few at a time the forecasts are asked for, since many at once are far cheaper."""
        while ahead := list(islice(snapshots, self._limits.candidates_per_job)):
            self._cache.ask_beside((job,), ahead)
            # What the caller did with the first may have taken the others.
            yield from (snapshot for snapshot in ahead if self._is_available(job, snapshot.device.id))

    def _idle_that_fit(self, job: Job, row: _Row) -> Iterator[DeviceSnapshot]:
        """The idle devices with room for the job: those first that have most of the memory that it is known to need, then those
        that foreign processes use least."""
        tolerated, lacking = self._cache.tolerated(job), self._cache.lacking(job)
        most = max(tolerated.values(), default=-1)
        for lack in sorted({0, *lacking.values()}):
            for used, _, device in self._not_given(row):
                if used > most:
                    break  # the row is sorted by this
                snapshot = self._index.snapshots[device]
                model = device_model(snapshot.device)
                if lacking.get(model, 0) == lack and used <= tolerated[model] and self._is_available(job, device):
                    yield snapshot

    def _rows(self, conclusions: ClassConclusions) -> tuple[_Row, _Row]:
        """The open devices; only those that changed since all refused."""
        since = conclusions.exhausted_at
        if since is None:
            return self._open
        key = since, self._index.revision  # a reservation that ends in this pass opens its devices to the jobs behind
        if key not in self._rows_since:
            self._rows_since[key] = self._as_rows(self._index.changed_since(since))
        return self._rows_since[key]

    def _as_rows(self, devices: Iterable[DeviceId]) -> tuple[_Row, _Row]:
        idle, shareable = self._index.entries(devices)
        return _Row(idle), _Row(shareable)

    def _available(self, job: Job, row: _Row) -> Iterator[DeviceSnapshot]:
        """The devices of a row that the job may have, that no job got in this pass and that are neither reserved for others nor
        booked by others."""
        snapshots = self._index.snapshots
        return (snapshots[device] for *_, device in self._not_given(row) if self._is_available(job, device))

    def _not_given(self, row: _Row) -> Sequence[Entry]:
        """The entries of a row, of devices given in this pass at most one in eight: passing over them would be most of a pass."""
        if _FEW * (len(self._given) - row.given) > len(row.entries):
            row.entries = [entry for entry in row.entries if entry[-1] not in self._given]
            row.given = len(self._given)
        return row.entries

    def _is_available(self, job: Job, device: DeviceId) -> bool:
        if device in self._given or (job.constraints is not None and device not in self._allowed(job)):
            return False
        if device in self._index.reserved and not self._reservations.is_open_to(job, device):
            return False
        return device not in self._index.booked or self._booked.refusal(job, device) is None

    def _allowed(self, job: Job) -> Container[DeviceId]:
        """The devices that meet the job's constraints."""
        return self._index.snapshots if job.constraints is None else self._cache.allowed(job.constraints)

    def _shared_that_fit(self, job: Job, conclusions: ClassConclusions, row: _Row) -> Iterator[DeviceSnapshot]:
        needs = self._sharing_needs(job, conclusions)
        if not needs:
            return
        least_memory = min(need.memory for need in needs.values())
        if row is self._open[1] and self._index.count_with_memory(least_memory) * _FEW < len(row.entries):
            row = self._as_rows(self._index.with_memory(least_memory))[1]
        most_used_pct = max(need.most_used_pct for need in needs.values())
        # Most devices are passed over, so the quickest tests come first.
        for used_pct, _, device in self._not_given(row):
            if used_pct > most_used_pct:
                return  # the row is sorted by this
            free = self._index.free_memory[device]
            if free >= least_memory and self._is_available(job, device):
                snapshot = self._index.snapshots[device]
                need = needs.get(device_class(snapshot.device))
                if need is not None and used_pct <= need.most_used_pct and need.memory <= free:
                    yield snapshot

    def _sharing_needs(self, job: Job, conclusions: ClassConclusions) -> dict[DeviceClass, SharingNeeds]:
        """What the job needs to share, by device class; without the classes on which it may not share.

        Where slowdowns of pairs are known or tried, they decide and not the utilisation, so any utilisation will do.
        """
        if conclusions.needs is not None:
            return conclusions.needs
        needs: dict[DeviceClass, SharingNeeds] = {}
        for of_class, device in self._index.device_classes.items():
            forecast = self._cache.forecast_alone(job, device)
            peak, memory = forecast.peak_utilization_pct, needed_memory(job, forecast)
            if peak is not None and memory is not None and may_share(job, forecast):
                limit = load_limit(job.max_slowdown, self._limits, self._limits.residents_per_device)
                any_load = forecast.pairs_known or self._limits.trials
                needs[of_class] = SharingNeeds(inf if any_load else limit - peak, memory)
        conclusions.needs = needs
        return needs

    # --- gangs -------------------------------------------------------------------------------------------------------

    def _gangs(self, job: Job, conclusions: ClassConclusions) -> Iterator[Choice]:
        """On each host the first devices that admit the job. A gang is admitted where each of its devices admits it. One over
        several hosts gets the first of them that have enough, then the next."""
        found, idle_only = False, scheduling_class(job) in self._tried
        gang: list[DeviceSnapshot] = []
        for host in self._hosts(job, conclusions.exhausted_at):
            here: list[DeviceSnapshot] = []
            usable = self._usable(job, conclusions, host)
            if idle_only:
                usable = (snapshot for snapshot in usable if not snapshot.residents)
            for snapshot in self._with_forecasts(job, usable):
                if self._admits(job, conclusions, snapshot.device.id):
                    here.append(snapshot)
                    if len(here) == job.per_host:
                        gang += here
                        break
            if len(gang) == job.device_count:
                found = True
                yield tuple(gang)
                gang = []
        if not found and not idle_only:
            self._note_exhausted(conclusions)

    def _hosts(self, job: Job, since: int | None) -> list[HostId]:
        """Hosts with enough open devices, of which one changed `since` then: where the fewest that it gets are too small first,
        then where it shares the fewest, and among those where it leaves the fewest idle."""
        index, count = self._index, job.per_host
        found = [host for host, devices in index.open_of.items() if len(devices) >= count]
        if since is not None and job.host_count == 1:  # a host that changed may complete others that did not
            changed = {index.snapshots[device].device.host for device in index.changed_since(since)}
            found = [host for host in found if host in changed]

        lacking = self._cache.lacking(job)

        def preference(host: HostId) -> tuple[int, int, int, int]:
            idle, open_ = index.idle_of.get(host, 0), index.open_of[host]
            small = sum(device_model(index.snapshots[device].device) in lacking for device in open_) if lacking else 0
            return max(0, count - len(open_) + small), max(0, count - idle), idle, index.host_order[host]

        return sorted(found, key=preference)

    def _usable(self, job: Job, conclusions: ClassConclusions, host: HostId) -> Iterator[DeviceSnapshot]:
        """The open devices of a host that pass the cheap test for one device of a gang: idle ones, then the least used; last
        those that are too small."""
        needs = self._sharing_needs(job, conclusions)
        idle, shared = (self._available(job, row) for row in self._as_rows(self._index.open_of.get(host, ())))
        if lacking := self._cache.lacking(job):
            idle = iter(sorted(idle, key=lambda snapshot: lacking.get(device_model(snapshot.device), 0)))
        for row in (idle, shared):
            for snapshot in row:
                if not snapshot.residents:
                    fits = _fits_idle(job, snapshot)
                else:
                    need = needs.get(device_class(snapshot.device))
                    fits = (
                        need is not None
                        and snapshot.committed_utilization <= need.most_used_pct
                        and need.memory <= self._index.free_memory[snapshot.device.id]
                    )
                if fits:
                    yield snapshot


def _fits_idle(job: Job, snapshot: DeviceSnapshot) -> bool:
    return (job.declared_memory or 0) + snapshot.committed_memory <= snapshot.device.total_memory
