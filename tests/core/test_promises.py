"""The promises, against whatever may happen: memory is never promised twice, a job never has two live attempts, whoever
waits has a reason, and time alone changes nothing that is settled.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.actions import Launch, Stop
from gpuq.core.state.attempt import Attempt, AttemptId, Ending, StopReason
from gpuq.core.state.dependency import Dependency, DependencyType
from gpuq.core.state.edit import edit_of
from gpuq.core.state.events import CancelRequested, HoldRequested, JobEdited, ReleaseRequested, Submitted
from gpuq.core.state.job import WAITING, Job, JobId, JobState, Sharing
from gpuq.core.state.retry import RetryRule
from gpuq.core.state.validate import validate
from gpuq.policies.lists.packed import packed
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

KINDS = ("light", "heavy", "huge", "unknown")
DEVICES = (a_device("gpu0", gib=24), a_device("gpu1", gib=24), a_device("gpu2", gib=80, type="B"))
FAR = (a_device("far0", gib=24, host="far"), a_device("far1", gib=24, host="far"))
WISHES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "sharing": st.sampled_from(list(Sharing)),
        "priority": st.integers(-2, 2),
        "declared_memory": st.none() | st.integers(1, 80).map(lambda gib: gib * GIB),
        "device_count": st.sampled_from([1, 1, 1, 2, 3]),
        "most_devices": st.none() | st.integers(1, 3),
        "preemptible": st.booleans(),
        "pausable": st.booleans(),
        "array": st.sampled_from([(None, None), (None, None), (90, None), (91, 1), (92, 2)]),
        "requeue_on_node_fail": st.booleans(),
        "retry": st.sampled_from(["", "any:1", "oom:2 exit=1:1 timeout:1", "node:1 any:2"]).map(
            lambda text: tuple(map(RetryRule.parse, text.split()))
        ),
    }
)
WAITS = st.none() | st.fixed_dictionaries(
    {
        "after": st.lists(st.tuples(st.sampled_from(DependencyType), st.integers(1, 4), st.integers(0, 2)), max_size=2),
        "singleton": st.booleans(),
        "not_before": st.none() | st.floats(0, 3000),
    }
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from([None, "a", "b"]),
        "priority": st.integers(-2, 2),
        "share": st.sampled_from(list(Sharing)),
        "gpu_memory": st.none() | st.integers(1, 80).map(lambda gib: gib * GIB),
        "time_limit_s": st.none() | st.floats(1, 3000),
        "begin_at": st.none() | st.floats(0, 3000),
    },
)


def hostile(rng: random.Random) -> Policy:
    """A policy that means no good: devices twice, across hosts, too many, too few, or made up; jobs that do not wait, that never
    were, or that claim to be smaller than they are; the end of other people's work."""
    any_devices = [*DEVICES, *FAR, a_device("nowhere", gib=1000), replace(DEVICES[0], total_memory=1000 * GIB)]

    def propose(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        jobs = [*context.state.jobs.values(), a_job(999)]
        for _ in range(12):
            job = rng.choice(jobs)
            if rng.random() < 0.3:
                job = replace(job, declared_memory=0, sharing=Sharing.AUTO, device_count=1, state=JobState.PENDING)
            attempts = [*context.state.attempts, AttemptId(job.id, 7)]
            yield rng.choice(
                (
                    Proposal(job, tuple(rng.choices(any_devices, k=rng.randint(0, 4)))),
                    Proposal(job, tuple(rng.sample(any_devices, k=max(1, job.device_count)))),
                    Proposal(job, tuple(rng.sample(any_devices, k=max(1, job.device_count))), pausing=True),
                    Eviction(rng.choice(attempts), job),
                    *(Proposal(job, tuple(p.device for p in snapshots)) for snapshots in context.choices(job)),
                )
            )

    return propose


class Ring(RuleBasedStateMachine):
    """Everything the world and a policy may do, in any order, with repeats and out of turn."""

    @initialize(
        residents=st.integers(1, 3), forgetful=st.booleans(), pauses=st.booleans(), seed=st.none() | st.integers()
    )
    def begin(self, residents: int, forgetful: bool, pauses: bool, seed: int | None) -> None:
        policy = packed if seed is None else hostile(random.Random(seed))
        limits = Limits(residents_per_device=residents, patience_s=300, pauses=pauses)
        self.play = Playbook(limits, policy, forgetful=forgetful)
        short = {"duration_p50_s": 20.0, "duration_p90_s": 30.0, "duration_runs": 9}
        self.play.forecast("light", a_forecast(20, 2, **short)).forecast("heavy", a_forecast(70, 10, **short))
        self.play.forecast("huge", a_forecast(50, 30, **short))
        self.submitted = 0
        self.started: set[AttemptId] = set()
        self.renamed: set[JobId] = set()

    @rule(wishes=WISHES, name=st.sampled_from([None, "a", "b"]), waits=WAITS)
    def submit(self, wishes: dict[str, Any], name: str | None, waits: dict[str, Any] | None) -> None:
        self.submitted += 1
        array, most_at_once = wishes.pop("array")
        if waits is not None:
            back = [(type_, max(1, self.submitted - n), width) for type_, n, width in waits["after"]]
            after = {Dependency(t, first, min(self.submitted - 1, first + width)) for t, first, width in back}
            wishes |= {**waits, "after": tuple(d for d in after if d.jobs), "eligible": False}
        self.play.happen(Submitted(a_job(self.submitted, array=array, most_at_once=most_at_once, name=name, **wishes)))

    @rule(
        foreign=st.integers(0, 24),
        used_more=st.integers(0, 4),
        silent=st.booleans(),
        lost=st.none() | st.floats(0, 100),
    )
    def report(self, foreign: int, used_more: int, silent: bool, lost: float | None) -> None:
        reading = a_reading(used_memory=(foreign + used_more) * GIB, foreign_memory=foreign * GIB)
        attempts = [] if silent else list(self.play.state.attempts)
        residents = tuple(
            replace(a_resident(a.job, a.number, gib=used_more), slowed_s=lost, paused_s=lost) for a in attempts
        )
        self.play.happen(a_report(*DEVICES, residents=residents, readings={"gpu0": reading}))

    @rule()
    def report_from_afar(self) -> None:
        self.play.happen(a_report(*FAR, host="far"))

    @rule()
    def turn(self) -> None:
        jobs, residents = dict(self.play.state.jobs), dict(self.play.state.residents)
        actions = self.play.decide()
        launches = [action.attempt for action in actions if isinstance(action, Launch)]
        for attempt in launches:
            assert attempt.id not in self.started, "an attempt number is never used again"
            self.started.add(attempt.id)
            self.check_eligible(jobs[attempt.id.job], jobs)
            self.check_all_or_nothing(attempt, jobs[attempt.id.job])
        given = [device for attempt in launches for device in attempt.devices]
        assert len(set(given)) == len(given), "a device is given once in a pass"
        for stop in (action for action in actions if isinstance(action, Stop)):
            job = jobs[stop.attempt.job]
            assert stop.reason is not StopReason.PREEMPTED or (job.preemptible and job.state is JobState.RUNNING)
            assert any(stop.attempt in there for there in residents.values())

    def check_eligible(self, job: Job, jobs: dict[JobId, Job]) -> None:
        """A job starts only when what it waited for has come."""
        assert job.eligible
        assert job.not_before is None
        assert not any(one in jobs for dependency in job.after for one in dependency.jobs)
        earlier = {
            one.id for one in jobs.values() if (one.owner, one.name) == (job.owner, job.name) and one.id < job.id
        }
        # A wait that ended does not begin again because of a new name.
        assert not (job.singleton and job.name and earlier - self.renamed) or job.id in self.renamed

    def check_all_or_nothing(self, attempt: Attempt, job: Job) -> None:
        devices = [self.play.state.devices[device] for device in attempt.devices]
        assert len(set(attempt.devices)) in job.counts
        assert {device.host for device in devices} == {attempt.host}
        if job.declared_memory is not None and attempt.shares:
            assert min(attempt.promised) >= job.declared_memory

    @rule(seconds=st.floats(0, 2000))
    def wait(self, seconds: float) -> None:
        self.play.now += seconds

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        job = data.draw(st.integers(1, self.submitted))
        self.play.happen(a_start(job, data.draw(st.integers(1, 3))))

    @precondition(lambda self: self.submitted)
    @rule(data=st.data(), ending=st.sampled_from(list(Ending)), code=st.sampled_from([0, 1, 137, None]))
    def exit(self, data: st.DataObject, ending: Ending, code: int | None) -> None:
        job = data.draw(st.integers(1, self.submitted))
        self.play.happen(an_exit(job, ending, code, data.draw(st.integers(1, 3))))

    @precondition(lambda self: self.submitted)
    @rule(data=st.data(), wish=st.sampled_from([CancelRequested, HoldRequested, ReleaseRequested]))
    def ask_for(self, data: st.DataObject, wish: type[CancelRequested]) -> None:
        self.play.happen(wish(JobId(data.draw(st.integers(1, self.submitted))), "ada"))

    @precondition(lambda self: self.submitted)
    @rule(data=st.data(), changes=CHANGES)
    def edit(self, data: st.DataObject, changes: dict[str, Any]) -> None:
        id_ = JobId(data.draw(st.integers(1, self.submitted)))
        before = self.play.state.jobs.get(id_)
        self.play.happen(JobEdited(id_, edit_of(changes), "ada"))
        after = self.play.state.jobs.get(id_)
        if before is None or after is None:
            return
        self.renamed |= {id_} if after.name != before.name else set()
        if before.state is not JobState.RUNNING:
            assert before == after or before.state in WAITING, "a job that neither waits nor runs stays as it is"
        elif before != after:
            assert replace(after, name=before.name, time_limit_s=before.time_limit_s) == before

    @invariant()
    def nothing_is_promised_twice(self) -> None:
        if hasattr(self, "play"):
            validate(self.play.state)

    @invariant()
    def residents_keep_to_the_limit(self) -> None:
        if hasattr(self, "play"):
            most = self.play.limits.residents_per_device
            assert all(len(residents) <= most for residents in self.play.state.residents.values())

    def teardown(self) -> None:
        if not hasattr(self, "play"):
            return
        self.play.now += 3000
        self.play.happen(a_report(*DEVICES))
        self.play.settle()
        for job in self.play.state.jobs.values():
            assert job.eligible or job.state is not JobState.PENDING or self.still_waits(job), (
                f"{job} has nothing to wait for"
            )
        waiting = [job for job in self.play.state.jobs.values() if job.state is JobState.PENDING]
        assert all(job.id in self.play.state.verdicts for job in waiting), "whoever waits has a reason"

    def still_waits(self, job: Job) -> bool:
        if job.not_before is not None and job.not_before > self.play.now:
            return True  # it ended just now, and is to start again after a pause
        jobs = self.play.state.jobs
        earlier = (one for one in jobs.values() if (one.owner, one.name) == (job.owner, job.name) and one.id < job.id)
        return any(map(self.keeps, job.after)) or (job.singleton and any(earlier))

    def keeps(self, dependency: Dependency) -> bool:
        live = [self.play.state.jobs[JobId(one)] for one in dependency.jobs if one in self.play.state.jobs]
        if dependency.type is DependencyType.START:
            return any(job.state is not JobState.RUNNING for job in live)
        return bool(live)


TestRing = Ring.TestCase
TestRing.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
