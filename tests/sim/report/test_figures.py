"""Each figure, on runs that can be worked out on paper."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gpuq.core.state.attempt import Ending
from gpuq.core.state.job import JobState
from gpuq.settings import Scheduling
from gpuq.sim.record import AdmissionCounts
from gpuq.sim.report.figures import MEASURED, RunFigures, figures
from tests.sim.report.samples import a_job, a_run, alone, together


def test_two_side_by_side_against_one_after_the_other() -> None:
    packed, fifo = figures(together()), figures(alone())
    assert (packed.completion_mean_s, fifo.completion_mean_s) == (4500, 5400)
    assert (packed.wait_mean_s, fifo.wait_mean_s) == (0, 1800)
    assert (packed.makespan_s, fifo.makespan_s) == (4500, 7200)
    assert packed.slowdown_worst == packed.slowdown_p50 == pytest.approx(1.25)
    assert (packed.sharing_jobs, fifo.sharing_jobs) == (1, 0)
    assert packed.gpu_hours_saved == pytest.approx(0.75)
    assert fifo.gpu_hours_saved == 0
    assert packed.packing_saving == pytest.approx(1 - 4500 / 7200)
    assert (packed.utilisation, fifo.utilisation) == (1, 1)


def test_idle_time_counts_from_the_first_submission_to_the_last_end_on_all_devices() -> None:
    found = figures(a_run(a_job(1, 3600, 7200, submit=3600), a_job(2, 7200, 10800, submit=3600), devices=2))
    assert (found.gpu_hours_used, found.gpu_hours_idle, found.utilisation) == (2, 2, 0.5)


@pytest.mark.parametrize(("budget", "over"), [(1.2, 1.0), (1.25, 0.0), (1.3, 0.0)])
def test_exactly_the_budget_is_within_it(budget: float, over: float) -> None:
    assert figures(together(), budget=budget).over_budget == over


def test_work_done_twice_counts_against_what_was_saved() -> None:
    """The first attempt ran for an hour and saved nothing of it."""
    job = a_job(1, 3600, 7200)
    lost = a_job(1, 0, 3600).attempts[0]
    lost.ending, lost.lost_s = Ending.OUT_OF_MEMORY, 3600
    job.attempts.insert(0, lost)
    found = figures(a_run(job))
    assert (found.gpu_hours_used, found.gpu_hours_saved) == (2, -1)
    assert (found.ooms, found.ooms_per_1000) == (1, 1000)


def test_of_a_job_that_never_ended_only_its_work_is_known() -> None:
    waits = a_job(2, 0, 1)
    waits.attempts, waits.ended_at, waits.first_started_at, waits.state = [], None, None, JobState.PENDING
    found = figures(a_run(a_job(1, 0, 3600), waits))
    assert (found.jobs, found.unfinished, found.gpu_hours_saved) == (2, 1, 0)
    assert found.completion_mean_s == 3600


def test_a_job_that_failed_did_no_work_that_counts_as_saved() -> None:
    failed = a_job(1, 0, 3600, duration_s=7200)
    failed.state = JobState.OUT_OF_MEMORY
    failed.attempts[0].lost_s = 3600
    found = figures(a_run(failed))
    assert (found.failed, found.gpu_hours_saved) == (1, -1)


def test_deadlines() -> None:
    jobs = [a_job(1, 0, 100, deadline_s=100.0), a_job(2, 100, 200, deadline_s=150.0), a_job(3, 200, 300)]
    assert figures(a_run(*jobs)).late == 0.5
    assert figures(alone()).late is None


def test_cost_is_energy_and_lateness() -> None:
    """2 kWh at 0.3, and an hour late at priority 1 at 1.0."""
    late = a_job(1, 0, 7200, deadline_s=3600.0, priority=1)
    assert figures(a_run(late, energy_kwh=2.0)).cost == pytest.approx(0.6 + 2.0)
    dear = Scheduling(energy_price_per_kwh=1.0, late_price_per_hour=0.0)
    assert figures(a_run(late, energy_kwh=2.0), prices=dear).cost == 2.0
    assert figures(a_run(late)).cost is None, "the world knows no powers"


def test_jain_over_owners() -> None:
    """ada's job is done in its own time, bob's in twice that: (1 + 2)^2 / (2 * (1 + 4))."""
    assert figures(alone()).jain == pytest.approx(0.9)
    assert figures(together()).jain == pytest.approx(1)
    assert figures(a_run(a_job(1, 0, 10))).jain is None, "a single user: nothing to compare"


def test_finish_time_fairness_compares_with_a_fair_share() -> None:
    """Two want one device: in the first hour contention is 2, in the second 1. The first is done in half a fair share's time,
    the second in 7200 / (3600 * 1.5)."""
    found = figures(alone())
    assert found.unfair == 0.5
    assert found.unfair_p99 == pytest.approx(4 / 3, rel=0.02)


def test_a_lone_job_on_an_idle_cluster_is_treated_fairly() -> None:
    assert figures(a_run(a_job(1, 0, 100), devices=8)).unfair == 0


def test_wrong_admissions_in_both_directions() -> None:
    counts = AdmissionCounts(shared=4, wrongly_shared=1, refused=10, wrongly_refused=2)
    found = figures(together(admissions=counts))
    assert (found.wrongly_shared, found.wrongly_refused) == (0.25, 0.2)
    assert figures(together()).wrongly_shared is None, "nothing was decided"


def test_unmeasured_figures_are_none_and_not_zero() -> None:
    found = figures(a_run())
    assert found.jobs == 0
    unknown = (
        "completion_mean_s",
        "wait_p99_s",
        "makespan_s",
        "slowdown_worst",
        "gpu_hours_saved",
        "energy_kwh",
        "jain",
    )
    assert {getattr(found, name) for name in unknown} == {None}


def test_every_figure_has_a_unit_and_a_definition() -> None:
    for one in MEASURED:
        assert one.metadata["label"]
        assert one.metadata["unit"] in {"s", "h", "share", "ratio", "count", "kWh", "money"}
        assert one.metadata["says"].endswith("."), one.name
    assert len({one.name for one in MEASURED}) == len(fields(RunFigures)) - 5
