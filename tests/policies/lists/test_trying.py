"""Which residents a job is tried beside: those where the least may go wrong."""

from __future__ import annotations

from dataclasses import replace

from tests.core.scheduling.test_trials import LIMITS, full, pair, submit, tried


def test_trials_go_where_the_least_may_go_wrong() -> None:
    play = full("worse", "better")
    play.forecast("new", pair("worse", 0.25), beside=("worse",)).forecast(
        "new", pair("better", 0.15), beside=("better",)
    )
    assert submit(play, 3).launched()[3] == play.launched()[2]


def test_a_job_that_needs_two_devices_is_tried_on_the_two_where_the_least_may_go_wrong() -> None:
    play = full("old0", "old1", "old2", limits=replace(LIMITS, trials=2.0))
    for old, risk in (("old0", 0.15), ("old1", 0.25), ("old2", 0.1)):
        play.forecast("new", pair(old, risk), beside=(old,))
    submit(play, 9, device_count=2)
    assert tried(play) == [9]
    attempt = next(a for a in play.state.attempts.values() if a.id.job == 9)
    beside = {
        other.kind
        for other in play.state.attempts.values()
        if other is not attempt and set(other.devices) & set(attempt.devices)
    }
    assert beside == {"old0", "old2"}
