"""The jobs that meet the conditions of a `Selection`, and the state of each, for requests about many jobs.

Ids, states and owners are columns. Names, kinds and projects stand in the JSON of what was submitted, and are read only where
one of them is a condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, between, or_, select

from gpuq.adapters.store.contract import Selection
from gpuq.adapters.store.schema import job_records, jobs
from gpuq.core.state.job import JobId, JobState

# Old builds of SQLite take 999 values in one statement, and a range needs two.
_RANGES: Final = 400
_MAX_ID: Final = 2**63 - 1


class _Submitted(msgspec.Struct):
    name: str | None = None
    project: str | None = None


class _Names(msgspec.Struct):
    """The fields of a `JobRecord` that patterns are matched with. Decoding the whole record would take ten times as long."""

    kind: str
    submission: _Submitted


_names = msgspec.json.Decoder(_Names)


def select_jobs(connection: Connection, selection: Selection) -> dict[JobId, JobState]:
    """The state of each selected job, by id."""
    by_names = not (selection.name is None and selection.kind is None and selection.project is None)
    query: Select[Any] = select(jobs.c.id, jobs.c.state)
    if by_names:
        query = query.add_columns(job_records.c.record).join(job_records, job_records.c.job == jobs.c.id)
    if selection.owner is not None:
        query = query.where(jobs.c.owner == selection.owner)
    if selection.states is not None:
        query = query.where(jobs.c.state.in_([state.value for state in selection.states]))
    found = {}
    for condition in _in_ranges(selection.ids):
        for job, state, *record in connection.execute(query.where(*condition).order_by(jobs.c.id)):
            if by_names:
                # Not matched by SQL: the names stand in the record's JSON, which the two databases read differently.
                names = _names.decode(record[0])
                if not selection.matches(names.submission.name, names.kind, names.submission.project):
                    continue
            found[JobId(job)] = JobState(state)
    return dict(sorted(found.items()))


def _in_ranges(ranges: Sequence[tuple[int, int]] | None) -> Iterator[list[ColumnElement[bool]]]:
    """Conditions, one per statement, that together select the jobs in these ranges."""
    if ranges is None:
        yield []
        return
    # A range may end beyond 64 bits, which the database would reject; one without any id selects nothing.
    valid = [(first, min(last, _MAX_ID)) for first, last in ranges if 0 < first <= min(last, _MAX_ID)]
    for start in range(0, len(valid), _RANGES):
        yield [or_(*(between(jobs.c.id, first, last) for first, last in valid[start : start + _RANGES]))]
