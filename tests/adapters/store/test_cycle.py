"""One turn of the ring: all of it or nothing, and only by the dispatcher whose turn it is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Chance, Commit, DeviceMark, MarkKind, Selection
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.edit import edit_of
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import Conflict, Failure, Unreachable
from gpuq.messages.submission import ArrayTasks
from tests.adapters.store.samples import WAITS, a_change, a_record, an_attempt, an_end, an_entry, launched


def a_whole_turn(seq: int, job: JobId) -> Commit:
    return Commit(
        entries=[an_entry(seq, job)],
        jobs=[a_change(job, JobState.STARTING, 1)],
        launched=[an_attempt(job)],
        started=[(AttemptId(job, 1), 220.0, "/log")],
        ended=[(AttemptId(job, 1), an_end())],
        devices=[Device(DeviceId("gpu0"), HostId("host"), "sim", "A", 2**40)],
        hosts={"host": ("boot", 5)},
        handled=[1],
    )


def test_a_commit_changes_everything_it_names(store: Store) -> None:
    (job,) = store.add_jobs([a_record()])
    store.commit(a_whole_turn(1, job))
    row = store.job(job)
    assert row is not None
    assert (row.state, row.attempt, row.state_since) == (JobState.STARTING, 1, 200.0)
    (attempt,) = store.attempts(job)
    assert (attempt.started_at, attempt.log_path, attempt.ended_at) == (220.0, "/log", 300.0)
    assert store.devices() == [Device(DeviceId("gpu0"), HostId("host"), "sim", "A", 2**40)]
    assert store.hosts() == {"host": ("boot", 5)}
    assert store.last_seq() == 1
    assert store.requests(10) == []


def test_edits_add_up_and_every_reading_of_the_job_has_them(store: Store) -> None:
    (job,) = store.add_jobs([a_record(name="before", time_limit_s=60.0)])
    store.commit(Commit(edited=[(job, edit_of({"priority": 5, "time_limit_s": None}))]))
    store.commit(
        Commit(edited=[(job, edit_of({"name": "x", "notify": ("end",)})), (job, edit_of({"time_limit_s": 90.0}))])
    )
    row, (queued,) = store.job(job), store.queued_jobs(after=None, limit=9)
    assert row is not None
    assert row.record == a_record(name="x", priority=5, time_limit_s=90.0, notify=("end",))
    assert (queued.record.submission.name, queued.record.submission.time_limit_s) == ("x", 90.0)
    assert list(store.select(Selection(name="x"))) == [job]
    assert not store.select(Selection(name="before"))


def test_one_task_of_an_array_is_edited(store: Store) -> None:
    (first,) = store.add_jobs([a_record(array=ArrayTasks(tasks="0-1"))])
    store.commit(Commit(edited=[(JobId(first + 1), edit_of({"name": "x"}))]))
    assert [row.record.submission.name for row in store.jobs()] == [None, "x"]
    assert list(store.select(Selection(name="x"))) == [first + 1]


def test_an_edit_of_a_job_that_the_record_lacks_is_refused(store: Store) -> None:
    with pytest.raises(Failure, match="lacks a job"):
        store.commit(Commit(edited=[(JobId(9), edit_of({"name": "x"}))]))


def test_a_taken_journal_number_keeps_nothing_of_the_commit(store: Store) -> None:
    (job,) = store.add_jobs([a_record()])
    store.commit(Commit(entries=[an_entry(1), an_entry(2)]))
    with pytest.raises(Conflict, match="number 2 is taken, the last is 2"):
        store.commit(a_whole_turn(2, job))
    row = store.job(job)
    assert row is not None
    assert row.state is JobState.PENDING
    assert (store.attempts(job), store.devices(), store.hosts()) == ([], [], {})
    assert len(store.requests(10)) == 1
    assert store.last_seq() == 2


def test_an_outdated_dispatcher_is_refused_after_pruning(store: Store) -> None:
    store.commit(Commit(entries=[an_entry(seq) for seq in range(1, 11)]))
    assert store.prune_journal(before=9, epoch=0) == 8
    with pytest.raises(Conflict):
        store.commit(Commit(entries=[an_entry(3)]))


def test_two_dispatchers_racing_for_one_number(open_record: Callable[[], Store]) -> None:
    """Both restored from the same record; of each number exactly one wins, and the loser changes nothing."""
    first, second = open_record(), open_record()
    jobs = first.add_jobs([a_record(), a_record()])

    def attempt(store: Store, job: JobId, seq: int) -> bool:
        while True:
            try:
                store.commit(Commit(entries=[an_entry(seq, job)], jobs=[a_change(job, reason=f"turn {seq}")]))
            except Conflict:
                return False
            except Unreachable:  # the other one's commit takes long on a busy disk; nothing was written
                continue
            return True

    with ThreadPoolExecutor(2) as threads:
        for seq in range(1, 31):
            won = list(threads.map(attempt, (first, second), jobs, (seq, seq)))
            assert sorted(won) == [False, True]
            winner = jobs[won.index(True)]
            assert [e.jobs for e in first.journal(after=seq - 1, limit=9)] == [(winner,)]
            assert [row.id for row in first.jobs() if row.reason == f"turn {seq}"] == [winner]


def test_a_change_of_a_missing_row_keeps_nothing(store: Store) -> None:
    for turn in (
        Commit(entries=[an_entry(1)], jobs=[a_change(7)]),
        Commit(entries=[an_entry(1)], started=[(AttemptId(JobId(7), 1), 1.0, "/log")]),
        Commit(entries=[an_entry(1)], ended=[(AttemptId(JobId(7), 2), an_end())]),
    ):
        with pytest.raises(Failure, match="7"):
            store.commit(turn)
        assert store.last_seq() == 0


def test_an_attempt_cannot_be_launched_twice(store: Store) -> None:
    attempt = launched(store)
    with pytest.raises(Conflict, match="1-1"):
        store.commit(Commit(entries=[an_entry(1)], launched=[an_attempt(attempt.job)]))
    assert store.last_seq() == 0


def test_held_jobs_get_the_verdict_and_keep_the_rest(store: Store) -> None:
    ids = store.add_jobs([a_record() for _ in range(4)])
    store.commit(Commit(jobs=[a_change(ids[0], reason="why"), a_change(ids[1], JobState.RUNNING, 1)]))
    other = {**WAITS, "rule": "Exclusive"}
    store.commit(Commit(verdicts=[((ids[0], ids[1]), WAITS), ((ids[2],), WAITS), ((ids[2],), other)]))
    rows = store.jobs()
    assert [row.verdict for row in rows] == [WAITS, None, other, None]
    assert rows[0].reason == "why"


def test_a_hold_in_the_commit_of_the_submission_is_kept(store: Store) -> None:
    """The dispatcher notes the new job first and holds it later in the same turn."""
    (job,) = store.add_jobs([a_record()])
    store.commit(Commit(jobs=[a_change(job, verdict=None)], verdicts=[((job,), WAITS)]))
    row = store.job(job)
    assert row is not None
    assert row.verdict == WAITS


def test_ten_thousand_held_jobs_are_one_commit(store: Store) -> None:
    ids = tuple(store.add_jobs([a_record() for _ in range(10_000)]))
    store.commit(Commit(entries=[an_entry(1, *ids)], verdicts=[(ids, WAITS)]))
    assert {row.verdict["rule"] for row in store.jobs(ids=ids[::997]) if row.verdict} == {"Resources"}


def test_devices_and_hosts_are_upserted(store: Store) -> None:
    small, large = (Device(DeviceId("gpu0"), HostId("host"), "sim", "A", size) for size in (1, 2))
    store.commit(Commit(devices=[small, small], hosts={"host": ("boot-1", 9), "other": ("boot", 1)}))
    store.commit(Commit(devices=[large], hosts={"host": ("boot-2", 1)}))
    assert store.devices() == [large]
    assert store.hosts() == {"host": ("boot-2", 1), "other": ("boot", 1)}


def test_sharing_of_a_device_is_kept_and_may_change(store: Store) -> None:
    device = Device(DeviceId("gpu0"), HostId("host"), "nvml", "A", 2**40)
    for sharing in ("time-slicing", "mps", None):
        store.commit(Commit(devices=[replace(device, sharing=sharing)]))
        assert [each.sharing for each in store.devices()] == [sharing]


def test_a_reason_may_contain_any_text(store: Store) -> None:
    (job,) = store.add_jobs([a_record()])
    store.commit(Commit(jobs=[a_change(job, reason="before\x00after \u2028 '; DROP TABLE jobs; --")]))
    row = store.job(job)
    assert row is not None
    assert row.reason == "before\ufffdafter \u2028 '; DROP TABLE jobs; --"


def a_chance(job: JobId, at: float = 500.0, **changes: Any) -> Chance:
    values = {"rule": "Fits", "evidence": "rule", "newcomer": 1.1, "newcomer_upper": 1.3, "free_at": 900.0, **changes}
    return Chance(job=job, at=at, device="gpu0", beside=AttemptId(JobId(1), 1), **values)


def test_the_first_sharing_opportunity_of_a_job_stays(store: Store) -> None:
    first, second = store.add_jobs([a_record(), a_record()])
    seen = [a_chance(first), a_chance(second, 600.0, evidence=None, newcomer=None, newcomer_upper=None, free_at=None)]
    store.commit(Commit(chances=seen))
    store.commit(Commit(chances=[a_chance(first, 700.0)]))
    assert store.chances() == seen
    assert store.chances(since=550.0) == seen[1:]


def test_an_opportunity_of_an_unknown_job_refuses_the_commit(store: Store) -> None:
    with pytest.raises(Failure):
        store.commit(Commit(entries=[an_entry(1)], chances=[a_chance(JobId(9))]))
    assert store.chances() == []
    assert store.last_seq() == 0


def test_a_commit_that_is_repeated_is_kept_once(store: Store) -> None:
    """Its answer was lost on the way."""
    (job,) = store.add_jobs([a_record()])
    for _ in range(2):
        store.commit(a_whole_turn(1, job))
    assert (store.last_seq(), len(store.attempts(job))) == (1, 1)
    store.commit(Commit(entries=[an_entry(2)]))
    with pytest.raises(Conflict, match="number 1 is taken, the last is 2"):
        store.commit(a_whole_turn(1, job))


def test_a_commit_that_does_not_follow_the_last_one_keeps_nothing(store: Store) -> None:
    """The database was replaced by a replica that lacks the commits in between."""
    (job,) = store.add_jobs([a_record()])
    store.commit(Commit(entries=[an_entry(1)]))
    with pytest.raises(Conflict, match="lacks the journal entries 2 to 4"):
        store.commit(a_whole_turn(5, job))
    assert (store.last_seq(), store.attempts(job)) == (1, [])


def test_a_mark_that_goes_on_stays_one_mark(store: Store) -> None:
    def mark(from_at: float, until_at: float, count: int, kind: MarkKind = MarkKind.XID) -> DeviceMark:
        return DeviceMark(device="gpu0", kind=kind, detail="79", from_at=from_at, until_at=until_at, count=count)

    lowered = mark(15.0, 15.0, 1, MarkKind.LOWERED_CLOCKS)
    store.commit(Commit(marks=[mark(10.0, 10.0, 1), mark(50.0, 50.0, 1)]))
    store.commit(Commit(marks=[mark(10.0, 30.0, 4), lowered]))
    assert store.device_marks(since=0.0, until=99.0) == [mark(10.0, 30.0, 4), lowered, mark(50.0, 50.0, 1)]
    assert store.device_marks(since=20.0, until=40.0) == [mark(10.0, 30.0, 4)]
