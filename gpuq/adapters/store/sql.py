"""The store on SQLAlchemy Core, for SQLite and PostgreSQL. `contract.py` says what each call promises.

Any number of processes may call it: the API, the dispatcher, the trainer, the workers. Each call is one transaction. Every error
is one of `gpuq.errors`, and then nothing of the call was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from msgspec import structs
from sqlalchemy import Select, func, insert, select, update

from gpuq.adapters.store import (
    array_records,
    bookings,
    claims,
    cycle,
    joined,
    journal,
    leadership,
    lists,
    quotas,
    submit,
)
from gpuq.adapters.store.array_records import ArrayRecords
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.lists import is_id
from gpuq.adapters.store.row_types import (
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
    Token,
)
from gpuq.adapters.store.rows import (
    ATTEMPT_COLUMNS,
    CHANCE_COLUMNS,
    JOB_COLUMNS,
    LINE_COLUMNS,
    REQUEST_COLUMNS,
    RUN_COLUMNS,
    arrays_of,
    attempt_row,
    chance_row,
    clean,
    device_row,
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
from gpuq.messages.job_record import JobRecord

_JOBS = select(*JOB_COLUMNS).outerjoin(job_records, job_records.c.job == jobs.c.id)
_LINES = select(*LINE_COLUMNS)
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
_NOT_ENDED = sorted(state for state in JobState if state not in ENDED)
# A newer gpuq may have written others.
_KINDS = [kind.value for kind in MarkKind]
T = TypeVar("T")


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
        if job is not None and not is_id(job):
            raise NotFound(f"There is no job {job}.")
        with self._database.writing() as connection:
            request = {"verb": verb, "job": job, "by": by, "at": at, "body": to_json(dict(body))}
            return submit.add_requests(connection, [request])

    def add_requests(self, verb: str, jobs: Sequence[JobId], by: str, at: float, body: Mapping[str, Any]) -> None:
        if jobs:
            request = {"verb": verb, "by": by, "at": at, "body": to_json(dict(body))}
            with self._database.writing() as connection:
                submit.add_requests(connection, [{**request, "job": job} for job in jobs])

    def count_requests(self, by: str) -> int:
        query = select(func.count()).where(requests.c.by == by, requests.c.verb.not_in(("submit", "submit_array")))
        [row] = self._rows(query)
        return int(row[0])

    def add_booking(self, wanted: BookingRequest, at: float) -> Booking:
        with self._database.writing() as connection:
            return bookings.add(connection, wanted, at)

    def cancel_booking(self, booking: BookingId, by: str, at: float) -> None:
        with self._database.writing() as connection:
            bookings.cancel(connection, booking, by, at)

    def select(self, selection: Selection) -> dict[JobId, JobState]:
        with self._database.reading() as connection:
            return lists.select_jobs(connection, self._arrays, selection)

    def job(self, job: JobId) -> JobRow | None:
        rows = self.jobs(ids=[job])
        return rows[0] if rows else None

    def jobs(self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]) -> list[JobRow]:
        return self._listed(_JOBS, job_row, tasks, array, conditions)

    def lines(
        self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]
    ) -> list[LineRow]:
        return self._listed(_LINES, line_row, tasks, array, conditions)

    def job_ids(
        self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]
    ) -> list[JobId]:
        with self._database.reading() as connection:
            return lists.job_ids(connection, self._arrays, tasks, array, conditions)

    def array_ids(self, **conditions: Unpack[Conditions]) -> list[JobId]:
        with self._database.reading() as connection:
            return lists.array_ids(connection, self._arrays, conditions)

    def arrays(self, **conditions: Unpack[Conditions]) -> list[ArrayRow]:
        with self._database.reading() as connection:
            found = lists.array_ids(connection, self._arrays, conditions)
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

    def count_unended(self) -> dict[tuple[str, str | None, JobState], int]:
        columns = (jobs.c.owner, jobs.c.project, jobs.c.state)
        query = select(*columns, func.count()).where(jobs.c.state.in_(_NOT_ENDED)).group_by(*columns)
        return {(owner, project, JobState(state)): count for owner, project, state, count in self._rows(query)}

    def record_bytes(self, owner: str) -> int:
        # The index by owner has all jobs that ever ended, too. No index has this expression, so that by state is used.
        mine = (func.coalesce(jobs.c.owner, "") == owner, jobs.c.state.in_(_NOT_ENDED))
        of_jobs = (
            select(func.sum(func.length(job_records.c.record))).join(jobs, jobs.c.id == job_records.c.job).where(*mine)
        )
        of_owner = select(jobs.c.of_array).where(*mine, jobs.c.of_array.is_not(None))
        of_arrays = select(func.sum(func.length(arrays.c.record))).where(arrays.c.id.in_(of_owner))
        with self._database.reading() as connection:
            return sum(int(connection.execute(query).scalar_one() or 0) for query in (of_jobs, of_arrays))

    def count_by_state(self) -> dict[JobState, int]:
        query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        return {JobState(state): count for state, count in self._rows(query)}

    def labels(self, ids: Sequence[JobId]) -> dict[JobId, JobLabel]:
        with self._database.reading() as connection:
            return lists.labels(connection, self._arrays, ids)

    def attempts(self, *of: JobId) -> list[AttemptRow]:
        wanted = sorted({job for job in of if is_id(job)})
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
        until: int | None = None,
    ) -> list[Entry]:
        with self._database.reading() as connection:
            if job is None:
                return journal.read(connection, after, limit, only_jobs=only_jobs, names=names, until=until)
            return journal.read_job(connection, job, after=after, limit=limit) if is_id(job) else []

    def add_token(self, token: Token) -> None:
        with self._database.writing() as connection:
            connection.execute(insert(tokens), structs.asdict(token))

    def token(self, token_id: str) -> Token | None:
        rows = self._rows(select(tokens).where(tokens.c.id == clean(token_id)))
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
        query = (
            _JOBS.where(*newer, lists.in_states(_NOT_ENDED, newer, jobs.c.id, limit)).order_by(jobs.c.id).limit(limit)
        )
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
        if not is_id(attempt.job):
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
        tasks: bool,
        array: JobId | None,
        conditions: Conditions,
    ) -> list[T]:
        with self._database.reading() as connection:
            rows = lists.jobs_in(connection, self._arrays, columns, tasks, array, conditions)
            records = self._arrays.read(connection, arrays_of(rows))
        return [row_of(row, records) for row in rows]

    def _with_arrays(self, *queries: Select[Any]) -> tuple[list[Any], Mapping[JobId, JobRecord]]:
        """The rows that these queries give, in one transaction, and the records of the arrays of their jobs."""
        with self._database.reading() as connection:
            rows = [row for query in queries for row in connection.execute(query)]
            return rows, self._arrays.read(connection, arrays_of(rows))

    def _rows(self, *queries: Select[Any]) -> list[Any]:
        """The rows that these queries give, in one transaction."""
        with self._database.reading() as connection:
            return [row for query in queries for row in connection.execute(query)]
