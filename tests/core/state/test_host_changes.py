"""What the reports of hosts change, and what is left of one that is forgotten."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.state.actions import Reserve
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import HostId
from gpuq.core.state.events import HostDrained, HostForgotten, Submitted
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.reservation import Reservation, ReservationReason
from gpuq.core.state.state import State
from tests.support.nouns import GIB, a_device, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook, one_running

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


def test_a_report_without_a_device_takes_its_reading_away() -> None:
    play = Playbook().happen(a_report(a_device("gpu0"), a_device("gpu1")))

    play.happen(a_report(a_device("gpu0")))

    assert set(play.state.readings) == {"gpu0"}
    assert set(play.state.devices) == {"gpu0", "gpu1"}


def test_a_device_is_no_smaller_than_what_its_residents_were_promised_while_they_run() -> None:
    play = one_running()
    (attempt,) = play.state.attempts.values()
    (device,) = attempt.devices
    small = replace(play.state.devices[device], total_memory=GIB)
    play.happen(a_report(small))
    assert play.state.devices[device].total_memory == play.state.promised_on(device) == attempt.promised[0] > GIB

    play.happen(an_exit(1), a_report(small))
    assert play.state.devices[device].total_memory == GIB


def test_a_host_reports_its_own_attempts_only() -> None:
    play = Playbook().happen(a_report(OF_A, host="a"), Submitted(a_job(1))).settle().happen(a_start(1))
    before = dict(play.state.attempts)

    play.happen(a_report(OF_B, host="b", residents=(a_resident(1, gib=20),)), after=5)
    assert play.state.attempts == before
    play.happen(a_report(OF_A, host="a", residents=(a_resident(1, gib=20),)))
    assert [attempt.live_memory for attempt in play.state.attempts.values()] == [20 * GIB]
