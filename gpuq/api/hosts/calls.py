"""The calls of hosts that joined. Each is for the host that the certificate names; what it says of another is refused.

Messages stay signed from the host to the dispatcher and back (`gpuq.messages.wire`): this process relays them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from aiohttp import web
from redis.asyncio import Redis

from gpuq.adapters.certificates import Authority
from gpuq.adapters.redis.host_mail import HostMail
from gpuq.adapters.redis.stream import Stream
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import JoinedHost
from gpuq.adapters.synced import SyncedTrees
from gpuq.api.connections import whole
from gpuq.api.contract.problem import BadRequest
from gpuq.api.hosts import joining
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.errors import NotPermitted
from gpuq.home import Home
from gpuq.messages import wire
from gpuq.messages.codec import plain
from gpuq.messages.launch import NOT_JSON

Body = TypeVar("Body")
MAX_BODY = 4 * 2**20
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern="^[^\x00]*$")]


@dataclass(frozen=True)
class HostContext:
    """What the calls work with. `run` makes a blocking call of the record and raises Unreachable if it takes too long."""

    store: Store
    stream: Stream
    redis: Redis
    redis_url: str
    authority: Authority
    run: Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class HostCall(Generic[Body]):
    """A call of `host`, by its certificate with this serial number."""

    context: HostContext
    host: JoinedHost
    serial: str
    body: Body

    @property
    def mail(self) -> HostMail:
        """What waits for the host in Redis."""
        return HostMail(self.context.redis_url, self.context.redis, self.host.host)


class ClaimBody(msgspec.Struct, frozen=True):
    """The claim of an attempt, as in `Claims.claim`."""

    job: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    instance: _Text
    boot_id: _Text
    at: float


class AttemptBody(msgspec.Struct, frozen=True):
    """An attempt on the host that calls."""

    job: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class LeaseBody(msgspec.Struct, frozen=True):
    """The instance that renews the lease of the host's name."""

    instance: _Text


class CertificateBody(msgspec.Struct, frozen=True):
    """A request for a certificate, in PEM."""

    request: Annotated[str, msgspec.Meta(max_length=10_000)]


class LogAnswerBody(msgspec.Struct, frozen=True):
    """The answer to the request for a log with this id: a signed `wire.LogAnswer`."""

    request: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    answer: str


async def lease(call: HostCall[LeaseBody]) -> Any:
    """Renew the lease of the host's name; whether the host is to renew its certificate."""
    context, host = call.context, call.host
    found = await context.run(context.store.lease_host, host.host, call.body.instance)
    return {"lease": plain(found), "renew": host.renew}


async def claim(call: HostCall[ClaimBody]) -> Any:
    """The fenced start of an attempt: what was submitted and launched, or null."""
    context, body = call.context, call.body
    attempt = AttemptId(JobId(body.job), body.attempt)
    claimed = await context.run(context.store.claim, attempt, call.host.host, body.instance, body.boot_id, body.at)
    return claimed and {"record": plain(claimed[0]), "attempt": plain(claimed[1])}


async def certificate(call: HostCall[CertificateBody]) -> Any:
    """Another certificate for another key."""
    context, request = call.context, call.body.request
    issued = await context.run(joining.renew, context.store, context.authority, call.host, call.serial, request)
    return {"certificate": issued.pem}


async def messages(call: HostCall[list[str]]) -> Any:
    """Put events and reports of the host into the dispatcher's inbox."""
    found = []
    for raw in call.body:
        try:
            message = wire.decode(raw.encode())
        except ValueError as error:
            raise BadRequest(f"This is no message: {error}.") from None
        if isinstance(message, wire.WakeUp) or message.host != call.host.host:
            raise NotPermitted(
                f"Host {call.host.host} may send its own events and reports only.", fix="Send nothing else."
            )
        found.append(message)
    await call.context.stream.add(*found)


async def acknowledgement(call: HostCall[None]) -> Any:
    """The latest acknowledgement to the host."""
    return _text(await call.context.stream.acknowledged(call.host.host))


async def order(call: HostCall[None]) -> Any:
    """The next order for the host; null if none comes within two seconds."""
    return await call.mail.order()


async def log_request(call: HostCall[None]) -> Any:
    """The next request for a log of the host; null if none comes within two seconds."""
    return _text(await call.mail.log_request())


async def log_answer(call: HostCall[LogAnswerBody]) -> Any:
    """Answer a request for a log."""
    await call.mail.log_answer(call.body.request, call.body.answer.encode())


def tree(store: Store, home: Home, host: str, asked: AttemptBody) -> Iterator[bytes]:
    """The files that were sent for an attempt which this host has claimed and which has not ended, as a stream. Blocks. Raises
    NotPermitted for all others."""
    job = store.job(JobId(asked.job))
    attempts = store.attempts(JobId(asked.job)) if job is not None else []
    mine = [one for one in attempts if one.number == asked.attempt and one.host == host]
    if job is None or job.record.submission.sync is None or not mine or mine[0].ended_at or not mine[0].claimed_at:
        raise NotPermitted(f"Host {host} has no such attempt.", fix="Send nothing else.")
    return SyncedTrees(home, job.record.owner).pieces(job.record.submission.sync.tree)


CALLS: Mapping[str, tuple[Callable[[Any], Awaitable[Any]], Any]] = {
    "/lease": (lease, LeaseBody),
    "/claim": (claim, ClaimBody),
    "/certificate": (certificate, CertificateBody),
    "/messages": (messages, list[str]),
    "/acknowledgement": (acknowledgement, None),
    "/order": (order, None),
    "/log-request": (log_request, None),
    "/log-answer": (log_answer, LogAnswerBody),
}
"""Path -> the call, and the type of its body."""


async def read(request: web.Request, body: Any) -> Any:
    """The body of this type. Raises BadRequest."""
    try:
        return msgspec.json.decode(await whole(request, MAX_BODY) or b"null", type=body)
    except NOT_JSON as error:
        raise BadRequest(f"The body cannot be read: {error}.") from None


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")
