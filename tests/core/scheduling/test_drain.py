"""Which devices are drained for a job that waited beyond its patience."""

from __future__ import annotations

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.drain import devices_to_drain
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import JobId, KindId
from tests.support.nouns import GIB, a_device, a_job, a_reading


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
