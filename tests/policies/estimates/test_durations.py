"""Durations: the quantiles of the forecast, and what is left after a while."""

from itertools import pairwise
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.policies.estimates.durations import Duration, forecast_duration, typical_duration

HOUR = 3600.0


def test_a_job_that_has_not_started_has_the_quantiles_of_its_duration() -> None:
    assert Duration(600.0, 900.0).left_s(0.0, 0.5) == pytest.approx(600.0)
    assert Duration(600.0, 900.0).left_s(0.0, 0.9) == pytest.approx(900.0)


def test_a_forecast_keeps_its_median_and_is_widened_by_the_error_of_forecasts() -> None:
    exact, wide = forecast_duration(600.0, 600.0), forecast_duration(600.0, 6000.0)
    assert exact.p50_s == wide.p50_s == 600.0
    assert 600.0 < exact.p90_s < 10 * 600.0
    assert wide.p90_s > 6000.0
    assert forecast_duration(600.0, None) == exact


def test_a_job_that_has_outlived_its_forecast_goes_on_in_proportion_to_its_age() -> None:
    duration = Duration(600.0, 900.0)
    assert duration.left_s(10 * HOUR, 0.5) == pytest.approx(10 * duration.left_s(1 * HOUR, 0.5), rel=0.01)
    assert duration.left_s(10 * HOUR, 0.5) > HOUR


@given(st.floats(10, 1e5), st.floats(1.01, 100.0), st.floats(0.0, 1e6), st.sampled_from([0.5, 0.9]))
def test_what_is_left_is_finite_and_never_negative(p50_s: float, wider: float, age: float, share: float) -> None:
    left_s = Duration(p50_s, p50_s * wider).left_s(age * p50_s, share)
    assert 0 <= left_s < float("inf")


@given(st.floats(1.0, 1e6), st.floats(1.1, 10.0), st.sampled_from([0.5, 0.9]))
def test_a_job_that_has_run_longer_does_not_end_sooner_after_its_start(age: float, older: float, share: float) -> None:
    duration = forecast_duration(600.0, 900.0)
    later, earlier = age * older + duration.left_s(age * older, share), age + duration.left_s(age, share)
    assert later >= earlier * (1 - 1e-9)


def test_at_a_new_site_only_the_magnitude_of_an_unknown_job_is_known() -> None:
    duration = typical_duration([], [])
    assert 600 < duration.p50_s < 6 * HOUR
    assert duration.p90_s > 10 * duration.p50_s


def test_ended_jobs_say_how_long_unknown_jobs_last() -> None:
    ended = [1000.0 + second for second in range(300)]
    duration = typical_duration(ended, [])
    *_, median, _, _, _, p90 = quantiles(ended, n=10)
    assert duration.p50_s == pytest.approx(median, rel=0.02)
    assert duration.p90_s == pytest.approx(max(p90, 1.5 * median), rel=0.05)


def test_jobs_that_still_run_say_that_not_all_are_short() -> None:
    short = [20.0] * 50
    found = [typical_duration(short, [50 * HOUR] * running).p90_s for running in (0, 10, 40)]
    assert all(before <= after for before, after in pairwise(found))
    assert found[-1] > 40 * HOUR
    assert typical_duration(short, [1.0] * 40) == typical_duration(short, []), (
        "a job that has just started says nothing"
    )
