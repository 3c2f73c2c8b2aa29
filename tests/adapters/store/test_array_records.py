"""Arrays in the record: stored once, and read as the jobs that their tasks are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, event, text

from gpuq.adapters.store import lists
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.row_types import Commit, LineRow, Selection
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.quota import Account, Quota, QuotaScope
from gpuq.errors import OverQuota
from gpuq.messages.job_record import JobRecord, TaskVariant
from gpuq.messages.submission import ArrayTasks
from tests.adapters.store.samples import a_change, a_record, an_attempt
from tests.support.sqlite_record import make_record


def an_array(key: str | None = None, **submitted: Any) -> JobRecord:
    """Three tasks, of which the last one is a variant."""
    tasks = ArrayTasks(tasks="3-5", at_once=2, params={"width": ("8", "8", "9")})
    other = TaskVariant(kind="train.py wide", signature="other", features={"batch": 64})
    of = a_record(key, name="run-{width}", array=tasks, **submitted)
    return msgspec.structs.replace(of, variants=(other,), variant_of=(0, 0, 1))


def test_the_tasks_of_an_array_are_jobs_in_a_row(store: Store) -> None:
    assert store.add_jobs([a_record(), an_array(), a_record()]) == [1, 2, 5]

    found = {row.id: row.record for row in store.jobs()}
    assert [record.submission.name for record in found.values()] == [None, "run-8", "run-8", "run-9", None]
    task = found[JobId(4)].task
    assert task is not None
    assert (task.array, task.number, task.at_once, task.params) == (2, 5, 2, {"width": "9"})
    assert found[JobId(4)].submission.env == {
        "LANG": "é",
        "width": "9",
        "GPUQ_ARRAY_ID": "2",
        "GPUQ_ARRAY_TASK": "5",
    }
    assert (found[JobId(3)].kind, found[JobId(3)].features) == ("train.py", {"batch": 32, "model": None})
    assert (found[JobId(4)].kind, found[JobId(4)].features) == ("train.py wide", {"batch": 64, "model": None})
    assert [(r.verb, r.job) for r in store.requests(9)] == [("submit", 1), ("submit_array", 2), ("submit", 5)]


def test_the_dispatcher_reads_the_tasks_as_it_reads_jobs(store: Store) -> None:
    store.add_jobs([an_array(priority=7)])
    queued = store.queued_jobs(after=None, limit=9)
    assert [(one.id, one.record.signature, one.record.submission.priority) for one in queued] == [
        (1, "train.py batch=32", 7),
        (2, "train.py batch=32", 7),
        (3, "other", 7),
    ]
    assert queued[2].record.task == store.jobs(ids=[JobId(3)])[0].record.task


def test_a_host_that_claims_a_task_is_given_its_own_command(store: Store) -> None:
    store.add_jobs([an_array()])
    job = JobId(3)
    store.commit(Commit(jobs=[a_change(job, JobState.STARTING, 1)], launched=[an_attempt(job)]))
    claimed = store.claim(AttemptId(job, 1), "host", "home", "boot", 220.0)
    assert claimed is not None
    assert claimed[0].submission.name == "run-9"
    assert store.runs(since=0.0) == [], "it has not started"


def test_arrays_are_listed_with_the_states_of_their_tasks(store: Store) -> None:
    store.add_jobs([an_array(), a_record(), an_array(owner="bob", hold=True)])
    store.commit(Commit(jobs=[a_change(2, JobState.RUNNING, 1), a_change(3, JobState.RUNNING, 1)]))

    first, second = store.arrays()
    assert (first.id, first.states) == (1, {JobState.PENDING: 1, JobState.RUNNING: 2})
    assert first.first == {JobState.PENDING: 1, JobState.RUNNING: 2}
    assert first.record.submission.name == "run-{width}"
    assert (second.id, second.states) == (5, {JobState.HELD: 3})

    assert [one.id for one in store.arrays(states=[JobState.HELD])] == [5]
    assert [one.id for one in store.arrays(states=[JobState.FAILED])] == []
    assert [one.id for one in store.arrays(owner="ada")] == [1]
    assert [one.id for one in store.arrays(newest_first=True, limit=1)] == [5]
    assert [one.id for one in store.arrays(newest_first=True, after=JobId(5))] == [1]
    assert [one.id for one in store.arrays(ids=[JobId(5), JobId(4)])] == [5]
    assert [row.id for row in store.jobs(tasks=False)] == [4]


def test_two_thousand_arrays_can_be_asked_for_in_an_old_build_of_sqlite(
    tmp_path: Path, store_of: Callable[[str], Store]
) -> None:
    def as_before_2020(connection: sqlite3.Connection, _: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)

    event.listen(Engine, "connect", as_before_2020)
    try:
        store = store_of(make_record(tmp_path / "gpuq.db"))
        store.add_jobs([an_array(), an_array()])
        ids = [JobId(job) for job in range(2000)]
        assert [one.id for one in store.arrays(ids=ids)] == [1, 4]
        assert [one.id for one in store.arrays(ids=ids, newest_first=True, limit=1)] == [4]
    finally:
        event.remove(Engine, "connect", as_before_2020)


def test_tasks_are_selected_by_their_own_names_and_kinds(store: Store) -> None:
    store.add_jobs([an_array(), a_record(name="run-1")])
    assert list(store.select(Selection(name="run-*"))) == [1, 2, 3, 4]
    assert list(store.select(Selection(name="run-8"))) == [1, 2]
    assert list(store.select(Selection(kind="* wide"))) == [3]


def test_lines_of_tasks_have_their_own_commands_and_kinds(store: Store) -> None:
    store.add_jobs([an_array(after=("corr:7,8,9",)), a_record()])
    expected = [msgspec.convert(row, LineRow, from_attributes=True) for row in store.jobs()]
    assert store.lines() == expected
    assert [row.id for row in store.lines(kind="* wide")] == store.job_ids(kind="* wide") == [3]
    assert [row.id for row in store.lines(name="run-8", tasks=False)] == []
    assert [row.id for row in store.lines(name="run-[9]", array=JobId(1))] == [3]


def test_an_array_is_listed_by_its_name_and_by_those_of_its_tasks(store: Store) -> None:
    store.add_jobs([an_array(), a_record(name="run-9"), an_array(owner="bob", project="vision")])
    store.commit(Commit(jobs=[a_change(3, JobState.RUNNING, 1)], edited=[(JobId(6), JobEdit(name="best"))]))

    def found(**conditions: object) -> list[int]:
        ids = store.array_ids(**conditions)  # type: ignore[arg-type]
        assert [one.id for one in store.arrays(**conditions)] == ids  # type: ignore[arg-type]
        return [int(one) for one in ids]

    assert found(name="run-{width}") == found(name="run-9") == found(name="run-*") == [1, 5]
    assert found(name="best") == [5]
    assert found(name="9") == []
    assert found(name="run-9", states=[JobState.RUNNING]) == [1]
    assert found(name="run-8", states=[JobState.RUNNING]) == []
    assert found(kind="* wide") == [1, 5]
    assert found(kind="* wide", name="run-8") == []
    assert found(project="vis*", name="run-*") == [5]
    assert found(name="run-9", newest_first=True, limit=1) == [5]
    assert found(name="run-9", ids=[JobId(1), JobId(2)]) == [1]


def test_tasks_are_not_looked_through_for_a_kind_that_none_can_have(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_jobs([an_array()])
    monkeypatch.setattr(lists, "_matching", lambda *_: pytest.fail("they are"))
    assert store.arrays(kind="other*") == store.arrays(kind="other*", name="run-9") == []


def test_an_array_sent_again_is_the_same_array(store: Store) -> None:
    assert store.add_jobs([an_array("a"), a_record("b")]) == [1, 4]
    assert store.add_jobs([a_record("b"), an_array("a"), a_record("c")]) == [4, 1, 5]
    assert len(store.jobs()) == 5


def test_quotas_count_each_task(store: Store) -> None:
    ada = Account(QuotaScope.USER, "ada")
    store.commit(Commit(quotas={ada: Quota(ada, waiting_jobs=4)}))
    with pytest.raises(OverQuota, match="has 0 waiting jobs; 5 more would exceed the quota of 4"):
        store.add_jobs([a_record(), an_array(), a_record()])
    assert store.jobs() == [], "all or none"
    assert store.add_jobs([an_array(), a_record()]) == [1, 4]


def test_names_in_rows_of_an_earlier_gpuq_are_found_in_the_record(
    database_url: str, store_of: Callable[[str], Store]
) -> None:
    store = store_of(database_url)
    one, array = store.add_jobs([a_record(name="sweep"), an_array()])
    assert list(store.select(Selection(name="run-8"))) == [array, array + 1]
    with closing(Database(database_url)) as database, database.writing() as connection:
        connection.execute(text("UPDATE jobs SET name = NULL"))
    assert list(store.select(Selection(name="sw*"))) == [one]
    assert list(store.select(Selection(name="run-8"))) == [array, array + 1]
