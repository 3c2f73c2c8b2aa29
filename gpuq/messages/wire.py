"""What travels over Redis: signed orders and acknowledgements to the hosts, signed events and reports back. Ids and measurements,
never a command.

An order names a job and an attempt; the host reads the command from the record. Orders are signed, because otherwise write
access to Redis would be enough to start programs: RQ itself imports any function name that it finds in a message.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec

from gpuq.core.state.attempt import AttemptId
from gpuq.home import host_key
from gpuq.messages.launch import NOT_JSON, ChannelName, SignedCredential

INBOX = "gpuq:inbox"
INBOX_GROUP = "dispatcher"
WAITING = "gpuq:waiting-ids"
"""One string of ids with commas: a list of ten thousand values would take a reader 30 ms."""
FORMER_WAITING = "gpuq:waiting"
"""Where the previous release has them, as a list."""
VIEW = "gpuq:view"
COMMITTED = "gpuq:committed"
WRITTEN = "gpuq:written"
TASK = "gpuq_workers.run_job.run"
# The name before the worker's package was renamed: orders that were on the way during the upgrade carry it.
FORMER_TASK = "workers.run_job.run"
LARGEST_MESSAGE_BYTES = 2**20
# The record has 64 bits for the number of an event; a host that sends a larger one must not make a commit fail.
_NUMBERS_END = 2**53
_Number = Annotated[int, msgspec.Meta(ge=0, lt=_NUMBERS_END)]
LARGEST_LOG_PART = 256 * 1024
"""The most bytes of a log that one request may ask for."""


def queue_name(host: str) -> str:
    """The one RQ queue of a host."""
    return f"gpuq-{host}"


def acknowledged_key(host: str) -> str:
    """The Redis key of the latest acknowledgement to this host."""
    return f"gpuq:acknowledged:{host}"


def log_requests_key(host: str) -> str:
    """The Redis list of what the API asks of this host: logs, and connections to its interactive jobs."""
    return f"gpuq:log-requests:{host}"


def log_answer_key(request: str) -> str:
    """The Redis list on which the request with this id is answered."""
    return f"gpuq:log-answer:{request}"


class Verb(StrEnum):
    """What an order asks of a host. `preempt` ends the attempt after the job had time to save its work; `void` only keeps it from
    starting."""

    LAUNCH = "launch"
    PREEMPT = "preempt"
    STOP = "stop"
    VOID = "void"


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """An order to a host. `ring` tells repeated orders apart; the fenced start makes repeats harmless. `instance` is that of the
    worker service which is to follow it; None, and then not written, for any. `epoch` is the one in which the dispatcher leads;
    0, and then not written, for a host of the previous release. `credential` lets a launch run as its submitter."""

    host: str
    job: int
    attempt: int
    ring: int
    verb: Verb
    instance: str | None = None
    epoch: _Number = 0
    credential: SignedCredential | None = None

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


class ReportNumber(msgspec.Struct, frozen=True):
    """Which report of its host this is, so that none counts twice.

    `worker` and `dispatcher` are random names of processes: the worker service that sends the report, and the dispatcher whose
    acknowledgement it read last ("" before the first). `number` counts up, from the number in that acknowledgement.
    """

    worker: str
    number: int
    dispatcher: str


class HostReport(msgspec.Struct, frozen=True, tag="report"):
    """A `HostReported` body; may be lost.

    `last_seq` is the newest spool number the host has written (0: none), `first_seq` the oldest that it still has, `last_seq` + 1
    if it has none, `committed` the newest that was acknowledged to it; `epoch` is the highest of a dispatcher that it has seen.
    Reports of the previous release have neither these nor `number`; UNSET keeps their signature valid.
    """

    host: str
    last_seq: int
    body: dict[str, Any]
    signature: str = ""
    first_seq: Annotated[int, msgspec.Meta(ge=1, lt=_NUMBERS_END)] | msgspec.UnsetType = msgspec.UNSET
    number: ReportNumber | msgspec.UnsetType = msgspec.UNSET
    epoch: _Number | msgspec.UnsetType = msgspec.UNSET
    committed: _Number | msgspec.UnsetType = msgspec.UNSET


class LogRequest(msgspec.Struct, frozen=True, tag="log request"):
    """Asks a host for bytes of an attempt's log. `id` is random and used once; `offset` and `limit` are as in `job_log.read`."""

    host: str
    id: str
    job: int
    attempt: int
    offset: int
    limit: int
    signature: str = ""


class ChannelRequest(msgspec.Struct, frozen=True, tag="channel request"):
    """Asks a host for a connection to a socket of an attempt, or for its files; `gpuq.adapters.handover` takes it under `id`,
    which is random."""

    host: str
    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    job: int
    attempt: int
    name: ChannelName
    signature: str = ""


class LogAnswer(msgspec.Struct, frozen=True, tag="log answer"):
    """What the host has at that place: the fields of a `job_log.Chunk`. `data` is None if it has no such log."""

    host: str
    id: str
    data: bytes | None
    next_offset: int = 0
    dropped: int = 0
    signature: str = ""


Message = WakeUp | Spooled | HostReport
_decoder = msgspec.json.Decoder(Message)


class HeldAttempt(msgspec.Struct, frozen=True, array_like=True):
    """An attempt that stands still while another one runs on the same host."""

    job: int
    attempt: int
    for_job: int
    for_attempt: int

    @property
    def held(self) -> AttemptId:
        """The one that stands still."""
        return AttemptId(self.job, self.attempt)  # type: ignore[arg-type]

    @property
    def runs(self) -> AttemptId:
        """The one that runs meanwhile."""
        return AttemptId(self.for_job, self.for_attempt)  # type: ignore[arg-type]


class Pauses(msgspec.Struct, frozen=True):
    """The attempts of a host that are to stand still. `beat` counts up: a host that sees no higher one for a while lets them go
    on."""

    beat: int
    held: tuple[HeldAttempt, ...]


class LentCores(msgspec.Struct, frozen=True):
    """Cores of a host that an attempt may use besides its devices."""

    job: int
    attempt: int
    cores: tuple[int, ...]

    @property
    def borrower(self) -> AttemptId:
        """The attempt."""
        return AttemptId(self.job, self.attempt)  # type: ignore[arg-type]


class Loans(msgspec.Struct, frozen=True):
    """All cores of a host that are lent. `beat` counts up: a host that sees no higher one for a while takes them back."""

    beat: int
    lent: tuple[LentCores, ...]


class Acknowledgement(msgspec.Struct, frozen=True, tag="acknowledgement"):
    """From the dispatcher to a host: its events up to number `seq` are committed.

    `worker` and `number` are those of the host's latest report ("" and 0 before the first), so a host recognises one that was
    replayed: it answers another process, or an earlier report. `dispatcher` is to be repeated in the next report. `epoch` is the
    one in which the dispatcher leads. `pauses` and `loans`: sent again and again while there are any.
    """

    host: str
    seq: int
    worker: str
    number: int
    dispatcher: str
    signature: str = ""
    epoch: _Number | msgspec.UnsetType = msgspec.UNSET
    pauses: Pauses | msgspec.UnsetType = msgspec.UNSET
    loans: Loans | msgspec.UnsetType = msgspec.UNSET


class CommitMark(msgspec.Struct, frozen=True, tag="mark"):
    """The newest journal number and the newest job that the record had after a commit in this epoch."""

    epoch: int
    seq: int
    last_job: int
    signature: str = ""


Addressed = TypeVar("Addressed", Spooled, HostReport, Acknowledgement, LogRequest, ChannelRequest, LogAnswer)
Signed = TypeVar("Signed", Spooled, HostReport, Acknowledgement, LogRequest, ChannelRequest, LogAnswer, CommitMark)


def seal(message: Signed, key: str) -> Signed:
    """The message, signed: write access to Redis alone is not enough to end a job, or to lose the news of its end."""
    return msgspec.structs.replace(message, signature=_mac(msgspec.structs.replace(message, signature=""), key))


def is_genuine(
    message: Spooled | HostReport | Acknowledgement | LogRequest | ChannelRequest | LogAnswer | CommitMark, key: str
) -> bool:
    """Whether the message was signed with `key`."""
    return _same(message.signature, _mac(msgspec.structs.replace(message, signature=""), key))


def encode(message: Message | Acknowledgement | LogRequest | ChannelRequest | LogAnswer | CommitMark) -> bytes:
    """A message as JSON."""
    return msgspec.json.encode(message)


def decode(raw: bytes) -> Message:
    """The message in `raw`. Raises ValueError."""
    if len(raw) > LARGEST_MESSAGE_BYTES:
        raise ValueError(f"not a message: it has {len(raw)} bytes")
    try:
        message: Message = _decoder.decode(raw)
    except NOT_JSON as error:
        raise ValueError(f"not a message: {error}") from error
    return message


def genuine(raw: bytes, kind: type[Addressed], host: str, key: str) -> Addressed | None:
    """The message of this kind to or from `host` in `raw`; None unless it was signed with `key`."""
    try:
        message = msgspec.json.decode(raw, type=kind)
    except NOT_JSON:
        return None
    return message if message.host == host and is_genuine(message, key) else None


class HostKeys:
    """The key of each host, derived from the dispatcher's master key.

    A host of the previous release signs with the master key itself, and follows only orders that are signed with it. Such a host
    is served until it first signs with its own key. To be removed with the next release.
    """

    def __init__(self, master: str) -> None:
        self._master = master
        self._with_own_key: set[str] = set()
        self._with_master_key: set[str] = set()

    def of(self, host: str) -> str:
        """The key for orders to `host`."""
        return self._master if host in self._with_master_key else host_key(self._master, host)

    def is_of_previous_release(self, host: str) -> bool:
        """Whether the host is known to sign with the master key."""
        return host in self._with_master_key

    def sealed(self, acknowledgement: Acknowledgement) -> bytes:
        """The acknowledgement as its host understands it: one of the previous release takes a bare number."""
        host = acknowledgement.host
        if host in self._with_master_key:
            return str(acknowledgement.seq).encode()
        return encode(seal(acknowledgement, host_key(self._master, host)))

    def sealed_mark(self, mark: CommitMark) -> bytes:
        """The mark, signed with the master key: dispatchers alone read it."""
        return encode(seal(mark, self._master))

    def genuine_mark(self, raw: bytes) -> CommitMark | None:
        """The mark in `raw`; None unless a dispatcher signed it."""
        try:
            mark = msgspec.json.decode(raw, type=CommitMark)
        except NOT_JSON:
            return None
        return mark if is_genuine(mark, self._master) else None

    def is_genuine(self, message: Spooled | HostReport) -> bool:
        """Whether the host that the message names has signed it."""
        if is_genuine(message, host_key(self._master, message.host)):
            self._with_own_key.add(message.host)
            self._with_master_key.discard(message.host)
            return True
        if message.host in self._with_own_key or not is_genuine(message, self._master):
            return False
        self._with_master_key.add(message.host)
        return True
