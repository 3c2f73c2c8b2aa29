"""The simulator with pilots in place of hosts that are always there: each is granted a while after its request, and charged.

The world's hosts are the places for pilots. How many are requested is decided as `gpuq.pools` decides it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.job import Job, JobState
from gpuq.policies.pilots import Allocation, Demand, PoolLimits, horizon, plan
from gpuq.sim.cluster import RunningAttempt
from gpuq.sim.record import SimulationRun
from gpuq.sim.run import Simulation

_LOOK_EVERY_S = 3.0


@dataclass
class SimulatedPilot:
    """Times in virtual seconds. `ended_at` is also that of a request that was taken back, which is charged nothing."""

    id: int
    host: HostId
    size: int
    requested_at: float
    started_at: float | None = None
    ended_at: float | None = None
    idle_since: float | None = None
    devices: tuple[DeviceId, ...] = ()

    @property
    def charged_s(self) -> float:
        """Device-seconds."""
        return (
            0.0 if self.started_at is None or self.ended_at is None else self.size * (self.ended_at - self.started_at)
        )


@dataclass(frozen=True)
class SimulatedPool:
    """The policy by its name in `SCALING`; `most` pilots of at most `devices` devices for `time_s`, which end when they have been
    idle for `idle_s`. `queue_wait_s`: from a request to its grant."""

    scaling: str
    most: int
    devices: int = 1
    time_s: float = 4 * 3600.0
    idle_s: float = 600.0
    queue_wait_s: float = 0.0


@dataclass
class PilotRun:
    """What became of the jobs, and of the pilots."""

    run: SimulationRun
    pilots: list[SimulatedPilot] = field(default_factory=list)

    @property
    def device_hours(self) -> float:
        """What all pilots were charged."""
        return sum(pilot.charged_s for pilot in self.pilots) / 3600

    @property
    def mean_completion_s(self) -> float:
        """From the submission of a job to its end."""
        return sum((job.ended_at or inf) - job.arrival.submit_s for job in self.run.jobs) / len(self.run.jobs)


class PilotSimulation(Simulation):
    """A simulation whose hosts are there only while a pilot is."""

    def __init__(self, pool: SimulatedPool, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._pool = pool
        residents = self._limits.residents_per_device
        self._limits_of_pool = PoolLimits(pool.devices, pool.most, pool.time_s, pool.time_s, residents=residents)
        self.pilots: list[SimulatedPilot] = []
        self._places = self._hosts.names
        for host in self._places:
            self._hosts.lose(host, 0.0)
            self._apply(self._hosts.report(host, 0.0))
        self._at(0.0, self._look, awaited=False)

    def play_pilots(self) -> PilotRun:
        """Play to the end of all jobs; pilots that are left end when they have been idle for long enough."""
        run = self.play()
        for pilot in self._alive():
            if pilot.started_at is not None:
                ends_at = (pilot.idle_since or run.ended_at) + self._pool.idle_s
                pilot.ended_at = min(ends_at, pilot.started_at + self._pool.time_s)
        return PilotRun(run, self.pilots)

    def _alive(self) -> list[SimulatedPilot]:
        return [pilot for pilot in self.pilots if pilot.ended_at is None]

    def _look(self) -> None:
        self._at(self.now + _LOOK_EVERY_S, self._look, awaited=False)
        there = self._alive()
        waiting, pilots = self._waiting(), [self._allocation(one) for one in there]
        within = horizon(self._pool.scaling, self._pool.idle_s, self._pool.queue_wait_s, waiting, pilots)
        decided = plan(self._limits_of_pool, waiting, pilots, within)
        for pilot in there:
            if pilot.id in decided.cancel:
                pilot.ended_at = self.now
            elif pilot.started_at is not None:
                busy = any(self._cluster.on[device] for device in pilot.devices)
                pilot.idle_since = None if busy else self.now if pilot.idle_since is None else pilot.idle_since
                if pilot.idle_since is not None and self.now >= pilot.idle_since + self._pool.idle_s:
                    self._end_pilot(pilot)
        free = [host for host in self._places if host not in {one.host for one in self._alive()}]
        for size, host in zip(decided.request, free, strict=False):
            pilot = SimulatedPilot(len(self.pilots), host, size, self.now)
            self.pilots.append(pilot)
            self._at(self.now + self._pool.queue_wait_s, partial(self._start_pilot, pilot), awaited=False)

    def _start_pilot(self, pilot: SimulatedPilot) -> None:
        if pilot.ended_at is not None:
            return
        pilot.started_at = pilot.idle_since = self.now
        pilot.devices = self._hosts.give(pilot.host, pilot.size, self.now + self._pool.time_s, self.now)
        self._apply(self._hosts.report(pilot.host, self.now))
        self._changed = True
        self._at(self.now + self._pool.time_s, partial(self._end_pilot, pilot), awaited=False)

    def _end_pilot(self, pilot: SimulatedPilot) -> None:
        """Its devices are given back; jobs that run there are queued again."""
        if pilot.ended_at is not None:
            return
        pilot.ended_at = self.now
        lost = [one for one in self._residents.values() if self._host_of(one) == pilot.host]
        for resident in lost:
            saves = self.state.jobs[resident.run.arrival.job].preemptible
            self._leave(resident, Ending.STOPPED if saves else Ending.LOST, None)
            resident.run.ending = Ending.LOST
        self._hosts.lose(pilot.host, self.now)
        self._apply(self._hosts.report(pilot.host, self.now))
        for resident in lost:
            self._exited(resident)
        self._changed = True

    def _allocation(self, pilot: SimulatedPilot) -> Allocation:
        if pilot.started_at is None:
            return Allocation(pilot.id, ((),) * pilot.size, self._pool.time_s, started=False)
        residents = tuple(tuple(map(self._resident, self._cluster.on[device])) for device in pilot.devices)
        left_s = pilot.started_at + self._pool.time_s - self.now
        return Allocation(pilot.id, residents, left_s, started=True)

    def _resident(self, one: RunningAttempt) -> Demand:
        left_s = max(0.0, one.left_s * one.pace - (self.now - one.since))
        return Demand(utilization_pct=one.run.forecast.peak_utilization_pct, lasts_s=left_s)

    def _waiting(self) -> list[Demand]:
        jobs = [job for job in self.state.jobs.values() if job.state is JobState.PENDING]
        device = self._world.devices[0]
        questions = {job.id: Question(job.signature, job.kind, device.type, (), device.sharing) for job in jobs}
        answers = self._forecaster.answer(dict.fromkeys(questions.values()))
        return [_demand(job, answers[questions[job.id]]) for job in jobs]


def _demand(job: Job, forecast: Forecast) -> Demand:
    longest_s = None if job.preemptible else forecast.duration_p90_s
    return Demand(job.device_count, forecast.peak_utilization_pct, forecast.duration_p50_s, longest_s)
