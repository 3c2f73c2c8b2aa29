"""`edit`: new values for what jobs ask for, of one job or of all that meet conditions; all of them or none.

The answer has what would take each change back, as bodies of the same request.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isclose
from typing import Any

import msgspec
from aiohttp import web

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import JobRow, Selection
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.schema_jobs import EditsTaken, Refused, UndoEdit
from gpuq.api.handlers import control
from gpuq.api.handlers.submit import check_fits
from gpuq.api.identity import caller_of
from gpuq.array import ranges
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.edit import JobEdit, edit_of
from gpuq.core.state.job import WAITING, JobId, JobState
from gpuq.errors import Conflict, NotFound
from gpuq.messages.codec import plain
from gpuq.messages.job_record import edited_fields

_ROWS_AT_ONCE = 500
_body = msgspec.json.Decoder(bodies.EditBody)


async def edit(request: web.Request) -> web.Response:
    """Change every job that meets the conditions of the body. Raises Conflict, NotFound and NeverFits, and then none is."""
    context = context_of(request)
    wait = params.query(request, params.WaitQuery).wait
    wanted = await bodies.body(request, _body)
    change = edit_of(wanted.edit.changes)
    selection, found = await control.selected(request, wanted.where, WAITING)
    plan = await context.read(_plan, context, found, change)
    missing = await context.read(control.missing, context, selection)
    done, unchanged = True, list[int]()
    if not wanted.dry_run:
        _refuse(plan, missing)
        if plan.jobs:
            await context.request("edit", list(plan.jobs), caller_of(request).user, {"edit": plain(change)})
            done, unchanged = await _wait_for_edits(context, plan.jobs, change, wait)
    answer = EditsTaken(
        dry_run=wanted.dry_run,
        done=done,
        jobs=control.by_state(plan.jobs),
        unchanged=unchanged,
        refused=[Refused(state=state, ids=ids, why=why) for (state, why), ids in plan.refused.items()],
        missing=missing,
        undo=[
            UndoEdit(where={"ids": [list(one) for one in ranges(ids)]}, edit=msgspec.json.decode(before))
            for before, ids in plan.before.items()
        ],
    )
    return reply(answer, 200 if done else 202)


@dataclass
class _Plan:
    """The jobs that can be changed, with their states; those that cannot, by state and obstacle; and the values that the first
    have now, as JSON, with the jobs that have them."""

    jobs: dict[JobId, JobState] = field(default_factory=dict)
    refused: dict[tuple[JobState, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    before: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))


def _plan(context: ApiContext, found: Mapping[JobId, JobState], change: JobEdit) -> _Plan:
    """Raises NeverFits for a job that no device could run then. Blocks."""
    plan, fitting = _Plan(), set[Any]()
    for rows in _rows(context.store, list(found)):
        limits = _launched_limits(context.store, rows) if "time_limit_s" in change.changes else {}
        for row in rows:
            why = change.obstacle(row.state, limits.get(row.id))
            if why is not None:
                plan.refused[row.state, why].append(row.id)
                continue
            asked = row.record.submission
            needs = (asked.gpus, asked.hosts, asked.constraints)
            if change.gpu_memory is not None and needs not in fitting:
                names = DeviceNames(context.devices(), ())
                check_fits(edited_fields(asked, change), context.devices_to_fit(), names)
                fitting.add(needs)
            plan.jobs[row.id] = row.state
            plan.before[msgspec.json.encode({name: getattr(asked, name) for name in change.changes})].append(row.id)
    return plan


def _rows(store: Store, ids: Sequence[JobId]) -> Iterator[list[JobRow]]:
    """Their rows, some at a time: each task of an array has a copy of the environment."""
    for start in range(0, len(ids), _ROWS_AT_ONCE):
        yield store.jobs(ids=ids[start : start + _ROWS_AT_ONCE])


def _launched_limits(store: Store, rows: Sequence[JobRow]) -> dict[JobId, float]:
    """The time limits that the running ones of these jobs started with, the shortest of each; those without one are left out."""
    last = {row.id: row.attempt for row in rows if row.state is JobState.RUNNING}
    limits: dict[JobId, float] = {}
    for attempt in store.attempts(*last):
        limit = (attempt.launch.get("attempt") or {}).get("time_limit_s")
        if limit is not None and attempt.number >= last[attempt.job]:
            limits[attempt.job] = min(limit, limits.get(attempt.job, limit))
    return limits


def _refuse(plan: _Plan, missing: Sequence[tuple[int, int]]) -> None:
    """Raise for what keeps the jobs from being changed all together."""
    if missing:
        raise NotFound(f"There is no job {missing[0][0]}; nothing was changed.")
    if plan.refused:
        (_, why), ids = next(iter(plan.refused.items()))
        others = sum(map(len, plan.refused.values())) - 1
        also = f" {others:,} more of these jobs cannot be changed so either." if others else ""
        raise Conflict(
            f"Job {ids[0]} {why}. Nothing was changed.{also}",
            fix="Leave out the jobs, or the values, that cannot be changed; `gpuq queue` shows their states.",
        )


async def _wait_for_edits(
    context: ApiContext, before: Mapping[JobId, JobState], change: JobEdit, seconds: int
) -> tuple[bool, list[int]]:
    """(whether the dispatcher has handled the requests, the jobs that were too far by then). It handles them in order, so that of
    the last job says it of all."""
    loop = asyncio.get_running_loop()
    deadline, last = loop.time() + seconds, list(before)[-1]
    while True:
        row = await context.read(context.store.job, last)
        done = row is None or row.state is not before[last] or _has(row, change)
        if done or context.stopping.is_set() or loop.time() >= deadline:
            break
        await asyncio.sleep(control.LOOK_EVERY_S)
    if not done:
        return False, []
    now = await context.read(context.store.select, Selection(ids=ranges(before)))
    moved = [job for job, state in before.items() if now.get(job) is not state]
    rows = await context.read(lambda: list(chain.from_iterable(_rows(context.store, moved))))
    return True, [row.id for row in rows if not _has(row, change)]


def _has(row: JobRow, change: JobEdit) -> bool:
    """Whether the job has these values. Moments went through the dispatcher's clock and back."""

    def same(value: Any, wanted: Any) -> bool:
        if isinstance(value, float) and isinstance(wanted, float):
            return isclose(value, wanted, abs_tol=0.01)
        return bool(value == wanted)

    return all(same(getattr(row.record.submission, name), value) for name, value in change.changes.items())
