"""Beside why a job waits: what would be different if it asked for something else. Nothing is changed or queued.

The forecasts and verdicts are those of `POST /api/v1/predict`, on the live view of this moment.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

import msgspec
from aiohttp import web

from gpuq.adapters.store.row_types import JobRow
from gpuq.api import views
from gpuq.api.context import context_of
from gpuq.api.contract import params
from gpuq.api.contract.schema_predict import BesideView, Prediction
from gpuq.api.handlers.predict import prediction
from gpuq.api.page.submit_command import submit_command
from gpuq.core.state.job import JobId, Sharing
from gpuq.errors import GpuqError
from gpuq.messages.live import LiveView
from gpuq.messages.submission import Constraints, Submission
from gpuq.messages.submit_options import percent_of

_DEVICES_SHOWN = 6
_BUDGETS_PCT = (0.0, 5.0, 10.0, 15.0, 25.0, 50.0, 100.0)


@dataclass(frozen=True)
class WhatIf:
    """What the questions are filled with, and the answer: the prediction, when it could start, or why there is none."""

    share: str
    budget_pct: float
    budgets: list[float]
    gpus: int
    device_type: str
    types: list[str]
    asked: bool
    start: str | None = None
    beside: list[BesideView] | None = None
    fault: str | None = None
    edit: str | None = None
    """The command that changes the job so; None where nothing would change, or what cannot be changed."""
    submit: str | None = None
    """The command that submits it so, where it cannot be changed."""


async def what_if(request: web.Request, row: JobRow, query: params.JobPageQuery, live: LiveView | None) -> WhatIf:
    """The form, and what it was asked."""
    context, was = context_of(request), row.record.submission
    types = sorted({device.type for device in await context.read(context.devices)})
    usual = was.max_slowdown or context.settings.admission.max_slowdown
    asked = params.given(query.max_slowdown)
    budget = round(100 * (usual - 1), 1) if asked is None else asked
    form = WhatIf(
        share=query.share or was.share.value,
        budget_pct=budget,
        budgets=sorted({*_BUDGETS_PCT, budget}),
        gpus=params.given(query.gpus) or was.gpus,
        device_type=query.type,
        types=types,
        asked=bool(query.share),
    )
    if not form.asked:
        return form
    changed = msgspec.structs.replace(
        was,
        share=Sharing(form.share),
        gpus=form.gpus,
        most_gpus=None,
        max_slowdown=was.max_slowdown if budget == round(100 * (usual - 1), 1) else 1 + budget / 100,
    )
    record = msgspec.structs.replace(row.record, submission=changed)
    try:
        found = await prediction(request, record, live, None, form.device_type or None)
    except GpuqError as error:
        return replace(form, fault=error.message)
    edit, submit = _commands(row.id, was, changed, form.device_type, context.now())
    return replace(
        form,
        start=start_in_words(found, context.now()),
        beside=sorted(found.beside, key=lambda one: not one.verdict.admitted)[:_DEVICES_SHOWN],
        fault=found.never_fits,
        edit=edit,
        submit=submit,
    )


def _commands(
    job: JobId, was: Submission, changed: Submission, device_type: str, now: float
) -> tuple[str | None, str | None]:
    """What to type to have it so: (the change of the job, or None; the submission where it cannot be changed, or None)."""
    if device_type:
        typed = msgspec.structs.replace(was.constraints or Constraints(), types=(device_type,))
        changed = msgspec.structs.replace(changed, constraints=typed)
    if device_type or changed.gpus != was.gpus:
        return None, submit_command(changed, now, waits=True)
    options = ["--share", changed.share.value] if changed.share is not was.share else []
    if changed.max_slowdown != was.max_slowdown:
        options += ["--max-slowdown", percent_of(changed.max_slowdown)]
    return (shlex.join(["gpuq", "edit", str(job), *options]) if options else None), None


def start_in_words(found: Prediction, now: float) -> str:
    """When a job of this prediction would start, if it were submitted now."""
    if found.free_devices:
        return f"at once, on {', '.join(found.free_devices[:3])}"
    about = views.start_in_words(found.expected_start, now)
    return f"no device takes it now; behind all that wait {about}" if about else "no device takes it now"
