"""`GET /api/v1/jobs/{id}/channels/{name}`: a WebSocket to an interactive job, for its owner and for admins.

Binary messages are the bytes of a connection to the job: frames of its terminal (`gpuq_workers.shim.terminal`), or HTTP of its
notebook. The endpoint passes them on and keeps nothing, so a client whose endpoint was restarted connects again and goes on.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import get_args

from aiohttp import WSCloseCode, web

from gpuq.adapters.relay import LARGEST_MESSAGE, relay
from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.api import tickets
from gpuq.api.context import context_of, reply
from gpuq.api.contract.problem import BadRequest
from gpuq.api.contract.schema import Notebook, Ticket
from gpuq.api.handlers.jobs import find
from gpuq.api.identity import Role, caller_of
from gpuq.core.state.job import ENDED
from gpuq.errors import Conflict, NotFound, NotPermitted, Unreachable
from gpuq.messages.launch import Interactive

TOKEN_VARIABLE = "JUPYTER_TOKEN"  # noqa: S105 - its name
_PING_EVERY_S = 20.0
_PROTOCOL, _TICKET = "gpuq", "ticket."
_log = logging.getLogger(__name__)


async def channel(request: web.Request) -> web.StreamResponse:
    """Connect the caller to the job's terminal or notebook, until one side ends the connection."""
    context, name = context_of(request), request.match_info["name"]
    job, attempts = await find(context, request.match_info["id"])
    check_enters(request, job)
    attempt = running(job, attempts)
    if name not in get_args(Interactive):
        raise NotFound(f"A job has no channel `{name[:40]}`.", fix=f"There is {' and '.join(get_args(Interactive))}.")
    answer = web.WebSocketResponse(
        heartbeat=_PING_EVERY_S, max_msg_size=LARGEST_MESSAGE, compress=False, protocols=(_PROTOCOL,)
    )
    if not answer.can_prepare(request):
        raise BadRequest("This address is for WebSockets.", fix="`gpuq attach` and `gpuq notebook` connect to it.")
    if context.channels is None:
        raise Unreachable("This endpoint cannot reach the hosts of jobs.")
    interactive: Interactive = "terminal" if name == "terminal" else "notebook"
    connection = await context.channels.open(attempt.host, job.id, attempt.number, interactive)
    if caller_of(request).user != job.record.owner:
        _log.warning(
            "%s works in job %d of %s", caller_of(request).user, job.id, job.record.owner, extra={"action": "enter"}
        )
    with connection:
        await answer.prepare(request)
        relaying = asyncio.create_task(relay(answer, connection))
        stopping = asyncio.create_task(context.stopping.wait())
        await asyncio.wait({relaying, stopping}, return_when=asyncio.FIRST_COMPLETED)
        code = WSCloseCode.GOING_AWAY if stopping.done() else WSCloseCode.OK
        for task in (relaying, stopping):
            task.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await task
        with suppress(ConnectionError):
            await answer.close(code=code)
    return answer


async def notebook(request: web.Request) -> web.Response:
    """The token of the job's notebook, for who may enter it."""
    job, attempts = await find(context_of(request), request.match_info["id"])
    check_enters(request, job)
    running(job, attempts)
    token = job.record.submission.env.get(TOKEN_VARIABLE)
    if job.record.submission.interactive != "notebook" or token is None:
        raise Conflict(f"Job {job.id} is no notebook.", fix="`gpuq notebook` starts one.")
    return reply(Notebook(token=token))


async def ticket(request: web.Request) -> web.Response:
    """What lets the page of the job's owner connect to its terminal. It takes a token: the page's key is not enough."""
    context = context_of(request)
    job, attempts = await find(context, request.match_info["id"])
    check_owns(request, job)
    running(job, attempts)
    return reply(Ticket(ticket=tickets.make(context.token, caller_of(request).user, job.id, context.now())))


def check_owns(request: web.Request, job: JobRow) -> None:
    """Raises NotPermitted for all but the job's owner."""
    if caller_of(request).user != job.record.owner:
        raise NotPermitted(
            f"Job {job.id} belongs to {job.record.owner}; only {job.record.owner} works in it from a page.",
            fix=f"`gpuq attach {job.id}` lets admins work in it.",
        )


def _has_ticket(request: web.Request, job: JobRow) -> bool:
    """Whether one of the protocols that a browser offers for the terminal is a ticket of its user."""
    context, user = context_of(request), caller_of(request).user
    offered = [one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    return request.match_info.get("name") == "terminal" and any(
        tickets.is_valid(one.removeprefix(_TICKET), context.token, user, job.id, context.now())
        for one in offered
        if one.startswith(_TICKET)
    )


def check_enters(request: web.Request, job: JobRow) -> None:
    """Raises NotPermitted unless the caller may run programs as the job's user: its owner and admins, by more than a cookie.

    A cookie is enough with a ticket, which only a token gives, and only for the owner.
    """
    caller = caller_of(request)
    if caller.user != job.record.owner and caller.role < Role.ADMIN:
        raise NotPermitted(
            f"Job {job.id} belongs to {job.record.owner}; only {job.record.owner} and admins may work in it.",
            fix="Ask its owner; an operator may cancel it, and not work in it.",
        )
    if caller.way == "cookie" and not (caller.user == job.record.owner and _has_ticket(request, job)):
        # Browsers send it to every port of the machine, and it would be enough to run programs.
        raise NotPermitted("The page's cookie may only read.", fix="Send the token in the Authorization header.")


def running(job: JobRow, attempts: list[AttemptRow]) -> AttemptRow:
    """The attempt that runs. Raises Conflict if the job does not run, or is a batch job."""
    if job.record.submission.interactive is None:
        raise Conflict(
            f"Job {job.id} is a batch job: it has no terminal.",
            fix="`gpuq logs -f` follows its output; `gpuq submit --pty` gives a job a terminal.",
        )
    for attempt in attempts:
        if attempt.number == job.attempt and attempt.started_at is not None and attempt.ended_at is None:
            return attempt
    over = "has ended" if job.state in ENDED else "does not run yet"
    raise Conflict(f"Job {job.id} {over}; it is {job.state.value}.", fix=f"`gpuq explain {job.id}` says more.")
