"""How this host reaches the dispatcher, as its home says: a host that joined through the listener of the main host, the main host
itself straight to Redis and the database."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from gpuq.errors import BadSettings
from gpuq.messages import wire
from gpuq.settings import Settings
from gpuq_workers.serve_requests import HostRequests

if TYPE_CHECKING:  # importing them would load the libraries of Redis and the database
    from gpuq.adapters.main_host import Joined
    from gpuq.adapters.store.contract import Claims

log = logging.getLogger(__name__)


class Inbox(Protocol):
    """The dispatcher's inbox, and its acknowledgements. Calls raise Unreachable."""

    async def add(self, *messages: wire.Message) -> None:
        """Put messages into the inbox, in order."""
        ...

    async def acknowledged(self, host: str) -> bytes | None:
        """The latest acknowledgement to this host."""
        ...


@dataclass(frozen=True)
class Uplink:
    """What the worker service needs of the dispatcher; `orders` is the module of the process that follows its orders."""

    open_claims: Callable[[], Claims]
    inbox: Inbox
    requests: HostRequests
    orders: str
    close: Callable[[], Awaitable[None]]


def open_uplink(settings: Settings) -> Uplink:
    """The uplink of this home's host. Raises BadSettings."""
    where = joined_as(settings)
    if where is None:
        return _straight(settings)
    from gpuq.adapters.main_host import RemoteClaims, RemoteInbox, RemoteMail

    inbox = RemoteInbox(settings.home, where)
    mail = RemoteMail(settings.home, where)
    open_claims = partial(RemoteClaims, settings.home, where)
    return Uplink(open_claims, inbox, mail, "gpuq_workers.poll_orders", inbox.close)


def joined_as(settings: Settings) -> Joined | None:
    """How this host joined a main host, None if it did not. Raises BadSettings if it has another name now."""
    if not settings.home.joined_file.exists():
        return None
    from gpuq.adapters.main_host import joined

    where = joined(settings.home)
    if where is not None and where.host != settings.worker.host:
        raise BadSettings(
            f"This host joined as {where.host}, and `host` under [worker] is {settings.worker.host}.",
            fix=f"Set it to {where.host}, or join again under the other name.",
        )
    return where


def _straight(settings: Settings) -> Uplink:
    from gpuq.adapters.redis.host_mail import MainHostMail
    from gpuq.adapters.redis.link import async_client
    from gpuq.adapters.redis.stream import RedisStream
    from gpuq.adapters.store import open_store

    if settings.home.host_key_file.exists():
        log.warning(
            "this host has the password of the database, as with the previous release; the next one does not serve it: "
            "join it with `gpuq host add`"
        )
    url = settings.effective_redis_url
    stream, client = RedisStream(url), async_client(url)

    async def close() -> None:
        await client.aclose()
        await stream.close()

    mail = MainHostMail(url, client, settings.worker.host, settings.home.run)
    open_claims = partial(open_store, settings.database_url)
    return Uplink(open_claims, stream, mail, "gpuq_workers.serve_orders", close)
