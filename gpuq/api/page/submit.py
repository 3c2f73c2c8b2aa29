"""The page that submits a job, with its forecast while it is filled in: made here, from the fields in the address.

The page only prepares the request: to send it takes the token itself, because what is submitted runs as its user. Variables of
the environment are not in the address, which browsers remember: the script adds them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
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
from gpuq.core.state.job import Sharing
from gpuq.errors import BadInput, GpuqError
from gpuq.format import clean
from gpuq.messages.codec import plain
from gpuq.messages.submission import Submission, in_work_tree
from gpuq.messages.submit_options import options_of

_GIB = 2**30
_HOUR_S = 3600.0
_TYPES = {field.name: field.type for field in msgspec.structs.fields(Submission)}
_FIELDS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "command": ("command", shlex.split, "Command: words as in a shell, each quote closed."),
    "cwd": ("cwd", str, "Folder: a path that begins with /."),
    "name": ("name", str, "Name: at most 200 characters, none of them a control character."),
    "project": ("project", str, "Project: at most 200 characters."),
    "gpus": ("gpus", int, "Devices: a whole number from 1 to 64."),
    "memory": ("gpu_memory", lambda text: round(float(text) * _GIB), "Memory of a device: a number of GiB above 0."),
    "max_slowdown": ("max_slowdown", lambda text: 1 + float(text) / 100, "Slowdown at most: from 0 to 400 percent."),
    "hours": ("time_limit_s", lambda text: float(text) * _HOUR_S, "Time limit: hours above 0, at most ten years."),
    "priority": ("priority", int, "Priority: a whole number from -1000 to 1000."),
}
"""Each text field of the form: the submission's field, how it is read, and what it takes."""


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
    like = await _like(request, query.like) if query.like else None
    if like is not None and not query.command:
        query = _filled_in(query, like)
    context = context_of(request)
    live = await context.live.read()
    prepared = await _prepare(request, query, like) if query.command.strip() else Prepared()
    types = sorted({device.type for device in await context.read(context.devices)})
    return await page(
        request,
        "submit",
        live,
        query=query,
        prepared=prepared,
        types=types,
        asked=request.raw_path.partition("?")[2],
        others=None if like is None else shlex.join(options_of(plain(_without_fields(like)), context.now())),
    )


async def _like(request: web.Request, job: str) -> Submission:
    """What another job asked for, as far as it holds for one that is submitted now. Raises NotFound, NotPermitted.

    The page has not looked at the script, so what the command read from it is left out, and so is the environment.
    """
    context = context_of(request)
    row, _ = await find(context, job)
    visibility.check_sees(request, row.id, row.record.owner)
    asked, now = in_work_tree(row.record.submission), context.now()
    return msgspec.structs.replace(
        asked,
        env={},
        script_sha256=None,
        git_sha=None,
        git_dirty=None,
        hold=False,
        after=(),
        begin_at=asked.begin_at if asked.begin_at is not None and asked.begin_at > now else None,
        deadline_at=asked.deadline_at if asked.deadline_at is not None and asked.deadline_at > now else None,
    )


def _filled_in(query: params.SubmitPageQuery, asked: Submission) -> params.SubmitPageQuery:
    """The fields as they were for another job."""
    return msgspec.structs.replace(
        query,
        command=_typed(shlex.join(asked.command)),
        cwd=_typed(asked.cwd),
        name=_typed(asked.name or ""),
        project=_typed(asked.project or ""),
        gpus=str(asked.gpus),
        memory="" if asked.gpu_memory is None else f"{asked.gpu_memory / _GIB:g}",
        share=asked.share.value,
        max_slowdown="" if asked.max_slowdown is None else f"{100 * (asked.max_slowdown - 1):.4g}",
        hours="" if asked.time_limit_s is None else f"{asked.time_limit_s / _HOUR_S:g}",
        priority=str(asked.priority),
    )


def _typed(text: str) -> str:
    """The text as it could be typed into a field: other control characters than line breaks and tabs are escaped."""
    return "".join(letter if letter in "\n\t" else clean(letter) for letter in text)


def _without_fields(asked: Submission) -> Submission:
    """The submission without what the form has fields for."""
    return msgspec.structs.replace(
        asked,
        name=None,
        project=None,
        gpus=1,
        gpu_memory=None,
        share=Sharing.AUTO,
        max_slowdown=None,
        time_limit_s=None,
        priority=0,
    )


async def _prepare(request: web.Request, query: params.SubmitPageQuery, like: Submission | None) -> Prepared:
    context = context_of(request)
    try:
        wanted = submission_of(query, like)
        caller = caller_of(request)
        [record] = await context.for_user(records, context, caller, [wanted])
        found = await prediction(request, record, (await context.live.read()).view, None, query.type or None)
    except GpuqError as error:
        return Prepared(fault=error.message)
    body = msgspec.json.encode(wanted).decode()
    return Prepared(body, found, start_in_words(found, context.now()), found.never_fits)


def submission_of(query: params.SubmitPageQuery, like: Submission | None = None) -> Submission:
    """What the fields say, and for the rest what `like` asked for. Raises BadInput, Conflict."""
    fields: dict[str, Any] = {} if like is None else msgspec.to_builtins(_without_fields(like))
    for name, (field, read, expected) in _FIELDS.items():
        text = getattr(query, name)
        if not text and name not in {"command", "cwd"}:
            continue
        try:
            fields[field] = msgspec.convert(read(text), _TYPES[field])
        except (ValueError, OverflowError) as error:  # msgspec's and shlex's errors are ValueErrors
            raise BadInput(expected, fix="") from error
    if like is not None and (fields["command"], fields["cwd"]) != (like.command, like.cwd):
        # Another command may start another script.
        fields = {name: value for name, value in fields.items() if name not in {"script", "hints"}}
    return msgspec.convert({**fields, "share": query.share, "hold": query.hold == "on"}, Submission)
