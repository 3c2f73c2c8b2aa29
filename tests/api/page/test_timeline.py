"""The geometry of the timeline."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec import structs

from gpuq.adapters.store.row_types import DeviceMark, MarkKind, Run
from gpuq.api.page.timeline import Bar, Period, TimelineRow, _bar, _fades, _joined, _lanes, _marks, _with_marks
from gpuq.core.state.attempt import StopReason
from gpuq.core.state.device import Vitals
from gpuq.core.state.job import JobId, JobState
from gpuq.messages.live import DeviceStatus, LiveView


def bar(job: int, x: float, width: float) -> Bar:
    return Bar(job, "", "", "none", x, width, 0.0, None, "", "")


def run(
    job: int, start: float, end: float | None, ending: str | None = "exited", reason: StopReason | None = None
) -> Run:
    return Run(
        job=JobId(job), number=1, name="a", owner="ann", project=None, kind="k", job_state=JobState.PENDING, last=False,
        devices=("gpu",), started_at=start, ended_at=end, ending=ending, exit_code=0,
        stop_reason=reason, time_limit_s=None, max_slowdown=None, promised_bytes=None,
    )  # fmt: skip


def test_jobs_that_share_are_in_lanes_of_their_own_and_a_lane_is_used_again() -> None:
    lanes = _lanes([bar(1, 0, 50), bar(2, 20, 10), bar(3, 60, 10), bar(4, 61, 5)])
    assert [[one.job for one in lane] for lane in lanes] == [[1, 3], [2, 4]]


@given(some.lists(some.tuples(some.floats(0, 100), some.floats(0.15, 50)), max_size=40))
def test_bars_of_a_lane_never_overlap_and_none_is_lost(edges: list[tuple[float, float]]) -> None:
    lanes = _lanes(bar(job, x, width) for job, (x, width) in enumerate(edges))
    assert sorted(one.job for lane in lanes for one in lane) == list(range(len(edges)))
    for lane in lanes:
        assert all(before.x + before.width <= after.x for before, after in pairwise(lane))


def test_short_jobs_one_after_another_are_in_one_lane() -> None:
    period = Period(0.0, 21_600.0)
    runs = [run(job, 100.0 + 3 * job, 102.0 + 3 * job) for job in range(6)]
    found = [_bar(one, None, period, 20_000.0, sees=True) for one in runs]
    assert found[0].x + found[0].width > found[1].x, "each is drawn wider than it lasted"
    assert [len(lane) for lane in _lanes(found)] == [6]
    assert len(list(_joined(found))) == 1


def test_bars_that_look_like_one_are_one_with_the_strongest_slowdown() -> None:
    found = list(_joined([bar(1, 0, 0.15), bar(2, 0.2, 0.15), bar(3, 5, 0.15)]))
    assert [(x, round(right, 3)) for x, right, *_ in found] == [(0, 0.35), (5, 5.15)]
    worse = replace(bar(2, 0.2, 0.15), strength="clear", remark="failed")
    assert next(iter(_joined([bar(1, 0, 0.15), worse])))[2:] == ("clear", True)


@pytest.mark.parametrize(
    ("ending", "reason", "mark"),
    [
        ("out of memory", None, "M"),
        ("host out of memory", None, "M"),
        ("device failed", None, "X"),
        ("lost", None, "L"),
        ("stopped", StopReason.PREEMPTED, "P"),
        ("stopped", StopReason.CANCELLED, ""),
        ("exited", None, ""),
        (None, None, ""),
    ],
)
def test_an_end_that_was_not_the_jobs_own_has_a_letter(
    ending: str | None, reason: StopReason | None, mark: str
) -> None:
    ended = run(1, 10.0, None if ending is None else 20.0, ending, reason)
    assert _bar(ended, None, Period(0, 100), 50.0, sees=True).mark == mark


def test_what_is_to_come_fades_from_the_median_to_nine_in_ten() -> None:
    period = Period(0, 100)
    assert _fades(10, (60, 90), period, 50) == [("likely", 50, 20), ("fade", 70, 30)]
    assert _fades(10, (60, 90), period, 80) == [("fade", 80, 20)], "beyond its median"
    assert _fades(10, (None, None), period, 50) == []


@pytest.mark.parametrize("hours", [0.02, 1, 6, 24, 168, 720, 8784])
def test_a_period_of_any_length_has_a_few_ticks_within_it(hours: float) -> None:
    ticks = Period(1.7e9, 1.7e9 + 3600 * hours).ticks()
    assert 1 <= sum(0 <= at <= 100 for at, _ in ticks) <= 9
    assert all(-25 < at < 125 for at, _ in ticks)


def lowered(device: str, start: float, end: float) -> DeviceMark:
    return DeviceMark(
        device=device, kind=MarkKind.LOWERED_CLOCKS, detail="power_cap", from_at=start, until_at=end, count=2
    )


def test_marks_that_would_lie_on_each_other_are_one_and_other_kinds_stay_apart() -> None:
    xid = DeviceMark(device="a", kind=MarkKind.XID, detail="79", from_at=100.0, until_at=100.0, count=1)
    seen = [xid, structs.replace(xid, from_at=105.0, until_at=105.0, count=4), lowered("a", 102.0, 400.0)]
    found = _marks(seen, None, Period(0, 1000), 500.0)["a"]
    row = _with_marks(TimelineRow("a", "", 24), found)
    assert [(mark.letter, mark.x, mark.width) for mark in row.marks] == [("X", 10.0, 0.5), ("T", 10.2, 29.8)]
    assert row.marks[0].texts == ("XID 79", "XID 79 4 times")
    assert row.height > 24, "they have a place of their own"
    far = [xid, structs.replace(xid, from_at=200.0, until_at=200.0)]
    assert len(_with_marks(TimelineRow("a", "", 24), _marks(far, None, Period(0, 1000), 500.0)["a"]).marks) == 2


def test_clocks_that_are_lowered_now_are_so_until_now() -> None:
    device = DeviceStatus(
        id="a", host="h", backend="nvml", type="t", total_memory_bytes=1, vitals=Vitals(throttling=("power_cap",))
    )
    live = LiveView(at=0.0, devices=(device,))
    seen = [lowered("a", 100.0, 480.0), lowered("b", 100.0, 480.0)]
    found = _marks(seen, live, Period(0, 1000), 500.0)
    assert found["a"][0][1].end == 500.0
    assert found["b"][0][1].end == 480.0
    assert _marks(seen, live, Period(0, 1000), 5000.0)["a"][0][1].end == 480.0, "it was not so all the time"
