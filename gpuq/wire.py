"""What travels over Redis: signed orders to the hosts, envelopes back. Ids and measurements only, never a command.

An order names a job and an attempt; the host looks the command up in the record. It is signed, because the JSON in
Redis would otherwise let whoever can write there start things: RQ itself imports any function name it finds.
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
    """Where the dispatcher says up to which spool number this host's events are committed."""
    return f"gpuq:acknowledged:{host}"


class Verb(StrEnum):
    """What an order asks of a host."""

    LAUNCH = "launch"
    PREEMPT = "preempt"
    STOP = "stop"
    VOID = "void"


class Order(msgspec.Struct, frozen=True):
    """One ring of the bell. `ring` counts how often this was sent; the fenced start makes repeats harmless."""

    host: str
    job: int
    attempt: int
    ring: int
    verb: Verb

    @property
    def attempt_id(self) -> AttemptId:
        """The attempt that the order is about."""
        return AttemptId(self.job, self.attempt)  # type: ignore[arg-type]

    @property
    def rq_id(self) -> str:
        """The RQ job id of this ring; letters, digits, `_` and `-` only."""
        return f"{self.verb}-{self.job}-{self.attempt}-{self.ring}"


class SignedOrder(msgspec.Struct, frozen=True):
    """An order and the HMAC-SHA256 over its JSON, hex."""

    order: Order
    signature: str


class BadOrderError(Exception):
    """An order that this host will not follow: malformed, not signed with our key, or meant for another host."""


def sign(order: Order, key: str) -> dict[str, Any]:
    """The order as the one JSON argument of the RQ task."""
    plain: dict[str, Any] = msgspec.to_builtins(SignedOrder(order, _mac(order, key)))
    return plain


def verify(plain: Any, key: str, host: str) -> Order:
    """The order, if it is sound, signed with `key` and meant for `host`. Raises BadOrderError."""
    try:
        signed = msgspec.convert(plain, SignedOrder, strict=True)
    except msgspec.ValidationError as error:
        raise BadOrderError(f"not an order: {error}") from error
    if not hmac.compare_digest(signed.signature, _mac(signed.order, key)):
        raise BadOrderError("the signature does not match")
    if signed.order.host != host:
        raise BadOrderError(f"meant for host {signed.order.host}")
    return signed.order


def _mac(noun: msgspec.Struct, key: str) -> str:
    return hmac.new(key.encode(), msgspec.json.encode(noun), hashlib.sha256).hexdigest()


class Ring(msgspec.Struct, frozen=True, tag="ring"):
    """Look at the record: somebody asked for something."""


class Spooled(msgspec.Struct, frozen=True, tag="event"):
    """A worker event (`Started`, `Exited`) that must be committed exactly once; `seq` counts up per host from 1."""

    host: str
    seq: int
    name: str
    body: dict[str, Any]
    signature: str = ""


class Report(msgspec.Struct, frozen=True, tag="report"):
    """A `HostReported` body; may be lost. `last_seq` is the newest spool number the host has written (0: none)."""

    host: str
    last_seq: int
    body: dict[str, Any]
    signature: str = ""


Message = Ring | Spooled | Report
_decoder = msgspec.json.Decoder(Message)


def seal(message: Spooled | Report, key: str) -> Spooled | Report:
    """The host's message, signed: whoever can merely write to Redis cannot end a job that runs."""
    return msgspec.structs.replace(message, signature=_mac(msgspec.structs.replace(message, signature=""), key))


def is_genuine(message: Spooled | Report, key: str) -> bool:
    """Whether the message was sealed with `key`."""
    return hmac.compare_digest(message.signature, _mac(msgspec.structs.replace(message, signature=""), key))


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
