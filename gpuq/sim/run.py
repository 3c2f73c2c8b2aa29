"""The simulator: a heap of events around `apply`, `ask` and `decide`, in virtual time.

Arrives: a trace, a world, where forecasts come from, and a contender. Leaves: what came of it. The world is kept from
the core: it is told of arrivals, starts, ends and reports, as by real hosts. The same seed gives the same run.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from gpuq.core.actions import Action, Launch, Requeue, Stop
from gpuq.core.ask import ask
from gpuq.core.attempt import Attempt, AttemptId, Ending
from gpuq.core.decide import decide
from gpuq.core.device import Device, DeviceId, HostId, Reading
from gpuq.core.events import Event, Exited, HostReported, Started, Submitted
from gpuq.core.forecast import Forecast, Question
from gpuq.core.job import Job, JobId, KindId
from gpuq.core.measurement import Measurement
from gpuq.core.state import State, apply
from gpuq.sim.beliefs import Beliefs
from gpuq.sim.contender import Contender
from gpuq.sim.record import AttemptRun, JobRun, Run, Stretch
from gpuq.sim.trace import Arrival, Trace
from gpuq.sim.world import World

DAY_S = 86_400.0
_BOOT = "simulated"


@dataclass
class Resident:
    """An attempt that runs: how much work is left, and since when it has had its present partners."""

    run: AttemptRun
    attempt: Attempt
    left_s: float
    since: float
    beside: tuple[str, ...] = ()
    slowdown: float = 1.0
    turn: int = 0
    """Counts changes of speed: an end foreseen before the last one is void."""


@dataclass(order=True)
class _Due:
    """Something that will happen; `order` keeps what happens at one moment in the order in which it was foreseen."""

    at: float
    order: int
    happen: Callable[[], None] = field(compare=False)


class Simulation:
    """One run; see the module's own words."""

    def __init__(self, trace: Trace, world: World, beliefs: Beliefs, contender: Contender, *, seed: int = 0) -> None:
        self.now = 0.0
        self.state = State()
        self.run = Run(trace.name, world.name, contender.name, seed, len(world.devices))
        self._world = world
        self._beliefs = contender.believe(beliefs)
        self._policy = contender.policy
        self._as_submitted = contender.submit
        # Readings here are told when they change, not every second.
        self._limits = replace(contender.limits, stale_after_s=float("inf"))
        self._arrivals = {arrival.job: arrival for arrival in trace.arrivals}
        self._jobs: dict[JobId, JobRun] = {}
        self._left: dict[JobId, float] = {}
        self._residents: dict[AttemptId, Resident] = {}
        self._types = {device.id: device.type for device in world.devices}
        self._heap: list[_Due] = []
        self._order = count()
        self._changed = False
        self._report_hosts()
        for arrival in trace.arrivals:
            self._at(arrival.submit_s, lambda arrival=arrival: self._submit(arrival))  # type: ignore[misc]
        self._at(DAY_S, self._night)

    def play(self, progress: Callable[[float], None] | None = None) -> Run:
        """All of it, until nobody waits or runs; `progress` is told the share of jobs that have ended."""
        while self._heap and self._busy():
            self.now = self._heap[0].at
            while self._heap and self._heap[0].at <= self.now:
                heapq.heappop(self._heap).happen()
            while self._changed:
                self._changed = False
                self._pass()
            if progress is not None:
                progress(1 - len(self._left) / max(1, len(self._arrivals)))
        self.run.ended_at = self.now
        self.run.jobs = list(self._jobs.values())
        return self.run

    def _busy(self) -> bool:
        """Jobs may wait for ever though nothing runs, as those too large for the world: nights alone wake nobody."""
        return len(self._heap) > 1

    def _at(self, moment: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._heap, _Due(moment, next(self._order), happen))

    # --- what happens ----------------------------------------------------------------------------------------------

    def _submit(self, arrival: Arrival) -> None:
        job = Job(
            id=arrival.job,
            kind=KindId(arrival.kind),
            signature=self._beliefs.signature(arrival),
            owner=arrival.owner,
            submitted_at=self.now,
            priority=arrival.priority,
            declared_memory=arrival.declared_memory,
            device_count=arrival.devices,
            most_devices=arrival.most_devices,
            deadline_at=arrival.deadline_s,
            preemptible=arrival.preemptible,
            since=self.now,
        )
        self._jobs[job.id] = JobRun(arrival)
        self._left[job.id] = arrival.duration_s
        self._tell(Submitted(self._as_submitted(job)))

    def _end(self, resident: Resident, turn: int) -> None:
        if resident.turn == turn:
            self._exit(resident, Ending.EXITED, 0)

    def _exit(self, resident: Resident, ending: Ending, exit_code: int | None) -> None:
        self._settle(resident)
        del self._residents[resident.attempt.id]
        run = resident.run
        run.ended_at, run.ending, run.exit_code = self.now, ending, exit_code
        job = self._jobs[run.arrival.job]
        self._left[run.arrival.job] = resident.left_s
        if ending is Ending.EXITED:
            job.ended_at = self.now
            del self._left[run.arrival.job]
        self._beliefs.learn(run, self.now)
        self._tell(Exited(run.id, self.now, ending, exit_code, "", Measurement()))
        job.state = self.state.jobs[run.arrival.job].state
        self._reconsider(run.devices)

    def _night(self) -> None:
        started = time.perf_counter()
        self._beliefs.night(self.now)
        self.run.nights.append(time.perf_counter() - started)
        self._changed = True
        self._at(self.now + DAY_S, self._night)

    def _tell(self, item: Event | Action) -> bool:
        changed = apply(self.state, item, self.now)
        self._changed |= changed
        return changed

    def _report_hosts(self) -> None:
        hosts: dict[HostId, list[Device]] = {}
        for device in self._world.devices:
            hosts.setdefault(device.host, []).append(device)
        for host, devices in hosts.items():
            readings = tuple((device.id, Reading(self.now, 0, 0.0, 0, 0.0)) for device in devices)
            self._tell(HostReported(host, _BOOT, self.now, tuple(devices), readings, ()))

    # --- what is done ----------------------------------------------------------------------------------------------

    def _pass(self) -> None:
        started = time.perf_counter()
        answers: dict[Question, Forecast] = {}
        while questions := ask(self.state, answers, self._limits, self.now):
            answers.update(self._beliefs.answer(questions))
        actions = decide(self.state, answers, self._limits, self._policy, self.now, cause=0)
        self.run.pass_seconds.append(time.perf_counter() - started)
        for action in actions:
            if apply(self.state, action, self.now):
                self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case Launch():
                self._launch(action)
            case Stop(attempt=attempt):
                self._at(self.now, lambda: self._stop(attempt))
            case Requeue():
                pass
            case _:
                return
        self._changed = True

    def _launch(self, action: Launch) -> None:
        attempt, job = action.attempt, self._jobs[action.attempt.id.job]
        run = AttemptRun(
            attempt.id, job.arrival, attempt.devices, self._types[attempt.devices[0]], self.now,
            attempt.forecast, action.verdict.rule,
        )  # fmt: skip
        job.attempts.append(run)
        if job.first_started_at is None:
            job.first_started_at = self.now
        self._residents[attempt.id] = Resident(run, attempt, self._left[attempt.id.job], self.now)
        self._tell(Started(attempt.id, self.now, 1, ""))
        self._reconsider(attempt.devices)

    def _stop(self, attempt: AttemptId) -> None:
        resident = self._residents.get(attempt)
        if resident is not None:
            self._exit(resident, Ending.STOPPED, None)

    # --- how fast they are -----------------------------------------------------------------------------------------

    def _reconsider(self, devices: tuple[DeviceId, ...]) -> None:
        """Who shares these devices goes on at another speed from now on."""
        for attempt in {a for device in devices for a in self.state.residents.get(device, ())}:
            resident = self._residents.get(attempt)
            if resident is None:
                continue
            self._settle(resident)
            resident.slowdown, resident.beside = self._speed(resident)
            resident.turn += 1
            self._at(self.now + resident.left_s * resident.slowdown, self._ender(resident, resident.turn))

    def _ender(self, resident: Resident, turn: int) -> Callable[[], None]:
        return lambda: self._end(resident, turn)

    def _settle(self, resident: Resident) -> None:
        """Account for the time since the last change."""
        seconds = self.now - resident.since
        resident.since = self.now
        if seconds <= 0:
            return
        work = min(resident.left_s, seconds / resident.slowdown)
        resident.left_s -= work
        stretches = resident.run.stretches
        if stretches and stretches[-1].beside == resident.beside:
            stretches[-1].seconds += seconds
            stretches[-1].work_s += work
        else:
            stretches.append(Stretch(resident.beside, seconds, work))

    def _speed(self, resident: Resident) -> tuple[float, tuple[str, ...]]:
        """(seconds per second of work, beside whom): a gang is as slow as on its slowest device."""
        own, run = resident.attempt.id, resident.run
        alone = self._world.speed(run.arrival.kind, run.device_type, len(run.devices), run.arrival.devices)
        found = []
        for device in resident.attempt.devices:
            others = [a for a in self.state.residents.get(device, ()) if a != own and a in self._residents]
            beside = tuple(sorted(self._residents[a].run.arrival.kind for a in others))
            found.append((self._world.slowdown(run.arrival.kind, beside) / alone, beside))
        return max(found, key=lambda pair: pair[0])


def simulate(trace: Trace, world: World, beliefs: Beliefs, contender: Contender, *, seed: int = 0) -> Run:
    """One simulation from its first arrival to its last end."""
    return Simulation(trace, world, beliefs, contender, seed=seed).play()
