"""Arrays in the record: what the tasks of one have in common, which never changes, and how many are in which state."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, func, select

from gpuq.adapters.store.cycle import chunks
from gpuq.adapters.store.rows import record_of
from gpuq.adapters.store.schema import arrays, jobs
from gpuq.core.state.job import JobId, JobState
from gpuq.messages.job_record import JobRecord

# The record of an array is some megabytes at most.
KEPT = 16


class ArrayRecords:
    """The records of the arrays that were read last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[JobId, JobRecord] = {}

    def read(self, connection: Connection, ids: Iterable[JobId]) -> Mapping[JobId, JobRecord]:
        """The records of these arrays; one that does not exist is left out."""
        wanted = set(ids)
        with self._lock:
            found = {array: self._kept[array] for array in wanted & self._kept.keys()}
        for chunk in chunks(sorted(wanted - found.keys())):
            for array, text in connection.execute(select(arrays.c.id, arrays.c.record).where(arrays.c.id.in_(chunk))):
                found[array] = record_of(array, text)
        with self._lock:
            self._kept = {**{array: one for array, one in self._kept.items() if array not in found}, **found}
            for array in list(self._kept)[:-KEPT]:
                del self._kept[array]
        return found


def count(connection: Connection, ids: Sequence[JobId]) -> dict[JobId, dict[JobState, tuple[int, JobId]]]:
    """For each of these arrays and each state: how many tasks are in it, and the job with the lowest number."""
    found: dict[JobId, dict[JobState, tuple[int, JobId]]] = defaultdict(dict)
    columns = (jobs.c.of_array, jobs.c.state)
    # All states are named because the index begins with the state.
    query = select(*columns, func.count(), func.min(jobs.c.id)).where(jobs.c.state.in_(list(JobState)))
    for chunk in chunks(ids):
        for array, state, number, first in connection.execute(
            query.where(jobs.c.of_array.in_(chunk)).group_by(*columns)
        ):
            found[array][JobState(state)] = number, first
    return found
