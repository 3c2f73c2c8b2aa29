"""Everything that is served, in one table. The router and the OpenAPI document are made from it.

A line has the method, the address, the handler, and the types of body, parameters and answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from gpuq.api.contract.parameters import (
    DaysQuery,
    EventsHeaders,
    EventsQuery,
    JobsBody,
    ListQuery,
    LogsQuery,
    PredictQuery,
    SubmitHeaders,
    WaitQuery,
)
from gpuq.api.contract.params import Batch
from gpuq.api.contract.schema import (
    DeviceView,
    EventView,
    Explanation,
    JobList,
    JobView,
    Policies,
    Queue,
    Ready,
    RequestsTaken,
    RequestTaken,
    SubmittedJob,
    SubmittedJobs,
    Version,
)
from gpuq.api.contract.schema_predict import Prediction, ShadowReport
from gpuq.api.handlers import control, jobs, logs, predict, submit, system
from gpuq.api.handlers.events import events
from gpuq.api.handlers.policies import policies
from gpuq.api.handlers.shadow import shadow
from gpuq.api.identity import LOGIN
from gpuq.api.page import handlers as page
from gpuq.submission import Submission

API = "/api/v1"


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the table. `body` and `gives` are types, or tuples of alternatives; None for what is not JSON.

    `also` maps further statuses of the answer to their meaning. `query` and `headers` are structs of `parameters.py`. `public`
    routes need no token.
    """

    method: str
    path: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    text: str
    gives: Any = None
    status: int = 200
    body: Any = None
    also: Mapping[int, str] = field(default_factory=dict)
    query: type[msgspec.Struct] | None = None
    headers: type[msgspec.Struct] | None = None
    media: str = "application/json"
    public: bool = False


_LATER = {202: "It is recorded, and will be carried out."}


def _control(verb: control.Verb, does: str) -> tuple[Route, Route]:
    """The routes for `verb` on one job and on many."""
    many, one = (control.many(verb), control.one(verb))
    path, query = f"{API}/jobs/{{id}}/{verb}", WaitQuery
    return (
        Route(
            "POST", f"{API}/jobs/{verb}", many, f"{does} jobs.", RequestsTaken, also=_LATER, query=query, body=JobsBody
        ),
        Route("POST", path, one, f"{does} a job.", RequestTaken, also=_LATER, query=query),
    )


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
    Route("GET", "/livez", system.livez, "This process turns.", media="text/plain", public=True),
    Route(
        "GET",
        "/readyz",
        system.readyz,
        "Submissions would be looked at.",
        Ready,
        also={503: "They would not."},
        public=True,
    ),
    Route("GET", "/metrics", system.prometheus, "Prometheus metrics.", media="text/plain"),
    Route("GET", "/version", system.version, "Which gpuq answers.", Version),
    Route(
        "POST",
        f"{API}/jobs",
        submit.submit,
        "Queue one job, or a list of up to 10,000.",
        (SubmittedJob, SubmittedJobs),
        status=201,
        body=(Submission, Batch),
        headers=SubmitHeaders,
    ),
    Route("GET", f"{API}/jobs", jobs.jobs, "List jobs.", JobList, query=ListQuery),
    Route("GET", f"{API}/jobs/{{id}}", jobs.show, "One job.", JobView),
    *_control("cancel", "End"),
    *_control("hold", "Keep from starting"),
    *_control("release", "Let go on, after a hold,"),
    Route(
        "GET",
        f"{API}/jobs/{{id}}/logs",
        logs.output,
        "What a job wrote.",
        query=LogsQuery,
        media="application/octet-stream",
    ),
    Route("GET", f"{API}/jobs/{{id}}/explanation", jobs.explain, "Why a job is where it is.", Explanation),
    Route(
        "POST",
        f"{API}/predict",
        predict.predict,
        "Forecast without queueing.",
        Prediction,
        body=Submission,
        query=PredictQuery,
    ),
    Route("GET", f"{API}/gpus", system.devices, "Devices and their residents.", list[DeviceView]),
    Route("GET", f"{API}/queue", system.queue, "Waiting jobs in order.", Queue),
    Route(
        "GET",
        f"{API}/events",
        events,
        "The journal as server-sent events.",
        EventView,
        query=EventsQuery,
        headers=EventsHeaders,
        media="text/event-stream",
    ),
    Route("GET", f"{API}/policies", policies, "Policies: which was chosen, which proposes.", Policies),
    Route("GET", f"{API}/report/shadow", shadow, "What sharing would have done.", ShadowReport, query=DaysQuery),
    Route("GET", f"{API}/models", system.models, "The model shelf.", dict[str, Any]),
    Route("POST", f"{API}/models/train", system.train, "Train a candidate now.", dict[str, Any]),
    Route("POST", f"{API}/models/rollback", system.rollback, "Serve the model before.", dict[str, Any]),
    Route("GET", f"{API}/openapi.json", system.openapi, "This document.", dict[str, Any]),
)
