"""Write what one cycle of the dispatcher changes, in the transaction of the caller. The journal goes first, because it is the
fence.

If a row to be changed does not exist, the call raises and nothing of the cycle is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Table, Update, bindparam, delete, insert, update
from sqlalchemy.exc import IntegrityError

from gpuq.adapters.store import journal
from gpuq.adapters.store.contract import AttemptRow, Commit
from gpuq.adapters.store.rows import attempt_values, chance_values, change_values, clean, to_json, to_optional_json
from gpuq.adapters.store.schema import attempts, chances, devices, hosts, jobs, requests
from gpuq.core.state.attempt import AttemptId, StopReason
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import Conflict, Failure

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

# Old builds of SQLite take 999 values in one statement.
CHUNK: Final = 900

_CHANGE_JOB = (
    update(jobs)
    .where(jobs.c.id == bindparam("changed"))
    .values(
        {
            name: bindparam(name)
            for name in ("state", "state_since", "attempt", "alone", "cancel_requested", "verdict", "reason")
        }
    )
)
_HOLD = update(jobs).where(jobs.c.state == JobState.PENDING.value)
_ONE_ATTEMPT = (attempts.c.job == bindparam("of_job"), attempts.c.number == bindparam("of_number"))
_START_ATTEMPT = update(attempts).where(*_ONE_ATTEMPT).values(started_at=bindparam("at"), log_path=bindparam("log"))
_STOP_ATTEMPT = update(attempts).where(*_ONE_ATTEMPT).values(stop_reason=bindparam("why"))
_END_ATTEMPT = (
    update(attempts)
    .where(*_ONE_ATTEMPT)
    .values({name: bindparam(name) for name in ("ended_at", "ending", "exit_code", "reason", "measurement", "actual")})
)


def write(connection: Connection, commit: Commit) -> None:
    """Write all changes of a cycle. Raises Conflict if another dispatcher has written meanwhile, Failure for a missing row."""
    # First: its primary key fails if another dispatcher has used the number, before anything else was written.
    journal.append(connection, commit.entries)
    _update(connection, _CHANGE_JOB, [change_values(change) for change in commit.jobs])
    _hold(connection, commit.held)
    _launch(connection, commit.launched)
    _update(connection, _START_ATTEMPT, [_started(*started) for started in commit.started])
    _update(connection, _STOP_ATTEMPT, [_stopped(*stopped) for stopped in commit.stopped])
    _update(connection, _END_ATTEMPT, [_ended(*ended) for ended in commit.ended])
    _upsert(connection, devices, [asdict(device) for device in commit.devices])
    _upsert(connection, hosts, [{"host": h, "boot_id": boot, "spooled": n} for h, (boot, n) in commit.hosts.items()])
    _insert_new(connection, chances, [chance_values(chance) for chance in commit.chances])
    for ids in chunks(commit.handled):
        connection.execute(delete(requests).where(requests.c.id.in_(ids)))


def chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Slices of at most CHUNK ids, for one statement each."""
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))


def _hold(connection: Connection, held: Sequence[tuple[Sequence[JobId], Mapping[str, Any]]]) -> None:
    """Set waiting jobs' latest verdict, in one statement per verdict. Jobs that the same cycle started are skipped."""
    by_verdict: dict[str, list[JobId]] = defaultdict(list)
    latest = {job: to_json(verdict) for ids, verdict in held for job in ids}
    for job, verdict in latest.items():
        by_verdict[verdict].append(job)
    for verdict, ids in by_verdict.items():
        for chunk in chunks(ids):
            connection.execute(_HOLD.where(jobs.c.id.in_(chunk)).values(verdict=verdict))


def _launch(connection: Connection, launched: Sequence[AttemptRow]) -> None:
    if not launched:
        return
    try:
        connection.execute(insert(attempts), [attempt_values(attempt) for attempt in launched])
    except IntegrityError as error:
        names = ", ".join(f"{attempt.job}-{attempt.number}" for attempt in launched)
        raise Conflict(f"Of the attempts {names} one is in the record already, or its job is not.") from error


def _update(connection: Connection, statement: Update, values: list[dict[str, Any]]) -> None:
    if values and connection.execute(statement, values).rowcount != len(values):
        raise Failure(f"The record lacks a job or an attempt that was to be changed: {_names(values)}.")


def _names(values: Sequence[Mapping[str, Any]]) -> str:
    names = [str(v["changed"]) if "changed" in v else f"{v['of_job']}-{v['of_number']}" for v in values]
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")


def _started(attempt: AttemptId, at: float, log_path: str) -> dict[str, Any]:
    return {"of_job": attempt.job, "of_number": attempt.number, "at": at, "log": clean(log_path)}


def _stopped(attempt: AttemptId, reason: StopReason) -> dict[str, Any]:
    return {"of_job": attempt.job, "of_number": attempt.number, "why": reason.value}


def _ended(attempt: AttemptId, end: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "of_job": attempt.job,
        "of_number": attempt.number,
        "ended_at": end["ended_at"],
        "ending": end["ending"],
        "exit_code": end.get("exit_code"),
        "reason": clean(end.get("reason")),
        "measurement": to_optional_json(end.get("measurement")),
        "actual": to_optional_json(end.get("actual")),
    }


def _insert_new(connection: Connection, table: Table, values: list[dict[str, Any]]) -> None:
    """Insert rows; those whose key exists already stay as they are."""
    if values:
        statement = _insert(connection, table)
        connection.execute(statement.on_conflict_do_nothing(index_elements=list(table.primary_key)), values)


def _upsert(connection: Connection, table: Table, values: list[dict[str, Any]]) -> None:
    if not values:
        return
    statement = _insert(connection, table)
    others = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    connection.execute(statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=others), values)


def _insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    # Each process imports the dialect of its own database only: PostgreSQL's would be a sixth of what SQLAlchemy takes to import.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
