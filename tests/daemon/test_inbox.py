"""What the dispatcher takes from hosts: signed by the host, new, and each once; and how it answers."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from gpuq.adapters.store.row_types import Selection
from gpuq.core.state.dependency import Dependency
from gpuq.core.state.device import HostId
from gpuq.core.state.events import HostReported
from gpuq.core.state.job import JobId, JobState
from gpuq.daemon.inbox import EventInbox, ended_among
from gpuq.home import host_key
from gpuq.messages import wire
from gpuq.messages.codec import plain, to_plain
from tests.daemon.harness import Harness
from tests.support.memory_store import MemoryStore
from tests.support.nouns import a_start, an_exit

MASTER = "the dispatcher's key"


class Sender:
    """A worker service as the dispatcher meets it."""

    def __init__(self, inbox: EventInbox, host: str = "a", worker: str = "first", key: str | None = None) -> None:
        self.inbox, self.host, self.worker = inbox, host, worker
        self.key = key or host_key(MASTER, host)

    def answer(self) -> wire.Acknowledgement:
        """The acknowledgement that is due."""
        found = wire.genuine(self.inbox.acknowledgements(1)[self.host], wire.Acknowledgement, self.host, self.key)
        assert found is not None
        return found

    def report(self, number: int, dispatcher: str, **fields: Any) -> wire.HostReport:
        body = plain(HostReported(HostId(self.host), "boot-1", 0.0, (), (), ()))
        numbered = wire.ReportNumber(self.worker, number, dispatcher)
        return wire.seal(wire.HostReport(self.host, 0, body, number=numbered, **fields), self.key)

    def event(self, seq: int, job: int = 1) -> wire.Spooled:
        return wire.seal(wire.Spooled(self.host, seq, *to_plain(a_start(job))), self.key)

    def counts(self, *messages: wire.Spooled | wire.HostReport) -> list[bool]:
        """Whether each of these messages is taken."""
        return [bool(self.inbox.worker_events([(message, 0.0)])) for message in messages]


@pytest.fixture
def inbox() -> EventInbox:
    return EventInbox({"a": 3}, wire.HostKeys(MASTER))


def test_known_hosts_learn_the_name_of_the_dispatcher_before_they_report(inbox: EventInbox) -> None:
    answer = Sender(inbox).answer()

    assert (answer.seq, answer.worker, answer.number) == (3, "", 0)
    assert inbox.acknowledgements(1) == {}
    assert Sender(inbox).counts(Sender(inbox).report(1, answer.dispatcher)) == [True]


def test_a_report_counts_once_and_an_older_one_never(inbox: EventInbox) -> None:
    sender = Sender(inbox)
    name = sender.answer().dispatcher
    reports = [sender.report(number, name) for number in (1, 2, 3)]

    assert sender.counts(reports[1], reports[1], reports[0], reports[2]) == [True, False, False, True]
    answer = sender.answer()
    assert (answer.seq, answer.worker, answer.number, answer.dispatcher) == (3, "first", 3, name)


def test_a_restarted_worker_service_goes_on_from_the_number_in_the_acknowledgement(inbox: EventInbox) -> None:
    first, second = Sender(inbox), Sender(inbox, worker="second")
    old = first.report(1, first.answer().dispatcher)
    assert first.counts(old) == [True]
    answer = first.answer()

    assert second.counts(second.report(answer.number + 1, answer.dispatcher), old) == [True, False]
    answer = second.answer()
    assert (answer.worker, answer.number) == ("second", 2)


def test_reports_from_before_a_restart_of_the_dispatcher_do_not_count(inbox: EventInbox) -> None:
    name = Sender(inbox).answer().dispatcher
    before = [Sender(inbox).report(number, name) for number in (1, 2)]
    after = EventInbox({"a": 3}, wire.HostKeys(MASTER))
    sender = Sender(after)

    assert sender.counts(*before, sender.report(1, "")) == [False] * 3
    assert sender.counts(sender.report(3, sender.answer().dispatcher)) == [True]


def test_a_start_or_end_counts_if_it_is_the_next_of_its_host(inbox: EventInbox) -> None:
    sender = Sender(inbox)

    assert sender.counts(sender.event(5), sender.event(4), sender.event(4), sender.event(5)) == [
        False,
        True,
        False,
        True,
    ]
    assert sender.answer().seq == 5


def test_a_host_that_lost_events_goes_on_with_the_next_that_it_has(
    inbox: EventInbox, caplog: pytest.LogCaptureFixture
) -> None:
    sender = Sender(inbox)
    name = sender.answer().dispatcher
    assert sender.counts(sender.event(6), sender.report(1, name, first_seq=4), sender.event(6)) == [False, True, False]

    assert sender.counts(sender.report(2, name, first_seq=6), sender.event(6)) == [True, True]

    assert sender.answer().seq == 6
    assert "2 events of host a were lost there" in caplog.text


def test_an_old_report_makes_nothing_skip(inbox: EventInbox) -> None:
    sender = Sender(inbox)
    name = sender.answer().dispatcher
    assert sender.counts(sender.report(2, name), sender.report(1, name, first_seq=50)) == [True, False]

    assert sender.answer().seq == 3


def test_what_cannot_be_read_is_counted_as_taken_and_logged(
    inbox: EventInbox, caplog: pytest.LogCaptureFixture
) -> None:
    sender = Sender(inbox)
    unknown = wire.seal(wire.Spooled("a", 4, "Surprise", {}), sender.key)
    not_of_hosts = wire.seal(wire.Spooled("a", 5, "CancelRequested", {"job": 1, "by": "a"}), sender.key)

    assert sender.counts(unknown, not_of_hosts, sender.event(6)) == [False, False, True]
    assert caplog.text.count("worker event dropped") == 2


def test_why_a_report_was_dropped_is_kept_until_one_is_taken(inbox: EventInbox) -> None:
    sender = Sender(inbox)
    name = sender.answer().dispatcher
    bad = msgspec.structs.replace(sender.report(1, name), body={"boot_id": 2**70})
    assert sender.counts(wire.seal(bad, sender.key)) == [False]
    assert "boot_id" in inbox.unread["a"]
    assert sender.counts(sender.report(2, name)) == [True]
    assert inbox.unread == {}


# --- signatures ------------------------------------------------------------------------------------------------------


def test_each_host_signs_with_its_own_key(inbox: EventInbox) -> None:
    own, other = Sender(inbox), Sender(inbox, key=host_key(MASTER, "b"))

    assert own.counts(other.event(4), own.event(4)) == [False, True]


def test_refusals_are_logged_once_a_minute_for_each_sender(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    inbox = EventInbox({}, wire.HostKeys(MASTER), monotonic=lambda: now)
    for second in range(150):
        now = float(second)
        for name in ("a", "b"):
            inbox.refused(name, f"host {name} reported attempt {second}")
        forged = Sender(inbox, host=f"host{second}", key="another key")
        assert forged.counts(forged.event(1)) == [False]

    logged = [(record.host, record.getMessage()) for record in caplog.records]  # type: ignore[attr-defined]
    assert [host for host, _ in logged] == ["a", "b", "unknown"] * 3
    assert logged[3][1] == "refused: host a reported attempt 60 (59 more since the last line like this)"
    assert inbox.taken == {}, "a forged name leaves nothing behind"
    assert inbox.acknowledgements(1) == {}


# --- the previous release --------------------------------------------------------------------------------------------


def test_a_host_of_the_previous_release_is_served_until_it_signs_with_its_own_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    keys = wire.HostKeys(MASTER)
    inbox = EventInbox({"a": 3}, keys)
    inbox.acknowledgements(1)
    former, upgraded = Sender(inbox, key=MASTER), Sender(inbox)
    unnumbered = former.report(1, "")
    unnumbered = wire.seal(
        msgspec.structs.replace(unnumbered, number=msgspec.UNSET, first_seq=msgspec.UNSET, signature=""), MASTER
    )

    assert former.counts(unnumbered, unnumbered, former.event(4)) == [True, True, True]
    assert keys.of("a") == MASTER, "it follows no other orders"
    assert inbox.acknowledgements(1) == {"a": b"4"}

    assert upgraded.counts(upgraded.event(5)) == [True]
    assert keys.of("a") == host_key(MASTER, "a")
    assert upgraded.answer().seq == 5
    assert former.counts(unnumbered, former.event(6)) == [False, False], "so its old messages cannot be replayed"


def test_an_end_of_a_host_reaches_the_dispatcher_with_its_sender_and_time(inbox: EventInbox) -> None:
    sender = Sender(inbox)
    end = wire.seal(wire.Spooled("a", 4, *to_plain(an_exit(1))), sender.key)

    [received] = inbox.worker_events([(end, 7.5)])

    assert (received.sender, received.event, received.at) == ("a", an_exit(1), 7.5)


def test_who_is_to_stand_still_is_said_again_and_again_with_what_was_acknowledged_last(inbox: EventInbox) -> None:
    def sent(held: dict[str, tuple[wire.HeldAttempt, ...]]) -> wire.Acknowledgement | None:
        raw = inbox.with_pauses(held, {}).get("a")
        return None if raw is None else wire.genuine(raw, wire.Acknowledgement, "a", host_key(MASTER, "a"))

    held = (wire.HeldAttempt(1, 1, 2, 1),)
    assert sent({"a": held}) is None, "it has no acknowledgement yet"
    before = Sender(inbox).answer()
    inbox.taken["a"] = 9  # not committed yet
    first, second = sent({"a": held}), sent({"a": held})
    assert first is not None
    assert second is not None
    assert first.pauses == wire.Pauses(2, held)
    assert second.pauses == wire.Pauses(3, held)
    assert (first.seq, first.number, first.dispatcher) == (before.seq, before.number, before.dispatcher)
    over = sent({})
    assert over is not None
    assert over.pauses == wire.Pauses(4, ())
    assert sent({}) is None


def test_an_acknowledgement_repeats_what_was_said_of_pauses_and_loans(inbox: EventInbox) -> None:
    """It replaces a message that the host may not have read: cores that were reclaimed stayed with their borrower."""
    sender, held, lent = Sender(inbox), (wire.HeldAttempt(1, 1, 2, 1),), (wire.LentCores(3, 1, (0, 1)),)
    sender.answer()
    for now_held, now_lent in (({"a": held}, {"a": lent}), ({}, {})):
        raw = inbox.with_pauses(now_held, now_lent)["a"]
        said = wire.genuine(raw, wire.Acknowledgement, "a", sender.key)
        assert said is not None
        sender.counts(sender.event(inbox.taken["a"] + 1))
        answer = sender.answer()
        assert (answer.pauses, answer.loans) == (said.pauses, said.loans)
    assert inbox.with_pauses({}, {}) == {}
    assert sender.counts(sender.event(inbox.taken["a"] + 1)) == [True]
    assert sender.answer().loans == answer.loans, "the end of the loan, until it lends again"


def test_what_the_tasks_of_an_array_wait_for_each_is_looked_up_in_one_range() -> None:
    asked: list[object] = []

    class Store(MemoryStore):
        def select(self, selection: Selection) -> dict[JobId, JobState]:
            asked.append(selection.ids)
            return super().select(selection)

    texts = ["ok:7", "ok:5", "any:6", "ok:12-14", "any:13", "start:15", "ok:30"]
    assert ended_among(Store(), [Dependency.parse(text) for text in texts]) == {}
    assert asked == [((5, 7), (12, 15), (30, 30))]


async def test_a_request_that_cannot_be_read_is_dropped_and_those_behind_it_are_followed(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as one that the endpoint of a later release wrote. An error would end each dispatcher that reads it."""
    job = harness.submit()
    for verb, body in (("edit", {"edit": {"reset": ["colour"]}}), ("edit", {}), ("cancel", {})):
        harness.store.add_request(verb, job, "ada", harness.wall, body)
    harness.store.add_request("quota", None, "root", harness.wall, {"quota": {"account": ["group", "ada"]}})
    await harness.turn()
    assert harness.states() == {job: "CANCELLED"}
    assert harness.store.requests(10) == []
    assert [getattr(line, "action", None) for line in caplog.records] == ["drop_request"] * 3
