"""What the core never sees: memory, failures, power, and whether its decisions were right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.events import HostReported
from gpuq.core.state.forecast import BUDGETS, RULE, Forecast, PairCost, Question
from gpuq.core.state.job import JobState, KindId
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Cold, Oracle
from gpuq.sim.memory import STARTING_SHARE, peak_memory
from gpuq.sim.run import Simulation, simulate
from gpuq.sim.world import World
from tests.sim.small import GIB, HEAVY, LIGHT, NEVER_TOGETHER, PACKED, arrival, arrivals, ends, host_loss, trace, world


class Mistaken(Oracle):
    """The truth, but for what a test gets wrong in it."""

    def __init__(self, of: World, **wrong: Any) -> None:
        super().__init__(of)
        self._wrong = wrong

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        return {question: replace(found, **self._wrong) for question, found in super().answer(questions).items()}


TRUSTING = {"upper_memory_bytes": GIB, "pairs": (), "pairs_known": False}


# --- memory ------------------------------------------------------------------------------------------------------------


def large(gib: int = 10) -> World:
    return world(light=replace(LIGHT, memory_bytes=gib * GIB))


def test_attempt_that_grows_without_room_ends_out_of_memory_and_reruns_alone() -> None:
    """Both load at first; the second needs its peak at 55 s, when the first has its own. By then each has done 50 s of work."""
    run = simulate(arrivals("light", "light"), large(), Mistaken(large(), **TRUSTING), PACKED)
    assert ends(run) == [105, 205]
    died, again = run.jobs[1].attempts
    assert died.ending is Ending.OUT_OF_MEMORY
    assert (died.ended_at, died.lost_s) == pytest.approx((55, 50))
    assert again.stretches[0].beside == ()
    assert again.memory_bytes == peak_memory(large(), run.jobs[1].arrival)
    assert died.memory_bytes == round((again.memory_bytes or 0) * STARTING_SHARE)


def test_true_forecasts_never_run_out_of_memory() -> None:
    assert ends(simulate(arrivals("light", "light"), large(), Oracle(large()), PACKED)) == [100, 200]
    assert ends(simulate(arrivals("light", "light"), large(6), Oracle(large(6)), PACKED)) == [110, 110]


def test_peak_memory_of_a_job_is_fixed_and_differs_within_a_kind() -> None:
    one, other = (peak_memory(large(), arrival(number, "light")) for number in (1, 2))
    assert one == peak_memory(large(), arrival(1, "light", at=7.0, duration_s=5.0))
    assert one != other
    assert 0.5 < (one or 0) / (other or 1) < 2
    assert peak_memory(world(), arrival(1, "light")) is None


def test_host_reports_have_the_memory_really_held() -> None:
    heard: list[int | None] = []

    def watch(item: object, _now: float, state: Any) -> None:
        if isinstance(item, HostReported):
            heard.extend(attempt.live_memory for attempt in state.attempts.values())

    Simulation(arrivals("light"), large(), Cold(), PACKED, watch=watch).play()
    assert heard == [peak_memory(large(), arrival(1, "light"))]


def test_of_two_that_cannot_run_together_the_later_to_grow_ends() -> None:
    apart = world(pairs=NEVER_TOGETHER)
    run = simulate(arrivals("light", "light"), apart, Mistaken(apart, **TRUSTING), PACKED)
    assert ends(run) == [100, 200]
    assert run.jobs[1].attempts[0].ending is Ending.OUT_OF_MEMORY
    assert (run.admissions.shared, run.admissions.wrongly_shared) == (1, 1)


def test_oracle_marks_pairs_that_cannot_run_together_unsafe() -> None:
    apart = world(pairs=NEVER_TOGETHER)
    assert ends(simulate(arrivals("light", "light"), apart, Oracle(apart), PACKED)) == [100, 200]


# --- hosts -------------------------------------------------------------------------------------------------------------


def test_lost_host_loses_its_work_and_gets_no_jobs_until_it_is_back() -> None:
    come = trace(arrival(1, "light"), arrival(2, "light", at=40))
    run = simulate(come, world(), Cold(), PACKED, losses=[host_loss("h0", 30, 50)])
    assert sorted(ends(run)) == [180, 280]
    lost, again = run.jobs[0].attempts
    assert (lost.ending, lost.ended_at, lost.lost_s) == (Ending.LOST, 30, 30)
    assert again.started_at >= 80
    assert run.losses == [host_loss("h0", 30, 50)]


def test_other_hosts_go_on_meanwhile() -> None:
    come = trace(arrival(1, "heavy"), arrival(2, "heavy"), arrival(3, "heavy", at=40))
    run = simulate(come, world(hosts=2), Cold(), PACKED, losses=[host_loss("h0", 30, 1000)])
    assert run.jobs[1].ended_at == 100
    assert run.jobs[2].attempts[0].devices == ("h1/0",)
    assert run.jobs[0].ended_at == 1130


def test_second_loss_of_a_lost_host_and_loss_of_an_unknown_host_are_ignored() -> None:
    losses = [host_loss("h0", 30, 50), host_loss("h0", 40, 10), host_loss("nowhere", 1, 1)]
    assert ends(simulate(arrivals("light"), world(), Cold(), PACKED, losses=losses)) == [180]


# --- power -------------------------------------------------------------------------------------------------------------


def joules(kwh: float | None) -> float:
    assert kwh is not None
    return kwh * 3.6e6


def test_energy_is_what_the_devices_draw_idle_ones_included() -> None:
    run = simulate(trace(arrival(1, "light", at=50)), world(devices=2), Cold(), PACKED)
    assert joules(run.energy_kwh) == pytest.approx(150 * 100 + 50 * 50 + 50 * 150)
    assert joules(run.idle_energy_kwh) == pytest.approx(50 * 50 + 50 * 150)


def test_power_of_two_jobs_is_divided_by_their_slowdowns() -> None:
    small = world()
    run = simulate(arrivals("light", "light"), small, Oracle(small), PACKED)
    assert joules(run.energy_kwh) == pytest.approx((50 + 2 * 100 / 1.1) * 110)


def test_no_device_draws_more_than_the_most_that_was_measured_on_its_type() -> None:
    hot = world(light=replace(LIGHT, powers={"P100": 249.0}))
    run = simulate(arrivals("light", "light"), hot, Oracle(hot), PACKED)
    assert joules(run.energy_kwh) == pytest.approx(250 * 110)


def test_a_lost_host_draws_nothing() -> None:
    run = simulate(arrivals("light"), world(), Cold(), PACKED, losses=[host_loss("h0", 30, 50)])
    assert joules(run.energy_kwh) == pytest.approx(150 * 130)


def test_one_power_unknown_makes_the_energy_unknown() -> None:
    dark = world(heavy=replace(HEAVY, powers={}))
    assert simulate(arrivals("light"), dark, Cold(), PACKED).energy_kwh is not None
    assert simulate(arrivals("light", "heavy"), dark, Cold(), PACKED).energy_kwh is None
    assert simulate(arrivals("light"), world(idle_powers={}), Cold(), PACKED).energy_kwh is None


# --- right and wrong ---------------------------------------------------------------------------------------------------


def test_a_pair_beyond_the_budget_is_wrongly_shared() -> None:
    strict = Candidate("packed", PACKED.policy, Limits(max_slowdown=1.05))
    run = simulate(arrivals("light", "light"), world(), Mistaken(world(), **TRUSTING), strict)
    assert (run.admissions.shared, run.admissions.wrongly_shared) == (1, 1)
    assert run.max_slowdown == 1.05


def test_a_pair_within_the_budget_is_rightly_shared() -> None:
    run = simulate(arrivals("light", "light"), world(), Oracle(world()), PACKED)
    assert (run.admissions.shared, run.admissions.wrongly_shared) == (1, 0)


def test_a_refusal_that_the_truth_would_have_allowed_is_wrong_and_counts_once() -> None:
    timid = Mistaken(world(), pairs=(), pairs_known=False, peak_utilization_pct=60.0)
    run = simulate(arrivals("light", "light", "heavy"), world(), timid, PACKED)
    assert (run.admissions.refused, run.admissions.wrongly_refused) == (2, 1)


def test_a_refusal_for_a_risk_that_was_none_counts_as_wrong() -> None:
    feared = PairCost(KindId("light"), 1.0, 1.0, 1.0, 1.0, evidence=RULE, risks=((0.5,) * len(BUDGETS),) * 2)
    run = simulate(arrivals("light", "light"), world(), Mistaken(world(), pairs=(feared,)), PACKED)
    assert ends(run) == [100, 200]
    assert (run.admissions.refused, run.admissions.wrongly_refused) == (1, 1)


def test_a_job_that_needs_more_than_any_device_ends_without_its_work_done() -> None:
    """It ran in the trace: what it needs is cut to the largest device. On a smaller one it dies, even alone."""
    uneven = large(16)
    small = replace(uneven.devices[0], id=DeviceId("h1/0"), host=HostId("h1"), total_memory=4 * GIB)
    uneven = replace(uneven, devices=(small, *uneven.devices))
    run = simulate(arrivals("light", "light"), uneven, Cold(), PACKED)
    assert sorted(job.state for job in run.jobs) == [JobState.COMPLETED, JobState.OUT_OF_MEMORY]
    assert all(job.ended_at is not None for job in run.jobs)
