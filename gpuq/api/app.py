"""The aiohttp application: routes, middlewares and background tasks around one context."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial
from weakref import WeakKeyDictionary

from aiohttp import web

from gpuq.adapters.tasks import end
from gpuq.api import series
from gpuq.api.connections import KNOWN, end_with_tokens, refuse_encoded
from gpuq.api.context import CONTEXT, ApiContext
from gpuq.api.contract.limits import counted
from gpuq.api.contract.problem import expect, problems
from gpuq.api.contract.route import methods
from gpuq.api.identity import Role, identify, restricted, token_is_valid
from gpuq.api.page.problem import problem_pages
from gpuq.api.routes import ROUTES

# `/jobs/cancel` names a request about many jobs and not a job with that id, so GET there is a wrong method.
_ID = "{id:(?!(?:cancel|edit|hold|release)$)[^{}/]+}"

_log = logging.getLogger(__name__)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
}


def make_app(context: ApiContext) -> web.Application:
    """The application, for `server.py` or a test's client."""
    app = web.Application(middlewares=[problem_pages, problems, refuse_encoded, identify, counted])
    app[CONTEXT], app[KNOWN] = context, WeakKeyDictionary()
    for route in ROUTES:
        handler = route.handler if route.role is Role.USER else restricted(route.handler, route.role)
        for method in methods(route):
            app.router.add_route(method, route.path.replace("{id}", _ID), handler, expect_handler=expect)
    app.on_response_prepare.append(_add_headers)
    app.on_shutdown.append(_end_streams)
    app.cleanup_ctx.append(_background)
    return app


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = "gpuq"


async def _end_streams(app: web.Application) -> None:
    app[CONTEXT].stopping.set()


async def _background(app: web.Application) -> AsyncIterator[None]:
    context = app[CONTEXT]
    committing = asyncio.create_task(context.committer.run(), name="commits")
    waking = asyncio.create_task(context.ringer.run(), name="wake-ups")
    copying = asyncio.create_task(series.record(context), name="series")
    valid = partial(token_is_valid, context=context)
    ending = asyncio.create_task(end_with_tokens(app, valid), name="tokens")
    for task in (committing, waking, copying, ending):
        task.add_done_callback(partial(_end_with, context))
    yield
    context.stopping.set()
    context.committer.close()
    await asyncio.wait((committing,))
    await end((copying, waking, ending))
    for threads in (context.readers, context.analysts, context.user_threads):
        threads.stop()
    context.kept.stop()
    for ended in (committing, copying, waking, ending):
        if not ended.cancelled():
            ended.result()


def _end_with(context: ApiContext, task: asyncio.Task[None]) -> None:
    """A process without one of its tasks does not go on as if it were whole: it ends, and its supervisor starts it again."""
    if not context.stopping.is_set():
        _log.error("task ended: %s", task.get_name(), extra={"action": "task_ended"})
        context.ending.set()
