"""The page that submits a job, with its forecast while it is filled in: made here, from the fields in the address.

The page only prepares the request: to send it takes the token itself, because what is submitted runs as its user. Variables of
the environment are not in the address, which browsers remember: the script adds them.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from gpuq.api import visibility
from gpuq.api.context import context_of
from gpuq.api.contract import params
from gpuq.api.contract.schema_predict import Prediction
from gpuq.api.handlers.jobs import find
from gpuq.api.handlers.predict import prediction
from gpuq.api.handlers.submit import records
from gpuq.api.identity import caller_of
from gpuq.api.page.frame import page
from gpuq.api.page.what_if import start_in_words
from gpuq.errors import BadInput, GpuqError
from gpuq.messages.submission import Submission, in_work_tree

_GIB = 2**30
_HOUR_S = 3600.0


@dataclass(frozen=True)
class Prepared:
    """What the fields make: the body of the request as JSON and the forecast, or what is wrong with them."""

    body: str | None = None
    forecast: Prediction | None = None
    start: str | None = None
    fault: str | None = None


async def submit(request: web.Request) -> web.Response:
    """The page that submits a job."""
    query = params.query(request, params.SubmitPageQuery)
    if query.like:
        query = await _like(request, query)
    live = await context_of(request).live.read()
    prepared = await _prepare(request, query) if query.command.strip() else Prepared()
    types = sorted({device.type for device in await context_of(request).read(context_of(request).devices)})
    asked = request.raw_path.partition("?")[2]
    return await page(request, "submit", live, query=query, prepared=prepared, types=types, asked=asked)


async def _like(request: web.Request, query: params.SubmitPageQuery) -> params.SubmitPageQuery:
    """The fields as they were for another job. Raises NotFound, NotPermitted."""
    row, _ = await find(context_of(request), query.like)
    visibility.check_sees(request, row.id, row.record.owner)
    asked = in_work_tree(row.record.submission)
    return msgspec.structs.replace(
        query,
        command=shlex.join(asked.command),
        cwd=asked.cwd,
        name=asked.name or "",
        project=asked.project or "",
        gpus=str(asked.gpus),
        memory="" if asked.gpu_memory is None else f"{asked.gpu_memory / _GIB:g}",
        share=asked.share.value,
        max_slowdown="" if asked.max_slowdown is None else f"{100 * (asked.max_slowdown - 1):.4g}",
        hours="" if asked.time_limit_s is None else f"{asked.time_limit_s / _HOUR_S:g}",
        priority=str(asked.priority),
    )


async def _prepare(request: web.Request, query: params.SubmitPageQuery) -> Prepared:
    context = context_of(request)
    try:
        wanted = submission_of(query)
        record = records(context, caller_of(request), [wanted], None)[0]
        found = await prediction(request, record, (await context.live.read()).view, None, query.type or None)
    except GpuqError as error:
        return Prepared(fault=" ".join(filter(None, (error.message, error.fix))))
    body = msgspec.json.encode(wanted).decode()
    return Prepared(body, found, start_in_words(found, context.now()), found.never_fits)


def submission_of(query: params.SubmitPageQuery) -> Submission:
    """What the fields say. Raises BadInput."""
    fields: dict[str, Any] = {"cwd": query.cwd, "share": query.share, "hold": query.hold == "on"}
    try:
        fields["command"] = shlex.split(query.command)
        fields |= {name: text for name in ("name", "project") if (text := getattr(query, name))}
        fields |= {name: int(text) for name in ("gpus", "priority") if (text := getattr(query, name))}
        if query.memory:
            fields["gpu_memory"] = round(float(query.memory) * _GIB)
        if query.hours:
            fields["time_limit_s"] = float(query.hours) * _HOUR_S
        if query.max_slowdown:
            fields["max_slowdown"] = 1 + float(query.max_slowdown) / 100
        return msgspec.convert(fields, Submission)
    except (ValueError, OverflowError) as error:  # msgspec's and shlex's errors are ValueErrors
        raise BadInput(f"This cannot be submitted: {error}.") from error
