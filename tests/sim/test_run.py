"""The simulator in a small world; the expected schedules are computed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.attempt import Ending
from gpuq.core.state.job import JobState
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Cold, Oracle
from gpuq.sim.run import simulate
from gpuq.sim.world import machines
from tests.sim.small import LIGHT, PACKED, arrival, arrivals, ends, trace, world


def test_jobs_without_forecasts_run_one_after_the_other() -> None:
    assert ends(simulate(arrivals("light", "light"), world(), Cold(), PACKED)) == [100, 200]


def test_two_that_fit_run_together_and_slow_each_other_as_the_world_says() -> None:
    small = world()
    run = simulate(arrivals("light", "light"), small, Oracle(small), PACKED)
    assert ends(run) == [110, 110]
    assert [job.slowdown for job in run.jobs] == pytest.approx([1.1, 1.1])
    assert [job.wait_s for job in run.jobs] == [0, 0]


def test_job_continues_at_full_speed_after_its_partner_ended() -> None:
    """Together for 55 s, in which each does 50 of its own; then the longer one has 150 left."""
    small = world()
    run = simulate(
        trace(arrival(1, "light", duration_s=50), arrival(2, "light", duration_s=200)), small, Oracle(small), PACKED
    )
    assert ends(run) == [55, 205]
    stretches = run.jobs[1].attempts[0].stretches
    assert [(s.beside, round(s.seconds, 6), round(s.work_s, 6)) for s in stretches] == [
        (("light",), 55, 50), ((), 150, 150),
    ]  # fmt: skip
    assert run.jobs[1].slowdown == pytest.approx(205 / 200)


def test_two_that_do_not_fit_wait_for_each_other() -> None:
    small = world()
    assert ends(simulate(arrivals("heavy", "light"), small, Oracle(small), PACKED)) == [100, 200]


def test_a_gang_gets_all_its_devices_on_one_host() -> None:
    wide = world(devices=2, hosts=2)
    run = simulate(arrivals("heavy", "heavy", "heavy", devices=2), wide, Oracle(wide), PACKED)
    assert ends(run) == [100, 100, 200]
    assert all(len({device.split("/")[0] for device in job.attempts[0].devices}) == 1 for job in run.jobs)


def test_a_slow_device_takes_longer_and_no_partner_is_blamed() -> None:
    slow = world(heavy=replace(LIGHT, name="heavy", speeds={"P100": 0.5}))
    run = simulate(arrivals("heavy"), slow, Oracle(slow), PACKED)
    assert ends(run) == [200]
    assert run.jobs[0].slowdown == 1
    assert run.jobs[0].attempts[0].work_s == 100


def test_more_devices_than_asked_for_are_faster_as_the_world_says() -> None:
    wide = world(devices=2, light=replace(LIGHT, speedups={1: 1.0, 2: 1.6}))

    def widest(context: SchedulingContext) -> Iterator[Proposal]:
        for job in context.waiting:
            yield Proposal(job, tuple(one.device for one in context.snapshots)[: job.counts[-1]])

    run = simulate(trace(arrival(1, "light", most_devices=2)), wide, Oracle(wide), Candidate("widest", widest))
    assert ends(run) == [62.5]


def test_years_in_which_no_job_waits_cost_no_passes() -> None:
    year_s = 365.0 * 86_400
    small = world()
    jobs = trace(
        arrival(1, "light"), arrival(2, "light", at=50 * year_s, duration_s=year_s), arrival(3, "light", at=60 * year_s)
    )
    clock = Clock()
    run = simulate(jobs, small, clock, PACKED)
    assert [job.wait_s for job in run.jobs] == [0, 0, 0]
    assert len(clock.trained_at) <= 2, "at the end of a day on which a job ended"


class Clock(Cold):
    """Knows nothing, and notes when it is trained."""

    def __init__(self) -> None:
        self.trained_at: list[float] = []

    def train(self, now: float) -> None:
        self.trained_at.append(now)


def test_a_job_too_large_for_the_world_waits_for_ever_and_the_run_says_so() -> None:
    run = simulate(arrivals("light", "heavy", devices=2), world(), Cold(), PACKED)
    assert [job.state for job in run.jobs] == [JobState.PENDING, JobState.PENDING]
    assert [job.ended_at for job in run.jobs] == [None, None]
    assert "2 jobs never ended" in run.notes[-1]


def urgent_first(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
    """The highest priority gets a device, by evicting what runs there."""
    for job in sorted(context.waiting, key=lambda job: (-job.priority, job.submitted_at, job.id)):
        for snapshot in context.snapshots:
            if not snapshot.residents:
                yield Proposal(job, (snapshot.device,))
            elif context.state.jobs[snapshot.residents[0].id.job].priority < job.priority:
                yield Eviction(snapshot.residents[0].id, job)


URGENT_FIRST = Candidate("urgent first", urgent_first)


def test_preempted_job_keeps_its_work_and_loses_restart_time() -> None:
    costly = world(restart_s=10.0)
    come = trace(arrival(1, "light", preemptible=True), arrival(2, "heavy", at=40, priority=1))
    run = simulate(come, costly, Cold(), URGENT_FIRST)
    assert ends(run) == [210, 140]
    first, second = run.jobs[0].attempts
    assert (first.ending, first.work_s, first.lost_s) == (Ending.STOPPED, 40, 0)
    assert (second.ending, second.work_s, second.lost_s) == (Ending.EXITED, 70, 10)


def test_job_stopped_while_it_loads_its_checkpoint_made_no_progress() -> None:
    costly = world(restart_s=10.0)
    come = trace(
        arrival(1, "light", preemptible=True),
        arrival(2, "light", at=40, priority=1),
        arrival(3, "light", at=145, priority=1),
    )
    run = simulate(come, costly, Cold(), URGENT_FIRST)
    # 60 left at 40; back at 140 for 5 s of loading; 60 left still, and 10 s of loading.
    assert ends(run) == [315, 140, 245]
    assert [attempt.lost_s for attempt in run.jobs[0].attempts] == [0, 5, 10]


def test_job_that_is_not_preemptible_is_never_stopped() -> None:
    come = trace(arrival(1, "light"), arrival(2, "heavy", at=40, priority=1))
    assert ends(simulate(come, world(), Cold(), URGENT_FIRST)) == [100, 200]


def test_submit_function_of_a_candidate_can_make_jobs_preemptible() -> None:
    come = trace(arrival(1, "light"), arrival(2, "heavy", at=40, priority=1))
    allow = replace(URGENT_FIRST, submit=lambda job: replace(job, preemptible=True))
    assert ends(simulate(come, world(), Cold(), allow)) == [200, 140]


def test_a_policy_that_waits_for_a_moment_of_its_own_gets_a_pass_then() -> None:
    def after_an_hour(context: SchedulingContext) -> Iterator[Proposal]:
        for job in context.waiting if context.now >= 3600 else ():
            yield Proposal(job, (next(iter(context.snapshots)).device,))

    assert ends(simulate(arrivals("light"), world(), Cold(), Candidate("late", after_an_hour))) == [3700]


def test_a_policy_that_fails_is_replaced_and_the_run_says_so() -> None:
    def fails(context: SchedulingContext) -> Iterator[Proposal]:
        raise ZeroDivisionError("on purpose")

    run = simulate(arrivals("light", "light"), world(), Cold(), Candidate("failing", fails))
    assert ends(run) == [100, 200]
    assert run.fault == "failing was replaced by packed after 0s: it failed: ZeroDivisionError: on purpose"


def test_a_policy_that_never_returns_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuq.sim.run._ENDLESS_S", 0.05)

    def hangs(context: SchedulingContext) -> Iterator[Proposal]:
        while True:
            pass
        yield

    run = simulate(arrivals("light"), world(), Cold(), Candidate("hanging", hangs))
    assert ends(run) == [100]
    assert "one pass took it longer" in (run.fault or "")


def test_progress_is_reported_as_jobs_end() -> None:
    reported: list[float] = []
    simulate(arrivals("light", "light", "light"), world(), Cold(), PACKED, progress=reported.append)
    assert reported == pytest.approx([1 / 3, 2 / 3, 1])


def test_last_host_has_the_remaining_devices() -> None:
    found = machines(10, "A", 1, None, per_host=4)
    assert [sum(device.host == f"host{n}" for device in found) for n in (1, 2, 3)] == [4, 4, 2]
    assert len({device.id for device in found}) == 10
