"""Predicted remaining device-time of waiting and running jobs."""

from __future__ import annotations

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import propose_nothing
from gpuq.core.state.events import Submitted
from gpuq.policies.lists.size import Sizes
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_start
from tests.support.playbook import Playbook


class Seen:
    """A policy that only looks, and keeps what it saw."""

    def __call__(self, context: SchedulingContext):
        self.sizes = Sizes(context)
        self.left = {int(job.id): self.sizes.remaining(job) for job in context.waiting}
        self.middle = {int(job.id): self.sizes.remaining_or_median(job) for job in context.waiting}
        self.running = {
            int(a.id.job): (self.sizes.remaining_of_attempt(a), self.sizes.ends_at(a)) for a in _running(context)
        }
        return propose_nothing(context)


def _running(context: SchedulingContext):
    return context.state.attempts.values()


def seen(*jobs, **forecasts) -> Seen:
    policy = Seen()
    play = Playbook(policy=policy)
    for signature, forecast in forecasts.items():
        play.forecast(signature, forecast)
    play.happen(a_report(a_device()), *(Submitted(job) for job in jobs)).decide()
    return policy


def lasting(p50: float, p90: float | None = None):
    return a_forecast(duration_p50_s=p50, duration_p90_s=p90)


@pytest.mark.parametrize(
    ("served", "left"),
    [(0, 200), (150, 50), (250, 150), (400, 400)],
    ids=["new", "within its forecast", "one of the long ones", "beyond all that was foretold"],
)
def test_remaining_counts_devices_and_earlier_service(served: float, left: float) -> None:
    told = seen(a_job(1, device_count=2, served_s=served), kind=lasting(100, 200))

    assert told.left == {1: left}


def test_unknown_job_counts_as_the_median() -> None:
    told = seen(a_job(1, kind="a"), a_job(2, kind="b"), a_job(3, kind="c"), a=lasting(10), b=lasting(30))

    assert told.left[3] is None
    assert told.middle[3] == 20


def test_without_forecasts_all_jobs_are_equal() -> None:
    assert set(seen(a_job(1), a_job(2, kind="other")).middle.values()) == {0.0}


def test_running_job_ends_at_its_90th_percentile() -> None:
    play = Playbook().forecast("kind", lasting(100, 200)).happen(a_report(a_device()), Submitted(a_job(1))).settle()
    play.happen(a_start(1, at=100.0), after=60.0)
    play.policy = told = Seen()
    play.decide()

    assert told.running == {1: (40.0, 300.0)}

    play.happen(after=240.0).decide()
    assert told.running == {1: (300.0, 700.0)}, "it outlived all that: as long again"
