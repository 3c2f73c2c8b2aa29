"""A host is cut off around the launch of jobs there: what it has not claimed runs elsewhere soon, and nothing runs twice."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from tests.fleet.fleet import DISPATCHERS, WORKERS, Fleet, uptime
from tests.fleet.rows import Row
from tests.support.site import wait_for

JOBS = 4
ELSEWHERE_WITHIN_S = 15.0


def a_cut_in_the_launch_window(fleet: Fleet, chance: random.Random) -> dict[str, Any]:
    """Let some jobs start on a host that does not lead, and cut it off shortly before, while or after they are launched."""
    _, leader = fleet.leader()
    target = chance.choice([host for host in WORKERS if host != leader])
    others = [host for host in WORKERS if host != target]
    api = next(host for host in DISPATCHERS if host != target)
    for host in others:
        fleet.drain(host, api)
    jobs = [fleet.submit(0.5, hold=True, hosts=[api]) for _ in range(JOBS)]
    wait_for(lambda: not fleet.sql("SELECT 1 FROM requests"), 20)
    cutting = threading.Thread(target=fleet.lab.cut, args=[target])
    ahead_s = chance.uniform(-0.2, 0.6)  # a cut takes some 0.3 s
    if ahead_s > 0:
        cutting.start()
    time.sleep(abs(ahead_s))
    fleet.control("release", jobs, api)
    if ahead_s <= 0:
        cutting.start()
    cutting.join()
    cut_at = uptime()
    for host in others:
        fleet.resume(host, api)
    time.sleep(1.0)  # a claim that was on its way when the host was cut off is in the record by now
    unclaimed = fleet.sql(
        "SELECT job FROM attempts WHERE job = ANY(%s) AND host = %s AND claimed_at IS NULL", jobs, target
    )
    moved = [job for (job,) in unclaimed]
    wait_for(lambda: len(fleet.runs(moved)) == len(moved), 60, lambda: str(fleet.get(f"/api/v1/jobs/{moved[0]}", api)))
    fleet.lab.heal(target)
    fleet.wait(jobs)
    wrong = fleet.faults(jobs)
    assert not wrong, wrong
    elsewhere = [run.started - cut_at for job in moved for run in fleet.runs([job])[job] if run.host != target]
    assert len(elsewhere) == len(moved)
    return {
        "target": target,
        "jobs": len(jobs),
        "moved": len(moved),
        **({"elsewhere_after_s": round(max(elsewhere), 2)} if elsewhere else {}),
    }


@pytest.mark.short_form(5)
def test_cuts_in_the_launch_window(fleet: Fleet, row: Row) -> None:
    row.repeat(
        lambda chance, _: a_cut_in_the_launch_window(fleet, chance), p99={"elsewhere_after_s": ELSEWHERE_WITHIN_S}
    )
