"""The page and its files, and the exchange of the token, from the address or the login form, for a cookie.

After the exchange the browser leaves the address with the token at once, so that the token is not visible for long.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from urllib.parse import parse_qs

from aiohttp import web

from gpuq.adapters.store.contract import JobRow
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract.schema import JobLine
from gpuq.api.handlers.jobs import device_names, start_of, waiting_order
from gpuq.api.handlers.system import device_list
from gpuq.api.identity import cookie_for, cookie_name, is_exchange
from gpuq.api.page.render import Page, Waiting, render, welcome
from gpuq.api.views import job_line, reason_in_words
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import ENDED, JobId, JobState
from gpuq.errors import NotFound

_FILES = {"page.js": "text/javascript", "page.css": "text/css", "icon.svg": "image/svg+xml"}
_FORM_BYTES = 1024
_WAITING_SHOWN = 50
_HELD_SHOWN = 20
_RECENT_SHOWN = 20


async def show(request: web.Request) -> web.StreamResponse:
    """The page, or the exchange of the token in its address."""
    context = context_of(request)
    if not is_exchange(request):
        return web.Response(text=render(await _collect(request)), content_type="text/html")
    given = request.query.getall("token")
    cookie = await cookie_for(given[0] if len(given) == 1 else "", context)
    # Not a redirect: after a link from elsewhere (a file, a chat) browsers do not send a strict cookie along a redirect.
    return _with_cookie(web.Response(text=welcome(), content_type="text/html"), context, cookie)


async def static(request: web.Request) -> web.Response:
    """The page's script, style or icon. Raises NotFound."""
    name = request.match_info["name"]
    if name not in _FILES:
        raise NotFound("There is no such file.", fix="The page uses /static/page.js and /static/page.css.")
    return web.Response(body=_file(name), content_type=_FILES[name], charset="utf-8")


@cache
def _file(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()


async def login(request: web.Request) -> web.Response:
    """Exchange the token of the login form for the cookie. Raises Unauthenticated for a wrong token."""
    context = context_of(request)
    # Anyone who reaches the port may send this, so no more is read than a form with a token needs.
    size = request.content_length or 0
    raw = await request.content.readexactly(size) if 0 < size <= _FORM_BYTES else b""
    given = parse_qs(raw.decode("ascii", "replace")).get("token", [""])[0].strip()
    cookie = await cookie_for(given, context)
    return _with_cookie(web.Response(status=303, headers={"Location": "/"}), context, cookie)


def _with_cookie(answer: web.Response, context: ApiContext, value: str) -> web.Response:
    answer.set_cookie(cookie_name(context.token), value, httponly=True, samesite="Strict", path="/")
    return answer


async def _collect(request: web.Request) -> Page:
    context = context_of(request)
    live = await context.live.read()
    order = (await waiting_order(context))[:_WAITING_SHOWN]
    names = await device_names(context, live.view)
    waiting, recent, counts = await context.read(_rows, context, names, [JobId(job) for job in order])
    return Page(
        now=context.now(),
        live=live,
        counts=counts,
        devices=await device_list(context, live.view, partial(visibility.sees, request)),
        waiting=[
            Waiting(visibility.job(request, job_line(row, (), None, names)), reason_in_words(row, names))
            for row in waiting
        ],
        recent=[visibility.job(request, line) for line in recent],
    )


def _rows(
    context: ApiContext, names: DeviceNames, order: list[JobId]
) -> tuple[list[JobRow], list[JobLine], dict[JobState, int]]:
    """(waiting jobs in the dispatcher's order with held ones last, recently ended jobs, counts by state). Blocks."""
    store = context.store
    rank = {job: index for index, job in enumerate(order)}
    chosen = {"ids": order} if order else {"limit": _WAITING_SHOWN}
    pending = store.jobs(states=[JobState.PENDING], **chosen)
    pending.sort(key=lambda row: (rank.get(row.id, len(rank)), row.id))
    held = store.jobs(states=[JobState.HELD], limit=_HELD_SHOWN)
    ended = store.jobs(states=sorted(ENDED), limit=_RECENT_SHOWN, newest_first=True)
    recent = [job_line(row, start_of(store, row), None, names) for row in ended]
    return [*pending, *held], recent, store.count_by_state()
