"""How submissions and requests enter the record, in the transaction they are given.

A submission locks the one row of `numbers` first and holds it to the end of the transaction: ids are given out without gaps, in
the order of commits, and an idempotency key is looked up when no other submission can be under way. A process that is suspended
meanwhile loses the lock: the others can submit again after four seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from gpuq.adapters.store import quotas
from gpuq.adapters.store.cycle import chunks
from gpuq.adapters.store.rows import to_json, waits_value
from gpuq.adapters.store.schema import arrays, job_lines, job_records, jobs, numbers, requests
from gpuq.adapters.store.suspension import ENDED_IF_SUSPENDED
from gpuq.core.state.job import JobId
from gpuq.errors import BadInput, NotFound
from gpuq.messages.job_record import JobRecord, task_name, to_core

# Lists read records of at most so many characters whole, so that most submissions write a row less.
_READ_WHOLE = 8192
_TAKE = select(numbers.c.last_job, numbers.c.last_request).where(ENDED_IF_SUSPENDED).with_for_update()

Key = tuple[str, str | None]


def add_jobs(connection: Connection, records: Sequence[JobRecord]) -> list[JobId]:
    """Rows and a request for each record whose (owner, idempotency key) is new; the job of each record, in order, of an array the
    first one.

    Raises BadInput for a key that came with another body, and OverQuota if a quota does not let one of the new ones in.
    """
    last_job, last_request = connection.execute(_TAKE).one()
    known = _known_keys(connection, records)
    refuse_other_bodies(records, _bodies(connection, known))
    ids: list[JobId] = []
    new: dict[JobId, JobRecord] = {}
    for record in records:
        key = (record.owner, record.idempotency_key)
        job = known.get(key)
        if job is None:
            job = JobId(last_job + 1)
            last_job += record.job_count
            new[job] = record
            if record.idempotency_key is not None:  # from now on known to the rest of this batch
                known[key] = job
        ids.append(job)
    if new:
        quotas.check(connection, new.values())
        connection.execute(update(numbers).values(last_job=last_job, last_request=last_request + len(new)))
        connection.execute(insert(jobs), [values for job, record in new.items() for values in _job_values(job, record)])
        singles = {job: record for job, record in new.items() if not record.is_array}
        if singles:
            whole = {job: to_json(record) for job, record in singles.items()}
            connection.execute(insert(job_records), [{"job": job, "record": text} for job, text in whole.items()])
            long = [job for job, text in whole.items() if len(text) > _READ_WHOLE]
            if long:
                lines = [{"job": job, "line": to_json(singles[job].listed)} for job in long]
                connection.execute(insert(job_lines), lines)
        many = [
            {"id": job, "count": record.job_count, "record": to_json(record)}
            for job, record in new.items()
            if record.is_array
        ]
        if many:
            connection.execute(insert(arrays), many)
        asked = [(verb_of(record), job, record) for job, record in new.items()]
        submits = [
            {"id": number, "verb": verb, "job": job, "by": record.owner, "at": record.submitted_at, "body": "{}"}
            for number, (verb, job, record) in enumerate(asked, start=last_request + 1)
        ]
        connection.execute(insert(requests), submits)
    return ids


def refuse_other_bodies(records: Sequence[JobRecord], kept: Mapping[Key, str | None]) -> None:
    """Raises BadInput for a key that came with another body: in `kept`, the digests by known keys, or in an earlier record. A
    record of an earlier release has no digest, and its key is taken for the same submission."""
    digests = dict(kept)
    for record in records:
        key, digest = (record.owner, record.idempotency_key), record.body_sha256
        before = None if record.idempotency_key is None else digests.setdefault(key, digest)
        if before is not None and digest is not None and before != digest:
            raise BadInput(
                "This Idempotency-Key came with another submission before, so nothing is queued.",
                fix="Send a new key with each new submission; the same key only repeats the same body.",
            )


def lock(connection: Connection) -> None:
    """Let no submission and no request in before the end of this transaction."""
    connection.execute(_TAKE).one()


def verb_of(record: JobRecord) -> str:
    """The request that makes the dispatcher take in what was submitted. One of an earlier release drops those for arrays, and the
    dispatcher that follows it finds the tasks in the record."""
    return "submit_array" if record.is_array else "submit"


def add_requests(connection: Connection, asked: Sequence[Mapping[str, Any]]) -> int:
    """Rows of verb, job, by, at and body; the id of the last. Raises NotFound if one names no job."""
    _, last_request = connection.execute(_TAKE).one()
    rows = [{**request, "id": number} for number, request in enumerate(asked, start=int(last_request) + 1)]
    last = int(last_request) + len(rows)
    connection.execute(update(numbers).values(last_request=last))
    try:
        connection.execute(insert(requests), rows)
    except IntegrityError as error:
        which = f"job {asked[0]['job']}" if len(asked) == 1 else f"one of the {len(asked)} jobs that were named"
        raise NotFound(f"There is no {which}.") from error
    return last


def _known_keys(connection: Connection, records: Sequence[JobRecord]) -> dict[Key, JobId]:
    """The jobs in the record that have the (owner, idempotency key) of one of these."""
    by_owner: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record.idempotency_key is not None:
            by_owner[record.owner].add(record.idempotency_key)
    columns = select(jobs.c.owner, jobs.c.idempotency_key, jobs.c.id)
    return {
        (row.owner, row.idempotency_key): row.id
        for owner, keys in by_owner.items()
        for chunk in chunks(list(keys))
        for row in connection.execute(columns.where(jobs.c.owner == owner, jobs.c.idempotency_key.in_(chunk)))
    }


def _bodies(connection: Connection, known: Mapping[Key, JobId]) -> dict[Key, str | None]:
    """The digests of the bodies that these keys came with."""
    found = {
        row.id: msgspec.json.decode(row.record, type=_Body).body_sha256
        for chunk in chunks(list(known.values()))
        for table, id_ in ((job_records, job_records.c.job), (arrays, arrays.c.id))
        for row in connection.execute(select(id_.label("id"), table.c.record).where(id_.in_(chunk)))
    }
    return {key: found.get(job) for key, job in known.items()}


class _Body(msgspec.Struct):
    """The digest in a record."""

    body_sha256: str | None = None


def _job_values(first: JobId, record: JobRecord) -> Iterator[dict[str, Any]]:
    """The columns of the job, or of each task of an array."""
    new = to_core(first, record)
    values = {
        "id": first,
        "owner": new.owner,
        "project": new.project,
        "idempotency_key": record.idempotency_key,
        "state": new.state.value,
        "state_since": new.since,
        "attempt": new.attempt,
        "alone": new.alone,
        "cancel_requested": new.cancel_requested,
        "of_array": first if record.is_array else None,
        "waits": waits_value(new),
        "name": record.submission.name or "",
    }
    if not record.is_array:
        yield values
        return
    for place in range(record.job_count):
        key = None if place else record.idempotency_key
        name = task_name(record, first, place) or ""
        yield {**values, "id": first + place, "idempotency_key": key, "name": name}
