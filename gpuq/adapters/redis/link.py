"""Clients for Redis: timeouts, protocol, the translation of errors, and keys that another program has put in the place of ours.

A URL may be `redis://`, `rediss://` or `unix://`. Every fault of the server becomes `gpuq.errors.Unreachable`: refused, timed
out, still loading, read-only, out of memory or of connections. Passwords never appear in a message.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from gpuq.errors import BadSettings, Unreachable

ANSWER_WITHIN_S = 3.0
_MAX_CONNECTIONS = 32
# The library must not repeat a command: a repeated XREADGROUP would skip the messages of the lost answer. Callers retry.
_NO_RETRY = 0
# In protocol 3 the answers to stream commands have another shape, which changed between releases.
_PROTOCOL = 2
_OTHER_TYPE = "WRONGTYPE"
# What Redis says of a key of another type, and of a stream whose last entry has the highest id that there is.
_UNUSABLE = (_OTHER_TYPE, "exhausted the last possible ID")
# What Redis says of a write that it does not take because its disk is full, or for lack of replicas. Other reasons have a class.
_TAKES_NO_WRITE = ("MISCONF", "NOREPLICAS")
# What it says to a connection beyond its `maxclients`.
_TAKES_NO_CLIENT = "max number of clients"
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Fault(NamedTuple):
    """What is wrong with the server: the word that /readyz has for it, and what to do."""

    sign: str
    fix: str


AWAY = Fault(
    Unreachable.sign,
    "Start it with `gpuq up`, or see that the server named in GPUQ_REDIS_URL is up; `gpuq doctor` checks it.",
)
LOGIN_REFUSED = Fault("refused", "Put the right user and password into GPUQ_REDIS_URL, then restart gpuq's services.")
NOT_WRITABLE = Fault(
    "unwritable",
    "Give it memory (`maxmemory`) or room on its disk, as its log says, or name the primary server in GPUQ_REDIS_URL.",
)
FULL = Fault(
    "full", "Raise `maxclients` of the server, or end what else is connected: `redis-cli CLIENT LIST` shows it."
)


def async_client(url: str, connections: int = _MAX_CONNECTIONS) -> redis.asyncio.Redis:
    """A client for asyncio. At most so many commands run at a time, others wait. Raises BadSettings for a bad URL."""
    with _checked(url):
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            protocol=_PROTOCOL,
            max_connections=connections,
            timeout=ANSWER_WITHIN_S,
            socket_timeout=ANSWER_WITHIN_S,
            socket_connect_timeout=ANSWER_WITHIN_S,
            retry=AsyncRetry(NoBackoff(), _NO_RETRY),
        )
    return redis.asyncio.Redis.from_pool(pool)


def blocking_client(url: str) -> redis.Redis:
    """A client for threads. Raises BadSettings for a bad URL."""
    with _checked(url):
        return redis.Redis.from_url(
            url,
            protocol=_PROTOCOL,
            socket_timeout=ANSWER_WITHIN_S,
            socket_connect_timeout=ANSWER_WITHIN_S,
            retry=Retry(NoBackoff(), _NO_RETRY),
        )


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turn every error of the server or of the connection to it into Unreachable."""
    try:
        yield
    except (redis.RedisError, OSError) as error:
        reason = str(error) or type(error).__name__
        fault = _fault_of(error)
        raise Unreachable(f"Redis at {shown(url)} is not usable: {reason}", fix=fault.fix, sign=fault.sign) from error


async def on_key(client: redis.asyncio.Redis, key: str, command: Callable[[], Awaitable[T]]) -> T:
    """The answer of a command on `key`. If none of ours can use the key any more, it is deleted first: see `delete_unusable`."""
    try:
        return await command()
    except redis.ResponseError as error:
        await delete_unusable(client, key, error)
        return await command()


async def delete_unusable(client: redis.asyncio.Redis, key: str, error: redis.ResponseError) -> None:
    """Delete a key on which each command fails until it is gone; what was in it is sent again. Raises any other error."""
    if not any(words in str(error) for words in _UNUSABLE):
        raise error
    _log.warning("%s was unusable and was deleted: %s", key, error, extra={"action": "unusable_key"})
    await client.delete(key)


def is_of_another_type(error: redis.ResponseError) -> bool:
    """Whether a command failed because a key has another type than it takes."""
    return _OTHER_TYPE in str(error)


def delete_other_types(client: redis.Redis, types: Mapping[str, str]) -> None:
    """Delete those of our keys that have another type than theirs, for what takes several keys: see `delete_unusable`."""
    for key, type_ in types.items():
        found = cast(bytes, client.type(key)).decode()
        if found not in {type_, "none"}:
            _log.warning("%s is a %s and no %s; it was deleted", key, found, type_, extra={"action": "unusable_key"})
            client.delete(key)


def shown(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{address}{parts.path}"


def _fault_of(error: Exception) -> Fault:
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return LOGIN_REFUSED
    if isinstance(error, redis.ReadOnlyError | redis.exceptions.OutOfMemoryError):
        return NOT_WRITABLE
    if _TAKES_NO_CLIENT in str(error):
        return FULL
    return NOT_WRITABLE if any(words in str(error) for words in _TAKES_NO_WRITE) else AWAY


@contextmanager
def _checked(url: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise BadSettings(
            f"{shown(url)} is not the URL of a Redis server.",
            fix="Set GPUQ_REDIS_URL to redis://HOST:PORT/0 or unix:///PATH, or unset it for the embedded server.",
        ) from error
