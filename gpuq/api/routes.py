"""Everything that is served, in one table. The router and the OpenAPI document are made from it.

A line has the method, the address, the handler, and the types of body, parameters and answer.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from aiohttp import web

from gpuq.api.context import context_of
from gpuq.api.contract import bodies, limits, params, schema, schema_jobs
from gpuq.api.contract.openapi import document
from gpuq.api.contract.route import BYTES, Handler, Route
from gpuq.api.contract.schema_predict import Prediction, Series, ShadowReport, UsageReport
from gpuq.api.handlers import (
    bookings,
    channels,
    control,
    files,
    hosts,
    jobs,
    logs,
    models,
    predict,
    quotas,
    submit,
    system,
    tokens,
)
from gpuq.api.handlers.edit import edit
from gpuq.api.handlers.events import events
from gpuq.api.handlers.policies import policies
from gpuq.api.handlers.preview import preview
from gpuq.api.handlers.series import series
from gpuq.api.handlers.shadow import shadow
from gpuq.api.handlers.usage import usage
from gpuq.api.identity import LOGIN, Role
from gpuq.api.page import handlers as page
from gpuq.api.page.administration import administration
from gpuq.api.page.job import job as job_page
from gpuq.api.page.model import model as model_page
from gpuq.api.page.pairs import pairs as pairs_page
from gpuq.api.page.queue import queue as queue_page
from gpuq.api.page.submit import submit as submit_page
from gpuq.api.page.terminal import terminal as terminal_page
from gpuq.api.page.timeline import timeline as timeline_page
from gpuq.api.page.week import week as week_page
from gpuq.messages.submission import Submission

API = "/api/v1"
_LATER = {202: "It is recorded, and will be carried out."}


def _control(verb: control.Verb, does: str) -> tuple[Route, Route]:
    """The routes for `verb` on many jobs and on one."""
    many, one = f"{API}/jobs/{verb}", f"{API}/jobs/{{id}}/{verb}"
    wait = params.WaitQuery
    return (
        _post(
            many,
            control.many(verb),
            f"{does} jobs.",
            schema_jobs.RequestsTaken,
            also=_LATER,
            query=wait,
            body=bodies.JobsBody,
        ),
        _post(one, control.one(verb), f"{does} a job.", schema_jobs.RequestTaken, also=_LATER, query=wait),
    )


def _host(verb: str, text: str, handler: Handler, **others: Any) -> Route:
    """The route for `verb` on one host."""
    return _post(f"{API}/hosts/{{id}}/{verb}", handler, text, schema.HostRequestTaken, 202, **others)


async def _openapi(request: web.Request) -> web.Response:
    return web.Response(body=await context_of(request).read(openapi), content_type="application/json")


@cache
def openapi() -> bytes:
    """The OpenAPI document of all that is served. The first call takes some 50 ms."""
    return document(ROUTES)


_to_job = partial(limits.limited, what="connections to jobs", most=limits.MOST_OF_JOBS)
_get, _post = partial(Route, "GET"), partial(Route, "POST")
_LOGIN = "The login form's field `token`, exchanged for the page's cookie."
_READY = "Submissions would be looked at."
_SUBMIT, _IDS = "Queue one job, or a list of up to 10,000.", (schema_jobs.SubmittedJob, schema_jobs.SubmittedJobs)
_PREDICT = "Forecast without queueing."
_SHADOW = "What sharing would have done."
_USAGE = "What users and projects had of the devices."
_CHANNEL = "Work in an interactive job, through a WebSocket."
_TREE = "Name the files that jobs are to run with; which contents are missing."
_RESULTS = "The files that a job with `sync` made or changed."
ROUTES: tuple[Route, ...] = (
    _get("/", page.overview, "The page of the devices: who shares with whom, what waits.", media="text/html"),
    _get("/queue", queue_page, "The page of the queue.", media="text/html", query=params.QueuePageQuery),
    _get("/jobs/{id}", job_page, "The page of one job.", media="text/html", query=params.JobPageQuery),
    _get("/jobs/{id}/terminal", terminal_page, "The page of a job's terminal.", media="text/html"),
    _get("/timeline", timeline_page, "The page of the timeline.", media="text/html", query=params.TimelineQuery),
    _get("/week", week_page, "The page of what the last days brought.", media="text/html", query=params.WeekQuery),
    _get("/submit", submit_page, "The page that submits a job.", media="text/html", query=params.SubmitPageQuery),
    _get("/administration", administration, "The page of hosts, quotas and tokens.", media="text/html"),
    _get("/pairs", pairs_page, "The page of pairs of kinds.", media="text/html", query=params.PairsQuery),
    _get("/model", model_page, "The page of the model.", media="text/html", role=Role.OPERATOR),
    _post(LOGIN, page.login, _LOGIN, media="text/html", public=True),
    _get("/static/{name}", page.static, "The scripts and the style of the pages.", media="text/plain"),
    _get("/livez", system.livez, "This process turns.", media="text/plain", public=True),
    _get("/readyz", system.readyz, _READY, schema.Ready, also={503: "They would not."}, public=True),
    _get("/metrics", system.prometheus, "Prometheus metrics.", media="text/plain", role=Role.OPERATOR),
    _get("/version", system.version, "Which gpuq answers.", schema.Version),
    _post(f"{API}/jobs", submit.submit, _SUBMIT, _IDS, 201, (Submission, params.Batch), headers=params.SubmitHeaders),
    _get(f"{API}/jobs", jobs.jobs, "List jobs.", schema_jobs.JobList, query=params.ListQuery),
    _get(f"{API}/jobs/{{id}}", jobs.show, "One job.", schema_jobs.JobView),
    _get(f"{API}/arrays", jobs.arrays, "Arrays.", schema_jobs.ArrayList, query=params.ArraysQuery),
    *_control("cancel", "End"),
    *_control("hold", "Keep from starting"),
    *_control("release", "Let go on, after a hold,"),
    _post(
        f"{API}/jobs/edit",
        edit,
        "Change what jobs ask for.",
        schema_jobs.EditsTaken,
        also=_LATER,
        query=params.WaitQuery,
        body=bodies.EditBody,
    ),
    _post(
        f"{API}/jobs/edit/preview",
        preview,
        "Whose expected start such a change would move.",
        schema_jobs.Preview,
        body=bodies.EditBody,
    ),
    _get(f"{API}/jobs/{{id}}/logs", logs.output, "What a job wrote.", query=params.LogsQuery, media=BYTES),
    _get(f"{API}/jobs/{{id}}/files", _to_job(files.results), _RESULTS, query=params.FilesQuery, media=BYTES),
    _post(f"{API}/trees", files.keep_tree, _TREE, schema_jobs.TreeTaken, body=bodies.TreeBody),
    _post(f"{API}/trees/files", files.take_files, "Send contents of a tree's files.", schema_jobs.FilesTaken),
    _get(f"{API}/jobs/{{id}}/explanation", jobs.explain, "Why a job is where it is.", schema_jobs.Explanation),
    _get(f"{API}/jobs/{{id}}/series", series, "What a job used over time.", Series, query=params.SeriesQuery),
    _get(f"{API}/jobs/{{id}}/channels/{{name}}", _to_job(channels.channel), _CHANNEL, status=101, media=BYTES),
    _post(f"{API}/jobs/{{id}}/ticket", channels.ticket, "A ticket for a page to work in a job.", schema.Ticket),
    _get(f"{API}/jobs/{{id}}/notebook", channels.notebook, "How to enter a notebook.", schema.Notebook),
    _post(f"{API}/predict", predict.predict, _PREDICT, Prediction, body=Submission, query=params.PredictQuery),
    _get(
        f"{API}/gpus",
        system.devices,
        "Devices and their residents.",
        list[schema.DeviceView],
        query=params.DevicesQuery,
    ),
    _get(f"{API}/queue", system.queue, "Waiting jobs in order.", schema.Queue),
    _get(
        f"{API}/events",
        events,
        "The journal as server-sent events.",
        schema.EventView,
        query=params.EventsQuery,
        headers=params.EventsHeaders,
        media="text/event-stream",
    ),
    _get(f"{API}/policies", policies, "Policies: which was chosen, which proposes.", schema.Policies),
    _get(f"{API}/report/shadow", shadow, _SHADOW, ShadowReport, query=params.DaysQuery, role=Role.OPERATOR),
    _get(f"{API}/report/usage", usage, _USAGE, UsageReport, query=params.UsageQuery),
    _get(f"{API}/models", models.models, "The model shelf.", dict[str, Any], role=Role.OPERATOR),
    _post(f"{API}/models/train", models.train, "Train a candidate now.", dict[str, Any], role=Role.ADMIN),
    _post(f"{API}/models/rollback", models.rollback, "Serve the model before.", dict[str, Any], role=Role.ADMIN),
    _get(f"{API}/hosts", hosts.hosts, "Hosts and their states.", list[schema.HostView]),
    _host("drain", "Keep new jobs off a host.", hosts.drain, body=bodies.DrainBody, role=Role.OPERATOR),
    _host("resume", "Put a host back into service.", hosts.resume, role=Role.OPERATOR),
    _host("lost", "End what ran on a host that will not come back.", hosts.lost, role=Role.ADMIN),
    _host("forget", "Remove a host that will not come back, with its devices.", hosts.forget, role=Role.ADMIN),
    _host("rotate", "Have a host make a new key and get a new certificate.", hosts.rotate, role=Role.ADMIN),
    _post(f"{API}/hosts/{{id}}/add", hosts.add, "Invite a host to join.", schema.Invited, 201, role=Role.ADMIN),
    _get(f"{API}/bookings", bookings.listing, "Reservations of devices by users.", list[schema.BookingView]),
    _post(f"{API}/bookings", bookings.make, "Reserve devices.", schema.BookingView, 201, bodies.BookingBody),
    _post(f"{API}/bookings/{{id}}/cancel", bookings.cancel, "End a reservation now.", schema.BookingView),
    _get(f"{API}/quotas", quotas.listing, "Quotas and their use.", list[schema.QuotaView]),
    _post(
        f"{API}/quotas", quotas.put, "Set a quota.", schema.QuotaRequestTaken, 202, bodies.QuotaBody, role=Role.ADMIN
    ),
    _post(
        f"{API}/quotas/remove",
        quotas.remove,
        "Remove a quota.",
        schema.QuotaRequestTaken,
        202,
        bodies.AccountBody,
        role=Role.ADMIN,
    ),
    _get(f"{API}/tokens", tokens.listing, "The caller's tokens; an admin sees all.", schema.TokenList),
    _post(f"{API}/tokens", tokens.make, "Make a token.", schema.NewToken, 201, bodies.TokenBody),
    _post(f"{API}/tokens/{{id}}/revoke", tokens.revoke, "Revoke a token.", schema.TokenView),
    _get(f"{API}/openapi.json", _openapi, "This document.", dict[str, Any]),
)
