"""How long a job waits before devices are kept for it, and how long it will need them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.patience import is_beyond_patience, longest_s
from gpuq.core.state.forecast import Forecast
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook

LIMITS = Limits(patience_s=600, patience_ratio=5, stale_after_s=1e9)


def cache_with(forecast: Forecast) -> Playbook:
    play = Playbook(LIMITS).forecast("kind", forecast).happen(a_report(a_device()))
    play.context()
    return play


@pytest.mark.parametrize(
    ("duration_s", "devices", "patience_s"),
    [(None, 1, 600.0), (60.0, 1, 600.0), (400.0, 1, 2000.0), (400.0, 2, 4000.0)],
)
def test_a_job_is_as_patient_as_it_is_long(duration_s: float | None, devices: int, patience_s: float) -> None:
    play = cache_with(a_forecast(90, 1, duration_p50_s=duration_s))
    job = a_job(1, device_count=devices, submitted_at=0.0)
    assert not is_beyond_patience(job, play.cache, LIMITS, patience_s)
    assert is_beyond_patience(job, play.cache, LIMITS, patience_s + 1)


def test_a_job_lasts_as_long_as_is_forecast_and_no_longer_than_its_limit() -> None:
    known = a_forecast(90, 1, duration_p50_s=100.0, duration_p90_s=300.0)
    job = a_job(1)
    assert longest_s(job, cache_with(known).cache) == 300
    assert longest_s(job, cache_with(replace(known, duration_p90_s=None)).cache) == 100
    assert longest_s(replace(job, time_limit_s=200.0), cache_with(known).cache) == 200
    unknown = cache_with(Forecast()).cache
    assert longest_s(job, unknown) is None
    assert longest_s(replace(job, time_limit_s=200.0), unknown) == 200
