"""The page of the queue: jobs that wait, run or ended, filtered and sorted, with what the caller may do to each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec
from aiohttp import web

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import ArrayRow, AttemptRow, Conditions, LineRow, Selection
from gpuq.api import views, visibility
from gpuq.api.context import context_of
from gpuq.api.contract import params
from gpuq.api.contract.schema_jobs import JobLine
from gpuq.api.handlers.jobs import device_names, jobs_page, waiting_order
from gpuq.api.identity import Caller, caller_of
from gpuq.api.page.frame import page
from gpuq.api.page.why import deciding_numbers
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobId, JobState
from gpuq.messages.job_record import JobRecord, ListedRecord
from gpuq.messages.live import LiveView
from gpuq.messages.verdicts import title

PAGE = 100
SORTED_UP_TO = 2000
"""Sorting by what only a job's row says takes all rows; beyond this number the place decides."""
_BY_ROW = ("name", "owner", "priority")
_STATES = {
    "waiting": WAITING,
    "running": ACTIVE,
    "ended": ENDED,
    "failed": ENDED - {JobState.COMPLETED, JobState.CANCELLED},
}


@dataclass(frozen=True)
class Row:
    """A job in a list: `why` is the rule in words, `numbers` its calculation, `starts` when it will probably start. `array`: the
    array that it stands for, as the first of its tasks in the order of the list."""

    line: JobLine
    place: int | None
    why: str
    numbers: str | None
    starts: str | None
    array: ArrayRow | None = None


async def queue(request: web.Request) -> web.Response:
    """The page of the queue."""
    context = context_of(request)
    query = params.query(request, params.QueuePageQuery)
    live = await context.live.read()
    names = await device_names(context, live.view)
    order = await waiting_order(context)
    places = {job: place for place, job in enumerate(order, 1)}
    selection = _selection(query, caller_of(request), sees_all=visibility.sees_all(request))
    found = await context.read(_look, context.store, query, selection, places, partial(visibility.sees, request))
    if query.show == "waiting":
        lines = [waiting_row(request, row, names, places.get(row.id), live.view) for row in found.rows]
    else:
        lines = [_row(request, row, found.last.get(row.id, ()), live.view, names) for row in found.rows]
    lines = [replace(line, array=_array_of(row, found.arrays)) for line, row in zip(lines, found.rows, strict=True)]
    first = await context.read(context.store.lines, ids=[JobId(job) for job in order[:1]])
    return await page(
        request,
        "queue",
        live,
        query=query,
        over=_is_over(query),
        head=first[0].record.submission.priority if first else None,
        rows=lines,
        found=found,
        first=(query.page - 1) * PAGE + 1,
    )


def waiting_row(
    request: web.Request, row: LineRow, names: DeviceNames, place: int | None, live: LiveView | None
) -> Row:
    """A waiting job, with the rule and the numbers that keep it waiting."""
    line = visibility.job(request, views.job_line(row, (), None, names, place))
    start = views.job_start(live, row.id) if row.state is JobState.PENDING else None
    about = views.start_in_words(start, context_of(request).now())
    if row.state is JobState.HELD:
        return Row(line, None, "Held", None, None)
    verdict = line.verdict
    if verdict is None:
        return Row(line, place, views.reason_in_words(row, names).rstrip("."), None, about)
    numbers = deciding_numbers(verdict)
    device = f"{verdict.device_name}: " if verdict.device_name and numbers else ""
    return Row(line, place, title(verdict.rule, verdict.numbers), numbers and f"{device}{numbers}", about)


def _row(
    request: web.Request, row: LineRow, last: Sequence[AttemptRow], live: LiveView | None, names: DeviceNames
) -> Row:
    line = visibility.job(request, views.job_line(row, last, live, names))
    return Row(line, None, line.reason or "", None, None)


def _selection(query: params.QueuePageQuery, caller: Caller, *, sees_all: bool) -> Selection:
    owner = params.owner(query.owner, caller) if query.owner else None
    if query.name and not sees_all:
        owner = caller.user  # the names of others' jobs are not shown, so they cannot be searched
    pattern = query.name if any(sign in query.name for sign in "*?[") else f"*{query.name}*"
    return Selection(states=tuple(sorted(_STATES[query.show])), owner=owner, name=pattern if query.name else None)


def _is_over(query: params.QueuePageQuery) -> bool:
    """Whether the page lists jobs that have ended."""
    return query.show in ("ended", "failed")


@dataclass(frozen=True)
class _Found:
    """The jobs of a page and their last attempts. `total` is how many there are, None where they are not counted, and `lines` the
    number of lines for them, in which an array of `arrays` is one; `after` the cursor of the next page, where pages have cursors;
    `by_place` whether there are too many to be sorted as wanted."""

    total: int | None
    rows: list[LineRow]
    last: dict[JobId, list[AttemptRow]]
    more: bool
    after: JobId | None = None
    by_place: bool = False
    lines: int = 0
    arrays: dict[JobId, ArrayRow] = field(default_factory=dict)


def _array_of(row: LineRow, arrays: Mapping[JobId, ArrayRow]) -> ArrayRow | None:
    return None if row.record.task is None else arrays.get(row.record.task.array)


def _look(
    store: Store,
    query: params.QueuePageQuery,
    selection: Selection,
    places: dict[int, int],
    sees: Callable[[str], bool],
) -> _Found:
    array = params.given(query.array)
    if _is_over(query) and not query.name and array is None:
        return _look_at_ended(store, query, selection, sees)
    of_array = store.arrays(ids=[JobId(array)]) if array is not None else []
    ranges = [(one.id, one.id + one.record.job_count - 1) for one in of_array]
    found = store.select(selection if array is None else msgspec.structs.replace(selection, ids=tuple(ranges)))
    arrays = [] if array is not None else store.arrays(states=selection.states, owner=selection.owner)
    if query.name:
        arrays = _whole(store, arrays, selection)
    ids = sorted(found, key=lambda job: (found[job] is JobState.HELD, places.get(job, len(places) + 1), job))
    if query.sort in ("newest", "oldest") or (_is_over(query) and query.sort == "place"):
        ids = sorted(found, reverse=query.sort != "oldest")
    ids = _one_of_each(ids, arrays)
    by_row = query.sort in _BY_ROW
    if by_row and 0 < len(ids) <= SORTED_UP_TO:
        rows = store.lines(ids=ids)
        ids = [row.id for row in sorted(rows, key=lambda row: _key(row.id, row.record, query.sort, sees))]
    shown = ids[(query.page - 1) * PAGE : query.page * PAGE]
    if not shown:
        return _Found(len(found), [], {}, more=False)
    rows, last = jobs_page(store, {"ids": shown})
    rank = {job: index for index, job in enumerate(shown)}
    rows.sort(key=lambda row: rank[row.id])
    return _Found(
        len(found),
        rows,
        last,
        more=len(ids) > query.page * PAGE,
        by_place=by_row and len(ids) > SORTED_UP_TO,
        lines=len(ids),
        arrays={one.id: one for one in arrays},
    )


def _whole(store: Store, arrays: Sequence[ArrayRow], selection: Selection) -> list[ArrayRow]:
    """Those of which every task has a name that was searched for. A button on the line of an array is for all its tasks."""
    ranges = tuple((one.id, one.id + one.record.job_count - 1) for one in arrays)
    ids = list(store.select(msgspec.structs.replace(selection, ids=ranges, states=None)))
    counts = (bisect_right(ids, last) - bisect_left(ids, first) for first, last in ranges)
    return [one for one, count in zip(arrays, counts, strict=True) if count == one.record.job_count]


def _one_of_each(ids: Sequence[JobId], arrays: Sequence[ArrayRow]) -> list[JobId]:
    """Of the tasks of each array only the first."""
    begins = sorted(one.id for one in arrays)
    counts = {one.id: one.record.job_count for one in arrays}
    found: dict[JobId, JobId] = {}
    for job in ids:
        array = begins[bisect_right(begins, job) - 1] if begins and job >= begins[0] else job
        found.setdefault(array if job - array < counts.get(array, 1) else job, job)
    return list(found.values())


def _look_at_ended(
    store: Store, query: params.QueuePageQuery, selection: Selection, sees: Callable[[str], bool]
) -> _Found:
    """They may be many: they are read page by page, and not counted."""
    after, by_row, newest_first = params.given(query.after), query.sort in _BY_ROW, query.sort != "oldest"
    conditions: Conditions = {
        "states": selection.states,
        "owner": selection.owner,
        "after": None if after is None else JobId(after),
        "limit": 1 + (SORTED_UP_TO if by_row and after is None else PAGE),
        "newest_first": newest_first,
    }
    singles, arrays = store.lines(tasks=False, **conditions), store.arrays(**conditions)
    ids = sorted([*(row.id for row in singles), *(array.id for array in arrays)], reverse=newest_first)
    if is_sorted := by_row and after is None and len(ids) <= SORTED_UP_TO:
        records = {row.id: row.record for row in singles} | {array.id: array.record for array in arrays}
        keys = {job: _key(job, record, query.sort, sees) for job, record in records.items()}
        ids.sort(key=keys.__getitem__)
    # A sorted page has no cursor.
    start = (query.page - 1) * PAGE if is_sorted else 0
    shown = ids[start : start + PAGE]
    shown_states = set(selection.states or ())
    first = {one.id: min(job for state, job in one.first.items() if state in shown_states) for one in arrays}
    rank = {first.get(job, job): place for place, job in enumerate(shown)}
    rows, last = jobs_page(store, {"ids": list(rank)})
    rows.sort(key=lambda row: rank[row.id])
    more = len(ids) > start + PAGE
    return _Found(
        len(ids) if is_sorted else None,
        rows,
        last,
        more,
        after=shown[-1] if more and not is_sorted else None,
        by_place=by_row and not is_sorted,
        lines=len(ids),
        arrays={one.id: one for one in arrays},
    )


def _key(job: JobId, record: JobRecord | ListedRecord, sort: str, sees: Callable[[str], bool]) -> tuple[object, ...]:
    """What jobs are sorted by. A name that is not shown is none: its place among own jobs would give it away."""
    asked = record.submission
    if sort == "priority":
        return (-asked.priority, job)
    name = asked.name if sees(record.owner) else None
    return ((record.owner if sort == "owner" else name or "").casefold(), job)
