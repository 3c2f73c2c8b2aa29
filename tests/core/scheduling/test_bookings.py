"""Which jobs start on devices that a user has booked, and which make room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.state.actions import EndBooking, Stop
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import DeviceId
from gpuq.core.state.events import BookingCancelled, BookingMade, CancelRequested, Submitted
from gpuq.core.state.job import JobId, JobState, Sharing
from gpuq.core.state.verdict import Rule
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook


def booked(begin: float, end: float = 1000.0, user: str = "ann", device: str = "gpu0") -> BookingMade:
    return BookingMade(Booking(BookingId(1), user, user, (DeviceId(device),), begin, end))


def played(*events: object, forecast_s: float | None = None) -> Playbook:
    play = Playbook().forecast("kind", a_forecast(duration_p90_s=forecast_s))
    return play.happen(a_report(a_device()), *events).settle()  # type: ignore[arg-type]


def test_while_it_lasts_only_jobs_of_its_user_start() -> None:
    play = played(booked(50), Submitted(a_job(1, owner="bob", time_limit_s=1.0)), Submitted(a_job(2, owner="ann")))
    assert play.launched() == {2: "gpu0"}
    assert play.reason(1) is Rule.BOOKED
    verdict = play.verdict(1)
    assert verdict is not None
    assert dict(verdict.numbers) == {"booking": 1, "user": "ann", "from_at": 50, "until_at": 1000.0, "lasts_s": 1.0}


@pytest.mark.parametrize(
    ("limit_s", "forecast_s", "starts"),
    [(200.0, None, True), (200.1, None, False), (None, 200.0, True), (None, 300.0, False), (150.0, 300.0, True)],
)
def test_before_it_jobs_start_that_will_have_ended(
    limit_s: float | None, forecast_s: float | None, starts: bool
) -> None:
    play = played(booked(300), Submitted(a_job(1, time_limit_s=limit_s)), forecast_s=forecast_s)
    assert (1 in play.launched()) is starts


@pytest.mark.parametrize(
    ("limit_s", "forecast_s", "preemptible", "starts"),
    [
        (200.0, None, False, True),
        (200.1, None, False, False),
        (None, 300.0, False, False),
        (None, None, False, True),
        (None, 300.0, True, True),
    ],
)
def test_a_job_starts_on_a_device_that_is_given_back_if_it_will_have_ended_or_saves_its_work(
    limit_s: float | None, forecast_s: float | None, preemptible: bool, starts: bool
) -> None:
    device = replace(a_device(), until_at=300.0)
    play = Playbook().forecast("kind", a_forecast(duration_p90_s=forecast_s))
    play.happen(a_report(device), Submitted(a_job(1, time_limit_s=limit_s, preemptible=preemptible))).settle()
    assert (1 in play.launched()) is starts
    assert play.reason(1) is (None if starts else Rule.TIME_LEFT)


def test_no_job_starts_on_a_device_from_the_moment_at_which_it_is_given_back() -> None:
    play = Playbook().happen(a_report(replace(a_device(), until_at=300.0)), after=200)
    play.happen(Submitted(a_job(1, preemptible=True)), Submitted(a_job(2))).settle()
    assert (play.reason(1), play.reason(2)) == (Rule.TIME_LEFT, Rule.TIME_LEFT)
    play.happen(a_report(a_device())).settle()
    assert play.launched()


def test_a_job_of_which_nothing_is_known_does_not_start_before_it() -> None:
    play = played(booked(10_000, 20_000), Submitted(a_job(1)))
    assert play.reason(1) is Rule.BOOKED
    play.happen(BookingCancelled(BookingId(1), "ann")).settle()
    assert play.launched() == {1: "gpu0"}


def test_when_it_is_over_it_leaves_the_state_and_jobs_start() -> None:
    play = played(booked(50, 150), Submitted(a_job(1)))
    play.happen(a_report(a_device()), after=50).settle()
    assert EndBooking(BookingId(1)) in play.done
    assert (play.launched(), play.state.bookings) == ({1: "gpu0"}, {})


def test_jobs_of_a_project_wait_only_where_their_own_user_has_none() -> None:
    """Both are of one signature; the one that comes first must not keep the other from being tried."""
    jobs = (Submitted(a_job(n, owner=owner, project="vision")) for n, owner in ((1, "bob"), (2, "ann")))
    assert played(booked(50), *jobs).launched() == {2: "gpu0"}


def test_another_device_is_used_meanwhile() -> None:
    play = Playbook().happen(a_report(a_device(), a_device("gpu1")), booked(50))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2))).settle()
    assert (play.launched(), play.reason(2)) == ({1: "gpu1"}, Rule.BOOKED)


def test_when_it_begins_a_preemptible_job_makes_room_and_another_runs_on() -> None:
    play = Playbook().happen(a_report(a_device(), a_device("gpu1")))
    play.happen(Submitted(a_job(1, preemptible=True)), Submitted(a_job(2))).settle()
    play.happen(a_start(1, at=100), a_start(2, at=100))
    both = Booking(BookingId(1), "ann", "ann", (DeviceId("gpu0"), DeviceId("gpu1")), 120, 1000)
    assert not any(isinstance(action, Stop) for action in play.happen(BookingMade(both)).settle().done)
    play.happen(after=20).settle()
    stops = [action for action in play.done if isinstance(action, Stop)]
    assert stops == [Stop(AttemptId(JobId(1), 1), StopReason.PREEMPTED)]
    play.happen(an_exit(1, Ending.STOPPED, 143)).settle()
    assert (play.job_state(1), play.job_state(2)) == (JobState.PENDING, JobState.RUNNING)


def test_a_job_that_is_cancelled_as_a_booking_begins_is_stopped_once() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, preemptible=True))).settle()
    play.happen(a_start(1), booked(50), CancelRequested(JobId(1), "ada"))
    assert play.decide() == [Stop(AttemptId(JobId(1), 1), StopReason.CANCELLED)]


def test_the_rest_of_a_broken_gang_is_stopped_once_as_a_booking_begins() -> None:
    far = a_device("gpu1", host="far")
    play = Playbook().happen(a_report(a_device()), a_report(far, host="far"))
    play.happen(Submitted(a_job(1, preemptible=True, device_count=2, host_count=2, sharing=Sharing.NEVER))).settle()
    play.happen(a_start(1), a_start(1, 2), an_exit(1, code=1), booked(50, device="gpu1"))
    assert play.decide() == [Stop(AttemptId(JobId(1), 2), StopReason.GANG)]


def test_no_job_makes_room_for_a_booking_that_is_over() -> None:
    """As after a restart, when its whole time may have passed between two passes."""
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, preemptible=True))).settle()
    play.happen(a_start(1), booked(110, 115)).happen(after=20)
    assert play.decide() == [EndBooking(BookingId(1))]


@pytest.mark.parametrize(("left_s", "starts"), [(499.0, False), (501.0, True)])
def test_a_job_on_several_devices_lasts_as_long_as_on_the_slowest_type(left_s: float, starts: bool) -> None:
    lasts = {"A": a_forecast(duration_p90_s=100.0), "B": a_forecast(duration_p90_s=500.0)}
    play = Playbook()
    play.known = ForecastTable(lambda questions: {question: lasts[question.device_type] for question in questions})
    given_back = (
        replace(a_device(name, type=type_), until_at=play.now + left_s) for name, type_ in zip("ab", "AB", strict=True)
    )
    play.happen(a_report(*given_back), Submitted(a_job(1, device_count=2))).settle()
    assert (1 in play.launched()) is starts
    assert starts or play.reason(1) is Rule.TIME_LEFT


@pytest.mark.parametrize("constraints", [DeviceConstraints(types=("A",)), None], ids=["to one type", "to one host"])
def test_a_type_that_a_job_on_several_devices_may_not_have_does_not_count(
    constraints: DeviceConstraints | None,
) -> None:
    lasts = {"A": a_forecast(duration_p90_s=100.0), "B": a_forecast(duration_p90_s=500.0)}
    play = Playbook()
    play.known = ForecastTable(lambda questions: {question: lasts[question.device_type] for question in questions})
    fast = (replace(a_device(name), until_at=play.now + 200.0) for name in "ab")
    play.happen(a_report(*fast), a_report(a_device("c", type="B", host="other"), host="other"))

    play.happen(Submitted(a_job(1, device_count=2, constraints=constraints))).settle()

    assert 1 in play.launched()


def test_a_waiting_job_names_the_booking_that_keeps_it_waiting_now() -> None:
    later = Booking(BookingId(2), "bob", "bob", (DeviceId("gpu0"),), 110.0, 9000.0)
    play = played(booked(0.0, 105.0), BookingMade(later), Submitted(a_job(1)))
    assert dict(play.state.verdicts[JobId(1)].numbers)["booking"] == BookingId(1)

    play.happen(after=6.0).settle()

    assert dict(play.state.verdicts[JobId(1)].numbers)["booking"] == BookingId(2)
