"""What sharing would have come to, by arithmetic that fits on a page."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuq.adapters.store.row_types import AttemptRow, Chance, JobRow
from gpuq.api.contract.schema_predict import ShadowReport
from gpuq.api.missed_savings import LoneRun, effect, missed_savings
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId, JobState
from tests.api.support import record, row

HOUR = 3600.0


def a_chance(job: int = 2, beside: int = 1, at: float = 0.0, x: float | None = 1.2, y: float | None = 1.2) -> Chance:
    return Chance(
        job=JobId(job), at=at, device="gpu0", beside=AttemptId(JobId(beside), 1), rule="Fits", newcomer=x, resident=y
    )


def ended(job: int, start: float, end: float, kind: str = "train") -> tuple[JobRow, AttemptRow]:
    """A job whose first attempt ran alone on one device."""
    attempt = AttemptRow(
        job=JobId(job), number=1, host="h", devices=("gpu0",), launched_at=start, launch={}, features={},
        model_version=None, started_at=start, ended_at=end,
    )  # fmt: skip
    return row(job, record(start, kind=kind), JobState.COMPLETED), attempt


def report(chances: list[Chance], finished: list[tuple[JobRow, AttemptRow]]) -> ShadowReport:
    return missed_savings(chances, finished, on=True, days=7, since=0.0, never_ran=0)


def test_two_one_hour_jobs_with_slowdown_1_2() -> None:
    """Together for 1.2 hours they do two hours of work."""
    found = effect(a_chance(), LoneRun("b", HOUR, 2 * HOUR, 1), LoneRun("a", 0.0, HOUR, 1))
    assert found is not None
    assert found.together_s == pytest.approx(1.2 * HOUR)
    assert found.saved_s == pytest.approx(0.8 * HOUR)
    assert found.newcomer_delay_s == found.resident_delay_s == pytest.approx(0.2 * HOUR)
    assert found.wait_s == HOUR


def test_the_longer_job_continues_alone() -> None:
    """Half an hour of the resident is left: it takes 0.6 hours beside the newcomer, which does 0.5 of its own meanwhile."""
    found = effect(a_chance(at=0.5 * HOUR), LoneRun("b", HOUR, 4 * HOUR, 1), LoneRun("a", 0.0, HOUR, 1))
    assert found is not None
    assert found.together_s == pytest.approx(0.6 * HOUR)
    assert found.saved_s == pytest.approx(0.4 * HOUR)
    assert found.newcomer_delay_s == pytest.approx(0.1 * HOUR)


def test_a_gang_is_slowed_on_all_its_devices() -> None:
    found = effect(a_chance(), LoneRun("b", HOUR, 2 * HOUR, 1), LoneRun("a", 0.0, HOUR, 4))
    assert found is not None
    assert found.saved_s == pytest.approx(HOUR - 4 * 0.2 * HOUR)


def test_beside_a_resident_that_had_ended_nothing_is_saved_and_no_wait_avoided() -> None:
    found = effect(a_chance(at=2 * HOUR), LoneRun("b", HOUR, 4 * HOUR, 1), LoneRun("a", 0.0, HOUR, 1))
    assert found is not None
    assert (found.together_s, found.saved_s, found.wait_s) == (0.0, 0.0, 0.0)


def test_a_resident_has_one_partner_at_a_time() -> None:
    """The second joins when the first would have been gone: what the first still had to do then is not counted as shared."""
    first = effect(a_chance(), LoneRun("b", HOUR, 2 * HOUR, 1), LoneRun("a", 0.0, HOUR, 1), until=0.6 * HOUR)
    assert first is not None
    assert first.together_s == pytest.approx(0.6 * HOUR)


@given(
    x=st.floats(1, 3), y=st.floats(1, 3), ours=st.floats(1, 1e5), theirs=st.floats(1, 1e5), at=st.floats(0, 1e5),
)  # fmt: skip
@example(x=2.0, y=3.0, ours=1.0, theirs=1.0, at=0.0)  # nothing is shared: the resident ends as the newcomer could start
def test_saving_and_delay_are_bounded_by_what_is_shared(
    x: float, y: float, ours: float, theirs: float, at: float
) -> None:
    """Two on a device save at most the time together, and no job is slowed beyond what was predicted."""
    found = effect(a_chance(at=at, x=x, y=y), LoneRun("b", at, at + ours, 1), LoneRun("a", at - 1, at - 1 + theirs, 1))
    assert found is not None
    assert found.saved_s <= found.together_s + 1e-6
    assert found.newcomer_delay_s <= found.newcomer.duration_s * (x - 1) + 1e-6
    assert found.resident_delay_s <= found.resident.duration_s * (y - 1) + 1e-6
    assert (found.saved_s >= 0) == (1 / x + 1 / y >= 1) or abs(found.saved_s) <= 1e-5 * found.together_s


def test_the_sums_of_a_week() -> None:
    finished = [ended(1, 0, HOUR, "a"), ended(2, HOUR, 2 * HOUR, "b"), ended(3, 2 * HOUR, 3 * HOUR, "b")]
    chances = [a_chance(), a_chance(3, 9, at=10.0)]
    found = report(chances, finished)
    assert (found.counted, found.open, found.slowdown_unknown) == (1, 1, 0)
    assert found.gpu_hours_run == pytest.approx(3)
    assert found.gpu_hours_saved == pytest.approx(0.8)
    assert found.wait_avoided_mean_s == HOUR
    assert found.slowdown_worst == pytest.approx(1.2)
    assert [(pair.newcomer, pair.beside, pair.times) for pair in found.pairs] == [("b", "a", 1)]


def test_an_opportunity_without_slowdown_is_not_in_the_sums() -> None:
    finished = [ended(1, 0, HOUR), ended(2, HOUR, 2 * HOUR)]
    found = report([a_chance(x=None)], finished)
    assert (found.counted, found.slowdown_unknown, found.gpu_hours_saved) == (0, 1, 0)
    assert found.slowdown_mean is None


def test_an_empty_week_has_no_figures() -> None:
    found = report([], [])
    assert (found.counted, found.wait_avoided_mean_s, found.slowdown_worst, found.pairs) == (0, None, None, [])


def test_several_partners_one_after_the_other_add_up() -> None:
    """Each costs the resident ten minutes of its two hours alone."""
    finished = [ended(1, 0, 2 * HOUR), ended(2, 2 * HOUR, 2.5 * HOUR), ended(3, 3 * HOUR, 3.5 * HOUR)]
    chances = [a_chance(2, x=1.0, y=1.5), a_chance(3, at=0.5 * HOUR, x=1.0, y=1.5)]
    found = report(chances, finished)
    assert found.slowdown_worst == pytest.approx((2 + 2 / 6) / 2)
    assert found.counted == 2
