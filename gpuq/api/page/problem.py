"""Problems as pages, for browsers: the sentence and the fix in the frame of all pages, with the same status."""

from __future__ import annotations

import msgspec
from aiohttp import web

from gpuq.api.context import context_of
from gpuq.api.contract.problem import MEDIA_TYPE, Handler
from gpuq.api.contract.schema import Problem
from gpuq.api.identity import CALLER
from gpuq.api.page.frame import page
from gpuq.api.page.templates import render
from gpuq.errors import GpuqError


@web.middleware
async def problem_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Put a page in place of a problem document for a browser that is at no address of the API."""
    answer = await handler(request)
    asks_for_page = "text/html" in request.headers.get("Accept", "") and not request.path.startswith("/api/")
    if answer.content_type != MEDIA_TYPE or not isinstance(answer, web.Response) or not asks_for_page:
        return answer
    assert isinstance(answer.body, bytes), "a problem document is not streamed"
    problem = msgspec.json.decode(answer.body, type=Problem)
    found = None
    if CALLER in request:
        try:
            live = await context_of(request).live.read()
            found = await page(request, "problem", live, title=problem.title, status=answer.status, problem=problem)
        except GpuqError:
            pass  # The frame takes the record, and its absence may be the problem.
    if found is None:
        text = render("problem.html", frame=None, problem=problem)
        found = web.Response(text=text, status=answer.status, content_type="text/html")
    found.headers.update({name: answer.headers[name] for name in ("Allow",) if name in answer.headers})
    return found
