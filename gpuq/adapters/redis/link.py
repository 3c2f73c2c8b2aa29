"""How we talk to a Redis server: one place for its timeouts, its protocol, and what its errors mean to us.

Arrives: a URL (`redis://`, `rediss://`, `unix://`). Leaves: a client, and `gpuq.errors.Unreachable` for whatever goes
wrong with the server: refused, timed out, still loading, read-only, out of memory. Passwords never get into a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from gpuq.errors import BadSettings, Unreachable

ANSWER_WITHIN_S = 3.0
_MAX_CONNECTIONS = 32
# The library may not repeat a command by itself: a repeated XREADGROUP would skip what was in the lost answer. Callers
# repeat.
_NO_RETRY = 0
# The answers to stream commands have another shape in protocol 3, and it changed between releases.
_PROTOCOL = 2


def async_client(url: str) -> redis.asyncio.Redis:
    """A client for asyncio. Commands beyond 32 at a time wait for their turn. Raises BadSettings for a bad URL."""
    with _sound(url):
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            protocol=_PROTOCOL,
            max_connections=_MAX_CONNECTIONS,
            timeout=ANSWER_WITHIN_S,
            socket_timeout=ANSWER_WITHIN_S,
            socket_connect_timeout=ANSWER_WITHIN_S,
            retry=AsyncRetry(NoBackoff(), _NO_RETRY),
        )
    return redis.asyncio.Redis.from_pool(pool)


def blocking_client(url: str) -> redis.Redis:
    """A client for plain threads. Raises BadSettings for a bad URL."""
    with _sound(url):
        return redis.Redis.from_url(
            url,
            protocol=_PROTOCOL,
            socket_timeout=ANSWER_WITHIN_S,
            socket_connect_timeout=ANSWER_WITHIN_S,
            retry=Retry(NoBackoff(), _NO_RETRY),
        )


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turn every fault of the server or of the way to it into Unreachable."""
    try:
        yield
    except (redis.RedisError, OSError) as error:
        said = str(error) or type(error).__name__
        raise Unreachable(f"Redis at {shown(url)} is not usable: {said}", fix=_fix(error)) from error


def shown(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"


def _fix(error: Exception) -> str:
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return "Put the right user and password into GPUQ_REDIS_URL."
    if isinstance(error, redis.ReadOnlyError):
        return "GPUQ_REDIS_URL names a replica; name the primary server."
    return "Start it with `gpuq up`, or see that the server named in GPUQ_REDIS_URL is up; `gpuq doctor` checks it."


@contextmanager
def _sound(url: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise BadSettings(
            f"{shown(url)} is not the URL of a Redis server.",
            fix="Set GPUQ_REDIS_URL to redis://HOST:PORT/0 or unix:///PATH, or unset it for the embedded server.",
        ) from error
