"""What one user may ask for at the same time, so that other users do not wait: memory for bodies, streams and searches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from gpuq.api import connections
from gpuq.api.context import context_of
from gpuq.api.contract.problem import Handler, TooManyAtOnce
from gpuq.api.identity import caller_of
from gpuq.errors import OverQuota

MOST: Final = 2**20
"""Bytes of a body that is no list: 10,000 ids take 400 KB."""
MOST_OF_USER: Final = 192 * 2**20
"""Bytes of all bodies of one user that are being read or worked on: three of the longest lists of submissions."""
SMALL_BYTES: Final = 2**14
"""A submission of fewer bytes is an ordinary one."""
MOST_UNENDED: Final = 256 * 2**20
"""Bytes of a user's jobs and arrays that have not ended, beyond which no more come that are larger than ordinary ones. The
dispatcher has all of them in memory, and lists are made of them."""
MOST_OF_JOBS: Final = 64
"""Connections to jobs of one user: a host has 256 at most. A browser with a notebook has some ten."""
_READ: Final = web.RequestKey("read", int)


@web.middleware
async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count the body against its user's memory until the request is answered."""
    try:
        return await handler(request)
    finally:
        if read := request.get(_READ, 0):
            context_of(request).body_bytes[caller_of(request).user] -= read


@contextmanager
def one_of(request: web.Request, what: str, most: int) -> Iterator[None]:
    """Count this request among its user's `what` while it is open. Raises TooManyAtOnce where there are `most`."""
    count, mine = context_of(request).open_requests, (what, caller_of(request).user)
    if count[mine] >= most:
        raise TooManyAtOnce(f"At most {most} {what} of yours are open at the same time.", fix="Close one of them.")
    count[mine] += 1
    try:
        yield
    finally:
        count[mine] -= 1


def limited(handler: Handler, what: str, most: int) -> Handler:
    """The handler, for so many open requests of a user at most."""

    async def counted_one(request: web.Request) -> web.StreamResponse:
        with one_of(request, what, most):
            return await handler(request)

    return counted_one


async def check_unended(request: web.Request, count: int, size: int) -> None:
    """Raises OverQuota where these submissions, of so many bytes together, would be too much beside the user's others."""
    if size <= count * SMALL_BYTES:
        return
    context, user = context_of(request), caller_of(request).user
    if await context.read(context.store.record_bytes, user) + size > MOST_UNENDED:
        raise OverQuota(
            f"Your jobs that have not ended would take more than {MOST_UNENDED // 2**20} MiB, which is the limit.",
            fix="Pass large arguments, variables and scripts in files, or submit again when some of your jobs have ended.",
        )


async def read(request: web.Request, most: int = MOST) -> bytes:
    """The body. Raises TooLarge for more than `most` bytes, and TooManyAtOnce where it and the user's others have more than
    MOST_OF_USER."""
    taken, user = context_of(request).body_bytes, caller_of(request).user

    def count(received: int) -> None:
        request[_READ] = request.get(_READ, 0) + received
        taken[user] += received
        if request[_READ] <= most and taken[user] > MOST_OF_USER:
            raise TooManyAtOnce(
                f"Your open requests have more than {MOST_OF_USER // 2**20} MiB together, which is the limit."
            )

    return await connections.whole(request, most, count)
