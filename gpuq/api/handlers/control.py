"""`cancel`, `hold` and `release`: of one job, or of all that meet conditions.

A request per job is committed in one transaction, and the dispatcher is woken. The dispatcher carries the requests out; the
answer waits a moment for that, so that it can give the outcome.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec
from aiohttp import web
from msgspec.structs import replace

from gpuq.adapters.store.row_types import Selection
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.schema_jobs import Refused, RequestsTaken, RequestTaken
from gpuq.api.handlers.jobs import find
from gpuq.api.identity import Caller, Role, caller_of
from gpuq.array import ranges
from gpuq.core.state.job import ACTIVE, WAITING, JobId, JobState
from gpuq.errors import Conflict, NotPermitted

Verb = Literal["cancel", "hold", "release"]
Handler = Callable[[web.Request], Awaitable[web.Response]]
States = Mapping[JobId, JobState]

LOOK_EVERY_S = 0.02
# At most this share of the waiting time is spent on queries.
_LOOK_SHARE = 0.2
_POSSIBLE: dict[Verb, frozenset[JobState]] = {
    "cancel": WAITING | ACTIVE,
    "hold": frozenset({JobState.PENDING}),
    "release": frozenset({JobState.HELD}),
}
_body = msgspec.json.Decoder(bodies.JobsBody)


def one(verb: Verb) -> Handler:
    """The handler that requests `verb` for the job of the address."""

    async def handle(request: web.Request) -> web.Response:
        context = context_of(request)
        wait = params.query(request, params.WaitQuery).wait
        row, _ = await find(context, request.match_info["id"])
        visibility.check_manages(request, row.id, row.record.owner)
        if row.state not in _POSSIBLE[verb]:
            raise Conflict(f"Job {row.id} {_obstacle(verb, row.state)}.")
        await context.request(verb, [row.id], caller_of(request).user)
        before = {row.id: row.state}
        state = (await _wait_for_changes(context, before, wait)).get(row.id, row.state)
        done = state is not row.state
        return reply(RequestTaken(id=row.id, asked=verb, state=state, done=done), 200 if done else 202)

    return handle


def many(verb: Verb) -> Handler:
    """The handler that requests `verb` for every job that meets the conditions of the body."""

    async def handle(request: web.Request) -> web.Response:
        context = context_of(request)
        wait = params.query(request, params.WaitQuery).wait
        wanted = await bodies.body(request, _body)
        selection, found = await selected(request, wanted.where, _POSSIBLE[verb])
        before = {job: state for job, state in found.items() if state in _POSSIBLE[verb]}
        now: States = before
        if before and not wanted.dry_run:
            await context.request(verb, list(before), caller_of(request).user)
            now = await _wait_for_changes(context, before, wait)
        refused = by_state({job: state for job, state in found.items() if job not in before})
        answer = RequestsTaken(
            asked=verb,
            dry_run=wanted.dry_run,
            jobs=by_state(before),
            now=by_state(now),
            refused=[Refused(state=state, ids=ids, why=_obstacle(verb, state)) for state, ids in refused.items()],
            missing=await context.read(missing, context, selection),
        )
        done = wanted.dry_run or all(now.get(job) is not state for job, state in before.items())
        return reply(answer, 200 if done else 202)

    return handle


async def selected(
    request: web.Request, where: bodies.Where, possible: frozenset[JobState]
) -> tuple[Selection, dict[JobId, JobState]]:
    """The conditions of a body, limited to what the caller may change, and the jobs that meet them. Raises NotPermitted."""
    context, caller = context_of(request), caller_of(request)
    selection = _selection(possible, where, caller)
    if caller.role < Role.OPERATOR:
        selection = await context.read(_own, context, caller, where, selection)
    return selection, await context.read(context.store.select, selection)


def _selection(possible: frozenset[JobState], where: bodies.Where, caller: Caller) -> Selection:
    """The body's conditions as a `Selection`.

    Jobs and states that are named are selected as such, and those for which the request is too late are refused. If neither is
    named, only jobs in states that the request is possible in are selected.
    """
    ids = params.given(where.ids)
    states = params.states(params.given(where.state) or ())
    if states is None and ids is None:
        states = sorted(possible)
    owner = params.given(where.owner)
    return Selection(
        ids=None if ids is None else tuple((one, one) if isinstance(one, int) else (one[0], one[1]) for one in ids),
        states=None if states is None else tuple(states),
        owner=None if owner is None else params.owner(owner, caller),
        name=params.given(where.name),
        kind=params.given(where.kind),
        project=params.given(where.project),
    )


def _own(context: ApiContext, caller: Caller, where: bodies.Where, selection: Selection) -> Selection:
    """The selection, limited to the caller's jobs. Raises NotPermitted if it names jobs or an owner beyond these. Blocks."""
    named = Selection(ids=selection.ids)
    own = replace(named, owner=caller.user)
    beyond = params.given(where.owner) not in (None, "me", caller.user)
    if beyond or (named.ids is not None and context.store.select(named) != context.store.select(own)):
        raise NotPermitted(
            f"Some of these jobs belong to others; {caller.user} may not change them.",
            fix="Name your own jobs only, or ask an operator: `operators` under [api] names them.",
        )
    return replace(selection, owner=caller.user)


def missing(context: ApiContext, selection: Selection) -> list[tuple[int, int]]:
    """The parts of the named id ranges without a job. Blocks."""
    if selection.ids is None:
        return []
    existing = list(context.store.select(Selection(ids=selection.ids)))
    missing: list[tuple[int, int]] = []
    for first, last in sorted(set(selection.ids)):
        expected = first
        for job in existing[bisect_left(existing, first) : bisect_right(existing, last)]:
            if job > expected:
                missing.append((expected, job - 1))
            expected = job + 1
        if expected <= last:
            missing.append((expected, last))
    return missing


def _obstacle(verb: Verb, state: JobState) -> str:
    """Why `verb` is impossible in this state, as a phrase that follows "Job 7"."""
    if verb == "cancel":
        return f"has already ended: it is {state}"
    if verb == "hold":
        why = "it is held already" if state is JobState.HELD else f"it is {state}"
        return f"cannot be held: {why}. Only a pending job can"
    return f"cannot be released: it is {state}. Only a held job can"


def by_state(states: States) -> dict[JobState, list[int]]:
    """The jobs in each state."""
    found: dict[JobState, list[int]] = defaultdict(list)
    for job, state in states.items():
        found[state].append(int(job))
    return found


async def _wait_for_changes(context: ApiContext, before: States, seconds: int) -> States:
    """The states of these jobs after at most `seconds`; returns earlier once each of them has changed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    selection = Selection(ids=ranges(before))
    while True:
        # Thousands of jobs make this query slow: the pause grows with it, so that waiting does not load the database.
        started = loop.time()
        now: States = await context.read(context.store.select, selection)
        changed = all(now.get(job) is not state for job, state in before.items())
        if changed or context.stopping.is_set() or loop.time() >= deadline:
            return now
        took = loop.time() - started
        await asyncio.sleep(max(LOOK_EVERY_S, min(took / _LOOK_SHARE, deadline - loop.time())))
