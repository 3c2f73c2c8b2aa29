"""The journal's lines: one row per entry, and the search for all entries that name one job.

Nearly every entry names one job and is found by its index. A Hold may name thousands and is one row too: the ids stand in it as
runs (",5-900,903,"), the lowest and highest in columns. A search reads the entries whose span includes the job, and keeps those
whose runs include it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select

from gpuq.adapters.store.row_types import Entry
from gpuq.adapters.store.rows import from_json, to_json
from gpuq.adapters.store.schema import journal
from gpuq.core.state.job import JobId
from gpuq.errors import Conflict

_COLUMNS = (journal.c.seq, journal.c.at, journal.c.name, journal.c.jobs, journal.c.body)
_LAST = select(func.max(journal.c.seq))
_RUN = re.compile(r"(\d+)-(\d+)")
_PAGE = 200
_TAKEN_FIX = "Nothing needs to be done: the dispatcher starts again and goes on from the record."


def append(connection: Connection, entries: Sequence[Entry]) -> bool:
    """Write new entries, in the order of their numbers. False if these very entries were written before: the dispatcher committed
    them, and the connection broke before the answer came. Raises Conflict if their numbers are taken by others, or if those
    before them are missing: then the database was replaced by one without the last commits."""
    if not entries:
        return True
    first, last = entries[0], last_seq(connection)
    if first.seq <= last:
        kept = connection.execute(select(*_COLUMNS).where(journal.c.seq == first.seq)).first()
        if kept is None or _values(_entry(kept)) != _values(first) or entries[-1].seq != last:
            raise number_taken(first.seq, last)
        return False
    if first.seq > last + 1:
        raise numbers_missing(last, first.seq)
    connection.execute(insert(journal), [_values(entry) for entry in entries])
    return True


def number_taken(first: int, last: int) -> Conflict:
    """The error of a commit whose first entry has a number that another entry has."""
    return Conflict(f"Journal number {first} is taken, the last is {last}.", fix=_TAKEN_FIX)


def numbers_missing(last: int, first: int) -> Conflict:
    """The error of a commit whose first entry does not follow the last one of the record."""
    return Conflict(
        f"The record lacks the journal entries {last + 1} to {first - 1}, which were committed.", fix=_TAKEN_FIX
    )


def last_seq(connection: Connection) -> int:
    """The newest number; 0 for an empty journal."""
    return connection.execute(_LAST).scalar() or 0


def read(
    connection: Connection,
    after: int,
    limit: int,
    *,
    only_jobs: bool,
    names: Collection[str] | None,
    until: int | None,
) -> list[Entry]:
    """Entries with seq > after, in order, as `Store.journal`."""
    query = select(*_COLUMNS)
    if until is not None:
        query = query.where(journal.c.seq <= until)
    if only_jobs:
        query = query.where(journal.c.first_job.is_not(None))
    if names is not None:
        query = query.where(journal.c.name.in_(names))
    return [_entry(row) for row in connection.execute(_page(query, after, limit))]


def read_job(connection: Connection, job: JobId, *, after: int, limit: int) -> list[Entry]:
    """Entries with seq > after that name `job`, in order."""
    alone = select(journal.c.seq).where(journal.c.first_job == journal.c.last_job, journal.c.first_job == job)
    seqs = list(connection.execute(_page(alone, after, limit)).scalars())
    # Of the entries that name several jobs, only those that belong on this page.
    end = seqs[-1] if len(seqs) == limit else None
    seqs.extend(islice(_among_many(connection, job, after, end), limit))
    found = sorted(seqs)[:limit]
    query = select(*_COLUMNS).order_by(journal.c.seq)
    pages = (found[start : start + _PAGE] for start in range(0, len(found), _PAGE))
    return [_entry(row) for page in pages for row in connection.execute(query.where(journal.c.seq.in_(page)))]


def prune(connection: Connection, before: int) -> int:
    """Delete entries with seq < before; returns how many. The newest always stays: the next number follows it."""
    return connection.execute(delete(journal).where(journal.c.seq < min(before, last_seq(connection)))).rowcount


def pack(jobs: Sequence[int]) -> str | None:
    """Ids as runs in the given order: (5, 6, 7, 3) is ",5-7,3,". None for no ids."""
    runs: list[list[int]] = []
    for job in jobs:
        if runs and job == runs[-1][1] + 1:
            runs[-1][1] = job
        else:
            runs.append([job, job])
    return f",{','.join(str(a) if a == b else f'{a}-{b}' for a, b in runs)}," if runs else None


def unpack(text: str | None) -> tuple[int, ...]:
    """The ids that `pack` packed."""
    if text is None:
        return ()
    runs = (run.partition("-") for run in text.strip(",").split(","))
    return tuple(job for first, _, last in runs for job in range(int(first), int(last or first) + 1))


def contains(text: str, job: int) -> bool:
    """Whether `job` is among the packed ids, without unpacking them."""
    return f",{job}," in text or any(int(run[1]) <= job <= int(run[2]) for run in _RUN.finditer(text))


def _among_many(connection: Connection, job: JobId, after: int, end: int | None) -> Iterator[int]:
    """Numbers of the entries that name several jobs, this one too."""
    spans = select(journal.c.seq, journal.c.jobs).where(
        journal.c.first_job < journal.c.last_job, journal.c.first_job <= job, journal.c.last_job >= job
    )
    spans = spans if end is None else spans.where(journal.c.seq < end)
    while page := connection.execute(_page(spans, after, _PAGE)).all():
        yield from (row.seq for row in page if contains(row.jobs, job))
        after = page[-1].seq


def _page(query: Select[Any], after: int, limit: int) -> Select[Any]:
    return query.where(journal.c.seq > after).order_by(journal.c.seq).limit(limit)


def _values(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "at": entry.at,
        "name": entry.name,
        "first_job": min(entry.jobs, default=None),
        "last_job": max(entry.jobs, default=None),
        "jobs": pack(entry.jobs),
        "body": to_json(entry.body),
    }


def _entry(row: Sequence[Any]) -> Entry:
    seq, at, name, jobs, body = row
    return Entry(seq=seq, at=at, name=name, body=from_json(body), jobs=unpack(jobs))
