"""Attempts that were started alone, unknown, are opened to partners once their needs are known, and closed if that fails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gpuq.core.scheduling.revise import revisions
from gpuq.core.state.actions import Launch, OpenToPartners, Revise
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.events import Submitted
from gpuq.core.state.forecast import UNKNOWN, Forecast, Question
from gpuq.core.state.job import JobId, Sharing
from gpuq.core.state.validate import validate
from gpuq.core.state.verdict import Rule, Verdict
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_report, a_resident, a_start
from tests.support.playbook import Playbook

FIRST = AttemptId(JobId(1), 1)


def running(**changes: Any) -> Playbook:
    """Job 1 runs on the only device, of which nothing was known."""
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, **changes))).settle()
    return play.happen(a_start(1, at=100), a_report(a_device(), residents=(a_resident(1, gib=3),)))


def revise(play: Playbook, forecast: Forecast) -> list[Revise]:
    """What follows from this forecast of all jobs; it is applied."""

    def answer(questions: Iterable[Question]) -> dict[Question, Forecast]:
        return dict.fromkeys(questions, forecast)

    found = list(revisions(play.state, answer))
    for action in found:
        assert apply(play.state, action, play.now)
        validate(play.state)
    return found


def test_it_is_opened_once_its_needs_are_known_and_promised_what_it_needs() -> None:
    play = running()
    assert revise(play, UNKNOWN) == []
    known = a_forecast(40.0, 6.0)
    assert revise(play, known) == [Revise(FIRST, known, shares=True, promised=(6 * GIB,))]
    assert revise(play, known) == [], "once is enough"
    attempt = play.state.attempts[FIRST]
    assert (attempt.shares, attempt.promised, attempt.forecast) == (True, (6 * GIB,), known)


def test_it_is_promised_no_less_than_it_holds() -> None:
    assert revise(running(), a_forecast(40.0, 2.0))[0].promised == (3 * GIB,)


def test_a_lower_forecast_changes_nothing_and_a_higher_one_raises_the_promise() -> None:
    play = running()
    revise(play, a_forecast(40.0, 6.0))
    assert revise(play, a_forecast(30.0, 5.0)) == []
    assert revise(play, a_forecast(40.0, 8.0))[0].promised == (8 * GIB,)
    assert revise(play, a_forecast(60.0, 8.0))[0].forecast.peak_utilization_pct == 60.0


def test_it_has_its_device_to_itself_again_when_what_was_known_fails() -> None:
    play = running()
    revise(play, a_forecast(40.0, 6.0))
    (closed,) = revise(play, UNKNOWN)
    assert (closed.shares, closed.promised) == (False, (24 * GIB,))
    assert not play.state.attempts[FIRST].shares


def test_one_that_was_joined_stays_as_it_is() -> None:
    play = running()
    known = a_forecast(40.0, 6.0)
    revise(play, known)
    partner = replace(play.state.attempts[FIRST], id=AttemptId(JobId(2), 1), promised=(10 * GIB,))
    play.happen(Submitted(a_job(2)))
    launch = Launch(replace(partner, revised=False), Verdict(True, Rule.FITS, partner.devices[0], ()))
    assert apply(play.state, launch, play.now)
    assert revise(play, UNKNOWN) == []
    assert revise(play, a_forecast(40.0, 20.0))[0].promised == (14 * GIB,), "no more than the partner leaves"


@pytest.mark.parametrize("changes", [{"sharing": Sharing.NEVER}, {"alone": True}])
def test_a_job_that_may_not_share_is_left_alone(changes: dict[str, Any]) -> None:
    assert revise(running(**changes), a_forecast(40.0, 6.0)) == []


def test_one_on_devices_of_two_types_is_left_alone() -> None:
    """A forecast is of one type."""
    devices = (a_device("gpu0"), a_device("gpu1", type="B"))
    play = Playbook().happen(a_report(*devices), Submitted(a_job(1, device_count=2))).settle()
    play.happen(a_start(1, at=100), a_report(*devices, residents=(a_resident(1, gib=3),)))
    assert revise(play, a_forecast(40.0, 6.0)) == []


def test_one_that_was_opened_because_it_is_idle_stays_open_though_what_was_known_of_it_failed() -> None:
    """Else it would be closed and opened again in each pass."""
    play = running()
    revise(play, a_forecast(40.0, 6.0))
    revise(play, UNKNOWN)
    assert apply(play.state, OpenToPartners(FIRST, 3 * GIB), play.now)
    assert revise(play, UNKNOWN) == []
    assert revise(play, a_forecast(40.0, 6.0))[0].promised == (6 * GIB,)
