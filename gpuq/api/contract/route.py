"""What the table of routes says of one address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from gpuq.api.identity import Role

BYTES = "application/octet-stream"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the table. `body` and `gives` are types, or tuples of alternatives; None for what is not JSON.

    `also` maps further statuses of the answer to their meaning. `query` and `headers` are structs of `params.py`. `public`
    routes need no token, the others a caller of at least `role`.
    """

    method: str
    path: str
    handler: Handler
    text: str
    gives: Any = None
    status: int = 200
    body: Any = None
    also: Mapping[int, str] = field(default_factory=dict)
    query: type[msgspec.Struct] | None = None
    headers: type[msgspec.Struct] | None = None
    media: str = "application/json"
    public: bool = False
    role: Role = Role.USER


def methods(route: Route) -> tuple[str, ...]:
    """The route's method, and HEAD beside GET. Streams take no HEAD: they would be read to their end for their headers."""
    is_stream = route.status == 101 or route.media in {"text/event-stream", BYTES}
    return (route.method,) if route.method != "GET" or is_stream else ("GET", "HEAD")
