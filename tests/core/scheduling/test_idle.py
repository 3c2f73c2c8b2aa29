"""Jobs that do not use their devices are warned, and stopped where site and job allow it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuq.core.scheduling.idle import IdleAction, IdleLimits, idle_actions
from gpuq.core.state.actions import OpenToPartners, Stop, WarnIdle
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.job import JobId, JobState, Sharing
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

LIMITS = IdleLimits(warn_after_s=100.0, action="stop", act_after_s=50.0, start_grace_s=30.0)
FIRST = AttemptId(JobId(1), 1)


def running(**changes: Any) -> Playbook:
    """Job 1, which began at 100."""
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, **changes))).settle()
    return play.happen(a_start(1, at=100))


def at(
    play: Playbook, now: float, idle_s: float | None, limits: IdleLimits = LIMITS, gib: float | None = None
) -> list[IdleAction]:
    """What is done after a report at this time; it is applied."""
    play.happen(a_report(a_device(), residents=(replace(a_resident(1, gib=gib), idle_s=idle_s),)), after=now - play.now)
    actions = list(idle_actions(play.state, limits, 10.0, play.now))
    for action in actions:
        assert apply(play.state, action, play.now)
    return actions


def test_one_that_uses_nothing_is_warned_once_and_then_stopped() -> None:
    play = running()
    assert at(play, 229, 129) == [], "the first 30 s do not count"
    assert at(play, 230, 130) == [WarnIdle(FIRST, 100.0)]
    assert at(play, 279, 179) == []
    assert at(play, 280, 180) == [Stop(FIRST, StopReason.IDLE)]
    assert at(play, 281, 181) == []
    play.happen(an_exit(1, Ending.STOPPED, 143))
    assert play.job_state(1) is JobState.CANCELLED


def test_one_that_uses_its_device_again_is_warned_again_and_not_stopped() -> None:
    play = running()
    assert at(play, 230, 130) == [WarnIdle(FIRST, 100.0)]
    assert at(play, 260, 0.0) == []
    assert at(play, 300, 40) == []
    assert at(play, 360, 100) == [WarnIdle(FIRST, 100.0)]


@pytest.mark.parametrize(
    ("changes", "limits"),
    [({"idle_ok": True}, LIMITS), ({}, replace(LIMITS, action="none"))],
    ids=["the job says no", "the site says no"],
)
def test_one_that_may_not_be_stopped_is_only_warned(changes: dict[str, Any], limits: IdleLimits) -> None:
    play = running(**changes)
    assert at(play, 300, 200, limits) == [WarnIdle(FIRST, 170.0)]
    assert at(play, 900, 800, limits) == []


def test_one_that_is_not_known_is_opened_to_partners_and_keeps_what_it_holds() -> None:
    play, share = running(), replace(LIMITS, action="share")
    play.forecast("known", a_forecast(90.0, 20.0))
    play.happen(Submitted(a_job(2, kind="known"))).settle()
    assert play.launched() == {1: "gpu0"}
    assert at(play, 230, 130, share, gib=3) == [WarnIdle(FIRST, 100.0)]
    assert at(play, 280, 180, share, gib=1) == [OpenToPartners(FIRST, GIB)]
    assert at(play, 281, 181, share, gib=1) == []
    play.settle()
    assert play.launched() == {1: "gpu0", 2: "gpu0"}
    assert (play.state.attempts[FIRST].promised, play.state.attempts[FIRST].had_partner) == ((GIB,), True)


@pytest.mark.parametrize("changes", [{"sharing": Sharing.NEVER}, {"idle_ok": True}, {"alone": True}])
def test_one_that_asked_for_its_device_alone_is_not_opened(changes: dict[str, Any]) -> None:
    play, share = running(**changes), replace(LIMITS, action="share")
    assert at(play, 230, 130, share, gib=1) == [WarnIdle(FIRST, 100.0)]
    assert at(play, 300, 200, share, gib=1) == []


def test_one_that_wakes_admits_no_further_partner() -> None:
    play, share = running(), replace(LIMITS, action="share")
    play.forecast("known", a_forecast(20.0, 2.0))
    for now, idle_s in ((230, 130), (280, 180)):
        at(play, now, idle_s, share, gib=1)
    at(play, 290, 0.0, share, gib=8)
    play.happen(Submitted(a_job(2, kind="known"))).settle()
    assert play.launched() == {1: "gpu0"}


def test_what_is_not_known_is_no_idleness() -> None:
    play = running()
    assert at(play, 500, None) == []
    play.happen(a_report(a_device(), residents=(replace(a_resident(1), idle_s=400.0),)))
    play.happen(after=11)
    assert list(idle_actions(play.state, LIMITS, 10.0, play.now)) == [], "its host was not heard"


def test_nothing_is_done_to_jobs_that_are_being_stopped_or_where_it_is_switched_off() -> None:
    play = running()
    assert at(play, 500, 400, replace(LIMITS, warn_after_s=0.0)) == []
    play.happen(CancelRequested(JobId(1), "ada"))
    assert at(play, 501, 401) == []


def test_a_gang_over_hosts_is_idle_when_all_of_it_is() -> None:
    hosts = [(a_device("a", host="a"), "a"), (a_device("b", host="b"), "b")]
    play = Playbook().happen(*(a_report(device, host=host) for device, host in hosts))
    play.happen(Submitted(a_job(1, device_count=2, host_count=2))).settle()
    play.happen(a_start(1, 1, at=100), a_start(1, 2, at=100))

    def reported(*idle_s: float) -> list[IdleAction]:
        residents = [replace(a_resident(1, number), idle_s=one) for number, one in enumerate(idle_s, start=1)]
        play.happen(
            *(
                a_report(device, host=host, residents=(one,))
                for (device, host), one in zip(hosts, residents, strict=True)
            ),
            after=100,
        )
        return list(idle_actions(play.state, LIMITS, 10.0, play.now))

    assert reported(0.0, 100.0) == []
    assert reported(170.0, 200.0) == [WarnIdle(FIRST, 170.0)]


def test_one_that_holds_more_than_it_was_promised_is_not_opened_to_partners() -> None:
    play, share = running(), replace(LIMITS, action="share")
    assert at(play, 230, 130, share, gib=25) == [WarnIdle(FIRST, 100.0)]
    assert at(play, 280, 180, share, gib=25) == []
    assert at(play, 281, 181, share, gib=24) == [OpenToPartners(FIRST, 24 * GIB)]
