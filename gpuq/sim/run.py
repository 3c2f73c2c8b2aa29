"""The simulator: a heap of events in virtual time around `apply` and `decide`.

It plays a trace in a world, with forecasts from a forecaster and the policy and limits of a candidate, and returns a
`SimulationRun`. The core never sees the world: it gets submissions, starts, ends and host reports, as a daemon gets them from
real hosts. The same arguments and seed give the same run.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.scheduling.admit import budget_of
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.pauses import left_s
from gpuq.core.scheduling.revise import revisions
from gpuq.core.state.actions import Action, Archive, Launch, Pause, Requeue, Resume, SetPendingReason, Stop
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Attempt, AttemptId, Ending
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.events import Event, Exited, HostReported, Started, Submitted
from gpuq.core.state.job import Job, JobId, JobState, KindId
from gpuq.core.state.state import State
from gpuq.format import two_places
from gpuq.policies import registry
from gpuq.policies.guard import Guarded
from gpuq.policies.lists.packed import packed
from gpuq.sim.audit import Audit
from gpuq.sim.candidate import Candidate
from gpuq.sim.cluster import RunningAttempt, SimulatedCluster
from gpuq.sim.forecaster import Forecaster
from gpuq.sim.hosts import Hosts
from gpuq.sim.record import HostLoss, NightlyTraining, SimulatedAttempt, SimulatedJob, SimulationRun, Stretch
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import World

DAY_S = 86_400.0
# The daemon makes a pass every second. Here a pass without an event is made after _WAKE_S only, and only while jobs wait, since
# nothing but the time has changed then; policies that wait for a certain time need it. After _GIVE_UP_S of nothing but such
# passes, the jobs that still wait can never start, and the run ends.
_WAKE_S = 300.0
_GIVE_UP_S = DAY_S
# A process cannot be stopped in its first second. Without this a policy could start and stop jobs for ever at one moment.
_UNSTOPPABLE_S = 1.0
# From the decision until the job stands still, or goes on.
_PAUSE_TAKES_S = 0.5
# From a change of partners until a worker service has measured what it costs: three windows of 5 s, and a little more.
_MEASURED_S = 30.0
# How old what hosts have reported of accounts may be.
_REPORT_S = 60.0
# A policy that takes longer in one pass does not return.
_ENDLESS_S = 60.0

Watcher = Callable[[Event | Action, float, State], None]
Progress = Callable[[float], None]


class Simulation:
    """One run. `watch` is called with each event and action that `apply` accepted, the time, and the state after it.

    With `level_after_s` an attempt that runs is evidence for its kind once it has had all of its memory for so long, and one that
    was launched without evidence is opened to partners when there is some, as in the daemon. None: only ended attempts count.
    """

    def __init__(  # noqa: PLR0913 - the parts of a simulation
        self,
        trace: Trace,
        world: World,
        forecaster: Forecaster,
        candidate: Candidate,
        *,
        seed: int = 0,
        losses: Sequence[HostLoss] = (),
        watch: Watcher | None = None,
        level_after_s: float | None = None,
    ) -> None:
        self.now = 0.0
        self.state = State()
        self.run = SimulationRun(
            trace.name, world.name, candidate.name, seed, len(world.devices), world.devices,
            candidate.limits.max_slowdown, losses=list(losses), notes=[*trace.notes, *world.notes], left_out=trace.left_out,
        )  # fmt: skip
        self._world = world
        self._forecaster = candidate.wrap_forecaster(forecaster)
        self._policy = _guarded(candidate)
        self._as_submitted = candidate.submit
        # Hosts report when something changes, not every second, so an old report does not mean that a host is lost.
        self._limits = replace(candidate.limits, stale_after_s=inf, start_grace_s=inf)
        self._cache = PassCache()
        self._forecasts = ForecastTable(self._forecaster.answer)
        self._cluster = SimulatedCluster(world)
        self._audit = Audit(self._cluster, candidate.limits.max_slowdown)
        self._hosts = Hosts(self._cluster)
        self._jobs: dict[JobId, SimulatedJob] = {}
        self._left: dict[JobId, float] = {}
        self._residents: dict[AttemptId, RunningAttempt] = {}
        self._watch = watch
        self._level_after_s = level_after_s
        self._level: dict[AttemptId, RunningAttempt] = {}
        self._heap: list[tuple[float, int, bool, Callable[[], None]]] = []
        self._order = count()
        # The number of events in the heap that must happen before the run may end; and the time of the last event or action
        # that could let a waiting job start.
        self._awaited = 0
        self._progress_at = 0.0
        self._changed = False
        self._passed_at = self._reported_at = 0.0
        self._will_wake = self._will_train = False
        self._total = len(trace.arrivals)
        for report in self._hosts.reports(self.now):
            self._apply(report)
        for arrival in trace.arrivals:
            self._at(arrival.submit_s, partial(self._submit, arrival))
        for loss in losses:
            self._at(loss.at, partial(self._lose, loss), awaited=False)

    def play(self, progress: Progress | None = None) -> SimulationRun:
        """Play until no job waits or runs. `progress` is called with the share of jobs that have ended, 0 to 1."""
        ended = 0
        # Until nothing runs and no waiting job can start any more: some may be too large for the world.
        while self._awaited > 0 or (self._left and self.now - self._progress_at < _GIVE_UP_S):
            self.now = now = self._heap[0][0]
            # All events of one moment happen before a pass, as a daemon reads all messages before it decides.
            while self._heap and self._heap[0][0] <= now:
                _, _, awaited, effect = heapq.heappop(self._heap)
                self._awaited -= awaited
                effect()
            # A pass may itself cause changes at this moment, such as a launch without room for its memory.
            while self._changed:
                self._changed = False
                self._pass()
            self._wake_later()
            if progress is not None and len(self._jobs) - len(self._left) > ended:
                ended = len(self._jobs) - len(self._left)
                progress(ended / self._total)
        return self._finish()

    def _finish(self) -> SimulationRun:
        run = self.run
        run.jobs = list(self._jobs.values())
        run.ended_at = max((job.ended_at or 0.0 for job in run.jobs), default=0.0)
        for job in run.jobs:
            if job.arrival.job in self.state.jobs:
                job.state = self.state.jobs[job.arrival.job].state
        if self._left:
            run.ended_at = max(run.ended_at, self._progress_at)
            run.notes.append(f"{run.policy}: {len(self._left)} jobs never ended, since nothing could start them")
        if (fault := self._policy.fault) is not None:
            after = two_places(fault.at or 0.0)
            run.fault = f"{run.policy} was replaced by {registry.DEFAULT} after {after}: {fault.reason}"
        run.energy_kwh, run.idle_energy_kwh = self._cluster.energy.total_kwh(run.ended_at)
        run.admissions = self._audit.counts
        return run

    def _at(self, moment: float, effect: Callable[[], None], *, awaited: bool = True) -> None:
        heapq.heappush(self._heap, (moment, next(self._order), awaited, effect))
        self._awaited += awaited

    # --- events ----------------------------------------------------------------------------------------------

    def _submit(self, arrival: JobArrival) -> None:
        # Everything but how long the job runs, which the core never sees.
        job = Job(
            id=arrival.job,
            kind=KindId(arrival.kind),
            signature=self._forecaster.signature(arrival),
            owner=arrival.owner,
            submitted_at=self.now,
            priority=arrival.priority,
            declared_memory=arrival.declared_memory,
            device_count=arrival.devices,
            most_devices=arrival.most_devices,
            deadline_at=arrival.deadline_s,
            preemptible=arrival.preemptible,
            requeue_on_node_fail=True,
            since=self.now,
        )
        self._jobs[job.id] = SimulatedJob(arrival)
        self._left[job.id] = arrival.duration_s
        self._apply(Submitted(self._as_submitted(job)))

    def _end(self, resident: RunningAttempt, turn: int) -> None:
        # The pace may have changed since this end was scheduled; then another one is in the heap.
        if resident.turn == turn and resident.run.ended_at is None:
            self._exit(resident, Ending.EXITED, 0)

    def _grow(self, resident: RunningAttempt) -> None:
        """The attempt has loaded and now needs all of its memory: it gets it, or ends out of memory."""
        if resident.run.ended_at is not None:
            return
        if self._cluster.grow(resident):
            self._report(resident)
            self._level_later(resident)
        else:
            self._exit(resident, Ending.OUT_OF_MEMORY, 1)

    def _level_later(self, resident: RunningAttempt) -> None:
        if self._level_after_s is not None:
            self._at(self.now + self._level_after_s, partial(self._levelled, resident), awaited=False)

    def _levelled(self, resident: RunningAttempt) -> None:
        """The attempt has shown what it needs, though it goes on."""
        if resident.run.ended_at is None:
            self._level[resident.run.id] = resident
            self._watch_level()

    def _watch_level(self) -> None:
        for resident in self._level.values():
            self._cluster.settle(resident, self.now)
        if self._forecaster.watch(resident.run for resident in self._level.values()):
            self._forecasts.forget()
            self._changed = True

    def _stop(self, attempt: AttemptId) -> None:
        resident = self._residents.get(attempt)
        if resident is not None and resident.run.ended_at is None:
            self._exit(resident, Ending.STOPPED, None)

    def _exit(self, resident: RunningAttempt, ending: Ending, exit_code: int | None) -> None:
        self._leave(resident, ending, exit_code)
        self._exited(resident)
        self._report(resident)

    def _leave(self, resident: RunningAttempt, ending: Ending, exit_code: int | None) -> None:
        """Take the attempt off its devices and account for the work that it saved."""
        run = resident.run
        self._cluster.settle(resident, self.now)
        if not run.stretches:
            run.stretches.append(Stretch(resident.beside, 0.0, 0.0, resident.slowdown))
        self._cluster.end(resident)
        run.ended_at, run.ending, run.exit_code = self.now, ending, exit_code
        # Only work that ended counts, or that a preemptible job saved when it was stopped.
        job = run.arrival.job
        before = self._left[job]
        if ending is Ending.EXITED:
            # Rounding may have left a little work undone.
            run.stretches[-1].work_s += resident.left_s
            resident.left_s = self._left[job] = 0.0
        elif ending is Ending.STOPPED and self.state.jobs[job].preemptible:
            self._left[job] = min(before, resident.left_s)
        run.lost_s = max(0.0, run.work_s - (before - self._left[job]))
        self._schedule_ends(run.devices)

    def _exited(self, resident: RunningAttempt) -> None:
        run, job = resident.run, self._jobs[resident.run.arrival.job]
        del self._residents[run.id]
        if self._level.pop(run.id, None) is not None:
            self._watch_level()
        if run.ending is Ending.EXITED:
            job.ended_at = self.now
            del self._left[run.arrival.job]
        self._train_tonight()
        if self._forecaster.learn(run, self.now):
            self._forecasts.forget()
        self._apply(Exited(run.id, self.now, run.ending or Ending.LOST, run.exit_code, "", Measurement()))
        job.state = self.state.jobs[run.arrival.job].state

    def _train(self) -> None:
        self._will_train = False
        started = time.perf_counter()
        training = self._forecaster.train(self.now)
        if training is not None:
            seconds = time.perf_counter() - started
            self.run.trainings.append(NightlyTraining(self.now, seconds, training.published, training.reason))
            self._changed |= training.published
            self._forecasts.forget()

    def _train_tonight(self) -> None:
        """Train at the end of this day, since there is something new to learn from."""
        if not self._will_train:
            self._will_train = True
            self._at((self.now // DAY_S + 1) * DAY_S, self._train, awaited=False)

    @property
    def _waits(self) -> bool:
        return len(self._left) > len(self._residents)

    def _wake(self) -> None:
        """Make a pass if jobs wait and none was made for _WAKE_S."""
        self._will_wake = False
        self._changed |= self._waits and self._passed_at <= self.now - _WAKE_S

    def _wake_later(self) -> None:
        """Wake _WAKE_S after the last pass if jobs wait, or if nothing else is to come. Else nothing may happen for years."""
        if not self._will_wake and (self._waits or not self._awaited):
            self._will_wake = True
            due = self._passed_at + _WAKE_S
            self._at(due if due > self.now else self.now + _WAKE_S, self._wake, awaited=False)

    def _lose(self, loss: HostLoss) -> None:
        """Take the host away with everything on it. As with real hosts, the core learns what ended only when it is back."""
        if not self._hosts.is_up(loss.host):
            return
        lost = [r for r in self._residents.values() if r.run.ended_at is None and self._host_of(r) == loss.host]
        for resident in lost:
            self._leave(resident, Ending.LOST, None)
        self._hosts.lose(loss.host, self.now)
        self._apply(self._hosts.report(loss.host, self.now))
        self._changed = True
        self._at(loss.back_at, partial(self._return, loss.host, lost))

    def _return(self, host: HostId, lost: Sequence[RunningAttempt]) -> None:
        self._hosts.take_back(host, self.now)
        for resident in lost:
            self._exited(resident)
        self._apply(self._hosts.report(host, self.now))
        self._changed = True

    def _host_of(self, resident: RunningAttempt) -> HostId:
        return self._cluster.devices[resident.run.devices[0]].host

    def _report(self, resident: RunningAttempt) -> None:
        """Send a report of the attempt's host. In a world without memory its figures would not change, so none is sent."""
        if self._cluster.has_memory:
            self._apply(self._hosts.report(self._host_of(resident), self.now))

    # --- passes and actions ----------------------------------------------------------------------------------------------

    def _apply(self, item: Event | Action) -> bool:
        if not apply(self.state, item, self.now):
            return False
        if self._watch is not None:
            self._watch(item, self.now, self.state)
        if isinstance(item, Launch | Pause | Resume | Stop | Exited) and self._keeps_accounts:
            self._at(self.now + _PAUSE_TAKES_S, self._follow_accounts)
        # As in the daemon, host reports alone are no reason for a pass.
        if not isinstance(item, HostReported | SetPendingReason | Archive):
            self._changed, self._progress_at = True, self.now
        return True

    def _pass(self) -> None:
        if self._keeps_accounts and self.now - self._reported_at >= _REPORT_S:
            self._report_accounts()
        started = time.perf_counter()
        actions = decide(self.state, self._forecasts, self._cache, self._limits, self._policy, self.now)
        if self._level_after_s is not None:
            actions += revisions(self.state, self._forecaster.answer)
        self.run.pass_seconds.append(time.perf_counter() - started)
        self._passed_at = self.now
        self._changed |= self._cache.tried is not None  # it was cut short
        # Refusals are judged first: launches of the same pass change what runs on the devices.
        for action in actions:
            if isinstance(action, SetPendingReason):
                for job in action.jobs:
                    self._audit.refuse(self._jobs[job].arrival, action.verdict)
        for action in actions:
            if self._apply(action):
                self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case Launch():
                self._launch(action)
            case Stop(attempt=attempt):
                started = self._residents[attempt].run.started_at
                self._at(max(self.now, started + _UNSTOPPABLE_S), partial(self._stop, attempt))
            case Archive(job=job):
                # It ended for good; a job without its work done has no end yet, so it gets that of its last attempt.
                if self._jobs[job].ended_at is None:
                    attempts = self._jobs[job].attempts
                    self._jobs[job].ended_at = attempts[-1].ended_at if attempts else self.now
                    del self._left[job]
            case Requeue(job=job):
                self._jobs[job].state = JobState.PENDING

    def _launch(self, action: Launch) -> None:
        attempt, job = action.attempt, self._jobs[action.attempt.id.job]
        device_type = self._cluster.devices[attempt.devices[0]].type
        run = SimulatedAttempt(
            attempt.id, job.arrival, attempt.devices, device_type, self.now,
            attempt.forecast, action.verdict.rule, attempt.promised,
        )  # fmt: skip
        job.attempts.append(run)
        if job.first_started_at is None:
            job.first_started_at = self.now
        left = self._left[job.arrival.job]
        resumed = self._world.restart_s if left < job.arrival.duration_s else 0.0
        resident = self._residents[attempt.id] = self._cluster.start(run, left + resumed, self.now)
        self._audit.start(resident)
        self._apply(Started(attempt.id, self.now, 1, ""))
        job.state = JobState.RUNNING
        self._schedule_ends(attempt.devices)
        if not self._cluster.has_room(resident):
            self._exit(resident, Ending.OUT_OF_MEMORY, 1)
        elif (after := self._cluster.starting_s(resident)) is not None:
            self._at(self.now + after, partial(self._grow, resident))
        else:
            self._level_later(resident)

    @property
    def _keeps_accounts(self) -> bool:
        return self._limits.pauses or (self._limits.trials and self._limits.residents_per_device > 1)

    def _report_accounts(self) -> None:
        self._reported_at = self.now  # accounts change with time alone
        for report in self._hosts.reports(self.now):
            self._apply(report)

    def _follow_accounts(self) -> None:
        """Let the attempts stand still that the core has paused, and the others go on. A pass is due when an account is empty."""
        for id_, resident in self._residents.items():
            attempt = self.state.attempts.get(id_)
            if attempt is None or resident.run.ended_at is not None:
                continue
            paused = attempt.paused_for is not None
            if resident.paused != paused:
                resident.paused = paused
                self._schedule_ends(resident.run.devices)
            if paused and (left := left_s(attempt, self._limits, self.now)) is not None:
                self._at(self.now + max(1.0, left + 1.0), self._decide, awaited=False)
            if resident.slowdown > self._budget(attempt) and not paused:
                # Work earns more slowly than time is lost. No sooner than a worker service has measured that.
                lost_by_second = 1 - self._budget(attempt) / resident.slowdown
                empty_s = max(0.0, left_s(attempt, self._limits, self.now) or 0.0) / lost_by_second
                self._at(self.now + max(_MEASURED_S, empty_s + 1.0), self._decide, awaited=False)

    def _budget(self, attempt: Attempt) -> float:
        return budget_of(attempt.max_slowdown, self._limits) or inf

    def _decide(self) -> None:
        self._report_accounts()
        self._changed = True

    def _schedule_ends(self, devices: tuple[DeviceId, ...]) -> None:
        """Schedule the ends of the attempts on these devices whose pace has changed."""
        for resident in self._cluster.reconsider(devices, self.now):
            if resident.paused:
                continue
            self._at(self.now + resident.left_s * resident.pace, partial(self._end, resident, resident.turn))


def _guarded(candidate: Candidate) -> Guarded:
    """The policy with the daemon's guard. Its time limit is one that only an endless loop exceeds: a run must not depend on the
    machine's speed."""
    if isinstance(candidate.policy, Guarded):
        return candidate.policy
    return Guarded(candidate.name, candidate.policy, packed, _ENDLESS_S)


def simulate(  # noqa: PLR0913 - the parts of a simulation
    trace: Trace,
    world: World,
    forecaster: Forecaster,
    candidate: Candidate,
    *,
    seed: int = 0,
    losses: Sequence[HostLoss] = (),
    progress: Progress | None = None,
    level_after_s: float | None = None,
) -> SimulationRun:
    """One whole simulation. `progress` as in `Simulation.play`."""
    parts = trace, world, forecaster, candidate
    return Simulation(*parts, seed=seed, losses=losses, level_after_s=level_after_s).play(progress)
