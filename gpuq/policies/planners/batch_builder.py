"""Draws up the assignment problem of one pass from the board.

Arrives: the board, the jobs that a plan is wanted for, the places it may use, and what is known of pairs. Leaves: a `Batch`.
Jobs that are alike to admission are asked about once per place. Ignores `most_devices`: a gang gets as many devices as it asks
for at least; of a host's devices, idle ones first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gpuq.core.scheduling.admit import DeviceSnapshot, admit, load_limit, needed_memory
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.device import Device, HostId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.index import DeviceClass, device_class
from gpuq.core.state.job import Job, JobId
from gpuq.policies.planners.batch import Batch, Indices, Numbers, Slot
from gpuq.policies.planners.columns import Columns
from gpuq.policies.planners.pairing import USUAL_SLOWDOWN, Needs, Newcomer, PairBook, slowdown_beside, slowdown_of

_GIB = 2**30
_SHORTEST_S = 60.0
_UNKNOWN_S = 3600.0
_PRIORITY = 10.0
_MOST_LEVELS = 4
# Pairs beyond these, the least valuable of one kind of idle device, are left out: they would only make a plan late.
_MOST_PAIRS = 20_000

Foretold = Mapping[JobId, Forecast]


def build_batch(
    context: SchedulingContext,
    jobs: Sequence[Job],
    snapshots: Iterable[DeviceSnapshot],
    book: PairBook,
    foretold: Foretold | None = None,
) -> Batch:
    """The batch of these jobs and places; `foretold` has the forecasts of jobs that the board knows none of, as running ones."""
    return _Draft(context, jobs, snapshots, book, foretold or {}).batch()


def foremost(jobs: Iterable[Job], most: int) -> list[Job]:
    """The jobs to plan for: the highest priority first, then the longest waiting."""
    return sorted(jobs, key=lambda job: (-job.priority, job.submitted_at, job.id))[:most]


@dataclass(frozen=True)
class _Offer:
    """A place for gangs: the seats that it is of, what each job brings there, and what residents lose by it (both n)."""

    snapshot: DeviceSnapshot
    slots: tuple[int, ...]
    brought: Numbers
    lost: Numbers


class _Draft:
    """The batch in the making: options are gathered as columns, and turned into arrays at the end."""

    def __init__(
        self,
        context: SchedulingContext,
        jobs: Sequence[Job],
        snapshots: Iterable[DeviceSnapshot],
        book: PairBook,
        foretold: Foretold,
    ) -> None:
        self._context, self._jobs, self._book, self._foretold = context, jobs, book, foretold
        open_places = [
            snapshot for snapshot in snapshots if snapshot.reading is not None and not context.given(snapshot.device.id)
        ]
        self._idle = _alike(snapshot for snapshot in open_places if not snapshot.residents)
        self._busy = [snapshot for snapshot in open_places if _joinable(snapshot, context)]
        device_classes = {device_class(snapshot.device): snapshot.device for snapshot in open_places}
        self._newcomers = {
            sort: [Newcomer(job, self._alone(job, device)) for job in jobs] for sort, device in device_classes.items()
        }
        self._weights = _weights(jobs, [a for snapshot in self._busy for a in snapshot.residents], context)
        self._usual_s = _usual_duration(n.forecast for newcomers in self._newcomers.values() for n in newcomers)
        self._rates = {sort: self._rates_on(sort) for sort in device_classes}
        self._single = np.array([job.device_count == 1 for job in jobs], dtype=np.bool_)
        self._kinds = list(dict.fromkeys(job.kind for job in jobs))
        numbers = {kind: number for number, kind in enumerate(self._kinds)}
        self._kind = np.array([numbers[job.kind] for job in jobs], dtype=np.intp)
        self._slots: list[Slot] = []
        self._capacity: list[int] = []
        self._columns = Columns(len(jobs))

    def batch(self) -> Batch:
        groups = {key: self._add_slot(Slot(tuple(p.device for p in group), True)) for key, group in self._idle.items()}
        for key, group in self._idle.items():
            self._add_alone(group, groups[key])
        beside = [self._add_beside(snapshot) for snapshot in self._busy]
        self._add_gangs(groups, beside)
        options = self._columns.whole()
        return Batch(
            jobs=tuple(self._jobs),
            slots=tuple(self._slots),
            value=options.value,
            worth=options.worth,
            first=options.first,
            second=options.second,
            devices=options.devices,
            rows=options.rows,
            counts=options.counts,
            capacity=np.array([1] * len(self._jobs) + self._capacity, dtype=np.intp),
            weight=np.array([self._weights[job.priority] for job in self._jobs], dtype=np.float64),
            job_features=self._job_features(),
            slot_features=self._slot_features(),
        )

    # --- options --------------------------------------------------------------------------------------------------

    def _add_alone(self, group: Sequence[DeviceSnapshot], slot: int) -> None:
        """Each single job alone on one of these idle devices, and each two of them together."""
        snapshot, sort = group[0], device_class(group[0].device)
        newcomers, rates = self._newcomers[sort], self._rates[sort]
        kinds, kind_of = _classes(newcomers)
        allowed = np.array(
            [admit(n.job, n.forecast, snapshot, self._context.limits).admitted for n in kinds], dtype=np.bool_
        )
        alone = np.flatnonzero(self._single & allowed[kind_of]) if len(kinds) else np.empty(0, dtype=np.intp)
        self._columns.add_alone(rates[alone], 0.0, alone, slot)
        sharing = np.array([newcomers[index].shares for index in alone], dtype=np.bool_)
        first, second, worth = self._pairs(alone[sharing], sort, snapshot)
        self._columns.add_pairs(worth, first, second, slot)

    def _pairs(self, sharing: Indices, sort: DeviceClass, snapshot: DeviceSnapshot) -> tuple[Indices, Indices, Numbers]:
        """(who starts, who joins, what each brings) of each pair that is worth more than the better of the two alone."""
        newcomers, rates = self._newcomers[sort], self._rates[sort]
        if self._context.limits.residents_per_device < 2:
            sharing = sharing[:0]
        # The better of two starts, and the other joins it.
        ordered = sharing[np.argsort(-rates[sharing], kind="stable")]
        one, other = np.triu_indices(len(ordered), 1)
        first, second = ordered[one], ordered[other]
        costs, known = self._costs(sort)
        both = np.column_stack((rates[first], rates[second])) / costs[self._kind[first], self._kind[second]]
        value = both.sum(axis=1)
        hopeful = (value > rates[first]) & self._may_fit(first, second, known, sort, snapshot)
        asked = np.flatnonzero(hopeful)
        asked = asked[np.argsort(-value[asked], kind="stable")[:_MOST_PAIRS]]
        allows, limits = self._book.allows, self._context.limits
        found = [k for k in asked if allows(newcomers[first[k]], newcomers[second[k]], snapshot, limits)]
        pairs = np.sort(np.array(found, dtype=np.intp))
        return first[pairs], second[pairs], both[pairs]

    def _costs(self, sort: DeviceClass) -> tuple[Numbers, NDArray[np.bool_]]:
        """(slowdowns of the one and of the other, whether they are known), by the kinds of the batch (k, k)."""
        costs = np.full((len(self._kinds), len(self._kinds), 2), USUAL_SLOWDOWN)
        known = np.zeros(costs.shape[:2], dtype=np.bool_)
        for a, one in enumerate(self._kinds):
            for b, other in enumerate(self._kinds):
                found = self._book.expected(one, other, sort)
                if found is not None:
                    costs[a, b], known[a, b] = found, True
        return costs, known

    def _may_fit(
        self, first: Indices, second: Indices, known: NDArray[np.bool_], sort: DeviceClass, snapshot: DeviceSnapshot
    ) -> NDArray[np.bool_]:
        """Which pairs are worth asking admission about: enough memory, and a load that fits or evidence that might speak for it.
        Only a sieve, so that what it lets through is still asked about."""
        needs = [newcomer.needs for newcomer in self._newcomers[sort]]
        load = np.array([np.inf if need[1] is None else need[1] for need in needs])
        memory = np.array([np.inf if need[2] is None else need[2] for need in needs])
        most = np.array(
            [load_limit(newcomer.job.max_slowdown, self._context.limits, 2) for newcomer in self._newcomers[sort]]
        )
        light = load[first] + load[second] <= np.minimum(most[first], most[second])
        small = memory[first] + memory[second] <= snapshot.device.total_memory
        return np.asarray(small & (light | known[self._kind[first], self._kind[second]]))

    def _add_beside(self, snapshot: DeviceSnapshot) -> _Offer:
        """Each single job beside who is there; leaves what each job of the batch, gangs too, would bring and cost there."""
        sort = device_class(snapshot.device)
        newcomers, rates = self._newcomers[sort], self._rates[sort]
        kinds, kind_of = _classes(newcomers)
        speeds, losses = np.full(len(kinds), np.nan), np.zeros(len(kinds))
        for index, newcomer in enumerate(kinds):
            found = self._join(newcomer.job, snapshot)
            if found is not None:
                speeds[index], losses[index] = found
        brought, lost = rates * speeds[kind_of], losses[kind_of]
        slot = self._add_slot(Slot((snapshot.device,), False))
        joining = np.flatnonzero(self._single & (brought > lost))
        self._columns.add_alone(brought[joining], lost[joining], joining, slot)
        return _Offer(snapshot, (slot,), brought, lost)

    def _join(self, job: Job, snapshot: DeviceSnapshot) -> tuple[float, float] | None:
        """(the newcomer's speed, what the residents lose) if admission allows it beside them."""
        forecast = self._context.forecast(job, snapshot)
        self._book.note(job.kind, device_class(snapshot.device), forecast)
        if not admit(job, forecast, snapshot, self._context.limits).admitted:
            return None
        loss = sum(self._rate_of(a) * (1 - 1 / slowdown_of(a, forecast)) for a in snapshot.residents)
        return 1 / slowdown_beside(forecast), loss

    def _add_gangs(self, groups: Mapping[object, int], beside: Sequence[_Offer]) -> None:
        gangs = [index for index, job in enumerate(self._jobs) if job.device_count > 1]
        if not gangs:
            return
        hosts: dict[HostId, list[_Offer]] = {}
        for key, group in self._idle.items():
            for host, snapshots in _by_host(group).items():
                slot = self._add_slot(Slot(tuple(snapshot.device for snapshot in snapshots), True))
                brought = self._rates[device_class(snapshots[0].device)]
                offers = (
                    _Offer(snapshot, (groups[key], slot), brought, np.zeros(len(brought))) for snapshot in snapshots
                )
                hosts.setdefault(host, []).extend(offers)
        for offer in beside:
            hosts.setdefault(offer.snapshot.device.host, []).append(offer)
        for index in gangs:
            for offered in hosts.values():
                self._add_gang(index, offered)

    def _add_gang(self, index: int, offered: Sequence[_Offer]) -> None:
        """The gang on the first devices of one host that it may have: as fast as on its slowest."""
        count = self._jobs[index].device_count
        taken = list(islice((offer for offer in offered if self._gang_may(index, offer)), count))
        if len(taken) < count:
            return
        brought = min(float(offer.brought[index]) for offer in taken)
        lost = sum(float(offer.lost[index]) for offer in taken)
        if brought > lost:
            self._columns.add_gang(
                brought, lost, index, count, Counter(slot for offer in taken for slot in offer.slots)
            )

    def _gang_may(self, index: int, offer: _Offer) -> bool:
        if offer.snapshot.residents:
            return bool(offer.brought[index] > offer.lost[index])  # refused is NaN, and compares as no
        newcomer = self._newcomers[device_class(offer.snapshot.device)][index]
        return admit(newcomer.job, newcomer.forecast, offer.snapshot, self._context.limits).admitted

    def _add_slot(self, slot: Slot) -> int:
        self._slots.append(slot)
        self._capacity.append(len(slot.devices))
        return len(self._slots) - 1

    # --- what they are worth --------------------------------------------------------------------------------------

    def _alone(self, job: Job, device: Device) -> Forecast:
        return self._foretold.get(job.id) or self._context.forecast_alone(job, device)

    def _rates_on(self, sort: DeviceClass) -> Numbers:
        """Weighted completions per hour of each job alone on one sort of device (n)."""
        durations = [n.forecast.duration_p50_s or self._usual_s for n in self._newcomers[sort]]
        weights = [self._weights[job.priority] for job in self._jobs]
        return 3600.0 * np.array(weights) / np.maximum(np.array(durations, dtype=np.float64), _SHORTEST_S)

    def _rate_of(self, resident: Attempt) -> float:
        duration = max(resident.forecast.duration_p50_s or self._usual_s, _SHORTEST_S)
        return 3600.0 * self._weights[self._context.state.jobs[resident.id.job].priority] / duration

    def _job_features(self) -> Numbers:
        forecasts = next(iter(self._newcomers.values()), [Newcomer(job, Forecast()) for job in self._jobs])
        rows = [(*_plain(n), n.job.device_count, self._context.now - n.job.submitted_at) for n in forecasts]
        return np.array(rows, dtype=np.float64).reshape(len(self._jobs), 5)

    def _slot_features(self) -> Numbers:
        committed = (self._context.snapshot(slot.devices[0].id).committed_utilization for slot in self._slots)
        rows = [(len(slot.devices), slot.idle, load) for slot, load in zip(self._slots, committed, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(len(self._slots), 3)


def _joinable(snapshot: DeviceSnapshot, context: SchedulingContext) -> bool:
    return 0 < len(snapshot.residents) < context.limits.residents_per_device and all(
        a.shares for a in snapshot.residents
    )


def _alike(snapshots: Iterable[DeviceSnapshot]) -> dict[object, list[DeviceSnapshot]]:
    """Idle places by what makes them get the same answers, foreign memory to the GiB; the fullest of each first."""
    found: dict[object, list[DeviceSnapshot]] = {}
    for snapshot in sorted(snapshots, key=lambda p: -p.committed_memory):
        foreign = snapshot.reading.foreign_utilization_pct if snapshot.reading else None
        key = (
            device_class(snapshot.device),
            snapshot.device.total_memory,
            -(-snapshot.committed_memory // _GIB),
            foreign,
        )
        found.setdefault(key, []).append(snapshot)
    return found


def _by_host(snapshots: Iterable[DeviceSnapshot]) -> dict[HostId, list[DeviceSnapshot]]:
    found: dict[HostId, list[DeviceSnapshot]] = {}
    for snapshot in snapshots:
        found.setdefault(snapshot.device.host, []).append(snapshot)
    return found


def _classes(newcomers: Sequence[Newcomer]) -> tuple[list[Newcomer], Indices]:
    """(one newcomer of each class, the class of each): the same class gets the same verdicts."""
    numbers: dict[Needs, int] = {}
    kinds: list[Newcomer] = []
    for newcomer in newcomers:
        if newcomer.needs not in numbers:
            numbers[newcomer.needs] = len(kinds)
            kinds.append(newcomer)
    return kinds, np.array([numbers[newcomer.needs] for newcomer in newcomers], dtype=np.intp)


def _weights(jobs: Sequence[Job], residents: Sequence[Attempt], context: SchedulingContext) -> dict[int, float]:
    priorities = {job.priority for job in jobs} | {context.state.jobs[a.id.job].priority for a in residents}
    return {priority: _PRIORITY ** min(level, _MOST_LEVELS) for level, priority in enumerate(sorted(priorities))}


def _usual_duration(forecasts: Iterable[Forecast]) -> float:
    known = [forecast.duration_p50_s for forecast in forecasts if forecast.duration_p50_s is not None]
    return median(known) if known else _UNKNOWN_S


def _plain(newcomer: Newcomer) -> tuple[float, float, float]:
    forecast, memory = newcomer.forecast, needed_memory(newcomer.job, newcomer.forecast)
    values = forecast.duration_p50_s, forecast.peak_utilization_pct, None if memory is None else memory / _GIB
    return tuple(float("nan") if value is None else float(value) for value in values)  # type: ignore[return-value]
