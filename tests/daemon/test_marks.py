"""When something happened on a device, from what two reports of its host say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuq.adapters.store.row_types import DeviceMark
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId, HostId, Vitals
from gpuq.core.state.events import HostReported
from gpuq.core.state.state import State
from gpuq.daemon.marks import DeviceMarks
from tests.daemon.harness import Harness
from tests.support.nouns import a_device, a_reading
from tests.support.world import World

GPU = DeviceId("gpu0")


def a_report(instance: str = "first", **vitals: Any) -> HostReported:
    reading = replace(a_reading(), vitals=Vitals(**vitals))
    return HostReported(HostId("host"), "boot", 0.0, (), ((GPU, reading),), (), instance)


@pytest.fixture
def marks() -> DeviceMarks:
    return DeviceMarks()


def seen(mark: DeviceMark) -> tuple[str, str, float, float, int]:
    return mark.kind.value, mark.detail, mark.from_at, mark.until_at, mark.count


def test_an_error_has_the_time_of_the_first_report_that_counts_it(marks: DeviceMarks) -> None:
    state = State()
    assert marks.note(a_report(xids=((79, 3),)), state, 100.0) == [], "they came at some time before"
    assert marks.note(a_report(xids=((79, 3),)), state, 101.0) == []
    (one,) = marks.note(a_report(xids=((79, 3), (13, 1))), state, 102.0)
    assert seen(one) == ("xid", "13", 102.0, 102.0, 1)


def test_errors_that_come_again_within_a_minute_are_one_mark_and_later_ones_another(marks: DeviceMarks) -> None:
    state, count, found = State(), 0, []
    for second in range(300):
        count += second in (10, 11, 50, 200)
        found += marks.note(a_report(xids=((13, count),)), state, float(second))
    last = {mark.from_at: seen(mark) for mark in found}
    assert list(last.values()) == [("xid", "13", 10.0, 50.0, 3), ("xid", "13", 200.0, 200.0, 1)]


def test_a_new_worker_service_counts_from_zero(marks: DeviceMarks) -> None:
    state = State()
    marks.note(a_report(xids=((13, 5),)), state, 100.0)
    (one,) = marks.note(a_report("second", xids=((13, 2),)), state, 130.0)
    assert seen(one) == ("xid", "13", 130.0, 130.0, 2)


def test_clocks_that_come_and_go_are_one_mark_that_is_seldom_written(marks: DeviceMarks) -> None:
    state, found = State(), []
    for second in range(600):
        lowered = ("power_cap",) if second < 300 and second % 7 < 3 else ()
        found += marks.note(a_report(throttling=lowered), state, float(second))
    assert {mark.from_at for mark in found} == {0.0}
    assert seen(found[-1]) == ("lowered clocks", "power_cap", 0.0, 296.0, 43)
    assert len(found) <= 7, "at its start, each minute, and at its end"


def test_a_host_that_reports_nonsense_opens_only_so_many_marks(marks: DeviceMarks) -> None:
    state, found = State(), []
    marks.note(a_report(), state, 0.0)
    for second in range(10):
        reasons = tuple(f"{second}-{number}" * 40 for number in range(100))
        found += marks.note(a_report(throttling=reasons, xids=((1, 2**50 * (second + 1)),)), state, float(second))
    assert len(found) <= 40
    assert max(mark.count for mark in found) <= 1_000_000
    assert max(len(mark.detail) for mark in found) <= 64


async def test_the_record_has_what_a_host_reported_with_its_time(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"))
    job = harness.submit()
    await harness.live(world, turns=3)
    assert harness.states() == {job: "RUNNING"}
    for xids, blinks in (((), 0), (((79, 1),), 0), (((79, 1),), 1), (((79, 1),), 1), (((79, 1),), 2)):
        world.vitals[GPU] = Vitals(xids=xids)
        world.numbers[AttemptId(job, 1)] = {"blinks": blinks}
        await harness.live(world, turns=1)
    now = harness.wall
    assert [seen(mark) for mark in harness.store.device_marks(since=0.0, until=now)] == [
        ("xid", "79", now - 3, now - 3, 1),
        ("blink", str(job), now - 2, now - 2, 1),
        ("blink", str(job), now, now, 1),
    ], "each pause is a mark of its own"
    assert len(harness.store.device_marks(since=now - 2.5, until=now - 1)) == 1


def test_the_end_of_a_mark_is_written_though_the_host_was_silent_and_the_same_begins_again(marks: DeviceMarks) -> None:
    state, found = State(), []
    for second in (*range(50), 200):
        found += marks.note(a_report(throttling=("power_cap",)), state, float(second))
    last = {mark.from_at: seen(mark) for mark in found}
    assert last[0.0] == ("lowered clocks", "power_cap", 0.0, 49.0, 1)
    assert last.keys() == {0.0, 200.0}
