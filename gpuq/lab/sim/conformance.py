"""Tests whether a policy keeps what every policy must, and what its spec claims: `python -m gpuq.lab.sim.conformance NAME`.

It plays small scenarios with gangs, priorities, preemptible jobs, unknown jobs, jobs that fit nowhere, and streams that never
let up. A finding is one sentence; no finding is a pass. It checks that

- the state is valid after each event and action (`validate`): memory is never promised twice, a job never runs twice;
- only what exists is proposed: waiting jobs, devices that are there, attempts that may be stopped;
- everything that fits ends, and a pass comes to rest;
- the same seed gives the same starts;
- if the policy claims to be starvation free, a job starts within `BOUND` times the limits' patience although others keep coming;
- if it claims to be work conserving, no job waits that an idle device would have taken;
- no pass takes longer than `policy_time_limit_s`.

Exit code 0 without findings, 1 with, 2 for an unknown name.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpuq.core.scheduling.admit import admit
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.job import JobState
from gpuq.core.state.validate import validate
from gpuq.errors import GpuqError
from gpuq.lab.sim.exercises import Exercise, exercises
from gpuq.policies import registry
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling
from gpuq.sim.candidate import Candidate
from gpuq.sim.record import SimulationRun
from gpuq.sim.run import Simulation, Watcher

BOUND = 20
"""Under a policy that claims to starve no job, a job may wait this many times `patience_s`."""
# With more passes at one moment, or starts of one job, the policy makes no progress.
_MOST_PASSES = 200
_MOST_STARTS = 20

Clock = Callable[[], float]


class _Circle(Exception):
    """The policy does and undoes the same thing without end."""


@dataclass
class PolicyObserver:
    """A policy that passes on another's proposals and checks them. `findings` holds each finding once, in order."""

    policy: Policy
    spec: PolicySpec
    scheduling: Scheduling
    clock: Clock
    findings: dict[str, None] = field(default_factory=dict)
    moment: float = -1.0
    passes: int = 0

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """The proposals of the observed policy."""
        self.passes = self.passes + 1 if context.now == self.moment else 1
        self.moment = context.now
        if self.passes > _MOST_PASSES or any(job.attempt > _MOST_STARTS for job in context.waiting):
            self.find("it never comes to rest: it stops and starts the same jobs in a circle")
            raise _Circle
        began = self.clock()
        try:
            for proposal in self.policy(context):
                self._judge(context, proposal)
                yield proposal
        except Exception as error:
            # The guard then serves the default policy instead, as in the daemon.
            self.find(f"it raises {type(error).__name__}: {error}")
            raise
        took = self.clock() - began
        if took > self.scheduling.policy_time_limit_s:
            self.find(f"a pass over {len(context.waiting)} waiting jobs took {took:.1f} s")
        if self.spec.work_conserving:
            self._judge_idleness(context)

    def find(self, what: str) -> None:
        """Add a finding."""
        self.findings.setdefault(what)

    def _judge(self, context: SchedulingContext, proposal: Proposal | Eviction) -> None:
        job = context.state.jobs.get(proposal.job.id)
        if job is None or job.state is not JobState.PENDING:
            self.find("it proposes jobs that do not wait")
        if isinstance(proposal, Eviction):
            attempt = context.state.attempts.get(proposal.attempt)
            if attempt is None:
                self.find("it stops attempts that do not exist")
            elif not context.state.jobs[attempt.id.job].preemptible:
                self.find("it stops jobs whose submitters did not allow it")
        elif any(device.id not in context.state.devices for device in proposal.devices):
            self.find("it proposes devices that do not exist")

    def _judge_idleness(self, context: SchedulingContext) -> None:
        """Find an idle, unreserved device, or as many of one host as a gang needs, that would take a waiting job."""
        if context.evicted:
            return  # what is being freed is reserved for another job
        idle = [
            snapshot
            for snapshot in context.snapshots
            if not snapshot.residents and snapshot.reserved_for is None and not context.given(snapshot.device.id)
        ]
        for job in context.waiting if idle else ():
            if context.placed(job):
                continue
            admitting = Counter(
                snapshot.device.host
                for snapshot in idle
                if admit(job, context.forecast_alone(job, snapshot.device), snapshot, context.limits).admitted
            )
            if any(count >= job.device_count for count in admitting.values()):
                self.find("it claims to be work conserving and leaves devices idle that a waiting job could have")
                return


def conformance(
    spec: PolicySpec, *, clock: Clock = time.perf_counter, only: Iterable[Exercise] | None = None
) -> list[str]:
    """All findings on this policy, from all exercises or `only` these. Raises what `spec.make` raises."""
    found: dict[str, None] = {}
    for exercise in exercises() if only is None else only:
        found.update(dict.fromkeys(f"{exercise.name}: {what}" for what in _findings(spec, exercise, clock)))
    return list(found)


def _findings(spec: PolicySpec, exercise: Exercise, clock: Clock) -> Iterator[str]:
    observer, run = _play(spec, exercise, clock, lambda item, now, state: validate(state))  # noqa: ARG005 - a watcher
    yield from observer.findings
    if run is None:
        return
    if not exercise.victims:
        # Only the starts of the second run are looked at. What the first one was checked for is not checked again.
        again = _play(replace(spec, work_conserving=False), exercise, clock)[1]
        if again is None or _starts(run) != _starts(again):
            yield "the same seed does not give the same starts"
    for job in run.jobs:
        name = job.arrival.job
        if name in exercise.never:
            if job.first_started_at is not None:
                yield f"job {name} fits nowhere and was started"
        elif job.ended_at is None:
            yield f"job {name} fits and never ended although all others did"
        elif name in exercise.victims and spec.starvation_free:
            waited = (job.first_started_at or 0.0) - job.arrival.submit_s
            if waited > BOUND * exercise.limits.patience_s:
                yield f"it claims to be starvation free, and job {name} waited {waited:.0f} s while others went first"


def _play(
    spec: PolicySpec, exercise: Exercise, clock: Clock, watch: Watcher | None = None
) -> tuple[PolicyObserver, SimulationRun | None]:
    """A new policy of this spec in the exercise; no run if `watch` or the core found the state to be wrong."""
    observer = PolicyObserver(spec.make(exercise.scheduling), spec, exercise.scheduling, clock)
    candidate = Candidate("under test", observer, exercise.limits)
    try:
        simulation = Simulation(exercise.trace, exercise.world, exercise.forecaster(), candidate, seed=1, watch=watch)
        return observer, simulation.play()
    except AssertionError as error:
        observer.find(f"the state does not hold: {error}")
    return observer, None


def _starts(run: SimulationRun) -> list[tuple[object, ...]]:
    return [(a.id, a.devices, a.started_at) for job in run.jobs for a in job.attempts]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code. Errors are a sentence and its fix on stderr."""
    parser = argparse.ArgumentParser(prog="python -m gpuq.lab.sim.conformance", description="Test a policy.")
    parser.add_argument("name", help="of a policy: `gpuq policy list`")
    try:
        found = conformance(registry.spec(parser.parse_args(arguments).name))
    except GpuqError as error:
        sys.stderr.write(f"gpuq: {error.message}\n  {error.fix}\n")
        return error.exit_code
    sys.stdout.write("".join(f"{finding}\n" for finding in found or ["it keeps all that it must and claims"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
