"""The dispatcher that leads is killed, ended, suspended and cut off, and the standby takes over; jobs run on meanwhile."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.fleet.fleet import DISPATCHERS, Fleet
from tests.fleet.rows import Row
from tests.support.site import wait_for


def taken_over(fleet: Fleet, epoch: int, probe: int) -> bool:
    """Whether a later dispatcher than that of `epoch` has dealt with the submission `probe`."""
    [(found, waiting)] = fleet.sql(
        "SELECT epoch, EXISTS (SELECT 1 FROM requests WHERE job = %s) FROM leadership", probe
    )
    return bool(found > epoch and not waiting)


def a_takeover(fleet: Fleet, chance: random.Random, fault: str) -> dict[str, Any]:
    """Break the dispatcher that leads at a random moment of some jobs' lives; the figures, once the jobs have ended."""
    epoch, leader = wait_for(lambda: found if (found := fleet.leader())[1] else None, 20)
    assert leader is not None
    [other] = set(DISPATCHERS) - {leader}
    jobs = [fleet.submit(chance.uniform(0.2, 3.0), chance.randrange(4)) for _ in range(4)]
    time.sleep(chance.uniform(0.0, 2.0))
    if fault == "cut":
        fleet.lab.cut(leader)
    else:
        fleet.signal(leader, "gpuqd", fault)
    began = time.monotonic()
    probe = fleet.submit(0.1, hold=True, hosts=[other])
    wait_for(lambda: taken_over(fleet, epoch, probe), 30, lambda: fleet.journal(other, "gpuqd"))
    took = time.monotonic() - began
    if fault == "cut":
        time.sleep(chance.uniform(0.0, 5.0))
        fleet.lab.heal(leader)
    elif fault == "STOP":
        time.sleep(chance.uniform(0.0, 5.0))
        fleet.signal(leader, "gpuqd", "CONT")
    fleet.control("release", [probe], other)
    jobs.append(probe)
    fleet.wait(jobs)
    wrong = fleet.faults(jobs)
    assert not wrong, wrong
    wait_for(lambda: is_ready(fleet, leader), 60, lambda: fleet.journal(leader, "gpuqd"))
    return {"takeover_s": round(took, 2), "jobs": len(jobs)}


def is_ready(fleet: Fleet, host: str) -> bool:
    """Whether the dispatcher of a host leads or stands by; one that is started again in time may lead again."""
    shown = fleet.shell(host, "systemctl show -p ActiveState -p StatusText gpuqd").splitlines()
    role = "leader" if fleet.leader()[1] == host else "standby"
    return set(shown) == {"ActiveState=active", f"StatusText={role}"}


@pytest.mark.short_form(5)
def test_killed_dispatchers(fleet: Fleet, row: Row) -> None:
    row.repeat(lambda chance, _: a_takeover(fleet, chance, "KILL"), p99={"takeover_s": 10})


@pytest.mark.short_form(3)
def test_ended_dispatchers(fleet: Fleet, row: Row) -> None:
    row.repeat(lambda chance, _: a_takeover(fleet, chance, "TERM"), p99={"takeover_s": 3})


@pytest.mark.short_form(3)
def test_suspended_dispatchers(fleet: Fleet, row: Row) -> None:
    row.repeat(lambda chance, _: a_takeover(fleet, chance, "STOP"), p99={"takeover_s": 10})


@pytest.mark.short_form(3)
def test_cut_off_dispatchers(fleet: Fleet, row: Row) -> None:
    row.repeat(lambda chance, _: a_takeover(fleet, chance, "cut"), p99={"takeover_s": 10})
