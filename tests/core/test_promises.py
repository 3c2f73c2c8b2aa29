"""The promises, against whatever may happen: memory is never promised twice, a job never has two live attempts, whoever
waits has a reason, and time alone changes nothing that is settled.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpuq.core.actions import Launch
from gpuq.core.attempt import Ending
from gpuq.core.events import CancelRequested, HoldRequested, ReleaseRequested, Submitted
from gpuq.core.job import JobId, JobState, Sharing
from gpuq.core.limits import Limits
from gpuq.core.validate import validate
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

KINDS = ("light", "heavy", "huge", "unknown")
DEVICES = (a_device("gpu0", gib=24), a_device("gpu1", gib=24), a_device("gpu2", gib=80, type="B"))


class Ring(RuleBasedStateMachine):
    """Everything the world may do, in any order, with repeats and out of turn."""

    @initialize(residents=st.integers(1, 3), forgetful=st.booleans())
    def begin(self, residents: int, forgetful: bool) -> None:
        self.play = Playbook(Limits(residents_per_device=residents, patience_s=300), forgetful=forgetful)
        self.play.forecast("light", a_forecast(20, 2)).forecast("heavy", a_forecast(70, 10))
        self.play.forecast("huge", a_forecast(50, 30))
        self.submitted = 0
        self.started: set[tuple[int, int]] = set()

    @rule(
        kind=st.sampled_from(KINDS),
        share=st.sampled_from(list(Sharing)),
        priority=st.integers(-2, 2),
        declared=st.none() | st.integers(1, 80).map(lambda gib: gib * GIB),
    )
    def submit(self, kind: str, share: Sharing, priority: int, declared: int | None) -> None:
        self.submitted += 1
        job = a_job(self.submitted, kind=kind, sharing=share, priority=priority, declared_memory=declared)
        self.play.happen(Submitted(job))

    @rule(foreign=st.integers(0, 24), used_more=st.integers(0, 4), silent=st.booleans())
    def report(self, foreign: int, used_more: int, silent: bool) -> None:
        reading = a_reading(used_memory=(foreign + used_more) * GIB, foreign_memory=foreign * GIB)
        attempts = [] if silent else list(self.play.state.attempts)
        residents = tuple(a_resident(a.job, a.number, gib=used_more) for a in attempts)
        self.play.happen(a_report(*DEVICES, residents=residents, readings={"gpu0": reading}))

    @rule()
    def turn(self) -> None:
        launched = [a.attempt.id for a in self.play.decide() if isinstance(a, Launch)]
        for attempt in launched:
            assert (attempt.job, attempt.number) not in self.started, "an attempt number is never used again"
            self.started.add((attempt.job, attempt.number))

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
        self.play.happen(a_report(*DEVICES)).settle()
        waiting = [job for job in self.play.state.jobs.values() if job.state is JobState.PENDING]
        assert all(job.id in self.play.state.verdicts for job in waiting), "whoever waits has a reason"


TestRing = Ring.TestCase
TestRing.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
