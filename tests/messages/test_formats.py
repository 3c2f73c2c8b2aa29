"""A record of the stored and sent formats, as an earlier gpuq wrote them: each is read, and written again with the same content.

The files in `golden/` are never regenerated. Old databases, spools and hosts that are upgraded later hold exactly such JSON, so a
type may be renamed or moved, and a field with a default added, but no key may change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gpuq_workers.attempts import EndFile, Marker, OrderFile, StartFile

from gpuq.adapters.redis.queue import argument_in
from gpuq.core.measuring.slowdown import Rate
from gpuq.core.state.events import Exited, HostReported, Started
from gpuq.core.state.job import JobId, KindId
from gpuq.daemon.outcome import outcome_of
from gpuq.messages import codec, live, wire
from gpuq.messages.outcome import outcome_from_json
from gpuq.messages.submission import Submission

GOLDEN = Path(__file__).parent / "golden"
KEY = "secret-order-key"
JOURNAL = json.loads((GOLDEN / "journal.json").read_bytes())


# Fields that were added to files since, with what they are in a file without them.
ADDED = {
    "order": {"umask": 0o022, "version": 1},
    "started": {"version": 1},
    "exit": {"version": 1},
    "spooled_marker": {"version": 1},
    "spool": {},
}


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_bytes())


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def holds(written: Any, expected: Any) -> bool:
    """Whether everything of `expected` is in `written` under the same keys; keys that were added since are allowed."""
    if isinstance(expected, dict):
        return isinstance(written, dict) and all(
            key in written and holds(written[key], expected[key]) for key in expected
        )
    if isinstance(expected, list):
        return len(written) == len(expected) and all(map(holds, written, expected))
    return bool(written == expected)


@pytest.mark.parametrize("entry", JOURNAL, ids=lambda entry: entry["name"])
def test_journal_entry_is_read_and_written_with_the_same_name_and_keys(entry: dict[str, Any]) -> None:
    item = codec.from_plain(entry["name"], entry["body"])
    name, body = codec.to_plain(item)
    assert name == entry["name"]
    # Actions had the number of the event that led to them, which nothing ever read; it is no longer written.
    assert holds(plain(body), {key: value for key, value in entry["body"].items() if key != "cause"})


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("order", OrderFile),
        ("started", StartFile),
        ("exit", EndFile),
        ("spooled_marker", Marker),
        ("spool", wire.Spooled),
    ],
)
def test_file_of_an_attempt_or_of_the_spool_is_read_and_written_with_the_same_keys(name: str, cls: type) -> None:
    read = msgspec.json.decode((GOLDEN / f"{name}.json").read_bytes(), type=cls)
    assert holds(plain(read), golden(name) | ADDED[name])


def test_a_submission_of_an_earlier_release_has_no_umask() -> None:
    earlier = msgspec.json.decode(b'{"command": ["true"], "cwd": "/"}', type=Submission)
    assert earlier.umask is None
    assert plain(msgspec.structs.replace(earlier, umask=0o027))["umask"] == 0o027


def test_a_usual_submission_is_stored_without_what_an_earlier_release_would_refuse() -> None:
    """Release 0.1.0 has no umask, and refuses fields that it does not have; `gpuq submit` always gives one."""
    stored = msgspec.json.decode(msgspec.json.encode(Submission(command=("true",), cwd="/", umask=0o022)))
    assert stored == {"command": ["true"], "cwd": "/"}
    assert Submission(command=("true",), cwd="/", umask=0o077).umask == 0o077


def test_inbox_messages_are_read_and_their_signatures_hold() -> None:
    ring, spooled, report, numbered = (wire.decode(json.dumps(message).encode()) for message in golden("inbox"))
    assert isinstance(ring, wire.WakeUp)
    assert isinstance(spooled, wire.Spooled)
    assert isinstance(report, wire.HostReport)
    assert wire.is_genuine(spooled, KEY)
    assert wire.is_genuine(report, KEY)
    assert isinstance(codec.from_plain(spooled.name, spooled.body), Started)
    host = codec.decoded(report.body, HostReported)
    assert [resident.attempt for resident in host.residents] == [(7, 1), (5, 2)]
    assert holds(plain(host), report.body)
    assert isinstance(numbered, wire.HostReport)
    assert wire.is_genuine(numbered, KEY)
    assert holds(plain(numbered), golden("inbox")[3])


def test_acknowledgement_is_read_its_signature_holds_and_it_is_written_as_before() -> None:
    found = wire.genuine((GOLDEN / "acknowledgement.json").read_bytes(), wire.Acknowledgement, "node1", KEY)
    assert found is not None
    assert plain(found) == golden("acknowledgement")


def test_rq_message_is_read_its_signature_holds_and_it_is_written_as_before() -> None:
    [argument] = golden("rq")[2]
    read = argument_in({b"data": json.dumps(golden("rq")).encode()})
    order = wire.verify(read, KEY, "node1")
    assert order == wire.Order("node1", 7, 1, 5, wire.Verb.LAUNCH)
    assert plain(wire.sign(order, KEY)) == argument


def test_live_view_is_read_and_written_with_the_same_keys() -> None:
    view = live.decode(json.dumps(golden("view")).encode())
    resident = view.resident(7)
    assert resident is not None
    assert resident.expected_slowdown == 1.2
    assert holds(json.loads(live.encode(view)), golden("view"))


def test_actual_is_read_and_written_with_the_same_keys() -> None:
    outcome = outcome_from_json((GOLDEN / "actual.json").read_text())
    assert outcome is not None
    assert holds(plain(outcome), golden("actual"))


def test_outcome_of_the_recorded_end_is_the_recorded_actual() -> None:
    [body] = [entry["body"] for entry in JOURNAL if entry["name"] == "Exited"]
    [reported] = [entry["body"] for entry in JOURNAL if entry["name"] == "HostReported"]
    end, host = codec.decoded(body, Exited), codec.decoded(reported, HostReported)
    kinds, kind_alone = {JobId(5): KindId("bert")}, Rate(9.0, 4, 0.2)
    outcome = outcome_of(end.measurement, host.devices[0], kinds, kind_alone, end.memory_cause)
    assert holds(plain(outcome), golden("actual"))
