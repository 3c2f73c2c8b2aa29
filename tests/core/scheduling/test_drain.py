"""Which devices are drained for a job that waited beyond its patience."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.drain import devices_to_drain, known_remaining_s, remaining_s
from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import JobId, KindId
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading


def attempt(job: int, launched_at: float, *devices: str) -> Attempt:
    ids = tuple(DeviceId(device) for device in devices)
    return Attempt(AttemptId(JobId(job), 1), KindId("kind"), HostId("host"), ids, (GIB,) * len(ids), True, launched_at)


def snapshot(device: str, *residents: Attempt, host: str = "host") -> DeviceSnapshot:
    return DeviceSnapshot(a_device(device, host=host), residents, a_reading())


def test_the_device_with_the_fewest_attempts_is_drained() -> None:
    one, other = attempt(1, 0.0, "gpu0"), attempt(2, 0.0, "gpu0")
    assert devices_to_drain(a_job(9), [snapshot("gpu0", one, other), snapshot("gpu1", attempt(3, 50.0, "gpu1"))]) == (
        "gpu1",
    )


def test_among_equals_the_one_whose_youngest_has_run_the_longest() -> None:
    old, young = attempt(1, 10.0, "gpu0"), attempt(2, 90.0, "gpu1")
    assert devices_to_drain(a_job(9), [snapshot("gpu1", young), snapshot("gpu0", old)]) == ("gpu0",)


def test_all_devices_are_of_one_host_and_a_gang_counts_once() -> None:
    gang, single = attempt(1, 50.0, "a0", "a1"), attempt(2, 0.0, "b0")
    near = [snapshot("a0", gang, host="a"), snapshot("a1", gang, host="a")]
    far = [snapshot("b0", single, host="b"), snapshot("b1", attempt(3, 0.0, "b1"), host="b")]
    assert devices_to_drain(a_job(9, device_count=2), [*far, *near]) == ("a0", "a1"), (
        "one attempt has to end there, not two"
    )


def test_none_where_no_host_has_enough_devices() -> None:
    assert devices_to_drain(a_job(9, device_count=2), [snapshot("gpu0"), snapshot("far", host="far")]) is None


def test_devices_that_will_be_empty_clearly_sooner_are_drained_whatever_is_there() -> None:
    month, hour, other = attempt(1, 0.0, "gpu0"), attempt(2, 50.0, "gpu1"), attempt(3, 60.0, "gpu1")
    left_s = {1: 720 * 3600.0, 2: 3600.0, 3: 3000.0}
    both = [snapshot("gpu0", month), snapshot("gpu1", hour, other)]
    assert devices_to_drain(a_job(9), both, lambda one: left_s[one.id.job]) == ("gpu1",)


def test_an_attempt_is_expected_to_run_for_its_forecast_and_then_as_long_as_it_has_run() -> None:
    job = a_job(1)
    one = replace(attempt(1, 0.0, "gpu0"), forecast=a_forecast(duration_p50_s=100.0, duration_p90_s=300.0))
    assert [remaining_s(one, job, now) for now in (30.0, 120.0, 500.0)] == [70, 180, 500]
    assert known_remaining_s(one, job, 500.0) is None
    assert remaining_s(one, replace(job, served_s=50.0), 30.0) == 20
    assert remaining_s(replace(one, time_limit_s=50.0), job, 30.0) == 20
    assert remaining_s(replace(one, stopping=StopReason.CANCELLED), job, 30.0) == 0
