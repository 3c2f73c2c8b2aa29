"""SIGKILL at random moments of a busy run: nothing acknowledged is lost, nothing runs twice, nothing dies with us.

The oracle is what the jobs themselves wrote to disk, compared with what the API answered.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.support.site import Site, wait_for

JOB = Path(__file__).with_name("ledger_job.py")
PARTS = ("dispatcher", "worker", "orders", "redis", "api")


class Run:
    """Submits steadily in one thread while another breaks things."""

    def __init__(self, site: Site, jobs: int, seed: int) -> None:
        self.site = site
        self.ledger = site.home / "ledger"
        self.jobs = jobs
        self.chance = random.Random(seed)
        self.acknowledged: list[int] = []
        self.kills: Counter[str] = Counter()

    def submit_all(self) -> None:
        for number in range(self.jobs):
            seconds = f"{0.2 + 0.8 * (number % 5) / 4:.1f}"
            command = (sys.executable, "-I", "-S", str(JOB), str(self.ledger), seconds)
            self.acknowledged.append(self.site.submit(*command, key=f"job {number}"))

    def break_things(self, times: int, pause: Callable[[], float]) -> None:
        while sum(self.kills.values()) < times:
            part = self.chance.choice((*PARTS, "flush"))
            if part == "flush":
                self.kills[part] += self._flush()
            else:
                self.kills[part] += self.site.kill(part)
            time.sleep(pause())  # the test's own rhythm of faults, not a wait for anything

    def _flush(self) -> int:
        try:
            redis.Redis(unix_socket_path=str(self.site.home / "run" / "redis.sock")).flushall()
        except redis.RedisError:
            return 0
        return 1

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []


def check(run: Run, within_s: float) -> None:
    """Every acknowledged job completed; each started once, in one attempt, and ended."""
    for job in run.acknowledged:
        found = run.site.wait(job, within_s=within_s)
        assert found["state"] == "COMPLETED", found
    said = run.lines()
    starts = Counter(int(job) for what, job, _ in said if what == "start")
    ends = Counter(int(job) for what, job, _ in said if what == "end")
    assert [line for line in said if line[0] == "double"] == []
    assert sorted(run.acknowledged) == sorted(set(run.acknowledged)), "a retried submission is the same job"
    assert starts == Counter(run.acknowledged), "each acknowledged job started exactly once"
    assert ends == starts, "no job was killed by our own deaths"


def torment(site: Site, jobs: int, kills: int, seed: int) -> Run:
    run = Run(site, jobs, seed)
    submitting = threading.Thread(target=run.submit_all)
    submitting.start()
    run.break_things(kills, lambda: run.chance.uniform(0.05, 1.2))
    submitting.join(120)
    assert not submitting.is_alive()
    return run


def test_fifty_kills_in_a_busy_run_lose_nothing_and_double_nothing() -> None:
    with Site(devices_cpu_count=2, devices_cpu_cores=1) as site:
        run = torment(site, jobs=60, kills=50, seed=20)
        check(run, within_s=90)
        assert sum(run.kills.values()) >= 50
        assert set(+run.kills) >= set(PARTS), "every part was killed at least once"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_a_long_torment(seed: int) -> None:
    with Site(devices_cpu_count=2, devices_cpu_cores=1) as site:
        check(torment(site, jobs=300, kills=200, seed=seed), within_s=300)


def test_everything_killed_at_once_comes_back_with_the_next_up() -> None:
    with Site() as site:
        command = (sys.executable, "-I", "-S", str(JOB), str(site.home / "ledger"), "6")
        running = site.submit(*command)
        waiting = site.submit(*command)
        site.wait(running, "RUNNING")
        for part in ("up", *PARTS):
            site.kill(part)
        wait_for(lambda: not any(site.pids(part) for part in PARTS), 10)

        site.up()

        for job in (running, waiting):
            assert site.wait(job)["state"] == "COMPLETED"
            assert len(site.job(job)["attempts"]) == 1
