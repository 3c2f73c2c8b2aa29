"""Which residents a job is tried beside: those where the least may go wrong."""

from __future__ import annotations

from tests.core.scheduling.test_trials import full, pair, submit, tried


def test_trials_go_where_the_least_may_go_wrong() -> None:
    play = full("worse", "better").forecast("new", pair("worse", 0.25), beside=("worse",))
    play.forecast("new", pair("better", 0.15), beside=("better",))
    assert submit(play).launched()[9] == play.launched()[2]


def test_a_job_that_needs_two_devices_is_tried_on_the_two_where_the_least_may_go_wrong() -> None:
    play = full("old0", "old1", "old2")
    for old, risk in (("old0", 0.15), ("old1", 0.25), ("old2", 0.12)):
        play.forecast("new", pair(old, risk), beside=(old,))
    submit(play, device_count=2)
    assert tried(play) == [9]
    attempt = next(a for a in play.state.attempts.values() if a.id.job == 9)
    beside = {
        other.kind
        for other in play.state.attempts.values()
        if other is not attempt and set(other.devices) & set(attempt.devices)
    }
    assert beside == {"old0", "old2"}


def test_a_job_that_is_likelier_to_meet_a_bad_partner_than_not_is_not_tried() -> None:
    play = full("old0", "old1")
    for old in ("old0", "old1"):
        play.forecast("new", pair(old, 0.3), beside=(old,))
    assert tried(submit(play, device_count=2)) == []
