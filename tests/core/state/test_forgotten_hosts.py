"""A host that is forgotten leaves nothing in the state, and a host with attempts is not."""

from __future__ import annotations

from gpuq.core.state.actions import Reserve
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import HostId
from gpuq.core.state.events import HostDrained, HostForgotten, Submitted
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.reservation import Reservation, ReservationReason
from gpuq.core.state.state import State, apply
from tests.support.nouns import a_device, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook

A, B = HostId("a"), HostId("b")
OF_A, OF_B = a_device("gpu-a", host="a"), a_device("gpu-b", host="b")


def forget(play: Playbook, host: HostId) -> bool:
    return apply(play.state, HostForgotten(host, "ann"), play.now)


def test_its_devices_readings_and_reservations_go_with_it() -> None:
    play = Playbook().happen(a_report(OF_A, host="a"), a_report(OF_B, host="b"), HostDrained(A, "ann", "old"))
    play.happen(Submitted(a_job(1)))
    held = Reservation(JobId(1), (OF_A.id,), ReservationReason.OVERDUE)
    assert apply(play.state, Reserve(held), play.now)

    play.happen(HostForgotten(A, "ann"))

    state = play.state
    assert [*state.devices, *state.readings] == [OF_B.id, OF_B.id]
    assert (list(state.hosts), state.drained, state.reservations) == ([B], {}, {})
    play.settle()
    assert state.jobs[JobId(1)].state is JobState.STARTING, "the other host runs the job"


def test_a_host_with_an_attempt_stays_until_that_has_ended() -> None:
    play = Playbook().happen(a_report(OF_A, host="a"), Submitted(a_job(1))).settle().happen(a_start(1))
    assert not forget(play, A)
    play.happen(an_exit(1, Ending.LOST, None))
    assert forget(play, A)
    assert not forget(play, A), "it is gone"


def test_what_the_state_does_not_have_cannot_be_forgotten() -> None:
    assert not apply(State(), HostForgotten(A, "ann"), 1.0)


def test_a_host_that_reports_again_is_there_again() -> None:
    play = Playbook().happen(a_report(OF_A, host="a"), HostForgotten(A, "ann"), a_report(OF_A, host="a"))
    play.happen(Submitted(a_job(1))).settle()
    assert play.state.jobs[JobId(1)].state is JobState.STARTING
