"""Start times for those who wait, from the board.

Arrives: the board of each pass, whatever the policy. Leaves: an expected start for each waiting job. `waiting.py` plays the
queue in worlds that `lasting.py` draws, one each. What these leave out, such as sharing, is in the factors that `punctual.py`
learns from earlier starts, for single devices and gangs apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from statistics import median

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import HostId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.index import device_class
from gpuq.core.state.job import ACTIVE, WAITING, Job, JobId, KindId
from gpuq.policies.estimates.calibration import Lateness, Punctual
from gpuq.policies.estimates.duration_model import Aged, Asked, Lasting, Seen, World
from gpuq.policies.estimates.mgk import Traffic, observed
from gpuq.policies.estimates.waiting import Duration, ExpectedStart, Reserved, Running, Scene, Waiter, expected_starts

# How long a job is taken to last, and what size to count for, while nothing is known of any.
_NOBODY_KNOWS = Duration(3600.0, 4 * 3600.0)
# Arrivals that are looked back on; fewer than the least of them say nothing.
_LOOK_BACK, _LEAST = 400, 20
# So many are drawn to come in each world; they decide what a look costs.
_COMERS = 100


@dataclass(frozen=True, slots=True)
class Arrival:
    """Who came. `size` is the duration that the order counts with."""

    at: float
    devices: int
    priority: int
    asked: Asked
    size: Duration


@dataclass(frozen=True, slots=True)
class _Held:
    """Devices of a host, held by one who runs; kept or not for one who waited too long."""

    host: HostId
    devices: int
    aged: Aged
    kept: bool

    def running(self, world: World) -> Running:
        """As long as it lasts in this world."""
        return Running(self.host, self.devices, self.aged.elapsed_s, world[self.aged.asked])


@dataclass(frozen=True, slots=True)
class _Overdue:
    """One who waited too long, and the host on which the core keeps devices for it."""

    job: Job
    host: HostId
    asked: Asked

    def reserved(self, held: Sequence[_Held], world: World) -> Reserved:
        """Of those who run, only who is on what is kept is in the way."""
        waiter = Waiter(self.job.id, self.job.device_count, world[self.asked], ())
        return Reserved(waiter, self.host, [one.running(world) for one in held if one.kept])


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a `Teller` has learnt, to go on with after a restart: arrivals, what ended, and how late jobs with one device and
    gangs were."""

    arrivals: list[Arrival] = field(default_factory=list)
    seen: dict[KindId, Seen] = field(default_factory=dict)
    single: Lateness = field(default_factory=Lateness)
    gang: Lateness = field(default_factory=Lateness)


class Teller:
    """Watches arrivals and starts. `overtaking` is that of the policy's order: a job counts as submitted so many times its
    device-time later. `skips`: what does not fit is passed by. `known` is what one before it has learnt."""

    def __init__(
        self, *, overtaking: float = 0.0, skips: bool = True, draws: int = 20, comers: int = _COMERS,
        known: Memory | None = None,
    ) -> None:  # fmt: skip
        known = known or Memory()
        self._overtaking, self._skips, self._draws, self._most = overtaking, skips, draws, comers
        self._arrivals = deque(known.arrivals, maxlen=_LOOK_BACK)
        self._punctual = {False: Punctual(known.single), True: Punctual(known.gang)}
        self._lasting = Lasting(known.seen)
        self._live: dict[AttemptId, Attempt] = {}
        self._come: set[JobId] = set()
        # Who was submitted by then was taken in before a restart.
        self._come_until = max((came.at for came in known.arrivals), default=-inf)
        self._told = {*known.single.waiting, *known.gang.waiting}
        self._raw: dict[JobId, ExpectedStart] = {}

    @property
    def learnt(self) -> Memory:
        """All that was learnt so far."""
        late = {gang: punctual.learnt for gang, punctual in self._punctual.items()}
        return Memory(list(self._arrivals), self._lasting.seen, late[False], late[True])

    def look(self, context: SchedulingContext) -> dict[JobId, ExpectedStart]:
        """Expected starts of all who wait, in seconds from now; each is held to the first that it was told."""
        self.watch(context)
        found = self.among(context, context.waiting)
        for job in context.waiting:
            self.remember(context, job)
        return found

    def among(self, context: SchedulingContext, jobs: Sequence[Job]) -> dict[JobId, ExpectedStart]:
        """As if only these waited. The same boards in the same order give the same answers."""
        if not jobs:
            return {}
        chance = Random(f"{context.now}")  # noqa: S311 - a forecast
        self._raw = expected_starts(self._scenes(context, jobs, chance), chance)
        found: dict[JobId, ExpectedStart] = {}
        for gang, punctual in self._punctual.items():
            alike = [job.id for job in jobs if (job.device_count > 1) == gang]
            found.update(zip(alike, punctual.corrected([self._raw[job] for job in alike], context.now), strict=True))
        return found

    def in_order(self, context: SchedulingContext) -> list[Job]:
        """Those who wait, the first to go first."""
        ranked = zip(self._ranks(context.waiting, _asked(context, context.waiting)), context.waiting, strict=True)
        return [job for _, job in sorted(ranked, key=lambda found: (found[0], found[1].id))]

    def remember(self, context: SchedulingContext, job: Job) -> None:
        """This job was told what was last found of it: later answers learn from when it starts. Only the first time counts."""
        if job.id not in self._told and job.id in self._raw and not job.attempt:
            self._told.add(job.id)
            self._punctual[job.device_count > 1].tell(job.id, self._raw[job.id], context.now)

    def moments_seen(self) -> set[float]:
        """The moments at which starts were told that have since happened."""
        late = [one for punctual in self._punctual.values() for one in punctual.learnt.late]
        return {one.told_at for one in late if one.told_at is not None}

    def traffic(self) -> Traffic | None:
        """What came of late, with the durations that are foretold of it."""
        return observed([(came.at, came.size.p50_s, came.devices) for came in self._arrivals])

    def _scenes(self, context: SchedulingContext, jobs: Sequence[Job], chance: Random) -> list[Scene]:
        """The board as `waiting.py` plays it, with these waiting, in worlds that differ."""
        asked, held, idle = _asked(context, jobs), _held(context), _idle(context)
        ranks = self._ranks(jobs, asked)
        heed = self._who_comes_matters(jobs)
        coming = [came.asked for came in self._arrivals] if heed else []
        overdue = _overdue(context)
        wanted = [*asked, *coming, *([overdue.asked] if overdue else [])]
        return [
            Scene(
                idle,
                [one.running(world) for one in held if not one.kept],
                [
                    Waiter(job.id, job.device_count, world[kind], rank)
                    for job, kind, rank in zip(jobs, asked, ranks, strict=True)
                ],
                self._skips,
                self._comers(context.now, world, chance) if heed else (),
                overdue.reserved(held, world) if overdue else None,
            )
            for world in self._lasting.worlds([one.aged for one in held], wanted, self._draws, chance)
        ]

    # --- what comes, and what came true --------------------------------------------------------------------------------

    def watch(self, context: SchedulingContext) -> None:
        """Take in who has come and who has started; cheap, and best done in every pass."""
        for teller in self._punctual.values():
            for job_id in teller.waiting:
                job = context.state.jobs.get(job_id)
                if job is None or (job.state not in WAITING and not job.attempt):
                    teller.gone(job_id)
                elif job.attempt:
                    teller.started(job_id, job.since if job.state in ACTIVE else context.now)
        self._told &= context.state.jobs.keys()
        self._come &= context.state.jobs.keys()
        fresh = [
            job
            for job in context.waiting
            if job.id not in self._come and not job.attempt and job.submitted_at > self._come_until
        ]
        kinds = _asked(context, fresh)
        for job, asked, size in zip(fresh, kinds, _sizes(kinds), strict=True):
            self._come.add(job.id)
            self._arrivals.append(Arrival(job.submitted_at, job.device_count, job.priority, asked, size))
        self._watch_ends(context)

    def _watch_ends(self, context: SchedulingContext) -> None:
        """Who waits again was stopped: how long it would have lasted is not known."""
        jobs, live = context.state.jobs, context.state.attempts
        for name in sorted(self._live.keys() - live.keys()):
            if name.job not in jobs or jobs[name.job].state not in WAITING:
                attempt = self._live[name]
                told = _duration(attempt.forecast)
                self._lasting.ended(Asked(attempt.kind, told), context.now - _begun(attempt))
        self._live = dict(live)

    def _who_comes_matters(self, jobs: Sequence[Job]) -> bool:
        """Whether those who come could go before any of these: by their size, by priority, or past a gang that does not fit."""
        passing = self._skips and any(job.device_count > 1 for job in jobs)
        return (
            bool(self._overtaking)
            or passing
            or len({job.priority for job in jobs} | {came.priority for came in self._arrivals}) > 1
        )

    def _comers(self, now: float, world: World, chance: Random) -> Iterator[Waiter]:
        """Arrivals as often as of late, each like one of those."""
        if len(self._arrivals) < _LEAST or self._arrivals[0].at == self._arrivals[-1].at:
            return
        often, in_s = (len(self._arrivals) - 1) / (self._arrivals[-1].at - self._arrivals[0].at), 0.0
        for came in chance.choices(list(self._arrivals), k=self._most):
            in_s += chance.expovariate(often)
            rank = self._rank(now + in_s, came.priority, came.devices, came.size)
            yield Waiter(JobId(-1), came.devices, world[came.asked], rank, in_s)

    # --- who is first ------------------------------------------------------------------------------------------------

    def _ranks(self, jobs: Sequence[Job], asked: Sequence[Asked]) -> list[tuple[float, ...]]:
        return [
            self._rank(job.submitted_at, job.priority, job.device_count, size)
            for job, size in zip(jobs, _sizes(asked), strict=True)
        ]

    def _rank(self, submitted_at: float, priority: int, devices: int, size: Duration) -> tuple[float, ...]:
        return (-priority, submitted_at + self._overtaking * devices * size.p50_s)


def _asked(context: SchedulingContext, jobs: Sequence[Job]) -> list[Asked]:
    """What is foretold of each, on the first sort of device that says so."""
    devices = list({device_class(snapshot.device): snapshot.device for snapshot in context.snapshots}.values())
    found = []
    for job in jobs:
        told = (_duration(context.forecast_alone(job, device)) for device in devices)
        found.append(Asked(job.kind, next((duration for duration in told if duration), None)))
    return found


def _sizes(asked: Sequence[Asked]) -> list[Duration]:
    """As the order counts: the middle of the others' where nothing is foretold."""
    found = [one.foretold for one in asked]
    known = [duration for duration in found if duration]
    usual = Duration(median(d.p50_s for d in known), max(d.p90_s for d in known)) if known else _NOBODY_KNOWS
    return [duration or usual for duration in found]


def _duration(forecast: Forecast) -> Duration | None:
    p50_s, p90_s = forecast.duration_p50_s, forecast.duration_p90_s
    return None if p50_s is None else Duration(max(1.0, p50_s), max(1.0, p50_s, p90_s or 0.0))


def _idle(context: SchedulingContext) -> dict[HostId, int]:
    idle: dict[HostId, int] = {}
    for snapshot in context.snapshots:
        free = not (
            snapshot.residents or snapshot.reading is None or snapshot.reserved or context.given(snapshot.device.id)
        )
        idle[snapshot.device.host] = idle.get(snapshot.device.host, 0) + free
    return idle


def _held(context: SchedulingContext) -> list[_Held]:
    """Of those who share a device, the one who is expected to hold it longest; what is foretold of it now."""
    reservation = context.overdue_reservation
    reserved_devices = reservation.devices if reservation else ()
    last: dict[tuple[Attempt, bool], int] = {}
    for snapshot in context.snapshots:
        if snapshot.residents:
            longest = max(snapshot.residents, key=lambda attempt: _expected_end(attempt, context.now))
            reserved = snapshot.device.id in reserved_devices
            last[longest, reserved] = last.get((longest, reserved), 0) + 1
    asked = _asked(context, [context.state.jobs[attempt.id.job] for attempt, _ in last])
    return [
        _Held(attempt.host, devices, Aged(one, max(0.0, context.now - _begun(attempt))), kept)
        for ((attempt, kept), devices), one in zip(last.items(), asked, strict=True)
    ]


def _overdue(context: SchedulingContext) -> _Overdue | None:
    reservation = context.overdue_reservation
    if reservation is None:
        return None
    job, device = context.state.jobs[reservation.job], context.state.devices[reservation.devices[0]]
    return _Overdue(job, device.host, _asked(context, [job])[0])


def _begun(attempt: Attempt) -> float:
    return attempt.launched_at if attempt.started_at is None else attempt.started_at


def _expected_end(attempt: Attempt, now: float) -> float:
    return max(_begun(attempt) + (_duration(attempt.forecast) or _NOBODY_KNOWS).p50_s, now)
