"""The aiohttp application: routes, middlewares and background tasks around one context."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from gpuq.adapters.tasks import end
from gpuq.api import series
from gpuq.api.context import CONTEXT, ApiContext
from gpuq.api.contract.limits import counted
from gpuq.api.contract.problem import expect, problems
from gpuq.api.contract.routes import ROUTES, methods
from gpuq.api.identity import Role, identify, restricted
from gpuq.api.page.problem import problem_pages

# `/jobs/cancel` names a request about many jobs and not a job with that id, so GET there is a wrong method.
_ID = "{id:(?!(?:cancel|edit|hold|release)$)[^{}/]+}"

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
    app = web.Application(middlewares=[problem_pages, problems, identify, counted])
    app[CONTEXT] = context
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
    committing = asyncio.create_task(context.committer.run())
    waking = asyncio.create_task(context.ringer.run())
    copying = asyncio.create_task(series.record(context))
    yield
    context.stopping.set()
    context.committer.close()
    await committing
    await end((copying, waking))
    for ended in (copying, waking):
        if not ended.cancelled():
            ended.result()
    for threads in (context.readers, context.analysts, context.file_threads):
        threads.shutdown(wait=False, cancel_futures=True)
    context.kept.stop()
