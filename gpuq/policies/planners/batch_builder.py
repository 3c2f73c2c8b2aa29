"""Builds the batch of one pass (see `batch.py`) from the scheduling context.

Admission is asked once per device and class of equal jobs, not once per job. `most_devices` is ignored: a gang is planned with
the smallest number of devices that it accepts. Of a host's devices it gets idle ones first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

import numpy as np

from gpuq.core.scheduling.admit import DeviceSnapshot, admit, load_limit, needed_memory
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.device import HostId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.index import DeviceClass, device_class
from gpuq.core.state.job import Job, JobId
from gpuq.policies.planners.batch import Batch, Indices, Numbers, Slot
from gpuq.policies.planners.columns import OptionColumns
from gpuq.policies.planners.pairing import USUAL_SLOWDOWN, Needs, Newcomer, PairBook, slowdown_beside, slowdown_of

_GIB = 2**30
_SHORTEST_S = 60.0
_UNKNOWN_S = 3600.0
# The weight of a job relative to one of the next lower priority that occurs. Priorities above the fifth weigh the same, which
# keeps all values within a range of 10^4 that the solvers handle.
_PRIORITY = 10.0
_MOST_LEVELS = 4
# Pairs per class of idle devices. There are quadratically many, of which a few dozen are chosen; the least valuable are left out.
_MOST_PAIRS = 20_000


def build_batch(
    context: SchedulingContext,
    jobs: Sequence[Job],
    snapshots: Iterable[DeviceSnapshot],
    book: PairBook,
    forecasts: Mapping[JobId, Forecast] | None = None,
) -> Batch:
    """The batch of these jobs on these devices.

    `forecasts` are of jobs for which the context has none, such as running jobs that might be stopped and started again.
    """
    return _BatchBuilder(context, jobs, snapshots, book, forecasts or {}).build()


def foremost(jobs: Iterable[Job], most: int) -> list[Job]:
    """The jobs to plan for, at most so many: the highest priority first, then the longest waiting. Those over several hosts, and
    those that choose their devices, are not planned; packing starts them on what a plan leaves."""
    planned = (job for job in jobs if job.host_count == 1 and job.constraints is None)
    return sorted(planned, key=lambda job: (-job.priority, job.submitted_at, job.id))[:most]


@dataclass(frozen=True)
class _GangDevice:
    """A device that gangs may use, the slots that it belongs to, and per job (n) the worth there and the residents' loss.

    An idle device belongs to two slots: its equivalents in the cluster, which single jobs use, and those of them on its host.
    """

    snapshot: DeviceSnapshot
    slots: tuple[int, ...]
    worth: Numbers
    loss: Numbers


class _BatchBuilder:
    """Local names: n jobs of the batch; `dclass` is a device class, within which forecasts are equal."""

    def __init__(
        self,
        context: SchedulingContext,
        jobs: Sequence[Job],
        snapshots: Iterable[DeviceSnapshot],
        book: PairBook,
        forecasts: Mapping[JobId, Forecast],
    ) -> None:
        self._context, self._jobs, self._book = context, jobs, book
        usable = [s for s in snapshots if s.reading is not None and not context.given(s.device.id)]
        self._idle = _equivalent(snapshot for snapshot in usable if not snapshot.residents)
        self._busy = [
            snapshot
            for snapshot in usable
            if 0 < len(snapshot.residents) < context.limits.residents_per_device
            and all(resident.shares for resident in snapshot.residents)
        ]
        device_of = {device_class(snapshot.device): snapshot.device for snapshot in usable}
        self._newcomers = {
            dclass: [Newcomer(job, forecasts.get(job.id) or context.forecast_alone(job, device)) for job in jobs]
            for dclass, device in device_of.items()
        }
        residents = [resident for snapshot in self._busy for resident in snapshot.residents]
        # Weights go by the priorities that occur, so that 0 and 100 are one step apart like 0 and 1.
        occurring = {job.priority for job in jobs} | {context.state.jobs[a.id.job].priority for a in residents}
        self._weights = {
            priority: _PRIORITY ** min(level, _MOST_LEVELS) for level, priority in enumerate(sorted(occurring))
        }
        durations = [n.forecast.duration_p50_s for newcomers in self._newcomers.values() for n in newcomers]
        known = [duration for duration in durations if duration is not None]
        self._usual_s = median(known) if known else _UNKNOWN_S
        self._rates = {
            dclass: np.array(
                [self._rate(n.forecast.duration_p50_s, n.job.priority) for n in newcomers], dtype=np.float64
            )
            for dclass, newcomers in self._newcomers.items()
        }
        self._single = np.array([job.device_count == 1 for job in jobs], dtype=np.bool_)
        self._kinds = list(dict.fromkeys(job.kind for job in jobs))
        numbers = {kind: number for number, kind in enumerate(self._kinds)}
        self._kind = np.array([numbers[job.kind] for job in jobs], dtype=np.intp)
        self._slots: list[Slot] = []
        self._columns = OptionColumns(len(jobs))

    def build(self) -> Batch:
        slots = [self._add_slot(Slot(tuple(s.device for s in group), True)) for group in self._idle]
        for group, slot in zip(self._idle, slots, strict=True):
            self._add_on_idle(group, slot)
        busy = [self._add_beside(snapshot) for snapshot in self._busy]
        self._add_gangs(slots, busy)
        capacity = [1] * len(self._jobs) + [len(slot.devices) for slot in self._slots]
        return Batch(
            **vars(self._columns.joined()),
            jobs=tuple(self._jobs),
            slots=tuple(self._slots),
            capacity=np.array(capacity, dtype=np.intp),
            weight=np.array([self._weights[job.priority] for job in self._jobs], dtype=np.float64),
            job_features=self._job_features(),
            slot_features=self._slot_features(),
        )

    # --- options --------------------------------------------------------------------------------------------------

    def _add_on_idle(self, group: Sequence[DeviceSnapshot], slot: int) -> None:
        """The options of single jobs on a group of equivalent idle devices: each job alone, and the pairs that may share."""
        snapshot, dclass = group[0], device_class(group[0].device)
        newcomers, rates = self._newcomers[dclass], self._rates[dclass]
        classes, class_of = _classes(newcomers)
        allowed = np.array(
            [admit(n.job, n.forecast, snapshot, self._context.limits).admitted for n in classes], dtype=np.bool_
        )
        alone = np.flatnonzero(self._single & allowed[class_of]) if len(classes) else np.empty(0, dtype=np.intp)
        self._columns.add_alone(rates[alone], 0.0, alone, slot)
        sharing = np.array([newcomers[index].shares for index in alone], dtype=np.bool_)
        first, second, worth = self._pairs(alone[sharing], dclass, snapshot)
        self._columns.add_pairs(worth, first, second, slot)

    def _pairs(
        self, sharing: Indices, dclass: DeviceClass, snapshot: DeviceSnapshot
    ) -> tuple[Indices, Indices, Numbers]:
        """(first, second, worth (k, 2)) of the pairs that admission would allow and that are worth more than the better job
        alone, which could otherwise have the device to itself."""
        newcomers, rates, limits = self._newcomers[dclass], self._rates[dclass], self._context.limits
        if limits.residents_per_device < 2:
            sharing = sharing[:0]
        # The job with the higher rate starts and the other joins it.
        ordered = sharing[np.argsort(-rates[sharing], kind="stable")]
        one, other = np.triu_indices(len(ordered), 1)
        first, second = ordered[one], ordered[other]

        # Expected slowdowns of both, and whether there is evidence for them, by pair of kinds (k, k).
        costs = np.full((len(self._kinds), len(self._kinds), 2), USUAL_SLOWDOWN)
        known = np.zeros(costs.shape[:2], dtype=np.bool_)
        for a, kind in enumerate(self._kinds):
            for b, partner in enumerate(self._kinds):
                slowdowns = self._book.expected(kind, partner, dclass)
                if slowdowns is not None:
                    costs[a, b], known[a, b] = slowdowns, True
        kinds = self._kind[first], self._kind[second]
        both = np.column_stack((rates[first], rates[second])) / costs[kinds]
        value = both.sum(axis=1)

        # There may be 20,000 pairs, too many to ask admission about each. These array operations exclude pairs that it would
        # refuse anyway: too much memory, or too much load without evidence about the pair.
        needs = [newcomer.needs for newcomer in newcomers]
        load = np.array([np.inf if need[1] is None else need[1] for need in needs])
        memory = np.array([np.inf if need[2] is None else need[2] for need in needs])
        most = np.array([load_limit(newcomer.job.max_slowdown, limits, 2) for newcomer in newcomers])
        light = load[first] + load[second] <= np.minimum(most[first], most[second])
        small = memory[first] + memory[second] <= snapshot.device.total_memory
        hopeful = (value > rates[first]) & np.asarray(small & (light | known[kinds]))

        candidates = np.flatnonzero(hopeful)
        candidates = candidates[np.argsort(-value[candidates], kind="stable")[:_MOST_PAIRS]]
        allows = self._book.allows
        allowed = [k for k in candidates if allows(newcomers[first[k]], newcomers[second[k]], snapshot, limits)]
        pairs = np.sort(np.array(allowed, dtype=np.intp))
        return first[pairs], second[pairs], both[pairs]

    def _add_beside(self, snapshot: DeviceSnapshot) -> _GangDevice:
        """The options of single jobs beside the residents of a busy device. Returns what every job, gangs too, would be worth
        there; NaN where admission refuses it."""
        dclass, limits = device_class(snapshot.device), self._context.limits
        classes, class_of = _classes(self._newcomers[dclass])
        speeds, losses = np.full(len(classes), np.nan), np.zeros(len(classes))
        self._context.ask_beside((newcomer.job for newcomer in classes), [snapshot])
        for index, newcomer in enumerate(classes):
            forecast = self._context.forecast(newcomer.job, snapshot)
            self._book.note(newcomer.job.kind, dclass, forecast)
            if admit(newcomer.job, forecast, snapshot, limits).admitted:
                speeds[index] = 1 / slowdown_beside(forecast)
                losses[index] = sum(
                    self._rate(a.forecast.duration_p50_s, self._context.state.jobs[a.id.job].priority)
                    * (1 - 1 / slowdown_of(a, forecast))
                    for a in snapshot.residents
                )
        worth, loss = self._rates[dclass] * speeds[class_of], losses[class_of]
        slot = self._add_slot(Slot((snapshot.device,), False))
        joining = np.flatnonzero(self._single & (worth > loss))
        self._columns.add_alone(worth[joining], loss[joining], joining, slot)
        return _GangDevice(snapshot, (slot,), worth, loss)

    def _add_gangs(self, slots: Sequence[int], busy: Sequence[_GangDevice]) -> None:
        """At most one option for each gang and host: the first devices that it may use, idle ones before busy ones."""
        gangs = [index for index, job in enumerate(self._jobs) if job.device_count > 1]
        if not gangs:
            return
        hosts: dict[HostId, list[_GangDevice]] = {}
        for group, slot in zip(self._idle, slots, strict=True):
            on_host: dict[HostId, list[DeviceSnapshot]] = {}
            for snapshot in group:
                on_host.setdefault(snapshot.device.host, []).append(snapshot)
            worth = self._rates[device_class(group[0].device)]
            for host, snapshots in on_host.items():
                host_slot = self._add_slot(Slot(tuple(snapshot.device for snapshot in snapshots), True))
                hosts.setdefault(host, []).extend(
                    _GangDevice(snapshot, (slot, host_slot), worth, np.zeros(len(worth))) for snapshot in snapshots
                )
        for device in busy:
            hosts.setdefault(device.snapshot.device.host, []).append(device)

        def may_use(index: int, device: _GangDevice) -> bool:
            if device.snapshot.residents:
                return bool(device.worth[index] > device.loss[index])  # False for NaN, which stands for refused
            newcomer = self._newcomers[device_class(device.snapshot.device)][index]
            return admit(newcomer.job, newcomer.forecast, device.snapshot, self._context.limits).admitted

        for index in gangs:
            count = self._jobs[index].device_count
            for devices in hosts.values():
                taken = list(islice((device for device in devices if may_use(index, device)), count))
                if len(taken) < count:
                    continue
                # All devices of a gang wait for the slowest one.
                worth_there = min(float(device.worth[index]) for device in taken)
                loss = sum(float(device.loss[index]) for device in taken)
                if worth_there > loss:
                    uses = Counter(slot for device in taken for slot in device.slots)
                    self._columns.add_gang(worth_there, loss, index, count, uses)

    def _add_slot(self, slot: Slot) -> int:
        self._slots.append(slot)
        return len(self._slots) - 1

    # --- values and features ----------------------------------------------------------------------------------------

    def _rate(self, duration_s: float | None, priority: int) -> float:
        """Weighted completions per hour of a job alone."""
        return 3600.0 * self._weights[priority] / max(duration_s or self._usual_s, _SHORTEST_S)

    def _job_features(self) -> Numbers:
        rows = []
        for newcomer in next(iter(self._newcomers.values()), [Newcomer(job, Forecast()) for job in self._jobs]):
            job, forecast = newcomer.job, newcomer.forecast
            memory = needed_memory(job, forecast)
            forecasts = (
                forecast.duration_p50_s,
                forecast.peak_utilization_pct,
                None if memory is None else memory / _GIB,
            )
            known = (float("nan") if value is None else float(value) for value in forecasts)
            rows.append((*known, job.device_count, self._context.now - job.submitted_at))
        return np.array(rows, dtype=np.float64).reshape(len(self._jobs), 5)

    def _slot_features(self) -> Numbers:
        committed = (self._context.snapshot(slot.devices[0].id).committed_utilization for slot in self._slots)
        rows = [(len(slot.devices), slot.idle, load) for slot, load in zip(self._slots, committed, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(len(self._slots), 3)


def _equivalent(snapshots: Iterable[DeviceSnapshot]) -> list[list[DeviceSnapshot]]:
    """Idle devices in groups that get the same verdicts.

    Memory in use counts in whole GiB, or each device with foreign processes would be a group of its own. The fullest device of a
    group comes first: what is admitted there is admitted on all of them.
    """
    groups: dict[object, list[DeviceSnapshot]] = {}
    for snapshot in sorted(snapshots, key=lambda s: -s.committed_memory):
        foreign = snapshot.reading.foreign_utilization_pct if snapshot.reading else None
        memory_gib = -(-snapshot.committed_memory // _GIB)
        key = (device_class(snapshot.device), snapshot.device.total_memory, memory_gib, foreign)
        groups.setdefault(key, []).append(snapshot)
    return list(groups.values())


def _classes(newcomers: Sequence[Newcomer]) -> tuple[list[Newcomer], Indices]:
    """(one newcomer of each class, the class of each newcomer (n)), where a class gets the same verdicts on one device."""
    numbers: dict[Needs, int] = {}
    classes: list[Newcomer] = []
    for newcomer in newcomers:
        if newcomer.needs not in numbers:
            numbers[newcomer.needs] = len(classes)
            classes.append(newcomer)
    return classes, np.array([numbers[newcomer.needs] for newcomer in newcomers], dtype=np.intp)
