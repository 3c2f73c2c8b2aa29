"""The queue played forward: exact where nothing is uncertain, ordered by the ranks, wider where more is unsure."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.state.device import HostId
from gpuq.core.state.job import JobId
from gpuq.policies.estimates.waiting import (
    Duration,
    ExpectedStart,
    Reserved,
    Running,
    Scene,
    Waiter,
    expected_starts,
    quantile,
)

HOST = HostId("h")
SURE, UNSURE = Duration(100.0, 100.0), Duration(100.0, 400.0)


def waiter(
    number: int, devices: int = 1, duration: Duration = SURE, in_s: float = 0.0, rank: float | None = None
) -> Waiter:
    return Waiter(JobId(number), devices, duration, (float(number) if rank is None else rank,), in_s)


def starts(scene: Scene, comers: list[Waiter] | None = None, draws: int = 40) -> dict[JobId, ExpectedStart]:
    return expected_starts([replace(scene, coming=comers or ())] * draws, Random(7))


def test_a_free_device_is_had_at_once() -> None:
    assert starts(Scene({HOST: 1}, [], [waiter(1)])) == {JobId(1): ExpectedStart(0.0, 0.0)}


def test_one_device_is_had_in_turn() -> None:
    found = starts(Scene({HOST: 0}, [Running(HOST, 1, 40.0, SURE)], [waiter(1), waiter(2)]))
    assert found[JobId(1)].p50_s == pytest.approx(60, rel=0.1)
    assert found[JobId(2)].p50_s == pytest.approx(160, rel=0.1)


def test_a_gang_waits_for_all_its_devices_and_others_pass_it_where_they_may() -> None:
    running = [Running(HOST, 1, 0.0, SURE)]
    queue = [waiter(1, devices=2), waiter(2)]
    skipping = starts(Scene({HOST: 1}, running, queue))
    assert skipping[JobId(2)].p50_s == 0
    assert skipping[JobId(1)].p50_s == pytest.approx(100, rel=0.1)
    strict = starts(Scene({HOST: 1}, running, queue, skips=False))
    assert strict[JobId(2)].p50_s == pytest.approx(200, rel=0.1)


def test_who_comes_later_counts_where_it_goes_first() -> None:
    scene = Scene({HOST: 0}, [Running(HOST, 1, 0.0, SURE)], [waiter(1)])
    behind, before = waiter(-1, in_s=10.0, rank=2.0), waiter(-1, in_s=10.0, rank=0.0)
    assert starts(scene, [behind])[JobId(1)].p50_s == pytest.approx(100, rel=0.1)
    assert starts(scene, [before])[JobId(1)].p50_s == pytest.approx(200, rel=0.1)


def test_what_is_kept_for_one_that_waited_too_long_is_had_by_nobody_else_before() -> None:
    reserved = Reserved(waiter(1, devices=2, rank=9.0), HOST, [Running(HOST, 1, 40.0, SURE)])
    found = starts(Scene({HOST: 0}, [], [waiter(1, devices=2, rank=9.0), waiter(2, rank=0.0)], reserved=reserved))
    assert found[JobId(1)].p50_s == pytest.approx(60, rel=0.1)
    assert found[JobId(2)].p50_s == pytest.approx(160, rel=0.1)


def test_what_no_host_can_hold_never_starts() -> None:
    assert starts(Scene({HOST: 2}, [], [waiter(1, devices=3)]))[JobId(1)].p50_s == float("inf")


def test_the_same_chance_gives_the_same_answer() -> None:
    scene = Scene({HOST: 0}, [Running(HOST, 1, 0.0, UNSURE)], [waiter(n, duration=UNSURE) for n in range(1, 5)])
    assert starts(scene) == starts(scene)


@given(st.floats(10, 1e5), st.floats(1.0, 10.0), st.floats(0.0, 20.0), st.integers(0, 99))
def test_what_is_left_is_never_negative(p50_s: float, wider: float, elapsed: float, seed: int) -> None:
    assert Duration(p50_s, p50_s * wider).draw_rest(elapsed * p50_s, Random(seed)) >= 0


def test_draws_have_the_foretold_quantiles() -> None:
    chance = Random(1)
    drawn = [UNSURE.draw(chance) for _ in range(4000)]
    assert quantile(drawn, 0.5) == pytest.approx(100, rel=0.1)
    assert quantile(drawn, 0.9) == pytest.approx(400, rel=0.1)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8), st.integers(1, 3))
def test_in_strict_order_nobody_starts_before_who_is_first(devices: list[int], hosts: int) -> None:
    idle = {HostId(f"h{n}"): 3 for n in range(hosts)}
    queue = [waiter(number, devices=count) for number, count in enumerate(devices)]
    found = starts(Scene(idle, [], queue, skips=False), draws=1)
    order = [found[JobId(number)].p50_s for number in range(len(devices))]
    assert order == sorted(order)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 99))
def test_more_ahead_never_means_an_earlier_start(ahead: int, devices: int, seed: int) -> None:
    def last_of(count: int) -> ExpectedStart:
        queue = [waiter(number) for number in range(count + 1)]
        running = [Running(HOST, 1, 0.0, SURE)] * devices
        scene = Scene({HOST: 0}, running, queue, skips=False)
        return expected_starts([scene] * 10, Random(seed))[JobId(count)]

    fewer, more = last_of(ahead), last_of(ahead + devices)
    assert fewer.p50_s < more.p50_s
    assert fewer.p90_s < more.p90_s
    assert more.p50_s <= more.p90_s
