"""The store on SQLAlchemy Core, for SQLite and PostgreSQL. `contract.py` says what each call promises.

Any number of processes may call it: the API, the dispatcher, the trainer, the workers. Each call is one transaction. Every error
is one of `gpuq.errors`, and then nothing of the call was kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar, Unpack

import msgspec
from msgspec import structs
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    between,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)

from gpuq.adapters.store import array_records, bookings, claims, cycle, joined, journal, leadership, quotas, submit
from gpuq.adapters.store.array_records import ArrayRecords
from gpuq.adapters.store.contract import (
    ArrayRow,
    AttemptRow,
    Chance,
    Claim,
    Commit,
    Conditions,
    DeviceMark,
    Entry,
    JobLabel,
    JobRow,
    JoinedHost,
    Leader,
    LineRow,
    MarkKind,
    NameLease,
    QueuedJob,
    Request,
    Run,
    Selection,
    Service,
    Store,
    Token,
)
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.rows import (
    ATTEMPT_COLUMNS,
    CHANCE_COLUMNS,
    ITS_LINE,
    JOB_COLUMNS,
    LINE_COLUMNS,
    REQUEST_COLUMNS,
    RUN_COLUMNS,
    arrays_of,
    attempt_row,
    chance_row,
    device_row,
    edit_of_row,
    from_json,
    job_row,
    line_row,
    queued_job,
    request_row,
    run_row,
    to_json,
)
from gpuq.adapters.store.schema import (
    arrays,
    attempts,
    chances,
    device_marks,
    devices,
    drained_hosts,
    hosts,
    job_records,
    jobs,
    requests,
    tokens,
)
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.booking import Booking, BookingId, BookingRequest
from gpuq.core.state.device import Device
from gpuq.core.state.job import ENDED, JobId, JobState
from gpuq.core.state.quota import Quota
from gpuq.errors import NotFound
from gpuq.messages.job_record import JobRecord, task_kind, task_name

_JOBS = select(*JOB_COLUMNS).outerjoin(job_records, job_records.c.job == jobs.c.id)
_LINES = select(*LINE_COLUMNS)
_TASKS = jobs.alias()
_ATTEMPTS = select(*ATTEMPT_COLUMNS).order_by(attempts.c.job, attempts.c.number)
_FINISHED = (
    select(*JOB_COLUMNS, *ATTEMPT_COLUMNS)
    .outerjoin(job_records, job_records.c.job == jobs.c.id)
    .join(attempts, attempts.c.job == jobs.c.id)
    .where(attempts.c.ended_at.is_not(None), attempts.c.started_at.is_not(None))
    .order_by(attempts.c.ended_at, attempts.c.job, attempts.c.number)
)
_RUNS = (
    select(*RUN_COLUMNS)
    .join(jobs, jobs.c.id == attempts.c.job)
    .outerjoin(job_records, job_records.c.job == attempts.c.job)
    .where(attempts.c.started_at.is_not(None))
)
_NOT_ENDED = [state for state in JobState if state not in ENDED]
_MAX_ID = 2**63 - 1
# A newer gpuq may have written others.
_KINDS = [kind.value for kind in MarkKind]
# Old builds of SQLite take 999 values in one statement, and a range needs two.
_RANGES = 400
# So many names are looked through at a time.
_SCANNED = 2000
T = TypeVar("T")


class _Submitted(msgspec.Struct):
    name: str | None = None


class _Names(msgspec.Struct):
    """The fields of a `ListedRecord` that patterns are matched with. Decoding the whole of it would take longer."""

    kind: str
    submission: _Submitted


_NAMES = msgspec.json.Decoder(_Names)
_ESCAPED_IN_JSON = re.compile(r'["\\\x00-\x1f]')
_PLAIN_RUN = re.compile(r"[^*?\[\]]+")


class SqlStore(Store):
    """A `Store`. Safe to use from several threads; open another one after a fork."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._arrays = ArrayRecords()

    # --- for the API

    def add_jobs(self, records: Sequence[JobRecord]) -> list[JobId]:
        if not records:
            return []
        with self._database.writing() as connection:
            return submit.add_jobs(connection, records)

    def add_request(self, verb: str, job: JobId | None, by: str, at: float, body: Mapping[str, Any]) -> int:
        if job is not None and not _is_id(job):
            raise NotFound(f"There is no job {job}.")
        with self._database.writing() as connection:
            request = {"verb": verb, "job": job, "by": by, "at": at, "body": to_json(dict(body))}
            return submit.add_requests(connection, [request])

    def add_requests(self, verb: str, jobs: Sequence[JobId], by: str, at: float, body: Mapping[str, Any]) -> None:
        if jobs:
            request = {"verb": verb, "by": by, "at": at, "body": to_json(dict(body))}
            with self._database.writing() as connection:
                submit.add_requests(connection, [{**request, "job": job} for job in jobs])

    def add_booking(self, wanted: BookingRequest, at: float) -> Booking:
        with self._database.writing() as connection:
            return bookings.add(connection, wanted, at)

    def cancel_booking(self, booking: BookingId, by: str, at: float) -> None:
        with self._database.writing() as connection:
            bookings.cancel(connection, booking, by, at)

    def select(self, selection: Selection) -> dict[JobId, JobState]:
        by_names = selection.has_patterns
        query: Select[Any] = select(*(_name_columns(selection) if by_names else (jobs.c.id, jobs.c.state)))
        if by_names:
            query = query.where(*_may_match(selection))
        if selection.owner is not None:
            query = query.where(jobs.c.owner == selection.owner)
        if selection.states is not None:
            query = query.where(jobs.c.state.in_([state.value for state in selection.states]))
        with self._database.reading() as connection:
            rows: list[Any] = [
                row for ids in _in_ranges(selection.ids) for row in connection.execute(query.where(*ids)).all()
            ]
            if by_names:
                rows = self._matching(connection, rows, selection)
        return {JobId(row.id): JobState(row.state) for row in sorted(rows, key=attrgetter("id"))}

    def job(self, job: JobId) -> JobRow | None:
        rows = self.jobs(ids=[job])
        return rows[0] if rows else None

    def jobs(self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]) -> list[JobRow]:
        return self._listed(_JOBS, job_row, _of_arrays(tasks, array), conditions)

    def lines(
        self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]
    ) -> list[LineRow]:
        return self._listed(_LINES, line_row, _of_arrays(tasks, array), conditions)

    def arrays(self, **conditions: Unpack[Conditions]) -> list[ArrayRow]:
        limit, states, wanted = conditions.get("limit"), conditions.get("states"), _patterns(conditions)
        with self._database.reading() as connection:
            found: list[JobId] = []
            for ids in self._pages_of_arrays(connection, conditions):
                found += self._of_names(connection, ids, states, wanted) if wanted.has_patterns else ids
                if limit is not None and len(found) >= limit:
                    break
            found = found[:limit]
            records = self._arrays.read(connection, found)
            counts = array_records.count(connection, found)
        return [
            ArrayRow(
                id=array,
                record=records[array],
                states={state: number for state, (number, _) in counts[array].items()},
                first={state: first for state, (_, first) in counts[array].items()},
            )
            for array in found
        ]

    def _pages_of_arrays(self, connection: Connection, conditions: Conditions) -> Iterator[Sequence[JobId]]:
        """The arrays that meet the conditions, but for patterns, in their order; with patterns beyond the limit, too."""
        # No join: SQLite would walk all jobs of the owner, and look for each in the arrays.
        where: list[ColumnElement[bool]] = [exists().where(jobs.c.id == arrays.c.id, *_where(conditions))]
        if (states := conditions.get("states")) is not None:
            where.append(exists().where(_TASKS.c.of_array == arrays.c.id, _TASKS.c.state.in_(states)))
        query = select(arrays.c.id).where(*where).order_by(_in_order(conditions, arrays.c.id))
        if not _patterns(conditions).has_patterns:
            query = query.limit(conditions.get("limit"))
        chunks = _chunks_of_ids(conditions)
        for of_ids in [query] if chunks is None else [query.where(arrays.c.id.in_(chunk)) for chunk in chunks]:
            yield from cycle.chunks([JobId(row.id) for row in connection.execute(of_ids)])

    def _of_names(
        self, connection: Connection, ids: Sequence[JobId], states: Sequence[JobState] | None, wanted: Selection
    ) -> list[JobId]:
        """Those of these arrays that match the patterns by their own name, or of which a task in these states does."""
        matching: set[JobId] = set()
        for some in cycle.chunks(ids, array_records.KEPT):
            for array, record in self._arrays.read(connection, some).items():
                kinds = {record.kind, *(variant.kind for variant in record.variants)}
                asked = record.submission
                if any(wanted.matches(asked.name, kind, asked.project) for kind in kinds):
                    matching.add(array)
        others = [array for array in ids if array not in matching]
        tasks = select(*_name_columns(wanted)).where(*_may_match(wanted))
        if states is not None:
            tasks = tasks.where(jobs.c.state.in_(states))
        for some in cycle.chunks(others):
            rows = connection.execute(tasks.where(jobs.c.of_array.in_(some))).all()
            matching |= {row.of_array for row in self._matching(connection, rows, wanted)}
        return [array for array in ids if array in matching]

    def count_unended(self) -> dict[tuple[str, str | None, JobState], int]:
        columns = (jobs.c.owner, jobs.c.project, jobs.c.state)
        unended = sorted(state.value for state in JobState if state not in ENDED)
        query = select(*columns, func.count()).where(jobs.c.state.in_(unended)).group_by(*columns)
        return {(owner, project, JobState(state)): count for owner, project, state, count in self._rows(query)}

    def record_bytes(self, owner: str) -> int:
        unended = jobs.c.state.in_(sorted(state.value for state in JobState if state not in ENDED))
        of_jobs = (
            select(job_records.c.record)
            .join(jobs, jobs.c.id == job_records.c.job)
            .where(jobs.c.owner == owner, unended)
        )
        of_owner = select(jobs.c.of_array).where(jobs.c.owner == owner, jobs.c.of_array.is_not(None), unended)
        of_arrays = select(arrays.c.record).where(arrays.c.id.in_(of_owner))
        sizes = [
            select(func.coalesce(func.sum(func.length(query.subquery().c.record)), 0)) for query in (of_jobs, of_arrays)
        ]
        with self._database.reading() as connection:
            return sum(int(connection.execute(size).scalar_one()) for size in sizes)

    def count_by_state(self) -> dict[JobState, int]:
        query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        return {JobState(state): count for state, count in self._rows(query)}

    def labels(self, ids: Sequence[JobId]) -> dict[JobId, JobLabel]:
        query = select(*_name_columns(Selection()), jobs.c.owner)
        wanted = sorted({job for job in ids if _is_id(job)})
        with self._database.reading() as connection:
            chunks = (query.where(jobs.c.id.in_(chunk)) for chunk in cycle.chunks(wanted))
            rows: list[Any] = [row for chunk in chunks for row in connection.execute(chunk)]
            records = self._arrays.read(connection, arrays_of(row for row in rows if row.name is None))
        names = (_name_and_kind(row, records, by_kind=False)[0] for row in rows)
        return {row.id: JobLabel(row.owner, name or None) for row, name in zip(rows, names, strict=True)}

    def attempts(self, *of: JobId) -> list[AttemptRow]:
        wanted = sorted({job for job in of if _is_id(job)})
        queries = (_ATTEMPTS.where(attempts.c.job.in_(chunk)) for chunk in cycle.chunks(wanted))
        return [attempt_row(row) for row in self._rows(*queries)]

    def devices(self, *, forgotten: bool = True) -> list[Device]:
        query = select(devices).order_by(devices.c.host, devices.c.id)
        if not forgotten:
            query = query.where(devices.c.forgotten.is_(None))
        return [device_row(row._mapping) for row in self._rows(query)]

    def journal(
        self,
        *,
        after: int,
        limit: int,
        job: JobId | None = None,
        only_jobs: bool = False,
        names: Collection[str] | None = None,
    ) -> list[Entry]:
        with self._database.reading() as connection:
            if job is None:
                return journal.read(connection, after=after, limit=limit, only_jobs=only_jobs, names=names)
            return journal.read_job(connection, job, after=after, limit=limit) if _is_id(job) else []

    def add_token(self, token: Token) -> None:
        with self._database.writing() as connection:
            connection.execute(insert(tokens), structs.asdict(token))

    def token(self, token_id: str) -> Token | None:
        rows = self._rows(select(tokens).where(tokens.c.id == token_id))
        return Token(**rows[0]._mapping) if rows else None

    def tokens(self, *, user: str | None = None) -> list[Token]:
        query = select(tokens).order_by(tokens.c.made_at, tokens.c.id)
        if user is not None:
            query = query.where(tokens.c.user == user)
        return [Token(**row._mapping) for row in self._rows(query)]

    def revoke_token(self, token_id: str, at: float) -> None:
        valid = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
        with self._database.writing() as connection:
            connection.execute(valid.values(revoked_at=at))

    def joined_host(self, host: str) -> JoinedHost | None:
        with self._database.reading() as connection:
            return joined.read(connection, host)

    def replace_joined_host(self, before: JoinedHost | None, after: JoinedHost | None) -> bool:
        with self._database.writing() as connection:
            return joined.replace(connection, before, after)

    # --- for the dispatcher

    def take_leadership(self, holder: str, lease_s: float, *, above: int = 0) -> int | None:
        with self._database.writing() as connection:
            return leadership.take(connection, holder, lease_s, above)

    def release_leadership(self, epoch: int) -> None:
        with self._database.writing() as connection:
            leadership.release(connection, epoch)

    def leader(self) -> Leader:
        with self._database.reading() as connection:
            return leadership.read(connection)

    def requests(self, limit: int) -> list[Request]:
        query = select(*REQUEST_COLUMNS).order_by(requests.c.id).limit(limit)
        return [request_row(row) for row in self._rows(query)]

    def commit(self, commit: Commit) -> None:
        with self._database.writing() as connection:
            cycle.write(connection, commit)

    def revoke(self, attempt: AttemptId, at: float, *, epoch: int) -> Claim | None:
        with self._database.writing() as connection:
            leadership.renew(connection, epoch)
            return claims.revoke(connection, attempt, at)

    def queued_jobs(self, *, after: JobId | None, limit: int) -> list[QueuedJob]:
        newer = [jobs.c.id > after] if after is not None else []
        query = _JOBS.where(*newer, _in_states(_NOT_ENDED, newer, jobs.c.id, limit)).order_by(jobs.c.id).limit(limit)
        rows, records = self._with_arrays(query)
        return [queued_job(row, records) for row in rows]

    def live_attempts(self) -> list[AttemptRow]:
        return [attempt_row(row) for row in self._rows(_ATTEMPTS.where(attempts.c.ended_at.is_(None)))]

    def hosts(self) -> dict[str, tuple[str, int]]:
        return {row.host: (row.boot_id, row.spooled) for row in self._rows(select(hosts))}

    def drained(self) -> dict[str, str]:
        return {row.host: row.why for row in self._rows(select(drained_hosts))}

    def bookings(self, *, since: float) -> list[Booking]:
        with self._database.reading() as connection:
            return bookings.read(connection, since)

    def quotas(self) -> list[Quota]:
        with self._database.reading() as connection:
            return quotas.read(connection)

    def last_seq(self) -> int:
        with self._database.reading() as connection:
            return journal.last_seq(connection)

    def prune_journal(self, before: int, *, epoch: int) -> int:
        with self._database.writing() as connection:
            leadership.renew(connection, epoch)
            return journal.prune(connection, before)

    def services(self, *, since: float) -> list[Service]:
        of_job = (jobs.c.owner, jobs.c.project)
        columns = (*of_job, attempts.c.job, attempts.c.started_at, attempts.c.ended_at, attempts.c.devices)
        query = select(*columns).join(jobs, jobs.c.id == attempts.c.job)
        query = query.where(attempts.c.ended_at >= since, attempts.c.started_at.is_not(None))
        return [
            Service(
                owner=owner,
                project=project,
                job=job,
                started_at=started,
                ended_at=ended,
                devices=len(from_json(names)),
            )
            for owner, project, job, started, ended, names in self._rows(query.order_by(attempts.c.ended_at))
        ]

    # --- for learning

    def finished_attempts(self, *, since: float = 0.0, limit: int | None = None) -> list[tuple[JobRow, AttemptRow]]:
        query = _FINISHED.where(attempts.c.ended_at >= since).limit(limit)
        split = len(JOB_COLUMNS)
        rows, records = self._with_arrays(query)
        return [(job_row(row[:split], records), attempt_row(row[split:])) for row in rows]

    # --- for reports

    def runs(self, *, since: float) -> list[Run]:
        ended = _RUNS.where(attempts.c.ended_at.is_not(None), attempts.c.ended_at >= since)
        rows, records = self._with_arrays(ended, _RUNS.where(attempts.c.ended_at.is_(None)))
        return [run_row(row, records) for row in rows]

    def device_marks(self, *, since: float, until: float) -> list[DeviceMark]:
        marks = device_marks.c
        query = select(device_marks).where(marks.until_at >= since, marks.from_at <= until, marks.kind.in_(_KINDS))
        rows = self._rows(query.order_by(marks.from_at, marks.device, marks.kind, marks.detail))
        return [DeviceMark(**{**row._mapping, "kind": MarkKind(row.kind)}) for row in rows]

    # --- for shadow mode

    def chances(self, *, since: float = 0.0) -> list[Chance]:
        query = select(*CHANCE_COLUMNS).where(chances.c.at >= since).order_by(chances.c.at, chances.c.job)
        return [chance_row(row) for row in self._rows(query)]

    # --- for the hosts

    def claim(
        self, attempt: AttemptId, host: str, instance: str, boot_id: str, at: float
    ) -> tuple[JobRecord, Attempt] | None:
        if not _is_id(attempt.job):
            return None
        with self._database.writing() as connection:
            return claims.claim(connection, attempt, host, instance, boot_id, at, arrays=self._arrays)

    def lease_host(self, host: str, instance: str) -> NameLease:
        with self._database.writing() as connection:
            return claims.lease_host(connection, host, instance)

    def close(self) -> None:
        self._database.close()

    def _listed(
        self,
        columns: Select[Any],
        row_of: Callable[[Any, Mapping[JobId, JobRecord]], T],
        where: Sequence[ColumnElement[bool]],
        conditions: Conditions,
    ) -> list[T]:
        """The jobs that meet the conditions and `where`, of `columns`, by id."""
        limit, wanted = conditions.get("limit"), _patterns(conditions)
        with self._database.reading() as connection:
            if wanted.has_patterns:
                names = select(*_name_columns(wanted))
                found: list[JobId] = []
                while limit is None or len(found) < limit:
                    page: Conditions = {**conditions, "limit": _SCANNED}
                    rows = _rows_of(connection, names, [*where, *_may_match(wanted)], page)
                    found += [row.id for row in self._matching(connection, rows, wanted)]
                    if len(rows) < _SCANNED:
                        break
                    conditions = {**conditions, "after": rows[-1].id}
                in_order = conditions.get("newest_first", False)
                conditions, where = {"ids": found[:limit], "newest_first": in_order}, []
            rows = _rows_of(connection, columns, where, conditions)
            records = self._arrays.read(connection, arrays_of(rows))
        return [row_of(row, records) for row in rows]

    def _matching(self, connection: Connection, rows: Sequence[Any], wanted: Selection) -> list[Any]:
        """Those of these rows of `_name_columns` that match the patterns. Not by SQL alone: the two databases have different
        patterns, and kinds stand in JSON."""
        by_kind = wanted.kind is not None
        records = self._arrays.read(connection, arrays_of(row for row in rows if by_kind or row.name is None))
        return [row for row in rows if wanted.matches(*_name_and_kind(row, records, by_kind=by_kind), row.project)]

    def _with_arrays(self, *queries: Select[Any]) -> tuple[list[Any], Mapping[JobId, JobRecord]]:
        """The rows that these queries give, in one transaction, and the records of the arrays of their jobs."""
        with self._database.reading() as connection:
            rows = [row for query in queries for row in connection.execute(query)]
            return rows, self._arrays.read(connection, arrays_of(rows))

    def _rows(self, *queries: Select[Any]) -> list[Any]:
        """The rows that these queries give, in one transaction."""
        with self._database.reading() as connection:
            return [row for query in queries for row in connection.execute(query)]


def _is_id(job: int) -> bool:
    """Whether the number fits a 64-bit column; a database rejects larger ones with an error."""
    return 0 < job <= _MAX_ID


def _of_arrays(tasks: bool, array: JobId | None) -> list[ColumnElement[bool]]:
    """In SQL: no tasks of arrays unless `tasks`, and those of `array` only."""
    where: list[ColumnElement[bool]] = [] if tasks else [jobs.c.of_array.is_(None)]
    return where if array is None else [*where, jobs.c.of_array == array]


def _rows_of(
    connection: Connection, columns: Select[Any], also: Sequence[ColumnElement[bool]], conditions: Conditions
) -> list[Any]:
    """The jobs that meet the conditions, but for patterns, and `also`, in their order."""
    states, limit = conditions.get("states"), conditions.get("limit")
    where, order = [*_where(conditions), *also], _in_order(conditions, jobs.c.id)
    if states is not None:
        where.append(_in_states(states, where, order, limit))
    query = columns.where(*where).order_by(order)
    chunks = _chunks_of_ids(conditions)
    if chunks is None:
        return list(connection.execute(query.limit(limit)))
    return [row for chunk in chunks for row in connection.execute(query.where(jobs.c.id.in_(chunk)))][:limit]


def _chunks_of_ids(conditions: Conditions) -> list[Sequence[JobId]] | None:
    """The ids of the conditions in their order, some for each statement; None where they name none."""
    if (ids := conditions.get("ids")) is None:
        return None
    return list(cycle.chunks(sorted(filter(_is_id, set(ids)), reverse=conditions.get("newest_first", False))))


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
    if (after := conditions.get("after")) is not None:
        where.append(jobs.c.id < after if conditions.get("newest_first", False) else jobs.c.id > after)
    return where


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


def _in_states(
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
    for start in range(0, len(valid), _RANGES):
        yield [or_(*(between(jobs.c.id, first, last) for first, last in valid[start : start + _RANGES]))]
