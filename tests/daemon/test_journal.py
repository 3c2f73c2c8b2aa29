"""Reservations in the journal: replayed, restored after a restart, and absent from the journals of earlier versions."""

from __future__ import annotations

import pytest

from gpuq.adapters.store.row_types import Commit, Entry
from gpuq.core.state.actions import (
    EndReservation,
    Launch,
    LeaveUnpaused,
    Pause,
    Reserve,
    Resume,
    SetPendingReason,
)
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.job import JobId, KindId
from gpuq.core.state.reservation import Reservation, ReservationReason
from gpuq.core.state.state import State
from gpuq.daemon import journal, loop
from gpuq.daemon.journal import from_snapshot, jobs_of, replay, snapshot
from gpuq.daemon.restore import restore
from gpuq.messages.codec import from_plain, to_plain
from tests.daemon.harness import Harness
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook
from tests.support.world import World


def reserved() -> State:
    state = State()
    for item in (a_report(a_device()), Submitted(a_job(1)), Reserve(Reservation(JobId(1), (DeviceId("gpu0"),)))):
        apply(state, item, 0.0)
    return state


def test_a_snapshot_holds_the_reservations() -> None:
    state = reserved()
    assert from_snapshot(snapshot(state)).reservations == state.reservations != {}


def test_a_snapshot_of_an_earlier_version_has_none() -> None:
    body = snapshot(reserved())
    del body["reservations"]
    assert from_snapshot(body).reservations == {}
    assert JobId(1) in from_snapshot(body).jobs


def test_a_reservation_goes_through_the_journal_and_names_its_job() -> None:
    reserve = Reserve(Reservation(JobId(7), (DeviceId("gpu0"),), ReservationReason.PREEMPTION))
    assert to_plain(reserve)[0] == "Reserve"
    for action in (reserve, EndReservation(JobId(7))):
        assert from_plain(*to_plain(action)) == action
        assert jobs_of(action) == (7,)


def test_actions_of_earlier_versions_with_a_cause_are_still_read() -> None:
    play = Playbook().forecast("kind", a_forecast(80, 4)).happen(a_report(a_device()))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2))).settle()
    assert {type(action) for action in play.done} == {Launch, SetPendingReason}
    for action in play.done:
        name, body = to_plain(action)
        assert from_plain(name, {**body, "cause": 17}) == action


async def test_a_restarted_dispatcher_has_the_reservations_of_the_one_before(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"))
    first, second = harness.submit(), harness.submit("other.py")
    await harness.live(world, 3)
    assert harness.states() == {first: "RUNNING", second: "PENDING"}
    await harness.live(world, 2, seconds=3600.0)
    reservation = {second: Reservation(second, (DeviceId("gpu0"),), ReservationReason.OVERDUE)}
    assert harness.dispatcher.state.reservations == reservation
    assert replay(harness.journal()).reservations == reservation

    harness.start()
    assert harness.dispatcher.state.reservations == reservation, "from the journal's Reserve"
    await harness.live(world, 1)
    harness.start()
    assert harness.dispatcher.state.reservations == reservation, "from the journal's Restored"

    await harness.live(world, 1)
    apply(harness.dispatcher.state, CancelRequested(second, "ada"), harness.now)
    assert harness.dispatcher.state.reservations == {}


async def test_a_reservation_that_ended_is_not_restored(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"))
    first, second = harness.submit(), harness.submit("other.py")
    await harness.live(world, 3)
    await harness.live(world, 2, seconds=3600.0)
    assert second in harness.dispatcher.state.reservations
    harness.store.add_request("hold", second, "ada", harness.now, {})
    await harness.live(world, 1)
    harness.store.add_request("release", second, "ada", harness.now, {})
    await harness.live(world, 1, seconds=0.0)
    expected = harness.dispatcher.state.reservations
    assert restore(harness.store, harness.now).reservations == expected
    assert harness.states()[first] == "RUNNING"


async def test_the_journal_of_a_dispatcher_that_runs_on_is_shortened_and_can_still_be_replayed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_STATE_EVERY", 20)
    monkeypatch.setattr(loop, "KEPT_ENTRIES", 40)
    monkeypatch.setattr(loop, "_PRUNE_EVERY", 10)
    world = World(harness.store, a_device("gpu0"))
    for number in range(60):
        harness.submit(f"{number}.py")
        await harness.live(world, 1)
        assert len(harness.journal()) <= 40 + 10 + 20
    assert harness.journal()[0].seq > 100
    replayed, state = replay(harness.journal()), harness.dispatcher.state
    assert (replayed.jobs, replayed.verdicts) == (state.jobs, state.verdicts)
    assert replayed.attempts.keys() == state.attempts.keys()


async def test_kinds_that_are_not_paused_are_known_after_any_number_of_entries(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"))
    harness.submit()
    await harness.live(world, 2)
    harness.dispatcher._apply(LeaveUnpaused(KindId("train.py")), harness.now)
    await harness.live(world, 1)
    first = harness.store.last_seq() + 1
    later = [Entry(seq=seq, at=0.0, name="Woke", body={}) for seq in range(first, first + 30_000)]
    harness.lease.commit(Commit(entries=later))
    assert restore(harness.store, harness.now).unpausable.keys() == {KindId("train.py")}


def test_pauses_go_through_the_journal() -> None:
    one, other = AttemptId(JobId(7), 1), AttemptId(JobId(8), 2)
    for action, jobs in ((Pause(one, other), (7,)), (Resume(one), (7,)), (LeaveUnpaused(KindId("train.py")), ())):
        assert from_plain(*to_plain(action)) == action
        assert jobs_of(action) == jobs


def test_a_snapshot_holds_who_stands_still_and_which_kinds_never_do() -> None:
    state = State(unpausable={KindId("train.py"): 5.0})
    assert from_snapshot(snapshot(state)).unpausable == {KindId("train.py"): 5.0}
    play = Playbook().forecast("kind", a_forecast(20, 4)).happen(a_report(a_device()))
    for job in (1, 2):
        play.happen(Submitted(a_job(job))).settle()
    apply(play.state, Pause(AttemptId(JobId(1), 1), AttemptId(JobId(2), 1)), play.now)
    assert play.state.attempts[AttemptId(JobId(1), 1)].paused_for is not None
    assert from_snapshot(snapshot(play.state)).attempts == play.state.attempts
