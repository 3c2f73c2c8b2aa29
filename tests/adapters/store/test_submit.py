"""Submissions and requests: numbered in order, known keys recognised, nothing half done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import event

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Commit
from gpuq.adapters.store.sql import SqlStore
from gpuq.adapters.store.submit import add_jobs, add_requests
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import BadInput, NotFound, Unreachable
from gpuq.messages.submission import ArrayTasks
from tests.adapters.store.samples import a_record


def test_submissions_get_ids_in_their_order_and_a_request_each(store: Store) -> None:
    ids = store.add_jobs([a_record(name="first"), a_record(name="second"), a_record(name="third")])
    assert ids == [1, 2, 3]
    assert [row.record.submission.name for row in store.jobs()] == ["first", "second", "third"]
    assert [(r.id, r.verb, r.job, r.by, r.at) for r in store.requests(10)] == [
        (1, "submit", 1, "ada", 100.5),
        (2, "submit", 2, "ada", 100.5),
        (3, "submit", 3, "ada", 100.5),
    ]


def test_a_submission_round_trips(store: Store) -> None:
    record = a_record("key", gpu_memory=2**40, max_slowdown=1.2, name="naïve \U0001f9e0", time_limit_s=0.5)
    (job,) = store.add_jobs([record])
    row = store.job(job)
    assert row is not None
    assert row.record == record
    assert (row.state, row.state_since, row.attempt) == (JobState.PENDING, 100.5, 0)
    assert (row.alone, row.cancel_requested, row.verdict, row.reason) == (False, False, None, None)


def test_a_job_submitted_on_hold_is_held_from_the_start(store: Store) -> None:
    (job,) = store.add_jobs([a_record(hold=True)])
    row = store.job(job)
    assert row is not None
    assert row.state is JobState.HELD


def test_no_submissions_are_no_transaction(store: Store) -> None:
    assert store.add_jobs([]) == []
    assert store.requests(1) == []


def test_a_known_key_gives_the_job_it_named_first(store: Store) -> None:
    assert store.add_jobs([a_record("a"), a_record("b")]) == [1, 2]
    assert store.add_jobs([a_record("b"), a_record("c"), a_record("a")]) == [2, 3, 1]
    assert len(store.requests(10)) == 3


def test_a_known_key_with_another_body_is_refused_with_all_that_came_with_it(store: Store) -> None:
    first = replace(a_record("a"), body_sha256="1")
    array = replace(a_record("b", array=ArrayTasks(tasks="0-2")), body_sha256="2")
    assert store.add_jobs([first, array, a_record("old")]) == [1, 2, 5]
    again = [first, array, replace(a_record("old"), body_sha256="3")]
    assert store.add_jobs(again) == [1, 2, 5], "one of an earlier release has no digest"
    for other in (replace(first, body_sha256="4"), replace(array, body_sha256="4")):
        with pytest.raises(BadInput, match="another submission"):
            store.add_jobs([a_record("c"), other])
    with pytest.raises(BadInput, match="another submission"):
        store.add_jobs([replace(a_record("d"), body_sha256="1"), replace(a_record("d"), body_sha256="2")])
    assert len(store.jobs()) == 5


def test_a_key_twice_in_one_batch_is_one_job(store: Store) -> None:
    assert store.add_jobs([a_record("a"), a_record(), a_record("a"), a_record()]) == [1, 2, 1, 3]
    assert len(store.jobs()) == 3


def test_idempotency_keys_are_per_owner(store: Store) -> None:
    assert store.add_jobs([a_record("a", owner="ada"), a_record("a", owner="bob"), a_record(), a_record()]) == [
        1,
        2,
        3,
        4,
    ]
    assert store.add_jobs([a_record("a", owner="bob")]) == [2]


def test_a_batch_of_ten_thousand(store: Store) -> None:
    records = [a_record(f"key-{number}") for number in range(10_000)]
    assert store.add_jobs(records) == list(range(1, 10_001))
    assert store.add_jobs(records[:2000]) == list(range(1, 2001))
    assert len(store.requests(20_000)) == 10_000


def test_racing_submitters_with_one_key_make_one_job(open_record: Callable[[], Store]) -> None:
    stores = [open_record() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        ids = list(threads.map(lambda each: [each.add_jobs([a_record(f"key-{n}")])[0] for n in range(20)], stores))
    assert ids == [list(range(1, 21))] * 4
    assert len(stores[0].jobs()) == 20


@pytest.mark.parametrize("does", ["submit", "request"])
def test_a_client_suspended_in_the_middle_of_a_submission_does_not_keep_others_from_theirs(
    postgresql_url: str, store_of: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """It holds the lock of the numbers from its first statement on, until the server ends its transaction."""
    monkeypatch.setattr("gpuq.adapters.store.suspension.SUSPENDED_S", 1.0)
    suspended, other = store_of(postgresql_url), store_of(postgresql_url)
    assert isinstance(suspended, SqlStore)
    (job,) = other.add_jobs([a_record()])
    statements: list[str] = []
    given: list[JobId] = []

    def suspended_after_the_first_statement(*_: Any) -> None:
        statements.append(does)
        if len(statements) == 1:
            given.extend(other.add_jobs([a_record()]))

    def work() -> None:
        with suspended._database.writing() as connection:
            event.listen(connection, "after_cursor_execute", suspended_after_the_first_statement)
            if does == "submit":
                add_jobs(connection, [a_record()])
            else:
                add_requests(connection, [{"verb": "cancel", "job": job, "by": "ada", "at": 1.0, "body": "{}"}])

    with pytest.raises(Unreachable):
        work()
    assert given == [job + 1]
    assert suspended.add_jobs([a_record()]) == [job + 2]


def test_a_request_is_returned_until_it_is_handled(store: Store) -> None:
    (job,) = store.add_jobs([a_record()])
    cancel = store.add_request("cancel", job, "ada", 101.0, {})
    model = store.add_request("model", None, "root", 102.0, {"version": "v2"})
    assert [(r.id, r.verb, r.job, r.by, r.at, r.body) for r in store.requests(10)[1:]] == [
        (cancel, "cancel", job, "ada", 101.0, {}),
        (model, "model", None, "root", 102.0, {"version": "v2"}),
    ]
    assert [r.verb for r in store.requests(1)] == ["submit"]
    store.commit(Commit(handled=[1, cancel]))
    assert [r.id for r in store.requests(10)] == [model]


def test_numbers_of_handled_requests_are_not_given_again(store: Store) -> None:
    number = store.add_request("model", None, "root", 1.0, {})
    store.commit(Commit(handled=[number]))
    assert store.add_request("model", None, "root", 2.0, {}) == number + 1


@pytest.mark.parametrize("job", [99, 0, -1, 10**30])
def test_a_request_for_no_job_is_refused(store: Store, job: int) -> None:
    with pytest.raises(NotFound, match=str(job)):
        store.add_request("cancel", JobId(job), "ada", 1.0, {})
    assert store.requests(10) == []
    assert store.add_jobs([a_record()]) == [1]
    assert [r.id for r in store.requests(10)] == [1]
