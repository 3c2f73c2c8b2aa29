"""What the record hands out."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text

from gpuq.adapters.store import database, lists, open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import AttemptRow, Commit, LineRow, Run, Selection, Token
from gpuq.adapters.store.to_core import job_from_row
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobId, JobState, Sharing
from gpuq.errors import NotFound
from gpuq.messages.job_record import to_core
from gpuq.messages.submission import MAX_MOMENT
from tests.adapters.store.samples import WAITS, a_change, a_record, an_attempt, an_end, an_entry, launched
from tests.support.sqlite_record import make_record

LONG = "#" * 10_000  # with such a script, a job has a line beside its record


def ids(store: Store, **conditions: object) -> list[int]:
    return [row.id for row in store.jobs(**conditions)]  # type: ignore[arg-type]


def as_read(attempt: AttemptRow) -> AttemptRow:
    """JSON knows lists only."""
    return msgspec.json.decode(msgspec.json.encode(attempt), type=AttemptRow)


@pytest.fixture
def queue(store: Store) -> Store:
    """Ten jobs of two owners: 1-2 completed, 3 failed, 4 running, 5-10 pending; even ids are bob's."""
    store.add_jobs([a_record(owner="bob" if number % 2 == 0 else "ada") for number in range(1, 11)])
    ended = [a_change(1, JobState.COMPLETED), a_change(2, JobState.COMPLETED), a_change(3, JobState.FAILED)]
    store.commit(Commit(jobs=[*ended, a_change(4, JobState.RUNNING, 1)]))
    return store


def test_an_unknown_job_is_none(store: Store) -> None:
    for job in (1, 0, -1, 2**63, 10**30):
        assert store.job(JobId(job)) is None
        assert store.attempts(JobId(job)) == []
        assert store.claim(AttemptId(JobId(job), 1), "host", "home", "boot", 1.0) is None


def test_jobs_meet_every_condition(queue: Store) -> None:
    assert ids(queue) == list(range(1, 11))
    assert ids(queue, states=[JobState.COMPLETED]) == [1, 2]
    assert ids(queue, states=list(ENDED)) == [1, 2, 3]
    assert ids(queue, states=list(ACTIVE), owner="ada") == []
    assert ids(queue, states=[JobState.PENDING], owner="bob") == [6, 8, 10]
    assert ids(queue, ids=[JobId(n) for n in (10, 4, 4, 99, 1, 10**30)]) == [1, 4, 10]
    assert ids(queue, ids=[JobId(1), JobId(4)], states=[JobState.RUNNING]) == [4]
    assert ids(queue, states=[]) == []
    assert ids(queue, ids=[]) == []


def test_a_selection_meets_every_condition(queue: Store) -> None:
    def chosen(**conditions: object) -> dict[int, JobState]:
        return {int(job): state for job, state in queue.select(Selection(**conditions)).items()}  # type: ignore[arg-type]

    assert list(chosen()) == list(range(1, 11))
    assert chosen(states=(JobState.FAILED, JobState.RUNNING)) == {3: JobState.FAILED, 4: JobState.RUNNING}
    assert list(chosen(ids=((9, 99), (2, 4), (3, 3), (7, 6), (-5, 0), (8, 10**30)))) == [2, 3, 4, 8, 9, 10]
    assert list(chosen(ids=tuple((n, n) for n in range(1, 3000)), owner="bob")) == [2, 4, 6, 8, 10]
    assert chosen(ids=()) == chosen(states=()) == {}
    queue.add_jobs([a_record(name=name, project="p") for name in ("sweep-1", "sweep-2", "other")])
    assert list(chosen(name="sweep-*")) == [11, 12]
    assert list(chosen(name="sweep-2", project="p", kind="train.*")) == [12]
    assert chosen(project="q") == chosen(kind="trai") == {}


def test_names_are_searched_as_shell_patterns_with_every_sign_in_them(queue: Store) -> None:
    def found(pattern: str) -> list[int]:
        return list(queue.select(Selection(name=pattern)))

    queue.add_jobs([a_record(name=name) for name in ("50%_a", "50ab", "Bert", "bert", "a[1]", "back\\slash")])
    queue.commit(Commit(edited=[(JobId(12), JobEdit(name="renamed"))]))
    for pattern, jobs in {
        "50%_*": [11],
        "*t": [13, 14],
        "bert": [14],
        "[Bb]er?": [13, 14],
        "a[[]1]": [15],
        "*k\\s*": [16],
        "*ab": [],
        "re*med": [12],
    }.items():
        assert found(pattern) == jobs, pattern
    assert found("*") == list(range(1, 17))
    labels = queue.labels([JobId(n) for n in (12, 14, 2, 14, 99, -1, 10**30)])
    assert labels == {2: ("bob", None), 12: ("ada", "renamed"), 14: ("ada", "bert")}


def test_lines_are_the_jobs_without_environment_and_script(queue: Store) -> None:
    [job] = queue.add_jobs([a_record(name="n", priority=3, stdin=LONG, after=("ok:1",), retry=("oom:2",))])
    queue.commit(Commit(edited=[(job, JobEdit(name="renamed"))]))
    whole, line = queue.jobs(ids=[job, JobId(4)]), queue.lines(ids=[job, JobId(4)])
    assert [msgspec.convert(row, LineRow, from_attributes=True) for row in whole] == line
    assert line[1].record.submission.name == "renamed"
    assert [row.id for row in queue.lines(states=[JobState.PENDING], owner="bob", limit=2)] == [6, 8]


def test_lines_of_an_earlier_gpuq_are_read_from_the_records(
    database_url: str, store_of: Callable[[str], Store]
) -> None:
    store = store_of(database_url)
    store.add_jobs([a_record(name="old", stdin=LONG), a_record(name="new", stdin=LONG)])
    before = store.lines()
    with closing(database.Database(database_url)) as other, other.writing() as connection:
        connection.execute(text("DELETE FROM job_lines WHERE job = 1"))
    assert store.lines() == before
    assert [row.id for row in store.lines(name="old", kind="train*")] == [1]


def test_lines_read_no_long_record(database_url: str, store_of: Callable[[str], Store]) -> None:
    store = store_of(database_url)
    store.add_jobs([a_record(name="long", stdin=LONG), a_record(name="short")])
    with closing(database.Database(database_url)) as other, other.writing() as connection:
        connection.execute(text("UPDATE job_records SET record = 'no JSON' WHERE job = 1"))
    assert [row.record.submission.name for row in store.lines(kind="train*")] == ["long", "short"]
    assert list(store.select(Selection(kind="train*"))) == [1, 2]


def test_lists_are_filtered_by_patterns_before_the_limit(queue: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "_SCANNED", 3)
    queue.add_jobs([a_record(name=f"{'ab'[n % 2]}-{n}") for n in range(11, 21)])
    queue.commit(Commit(edited=[(JobId(12), JobEdit(name="b-renamed"))]))

    def found(**conditions: object) -> list[int]:
        ids = queue.job_ids(**conditions)  # type: ignore[arg-type]
        assert [row.id for row in queue.lines(**conditions)] == ids  # type: ignore[arg-type]
        return [int(one) for one in ids]

    assert found(name="b-*") == [11, 12, 13, 15, 17, 19]
    assert found(name="b-*", limit=2) == [11, 12]
    assert found(name="b-*", limit=2, newest_first=True) == [19, 17]
    assert found(name="b-*", limit=2, newest_first=True, after=JobId(17)) == [15, 13]
    assert found(name="b-*", ids=[JobId(n) for n in (19, 14, 11)]) == [11, 19]
    assert found(name="b-*", states=[JobState.PENDING], owner="ada", kind="train.p?", limit=1) == [11]
    assert found(name="b-*", kind="other") == found(name="B-*") == found(name="b") == []
    assert found(name="*", limit=3) == [1, 2, 3]
    assert ids(queue, name="a-20") == [20]


def test_a_project_may_be_a_pattern(queue: Store) -> None:
    queue.add_jobs([a_record(project=name) for name in ("vision", "vis", "text")])
    assert ids(queue, project="vis*") == [11, 12]
    assert ids(queue, project="vis") == [12]
    assert ids(queue, project="*[nt]") == [11, 13]


def test_kinds_are_searched_with_every_sign_in_them(store: Store) -> None:
    kinds = ('ada:"a" b', "ada:back\\slash", "ada:50%_é", "Ada:tab\there", "ada:a/b")
    store.add_jobs([msgspec.structs.replace(a_record(), kind=kind) for kind in kinds])
    for pattern, jobs in {
        '*"a" *': [1],
        "*k\\s*": [2],
        "ada:50%_é": [3],
        "Ada:*": [4],
        "*\there": [4],
        "ada:a/?": [5],
        "[aA]da:*": [1, 2, 3, 4, 5],
        "*50ab*": [],
    }.items():
        assert [row.id for row in store.lines(kind=pattern)] == jobs == list(store.select(Selection(kind=pattern)))


def test_requests_about_many_jobs_are_all_kept_or_none(queue: Store) -> None:
    before = queue.requests(100)
    queue.add_requests("hold", [JobId(5), JobId(6)], "ada", 3.0, {"edit": {"priority": 5}})
    assert [(r.verb, r.job, r.by, r.at, r.body) for r in queue.requests(100)[len(before) :]] == [
        ("hold", 5, "ada", 3.0, {"edit": {"priority": 5}}),
        ("hold", 6, "ada", 3.0, {"edit": {"priority": 5}}),
    ]
    with pytest.raises(NotFound):
        queue.add_requests("hold", [JobId(7), JobId(4711)], "ada", 4.0, {})
    queue.add_requests("hold", [], "ada", 5.0, {})
    assert len(queue.requests(100)) == len(before) + 2
    assert (queue.count_requests("ada"), queue.count_requests("eve")) == (2, 0), "without submissions"


def test_stored_numbers_beyond_todays_limits_are_clamped(database_url: str, store_of: Callable[[str], Store]) -> None:
    store = store_of(database_url)
    [job] = store.add_jobs([a_record(deadline_at=2.0e9, time_limit_s=60.0)])
    with closing(database.Database(database_url)) as other, other.writing() as connection:
        record = connection.exec_driver_sql("SELECT record FROM job_records").scalar_one()
        wild = record.replace("2000000000.0", "1.7976931348623155e308")
        connection.execute(text("UPDATE job_records SET record = :wild"), {"wild": wild})
    kept = store.job(job)
    assert kept is not None
    assert (kept.record.submission.deadline_at, kept.record.submission.time_limit_s) == (MAX_MOMENT, 60.0)


def test_a_stored_name_with_a_newline_at_its_end_can_be_read(
    database_url: str, store_of: Callable[[str], Store]
) -> None:
    store = store_of(database_url)
    [job] = store.add_jobs([a_record(name="of-release-0.1")])
    with closing(database.Database(database_url)) as other, other.writing() as connection:
        record = connection.exec_driver_sql("SELECT record FROM job_records").scalar_one()
        connection.execute(text("UPDATE job_records SET record = :old"), {"old": record.replace('0.1"', '0.1\\n"')})
    kept = store.job(job)
    assert kept is not None
    assert kept.record.submission.name == "of-release-0.1"


def test_jobs_page_in_both_directions(queue: Store) -> None:
    assert ids(queue, limit=3) == [1, 2, 3]
    assert ids(queue, limit=3, after=JobId(3)) == [4, 5, 6]
    assert ids(queue, limit=3, newest_first=True) == [10, 9, 8]
    assert ids(queue, limit=3, newest_first=True, after=JobId(8)) == [7, 6, 5]
    assert ids(queue, limit=1, ids=[JobId(7), JobId(3)], newest_first=True) == [7]


def test_a_page_of_several_states_is_in_order(queue: Store) -> None:
    some = [JobState.FAILED, JobState.PENDING, JobState.COMPLETED]
    assert ids(queue, states=some, limit=4) == [1, 2, 3, 5]
    assert ids(queue, states=some, limit=4, newest_first=True, after=JobId(6)) == [5, 3, 2, 1]
    assert ids(queue, states=some, limit=2, owner="ada", after=JobId(1)) == [3, 5]


def test_thousands_of_ids_may_be_asked_for(store: Store) -> None:
    wanted = store.add_jobs([a_record() for _ in range(2500)])
    assert ids(store, ids=wanted[::-1]) == wanted
    assert ids(store, ids=wanted, limit=1000, newest_first=True) == wanted[:-1001:-1]


def test_jobs_are_counted_by_state(queue: Store) -> None:
    expected = {JobState.COMPLETED: 2, JobState.FAILED: 1, JobState.RUNNING: 1, JobState.PENDING: 6}
    assert queue.count_by_state() == expected


def test_a_change_is_read_back(store: Store) -> None:
    (job,) = store.add_jobs([a_record()])
    change = a_change(job, JobState.HELD, 3, alone=True, cancel_requested=True, verdict=WAITS, reason="because")
    store.commit(Commit(jobs=[change]))
    row = store.job(job)
    assert row is not None
    assert (job_from_row(row), row.verdict, row.reason) == (change.job, change.verdict, change.reason)


def test_attempts_come_back_as_launched_and_as_ended(store: Store) -> None:
    first = launched(store)
    assert store.attempts(first.job) == [as_read(an_attempt(first.job))]
    assert store.live_attempts() == store.attempts(first.job)
    end = an_end(exit_code=None, reason="gone\x00", ending="lost", actual=None)
    store.commit(Commit(ended=[(first, end)], launched=[an_attempt(first.job, 2)]))
    ended, second = store.attempts(first.job)
    assert (ended.ended_at, ended.ending, ended.exit_code, ended.reason) == (300.0, "lost", None, "gone\ufffd")
    assert (ended.measurement, ended.actual) == (end["measurement"], None)
    assert store.live_attempts() == [second]


def test_finished_attempts_are_those_that_started_and_ended(store: Store) -> None:
    jobs = store.add_jobs([a_record() for _ in range(4)])
    store.commit(Commit(launched=[an_attempt(job) for job in jobs]))
    one, two, three, never = (AttemptId(job, 1) for job in jobs)
    store.commit(Commit(started=[(each, 220.0, "/log") for each in (one, two, three)]))
    store.commit(Commit(ended=[(one, an_end(330.0)), (two, an_end(310.0)), (never, an_end(320.0))]))
    finished = store.finished_attempts()
    assert [(job.id, attempt.job, attempt.ended_at) for job, attempt in finished] == [(2, 2, 310.0), (1, 1, 330.0)]
    assert finished[0] == (store.job(two.job), store.attempts(two.job)[0])
    assert len(store.finished_attempts(limit=1)) == 1
    assert [attempt.job for _, attempt in store.finished_attempts(since=330.0)] == [1]


def test_runs_are_the_attempts_that_started_as_reports_count_them(store: Store) -> None:
    jobs = store.add_jobs([a_record() for _ in range(3)])
    store.commit(Commit(launched=[an_attempt(job) for job in jobs]))
    one, two, never = (AttemptId(job, 1) for job in jobs)
    store.commit(Commit(started=[(each, 220.0, "/log") for each in (one, two)]))
    store.commit(Commit(ended=[(one, an_end(330.0)), (never, an_end(320.0))]))
    rows = {job: (store.job(job), store.attempts(job)[0]) for job in jobs[:2]}
    expected = [Run.of(job, attempt) for job, attempt in rows.values() if job is not None]
    assert store.runs(since=0.0) == expected
    assert [run.job for run in store.runs(since=331.0)] == [two.job], "what runs has not ended before"


def test_services_are_ordered_by_end(store: Store) -> None:
    jobs = store.add_jobs([a_record() for _ in range(3)])
    store.commit(Commit(launched=[an_attempt(job) for job in jobs]))
    one, two, never = (AttemptId(job, 1) for job in jobs)
    store.commit(Commit(started=[(each, 220.0, "/log") for each in (one, two)]))
    store.commit(Commit(ended=[(one, an_end(330.0)), (two, an_end(310.0)), (never, an_end(320.0))]))
    reported = store.services(since=0.0)
    assert [(had.job, had.started_at, had.ended_at) for had in reported] == [(2, 220.0, 310.0), (1, 220.0, 330.0)]
    assert {had.owner for had in reported} == {a_record().owner}
    assert {had.devices for had in reported} == {len(an_attempt(one.job).devices)}
    assert [had.job for had in store.services(since=320.0)] == [1]


# --- several processes


def work_like_a_process(url: str, who: int) -> tuple[list[int], list[int]]:
    """Submits, asks and claims as fast as it can; its jobs, and the attempts it got."""
    store = open_store(url)
    mine: list[int] = []
    won: list[int] = []
    for number in range(25):
        mine += store.add_jobs([a_record(f"{who}-{number}"), a_record()])
        store.add_request("cancel", JobId(mine[-1]), "ada", 1.0, {})
        if store.claim(AttemptId(JobId(number + 1), 1), "host", "home", f"boot-{who}", 1.0):
            won.append(number + 1)
    store.close()
    return mine, won


def test_processes_write_side_by_side_and_claims_have_one_winner(
    database_url: str, store_of: Callable[[str], Store]
) -> None:
    """Two processes and a dispatcher write at once: nothing is lost, nothing fails because another one writes."""
    store = store_of(database_url)
    for _ in range(25):
        launched(store)
    clean = multiprocessing.get_context("forkserver")  # forks of a process that has only imported this module
    clean.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(2, mp_context=clean) as processes:
        running = [processes.submit(work_like_a_process, database_url, who) for who in range(2)]
        seq = 0
        while wait(running, timeout=0.02).not_done:
            seq += 1
            store.commit(Commit(entries=[an_entry(seq, 1)], hosts={"host": ("boot", seq)}))
        results = [each.result() for each in running]
    jobs = [job for mine, _ in results for job in mine]
    assert sorted(jobs) == list(range(26, 126))
    assert all(mine == sorted(mine) for mine, _ in results)
    assert sorted(attempt for _, won in results for attempt in won) == list(range(1, 26))
    assert sum(request.verb == "cancel" for request in store.requests(1000)) == 50
    assert store.last_seq() == seq


# --- by index, not by reading everything


# Only jobs of one state that are of no array, or of one array, are read, and not all tasks that are in this state.
_OF_ONE_ARRAY = "INDEX ix_jobs_state_of_array_id (state=? AND of_array=?)"


@pytest.mark.parametrize(
    ("call", "index"),
    [
        (lambda s: s.jobs(states=[JobState.PENDING]), "ix_jobs_state_id"),
        (lambda s: s.jobs(states=list(ENDED), limit=50, newest_first=True), "ix_jobs_state_id"),
        (lambda s: s.jobs(owner="ada", limit=50, newest_first=True), "ix_jobs_owner_id"),
        (lambda s: s.jobs(ids=[JobId(1), JobId(2)]), "PRIMARY KEY"),
        (lambda s: s.count_by_state(), "COVERING INDEX ix_jobs_state_of_array_id"),
        (lambda s: s.jobs(owner="ada", states=list(WAITING), limit=50, tasks=False), _OF_ONE_ARRAY),
        (lambda s: s.arrays(owner="ada", states=list(WAITING)), "SCAN arrays"),
        (lambda s: s.arrays(owner="ada", states=list(WAITING)), _OF_ONE_ARRAY),
        (lambda s: s.record_bytes("ada"), "SEARCH jobs USING INDEX ix_jobs_state"),
        (lambda s: s.services(since=1.0), "ix_attempts_finished"),
        (lambda s: s.device_marks(since=1.0, until=2.0), "ix_device_marks_until_at"),
        (lambda s: s.bookings(since=1.0), "ix_bookings_until_at"),
        (lambda s: s.add_jobs([a_record("key")]), "uq_jobs_owner_idempotency_key"),
        (lambda s: s.live_attempts(), "ix_attempts_live"),
        (lambda s: s.finished_attempts(limit=10), "ix_attempts_finished"),
        (lambda s: s.runs(since=1.0), "ix_attempts_finished"),
        (lambda s: s.runs(since=1.0), "ix_attempts_live"),
        (lambda s: s.journal(after=0, limit=10, only_jobs=True), "ix_journal_of_jobs"),
        (lambda s: s.journal(after=0, limit=10, job=JobId(1)), "ix_journal_of_one_job"),
        (lambda s: s.journal(after=0, limit=10, job=JobId(1)), "ix_journal_of_many_jobs"),
    ],
)
def test_sqlite_finds_rows_by_index(
    tmp_path: Path, call: Callable[[Store], object], index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_record(tmp_path / "gpuq.db")
    said: list[str] = []
    real = database._connect

    def connect(path: Path, upgrading: bool) -> sqlite3.Connection:
        connection = real(path, upgrading)
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(database, "_connect", connect)
    with closing(open_store(url)) as store:
        call(store)
    with closing(sqlite3.connect(tmp_path / "gpuq.db")) as reader:
        queries = [each for each in said if each.lstrip().startswith("SELECT") and "FROM sqlite" not in each]
        plan = "\n".join(str(row[3]) for query in queries for row in reader.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert index in plan


def test_tokens_are_kept_and_revoked_once(store: Store) -> None:
    def token(name: str, user: str, at: float) -> Token:
        uid = 2**32 - 2 if user == "ann" else None
        return Token(id=name, user=user, uid=uid, role="user", digest="d", note=None, made_at=at, expires_at=None)

    one, other = token("b", "ann", 1.0), token("a", "bob", 2.0)
    store.add_token(one)
    store.add_token(other)
    assert store.tokens() == [one, other]
    assert store.tokens(user="bob") == [other]
    assert (store.token("b"), store.token("c"), store.token("\0")) == (one, None, None), "an address may have any sign"
    for at in (5.0, 6.0):
        store.revoke_token("b", at)
        store.revoke_token("c", at)
    assert store.token("b") == msgspec.structs.replace(one, revoked_at=5.0)
    assert store.token("a") == other


def test_drained_hosts_are_kept_until_they_are_resumed(store: Store) -> None:
    store.commit(Commit(drained={"node1": "new driver", "node2": "fan"}))
    store.commit(Commit(drained={"node1": None, "node2": "fan is loud", "node3": None}))
    assert store.drained() == {"node2": "fan is loud"}


def test_queued_jobs_are_those_that_have_not_ended_as_the_core_sees_them(store: Store) -> None:
    """Without what only a host needs, such as the environment."""
    asked = {"priority": 7, "gpus": 2, "most_gpus": 4, "gpu_memory": 2**40, "deadline_at": 2e9, "max_slowdown": 1.5}
    records = [
        a_record(**asked),
        a_record(hold=True, requeue_on_node_fail=True, share=Sharing.NEVER),
        a_record(),
        a_record(signal="SIGUSR1"),
    ]
    one, two, ended, four = store.add_jobs(records)
    store.commit(Commit(jobs=[a_change(ended, JobState.COMPLETED, 1), a_change(four, verdict=WAITS)]))
    rows = [*store.queued_jobs(after=None, limit=1), *store.queued_jobs(after=one, limit=10)]
    assert [row.id for row in rows] == [one, two, four]
    for row in rows:
        full = store.job(row.id)
        assert full is not None
        assert to_core(row.id, row.record) == to_core(row.id, full.record)
        assert (row.record.features, row.verdict) == (full.record.features, full.verdict)
