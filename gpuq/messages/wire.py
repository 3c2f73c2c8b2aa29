"""What travels over Redis: signed orders to the hosts, signed events and reports back. Ids and measurements, never a command.

An order names a job and an attempt; the host reads the command from the record. Orders are signed, because otherwise write
access to Redis would be enough to start programs: RQ itself imports any function name that it finds in a message.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from typing import Any

import msgspec

from gpuq.core.state.attempt import AttemptId

INBOX = "gpuq:inbox"
INBOX_GROUP = "dispatcher"
WAITING = "gpuq:waiting"
VIEW = "gpuq:view"
TASK = "gpuq_workers.run_job.run"
# The name before the worker's package was renamed: orders that were on the way during the upgrade carry it.
FORMER_TASK = "workers.run_job.run"


def queue_name(host: str) -> str:
    """The one RQ queue of a host."""
    return f"gpuq-{host}"


def acknowledged_key(host: str) -> str:
    """The Redis key that holds the highest spool number of this host that is committed."""
    return f"gpuq:acknowledged:{host}"


class Verb(StrEnum):
    """What an order asks of a host. `preempt` ends the attempt after the job had time to save its work; `void` only keeps it from
    starting."""

    LAUNCH = "launch"
    PREEMPT = "preempt"
    STOP = "stop"
    VOID = "void"


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """An order to a host. `ring` tells repeated orders apart; the fenced start makes repeats harmless. `instance` is that of the
    worker service which is to follow it; None, and then not written, for any."""

    host: str
    job: int
    attempt: int
    ring: int
    verb: Verb
    instance: str | None = None

    @property
    def attempt_id(self) -> AttemptId:
        """The attempt that the order is about."""
        return AttemptId(self.job, self.attempt)  # type: ignore[arg-type]

    @property
    def rq_id(self) -> str:
        """The RQ job id of this order; letters, digits, `_` and `-` only."""
        return f"{self.verb}-{self.job}-{self.attempt}-{self.ring}"


class BadOrderError(Exception):
    """An order that this host does not follow: malformed, not signed with our key, or meant for another host."""


def sign(order: Order, key: str) -> dict[str, Any]:
    """The order and its HMAC-SHA256 (hex), as the one JSON argument of the RQ task."""
    return {"order": msgspec.to_builtins(order), "signature": _mac(order, key)}


def verify(plain: Any, key: str, host: str) -> Order:
    """The order, if it is sound, signed with `key` and meant for `host`. Raises BadOrderError."""
    match plain:
        case {"order": body, "signature": str(signature)}:
            pass
        case _:
            raise BadOrderError("not an order: it lacks an order or a signature")
    try:
        order = msgspec.convert(body, Order, strict=True)
    except msgspec.ValidationError as error:
        raise BadOrderError(f"not an order: {error}") from error
    if not _same(signature, _mac(order, key)):
        raise BadOrderError("the signature does not match")
    if order.host != host:
        raise BadOrderError(f"meant for host {order.host}")
    return order


def _mac(noun: msgspec.Struct, key: str) -> str:
    return hmac.new(key.encode(), msgspec.json.encode(noun), hashlib.sha256).hexdigest()


def _same(signature: str, expected: str) -> bool:
    # As bytes: compare_digest raises TypeError for text that is not ASCII, and a forged signature may be any text.
    return hmac.compare_digest(signature.encode(errors="replace"), expected.encode())


class WakeUp(msgspec.Struct, frozen=True, tag="ring"):
    """A wake-up for the dispatcher: there is a new request in the record."""


class Spooled(msgspec.Struct, frozen=True, tag="event"):
    """A worker event (`Started`, `Exited`) that must be committed exactly once; `seq` counts up per host from 1."""

    host: str
    seq: int
    name: str
    body: dict[str, Any]
    signature: str = ""


class HostReport(msgspec.Struct, frozen=True, tag="report"):
    """A `HostReported` body; may be lost. `last_seq` is the newest spool number the host has written (0: none)."""

    host: str
    last_seq: int
    body: dict[str, Any]
    signature: str = ""


Message = WakeUp | Spooled | HostReport
_decoder = msgspec.json.Decoder(Message)


def seal(message: Spooled | HostReport, key: str) -> Spooled | HostReport:
    """The host's message, signed: write access to Redis alone is not enough to end a job that runs."""
    return msgspec.structs.replace(message, signature=_mac(msgspec.structs.replace(message, signature=""), key))


def is_genuine(message: Spooled | HostReport, key: str) -> bool:
    """Whether the message was signed with `key`."""
    return _same(message.signature, _mac(msgspec.structs.replace(message, signature=""), key))


def encode(message: Message) -> bytes:
    """A message as JSON."""
    return msgspec.json.encode(message)


def decode(raw: bytes) -> Message:
    """The message in `raw`. Raises ValueError."""
    try:
        message: Message = _decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a message: {error}") from error
    return message
