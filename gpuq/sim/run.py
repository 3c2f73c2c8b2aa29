"""The simulator: a heap of events around `apply`, `needed_forecasts` and `decide`, in virtual time.

Arrives: a trace, a world, where forecasts come from, and a contender. Leaves: what came of it. The world is kept from
the core: it is told of arrivals, starts, ends and reports, as by real hosts. The same seed gives the same run.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from math import inf

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.needed_forecasts import ForecastTable
from gpuq.core.state.actions import Action, Archive, Launch, Requeue, SetPendingReason, Stop
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.events import Event, Exited, HostReported, Started, Submitted
from gpuq.core.state.job import Job, JobId, JobState, KindId
from gpuq.core.state.state import State, apply
from gpuq.policies.alarm import patient
from gpuq.policies.guard import Guarded
from gpuq.policies.lists.packed import packed
from gpuq.sim.audit import Audit
from gpuq.sim.candidate import Contender
from gpuq.sim.cluster import Floor, Resident
from gpuq.sim.failures import NONE
from gpuq.sim.forecaster import Beliefs
from gpuq.sim.hosts import Hosts
from gpuq.sim.record import AttemptRun, HostLoss, JobRun, Night, Run, Stretch
from gpuq.sim.trace import Arrival, Trace
from gpuq.sim.world import World

DAY_S = 86_400.0
# The daemon looks at its queue every second. Here a pass without an event comes after this long, for policies that wait for a
# moment of their own; and after this long of nothing but such passes, whoever still waits will wait for ever.
_WAKE_S = 300.0
_GIVE_UP_S = DAY_S
# A process that has just started does not listen yet; so no policy can start and stop jobs for ever at one moment.
_DEAF_S = 1.0

Watcher = Callable[[Event | Action, float, State], None]
Progress = Callable[[float], None]


class Simulation:
    """One run; see the module's own words. `watch` is told of all that `apply` accepted, after it."""

    def __init__(  # noqa: PLR0913 - what is simulated, and what it is watched by
        self,
        trace: Trace,
        world: World,
        beliefs: Beliefs,
        contender: Contender,
        *,
        seed: int = 0,
        losses: Sequence[HostLoss] = NONE,
        watch: Watcher | None = None,
    ) -> None:
        self.now = 0.0
        self.state = State()
        self.run = Run(
            trace.name, world.name, contender.name, seed, len(world.devices), world.devices,
            contender.limits.max_slowdown, losses=list(losses), notes=[*trace.notes, *world.notes],
        )  # fmt: skip
        self._world = world
        self._beliefs = contender.believe(beliefs)
        self._policy = _guarded(contender)
        self._as_submitted = contender.submit
        # Readings and residents are reported when they change, not every second: silence is no sign of anything.
        self._limits = replace(contender.limits, stale_after_s=inf, start_grace_s=inf)
        self._cache = PassCache()
        self._forecasts = ForecastTable()
        self._floor = Floor(world)
        self._audit = Audit(self._floor, contender.limits.max_slowdown)
        self._hosts = Hosts(self._floor)
        self._jobs: dict[JobId, JobRun] = {}
        self._left: dict[JobId, float] = {}
        self._residents: dict[AttemptId, Resident] = {}
        self._watch = watch
        self._heap: list[tuple[float, int, bool, Callable[[], None]]] = []
        self._order = count()
        # Events in the heap that the run must not end before; and when the core was last told anything but the time.
        self._awaited = 0
        self._told_at = 0.0
        self._changed = False
        self._passed_at = 0.0
        for report in self._hosts.reports(self.now):
            self._tell(report)
        for arrival in trace.arrivals:
            self._at(arrival.submit_s, lambda arrival=arrival: self._submit(arrival))  # type: ignore[misc]
        for loss in losses:
            self._at(loss.at, lambda loss=loss: self._lose(loss), awaited=False)  # type: ignore[misc]
        self._at(DAY_S, self._night, awaited=False)
        self._at(_WAKE_S, self._wake, awaited=False)

    def play(self, progress: Progress | None = None) -> Run:
        """All of it, until nobody waits or runs; `progress` is told the share of jobs that have ended."""
        total, ended = len(self._heap) - 2 - len(self.run.losses), 0
        while self._goes_on():
            self.now = now = self._heap[0][0]
            while self._heap and self._heap[0][0] <= now:
                _, _, awaited, happen = heapq.heappop(self._heap)
                self._awaited -= awaited
                happen()
            while self._changed:
                self._changed = False
                self._pass()
            if progress is not None and len(self._jobs) - len(self._left) > ended:
                ended = len(self._jobs) - len(self._left)
                progress(ended / total)
        return self._finish()

    def _goes_on(self) -> bool:
        """Jobs may wait for ever though nothing runs, as those too large for the world."""
        return self._awaited > 0 or (bool(self._left) and self.now - self._told_at < _GIVE_UP_S)

    def _finish(self) -> Run:
        run = self.run
        run.jobs = list(self._jobs.values())
        run.ended_at = max((job.ended_at or 0.0 for job in run.jobs), default=0.0)
        for job in run.jobs:
            if job.arrival.job in self.state.jobs:
                job.state = self.state.jobs[job.arrival.job].state
        if self._left:
            run.ended_at = max(run.ended_at, self._told_at)
            run.notes.append(f"{len(self._left)} jobs never ended: nothing could start them")
        if (fault := self._policy.fault) is not None:
            run.notes.append(f"the policy was replaced by the default from {fault.at} s on: {fault.reason}")
        run.energy_kwh, run.idle_energy_kwh = self._floor.energy.total_kwh(run.ended_at)
        run.admissions = self._audit.counts
        return run

    def _at(self, moment: float, happen: Callable[[], None], *, awaited: bool = True) -> None:
        heapq.heappush(self._heap, (moment, next(self._order), awaited, happen))
        self._awaited += awaited

    # --- what happens ----------------------------------------------------------------------------------------------

    def _submit(self, arrival: Arrival) -> None:
        job = _job(arrival, self._beliefs.signature(arrival), self.now)
        self._jobs[job.id] = JobRun(arrival)
        self._left[job.id] = arrival.duration_s
        self._tell(Submitted(self._as_submitted(job)))

    def _end(self, resident: Resident, turn: int) -> None:
        if resident.turn == turn and resident.run.ended_at is None:
            self._exit(resident, Ending.EXITED, 0)

    def _grow(self, resident: Resident) -> None:
        """It has loaded: there is room for all that it needs from now on, or it ends."""
        if resident.run.ended_at is not None:
            return
        if self._floor.grow(resident):
            self._report(resident)
        else:
            self._exit(resident, Ending.OUT_OF_MEMORY, 1)

    def _stop(self, attempt: AttemptId) -> None:
        resident = self._residents.get(attempt)
        if resident is not None and resident.run.ended_at is None:
            self._exit(resident, Ending.STOPPED, None)

    def _exit(self, resident: Resident, ending: Ending, exit_code: int | None) -> None:
        self._leave(resident, ending, exit_code)
        self._tell_exit(resident)
        self._report(resident)

    def _leave(self, resident: Resident, ending: Ending, exit_code: int | None) -> None:
        """It is gone from its devices, with what it saved."""
        run = resident.run
        self._floor.settle(resident, self.now)
        if not run.stretches:
            run.stretches.append(Stretch(resident.beside, 0.0, 0.0, resident.slowdown))
        self._floor.end(resident)
        run.ended_at, run.ending, run.exit_code = self.now, ending, exit_code
        self._save(resident)
        self._foresee(run.devices)

    def _save(self, resident: Resident) -> None:
        """What is left of the job. Only who ends, or is told to stop and can save its work, has come any further."""
        run, job = resident.run, resident.run.arrival.job
        before = self._left[job]
        if run.ending is Ending.EXITED:
            # Rounding may have left a hair of it.
            run.stretches[-1].work_s += resident.left_s
            resident.left_s = self._left[job] = 0.0
        elif run.ending is Ending.STOPPED and self.state.jobs[job].preemptible:
            self._left[job] = min(before, resident.left_s)
        run.lost_s = max(0.0, run.work_s - (before - self._left[job]))

    def _tell_exit(self, resident: Resident) -> None:
        run, job = resident.run, self._jobs[resident.run.arrival.job]
        del self._residents[run.id]
        if run.ending is Ending.EXITED:
            job.ended_at = self.now
            del self._left[run.arrival.job]
        if self._beliefs.learn(run, self.now):
            self._forecasts.forget()
        self._tell(Exited(run.id, self.now, run.ending or Ending.LOST, run.exit_code, "", Measurement()))
        job.state = self.state.jobs[run.arrival.job].state

    def _night(self) -> None:
        started = time.perf_counter()
        taught = self._beliefs.night(self.now)
        if taught is not None:
            seconds = time.perf_counter() - started
            self.run.nights.append(Night(self.now, seconds, taught.published, taught.reason))
            self._changed |= taught.published
            self._forecasts.forget()
        self._at(self.now + DAY_S, self._night, awaited=False)

    def _wake(self) -> None:
        """A pass because time has passed, if there was none for other reasons."""
        waits = len(self._left) > len(self._residents)
        self._changed |= waits and self._passed_at <= self.now - _WAKE_S
        self._at(max(self.now, self._passed_at) + _WAKE_S, self._wake, awaited=False)

    def _lose(self, loss: HostLoss) -> None:
        """The host falls silent with all that ran there; as with real ones, what became of that is only known when it is back."""
        if not self._hosts.is_up(loss.host):
            return
        gone = [r for r in self._residents.values() if r.run.ended_at is None and self._host_of(r) == loss.host]
        for resident in gone:
            self._leave(resident, Ending.LOST, None)
        self._hosts.lose(loss.host, self.now)
        self._tell(self._hosts.report(loss.host, self.now))
        self._changed = True
        self._at(loss.back_at, lambda: self._return(loss.host, gone))

    def _return(self, host: HostId, gone: Sequence[Resident]) -> None:
        self._hosts.take_back(host, self.now)
        for resident in gone:
            self._tell_exit(resident)
        self._tell(self._hosts.report(host, self.now))
        self._changed = True

    def _host_of(self, resident: Resident) -> HostId:
        return self._floor.devices[resident.run.devices[0]].host

    def _report(self, resident: Resident) -> None:
        """Its host says what is used there now; in a world without memory nobody needs to hear it."""
        if self._floor.has_memory:
            self._tell(self._hosts.report(self._host_of(resident), self.now))

    # --- what is done ----------------------------------------------------------------------------------------------

    def _tell(self, item: Event | Action) -> bool:
        if not apply(self.state, item, self.now):
            return False
        if self._watch is not None:
            self._watch(item, self.now, self.state)
        # As in the daemon, reports alone are no reason for a pass.
        if not isinstance(item, HostReported | SetPendingReason | Archive):
            self._changed, self._told_at = True, self.now
        return True

    def _pass(self) -> None:
        started = time.perf_counter()
        self._forecasts.collect(self.state, self._cache, self._limits, self.now, self._beliefs.answer)
        actions = decide(self.state, self._forecasts.table, self._cache, self._limits, self._policy, self.now)
        self.run.pass_seconds.append(time.perf_counter() - started)
        self._passed_at = self.now
        self.run.replacements += self._policy.fault is not None
        for action in actions:
            if isinstance(action, SetPendingReason):
                self._refused(action)
        for action in actions:
            if self._tell(action):
                self._perform(action)

    def _refused(self, hold: SetPendingReason) -> None:
        for job in hold.jobs:
            self._audit.refuse(self._jobs[job].arrival, hold.verdict)

    def _perform(self, action: Action) -> None:
        match action:
            case Launch():
                self._launch(action)
            case Stop(attempt=attempt):
                started = self._residents[attempt].run.started_at
                self._at(max(self.now, started + _DEAF_S), lambda: self._stop(attempt))
            case Archive(job=job):
                self._close(self._jobs[job])
            case Requeue(job=job):
                self._jobs[job].state = JobState.PENDING

    def _close(self, job: JobRun) -> None:
        """It ended for good, with its work done or not."""
        if job.ended_at is None:
            job.ended_at = job.attempts[-1].ended_at if job.attempts else self.now
            del self._left[job.arrival.job]

    def _launch(self, action: Launch) -> None:
        attempt, job = action.attempt, self._jobs[action.attempt.id.job]
        device_type = self._floor.devices[attempt.devices[0]].type
        run = AttemptRun(
            attempt.id, job.arrival, attempt.devices, device_type, self.now,
            attempt.forecast, action.verdict.rule, attempt.promised,
        )  # fmt: skip
        job.attempts.append(run)
        if job.first_started_at is None:
            job.first_started_at = self.now
        left = self._left[job.arrival.job]
        resumed = self._world.restart_s if left < job.arrival.duration_s else 0.0
        resident = self._residents[attempt.id] = self._floor.start(run, left + resumed, self.now)
        self._audit.start(resident)
        self._tell(Started(attempt.id, self.now, 1, ""))
        job.state = JobState.RUNNING
        self._foresee(attempt.devices)
        if not self._floor.has_room(resident):
            self._exit(resident, Ending.OUT_OF_MEMORY, 1)
        elif (after := self._floor.starting_s(resident)) is not None:
            self._at(self.now + after, lambda: self._grow(resident))

    def _foresee(self, devices: tuple[DeviceId, ...]) -> None:
        """When those on these devices will end, at their new pace."""
        for resident in self._floor.reconsider(devices, self.now):
            self._at(self.now + resident.left_s * resident.pace, self._ender(resident, resident.turn))

    def _ender(self, resident: Resident, turn: int) -> Callable[[], None]:
        return lambda: self._end(resident, turn)


def _guarded(contender: Contender) -> Guarded:
    """As in the daemon, but without a limit on time: what comes of a run must not depend on the machine."""
    if isinstance(contender.policy, Guarded):
        return contender.policy
    return Guarded(contender.name, contender.policy, packed, inf, patient)


def _job(arrival: Arrival, signature: str, now: float) -> Job:
    """What the core is told of a job: never how long it runs."""
    return Job(
        id=arrival.job,
        kind=KindId(arrival.kind),
        signature=signature,
        owner=arrival.owner,
        submitted_at=now,
        priority=arrival.priority,
        declared_memory=arrival.declared_memory,
        device_count=arrival.devices,
        most_devices=arrival.most_devices,
        deadline_at=arrival.deadline_s,
        preemptible=arrival.preemptible,
        requeue_on_node_fail=True,
        since=now,
    )


def simulate(  # noqa: PLR0913 - what is simulated, and what may go wrong there
    trace: Trace,
    world: World,
    beliefs: Beliefs,
    contender: Contender,
    *,
    seed: int = 0,
    losses: Sequence[HostLoss] = NONE,
    progress: Progress | None = None,
) -> Run:
    """One simulation from its first arrival to its last end."""
    return Simulation(trace, world, beliefs, contender, seed=seed, losses=losses).play(progress)
