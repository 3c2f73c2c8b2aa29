"""Predicted remaining device-time of waiting and running jobs."""

from __future__ import annotations

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.policy import propose_nothing
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.events import Submitted
from gpuq.policies.lists.size import Sizes
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_start
from tests.support.playbook import Playbook


class Recorder:
    """A policy that starts nothing and records the sizes of all jobs."""

    def __call__(self, context: SchedulingContext):
        self.sizes = Sizes(context)
        self.remaining = {int(job.id): self.sizes.remaining(job) for job in context.waiting}
        self.or_median = {int(job.id): self.sizes.remaining_or_median(job) for job in context.waiting}
        self.running = {
            int(a.id.job): (self.sizes.remaining_of_attempt(a), self.sizes.ends_at(a)) for a in _running(context)
        }
        return propose_nothing(context)


def _running(context: SchedulingContext):
    return context.state.attempts.values()


def recorded(*jobs, **forecasts) -> Recorder:
    policy = Recorder()
    play = Playbook(policy=policy)
    for signature, forecast in forecasts.items():
        play.forecast(signature, forecast)
    play.happen(a_report(a_device()), *(Submitted(job) for job in jobs)).decide()
    return policy


def forecast(p50: float, p90: float | None = None):
    return a_forecast(duration_p50_s=p50, duration_p90_s=p90)


@pytest.mark.parametrize(
    ("served", "left"),
    [(0, 200), (150, 50), (250, 150), (400, 400)],
    ids=["new", "within its forecast", "one of the long ones", "beyond its 90th percentile"],
)
def test_remaining_counts_devices_and_earlier_service(served: float, left: float) -> None:
    sizes = recorded(a_job(1, device_count=2, served_s=served), kind=forecast(100, 200))

    assert sizes.remaining == {1: left}


def test_a_job_lasts_as_long_as_on_the_devices_that_it_may_have() -> None:
    seconds, policy = {"A": 10.0, "B": 400.0}, Recorder()
    play = Playbook(policy=policy)
    play.known = ForecastTable(lambda questions: {one: forecast(seconds[one.device_type]) for one in questions})
    play.happen(a_report(a_device("a"), a_device("b", type="B")), Submitted(a_job(1)))

    play.happen(Submitted(a_job(2, constraints=DeviceConstraints(types=("A",))))).decide()

    assert policy.remaining == {1: 205.0, 2: 10.0}


def test_unknown_job_counts_as_the_median() -> None:
    sizes = recorded(a_job(1, kind="a"), a_job(2, kind="b"), a_job(3, kind="c"), a=forecast(10), b=forecast(30))

    assert sizes.remaining[3] is None
    assert sizes.or_median[3] == 20


def test_without_forecasts_all_jobs_are_equal() -> None:
    assert set(recorded(a_job(1), a_job(2, kind="other")).or_median.values()) == {0.0}


def test_running_job_ends_at_its_90th_percentile() -> None:
    play = Playbook().forecast("kind", forecast(100, 200)).happen(a_report(a_device()), Submitted(a_job(1))).settle()
    play.happen(a_start(1, at=100.0), after=60.0)
    play.policy = sizes = Recorder()
    play.decide()

    assert sizes.running == {1: (40.0, 300.0)}

    play.happen(after=240.0).decide()
    assert sizes.running == {1: (300.0, 700.0)}, "past its 90th percentile it is expected to last as long again"
