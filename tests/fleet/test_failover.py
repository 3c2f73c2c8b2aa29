"""PostgreSQL's primary is lost and its replica is promoted: gpuq goes on with it, by the address that names both.

With `synchronous_standby_names` nothing that was acknowledged is lost, whatever the replica had at that moment.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.fleet.fleet import DISPATCHERS, Fleet
from tests.fleet.rows import Row
from tests.fleet.test_database_cuts import Submitter
from tests.support.site import wait_for


def a_failover(fleet: Fleet, chance: random.Random) -> dict[str, Any]:
    """Kill the primary once its replica has what was acknowledged, promote the replica, and make the former primary follow it."""
    running = [fleet.submit(chance.uniform(5, 20), chance.randrange(4)) for _ in range(4)]
    ended = [fleet.submit(0.2) for _ in range(4)]
    fleet.wait(ended)
    wait_for(lambda: len(fleet.runs(running)) == len(running), 30)
    lost, kept = ("db", "replica") if fleet.database == "db" else ("replica", "db")
    [(written,)] = fleet.sql("SELECT pg_current_wal_flush_lsn()::text")
    wait_for(lambda: fleet.sql("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written, host=kept)[0][0], 20)
    epoch, _ = fleet.leader()

    fleet.signal(lost, "lab-postgresql", "KILL")
    time.sleep(chance.uniform(0.0, 5.0))
    fleet.promote(kept)
    promoted = time.monotonic()
    later = [fleet.submit(0.2)]
    acknowledged_s = time.monotonic() - promoted
    fleet.wait(later)
    ran_s = time.monotonic() - promoted
    fleet.wait(running)
    jobs = [*running, *ended, *later]
    wrong = fleet.faults(jobs)
    assert not wrong, wrong
    assert fleet.leader()[0] >= epoch
    fleet.follow(lost)
    return {"jobs": len(jobs), "acknowledged_s": round(acknowledged_s, 2), "ran_s": round(ran_s, 2)}


@pytest.mark.short_form(2)
def test_failovers_of_postgresql(fleet: Fleet, row: Row) -> None:
    row.repeat(lambda chance, _: a_failover(fleet, chance), p99={"ran_s": 15})


def replicate_synchronously(fleet: Fleet) -> None:
    """Let each commit wait for the replica; returns once the primary does."""
    fleet.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    fleet.sql("SELECT pg_reload_conf()")
    wait_for(lambda: fleet.sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"), 20)


def replicate_asynchronously(fleet: Fleet) -> None:
    fleet.sql("ALTER SYSTEM RESET synchronous_standby_names")
    fleet.sql("SELECT pg_reload_conf()")


def a_synchronous_failover(fleet: Fleet, chance: random.Random) -> dict[str, Any]:
    """Kill the primary while users submit, in some repetitions seconds after it lost its replica, and promote the replica."""
    lost, kept = ("db", "replica") if fleet.database == "db" else ("replica", "db")
    cut_s = chance.choice((0.0, chance.uniform(0.1, 8.0)))
    replicate_synchronously(fleet)
    with Submitter(fleet, chance.choice(DISPATCHERS)) as submitter:
        wait_for(lambda: len(submitter.acknowledged()) >= chance.randint(1, 4), 30)
        before = len(submitter.acknowledged())
        if cut_s:
            fleet.lab.cut(kept)
            time.sleep(cut_s)
        during = len(submitter.acknowledged()) - before
        fleet.signal(lost, "lab-postgresql", "KILL")
        if cut_s:
            fleet.lab.heal(kept)
        fleet.promote(kept)
        promoted = time.monotonic()
        # The copy has its primary's settings, and there is no replica now that a commit could wait for.
        replicate_asynchronously(fleet)
        known = len(submitter.acknowledged())
        wait_for(lambda: len(submitter.acknowledged()) > known, 30)
        acknowledged_s = time.monotonic() - promoted
    jobs = submitter.acknowledged()
    found = {job for (job,) in fleet.sql("SELECT id FROM jobs WHERE id = ANY(%s)", jobs)}
    assert found == set(jobs), f"lost: {set(jobs) - found}"
    fleet.wait(jobs)
    wrong = fleet.faults(jobs)
    assert not wrong, wrong
    fleet.follow(lost)
    return {
        "cut_s": round(cut_s, 1),
        "acknowledged": len(jobs),
        "acknowledged_during_cut": during,
        "acknowledged_s": round(acknowledged_s, 2),
    }


@pytest.mark.short_form(2)
def test_synchronous_failovers_of_postgresql(fleet: Fleet, row: Row) -> None:
    try:
        row.repeat(lambda chance, _: a_synchronous_failover(fleet, chance), p99={"acknowledged_s": 15})
    finally:
        replicate_asynchronously(fleet)
