"""Clients for Redis: timeouts, protocol, and the translation of errors.

A URL may be `redis://`, `rediss://` or `unix://`. Every fault of the server becomes `gpuq.errors.Unreachable`: refused, timed
out, still loading, read-only, out of memory. Passwords never appear in a message.
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
# The library must not repeat a command: a repeated XREADGROUP would skip the messages of the lost answer. Callers retry.
_NO_RETRY = 0
# In protocol 3 the answers to stream commands have another shape, which changed between releases.
_PROTOCOL = 2


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
        raise Unreachable(f"Redis at {shown(url)} is not usable: {reason}", fix=_fix(error)) from error


def shown(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{address}{parts.path}"


def _fix(error: Exception) -> str:
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return "Put the right user and password into GPUQ_REDIS_URL."
    if isinstance(error, redis.ReadOnlyError):
        return "GPUQ_REDIS_URL names a replica; name the primary server."
    return "Start it with `gpuq up`, or see that the server named in GPUQ_REDIS_URL is up; `gpuq doctor` checks it."


@contextmanager
def _checked(url: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise BadSettings(
            f"{shown(url)} is not the URL of a Redis server.",
            fix="Set GPUQ_REDIS_URL to redis://HOST:PORT/0 or unix:///PATH, or unset it for the embedded server.",
        ) from error
