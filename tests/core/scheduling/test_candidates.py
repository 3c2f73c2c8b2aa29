"""Which devices a job is offered, in which order, and about which pairs a forecast is asked for."""

from __future__ import annotations

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.apply import apply
from gpuq.core.state.events import Submitted
from gpuq.core.state.forecast import PairCost
from gpuq.core.state.job import Job, JobId, KindId
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report
from tests.support.playbook import Playbook


def waiting(play: Playbook, **changes: object) -> Job:
    job = a_job(99, **changes)
    apply(play.state, Submitted(job), play.now)
    return job


def choices(play: Playbook, job: Job) -> list[tuple[str, ...]]:
    return [tuple(snapshot.device.id for snapshot in choice) for choice in play.context().choices(job)]


def busy(count: int, idle: int = 0, limits: Limits | None = None, partner: float = 30.0) -> Playbook:
    """So many devices with one resident each, used more from one to the next, and idle ones."""
    play = Playbook(limits)
    for number in range(count):
        play.forecast(f"resident{number:02}", a_forecast(partner + number, 2))
    play.happen(a_report(*(a_device(f"gpu{number:02}") for number in range(count))))
    play.happen(*(Submitted(a_job(number + 1, kind=f"resident{number:02}")) for number in range(count))).settle()
    assert len(play.launched()) == count
    if idle:
        play.happen(a_report(*(a_device(f"gpu{number:02}") for number in range(count + idle))))
    return play


def test_idle_devices_come_before_shared_ones_and_the_least_used_first() -> None:
    play = busy(3, idle=2).forecast("kind", a_forecast(20, 2))
    assert choices(play, waiting(play)) == [("gpu03",), ("gpu04",), ("gpu00",), ("gpu01",), ("gpu02",)]


def test_a_job_of_unknown_need_is_offered_idle_devices_only() -> None:
    play = busy(3, idle=1)
    assert choices(play, waiting(play)) == [("gpu03",)]


def test_what_the_memory_or_the_utilisation_rules_out_is_not_offered() -> None:
    play = busy(3).forecast("kind", a_forecast(83.5, 2))
    assert choices(play, waiting(play)) == [("gpu00",), ("gpu01",)], "83.5 + 32 is beyond 115"
    play = busy(3, idle=1).forecast("kind", a_forecast(20, 22))
    assert choices(play, waiting(play)) == [("gpu03",)]


def test_devices_that_refuse_do_not_count_towards_the_limit() -> None:
    """With one candidate wanted, the second device is offered because the first refuses the pair."""
    play = busy(3, limits=Limits(candidates_per_job=1))
    cost = PairCost(KindId("resident00"), 2.0, 2.0, 1.0, 1.0)
    play.forecast("kind", a_forecast(20, 2)).forecast("kind", a_forecast(20, 2, pairs=(cost,)), beside=("resident00",))
    assert choices(play, waiting(play)) == [("gpu01",)]


@pytest.mark.parametrize("refusing", [31, 32, 33, 60])
def test_the_one_device_that_admits_the_job_is_found_behind_any_number_that_refuse(refusing: int) -> None:
    play = busy(refusing + 1, partner=10.0).forecast("kind", a_forecast(20, 2))
    for number in range(refusing):
        cost = PairCost(KindId(f"resident{number:02}"), 2.0, 2.0, 1.0, 1.0, unsafe=True)
        play.forecast("kind", a_forecast(20, 2, pairs=(cost,)), beside=(f"resident{number:02}",))
    assert choices(play, waiting(play)) == [(f"gpu{refusing:02}",)]


def test_an_idle_device_with_room_is_found_behind_many_smaller_ones_that_foreign_processes_use_less() -> None:
    play = Playbook().forecast("kind", a_forecast(20, 8))
    small, large = [a_device(f"small{number:02}", 4) for number in range(40)], a_device("large", 16)
    used = {one.id: a_reading(used_memory=GIB, foreign_memory=GIB) for one in small}
    used[large.id] = a_reading(used_memory=2 * GIB, foreign_memory=2 * GIB)
    play.happen(a_report(*small, large, readings=used))  # type: ignore[arg-type]
    assert choices(play, waiting(play)) == [("large",)]


def test_a_class_that_was_refused_everywhere_is_offered_what_changes() -> None:
    play = busy(2).forecast("kind", a_forecast(90, 2))
    job = waiting(play)
    assert choices(play, job) == []
    play.happen(a_report(a_device("new")))
    assert choices(play, job) == [("new",)]


def test_a_gang_is_offered_devices_of_one_host_where_it_shares_the_fewest() -> None:
    play = busy(1).forecast("kind", a_forecast(20, 2))
    play.happen(a_report(a_device("gpu00"), a_device("gpu01")))
    play.happen(a_report(a_device("far0", host="far"), a_device("far1", host="far"), host="far"))
    assert choices(play, waiting(play, device_count=2)) == [("far0", "far1"), ("gpu01", "gpu00")]


def test_the_best_is_named_whether_it_admits_or_not() -> None:
    play = busy(2).forecast("kind", a_forecast(20, 2))
    cost = PairCost(KindId("resident00"), 2.0, 2.0, 1.0, 1.0)
    play.forecast("kind", a_forecast(20, 2, pairs=(cost,)), beside=("resident00",))
    job = waiting(play)
    best = play.context().candidates.best(job)
    assert best is not None
    assert [snapshot.device.id for snapshot in best] == ["gpu00"]
    assert play.context().candidates.best(a_job(50, declared_memory=100 * GIB)) is None


def test_an_occupied_device_is_named_only_if_it_is_open_to_the_job_in_this_pass() -> None:
    play = busy(1)
    job = waiting(play)
    context = play.context()
    occupied = context.candidates.occupied(job, play.state.residents)
    assert occupied is not None
    assert occupied.device.id == "gpu00"
    context.place_job(job, [occupied.device.id])
    assert context.candidates.occupied(job, play.state.residents) is None


def test_foreign_memory_puts_an_idle_device_last() -> None:
    play = Playbook().forecast("kind", a_forecast(20, 2))
    taken = a_reading(used_memory=GIB, foreign_memory=GIB)
    play.happen(a_report(a_device("gpu0"), a_device("gpu1"), readings={"gpu0": taken}))
    assert choices(play, waiting(play)) == [("gpu1",), ("gpu0",)]
    assert JobId(99) in play.state.jobs
