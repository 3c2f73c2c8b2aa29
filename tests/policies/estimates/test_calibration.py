"""What was foretold too early is foretold later next time, until nine of ten hold."""

from random import Random
from statistics import fmean

import pytest

from gpuq.core.state.job import JobId
from gpuq.policies.estimates.calibration import Punctual
from gpuq.policies.estimates.waiting import ExpectedStart

RAW = ExpectedStart(600.0, 1200.0)


def coverage(factor: float, spread: float, jobs: int = 600) -> tuple[float, float]:
    """(share of 90th percentiles that held, share of medians) when waits are so many times the raw median."""
    punctual, chance, now, held = Punctual(), Random(3), 0.0, []
    for number in range(jobs):
        said = punctual.tell(JobId(number), RAW, now)
        waited = RAW.p50_s * factor * chance.lognormvariate(0.0, spread)
        punctual.started(JobId(number), now + waited)
        held.append((waited <= said.p90_s, waited <= said.p50_s))
        now += 5000.0
    late = held[jobs // 3 :]
    return fmean(a for a, _ in late), fmean(b for _, b in late)


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_nine_of_ten_hold_whatever_the_draws_left_out(factor: float, spread: float) -> None:
    p90, p50 = coverage(factor, spread)
    assert 0.84 <= p90 <= 0.96
    assert 0.4 <= p50 <= 0.6


def test_those_who_still_wait_count_already() -> None:
    punctual = Punctual()
    for number in range(200):
        punctual.tell(JobId(number), RAW, 0.0)
    assert punctual.corrected([RAW], 1.0)[0].p90_s < punctual.corrected([RAW], 100_000.0)[0].p90_s


def after_late_ones(jobs: int, apart_s: float) -> ExpectedStart:
    """What is told after fifty who waited ten times as long as they were told now and then, and so many of those between."""
    punctual, now = Punctual(), 0.0
    for number in range(50):
        punctual.tell(JobId(-1 - number), RAW, now)
        punctual.started(JobId(-1 - number), now + RAW.p50_s)
        now += 5000.0
    told = {JobId(number): now + number * apart_s for number in range(jobs)}
    for job, at in told.items():
        punctual.tell(job, RAW, at)
    for job, at in told.items():
        punctual.started(job, at + 10 * RAW.p50_s)
    return punctual.corrected([RAW], now + 100_000.0)[0]


def test_a_burst_that_was_late_together_counts_as_one() -> None:
    assert after_late_ones(100, apart_s=0.0) == after_late_ones(1, apart_s=0.0)
    assert after_late_ones(100, apart_s=1.0).p50_s > 2 * after_late_ones(1, apart_s=0.0).p50_s


def test_of_one_that_is_gone_nothing_is_learnt() -> None:
    punctual = Punctual()
    before = punctual.corrected([RAW], 0.0)
    punctual.tell(JobId(1), RAW, 0.0)
    punctual.gone(JobId(1))
    assert not punctual.waiting
    assert punctual.corrected([RAW], 1e6) == before


def test_a_median_is_never_above_its_90th_percentile() -> None:
    said = Punctual().corrected([ExpectedStart(100.0, 100.0), ExpectedStart(0.0, 0.0)], 0.0)
    assert all(0 <= start.p50_s <= start.p90_s for start in said)
