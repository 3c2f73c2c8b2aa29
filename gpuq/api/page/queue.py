"""The page of the queue: jobs that wait, run or ended, filtered and sorted, with what the caller may do to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from gpuq.adapters.store.contract import AttemptRow, JobRow, Selection, Store
from gpuq.api import views, visibility
from gpuq.api.context import context_of
from gpuq.api.contract import params
from gpuq.api.contract.schema import JobLine
from gpuq.api.handlers.jobs import device_names, jobs_page, waiting_order
from gpuq.api.identity import Caller, caller_of
from gpuq.api.page.frame import page
from gpuq.api.page.why import deciding_numbers
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobId, JobState
from gpuq.format import expected_start
from gpuq.messages.live import LiveView
from gpuq.messages.verdicts import RULES

PAGE = 100
SORTED_UP_TO = 2000
"""Sorting by what only a job's row says takes all rows; beyond this number the place decides."""
_STATES = {"waiting": WAITING, "running": ACTIVE, "ended": ENDED}


@dataclass(frozen=True)
class Row:
    """A job in a list: `why` is the rule in words, `numbers` its calculation, `starts` when it will probably start."""

    line: JobLine
    place: int | None
    why: str
    numbers: str | None
    starts: str | None


async def queue(request: web.Request) -> web.Response:
    """The page of the queue."""
    context = context_of(request)
    query = params.query(request, params.QueuePageQuery)
    live = await context.live.read()
    names = await device_names(context, live.view)
    places = {job: place for place, job in enumerate(await waiting_order(context), 1)}
    selection = _selection(query, caller_of(request), sees_all=visibility.sees_all(request))
    found = await context.read(_look, context.store, query, selection, places)
    starts = live.view.starts if live.view else {}
    if query.show == "waiting":
        lines = [waiting_row(request, row, names, places.get(row.id), starts) for row in found.rows]
    else:
        lines = [_row(request, row, found.last.get(row.id, ()), live.view, names) for row in found.rows]
    return await page(
        request,
        "queue",
        live,
        query=query,
        rows=lines,
        found=found,
        first=(query.page - 1) * PAGE + 1,
    )


def waiting_row(
    request: web.Request, row: JobRow, names: DeviceNames, place: int | None, starts: dict[int, tuple[float, float]]
) -> Row:
    """A waiting job, with the rule and the numbers that keep it waiting."""
    line = visibility.job(request, views.job_line(row, (), None, names, place))
    moments = views.expected_start(starts.get(row.id) if row.state is JobState.PENDING else None)
    now = context_of(request).now()
    about = expected_start({"p50_unix": moments.p50_unix, "p90_unix": moments.p90_unix}, now) if moments else None
    if row.state is JobState.HELD:
        return Row(line, None, "Held", None, None)
    verdict = line.verdict
    if verdict is None:
        return Row(line, place, views.reason_in_words(row, names).rstrip("."), None, about)
    numbers = deciding_numbers(verdict)
    device = f"{verdict.device_name}: " if verdict.device_name and numbers else ""
    return Row(line, place, RULES.get(verdict.rule, verdict.rule), numbers and f"{device}{numbers}", about)


def _row(
    request: web.Request, row: JobRow, last: Sequence[AttemptRow], live: LiveView | None, names: DeviceNames
) -> Row:
    line = visibility.job(request, views.job_line(row, last, live, names))
    return Row(line, None, line.reason or "", None, None)


def _selection(query: params.QueuePageQuery, caller: Caller, *, sees_all: bool) -> Selection:
    owner = params.owner(query.owner, caller) if query.owner else None
    if query.name and not sees_all:
        owner = caller.user  # the names of others' jobs are not shown, so they cannot be searched
    pattern = query.name if any(sign in query.name for sign in "*?[") else f"*{query.name}*"
    return Selection(states=tuple(sorted(_STATES[query.show])), owner=owner, name=pattern if query.name else None)


@dataclass(frozen=True)
class _Found:
    """The jobs of a page and their last attempts. `total` is how many there are, None where they are not counted; `after` the
    cursor of the next page, where pages have cursors; `by_place` whether there are too many to be sorted as wanted."""

    total: int | None
    rows: list[JobRow]
    last: dict[JobId, list[AttemptRow]]
    more: bool
    after: JobId | None = None
    by_place: bool = False


def _look(store: Store, query: params.QueuePageQuery, selection: Selection, places: dict[int, int]) -> _Found:
    if query.show == "ended" and not query.name and query.sort in ("place", "newest", "oldest"):
        return _look_at_ended(store, query, selection)
    found = store.select(selection)
    ids = sorted(found, key=lambda job: (found[job] is JobState.HELD, places.get(job, len(places) + 1), job))
    if query.sort in ("newest", "oldest") or (query.show == "ended" and query.sort == "place"):
        ids = sorted(found, reverse=query.sort != "oldest")
    by_row = query.sort in ("name", "owner", "priority")
    if by_row and 0 < len(ids) <= SORTED_UP_TO:
        ids = [row.id for row in sorted(store.jobs(ids=ids), key=lambda row: _key(row, query.sort))]
    shown = ids[(query.page - 1) * PAGE : query.page * PAGE]
    if not shown:
        return _Found(len(ids), [], {}, more=False)
    rows, last = jobs_page(store, {"ids": shown})
    rank = {job: index for index, job in enumerate(shown)}
    rows.sort(key=lambda row: rank[row.id])
    return _Found(len(ids), rows, last, more=len(ids) > query.page * PAGE, by_place=by_row and len(ids) > SORTED_UP_TO)


def _look_at_ended(store: Store, query: params.QueuePageQuery, selection: Selection) -> _Found:
    """They may be many: they are read page by page, and not counted."""
    conditions = {
        "states": selection.states,
        "owner": selection.owner,
        "after": params.given(query.after),
        "limit": PAGE + 1,
        "newest_first": query.sort != "oldest",
    }
    rows, last = jobs_page(store, conditions)
    more = len(rows) > PAGE
    return _Found(None, rows[:PAGE], last, more, rows[PAGE - 1].id if more else None)


def _key(row: JobRow, sort: str) -> tuple[object, ...]:
    asked = row.record.submission
    if sort == "priority":
        return (-asked.priority, row.id)
    return ((row.record.owner if sort == "owner" else asked.name or "").casefold(), row.id)
