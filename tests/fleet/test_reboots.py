"""Hosts are rebooted, in order or by a loss of power: what ran there ends or runs once more, and all else runs once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fleet.fleet import WORKERS, Fleet, uptime
from tests.fleet.ledger import overlaps
from tests.fleet.rows import Row
from tests.support.site import wait_for

LONG_S = 600.0


@dataclass(frozen=True)
class Jobs:
    """The jobs of a host around its reboot."""

    ended: Sequence[int]
    lost: Sequence[int]
    """These run, without `--requeue`."""
    again: Sequence[int]
    """These run, with it."""
    waiting: Sequence[int]


def jobs_on(fleet: Fleet, chance: random.Random, host: str) -> Jobs:
    """Jobs that have ended there, that run on all of its devices, and that wait for one. Other hosts are drained."""
    for other in WORKERS:
        if other != host:
            fleet.drain(other)
    ended = [fleet.submit(0.2, code) for code in range(3)]
    fleet.wait(ended)
    devices = sum(device["host"] == host for device in fleet.get("/api/v1/gpus")[1])
    lost = [fleet.submit(LONG_S) for _ in range(devices // 2)]
    again = [fleet.submit(12, chance.randrange(4), requeue_on_node_fail=True) for _ in range(devices - len(lost))]
    running = [*lost, *again]
    wait_for(lambda: len(fleet.runs(running)) == devices, 60, lambda: str(fleet.get("/api/v1/jobs?state=waiting")))
    waiting = [fleet.submit(0.5, chance.randrange(4)) for _ in range(4)]
    return Jobs(ended, lost, again, waiting)


def reboot(fleet: Fleet, chance: random.Random, *hosts: str) -> dict[str, Any]:
    """Switch these hosts off at once, and on again one after the other; how, and when the last one was on."""
    in_order = chance.random() < 0.5
    time.sleep(chance.uniform(0.0, 1.0))
    at_once([lambda host=host: fleet.switch_off(host, in_order=in_order) for host in hosts])  # type: ignore[misc]
    time.sleep(chance.uniform(0.0, 5.0))
    for host in hosts:
        fleet.lab.boot(host)
    return {"in_order": in_order}


def at_once(acts: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check(fleet: Fleet, jobs: Jobs) -> list[str]:
    """What is wrong with these jobs, once all have ended."""
    states = fleet.wait([*jobs.ended, *jobs.lost, *jobs.again, *jobs.waiting])
    wrong = fleet.faults([*jobs.ended, *jobs.waiting])
    runs = fleet.runs()
    wrong += [f"job {job} is {states[job]}" for job in jobs.lost if states[job] != "NODE_FAIL"]
    wrong += [f"job {job} ran {len(runs[job])} times" for job in jobs.lost if len(runs[job]) != 1]
    wrong += fleet.wrong_codes(jobs.again)
    for job in jobs.again:
        wrong += overlaps(runs[job]) + [f"job {job} ran {len(runs[job])} times"] * (len(runs[job]) != 2)
    wrong += [
        f"the log of job {job} is {fleet.output(job)!r}"
        for job in (*jobs.ended, *jobs.lost, *jobs.again, *jobs.waiting)
        if f"{job} " not in fleet.output(job)
    ]
    return wrong


def a_reboot(fleet: Fleet, chance: random.Random) -> dict[str, Any]:
    """Of a host that runs jobs."""
    jobs = jobs_on(fleet, chance, "node")
    figures = reboot(fleet, chance, "node")
    booted = uptime()
    wrong = check(fleet, jobs)
    assert not wrong, wrong
    fleet.start()
    first = min(run.started for job in jobs.waiting for run in fleet.runs([job])[job])
    return {**figures, "first_run_s": round(first - booted, 2)}


@pytest.mark.short_form(2)
def test_reboots_of_a_host(fleet: Fleet, row: Row) -> None:
    row.repeat(lambda chance, _: a_reboot(fleet, chance))


def a_reboot_of_the_main_host(fleet: Fleet, chance: random.Random) -> dict[str, Any]:
    """With the host of the databases, while jobs run there and elsewhere."""
    fleet.drain("main")
    elsewhere = [fleet.submit(chance.uniform(5, 40), chance.randrange(4)) for _ in range(3)]
    wait_for(lambda: len(fleet.runs(elsewhere)) == len(elsewhere), 60)
    fleet.resume("main")
    jobs = jobs_on(fleet, chance, "main")
    figures = reboot(fleet, chance, "db", "main")
    booted = uptime()
    later = [fleet.submit(0.2)]
    wrong = check(fleet, jobs)
    fleet.wait([*elsewhere, *later])
    wrong += fleet.faults([*elsewhere, *later])
    assert not wrong, wrong
    fleet.start()
    [run] = fleet.runs(later)[later[0]]
    return {**figures, "first_run_s": round(run.started - booted, 2)}


@pytest.mark.short_form(2)
def test_reboots_of_the_main_host(fleet: Fleet, row: Row) -> None:
    row.repeat(lambda chance, _: a_reboot_of_the_main_host(fleet, chance))
