"""Where may this job go? Places worth a verdict, best first: those that it fits by what is foretold, and that did not refuse it.

Arrives: what is known, the limits, what is kept and what was given in this pass. Leaves: places for a single job, whole gangs of
places for others. Where a place refused jobs like this one, and nothing about it changed, it is left out; where all of them did,
only what changed since is gone through. Ignores what a pair costs: admission asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from math import inf

from gpuq.core.scheduling.admit import DeviceSnapshot, load_limit, may_share, needed_memory
from gpuq.core.scheduling.cache import ClassMemo, PassCache
from gpuq.core.scheduling.device_index import Entry
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.reservations import Reservations
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.forecast import UNKNOWN
from gpuq.core.state.index import DeviceClass, device_class, scheduling_class
from gpuq.core.state.job import Job

_NONE: frozenset[DeviceId] = frozenset()
# One place in so many has the memory: then sorting these is cheaper than passing by the others.
_FEW = 8


@dataclass(slots=True)
class _Row:
    """Places in an order; `start` is where those begin that nobody got in this pass."""

    entries: Sequence[Entry]
    start: int = 0


class Candidates:
    """The places of one pass. `given` grows as the pass goes on."""

    def __init__(self, cache: PassCache, limits: Limits, keeping: Reservations, given: AbstractSet[DeviceId]) -> None:
        self._cache, self._limits, self._keeping, self._given = cache, limits, keeping, given
        self._device_index = cache.device_index
        whole = _Row(self._device_index.idle), _Row(self._device_index.shareable)
        self._rows: dict[int | None, tuple[_Row, _Row]] = {None: whole}

    def of(self, job: Job) -> Iterator[tuple[DeviceSnapshot, ...]]:
        """Each choice as many devices of one host as the job needs: idle ones, then shared ones, at most `candidates_per_job` of
        each."""
        memo = self._cache.memo(scheduling_class(job))
        return self._gangs(job, memo) if job.device_count > 1 else self._singles(job, memo)

    def shared(self, job: Job) -> list[DeviceSnapshot]:
        """Busy places where the job fits by memory, the least loaded first; by utilisation too where no pair is known."""
        memo = self._cache.memo(scheduling_class(job))
        if job.device_count == 1:
            return list(islice(self._places_to_join(job, memo), self._limits.candidates_per_job))
        hosts = (self._usable(job, memo, host) for host in self._hosts(job, memo))
        gangs = islice(
            (snapshots for snapshots in hosts if len(snapshots) >= job.device_count), self._limits.candidates_per_job
        )
        return [snapshot for snapshots in gangs for snapshot in snapshots if snapshot.residents]

    def busy(self, taken: Iterable[DeviceId]) -> DeviceSnapshot | None:
        """Any place with residents, those that are open first; `taken` are all devices with residents."""
        open_ones = (entry[-1] for entry in self._device_index.shareable)
        for device in (*islice(open_ones, 1), *taken):
            if device not in self._given and device not in self._keeping.devices:
                return self._device_index.all[device]
        return None

    # --- singles ---------------------------------------------------------------------------------------------------

    def _singles(self, job: Job, memo: ClassMemo) -> Iterator[tuple[DeviceSnapshot, ...]]:
        whole = True
        for options in (self._idle_options(job, memo), self._places_to_join(job, memo)):
            for number, snapshot in enumerate(options):
                if number == self._limits.candidates_per_job:
                    whole = False
                    break
                yield (snapshot,)
                whole = whole and self._says_no(memo, snapshot.device.id)
        if whole:
            memo.exhausted_at = self._device_index.turn
            memo.refusals.clear()

    def _idle_options(self, job: Job, memo: ClassMemo) -> Iterator[DeviceSnapshot]:
        return (
            snapshot for snapshot in self._walk(job, memo, self._rows_since(job, memo)[0]) if _fits_alone(job, snapshot)
        )

    def _places_to_join(self, job: Job, memo: ClassMemo) -> Iterator[DeviceSnapshot]:
        needs = self._needs_to_share(job, memo)
        if not needs:
            return
        room = max(room for room, _ in needs.values())
        for snapshot in self._walk(job, memo, self._busy_row(job, memo, min(memory for _, memory in needs.values()))):
            if snapshot.committed_utilization > room:
                return  # the places only get more loaded from here on
            if self._may_join(snapshot, needs):
                yield snapshot

    def _busy_row(self, job: Job, memo: ClassMemo, needed: int) -> _Row:
        """The open busy places to go through: those with so much memory, where they are few among many."""
        count = self._device_index.with_room(needed)
        if memo.exhausted_at is None and count * _FEW < len(self._device_index.free):
            roomy = self._device_index.free[len(self._device_index.free) - count :]
            return self._sorted(device for _, device in roomy)[1]
        return self._rows_since(job, memo)[1]

    def _may_join(self, snapshot: DeviceSnapshot, needs: dict[DeviceClass, tuple[float, int]]) -> bool:
        need = needs.get(device_class(snapshot.device))
        if need is None or snapshot.committed_utilization > need[0]:
            return False
        return need[1] <= snapshot.device.total_memory * (1 - self._limits.memory_headroom) - snapshot.committed_memory

    def _needs_to_share(self, job: Job, memo: ClassMemo) -> dict[DeviceClass, tuple[float, int]]:
        """By sort of device: what may be committed there already, in percent, and the memory needed. Without an end to the
        former where pairs are known; sorts where the job may not share, or is not known, are left out."""
        if memo.needs is None:
            needs, asked = {}, True
            for sort, device in self._device_index.device_classes.items():
                forecast = self._cache.forecast_alone(job, device)
                asked = asked and forecast is not UNKNOWN
                peak, needed = forecast.peak_utilization_pct, needed_memory(job, forecast)
                if peak is not None and needed is not None and may_share(job, forecast):
                    most = load_limit(job.max_slowdown, self._limits, self._limits.residents_per_device)
                    needs[sort] = inf if forecast.pairs_known else most - peak, needed
            if not asked:
                return needs
            memo.needs = needs
        return memo.needs

    def _walk(self, job: Job, memo: ClassMemo, walked: _Row) -> Iterator[DeviceSnapshot]:
        """The places of a row that nobody got and that are not known to refuse."""
        given, kept, all_places = self._given, self._keeping.from_job(job), self._device_index.all
        entries = walked.entries
        while walked.start < len(entries) and entries[walked.start][-1] in given:
            walked.start += 1
        for number in range(walked.start, len(entries)):
            device = entries[number][-1]
            if device not in given and device not in kept and not self._says_no(memo, device):
                yield all_places[device]

    def _rows_since(self, job: Job, memo: ClassMemo) -> tuple[_Row, _Row]:
        """All open places, or those that changed after the likeness had seen them all; what is kept for it always."""
        turn = memo.exhausted_at
        if turn is not None and self._keeping.is_for(job):
            devices = dict.fromkeys((*self._device_index.changed_since(turn), *sorted(self._keeping.devices)))
            return self._sorted(devices)
        if turn not in self._rows:
            self._rows[turn] = self._sorted(self._device_index.changed_since(turn or 0))
        return self._rows[turn]

    def _sorted(self, devices: Iterable[DeviceId]) -> tuple[_Row, _Row]:
        idle, shareable = self._device_index.entries(devices)
        return _Row(idle), _Row(shareable)

    def _says_no(self, memo: ClassMemo, device: DeviceId) -> bool:
        judged = memo.refusals.get(device)
        return judged is not None and self._device_index.changed[device] <= judged

    # --- gangs -----------------------------------------------------------------------------------------------------

    def _gangs(self, job: Job, memo: ClassMemo) -> Iterator[tuple[DeviceSnapshot, ...]]:
        """On each host the best of its places; without those that were refused, as long as enough are left."""
        whole = True
        for host in self._hosts(job, memo):
            while len(snapshots := self._usable(job, memo, host)) >= job.device_count:
                gang = tuple(snapshots[: job.device_count])
                yield gang
                if not any(self._says_no(memo, snapshot.device.id) for snapshot in gang):
                    whole = False
                    break
        if whole:
            memo.exhausted_at = self._device_index.turn

    def _hosts(self, job: Job, memo: ClassMemo) -> list[HostId]:
        """Hosts with enough open places: where it shares the fewest, and then where it leaves the fewest idle."""
        count, open_of, idle_of = job.device_count, self._device_index.open_of, self._device_index.idle_of
        changed = None if memo.exhausted_at is None else self._changed_hosts(memo.exhausted_at, job)
        found = [h for h, devices in open_of.items() if len(devices) >= count and (changed is None or h in changed)]
        return sorted(found, key=lambda host: (max(0, count - idle_of.get(host, 0)), idle_of.get(host, 0)))

    def _changed_hosts(self, turn: int, job: Job) -> set[HostId]:
        own = self._keeping.devices if self._keeping.is_for(job) else _NONE
        return {
            self._device_index.all[device].device.host for device in (*self._device_index.changed_since(turn), *own)
        }

    def _usable(self, job: Job, memo: ClassMemo, host: HostId) -> list[DeviceSnapshot]:
        """The open places of a host that may do for one device of a gang, idle ones first, then the least loaded."""
        kept, needs = self._keeping.from_job(job), self._needs_to_share(job, memo)
        idle, shareable = self._device_index.entries(self._device_index.open_of.get(host, ()))
        found = []
        for device in (entry[-1] for entry in (*idle, *shareable)):
            snapshot = self._device_index.all[device]
            if device in self._given or device in kept or self._says_no(memo, device):
                continue
            if self._may_join(snapshot, needs) if snapshot.residents else _fits_alone(job, snapshot):
                found.append(snapshot)
        return found


def _fits_alone(job: Job, snapshot: DeviceSnapshot) -> bool:
    return (job.declared_memory or 0) + snapshot.committed_memory <= snapshot.device.total_memory
