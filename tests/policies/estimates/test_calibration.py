"""The factor is learned from starts until nine of ten estimates hold."""

from random import Random
from statistics import fmean

import pytest

from gpuq.core.state.job import JobId
from gpuq.policies.estimates.calibration import CalibrationMemory, Promise, StartCalibration, StartEstimate, calibrated

P50_S, P90_S = 600.0, 1200.0


def estimated(calibration: StartCalibration, now: float) -> StartEstimate:
    return calibrated(P50_S, P90_S, calibration.factor(now), has_evidence=True)


def promise(calibration: StartCalibration, job: int, now: float) -> StartEstimate:
    estimate = estimated(calibration, now)
    calibration.promise(JobId(job), estimate, now)
    return estimate


def coverage(factor: float, spread: float, jobs: int = 600) -> float:
    """The share of 90th percentiles that held, of waits that are so many times the replayed median."""
    calibration, chance, now, held = StartCalibration(), Random(3), 0.0, []
    for number in range(jobs):
        estimate = promise(calibration, number, now)
        waited = P50_S * factor * chance.lognormvariate(0.0, spread)
        calibration.started(JobId(number), now + waited)
        held.append(waited <= estimate.p90_s)
        now += 5000.0
    return fmean(held[jobs // 3 :])


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_nine_of_ten_hold_whatever_the_replay_left_out(factor: float, spread: float) -> None:
    assert 0.84 <= coverage(factor, spread) <= 0.96


def test_jobs_that_still_wait_count_once_they_are_late() -> None:
    calibration = StartCalibration()
    for number in range(200):
        promise(calibration, number, number * 1e-3)
    assert estimated(calibration, 1.0).p90_s < estimated(calibration, 100_000.0).p90_s


def after_late_ones(jobs: int, apart_s: float) -> StartEstimate:
    """The estimate after fifty jobs that waited as expected, and so many that waited ten times as long."""
    calibration, now = StartCalibration(), 0.0
    for number in range(50):
        promise(calibration, -1 - number, now)
        calibration.started(JobId(-1 - number), now + P50_S)
        now += 5000.0
    for number in range(jobs):
        promise(calibration, number, now + number * apart_s)
    for number in range(jobs):
        calibration.started(JobId(number), now + number * apart_s + 10 * P50_S)
    return estimated(calibration, now + 100_000.0)


def test_a_burst_that_was_late_together_counts_as_one() -> None:
    assert after_late_ones(100, apart_s=0.0) == after_late_ones(1, apart_s=0.0)
    assert after_late_ones(100, apart_s=1.0).p50_s > 2 * after_late_ones(1, apart_s=0.0).p50_s


def test_a_job_that_will_not_start_teaches_nothing() -> None:
    calibration = StartCalibration()
    before = estimated(calibration, 0.0)
    promise(calibration, 1, 0.0)
    calibration.dropped(JobId(1))
    assert not calibration.waiting
    assert estimated(calibration, 1e6) == before


def test_only_the_first_estimate_of_a_job_counts_and_none_that_is_infinite() -> None:
    calibration = StartCalibration()
    calibration.promise(JobId(1), calibrated(P50_S, float("inf"), 1.0, has_evidence=True), 0.0)
    assert not calibration.waiting
    promise(calibration, 1, 10.0)
    promise(calibration, 1, 20.0)
    calibration.started(JobId(1), 700.0)
    assert calibration.moments == {10.0}


def test_a_median_is_never_above_its_90th_percentile() -> None:
    for p50_s, p90_s in ((100.0, 100.0), (0.0, 0.0), (0.0, 1e6)):
        estimate = calibrated(p50_s, p90_s, StartCalibration().factor(0.0), has_evidence=True)
        assert 0 <= estimate.p50_s <= estimate.p90_s


def test_a_promise_that_a_clock_set_back_left_in_the_future_counts_as_no_wait() -> None:
    calibration = StartCalibration()
    promise(calibration, 1, now=3600.0)
    calibration.started(JobId(1), now=10.0)
    assert calibration.memory.ratios[-1].value > 0


def test_it_is_kept_whether_the_first_estimate_of_each_start_held() -> None:
    calibration = StartCalibration()
    for number, waited in enumerate((P50_S / 2, (P50_S + P90_S) / 2, 2 * P90_S)):
        calibration.promise(JobId(number), StartEstimate(P50_S, P90_S, P90_S, True), 0.0)
        calibration.promise(JobId(number), StartEstimate(1e9, 1e9, 1e9, True), 1.0)
        calibration.started(JobId(number), waited)
    assert calibration.kept == [(True, True), (False, True), (False, False)]
    assert StartCalibration(calibration.memory).kept == calibration.kept, "a restart goes on with it"


def test_estimates_of_earlier_versions_say_nothing_of_whether_they_held() -> None:
    calibration = StartCalibration(CalibrationMemory({JobId(1): Promise(0.0, P90_S)}))
    calibration.started(JobId(1), 10.0)
    assert calibration.kept == []
