"""Backfill rules: two devices, one busy for an hour, and a gang of two at the head of the queue."""

from __future__ import annotations

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import HostId
from gpuq.core.state.events import Event, HostDrained, Submitted
from gpuq.core.state.verdict import Rule
from gpuq.policies.lists.backfill import NAMED
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.order import ARRIVAL
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report, a_start, an_exit
from tests.support.playbook import Playbook

OTHER = a_device("o0", host="other"), a_device("o1", host="other")
EXCLUSIVE = Limits(residents_per_device=1, patience_s=float("inf"), stale_after_s=float("inf"))


def a_gang_waits(backfill: str, *, devices: int = 2, known: bool = True) -> Playbook:
    play = Playbook(EXCLUSIVE, list_scheduler(ARRIVAL, NAMED[backfill]))
    for kind, seconds in (("hour", 3600), ("short", 600), ("long", 7200)):
        play.forecast(kind, a_forecast(duration_p50_s=seconds, duration_p90_s=seconds) if known else a_forecast())
    play.happen(a_report(*(a_device(f"gpu{n}") for n in range(devices))), Submitted(a_job(1, kind="hour"))).settle()
    play.happen(a_start(1, at=play.now))
    return play.happen(Submitted(a_job(2, kind="hour", device_count=2)))


@pytest.mark.parametrize(
    ("backfill", "kind", "goes"),
    [
        ("skip", "short", True),
        ("skip", "long", True),
        ("strict", "short", False),
        ("easy", "short", True),
        ("easy", "long", False),
    ],
)
def test_job_behind_a_waiting_gang_starts_only_if_the_rule_allows(backfill: str, kind: str, goes: bool) -> None:
    play = a_gang_waits(backfill).happen(Submitted(a_job(3, kind=kind))).settle()

    assert (3 in play.launched()) == goes
    assert 2 not in play.launched()


def test_reservation_leaves_other_devices_open() -> None:
    play = a_gang_waits("easy", devices=3)
    assert play.settle().launched()[2] == "gpu1"

    play.happen(Submitted(a_job(3, kind="hour", device_count=2)), Submitted(a_job(4, kind="long"))).settle()
    assert 4 not in play.launched(), "there are no devices to spare"


@pytest.mark.parametrize(("kind", "goes"), [("short", True), ("hour", False)])
def test_what_starts_in_the_same_pass_ends_when_it_is_forecast_to(kind: str, goes: bool) -> None:
    """One device is busy for two hours, another is given to a job of ten minutes in this pass: the gang could start then."""
    play = Playbook(EXCLUSIVE, list_scheduler(ARRIVAL, NAMED["easy"]))
    for name, seconds in (("short", 600), ("hour", 3600), ("long", 7200)):
        play.forecast(name, a_forecast(duration_p50_s=seconds, duration_p90_s=seconds))
    play.happen(a_report(*(a_device(f"gpu{n}") for n in range(3))), Submitted(a_job(1, kind="long"))).settle()
    play.happen(a_start(1, at=play.now), Submitted(a_job(2, kind="short")), Submitted(a_job(3, device_count=2)))

    play.happen(Submitted(a_job(4, kind=kind))).settle()
    assert (4 in play.launched()) == goes


UNFIT: dict[str, Event] = {
    "drained": HostDrained(HostId("other"), "ada", "maintenance"),
    "unwell": a_report(*OTHER, host="other", readings=dict.fromkeys(("o0", "o1"), a_reading(unwell="a fault"))),
    "full": a_report(*OTHER, host="other", readings=dict.fromkeys(("o0", "o1"), a_reading(foreign_memory=24 * GIB))),
}


@pytest.mark.parametrize("why", UNFIT)
def test_no_device_is_held_that_would_not_take_the_first_job(why: str) -> None:
    """The other host is idle, so it would be held first, and the job's own two devices would go to others."""
    play = a_gang_waits("easy").happen(a_report(*OTHER, host="other"), UNFIT[why])
    play.happen(Submitted(a_job(3, kind="long"))).settle()
    assert list(play.launched()) == [1]
    play.happen(an_exit(1), after=3600.0).settle()
    assert play.launched()[2] == "gpu0"


def test_reservation_with_unknown_begin_admits_no_backfill() -> None:
    play = a_gang_waits("easy", known=False).happen(Submitted(a_job(3, kind="short"))).settle()

    assert 3 not in play.launched()


def test_skip_lets_later_jobs_share_a_device() -> None:
    play = Playbook(Limits(patience_s=float("inf")), list_scheduler(ARRIVAL, NAMED["skip"]))
    play.forecast("light", a_forecast(20, 1)).forecast("heavy", a_forecast(98, 1)).happen(a_report(a_device()))
    for number, kind in ((1, "light"), (2, "heavy"), (3, "light")):
        play.happen(Submitted(a_job(number, kind=kind))).settle()
    assert list(play.launched()) == [1, 3]


@pytest.mark.parametrize("backfill", ["strict", "easy"])
def test_job_that_fits_no_device_blocks_no_other(backfill: str) -> None:
    play = Playbook(EXCLUSIVE, list_scheduler(ARRIVAL, NAMED[backfill])).happen(a_report(a_device()))
    play.happen(Submitted(a_job(1, device_count=9)), Submitted(a_job(2))).settle()

    assert play.launched() == {2: "gpu0"}


@pytest.mark.parametrize("backfill", ["strict", "easy"])
def test_a_job_that_is_kept_back_beside_an_idle_device_says_so(backfill: str) -> None:
    play = a_gang_waits(backfill).happen(Submitted(a_job(3, kind="long"))).settle()
    assert play.reason(2) is Rule.RESOURCES
    assert play.reason(3) is Rule.BEHIND

    play.happen(an_exit(1)).settle()
    assert 2 in play.launched()
    assert play.reason(3) is not Rule.BEHIND, "both devices are busy"
