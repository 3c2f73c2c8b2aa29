"""The queue played forward: exact for given durations, in its order."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.state.device import HostId
from gpuq.policies.estimates.replay import DevicePool, Queued, Release, replay

HOST = DevicePool(HostId("h"))


def queued(devices: int = 1, duration_s: float = 100.0) -> Queued:
    return Queued(devices, duration_s)


def test_a_job_starts_at_once_on_a_free_device() -> None:
    assert replay({HOST: 1}, [], [queued()], skips=True) == [0.0]


def test_jobs_take_turns_on_one_device() -> None:
    assert replay({HOST: 0}, [Release(60.0, HOST, 1)], [queued(), queued()], skips=True) == [60.0, 160.0]


def test_a_gang_waits_for_all_its_devices_and_others_pass_it_if_the_policy_skips() -> None:
    releases, queue = [Release(100.0, HOST, 1)], [queued(devices=2), queued(duration_s=50.0)]
    assert replay({HOST: 1}, releases, queue, skips=True) == [100.0, 0.0]
    assert replay({HOST: 1}, releases, queue, skips=False) == [100.0, 200.0]


def test_the_devices_of_a_gang_are_on_one_host() -> None:
    hosts = {DevicePool(HostId("a")): 1, DevicePool(HostId("b")): 1}
    assert replay(hosts, [Release(70.0, DevicePool(HostId("b")), 1)], [queued(devices=2)], skips=True) == [70.0]


def test_a_job_that_no_host_can_hold_never_starts() -> None:
    assert replay({HOST: 2}, [], [queued(devices=3)], skips=True) == [inf]


def test_a_job_waits_for_devices_that_it_may_have_while_others_are_free() -> None:
    slow, fast = DevicePool(HostId("a")), DevicePool(HostId("b"), (0,))
    queue = [queued(), queued()._replace(constraint=0)]
    assert replay({slow: 1}, [Release(900.0, fast, 1)], queue, skips=True) == [0.0, 900.0]


def test_a_gang_gets_all_devices_of_a_host_whatever_others_ask_of_them() -> None:
    named, others = DevicePool(HostId("h"), (0,)), DevicePool(HostId("h"))
    queue = [queued(devices=3, duration_s=50.0), queued()._replace(constraint=0)]
    assert replay({named: 1, others: 2}, [], queue, skips=True) == [0.0, 50.0]


def test_a_job_takes_first_what_fewer_others_may_have() -> None:
    named, others = DevicePool(HostId("h"), (0,)), DevicePool(HostId("h"))
    assert replay({named: 1, others: 1}, [], [queued(), queued()._replace(constraint=0)], skips=True) == [0.0, 0.0]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8), st.integers(1, 3))
def test_in_strict_order_no_job_starts_before_an_earlier_one(devices: list[int], hosts: int) -> None:
    idle = {DevicePool(HostId(f"h{n}")): 3 for n in range(hosts)}
    starts = replay(idle, [], [queued(devices=count) for count in devices], skips=False)
    assert starts == sorted(starts)


@given(st.integers(1, 5), st.integers(1, 4), st.lists(st.floats(1.0, 1e4), min_size=10, max_size=10))
def test_more_jobs_ahead_never_mean_an_earlier_start(ahead: int, devices: int, durations: list[float]) -> None:
    def last_of(count: int) -> float:
        queue = [queued(duration_s=lasts) for lasts in durations[: count + 1]]
        return replay({HOST: 0}, [Release(100.0, HOST, 1)] * devices, queue, skips=False)[count]

    assert last_of(ahead) <= last_of(ahead + devices)
