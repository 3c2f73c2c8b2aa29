"""PostgreSQL's primary is lost and its replica is promoted: gpuq goes on with it, by the address that names both."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.fleet.fleet import Fleet
from tests.fleet.rows import Row
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
