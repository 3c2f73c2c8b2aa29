"""What a host says of other hosts is left out, and what it says of itself is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.state import sender
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.events import Submitted
from gpuq.core.state.sender import KEEPS_DEVICES_S, HostEvent, own_part
from gpuq.core.state.state import State
from tests.support.nouns import a_device, a_job, a_reading, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

A, B = HostId("a"), HostId("b")
OF_A, OF_B = a_device("gpu-a", host="a"), a_device("gpu-b", host="b")


@pytest.fixture
def play() -> Playbook:
    """Job 1 runs on host a, which has one device, as host b has."""
    play = Playbook().happen(a_report(OF_A, host="a"), Submitted(a_job(1))).settle()
    return play.happen(a_start(1), a_report(OF_B, host="b"))


def refused(play: Playbook, event: HostEvent, after: float = 0.0) -> tuple[HostEvent | None, list[str]]:
    return own_part(play.state, B, event, now=play.now + after, listening_since=0.0)


@pytest.mark.parametrize("event", [a_start(1), an_exit(1)], ids=["start", "end"])
def test_only_its_host_starts_and_ends_an_attempt(play: Playbook, event: HostEvent) -> None:
    assert refused(play, event) == (None, ["attempt 1-1"])
    assert own_part(play.state, A, event, now=play.now, listening_since=0.0) == (event, [])


def test_an_attempt_that_is_not_in_the_state_is_left_to_apply(play: Playbook) -> None:
    assert refused(play, an_exit(7)) == (an_exit(7), [])


def test_a_report_in_the_name_of_another_host_is_refused(play: Playbook) -> None:
    assert refused(play, a_report(OF_A, host="a")) == (None, ["a report of host a"])


def test_a_report_keeps_what_is_the_senders_own(play: Playbook) -> None:
    own = a_report(OF_B, residents=(a_resident(9),), host="b")
    assert refused(play, own) == (own, [])

    reading = (DeviceId("gpu-a"), a_reading())
    more = replace(
        own,
        devices=(OF_B, replace(OF_A, host=B)),
        readings=(*own.readings, reading),
        residents=(a_resident(1), a_resident(9)),
    )
    assert refused(play, more) == (own, ["device gpu-a", "attempt 1-1"])


def test_a_host_has_so_many_devices_at_most(play: Playbook, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few each report has. Those that it has already stay its own."""
    monkeypatch.setattr(sender, "MOST_DEVICES", 3)
    new = [a_device(f"new{number}", host="b") for number in range(4)]
    whole = a_report(*new, host="b")
    event, left_out = refused(play, whole)
    assert event is not None
    assert left_out == ["device new2", "device new3"]
    play.happen(event)
    assert refused(play, a_report(OF_B, *new[:2], host="b"))[1] == []
    assert refused(play, a_report(new[3], host="b"))[1] == ["device new3"]


def test_a_reading_of_a_device_that_the_report_does_not_name_is_left_out(play: Playbook) -> None:
    own = a_report(OF_B, host="b")
    sent = replace(own, readings=(*own.readings, (DeviceId("gpu-a"), a_reading())))

    assert refused(play, sent) == (own, ["device gpu-a"])


def test_a_device_said_to_be_of_another_host_is_left_out(play: Playbook) -> None:
    sent = a_report(a_device("new", host="c"), host="b")

    assert refused(play, sent) == (a_report(host="b"), ["device new"])


# --- devices that move -----------------------------------------------------------------------------------------------


def test_a_device_goes_to_another_host_once_its_own_is_silent_and_nothing_runs_on_it(play: Playbook) -> None:
    moved = a_report(replace(OF_A, host=B), host="b")
    silent = KEEPS_DEVICES_S + 1
    assert refused(play, moved, after=silent)[1] == ["device gpu-a"], "job 1 may still run there"

    play.happen(an_exit(1))
    assert refused(play, moved, after=KEEPS_DEVICES_S)[1] == ["device gpu-a"]
    assert refused(play, moved, after=silent) == (moved, [])
    play.happen(moved, after=silent)
    assert play.state.devices[DeviceId("gpu-a")].host == B


def test_after_a_restart_a_host_has_time_to_report_before_it_counts_as_silent() -> None:
    state = State(devices={OF_A.id: OF_A})
    moved = a_report(replace(OF_A, host=B), host="b")

    soon = own_part(state, B, moved, now=1000.0 + KEEPS_DEVICES_S, listening_since=1000.0)
    later = own_part(state, B, moved, now=1001.0 + KEEPS_DEVICES_S, listening_since=1000.0)

    assert (soon[1], later[1]) == (["device gpu-a"], [])
