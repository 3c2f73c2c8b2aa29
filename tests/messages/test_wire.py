"""Messages: an order is followed only as it was signed, and only where it was meant."""

import msgspec
import pytest

from gpuq.messages import wire
from gpuq.messages.wire import (
    BadOrderError,
    HostReport,
    Order,
    Spooled,
    Verb,
    WakeUp,
    decode,
    encode,
    is_genuine,
    seal,
    sign,
    verify,
)

NUMBERED = HostReport("a", 3, {"b": 1}, first_seq=2, number=wire.ReportNumber("worker", 5, "dispatcher"))
ORDER = Order(host="a", job=7, attempt=2, ring=5, verb=Verb.LAUNCH)


def test_a_signed_order_arrives_as_it_was_sent():
    assert verify(sign(ORDER, "key"), "key", "a") == ORDER
    assert ORDER.rq_id == "launch-7-2-5"
    assert ORDER.attempt_id == (7, 2)


@pytest.mark.parametrize(
    "change", [{"host": "b"}, {"job": 8}, {"attempt": 3}, {"ring": 6}, {"verb": Verb.STOP}], ids=lambda c: next(iter(c))
)
def test_an_order_changed_on_its_way_is_refused(change):
    plain = sign(ORDER, "key")
    changed = msgspec.structs.replace(ORDER, **change)
    with pytest.raises(BadOrderError, match="signature"):
        verify({**plain, "order": msgspec.to_builtins(changed)}, "key", changed.host)


def test_another_key_another_host_and_another_shape_are_refused():
    with pytest.raises(BadOrderError, match="signature"):
        verify(sign(ORDER, "other"), "key", "a")
    with pytest.raises(BadOrderError, match="host a"):
        verify(sign(ORDER, "key"), "key", "b")
    odd_ones = (None, "x", [], {}, {"order": 3, "signature": "x"})
    for odd in (*odd_ones, {**sign(ORDER, "key"), "signature": 3}, {**sign(ORDER, "key"), "signature": "ü"}):
        with pytest.raises(BadOrderError):
            verify(odd, "key", "a")


@pytest.mark.parametrize(
    "message", [WakeUp(), Spooled("a", 1, "Started", {"x": 1}), HostReport("a", 0, {}), NUMBERED], ids=repr
)
def test_messages_survive_the_way(message):
    assert wire.decode(wire.encode(message)) == message


def nested(message: bytes) -> bytes:
    """The message with a value in it that is nested more deeply than JSON can be read."""
    return message.replace(b"{}", b'{"a":' * 20_000 + b"1" + b"}" * 20_000)


NOT_MESSAGES = [b"", b"{}", b'{"type": "other"}', b"\xff", b"[1]", nested(wire.encode(HostReport("a", 0, {})))]


@pytest.mark.parametrize("raw", NOT_MESSAGES, ids=lambda raw: repr(raw[:20]))
def test_what_is_no_message_is_a_value_error(raw):
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(raw)


@pytest.mark.parametrize(
    "raw", [b"", b'"\xff"', b'{"host":"\xff"}', nested(b'{"host":"a","more":{}}')], ids=lambda raw: repr(raw[:20])
)
def test_what_is_no_acknowledgement_and_no_mark_is_not_genuine(raw: bytes) -> None:
    assert wire.genuine(raw, wire.Acknowledgement, "a", "key") is None
    assert wire.HostKeys("key").genuine_mark(raw) is None


def test_an_acknowledgement_is_genuine_only_for_its_host_and_with_its_key():
    sealed = seal(wire.Acknowledgement("a", 3, "w", 7, "d"), "key")
    raw = encode(sealed)

    assert wire.genuine(raw, wire.Acknowledgement, "a", "key") == sealed
    assert wire.genuine(raw, wire.Acknowledgement, "b", "key") is None
    assert wire.genuine(raw, wire.Acknowledgement, "a", "other") is None
    changed = (
        raw.replace(b'"seq":3', b'"seq":4'),
        raw.replace(b'"number":7', b'"number":8'),
        b"3",
        b"",
        b"[]",
        b"\xff",
    )
    assert [wire.genuine(one, wire.Acknowledgement, "a", "key") for one in changed] == [None] * 6


@pytest.mark.parametrize("first_seq", [0, -1, 2**53, 2**70])
def test_a_number_that_the_record_cannot_store_is_refused(first_seq: int) -> None:
    with pytest.raises(ValueError, match="not a message"):
        decode(encode(msgspec.structs.replace(NUMBERED, first_seq=first_seq)))


def test_an_event_is_no_acknowledgement_and_an_acknowledgement_no_message():
    event = seal(Spooled("a", 3, "Exited", {}), "key")
    assert wire.genuine(encode(event), wire.Acknowledgement, "a", "key") is None
    with pytest.raises(ValueError, match="not a message"):
        decode(encode(wire.Acknowledgement("a", 3, "w", 7, "d")))


@pytest.mark.parametrize(
    "message", [Spooled("a", 1, "Exited", {"at": 1.25, "n": None}), HostReport("a", 3, {"b": [1.5]}), NUMBERED]
)
def test_a_sealed_message_is_genuine_after_its_way_and_any_change_shows(message: Spooled | HostReport) -> None:
    sealed = decode(encode(seal(message, "key")))

    assert isinstance(sealed, Spooled | HostReport)
    assert is_genuine(sealed, "key")
    assert not is_genuine(sealed, "another key")
    assert not is_genuine(message, "key")
    assert not is_genuine(msgspec.structs.replace(sealed, signature="ü"), "key")
    assert not is_genuine(msgspec.structs.replace(sealed, host="b"), "key")
    assert not is_genuine(msgspec.structs.replace(sealed, body={}), "key")
