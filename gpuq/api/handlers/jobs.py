"""Jobs: lists, one job, and why a job waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from aiohttp import web
from msgspec.structs import replace

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import ArrayRow, AttemptRow, JobRow, LineRow
from gpuq.api import views, visibility
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import params
from gpuq.api.contract.problem import TooManyAtOnce
from gpuq.api.contract.schema_jobs import ArrayLine, ArrayList, Explanation, JobList, JobView, VerdictView
from gpuq.api.deadline import ANSWER_WITHIN_S
from gpuq.api.identity import caller_of
from gpuq.api.live import Live
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import WAITING, JobId, JobState
from gpuq.errors import NotFound, Unreachable
from gpuq.messages.job_record import ListedSubmission, constraints_of
from gpuq.messages.live import LiveView
from gpuq.messages.submission import Submission

_FORECASTS_WITHIN_S = 1.0
MOST_READ = 16 * 2**20
"""Bytes of jobs, after which a page ends, whatever its limit is: a job may have more than a mebibyte, an array twenty."""
_AT_ONCE, _ARRAYS_AT_ONCE = 50, 10


async def jobs(request: web.Request) -> web.Response:
    """A page of jobs, newest first unless `order=oldest`."""
    context = context_of(request)
    query = params.query(request, params.ListQuery)
    caller = caller_of(request)
    owner = params.owner(query.owner, caller)
    patterns = {name: params.given(getattr(query, name)) for name in ("name", "kind", "project")}
    if any(value is not None for value in patterns.values()) and not visibility.sees_all(request):
        owner = caller.user  # those of others' jobs are not shown
    filters = {
        "ids": query.ids or None,
        "states": params.states(query.state),
        "owner": owner,
        **patterns,
        "after": params.given(query.after),
        "limit": query.limit + 1,  # one more, to see whether there is a next page
        "newest_first": query.order == "newest",
    }
    together = query.tasks == "together"
    of_array = {"tasks": not together, "array": params.given(query.array)}
    page = await context.read(_read_page, context.store, filters, of_array, query.limit, together=together)
    rows = page.jobs
    live = await context.live.read()
    forecasts = await _forecasts(context, rows, _FORECASTS_WITHIN_S)
    names = await device_names(context, live.view)
    places = await _places(context, [*rows, *(waiting for _, waiting in page.arrays if waiting)])
    lines = []
    for row in rows:
        forecast = forecasts.get(row.record.signature)
        line = views.job_line(row, page.attempts.get(row.id, ()), live.view, names, places.get(row.id), forecast)
        lines.append(visibility.job(request, replace(line, dispatcher=live.dispatcher)))
    return reply(JobList(jobs=lines, arrays=_array_lines(request, page.arrays, live, names, places), next=page.next))


async def arrays(request: web.Request) -> web.Response:
    """The arrays of these ids, as far as there are such."""
    context = context_of(request)
    query = params.query(request, params.ArraysQuery)
    found = await context.read(arrays_page, context.store, {"ids": query.ids})
    live = await context.live.read()
    names = await device_names(context, live.view)
    places = await _places(context, [waiting for _, waiting in found if waiting])
    return reply(ArrayList(arrays=_array_lines(request, found, live, names, places)))


def _array_lines(
    request: web.Request,
    arrays: Iterable[tuple[ArrayRow, LineRow | None]],
    live: Live,
    names: DeviceNames,
    places: Mapping[JobId, int],
) -> list[ArrayLine]:
    lines = (
        views.array_line(row, waiting, live.view, names, places.get(waiting.id) if waiting else None)
        for row, waiting in arrays
    )
    return [visibility.array(request, replace(line, dispatcher=live.dispatcher)) for line in lines]


async def _places(context: ApiContext, rows: Iterable[LineRow]) -> dict[JobId, int]:
    """The positions of those of these jobs that wait."""
    pending = {row.id for row in rows if row.state is JobState.PENDING}
    if not pending:
        return {}
    return {JobId(job): place for place, job in enumerate(await waiting_order(context), 1) if job in pending}


async def show(request: web.Request) -> web.Response:
    """One job with all its attempts."""
    view, _ = await view_of(request)
    return reply(view)


async def explain(request: web.Request) -> web.Response:
    """Why the job waits, or why it runs where it runs."""
    view, waiting = await view_of(request)
    sentences = [views.STATES[view.state]]
    if view.verdict is not None:
        # While a job waits for a device, the verdict alone says why.
        sentences = [*([] if view.state is JobState.PENDING else sentences), view.verdict.sentence]
    excluded: list[VerdictView] = []
    if view.state is JobState.PENDING and view.constraints is not None:
        context = context_of(request)
        row, _ = await find(context, request.match_info["id"])
        names = await device_names(context, (await context.live.read()).view)
        excluded = views.excluded(constraints_of(row.record.submission), await context.read(context.devices), names)
    return reply(
        Explanation(
            id=view.id,
            state=view.state,
            sentence=" ".join(sentences),
            verdict=view.verdict,
            position=view.position,
            waiting=waiting,
            expected_start=view.expected_start,
            device=view.device,
            device_name=view.device_name,
            partners=view.partners,
            forecast=view.forecast,
            attempts=view.attempts,
            dispatcher=view.dispatcher,
            excluded=excluded,
            blink=(view.live.blink if view.live else None) or view.actual.blink,
            lent_cores=view.live.lent_cores if view.live else (),
        )
    )


async def _forecasts(
    context: ApiContext, rows: Sequence[JobRow | LineRow], within_s: float
) -> dict[str, dict[str, Any]]:
    """Signature -> the current forecast, of the waiting jobs among `rows`. None of them where that takes longer, as while others
    analyse: the jobs are known without."""
    waiting = [row.record for row in rows if row.state in WAITING]
    if context.models is None or not waiting:
        return {}
    models, view = context.models, (await context.live.read()).view

    def forecasts() -> dict[str, dict[str, Any]]:
        models.watch(view)
        return models.forecasts(waiting)

    try:
        async with asyncio.timeout(within_s):
            return await context.analyse(forecasts)
    except (TimeoutError, TooManyAtOnce):
        return {}


# --- shared with other handlers and the page -------------------------------------------------------------------------


async def find(context: ApiContext, text: str) -> tuple[JobRow, list[AttemptRow]]:
    """The job of that id with its attempts. Raises NotFound."""
    job = params.job_id(text)

    def read() -> tuple[JobRow | None, list[AttemptRow]]:
        row = context.store.job(job)
        return row, context.store.attempts(job) if row is not None and row.attempt else []

    row, attempts = await context.read(read)
    if row is None:
        raise NotFound(f"There is no job {job}.")
    return row, attempts


async def waiting_order(context: ApiContext) -> list[int]:
    """The waiting jobs' ids in the order of their start; empty if Redis does not answer."""
    try:
        return list(await context.stream.waiting())
    except Unreachable:
        return []


async def device_names(context: ApiContext, live: LiveView | None) -> DeviceNames:
    """The display names of all known devices."""
    return await context.read(context.device_names, live)


def by_job(attempts: Iterable[AttemptRow]) -> dict[JobId, list[AttemptRow]]:
    """The attempts of each job, in their order."""
    found: dict[JobId, list[AttemptRow]] = {}
    for attempt in attempts:
        found.setdefault(attempt.job, []).append(attempt)
    return found


def arrays_page(store: Store, filters: dict[str, Any]) -> list[tuple[ArrayRow, LineRow | None]]:
    """Arrays, each with its first task that waits, of which pending ones go before held ones. Blocks."""
    return _with_first_waiting(store, store.arrays(**filters))


def _with_first_waiting(store: Store, found: list[ArrayRow]) -> list[tuple[ArrayRow, LineRow | None]]:
    waiting = {row.id: row.first.get(JobState.PENDING, row.first.get(JobState.HELD, JobId(0))) for row in found}
    rows = {row.id: row for row in store.lines(ids=list(waiting.values()))} if found else {}
    return [(row, rows.get(waiting[row.id])) for row in found]


def jobs_page(store: Store, filters: dict[str, Any]) -> tuple[list[LineRow], dict[JobId, list[AttemptRow]]]:
    """Jobs and the attempts of their last starts. Blocks."""
    rows = store.lines(**filters)
    return rows, _last_starts(store, rows)


def _last_starts(store: Store, rows: Iterable[LineRow]) -> dict[JobId, list[AttemptRow]]:
    started = [row for row in rows if row.state not in WAITING and row.attempt]
    attempts = by_job(store.attempts(*(row.id for row in started)))
    return {row.id: views.last_start(row, attempts.get(row.id, ())) for row in started}


class _Page(NamedTuple):
    """A page of a list: jobs with the attempts of their last starts, arrays as in `arrays_page`, and the id after which the next
    page begins, if there is one."""

    jobs: list[LineRow]
    attempts: dict[JobId, list[AttemptRow]]
    arrays: list[tuple[ArrayRow, LineRow | None]]
    next: JobId | None


def _read_page(store: Store, filters: dict[str, Any], of_array: dict[str, Any], limit: int, *, together: bool) -> _Page:
    """The first `limit` jobs, and arrays if `together`, but no more of them once MOST_READ bytes were read. Blocks."""
    newest_first = filters["newest_first"]
    arrays = set(store.array_ids(**filters)) if together else set()
    ids = sorted([*store.job_ids(**filters, **of_array), *arrays], reverse=newest_first)
    jobs, found, size, end = list[LineRow](), list[ArrayRow](), 0, 0
    while end < min(limit, len(ids)) and size <= MOST_READ:
        part = ids[end : min(limit, end + _AT_ONCE)]
        of_arrays = [one for one in part if one in arrays]
        if len(of_arrays) > _ARRAYS_AT_ONCE:
            part = part[: part.index(of_arrays[_ARRAYS_AT_ONCE])]
        end += len(part)
        # One that is in another state by now is left out.
        again = {"states": filters["states"], "newest_first": newest_first}
        some = store.lines(ids=[one for one in part if one not in arrays], **again)
        many = store.arrays(ids=of_arrays[:_ARRAYS_AT_ONCE], **again)
        size += sum(_bytes_of(row.record.submission) for row in some)
        size += sum(_bytes_of(row.record.submission) for row in many)
        jobs += some
        found += many
    next_ = ids[end - 1] if end < len(ids) else None
    return _Page(jobs, _last_starts(store, jobs), _with_first_waiting(store, found), next_)


def _bytes_of(asked: Submission | ListedSubmission) -> int:
    """About how many bytes the texts have that were read of it."""
    texts: Iterable[str] = (*asked.command, *asked.after)
    if isinstance(asked, Submission):
        params = () if asked.array is None else chain.from_iterable(asked.array.params.values())
        texts = (*texts, *asked.env.values(), asked.stdin or "", *params)
    return sum(map(len, texts))


async def view_of(request: web.Request) -> tuple[JobView, int | None]:
    """(the job of the address, how many jobs wait: None unless it is one of them)."""
    context = context_of(request)
    row, attempts = await find(context, request.match_info["id"])
    pending = row.state is JobState.PENDING
    order = await waiting_order(context) if pending else []
    live = await context.live.read()
    names = await device_names(context, live.view)
    forecast = (await _forecasts(context, [row], ANSWER_WITHIN_S)).get(row.record.signature)
    position = order.index(row.id) + 1 if row.id in order else None
    view = views.job_view(row, attempts, live.view, names, position, forecast)
    return visibility.job(request, replace(view, dispatcher=live.dispatcher)), len(order) if pending else None
