"""The fenced start of an attempt, its revocation, and the lease of a host's name."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier

import pytest

from gpuq.adapters.store import claims
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import LEASE_S, Claim, Commit
from gpuq.core.state.actions import Launch
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobState
from gpuq.messages.codec import decoded
from tests.adapters.store.samples import a_change, a_record, an_attempt, an_end, an_entry, launched
from tests.support.memory_store import MemoryStore


def test_a_claim_returns_the_launch_spec(store: Store) -> None:
    attempt = launched(store)
    claimed = store.claim(attempt, "host", "home", "boot-1", 215.0)
    assert claimed is not None
    record, launched_attempt = claimed
    assert record == a_record()
    assert launched_attempt == decoded(an_attempt(attempt.job).launch, Launch).attempt
    (row,) = store.attempts(attempt.job)
    assert (row.claimed_at, row.instance, row.boot_id) == (215.0, "home", "boot-1")


def test_only_the_first_claim_succeeds(store: Store) -> None:
    attempt = launched(store)
    assert store.claim(attempt, "host", "home", "boot-1", 215.0) is not None
    assert store.claim(attempt, "host", "home", "boot-2", 216.0) is None
    assert store.attempts(attempt.job)[0].boot_id == "boot-1"


def test_a_claim_by_another_host_is_dropped(store: Store) -> None:
    attempt = launched(store)
    assert store.claim(attempt, "elsewhere", "home", "boot", 215.0) is None
    assert store.claim(attempt, "host", "home", "boot", 215.0) is not None


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.STARTING])
def test_a_claim_is_dropped_unless_the_job_is_starting(store: Store, state: JobState) -> None:
    attempt = launched(store)
    store.commit(Commit(jobs=[a_change(attempt.job, state, 1)]))
    assert store.claim(attempt, "host", "home", "boot", 215.0) is None
    assert store.attempts(attempt.job)[0].claimed_at is None


def test_a_claim_of_an_ended_attempt_is_dropped(store: Store) -> None:
    attempt = launched(store)
    store.commit(Commit(ended=[(attempt, an_end())]))
    assert store.claim(attempt, "host", "home", "boot", 215.0) is None


def test_a_claim_of_an_older_or_unknown_attempt_is_dropped(store: Store) -> None:
    first = launched(store)
    again = Commit(jobs=[a_change(first.job, JobState.STARTING, 2)], launched=[an_attempt(first.job, 2)])
    store.commit(again)
    assert store.claim(first, "host", "home", "boot", 215.0) is None
    assert store.claim(AttemptId(first.job, 3), "host", "home", "boot", 215.0) is None
    assert store.claim(AttemptId(first.job, 2), "host", "home", "boot", 215.0) is not None


def test_each_host_of_a_gang_claims_its_own_attempt(store: Store) -> None:
    (job,) = store.add_jobs([a_record(gpus=4, hosts=2)])
    start = [an_attempt(job, 3, host="a"), an_attempt(job, 4, host="b")]
    store.commit(Commit(jobs=[a_change(job, JobState.STARTING, 3)], launched=start))
    assert store.claim(AttemptId(job, 4), "a", "home", "boot", 215.0) is None
    assert store.claim(AttemptId(job, 4), "b", "home", "boot", 215.0) is not None
    assert store.claim(AttemptId(job, 4), "b", "home", "boot", 216.0) is None
    assert store.claim(AttemptId(job, 3), "a", "home", "boot", 217.0) is not None


def test_of_many_claims_at_once_one_wins(open_record: Callable[[], Store]) -> None:
    stores = [open_record() for _ in range(6)]
    for _ in range(10):
        attempt = launched(stores[0])
        with ThreadPoolExecutor(6) as threads:
            claims = list(threads.map(lambda each: each.claim(attempt, "host", "home", "boot", 1.0), stores))  # noqa: B023
        assert sum(claim is not None for claim in claims) == 1


def test_concurrent_stop_and_claim_agree(open_record: Callable[[], Store]) -> None:
    """Whoever is first: an attempt that was ended before its claim is never claimed."""
    dispatcher, worker = open_record(), open_record()
    for seq in range(1, 21):
        attempt = launched(dispatcher)
        end = Commit(
            entries=[an_entry(seq, attempt.job)],
            jobs=[a_change(attempt.job, JobState.CANCELLED, 1)],
            ended=[(attempt, an_end())],
        )
        with ThreadPoolExecutor(2) as threads:
            claimed = threads.submit(worker.claim, attempt, "host", "home", "boot", 1.0)
            threads.submit(dispatcher.commit, end).result()
        (row,) = dispatcher.attempts(attempt.job)
        assert row.ended_at == 300.0
        assert (row.claimed_at is not None) == (claimed.result() is not None)
        assert worker.claim(attempt, "host", "home", "boot", 2.0) is None


def test_a_revoked_launch_cannot_be_claimed(store: Store) -> None:
    attempt = launched(store)
    assert store.revoke(attempt, 220.0, epoch=0) is None
    assert store.revoke(attempt, 230.0, epoch=0) is None
    assert store.claim(attempt, "host", "home", "boot", 240.0) is None
    (row,) = store.attempts(attempt.job)
    assert (row.revoked_at, row.claimed_at, row.instance) == (220.0, None, None)
    assert store.revoke(AttemptId(attempt.job, 2), 220.0, epoch=0) is None


def test_a_claimed_launch_cannot_be_revoked(store: Store) -> None:
    attempt = launched(store)
    store.lease_host("host", "home")
    store.claim(attempt, "host", "home", "boot", 215.0)
    assert store.revoke(attempt, 220.0, epoch=0) == Claim(instance="home", holder="home")
    assert store.attempts(attempt.job)[0].revoked_at is None


def test_of_claim_and_revoke_at_once_exactly_one_succeeds(open_record: Callable[[], Store]) -> None:
    """As when a host is cut off at the moment at which it claims a job: 200 times."""
    dispatcher, worker = open_record(), open_record()
    jobs = dispatcher.add_jobs([a_record() for _ in range(200)])
    dispatcher.commit(
        Commit(
            jobs=[a_change(job, JobState.STARTING, 1) for job in jobs],
            launched=[an_attempt(job) for job in jobs],
        )
    )
    both = Barrier(2)
    patience = Random(0)

    def claim(attempt: AttemptId) -> bool:
        both.wait()
        return worker.claim(attempt, "host", "home", "boot", 1.0) is not None

    def revoke(attempt: AttemptId, after_s: float) -> bool:
        both.wait()
        time.sleep(after_s)  # so that each is the first at times
        return dispatcher.revoke(attempt, 1.0, epoch=0) is None

    claims = 0
    with ThreadPoolExecutor(2) as threads:
        for attempt in (AttemptId(job, 1) for job in jobs):
            claimed = threads.submit(claim, attempt)
            revoked = threads.submit(revoke, attempt, patience.choice((0.0, 0.0005, 0.001)))
            assert claimed.result() != revoked.result(), attempt
            claims += claimed.result()
    rows = dispatcher.live_attempts()
    assert [(row.claimed_at is None) for row in rows] == [(row.revoked_at is not None) for row in rows]
    assert sum(row.claimed_at is not None for row in rows) == claims


# --- the lease of a host


def test_one_instance_has_the_lease_of_a_host(open_record: Callable[[], Store]) -> None:
    one, two = open_record(), open_record()
    assert one.lease_host("host", "original").instance == "original"
    assert two.lease_host("host", "clone").instance == "original"
    assert two.lease_host("elsewhere", "clone").instance == "clone"
    before = two.lease_host("host", "clone")
    assert one.lease_host("host", "original").renewed_at >= before.renewed_at


def test_of_many_instances_at_once_one_gets_the_lease(open_record: Callable[[], Store]) -> None:
    stores = [open_record() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        leases = list(threads.map(lambda number: stores[number].lease_host("host", f"home {number}"), range(4)))
    assert len({lease.instance for lease in leases}) == 1


@pytest.mark.parametrize("clock_runs_s", [LEASE_S + 1, -LEASE_S - 1])
def test_a_lease_that_was_not_renewed_goes_to_another_instance(
    store: Store, clock_runs_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = launched(store)
    other = launched(store)
    store.lease_host("host", "original")
    assert store.claim(attempt, "host", "original", "boot", 1.0) is not None
    _set_clock(monkeypatch, store, clock_runs_s)
    assert store.lease_host("host", "reinstalled").instance == "reinstalled"
    assert store.lease_host("host", "original").instance == "reinstalled"
    assert store.claim(other, "host", "original", "boot", 2.0) is None, "it does not have the name any more"
    assert store.revoke(attempt, 3.0, epoch=0) == Claim(instance="original", holder="reinstalled")


def _set_clock(monkeypatch: pytest.MonkeyPatch, store: Store, seconds: float) -> None:
    """Set the clock of the record ahead or back."""
    if isinstance(store, MemoryStore):
        monkeypatch.setattr(store, "_clock", lambda: time.time() + seconds)
    else:
        now = claims._now
        monkeypatch.setattr(claims, "_now", lambda connection: now(connection) + seconds)
