"""The page that works in the terminal of a job. Its scripts, which are large, are loaded by no other page."""

from __future__ import annotations

from aiohttp import web

from gpuq.api.context import context_of
from gpuq.api.handlers.channels import check_owns, running
from gpuq.api.handlers.jobs import find, view_of
from gpuq.api.page.frame import page
from gpuq.errors import Conflict


async def terminal(request: web.Request) -> web.Response:
    """The page of a job's terminal, for its owner."""
    context = context_of(request)
    view, _ = await view_of(request)
    row, attempts = await find(context, str(view.id))
    check_owns(request, row)
    fault = None
    try:
        running(row, attempts)
    except Conflict as refused:
        fault = f"{refused.message} {refused.fix}"
    if row.record.submission.interactive == "notebook":
        fault = f"Job {row.id} is a notebook: `gpuq notebook {row.id}` goes back to it."
    live = await context.live.read()
    return await page(request, "terminal", live, title=f"Terminal of job {view.id}", job=view, fault=fault)
