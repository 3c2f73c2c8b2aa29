"""Everything that is served, in one table. The router and the OpenAPI document are both made from it.

A line says the method, the address, who handles it, what it takes and what it gives. A route without a line does not
exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from gpuq.api import handlers_jobs as jobs
from gpuq.api import handlers_logs, handlers_predict, handlers_submit, handlers_system
from gpuq.api.events import events
from gpuq.api.handlers_shadow import shadow
from gpuq.api.identity import LOGIN
from gpuq.api.page import handlers as page
from gpuq.api.policies import policies
from gpuq.api.schema import (
    Asked,
    DeviceView,
    EventView,
    Explanation,
    JobList,
    JobView,
    Policies,
    Queue,
    Ready,
    Submitted,
    SubmittedMany,
    Version,
)
from gpuq.api.schema_would import Prediction, ShadowReport
from gpuq.submission import Submission

API = "/api/v1"


@dataclass(frozen=True, slots=True)
class Query:
    """A value that an address takes behind its question mark. `place` may also be `header`."""

    name: str
    type: str
    text: str
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the table. `body` and `gives` are types, a tuple for one of several; None for what is no JSON."""

    method: str
    path: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    text: str
    gives: Any = None
    status: int = 200
    body: Any = None
    takes: tuple[Query, ...] = ()
    media: str = "application/json"
    public: bool = False


_WAIT = (Query("wait", "integer", "Seconds to wait for the dispatcher to carry it out (default 1)."),)
_EVENTS = (
    Query("after", "string", "Go on behind this event: its `id`, or its number."),
    Query("Last-Event-ID", "string", "The same, as browsers send it.", "header"),
    Query("job", "integer", "Only entries that name this job."),
    Query("all", "boolean", "Also entries that name no job."),
)
_LIST = (
    Query("state", "string", "States, separated by commas; also `waiting`, `active`, `ended`."),
    Query("owner", "string", "`me`, `all` (the default) or a user's name."),
    Query("ids", "string", "Ids, separated by commas."),
    Query("limit", "integer", "Jobs on a page: 1 to 1000 (default 100)."),
    Query("after", "integer", "The cursor `next` of the page before."),
    Query("order", "string", "`newest` (the default) or `oldest` first."),
)
_LOGS = (
    Query("offset", "integer", "First byte of the whole log; a negative number counts from its end."),
    Query("limit", "integer", "Bytes at most."),
    Query("follow", "boolean", "Go on until the job has ended."),
    Query("attempt", "integer", "Which attempt; the last one by default."),
)
_KEY = (Query("Idempotency-Key", "string", "The same key gives the same job: safe to send again.", "header"),)

_PREDICT = (
    Query("beside", "string", "A job's id or a kind: what sharing with it would cost."),
    Query("device_type", "string", "Only this type of device."),
)

_DAYS = (Query("days", "integer", "How many days back: 1 to 3660 (default 7)."),)

ROUTES: tuple[Route, ...] = (
    Route("GET", "/", page.show, "The page: devices, who shares with whom, the queue.", media="text/html"),
    Route(
        "POST",
        LOGIN,
        page.login,
        "The login form's field `token`, exchanged for the page's cookie.",
        status=303,
        media="text/plain",
        public=True,
    ),
    Route("GET", "/static/{name}", page.static, "The page's script and style.", media="text/plain"),
    Route("GET", "/livez", handlers_system.livez, "This process turns.", media="text/plain", public=True),
    Route("GET", "/readyz", handlers_system.readyz, "Submissions would be looked at.", Ready, public=True),
    Route("GET", "/metrics", handlers_system.prometheus, "Prometheus metrics.", media="text/plain"),
    Route("GET", "/version", handlers_system.version, "Which gpuq answers.", Version),
    Route(
        "POST",
        f"{API}/jobs",
        handlers_submit.submit,
        "Queue one job, or a list of up to 10,000.",
        (Submitted, SubmittedMany),
        status=201,
        body=Submission | list[Submission],
        takes=_KEY,
    ),
    Route("GET", f"{API}/jobs", jobs.jobs, "List jobs.", JobList, takes=_LIST),
    Route("GET", f"{API}/jobs/{{id}}", jobs.show, "One job.", JobView),
    Route("POST", f"{API}/jobs/{{id}}/cancel", jobs.cancel, "End a job.", Asked, takes=_WAIT),
    Route("POST", f"{API}/jobs/{{id}}/hold", jobs.hold, "Keep a job waiting.", Asked, takes=_WAIT),
    Route("POST", f"{API}/jobs/{{id}}/release", jobs.release, "Let a held job go on.", Asked, takes=_WAIT),
    Route(
        "GET",
        f"{API}/jobs/{{id}}/logs",
        handlers_logs.output,
        "What a job wrote.",
        takes=_LOGS,
        media="application/octet-stream",
    ),
    Route("GET", f"{API}/jobs/{{id}}/explanation", jobs.explain, "Why a job is where it is.", Explanation),
    Route(
        "POST",
        f"{API}/predict",
        handlers_predict.predict,
        "Forecast without queueing.",
        Prediction,
        body=Submission,
        takes=_PREDICT,
    ),
    Route("GET", f"{API}/gpus", handlers_system.devices, "Devices and their residents.", list[DeviceView]),
    Route("GET", f"{API}/queue", handlers_system.queue, "Waiting jobs in order.", Queue),
    Route(
        "GET",
        f"{API}/events",
        events,
        "The journal as server-sent events.",
        EventView,
        takes=_EVENTS,
        media="text/event-stream",
    ),
    Route("GET", f"{API}/policies", policies, "Policies: which was chosen, which proposes.", Policies),
    Route("GET", f"{API}/report/shadow", shadow, "What sharing would have done.", ShadowReport, takes=_DAYS),
    Route("GET", f"{API}/models", handlers_system.models, "The model shelf.", dict[str, Any]),
    Route("POST", f"{API}/models/train", handlers_system.train, "Train a candidate now.", dict[str, Any]),
    Route("POST", f"{API}/models/rollback", handlers_system.rollback, "Serve the model before.", dict[str, Any]),
    Route("GET", f"{API}/openapi.json", handlers_system.openapi, "This document.", dict[str, Any]),
)
