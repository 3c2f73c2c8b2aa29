"""Which jobs and arrays meet the conditions of a list. `row_types.py` says what the conditions mean.

Columns decide in SQL. Shell patterns are matched here, because the two databases have different ones, and kinds stand in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import structs
from sqlalchemy import ColumnElement, Connection, Select, between, case, exists, or_, select, union_all

from gpuq.adapters.store import array_records, cycle
from gpuq.adapters.store.array_records import ArrayRecords
from gpuq.adapters.store.row_types import Conditions, JobLabel, Selection
from gpuq.adapters.store.rows import ITS_LINE, arrays_of, edit_of_row
from gpuq.adapters.store.schema import arrays, jobs
from gpuq.core.state.job import JobId, JobState
from gpuq.messages.job_record import JobRecord, task_kind, task_name

_TASKS = jobs.alias()
_MAX_ID = 2**63 - 1
# Old builds of SQLite take 999 values in one statement, and a range needs two.
_RANGES = 400
# So many names are looked through at a time.
_SCANNED = 2000
_ESCAPED_IN_JSON = re.compile(r'["\\\x00-\x1f]')
_PLAIN_RUN = re.compile(r"[^*?\[\]]+")


class _Submitted(msgspec.Struct):
    name: str | None = None


class _Names(msgspec.Struct):
    """The fields of a `ListedRecord` that patterns are matched with. Decoding the whole of it would take longer."""

    kind: str
    submission: _Submitted


_NAMES = msgspec.json.Decoder(_Names)


def is_id(job: int) -> bool:
    """Whether the number fits a 64-bit column; a database rejects larger ones with an error."""
    return 0 < job <= _MAX_ID


def select_jobs(connection: Connection, kept: ArrayRecords, selection: Selection) -> dict[JobId, JobState]:
    """As `Store.select`."""
    by_names = selection.has_patterns
    query: Select[Any] = select(*(_name_columns(selection) if by_names else (jobs.c.id, jobs.c.state)))
    if by_names:
        query = query.where(*_may_match(selection))
    if selection.owner is not None:
        query = query.where(jobs.c.owner == selection.owner)
    if selection.states is not None:
        query = query.where(jobs.c.state.in_([state.value for state in selection.states]))
    ranges = _in_ranges(selection.ids)
    rows: list[Any] = [row for ids in ranges for row in connection.execute(query.where(*ids)).all()]
    if by_names:
        rows = _matching(connection, kept, rows, selection)
    return {JobId(row.id): JobState(row.state) for row in sorted(rows, key=attrgetter("id"))}


def labels(connection: Connection, kept: ArrayRecords, ids: Sequence[JobId]) -> dict[JobId, JobLabel]:
    """As `Store.labels`."""
    query = select(*_name_columns(Selection()), jobs.c.owner)
    wanted = sorted({job for job in ids if is_id(job)})
    chunks = (query.where(jobs.c.id.in_(chunk)) for chunk in cycle.chunks(wanted))
    rows: list[Any] = [row for chunk in chunks for row in connection.execute(chunk)]
    records = kept.read(connection, arrays_of(row for row in rows if row.name is None))
    names = (_name_and_kind(row, records, by_kind=False)[0] for row in rows)
    return {row.id: JobLabel(row.owner, name or None) for row, name in zip(rows, names, strict=True)}


def job_ids(
    connection: Connection, kept: ArrayRecords, tasks: bool, array: JobId | None, conditions: Conditions
) -> list[JobId]:
    """The ids of `Store.jobs`."""
    wanted, limit, where = _patterns(conditions), conditions.get("limit"), _of_arrays(tasks, array)
    if not wanted.has_patterns:
        return [row.id for row in _rows_of(connection, select(jobs.c.id), where, conditions)]
    names, where = select(*_name_columns(wanted)), [*where, *_may_match(wanted)]
    found: list[JobId] = []
    while limit is None or len(found) < limit:
        rows = _rows_of(connection, names, where, {**conditions, "limit": _SCANNED})
        found += [row.id for row in _matching(connection, kept, rows, wanted)]
        if len(rows) < _SCANNED:
            break
        conditions = {**conditions, "after": rows[-1].id}
    return found[:limit]


def jobs_in(
    connection: Connection,
    kept: ArrayRecords,
    columns: Select[Any],
    tasks: bool,
    array: JobId | None,
    conditions: Conditions,
) -> list[Any]:
    """These columns of the jobs of `Store.jobs`."""
    if not _patterns(conditions).has_patterns:
        return _rows_of(connection, columns, _of_arrays(tasks, array), conditions)
    ids = job_ids(connection, kept, tasks, array, conditions)
    return _rows_of(connection, columns, [], {"ids": ids, "newest_first": conditions.get("newest_first", False)})


def array_ids(connection: Connection, kept: ArrayRecords, conditions: Conditions) -> list[JobId]:
    """The ids of `Store.arrays`."""
    limit, states, wanted = conditions.get("limit"), conditions.get("states"), _patterns(conditions)
    found: list[JobId] = []
    for ids in _pages_of_arrays(connection, conditions):
        found += _of_names(connection, kept, ids, states, wanted) if wanted.has_patterns else ids
        if limit is not None and len(found) >= limit:
            break
    return found[:limit]


def _pages_of_arrays(connection: Connection, conditions: Conditions) -> Iterator[Sequence[JobId]]:
    """The arrays that meet the conditions, but for patterns, in their order; with patterns beyond the limit, too."""
    # No join: SQLite would walk all jobs of the owner, and look for each in the arrays.
    where = [exists().where(jobs.c.id == arrays.c.id, *_where(conditions)), *_after(conditions, arrays.c.id)]
    if (states := conditions.get("states")) is not None:
        where.append(exists().where(_TASKS.c.of_array == arrays.c.id, _TASKS.c.state.in_(states)))
    query = select(arrays.c.id).where(*where).order_by(_in_order(conditions, arrays.c.id))
    if not _patterns(conditions).has_patterns:
        query = query.limit(conditions.get("limit"))
    chunks = _chunks_of_ids(conditions)
    for of_ids in [query] if chunks is None else [query.where(arrays.c.id.in_(chunk)) for chunk in chunks]:
        yield from cycle.chunks([JobId(row.id) for row in connection.execute(of_ids)])


def _of_names(
    connection: Connection,
    kept: ArrayRecords,
    ids: Sequence[JobId],
    states: Sequence[JobState] | None,
    wanted: Selection,
) -> list[JobId]:
    """Those of these arrays that match the patterns by their own name, or of which a task in these states does."""
    matching: set[JobId] = set()
    others: list[JobId] = []
    without_name = structs.replace(wanted, name=None)
    for some in cycle.chunks(ids, array_records.KEPT):
        for array, record in kept.read(connection, some).items():
            asked, kinds = record.submission, {record.kind, *(variant.kind for variant in record.variants)}
            if any(wanted.matches(asked.name, kind, asked.project) for kind in kinds):
                matching.add(array)
            elif any(without_name.matches(None, kind, asked.project) for kind in kinds):
                others.append(array)  # its tasks may have other names, but no other kinds and projects
    tasks = select(*_name_columns(wanted)).where(*_may_match(wanted))
    if states is not None:
        tasks = tasks.where(jobs.c.state.in_(states))
    for some in cycle.chunks(others):
        rows = connection.execute(tasks.where(jobs.c.of_array.in_(some))).all()
        matching |= {row.of_array for row in _matching(connection, kept, rows, wanted)}
    return [array for array in ids if array in matching]


def _matching(connection: Connection, kept: ArrayRecords, rows: Sequence[Any], wanted: Selection) -> list[Any]:
    """Those of these rows of `_name_columns` that match the patterns."""
    by_kind = wanted.kind is not None
    records = kept.read(connection, arrays_of(row for row in rows if by_kind or row.name is None))
    return [row for row in rows if wanted.matches(*_name_and_kind(row, records, by_kind=by_kind), row.project)]


def _of_arrays(tasks: bool, array: JobId | None) -> list[ColumnElement[bool]]:
    """In SQL: no tasks of arrays unless `tasks`, and those of `array` only."""
    where: list[ColumnElement[bool]] = [] if tasks else [jobs.c.of_array.is_(None)]
    return where if array is None else [*where, jobs.c.of_array == array]


def _rows_of(
    connection: Connection, columns: Select[Any], also: Sequence[ColumnElement[bool]], conditions: Conditions
) -> list[Any]:
    """The jobs that meet the conditions, but for patterns, and `also`, in their order."""
    states, limit = conditions.get("states"), conditions.get("limit")
    where, order = [*_where(conditions), *_after(conditions, jobs.c.id), *also], _in_order(conditions, jobs.c.id)
    if states is not None:
        where.append(in_states(states, where, order, limit))
    query = columns.where(*where).order_by(order)
    chunks = _chunks_of_ids(conditions)
    if chunks is None:
        return list(connection.execute(query.limit(limit)))
    return [row for chunk in chunks for row in connection.execute(query.where(jobs.c.id.in_(chunk)))][:limit]


def _chunks_of_ids(conditions: Conditions) -> list[Sequence[JobId]] | None:
    """The ids of the conditions in their order, some for each statement; None where they name none."""
    if (ids := conditions.get("ids")) is None:
        return None
    return list(cycle.chunks(sorted(filter(is_id, set(ids)), reverse=conditions.get("newest_first", False))))


def _patterns(conditions: Conditions) -> Selection:
    """The patterns of the conditions. A project without a wildcard is none: a column has it."""
    project = conditions.get("project")
    is_pattern = project is not None and _PLAIN_RUN.fullmatch(project) is None
    return Selection(name=conditions.get("name"), kind=conditions.get("kind"), project=project if is_pattern else None)


def _where(conditions: Conditions) -> list[ColumnElement[bool]]:
    """In SQL, the conditions that jobs and arrays meet in the same way."""
    where = []
    if (owner := conditions.get("owner")) is not None:
        where.append(jobs.c.owner == owner)
    if (project := conditions.get("project")) is not None and _patterns(conditions).project is None:
        where.append(jobs.c.project == project)
    return where


def _after(conditions: Conditions, of: ColumnElement[int]) -> list[ColumnElement[bool]]:
    """In SQL, that this id comes after those of the page before."""
    if (after := conditions.get("after")) is None:
        return []
    return [of < after if conditions.get("newest_first", False) else of > after]


def _in_order(conditions: Conditions, of: ColumnElement[int]) -> ColumnElement[int]:
    return of.desc() if conditions.get("newest_first", False) else of


def _name_columns(wanted: Selection) -> tuple[ColumnElement[Any], ...]:
    """What is needed of a job to match these patterns."""
    # A line is long: it is read for what the row does not say.
    line = ITS_LINE if wanted.kind is not None else case((jobs.c.name.is_(None), ITS_LINE)).label("line")
    return jobs.c.id, jobs.c.state, jobs.c.of_array, jobs.c.edits, jobs.c.name, jobs.c.project, line


def _may_match(wanted: Selection) -> list[ColumnElement[bool]]:
    """True of each job that matches the patterns, and of some others: those with their longest runs of plain characters."""
    where: list[ColumnElement[bool]] = []
    if name := _longest_run(wanted.name):
        named = jobs.c.name.contains(name, autoescape=True)
        where.append(or_(named, jobs.c.name.is_(None), jobs.c.edits.is_not(None)))
    kind = _longest_run(wanted.kind)
    if kind and not _ESCAPED_IN_JSON.search(kind):
        where.append(or_(ITS_LINE.element.contains(kind, autoescape=True), jobs.c.of_array.is_not(None)))
    return where


def _longest_run(pattern: str | None) -> str:
    """The longest part of a pattern that stands for itself; empty for none."""
    return max(_PLAIN_RUN.findall(pattern), key=len, default="") if pattern and "[" not in pattern else ""


def _name_and_kind(row: Any, arrays: Mapping[JobId, JobRecord], *, by_kind: bool) -> tuple[str | None, str]:
    """The name of a job, and its kind; no kind unless `by_kind`."""
    name, kind = row.name, ""
    if row.of_array is not None:
        place = row.id - row.of_array
        name = task_name(arrays[row.of_array], row.of_array, place) if name is None else name
        kind = task_kind(arrays[row.of_array], place) if by_kind else ""
    elif by_kind or name is None:
        of = _NAMES.decode(row.line)
        name, kind = of.submission.name, of.kind
    if row.edits is not None:
        name = edit_of_row(row.edits).changes.get("name", name)
    return name, kind


def in_states(
    states: Sequence[JobState],
    conditions: Sequence[ColumnElement[bool]],
    order: ColumnElement[int],
    limit: int | None,
) -> ColumnElement[bool]:
    """The condition that a job is in one of `states`.

    With a limit, the first jobs of each state are picked through the index on (state, id), before any row is read.
    """
    if limit is None or len(states) < 2:
        return jobs.c.state.in_([state.value for state in states])
    each = (
        select(jobs.c.id).where(*conditions, jobs.c.state == state.value).order_by(order).limit(limit).subquery()
        for state in states
    )
    return jobs.c.id.in_(union_all(*(select(best.c.id) for best in each)))


def _in_ranges(ranges: Sequence[tuple[int, int]] | None) -> Iterator[list[ColumnElement[bool]]]:
    """Conditions, one per statement, that together select the jobs in these ranges."""
    if ranges is None:
        yield []
        return
    # A range may end beyond 64 bits, which the database would reject; one without any id selects nothing.
    valid = [(first, min(last, _MAX_ID)) for first, last in ranges if 0 < first <= min(last, _MAX_ID)]
    for some in cycle.chunks(valid, _RANGES):
        yield [or_(*(between(jobs.c.id, first, last) for first, last in some))]
