"""The runs of the last month in memory."""

from __future__ import annotations

import time

from gpuq.api.recent import KEPT_S, RecentRuns
from gpuq.core.state.job import JobState
from tests.api.support import FaultyStore, attempt, forecast, record, row

NOW = 1.8e9


def end(store: FaultyStore, job: int, at: float) -> None:
    store.job_rows[job] = row(job, record(at - 60), JobState.COMPLETED, attempt=1)  # type: ignore[index]
    store.set_attempts(attempt(job, "gpu0", at - 50, forecast(50, 1), ended_at=at, ending="exited", exit_code=0))


def test_what_ended_since_is_added_and_what_is_older_than_a_month_leaves() -> None:
    store, clock = FaultyStore(), [NOW]
    recent = RecentRuns(store, lambda: clock[0])
    end(store, 1, NOW - KEPT_S + 600)
    end(store, 2, NOW - 10)
    assert [run.job for run in recent.since(NOW - KEPT_S)] == [1, 2]
    assert [run.job for run in recent.since(NOW - 60)] == [2]
    end(store, 3, NOW - 1800)
    clock[0] += 1200
    assert [run.job for run in recent.since(NOW - KEPT_S + 1200)] == [2, 3], "an end that came late is found"


def test_an_end_that_comes_hours_late_is_found_within_the_hour() -> None:
    store, clock = FaultyStore(), [NOW]
    recent = RecentRuns(store, lambda: clock[0])
    end(store, 1, NOW - 10)
    recent.since(NOW - 60)
    end(store, 2, NOW - 5 * 3600)
    clock[0] += 5
    assert [run.job for run in recent.since(NOW - 86_400)] == [1]
    clock[0] += 3600
    assert [run.job for run in recent.since(NOW - 86_400)] == [1, 2]


def test_what_is_older_than_a_month_comes_from_the_record() -> None:
    store = FaultyStore()
    end(store, 1, 1000.0)
    recent = RecentRuns(store, time.time)
    assert [run.job for run in recent.since(0.0)] == [1]
