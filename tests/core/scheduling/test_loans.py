"""Idle cores of CPU devices are lent to jobs that can use them, and are back before a job is launched there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Launch, Lend, Reclaim, Stop
from gpuq.core.state.attempt import AttemptId, StopReason
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.device import HostId
from gpuq.core.state.events import BookingMade, CancelRequested, HostDrained, HostResumed, Submitted
from gpuq.core.state.job import JobId
from tests.support.nouns import a_device, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook

GPU = a_device("gpu0")
BIG = replace(a_device("cpu0", gib=8), cores=(0, 1))
SMALL = replace(a_device("cpu1", gib=4), cores=(2,))
BORROWER = AttemptId(JobId(1), 1)


def playing(lend_cores: int = 4, **wishes: Any) -> Playbook:
    """Job 1 runs on the only GPU and can use idle cores of two CPU devices."""
    play = Playbook(Limits())
    play.happen(a_report(GPU), Submitted(a_job(1, lend_cores=lend_cores, **wishes))).settle()
    play.happen(a_start(1), a_report(GPU, BIG, SMALL)).settle()
    return play


def lent(play: Playbook) -> tuple[int, ...]:
    return play.state.attempts[BORROWER].lent


def test_idle_cores_are_lent_to_a_job_that_can_use_them() -> None:
    assert lent(playing()) == (0, 1, 2)
    assert lent(playing(lend_cores=2)) == (0, 1)
    play = playing(lend_cores=0)
    assert lent(play) == ()
    assert not any(isinstance(action, Lend) for action in play.done)


def test_they_are_reclaimed_before_the_launch_on_their_device_and_lent_again_after_it() -> None:
    play = playing()
    play.happen(Submitted(a_job(2, submitted_at=play.now))).settle()
    places = [action for action in play.done if isinstance(action, Reclaim | Launch)][-2:]
    device = places[1].attempt.devices[0]
    assert places[0] == Reclaim(BORROWER, (0, 1) if device == "cpu0" else (2,))
    assert set(lent(play)).isdisjoint(play.state.devices[device].cores)
    play.happen(a_start(2), an_exit(2)).settle()
    assert sorted(lent(play)) == [0, 1, 2]


def test_a_drained_host_lends_nothing() -> None:
    play = playing()
    play.happen(HostDrained(HostId("host"), "ada", "repair")).settle()
    assert lent(play) == ()
    play.happen(HostResumed(HostId("host"), "ada")).settle()
    assert lent(play) == (0, 1, 2)


def test_one_that_is_cancelled_is_lent_nothing_more() -> None:
    play = playing(lend_cores=2)
    play.happen(CancelRequested(JobId(1), "ada")).settle()
    assert play.state.attempts[BORROWER].stopping is not None
    play.happen(an_exit(1)).settle()
    assert not play.state.attempts


def test_two_borrowers_never_have_the_same_core() -> None:
    play = Playbook(Limits())
    play.happen(a_report(GPU, a_device("gpu1")))
    play.happen(*(Submitted(a_job(number, lend_cores=2)) for number in (1, 2))).settle()
    play.happen(a_start(1), a_start(2), a_report(GPU, a_device("gpu1"), BIG, SMALL)).settle()
    assert sorted(core for attempt in play.state.attempts.values() for core in attempt.lent) == [0, 1, 2]


def test_one_that_this_pass_stops_is_lent_nothing() -> None:
    play = Playbook().happen(a_report(GPU), Submitted(a_job(1, lend_cores=4, preemptible=True))).settle()
    booking = Booking(BookingId(1), "ann", "ann", (GPU.id,), play.now, play.now + 1000)
    play.happen(a_start(1), a_report(GPU, BIG, SMALL), BookingMade(booking))
    assert play.decide() == [Stop(BORROWER, StopReason.PREEMPTED)]


def test_cores_of_a_device_that_its_host_reports_no_more_are_not_lent_while_a_job_runs_on_them_as_another_device() -> (
    None
):
    """The host's cores were divided otherwise: cpu1 has those of cpu0 now."""
    play = Playbook().happen(a_report(GPU, BIG), Submitted(a_job(1, lend_cores=4))).settle()
    play.happen(a_start(1)).settle()
    assert lent(play) == (0, 1)
    whole = replace(SMALL, cores=(0, 1, 2))
    play.happen(a_report(GPU, whole), Submitted(a_job(2, submitted_at=play.now))).settle()
    assert play.launched()[2] == "cpu1"
    play.happen(a_start(2)).settle()
    assert lent(play) == ()


def test_an_attempt_of_a_gang_that_this_pass_stops_is_lent_nothing() -> None:
    gpu, far = a_device("gpu0"), a_device("far0", host="far")
    play = Playbook().happen(a_report(gpu), a_report(far, host="far"))
    play.happen(Submitted(a_job(1, device_count=2, host_count=2, lend_cores=4))).settle()
    play.happen(a_start(1, 1), a_start(1, 2)).settle()
    (there,) = (one for one in play.state.attempts.values() if one.host == "far")
    play.happen(a_report(gpu, BIG), an_exit(1, code=1, attempt=there.id.number))
    (here,) = play.state.attempts
    assert play.decide() == [Stop(here, StopReason.GANG)]
