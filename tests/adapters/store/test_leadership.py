"""One dispatcher leads; the commits of all others keep nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import time
from typing import Any

import pytest
from sqlalchemy import event, select, update

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.leadership import release, renew, take
from gpuq.adapters.store.row_types import Commit
from gpuq.adapters.store.schema import leadership
from gpuq.adapters.store.sql import SqlStore
from gpuq.errors import Conflict, Unreachable
from tests.adapters.store.samples import a_change, a_record, an_entry, launched
from tests.support.memory_store import MemoryStore

LONG_S = 3600.0
EXPIRED = -1.0
"""A lease of this length has expired even if it was renewed just now."""


def lead(store: Store, holder: str, lease_s: float = LONG_S) -> int:
    epoch = store.take_leadership(holder, lease_s)
    assert epoch is not None
    return epoch


def set_renewed_at(store: Store, at: float) -> None:
    """Renew the lease at this time of the database's clock."""
    if isinstance(store, MemoryStore):
        store.renewed_at = at
    else:
        assert isinstance(store, SqlStore)
        with store._database.writing() as connection:
            connection.execute(update(leadership).values(renewed_at=at))


def test_a_new_record_has_no_leader(store: Store) -> None:
    leader = store.leader()
    assert (leader.epoch, leader.holder) == (0, None)


def test_each_leader_has_an_epoch_of_its_own(store: Store) -> None:
    assert lead(store, "one") == 1
    assert store.take_leadership("two", LONG_S) is None
    assert (store.leader().epoch, store.leader().holder) == (1, "one")
    assert lead(store, "two", EXPIRED) == 2
    assert (store.leader().epoch, store.leader().holder) == (2, "two")


def test_a_holder_that_starts_again_need_not_wait_for_its_own_lease(store: Store) -> None:
    assert lead(store, "one") == 1
    assert lead(store, "one") == 2


def test_a_released_leadership_can_be_taken_at_once(store: Store) -> None:
    epoch = lead(store, "one")
    store.release_leadership(epoch)
    assert store.leader().holder is None
    assert lead(store, "two") == 2
    store.release_leadership(epoch)
    assert store.leader().holder == "two", "an earlier leader releases nothing"


def test_a_commit_renews_the_lease(store: Store) -> None:
    epoch = lead(store, "one")
    set_renewed_at(store, time() - 60)
    assert 59 < store.leader().renewed_s_ago < 70
    store.commit(Commit(epoch=epoch))
    assert store.leader().renewed_s_ago < 5
    assert store.take_leadership("two", 30) is None


@pytest.mark.parametrize("renewed_s_ago", [60, -60])
def test_a_lease_of_before_a_clock_step_has_expired(store: Store, renewed_s_ago: float) -> None:
    lead(store, "one")
    set_renewed_at(store, time() - renewed_s_ago)
    assert store.take_leadership("two", 90) is None
    assert lead(store, "two", 30) == 2


def test_a_commit_in_an_earlier_epoch_keeps_nothing(store: Store) -> None:
    (job,) = store.add_jobs([a_record()])
    before = lead(store, "one")
    now = lead(store, "two", EXPIRED)
    for stale in (
        Commit(epoch=before),
        Commit(epoch=before, handled=[1]),
        Commit(epoch=before, entries=[an_entry(1)], jobs=[a_change(job, reason="stale")]),
    ):
        with pytest.raises(Conflict, match=r"two has taken over, in epoch 2\. This one led in epoch 1"):
            store.commit(stale)
    assert [request.verb for request in store.requests(10)] == ["submit"]
    assert (store.last_seq(), store.jobs()[0].reason) == (0, None)
    store.commit(Commit(epoch=now, entries=[an_entry(1)], handled=[1]))
    assert (store.last_seq(), store.requests(10)) == (1, [])


def test_a_record_that_was_led_before_takes_no_commit_without_an_epoch(store: Store) -> None:
    store.release_leadership(lead(store, "one"))
    with pytest.raises(Conflict, match="Another dispatcher has taken over"):
        store.commit(Commit(entries=[an_entry(1)]))
    assert store.last_seq() == 0


@pytest.mark.parametrize("does", ["renew", "take", "release"])
def test_a_leader_suspended_in_the_middle_of_a_commit_does_not_keep_the_leadership(
    postgresql_url: str, store_of: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """It holds the lock of the row from its first statement on, until the server ends its transaction."""
    monkeypatch.setattr("gpuq.adapters.store.suspension.SUSPENDED_S", 1.0)
    suspended, other = store_of(postgresql_url), store_of(postgresql_url)
    assert isinstance(suspended, SqlStore)
    epoch = lead(suspended, "one", EXPIRED)
    statements = []

    def suspended_after_the_first_statement(*_: Any) -> None:
        statements.append(does)
        if len(statements) == 1:
            assert lead(other, "two", EXPIRED) == epoch + 1

    def work() -> None:
        with suspended._database.writing() as connection:
            event.listen(connection, "after_cursor_execute", suspended_after_the_first_statement)
            match does:
                case "renew":
                    renew(connection, epoch)
                case "take":
                    take(connection, "one", EXPIRED)
                case "release":
                    release(connection, epoch)
            connection.execute(select(leadership))

    with pytest.raises(Unreachable):
        work()
    with pytest.raises(Conflict):
        suspended.commit(Commit(epoch=epoch))


def test_of_two_that_take_the_leadership_at_once_one_leads(open_record: Callable[[], Store]) -> None:
    stores = [open_record(), open_record()]
    with ThreadPoolExecutor(2) as threads:
        for number in range(1, 21):
            names = (f"one {number}", f"two {number}")
            epochs = list(threads.map(lambda store, name: store.take_leadership(name, LONG_S), stores, names))
            assert sorted(epoch or 0 for epoch in epochs) == [0, number]
            stores[0].release_leadership(number)


def test_an_epoch_may_be_raised(store: Store) -> None:
    assert lead(store, "one") == 1
    assert store.take_leadership("one", LONG_S, above=40) == 41
    assert store.take_leadership("one", LONG_S, above=7) == 42
    assert store.take_leadership("two", LONG_S, above=90) is None


def test_the_other_writes_of_a_dispatcher_need_its_epoch_and_renew_the_lease(store: Store) -> None:
    attempt = launched(store)
    before, now = lead(store, "one"), lead(store, "two", EXPIRED)
    for write in (partial(store.revoke, attempt, 1.0), partial(store.prune_journal, 1)):
        with pytest.raises(Conflict, match="two has taken over"):
            write(epoch=before)
        set_renewed_at(store, time() - 60)
        write(epoch=now)
        assert store.leader().renewed_s_ago < 5


def test_what_all_dispatchers_share_is_kept(store: Store) -> None:
    assert (store.leader().order_key, store.leader().first_attempt) == (None, 1)
    store.commit(Commit(order_key="main 12ab"))
    store.commit(Commit(first_attempt=1001))
    store.commit(Commit())
    assert (store.leader().order_key, store.leader().first_attempt) == ("main 12ab", 1001)
