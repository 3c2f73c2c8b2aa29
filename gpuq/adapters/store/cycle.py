"""Write what one cycle of the dispatcher changes, in the transaction of the caller. The renewal of the lease goes first, because
it is the fence.

If a row to be changed does not exist, the call raises and nothing of the cycle is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, Table, Update, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from gpuq.adapters.store import journal, leadership
from gpuq.adapters.store.row_types import Commit
from gpuq.adapters.store.rows import (
    JOB_STATE,
    attempt_values,
    chance_values,
    change_values,
    clean,
    device_values,
    edit_of_row,
    quota_values,
    to_json,
    to_optional_json,
)
from gpuq.adapters.store.schema import (
    attempts,
    chances,
    device_marks,
    devices,
    drained_hosts,
    host_leases,
    hosts,
    jobs,
    joined_hosts,
    quotas,
    requests,
)
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import Conflict, Failure

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

# Old builds of SQLite take 999 values in one statement.
CHUNK: Final = 900
T = TypeVar("T")

_CHANGE_JOB = (
    update(jobs).where(jobs.c.id == bindparam("changed")).values({name: bindparam(name) for name in JOB_STATE})
)
_EDIT_JOB = update(jobs).where(jobs.c.id == bindparam("changed")).values(edits=bindparam("edits"))
ONE_ATTEMPT = (attempts.c.job == bindparam("of_job"), attempts.c.number == bindparam("of_number"))
_START_ATTEMPT = update(attempts).where(*ONE_ATTEMPT).values(started_at=bindparam("at"), log_path=bindparam("log"))
_STOP_ATTEMPT = update(attempts).where(*ONE_ATTEMPT).values(stop_reason=bindparam("why"))
_OPEN_ATTEMPT = update(attempts).where(*ONE_ATTEMPT).values(opened_memory=bindparam("promised"))
_END_ATTEMPT = (
    update(attempts)
    .where(*ONE_ATTEMPT)
    .values({name: bindparam(name) for name in ("ended_at", "ending", "exit_code", "reason", "measurement", "actual")})
)


def write(connection: Connection, commit: Commit) -> None:
    """Write all changes of a cycle, unless they were kept before. Raises Conflict if another dispatcher leads, Failure for a
    missing row."""
    leadership.renew(connection, commit.epoch)
    if not journal.append(connection, commit.entries):
        return
    _update(connection, _CHANGE_JOB, [change_values(change) for change in commit.jobs])
    _edit(connection, commit.edited)
    _set_verdicts(connection, commit.verdicts)
    if commit.launched:
        try:
            connection.execute(insert(attempts), [attempt_values(attempt) for attempt in commit.launched])
        except IntegrityError as error:
            names = ", ".join(f"{attempt.job}-{attempt.number}" for attempt in commit.launched)
            raise Conflict(f"Of the attempts {names} one is in the record already, or its job is not.") from error
    started = [{**of_attempt(attempt), "at": at, "log": clean(log_path)} for attempt, at, log_path in commit.started]
    _update(connection, _START_ATTEMPT, started)
    _update(
        connection, _STOP_ATTEMPT, [{**of_attempt(attempt), "why": reason.value} for attempt, reason in commit.stopped]
    )
    _update(
        connection,
        _OPEN_ATTEMPT,
        [{**of_attempt(attempt), "promised": promised} for attempt, promised in commit.opened],
    )
    _update(connection, _END_ATTEMPT, [{**of_attempt(attempt), **_end_values(end)} for attempt, end in commit.ended])
    insert_rows(connection, devices, [device_values(device) for device in commit.devices], replace=True)
    spooled = [{"host": host, "boot_id": boot_id, "spooled": seq} for host, (boot_id, seq) in commit.hosts.items()]
    insert_rows(connection, hosts, spooled, replace=True)
    drained = [{"host": host, "why": clean(why)} for host, why in commit.drained.items() if why is not None]
    insert_rows(connection, drained_hosts, drained, replace=True)
    for resumed in chunks([host for host, why in commit.drained.items() if why is None]):
        connection.execute(delete(drained_hosts).where(drained_hosts.c.host.in_(resumed)))
    leadership.share(connection, commit.order_key, commit.first_attempt)
    _forget(connection, commit.forgotten)
    set_quotas = [quota_values(quota) for quota in commit.quotas.values() if quota is not None]
    insert_rows(connection, quotas, set_quotas, replace=True)
    for scope, name in (account for account, quota in commit.quotas.items() if quota is None):
        connection.execute(delete(quotas).where(quotas.c.scope == scope.value, quotas.c.name == name))
    marks = [{**msgspec.structs.asdict(mark), "kind": mark.kind.value} for mark in commit.marks]
    insert_rows(connection, device_marks, [{**mark, "detail": clean(mark["detail"])} for mark in marks], replace=True)
    insert_rows(connection, chances, [chance_values(chance) for chance in commit.chances], replace=False)
    for ids in chunks(commit.handled):
        connection.execute(delete(requests).where(requests.c.id.in_(ids)))


def _forget(connection: Connection, forgotten: Sequence[str]) -> None:
    """Remove hosts. The rows of their devices stay: the types of the devices that past attempts ran on are in them."""
    for host in forgotten:
        connection.execute(update(devices).where(devices.c.host == host).values(forgotten=True))
        for table in (hosts, drained_hosts, host_leases, joined_hosts):
            connection.execute(delete(table).where(table.c.host == host))


def chunks(values: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """Slices of at most `size` values, for one statement each."""
    return (values[start : start + size] for start in range(0, len(values), size))


def _edit(connection: Connection, edited: Sequence[tuple[JobId, JobEdit]]) -> None:
    """Add edits to those that the jobs had before."""
    edits: dict[JobId, JobEdit] = {}
    for ids in chunks(sorted({job for job, _ in edited})):
        rows = connection.execute(select(jobs.c.id, jobs.c.edits).where(jobs.c.id.in_(ids)))
        edits |= {job: edit_of_row(text) for job, text in rows}
    for job, edit in edited:
        edits[job] = edits.get(job, edit).then(edit)
    _update(connection, _EDIT_JOB, [{"changed": job, "edits": to_json(edit)} for job, edit in edits.items()])


def _set_verdicts(connection: Connection, verdicts: Sequence[tuple[Sequence[JobId], Mapping[str, Any]]]) -> None:
    """Set waiting jobs' latest verdict, in one statement per verdict. Jobs that the same cycle started are skipped."""
    by_verdict: dict[str, list[JobId]] = defaultdict(list)
    latest = {job: to_json(verdict) for ids, verdict in verdicts for job in ids}
    for job, verdict in latest.items():
        by_verdict[verdict].append(job)
    waiting = update(jobs).where(jobs.c.state == JobState.PENDING.value)
    for verdict, ids in by_verdict.items():
        for chunk in chunks(ids):
            connection.execute(waiting.where(jobs.c.id.in_(chunk)).values(verdict=verdict))


def _update(connection: Connection, statement: Update, values: list[dict[str, Any]]) -> None:
    if not values or connection.execute(statement, values).rowcount == len(values):
        return
    names = [str(v["changed"]) if "changed" in v else f"{v['of_job']}-{v['of_number']}" for v in values]
    which = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    raise Failure(f"The record lacks a job or an attempt that was to be changed: {which}.")


def of_attempt(attempt: AttemptId) -> dict[str, int]:
    """The parameters of `ONE_ATTEMPT`."""
    return {"of_job": attempt.job, "of_number": attempt.number}


def _end_values(end: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ended_at": end["ended_at"],
        "ending": end["ending"],
        "exit_code": end.get("exit_code"),
        "reason": clean(end.get("reason")),
        "measurement": to_optional_json(end.get("measurement")),
        "actual": to_optional_json(end.get("actual")),
    }


def insert_rows(connection: Connection, table: Table, values: list[dict[str, Any]], *, replace: bool) -> None:
    """Insert rows. Those whose key exists already are replaced, or else stay as they are."""
    if not values:
        return
    key = list(table.primary_key)
    # Each process imports the dialect of its own database only: PostgreSQL's would be a sixth of what SQLAlchemy takes to import.
    statement: postgresql.Insert | sqlite.Insert
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        statement = postgresql.insert(table)
    else:
        from sqlalchemy.dialects import sqlite

        statement = sqlite.insert(table)
    if replace:
        others = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
        connection.execute(statement.on_conflict_do_update(index_elements=key, set_=others), values)
    else:
        connection.execute(statement.on_conflict_do_nothing(index_elements=key), values)
